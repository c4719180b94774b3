r"""PQMass: do two sets of samples put the same mass into random regions?"""

__all__ = ["Pqmass", "pqmass"]

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..errors import UsageError
from ..streams import generator
from .two_sample import TwoSample, TwoSampleResult, as_sets, tail

PER_REGION = 5  # below so many samples per region, the chi-squared distribution is a bad approximation


def _check(regions: int) -> None:
    if regions < 2:
        raise UsageError(f"regions={regions}: at least two are needed")


def _least(regions: int) -> int:
    return math.ceil(PER_REGION * regions / 2)


def _chi2(in_a: NDArray[np.float64], in_b: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Pearson's statistic of counts $(..., R)$ in two sets."""
    ratio = np.sqrt(in_a.sum(axis=-1) / in_b.sum(axis=-1))[..., None]
    both = in_a + in_b
    terms = np.divide((in_a / ratio - in_b * ratio) ** 2, both, out=np.zeros_like(both), where=both > 0)
    return np.asarray(terms.sum(axis=-1))


def _jackknife(values: NDArray[np.float64]) -> float:
    return float((len(values) - 1) * values.var())


def pqmass(
    a: ArrayLike,
    b: ArrayLike,
    *,
    regions: int = 20,
    permutations: int = 199,
    seed: int = 0,
    paired: bool = False,
) -> TwoSampleResult:
    r"""Returns PQMass' statistic: Pearson's $\chi^2$ of the counts of two sets of samples in random regions,

    $$ \chi^2 = \sum_r \frac{(\sqrt{m / n} \, A_r - \sqrt{n / m} \, B_r)^2}{A_r + B_r} . $$

    The regions are the Voronoi cells of points drawn from both sets. If both are from one distribution, the labels are
    exchangeable given the cells, and the expectation is exactly $(R - 1) N / (N - 1)$ with $N = n + m$. The p-value is
    that of the $\chi^2$ distribution; for pairs, whose members tend to share a cell, labels are swapped within them.
    The standard error is the jackknife's over samples or pairs.

    Arguments:
        a: The first set, with shape $(n, *event)$.
        b: The second set, with shape $(m, *event)$.
        regions: The number $R$ of regions.
        permutations: The number of swaps for pairs.
        seed: The seed of regions and swaps.
        paired: Whether $a_i$ and $b_i$ belong together.

    References:
        | PQMass: Probabilistic Assessment of the Quality of Generative Models Using Probability Mass Estimation (Lemos
          et al. 2025)
        | https://arxiv.org/abs/2402.04355
    """

    _check(regions)
    x, y = as_sets(a, b, f"pqmass with {regions} regions", _least(regions), paired)
    n = len(x)
    pooled = np.concatenate([x, y])
    rng = generator(seed, "pqmass")
    centers = pooled[rng.choice(len(pooled), regions, replace=False)]
    # Centers that coincide make one region.
    region = np.unique(scipy.spatial.distance.cdist(pooled, centers).argmin(axis=1), return_inverse=True)[1]
    one = np.eye(region.max() + 1)
    of_a, of_b = one[region[:n]], one[region[n:]]
    in_a, in_b = of_a.sum(axis=0), of_b.sum(axis=0)
    score, freedom = float(_chi2(in_a, in_b)), len(one) - 1
    if paired:
        both = in_a + in_b
        swaps = of_a - of_b
        null = (rng.choice((-1.0, 1.0), size=(permutations, n)) @ swaps) ** 2 @ (1 / both)
        stderr = math.sqrt(_jackknife(_chi2(in_a - of_a, in_b - of_b)))
        return TwoSampleResult(score, stderr, float((swaps**2).sum(axis=0) @ (1 / both)), tail(score, null))
    left_out = _chi2(in_a - one, in_b)[region[:n]], _chi2(in_a, in_b - one)[region[n:]]
    expected = freedom * len(pooled) / (len(pooled) - 1)
    pvalue = float(scipy.stats.chi2.sf(score, freedom)) if freedom else 1.0
    return TwoSampleResult(score, math.sqrt(sum(map(_jackknife, left_out))), expected, pvalue)


@dataclass(frozen=True)
class Pqmass(TwoSample):
    r"""PQMass as a metric of the runner; see `pqmass` and `TwoSample`.

    Arguments:
        regions: The number of regions in which samples are counted.
        permutations: The number of swaps in joint mode.
    """

    regions: int = 20
    permutations: int = 199

    name = "pqmass"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check(self.regions)

    @property
    def least(self) -> int:
        return _least(self.regions)

    def compare(self, a: NDArray[np.float64], b: NDArray[np.float64], seed: int, paired: bool) -> TwoSampleResult:
        return pqmass(a, b, regions=self.regions, permutations=self.permutations, seed=seed, paired=paired)
