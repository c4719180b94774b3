r"""Wasserstein distances: how far samples must be moved to turn one set into the other."""

__all__ = ["SlicedWasserstein", "Wasserstein", "sliced_wasserstein", "wasserstein"]

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..errors import UsageError
from ..streams import generator
from .two_sample import TwoSample, TwoSampleResult, as_sets, tail

ITERATIONS = 10_000_000  # of the simplex: far more than a few thousand samples need


def _stderr(of_a: NDArray[np.float64], of_b: NDArray[np.float64], paired: bool) -> float:
    r"""The standard error from the Kantorovich potentials, which are what each sample adds to the distance."""
    if paired:
        return float((of_a + of_b).std(ddof=1) / math.sqrt(len(of_a)))
    return math.sqrt(of_a.var(ddof=1) / len(of_a) + of_b.var(ddof=1) / len(of_b))


def wasserstein(a: ArrayLike, b: ArrayLike, *, paired: bool = False) -> TwoSampleResult:
    r"""Returns the Wasserstein-1 distance of two sets of samples: the Euclidean cost of the best transport,

    $$ W_1 = \min_{\gamma} \sum_{ij} \gamma_{ij} |a_i - b_j| , \quad
       \sum_j \gamma_{ij} = \frac{1}{n} , \ \sum_i \gamma_{ij} = \frac{1}{m} . $$

    It is exact (the network simplex of POT). Even for two sets from one distribution it is far above 0, at a value
    that depends on the distribution and on the numbers of samples: compare candidates at equal numbers only. There is
    no p-value, as every permutation would cost as much as the distance itself; `sliced_wasserstein` has one. The
    standard error is from the potentials and does not count that bias.

    Arguments:
        a: The first set, with shape $(n, *event)$.
        b: The second set, with shape $(m, *event)$.
        paired: Whether $a_i$ and $b_i$ belong together, for the standard error.

    References:
        | POT: Python Optimal Transport (Flamary et al. 2021)
        | https://pythonot.github.io
        | Central Limit Theorems for Empirical Transportation Cost in General Dimension (del Barrio & Loubes 2019)
    """

    import ot

    x, y = as_sets(a, b, "wasserstein", 2, paired)
    score, log = ot.emd2([], [], scipy.spatial.distance.cdist(x, y), numItermax=ITERATIONS, log=True)
    return TwoSampleResult(float(score), _stderr(np.asarray(log["u"]), np.asarray(log["v"]), paired))


def sliced_wasserstein(
    a: ArrayLike,
    b: ArrayLike,
    *,
    projections: int = 50,
    permutations: int = 199,
    seed: int = 0,
    paired: bool = False,
) -> TwoSampleResult:
    r"""Returns the sliced Wasserstein-1 distance: the mean over random directions of the distance along them,

    $$ SW_1 = E_\theta \int |F_{\theta \cdot a}(t) - F_{\theta \cdot b}(t)| \, dt . $$

    The points are sorted once per direction; then the distance is a sum over gaps, for every permutation of the
    labels. So there is an exact p-value, and the expectation is the mean over permutations.

    Arguments:
        a: The first set, with shape $(n, *event)$.
        b: The second set, with shape $(m, *event)$.
        projections: The number of random directions.
        permutations: The number of permutations; without any, there is no p-value and no expectation.
        seed: The seed of directions and permutations.
        paired: Whether $a_i$ and $b_i$ belong together: they are then swapped with each other only.

    References:
        | Sliced and Radon Wasserstein Barycenters of Measures (Bonneel et al. 2015)
        | https://doi.org/10.1007/s10851-014-0506-3
    """

    if projections < 1:
        raise UsageError(f"projections={projections}: at least one is needed")
    x, y = as_sets(a, b, "sliced_wasserstein", 2, paired)
    n, m = len(x), len(y)
    pooled = np.concatenate([x, y])
    directions = generator(seed, "directions").standard_normal((projections, x.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    weights = np.empty((1 + permutations, n + m))
    weights[0] = np.repeat([1 / n, -1 / m], [n, m])
    rng = generator(seed, "permutations")
    if paired:
        swapped = rng.choice((-1.0, 1.0), size=(permutations, n))
        weights[1:] = np.concatenate([swapped, -swapped], axis=1) / n
    else:
        weights[1:] = rng.permuted(np.broadcast_to(weights[0], (permutations, n + m)), axis=1)
    total, potential = np.zeros(len(weights)), np.zeros(n + m)
    for direction in directions:
        along = np.einsum("nd,d->n", pooled, direction)
        order = np.argsort(along, kind="stable")
        gaps = np.diff(along[order])
        above = np.cumsum(weights[:, order[:-1]], axis=1)  # F_a - F_b in each gap
        total += np.einsum("pk,k->p", np.abs(above), gaps)
        potential[order[1:]] += np.cumsum(np.sign(above[0]) * gaps)
    total, potential = total / projections, potential / projections
    score, null = float(total[0]), total[1:]
    stderr = _stderr(potential[:n], -potential[n:], paired)
    return TwoSampleResult(score, stderr, float(null.mean()) if permutations else math.nan, tail(score, null))


@dataclass(frozen=True)
class Wasserstein(TwoSample):
    r"""The Wasserstein-1 distance as a metric of the runner; see `wasserstein` and `TwoSample`."""

    name = "wasserstein"
    packages = ("POT",)

    def compare(self, a: NDArray[np.float64], b: NDArray[np.float64], seed: int, paired: bool) -> TwoSampleResult:
        return wasserstein(a, b, paired=paired)


@dataclass(frozen=True)
class SlicedWasserstein(TwoSample):
    r"""The sliced Wasserstein-1 distance as a metric of the runner; see `sliced_wasserstein` and `TwoSample`.

    Arguments:
        projections: The number of random directions.
        permutations: The number of permutations of the labels, for the p-value.
    """

    fiducials: int = 16
    projections: int = 50
    permutations: int = 199

    name = "sliced_wasserstein"
    packages = ("POT",)

    def compare(self, a: NDArray[np.float64], b: NDArray[np.float64], seed: int, paired: bool) -> TwoSampleResult:
        return sliced_wasserstein(
            a, b, projections=self.projections, permutations=self.permutations, seed=seed, paired=paired
        )
