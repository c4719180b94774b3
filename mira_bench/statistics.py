r"""The few statistics that metrics and ranking share. The fiducial is always the unit."""

__all__ = [
    "all_pairs",
    "farther_pvalue",
    "holm",
    "mean_stderr",
    "paired_pvalue",
    "separations",
    "skewed_interval",
    "uniform_pvalue",
]

import math
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import special

from .errors import UsageError

FEW_FIDUCIALS = 30  # below, paired differences are tested by flipping their signs
MANY_FIDUCIALS = 2000  # above, sums with random signs are normal


def mean_stderr(values: NDArray[np.floating]) -> tuple[float, float]:
    r"""Returns the mean and its standard error (NaN for a single value)."""

    values = np.asarray(values, np.float64)
    stderr = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return float(values.mean()), float(stderr)


def skewed_interval(values: NDArray[np.floating], stderr: float, level: float) -> tuple[float, float]:
    r"""Returns the confidence interval of a mean: Student's, corrected for the skewness of the values.

    Scores per fiducial are skewed, and Student's interval then misses on one side. Hall's monotone transformation
    removes that to second order: at 6 fiducials the 95 % interval covers 93-96 % instead of 92-94 %. What it cannot
    know are values that are rare and were not drawn: with a skewness of 2 to 5 it covers 89-93 % up to 100 fiducials,
    and what it misses lies beyond its longer side.

    Arguments:
        values: The values, with shape $(L,)$.
        stderr: The standard error of their mean.
        level: The level of the interval.

    References:
        | On the Removal of Skewness by Transformation (Hall 1992)
    """

    if not 0 < level < 1:
        raise UsageError(f"level={level}: a level between 0 and 1 is needed, such as 0.95")
    x = np.asarray(values, np.float64)
    count, mean = len(x), float(x.mean())
    if count < 2:
        return math.nan, math.nan
    spread = float(x.std())
    skewness = float(np.mean((x - mean) ** 3)) / spread**3 if spread > 1e-12 * abs(mean) else 0.0
    if stderr > 0:
        # What the standard error has beyond these values (a shared sample set) is taken as symmetric.
        skewness *= (spread / math.sqrt(count - 1) / stderr) ** 3
    a = skewness / (3 * math.sqrt(count))

    def inverse(w: float) -> float:
        if abs(a) < 1e-6:
            return w
        return float((np.cbrt(1 + 3 * a * (w - a / 2)) - 1) / a)

    q = float(special.stdtrit(count - 1, 0.5 + level / 2))
    return mean - stderr * inverse(q), mean - stderr * inverse(-q)


def uniform_pvalue(ranks: NDArray[np.integer], samples: int, rng: np.random.Generator) -> tuple[float, float]:
    r"""Tests ranks for uniformity on $\{0, \dots, S\}$; returns the Kolmogorov-Smirnov D and its p-value.

    $(J + U) / (S + 1)$ with $U \sim \mathcal{U}(0, 1)$ is exactly uniform on $[0, 1]$ under the null, for every S.
    """

    u = (ranks + rng.random(len(ranks))) / (samples + 1)
    test = scipy.stats.kstest(u, "uniform")
    return float(test.statistic), float(test.pvalue)


def farther_pvalue(compare: Callable[[int], float]) -> float:
    r"""Returns the p-value of two deviations from an expectation being equally large, on whichever side.

    $|a| = |b|$ holds if $a = b$ or if $a = -b$: it is rejected when both are (an intersection-union test).

    Arguments:
        compare: Returns the p-value of $a - s b$ having a mean of zero, for a sign $s$.

    References:
        | Multiparameter Hypothesis Testing and Acceptance Sampling (Berger 1982)
    """

    return max(compare(1), compare(-1))


def paired_pvalue(differences: NDArray[np.floating], rng: np.random.Generator, extra: float = 0.0) -> float:
    r"""Two-sided p-value of a mean difference over fiducials: Student's t, or sign flips when there are few.

    Arguments:
        differences: The differences of two candidates, with shape $(L,)$.
        rng: Draws signs.
        extra: The variance of the mean difference that its scatter over fiducials does not show: that of sample sets
            which fiducials share.
    """

    d = np.asarray(differences, np.float64)
    if len(d) < 2 or not np.any(d):
        return 1.0
    if len(d) >= FEW_FIDUCIALS:
        mean, stderr = mean_stderr(d)
        stderr = math.hypot(stderr, extra**0.5)
        return float(2 * special.stdtr(len(d) - 1, -abs(mean) / stderr)) if stderr > 0 else 0.0
    flipped = np.abs(_signs(len(d), rng) @ d)
    return float(np.mean(flipped >= abs(d.sum()) * _shrinking(d[None], np.array([extra]))[0] * (1 - 1e-12)))


