r"""The few statistics that metrics and ranking share. The fiducial is always the unit."""

__all__ = ["farther_pvalue", "holm", "mean_stderr", "paired_pvalue", "skewed_interval", "uniform_pvalue"]

import math
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import special

from .errors import UsageError

FEW_FIDUCIALS = 30  # below, paired differences are tested by flipping their signs


def mean_stderr(values: NDArray[np.floating]) -> tuple[float, float]:
    r"""Returns the mean and its standard error (NaN for a single value)."""

    values = np.asarray(values, np.float64)
    stderr = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return float(values.mean()), float(stderr)


def skewed_interval(values: NDArray[np.floating], stderr: float, level: float) -> tuple[float, float]:
    r"""Returns the confidence interval of a mean: Student's, corrected for the skewness of the values.

    Scores per fiducial are skewed, and Student's interval then misses on one side. Hall's monotone transformation
    removes that to second order: at 6 fiducials the 95 % interval covers 93-96 % instead of 92-94 %.

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


def paired_pvalue(differences: NDArray[np.floating], rng: np.random.Generator) -> float:
    r"""Two-sided p-value of a mean difference over fiducials: Student's t, or sign flips when there are few."""

    d = np.asarray(differences, np.float64)
    if len(d) < 2 or not np.any(d):
        return 1.0
    if len(d) >= FEW_FIDUCIALS:
        mean, stderr = mean_stderr(d)
        return float(2 * special.stdtr(len(d) - 1, -abs(mean) / stderr)) if stderr > 0 else 0.0
    if len(d) <= 13:
        signs = 1 - 2 * ((np.arange(2 ** len(d))[:, None] >> np.arange(len(d))) & 1)
    else:
        signs = np.vstack([np.ones(len(d), int), rng.choice((-1, 1), size=(9999, len(d)))])
    flipped = np.abs(signs @ d)
    return float(np.mean(flipped >= abs(d.sum()) * (1 - 1e-12)))


def holm(pvalues: NDArray[np.floating]) -> NDArray[np.float64]:
    r"""Holm's adjustment: p-values that hold for all the comparisons together."""

    p = np.asarray(pvalues, np.float64)
    order = np.argsort(p)
    steps = p[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(p) else steps
    return adjusted
