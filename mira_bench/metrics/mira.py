r"""The MIRA score (Sharief, Zeghal et al. 2026), averaged exactly over its references."""

__all__ = ["Mira", "MiraResult", "mira"]

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from ..arrays import Array, as_pair
from ..errors import UsageError
from ..metric import Block, Record, Scores
from ..players import expected_score, play, region_score
from ..ranks import available_threads, ball_ranks, sample_influence, uniform_centers
from ..scaling import EXCHANGEABLE, Scale, Scaling, as_bounds
from ..statistics import mean_stderr, skewed_interval
from ..streams import generator

NULL_FIDUCIALS = 256  # up to so many, the null is simulated exactly; beyond, its variance comes from the first ones
REPLICATES = 9999


@dataclass(frozen=True)
class Null:
    r"""The score of a perfect candidate minus its expectation, from some of the fiducials.

    Arguments:
        sums: Sums over those fiducials, one per replicate, with shape $(B,)$.
        count: The number of those fiducials.
    """

    sums: NDArray[np.float64]
    count: int

    @property
    def deviation(self) -> float:
        r"""The standard deviation for a single fiducial."""
        return float(self.sums.std() / math.sqrt(self.count))


@dataclass(frozen=True)
class MiraResult:
    r"""The MIRA score of one candidate, with all that can be said about its uncertainty.

    Arguments:
        ranks: The ball ranks $J$, with shape $(L, R)$.
        samples: The number of samples $S$.
        per_fiducial: The score of each fiducial: its mean over regions, with shape $(L,)$.
        normalize: The normalization that was used (what `auto` became).
        reference: `"all"` or `"drawn"`.
        scale: `"exact"` or `"reference"`.
        shared_variance: The variance that comes from sample sets shared between fiducials.
        find_null: Computes the null; it is called once, when the null is asked for.
    """

    ranks: NDArray[np.int32]
    samples: int
    per_fiducial: NDArray[np.float64]
    normalize: str
    reference: str
    scale: str
    shared_variance: float | None = None
    find_null: Any = field(default=None, repr=False)

    @property
    def score(self) -> float:
        r"""The mean over fiducials."""
        return float(self.per_fiducial.mean())

    @property
    def stderr(self) -> float:
        r"""The standard error over fiducials, with the variance of shared sample sets added."""
        error = mean_stderr(self.per_fiducial)[1]
        return error if self.shared_variance is None else math.hypot(error, self.shared_variance**0.5)

    @property
    def expected(self) -> float:
        r"""The score of a perfect candidate: $(2S + 1) / (3(S + 1))$, exactly."""
        return expected_score(self.samples) * _stretch(self.scale, self.samples)

    @property
    def sigmas(self) -> float:
        r"""The deviation from the expectation in null standard deviations."""
        sd = self.null_stderr
        return (self.score - self.expected) / sd if sd > 0 else 0.0

    @cached_property
    def null(self) -> Null:
        r"""The null distribution, every point of a fiducial playing the truth."""
        if self.find_null is None:
            raise UsageError("the null of this score was not computed")
        null: Null = self.find_null()
        return null

    @property
    def null_stderr(self) -> float:
        r"""The standard deviation that the score of a perfect candidate would have with these regions."""
        fiducials, regions = self.ranks.shape
        variance = self.null.deviation**2 / fiducials
        if self.reference == "drawn":
            variance += _drawn_variance(self.samples) / (fiducials * regions)
        return math.sqrt(variance + (self.shared_variance or 0.0)) * _stretch(self.scale, self.samples)

    @property
    def paper_band(self) -> float:
        r"""The paper's $\sqrt{1 / (18 L)}$, which ignores that a fiducial averages over its regions."""
        return math.sqrt(1 / (18 * len(self.per_fiducial)))

    @cached_property
    def pvalue(self) -> float:
        r"""The two-sided p-value of the score under the null.

        It is exact (up to Monte-Carlo error) for at most 256 fiducials under an exchangeable normalization and
        independent samples; beyond that, and for shared sample sets, the null is normal with its exact variance.
        """
        fiducials = len(self.per_fiducial)
        deviation = abs(self.score - self.expected) / _stretch(self.scale, self.samples)
        if self.shared_variance is not None or self.null.count < fiducials:
            return float(2 * stats.norm.sf(abs(self.sigmas)))
        draws = self.null.sums / fiducials
        if self.reference == "drawn":
            noise = math.sqrt(_drawn_variance(self.samples) / self.ranks.size)
            draws = draws + noise * generator(0, "drawn null").standard_normal(len(draws))
        # Averages of the same ranks in another order differ in their last bits: those are equal, not smaller.
        extreme = np.count_nonzero(np.abs(draws) >= deviation * (1 - 1e-9) - 1e-12)
        return (1 + int(extreme)) / (1 + len(draws))

    @property
    def exchangeable(self) -> bool:
        r"""Whether the normalization treats the truth like a sample, as the null assumes."""
        return self.normalize in EXCHANGEABLE

    @property
    def tilt(self) -> float:
        r"""$E[J / S] - 1/2$: informative, but not the same as a bias."""
        return float(self.ranks.mean() / self.samples - 0.5)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        r"""Returns the confidence interval of the candidate's score: Student's, corrected for skewness."""
        return skewed_interval(self.per_fiducial, self.stderr, level)

    def bootstrap(self, count: int = 1000, seed: int = 0) -> NDArray[np.float64]:
        r"""Returns scores of resampled fiducials, with shape `(count,)`. No region is recomputed."""
        fiducials = len(self.per_fiducial)
        weights = generator(seed, "bootstrap").multinomial(fiducials, [1 / fiducials] * fiducials, count)
        return weights @ self.per_fiducial / fiducials

    def difference(self, other: "MiraResult") -> tuple[float, float]:
        r"""Returns the paired difference to another candidate on the same fiducials, and its standard error."""
        return mean_stderr(self.per_fiducial - other.per_fiducial)