def _shrinking(values: NDArray[np.float64], extra: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""By how much smaller sums of rows $(P, L)$ count if their means vary more than the rows show, $(P,)$.

    Student's t of each row is divided by the root of its variance's growth, and turned into a sum again.
    """
    if not extra.any():
        return np.ones(len(values))
    count = values.shape[1]
    mean, variance = values.mean(axis=1), values.var(axis=1, ddof=1) / count
    grown = variance + extra
    # t^2 / (L - 1 + t^2) is the square of the mean over the mean square, whatever the unit.
    before, after = mean**2 / np.where(variance > 0, variance, 1.0), mean**2 / np.where(grown > 0, grown, 1.0)
    share = np.sqrt(after * (count - 1 + before) / np.where(before > 0, before * (count - 1 + after), 1.0))
    still = np.sqrt(after / (count - 1 + after))  # all differences are the same
    return np.where(variance > 0, np.where(before > 0, share, 1.0), np.where(extra > 0, still, 1.0))


def _signs(count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    r"""All signs of so many values, or 9,999 random ones and those of the values themselves."""
    if count <= 13:
        return np.asarray(1 - 2 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1))
    return np.vstack([np.ones(count, int), rng.choice((-1, 1), size=(9999, count))])


def _flipped_sums(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    r"""The sums of values $(L, P)$ over fiducials with random signs, $(B, P)$."""
    if len(values) <= MANY_FIDUCIALS:
        return np.asarray(_signs(len(values), rng) @ values)
    # Sums of so many have the normal law of the same covariance, and signs would fill the memory.
    root = np.linalg.qr(values, mode="r")
    return np.asarray(rng.standard_normal((9999, len(root))) @ root)


def separations(
    values: NDArray[np.floating], rng: np.random.Generator, extra: NDArray[np.floating] | None = None
) -> NDArray[np.float64]:
    r"""Returns p-values of all pairs of candidates having the same mean score, that hold for all of them together.

    Whoever is best was chosen by the data, so a comparison with the best is one of all pairs. The largest $|t|$ of all
    pairs is compared with its law when the signs of the fiducials' differences are flipped, the same for all pairs
    (single-step max-T), which knows that candidates are correlated and is sharper than Bonferroni.

    Arguments:
        values: The scores of $k$ candidates on the same fiducials, with shape $(k, L)$; NaN if there are none.
        rng: Draws the signs.
        extra: The variance of each candidate's mean score that comes from sample sets which fiducials share, $(k,)$.
            The sets of two candidates are independent, so that of their difference is the sum.

    Returns:
        Symmetric p-values $(k, k)$, 1 on the diagonal, NaN where there is no score.

    References:
        | Resampling-Based Multiple Testing (Westfall & Young 1993)
        | The Model Confidence Set (Hansen, Lunde & Nason 2011), which is the set of those that nobody beats
    """

    scores = np.asarray(values, np.float64)
    known = np.flatnonzero(~np.isnan(scores).any(axis=1))
    out = np.full((len(scores), len(scores)), np.nan)
    out[known, known] = 1.0
    first, second = (known[i] for i in np.triu_indices(len(known), 1))
    count = scores.shape[1]
    if len(first) == 0:
        return out
    pvalues = np.ones(len(first))
    differences = scores[first] - scores[second]
    unequal = np.flatnonzero(np.abs(differences).max(axis=1) > 0)
    if count > 1 and len(unequal):
        d = differences[unequal]
        # Relative to the root of the mean square, which no flip changes: so flips are exact where differences are
        # symmetric. About the mean they would lack the tails of Student's law, with 14 % for 5 % at 32 fiducials.
        relative = d / np.abs(d).max(axis=1, keepdims=True)
        relative /= np.sqrt(np.mean(relative**2, axis=1, keepdims=True))
        sums = np.abs(_flipped_sums(relative.T, rng))
        own = np.abs(relative.sum(axis=1)) * (1 - 1e-12)
        more = np.zeros(len(d))
        if extra is not None:
            variances = np.asarray(extra, np.float64)
            more = (
                (variances[first] + variances[second])[unequal] * np.mean(relative**2, axis=1) / np.mean(d**2, axis=1)
            )
            own = own * _shrinking(relative, more)
        if count < FEW_FIDUCIALS:
            raw = np.mean(sums >= own, axis=0)
        else:
            raw = np.array([paired_pvalue(row, rng, one) for row, one in zip(relative, more, strict=True)])
        flipped = np.sort(sums.max(axis=1))
        together = 1 - np.searchsorted(flipped, own) / len(flipped)
        together = np.maximum(together, 1 / len(flipped))
        # Neither is below the p-value of the pair alone, and the smaller of two bounds is one.
        pvalues[unequal] = np.minimum(np.maximum(together, raw), np.minimum(1.0, raw * len(first)))
    out[first, second] = out[second, first] = pvalues
    return out


def all_pairs(count: int, compare: Callable[[int, int], float]) -> NDArray[np.float64]:
    r"""Returns p-values of all pairs of $k$ candidates, by Holm's adjustment for all of them together, $(k, k)$.

    Arguments:
        count: The number of candidates.
        compare: Returns the p-value of the candidates $i$ and $j$ being equally good, NaN if it is not known.
    """

    out = np.full((count, count), np.nan)
    np.fill_diagonal(out, 1.0)
    first, second = np.triu_indices(count, 1)
    pvalues = np.array([compare(int(i), int(j)) for i, j in zip(first, second, strict=True)])
    known = ~np.isnan(pvalues)
    pvalues[known] = holm(pvalues[known])
    out[first, second] = out[second, first] = pvalues
    return out


def holm(pvalues: NDArray[np.floating]) -> NDArray[np.float64]:
    r"""Holm's adjustment: p-values that hold for all the comparisons together."""

    p = np.asarray(pvalues, np.float64)
    order = np.argsort(p)
    steps = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(p) else steps
    return adjusted
