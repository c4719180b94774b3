r"""The maximum mean discrepancy: the distance of two mean embeddings."""

__all__ = ["Mmd", "mmd"]

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..errors import UsageError
from ..streams import generator
from .two_sample import TwoSample, TwoSampleResult, as_sets, tail


def _kernel(pooled: NDArray[np.float64], bandwidth: float | None) -> NDArray[np.float64]:
    r"""The kernel matrix of all points, with zeros on the diagonal."""
    distances = scipy.spatial.distance.pdist(pooled)
    width = float(np.median(distances)) if bandwidth is None else bandwidth
    width = width or float(distances.mean()) or 1.0  # more than half of the points are the same
    # In place: on half a million distances, new arrays would cost more than the exponentials.
    distances /= width
    distances *= distances
    distances *= -0.5
    return np.asarray(scipy.spatial.distance.squareform(np.exp(distances, out=distances), checks=False))


def _independent(kernel: NDArray[np.float64], n: int, permutations: int, rng: np.random.Generator) -> TwoSampleResult:
    size = len(kernel)
    m = size - n
    to_a, to_b = kernel[:, :n].sum(axis=1), kernel[:, n:].sum(axis=1)
    # What each point adds: its mean similarity to its own side minus that to the other.
    of_a = to_a[:n] / (n - 1) - to_b[:n] / m
    of_b = to_b[n:] / (m - 1) - to_a[n:] / n
    score = float(of_a.mean() + of_b.mean())
    stderr = 2 * math.sqrt(of_a.var(ddof=1) / n + of_b.var(ddof=1) / m)
    sides = rng.permuted(np.broadcast_to(np.arange(size) < n, (permutations, size)), axis=1).astype(np.float64)
    aa = np.einsum("ij,ij->i", sides @ kernel, sides)
    ab = sides @ (to_a + to_b) - aa
    bb = float(kernel.sum()) - aa - 2 * ab
    null = aa / (n * (n - 1)) + bb / (m * (m - 1)) - 2 * ab / (n * m)
    return TwoSampleResult(score, stderr, 0.0, tail(score, null))


def _paired(kernel: NDArray[np.float64], n: int, permutations: int, rng: np.random.Generator) -> TwoSampleResult:
    cross = kernel[:n, n:]
    pairs = kernel[:n, :n] + kernel[n:, n:] - cross - cross.T
    np.fill_diagonal(pairs, 0.0)  # a pair shares its observation: its own similarity says nothing
    of_pair = pairs.sum(axis=1) / (n - 1)
    score = float(of_pair.mean())
    signs = rng.choice((-1.0, 1.0), size=(permutations, n))  # swapping a pair flips the sign of its row and column
    null = np.einsum("ij,ij->i", signs @ pairs, signs) / (n * (n - 1))
    return TwoSampleResult(score, float(2 * of_pair.std(ddof=1) / math.sqrt(n)), 0.0, tail(score, null))


def mmd(
    a: ArrayLike,
    b: ArrayLike,
    *,
    bandwidth: float | None = None,
    permutations: int = 199,
    seed: int = 0,
    paired: bool = False,
) -> TwoSampleResult:
    r"""Returns the unbiased squared maximum mean discrepancy of two sets of samples,

    $$ MMD^2 = \frac{1}{n (n - 1)} \sum_{i \neq j} k(a_i, a_j) + \frac{1}{m (m - 1)} \sum_{i \neq j} k(b_i, b_j)
       - \frac{2}{n m} \sum_{i, j} k(a_i, b_j) , $$

    with $k(u, v) = \exp(-|u - v|^2 / 2 h^2)$ and $h$ the median distance of all points. Its expectation is exactly 0
    if both sets are from one distribution, so it may be negative. The standard error is that of its projection on
    single samples. The p-value is exact: labels are permuted, or swapped within pairs.

    One matrix of $(n + m)^2$ numbers is held, whatever the dimension.

    Arguments:
        a: The first set, with shape $(n, *event)$.
        b: The second set, with shape $(m, *event)$.
        bandwidth: The bandwidth $h$, by default the median distance.
        permutations: The number of permutations; without any, there is no p-value.
        seed: The seed of the permutations.
        paired: Whether $a_i$ and $b_i$ belong together. The last sum is then over $i \neq j$ too, which keeps the
            expectation at 0.

    References:
        | A Kernel Two-Sample Test (Gretton et al. 2012), Lemma 6
        | https://jmlr.org/papers/v13/gretton12a.html
    """

    if bandwidth is not None and not 0 < bandwidth < math.inf:
        raise UsageError(f"bandwidth={bandwidth}: a positive number is needed")
    x, y = as_sets(a, b, "mmd", 2, paired)
    test = _paired if paired else _independent
    return test(_kernel(np.concatenate([x, y]), bandwidth), len(x), permutations, generator(seed, "mmd"))


@dataclass(frozen=True)
class Mmd(TwoSample):
    r"""The squared maximum mean discrepancy as a metric of the runner; see `mmd` and `TwoSample`.

    Arguments:
        bandwidth: The bandwidth of the kernel, by default the median distance of each comparison.
        permutations: The number of swaps in joint mode. With a reference, fiducials are the test.
    """

    bandwidth: float | None = None
    permutations: int = 199

    name = "mmd"

    def compare(self, a: NDArray[np.float64], b: NDArray[np.float64], seed: int, paired: bool) -> TwoSampleResult:
        swaps = self.permutations if paired else 0
        return mmd(a, b, bandwidth=self.bandwidth, permutations=swaps, seed=seed, paired=paired)