def _stretch(scale: str, samples: int) -> float:
    # mira-score divides by its largest possible value, S / (S + 1).
    return (samples + 1) / samples if scale == "reference" else 1.0


def _drawn_variance(samples: int) -> float:
    r"""The variance that one drawn reference adds to one region, $E[Var(P | J)]$, for J uniform on 0..S."""
    j, k = np.arange(samples + 1)[:, None], np.arange(samples)[None, :]
    p = np.where(k >= j, k + 1, samples - k) / (samples + 1)
    return float(p.var(axis=1).mean())


def _region_scores(
    ranks: NDArray[np.int32],
    samples: int,
    reference: str,
    scale: str,
    seed: int,
    index: NDArray[np.integer],
) -> NDArray[np.float64]:
    if reference == "all":
        score = region_score(ranks, samples)
    else:
        # Algorithm 1: the drawn reference has n samples before it, n uniform on 0..S-1 whatever the truth's rank.
        rows = [generator(seed, "references", int(i)).integers(samples, size=ranks.shape[1]) for i in index]
        n = np.stack(rows)
        score = np.where(n >= ranks, n + 1, samples - n) / (samples + 1)
    return score * _stretch(scale, samples)


def _check(regions: int, reference: str, scale: str) -> None:
    if int(regions) < 1:
        raise UsageError(f"regions={regions}: at least one region is needed")
    if reference not in ("all", "drawn"):
        raise UsageError(f"reference={reference!r} is not one of all, drawn")
    if scale not in ("exact", "reference"):
        raise UsageError(f"scale={scale!r} is not one of exact, reference")


def _shared_terms(
    truths: NDArray[np.float64],
    samples: Array,
    scale: Scale,
    seed: int,
    ranks: NDArray[np.int32],
    groups: NDArray,
    index: NDArray[np.integer],
) -> dict[Any, NDArray[np.float64]]:
    r"""Per group, the sum over its fiducials of each shared sample's influence on the score."""
    count, regions = samples.shape[1], ranks.shape[1]
    centers = uniform_centers(seed, regions, truths.shape[1])
    terms = {}
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        u = ranks[rows] / count
        slope = (1 - 2 * u) * count / (count + 1) / regions
        part = Scale(scale.name, *(r if len(r) == 1 else r[rows] for r in (scale.low, scale.width)))
        closer = sample_influence(truths[rows], samples[rows[0]], part, centers, slope, index[rows])
        terms[group] = closer - np.sum(slope * u)
    return terms


def _shared_variance(terms: list[NDArray[np.float64]], fiducials: int) -> float:
    return float(sum(np.var(t / fiducials, ddof=1) / len(t) for t in terms if len(t) > 1))


def mira(
    truths: ArrayLike,
    samples: ArrayLike,
    *,
    regions: int = 100,
    seed: int = 0,
    normalize: str = "auto",
    reference: str = "all",
    scale: str = "exact",
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    groups: ArrayLike | None = None,
    threads: int | None = None,
) -> MiraResult:
    r"""Returns the MIRA score of a candidate's samples.

    Random balls are drawn around random centers; $J$ counts the samples closer to the center than the truth. The
    paper draws one reference sample per ball. Averaged over all of them, its statistic is

    .. math:: P(J) = \frac{1}{2} + \frac{J (S - J)}{S (S + 1)} ,

    whose mean over regions and fiducials is the score: $(2S + 1) / (3(S + 1))$ for a perfect candidate, less for an
    overconfident or shifted one, more for an underconfident one.

    Arguments:
        truths: The truths, with shape $(L, *event)$.
        samples: The samples of the candidate, with shape $(L, S, *event)$.
        regions: The number of regions per fiducial.
        seed: The seed of centers and ties.
        normalize: The scale of the distances, see `mira_bench.scaling`.
        reference: `"all"` averages over all references, `"drawn"` is Algorithm 1 as printed.
        scale: `"exact"`, or `"reference"` for mira-score's division by $S / (S + 1)$.
        bounds: The range `(low, high)` that `normalize="task"` uses, e.g. the prior box.
        groups: Labels with shape $(L,)$ of fiducials that share one sample set; widens the standard error.
        threads: The number of threads, by default all cores. The result does not depend on it.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truths, samples = rng.normal(size=(500, 2)), rng.normal(size=(500, 100, 2))
        >>> result = mira(truths, samples)
        >>> abs(result.score - result.expected) < 4 * result.stderr
        True

    References:
        | MIRA: A Score for Conditional Distribution Accuracy and Model Comparison (Sharief, Zeghal et al. 2026)
    """

    _check(regions, reference, scale)
    y, values = as_pair(truths, samples)
    index = np.arange(len(y))
    scaling = Scaling(y, task=as_bounds(bounds, y.shape[1]))
    ruler = scaling.scale(normalize, values, index)
    centers = uniform_centers(seed, regions, y.shape[1])
    workers = threads or available_threads()
    ranks = ball_ranks(y, values, ruler, centers, seed=seed, threads=workers)
    shared = None
    if groups is not None:
        labels = np.asarray(groups)
        if labels.shape != (len(y),):
            raise UsageError(f"groups has shape {labels.shape}; one label per fiducial is needed: ({len(y)},)")
        terms = _shared_terms(y, values, ruler, seed, ranks, labels, index)
        shared = _shared_variance([t for g, t in terms.items() if np.sum(labels == g) > 1], len(y))

    def find_null() -> Null:
        return _null(y, values, scaling, normalize, regions, seed, index)

    per_fiducial = _region_scores(ranks, values.shape[1], reference, scale, seed, index).mean(axis=1)
    return MiraResult(ranks, values.shape[1], per_fiducial, ruler.name, reference, scale, shared, find_null)


def _null(
    truths: NDArray[np.float64],
    samples: Array,
    scaling: Scaling,
    normalize: str,
    regions: int,
    seed: int,
    index: NDArray[np.integer],
) -> Null:
    count = int(np.count_nonzero(index < NULL_FIDUCIALS))
    if count == 0:
        return Null(np.zeros(REPLICATES), 0)
    # Indices grow, so these come first: a slice, because a list of rows would copy the samples.
    y, values, index = truths[:count], samples[:count], index[:count]
    ruler = scaling.scale(normalize, values, index)
    result = play(
        y, values, ruler, uniform_centers(seed, regions, truths.shape[1]),
        axes=np.empty((0, truths.shape[1])), trend=np.empty((count, 0)),
        seed=seed, index=index, replicates=REPLICATES,
    )  # fmt: skip
    return Null(result.null[:, 0], count)


@dataclass(frozen=True)
class Mira:
    r"""MIRA as a metric of the runner; see `mira`."""

    regions: int = 100
    normalize: str = "auto"
    reference: str = "all"
    scale: str = "exact"

    name = "mira"
    version = 1

    def __post_init__(self) -> None:
        _check(self.regions, self.reference, self.scale)

    def observe(self, block: Block) -> Record:
        y, values, index = block.truths, block.samples, block.index
        ruler = block.scale(self.normalize)
        centers = uniform_centers(block.seed, self.regions, y.shape[1])
        ranks = ball_ranks(y, values, ruler, centers, seed=block.seed, index=index, name=block.name)
        null = _null(y, values, block.scaling, self.normalize, self.regions, block.seed, index)
        scores = _region_scores(ranks, values.shape[1], self.reference, self.scale, block.seed, index)
        record = {
            "ranks": ranks,
            "per_fiducial": scores.mean(axis=1),
            "null_sums": null.sums,
            "null_count": np.array(null.count),
            "samples": np.array(values.shape[1]),
        }
        if block.groups is not None:
            terms = _shared_terms(y, values, ruler, block.seed, ranks, block.groups, index)
            record["influence_group"] = np.array(list(terms))
            record["influence"] = np.stack(list(terms.values()))
            record["group"] = block.groups
        return record

    def result(self, records: list[Record], scaling: Scaling) -> MiraResult:
        r"""Joins the records of all blocks."""

        null = Null(np.sum([r["null_sums"] for r in records], axis=0), sum(int(r["null_count"]) for r in records))
        per_fiducial = np.concatenate([r["per_fiducial"] for r in records])
        shared = None
        if "influence" in records[0]:
            groups = np.concatenate([r["group"] for r in records])
            terms: dict[Any, NDArray[np.float64]] = {}
            for record in records:
                for group, term in zip(record["influence_group"], record["influence"], strict=True):
                    terms[group] = terms.get(group, 0) + term
            shared = _shared_variance([t for g, t in terms.items() if np.sum(groups == g) > 1], len(per_fiducial))
        return MiraResult(
            np.concatenate([r["ranks"] for r in records]),
            int(records[0]["samples"]),
            per_fiducial,
            scaling.resolve(self.normalize),
            self.reference,
            self.scale,
            shared,
            lambda: null,
        )

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        result = self.result(records, scaling)
        note = f"normalize={result.normalize}"
        if not result.exchangeable:
            note += " (not exchangeable: p-value approximate)"
        return Scores(
            score=result.score,
            stderr=result.stderr,
            expected=result.expected,
            pvalue=result.pvalue,
            note=note,
            per_fiducial=result.per_fiducial,
            result=result,
        )
