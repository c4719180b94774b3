r"""The MIRA score (Sharief, Zeghal et al. 2026), averaged exactly over its references."""

__all__ = ["Mira", "MiraResult", "Theory", "mira", "theory"]

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from ..errors import UsageError
from ..metric import Block, Context, Metric, Record, Scores, whole_block
from ..ranks.centers import Centers, check_centers
from ..ranks.distances import Distance, parse_distance
from ..ranks.kernel import available_threads, ball_ranks, sample_influence
from ..ranks.players import expected_score, play, region_score
from ..ranks.scaling import EXCHANGEABLE, Scale, Scaling
from ..statistics import mean_stderr, skewed_interval
from ..streams import generator
from .means import MeanScore
from .records import joined

# Up to so many fiducials the null is simulated exactly; beyond, its variance comes from the first ones. There are fewer
# where each has many points to sort, so that a null costs seconds.
NULL_FIDUCIALS = (32, 256)
NULL_POINTS = 5 * 10**7
REPLICATES = 9999
SHARED_REGIONS = 10**5  # that the influence of a shared sample is averaged over, if there are as many


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
class MiraResult(MeanScore):
    r"""The MIRA score of one candidate, with all that can be said about its uncertainty.

    Arguments:
        ranks: The ball ranks $J$, with shape $(L, R)$.
        samples: The number of samples $S$.
        per_fiducial: The score of each fiducial: its mean over regions, with shape $(L,)$.
        normalize: The normalization that was used (what `auto` became).
        reference: `"all"` if the score is averaged over all references, `"drawn"` if one was drawn per region.
        scale: `"exact"`, or `"reference"` if it was divided by $S / (S + 1)$ as mira-score does.
        shared_variance: The variance that comes from sample sets shared between fiducials.
        find_null: Computes the null; it is called once, when the null is asked for. Without it, what the null says
            (`null_stderr`, `sigmas`, `pvalue`) is NaN.
    """

    ranks: NDArray[np.int32] = field(repr=False)
    samples: int
    per_fiducial: NDArray[np.float64] = field(repr=False)
    normalize: str
    reference: str
    scale: str
    shared_variance: float | None = None
    find_null: Any = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"MiraResult(score={self.score:.4f}, stderr={self.stderr:.4f}, expected={self.expected:.4f})"

    @property
    def stderr(self) -> float:
        r"""The standard error over fiducials, with the variance of shared sample sets added."""
        error = super().stderr
        return error if self.shared_variance is None else math.hypot(error, self.shared_variance**0.5)

    @property
    def expected(self) -> float:
        r"""The score of a perfect candidate: $(2S + 1) / (3(S + 1))$, exactly."""
        return expected_score(self.samples) * _stretch(self.scale, self.samples)

    @property
    def sigmas(self) -> float:
        r"""The deviation from the expectation in null standard deviations."""
        sd = self.null_stderr
        return 0.0 if sd == 0 else (self.score - self.expected) / sd

    @cached_property
    def null(self) -> Null:
        r"""The null distribution, every point of a fiducial playing the truth."""
        null: Null = self.find_null() if self.find_null else Null(np.full(1, math.nan), len(self.per_fiducial))
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

        It is exact (up to Monte-Carlo error) for few fiducials (256 with up to 2000 samples) under an exchangeable
        normalization and independent samples; beyond that, and for shared sample sets, the null is normal with its
        exact variance. With `normalize="others"` the ruler that fiducials share is taken as given, an approximation of
        which no effect was seen from 12 fiducials on (docs/metrics.md).
        """
        fiducials = len(self.per_fiducial)
        deviation = abs(self.score - self.expected) / _stretch(self.scale, self.samples)
        if self.find_null is None:
            return math.nan
        if self.shared_variance is not None or self.null.count < fiducials:
            return float(2 * special.ndtr(-abs(self.sigmas)))
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
        r"""Returns the confidence interval of the candidate's score: Student's, corrected for skewness.

        A candidate that is far too narrow in few dimensions scores 1/2 on most fiducials and more on a few, which a
        small run may miss: its 95 % interval covers 89 to 94 % up to 100 fiducials, and ends too low (docs/metrics.md).
        """
        return skewed_interval(self.per_fiducial, self.stderr, level)

    def bootstrap(self, count: int = 1000, seed: int = 0) -> NDArray[np.float64]:
        r"""Returns scores of resampled fiducials, with shape `(count,)`. No region is recomputed."""
        fiducials = len(self.per_fiducial)
        weights = generator(seed, "bootstrap").multinomial(fiducials, [1 / fiducials] * fiducials, count)
        return weights @ self.per_fiducial / fiducials

    def difference(self, other: "MiraResult") -> tuple[float, float]:
        r"""Returns the paired difference to another candidate on the same fiducials, and its standard error."""
        mean, stderr = mean_stderr(self.per_fiducial - other.per_fiducial)
        sets = sum(one.shared_variance or 0.0 for one in (self, other))
        return mean, math.hypot(stderr, sets**0.5)


def _stretch(scale: str, samples: int) -> float:
    # mira-score divides by its largest possible value, S / (S + 1).
    return (samples + 1) / samples if scale == "reference" else 1.0


def _drawn_variance(samples: int) -> float:
    r"""The variance that one drawn reference adds to one region: that of $P_N$ minus that of $P(J)$.

    $P_N$ is $m / (S + 1)$ with probability $2 m / (S (S + 1))$, so its second moment is $S / (2 (S + 1))$.
    """
    whole = samples / (2 * (samples + 1)) - expected_score(samples) ** 2
    return float(whole - region_score(np.arange(samples + 1), samples).var())


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


@dataclass(frozen=True)
class Theory:
    r"""What theory says about the score with $S$ samples.

    Arguments:
        mean: The expectation for a perfect candidate.
        variance: The variance of one region with a drawn reference; tends to $1/18$.
        variance_all: The variance of one region averaged over all references; tends to $1/180$.
        lower: The bound of the expectation from below, for every candidate.
        upper: The bound from above; tends to $3/4$.
    """

    mean: float
    variance: float
    variance_all: float
    lower: float
    upper: float


def theory(samples: int) -> Theory:
    r"""Returns the exact values for $S$ samples.

    Example:
        >>> theory(500).mean == 1001 / 1503
        True
    """

    p = region_score(np.arange(samples + 1), samples)
    between = float(p.var())
    return Theory(expected_score(samples), between + _drawn_variance(samples), between, 0.5, float(p.max()))


def _shared_terms(
    block: Block, ruler: Scale, centers: Centers, distance: Distance, ranks: NDArray[np.int32], labels: NDArray
) -> dict[Any, NDArray[np.float64]]:
    r"""Per group, the sum over its fiducials of each shared sample's influence on the score."""
    count = block.samples.shape[1]
    # The influence of a sample is an average over very many regions: of some thousand fiducials, a few each will do.
    regions = min(ranks.shape[1], max(1, SHARED_REGIONS // len(block.scaling.truths)))
    ranks, centers = ranks[:, :regions], centers.first(regions)
    terms = {}
    for group in np.unique(labels):
        rows = np.flatnonzero(labels == group)
        u = ranks[rows] / count
        slope = (1 - 2 * u) * count / (count + 1) / regions
        part = Scale(ruler.name, *(r if len(r) == 1 else r[rows] for r in (ruler.low, ruler.width)))
        closer = sample_influence(
            block.truths[rows], block.samples[rows[0]], part, centers, slope, block.index[rows], distance
        )
        terms[group] = closer - np.sum(slope * u)
    return terms


def _shared_variance(terms: dict[Any, NDArray[np.float64]], labels: NDArray) -> float:
    shared = [t / len(labels) for group, t in terms.items() if np.sum(labels == group) > 1]
    return float(sum(np.var(t, ddof=1) / len(t) for t in shared if len(t) > 1))


@dataclass(frozen=True)
class Mira(Metric):
    r"""MIRA as a metric of the runner; see `mira`.

    Arguments:
        test: Whether to find the null, and with it σ and the p-value: all samples of up to 256 fiducials are sorted.
    """

    regions: int = 100
    normalize: str = "auto"
    reference: str = "all"
    scale: str = "exact"
    distance: Any = "l2"
    centers: Any = "uniform"
    test: bool = True

    name = "mira"
    version = 2
    remarks = True

    def __post_init__(self) -> None:
        if int(self.regions) < 1:
            raise UsageError(f"regions={self.regions}: at least one region is needed")
        if self.reference not in ("all", "drawn"):
            raise UsageError(f"reference={self.reference!r} is not one of all, drawn")
        if self.scale not in ("exact", "reference"):
            raise UsageError(f"scale={self.scale!r} is not one of exact, reference")
        parse_distance(self.distance)
        check_centers(self.centers)

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        return context.behind(self.normalize, self.centers)

    def ranks(self, block: Block, threads: int = 1) -> NDArray[np.int32]:
        r"""Returns the ball ranks of a block, with shape $(L, R)$."""
        return ball_ranks(
            block.truths, block.samples, block.scale(self.normalize), block.centers(self.centers, self.regions),
            distance=parse_distance(self.distance), seed=block.seed, index=block.index, threads=threads,
            name=block.name,
        )  # fmt: skip

    def per_fiducial(self, block: Block, ranks: NDArray[np.int32]) -> NDArray[np.float64]:
        r"""Returns the score of each fiducial, with shape $(L,)$."""
        count = block.samples.shape[1]
        return _region_scores(ranks, count, self.reference, self.scale, block.seed, block.index).mean(axis=1)

    def null(self, block: Block) -> Null:
        r"""Lets every point of the first fiducials play the truth."""
        fiducials = NULL_POINTS // (self.regions * block.samples.shape[1])
        few = block.first(int(np.clip(fiducials, *NULL_FIDUCIALS)))
        if len(few.truths) == 0:
            return Null(np.zeros(REPLICATES), 0)
        result = play(
            few.truths, few.samples, few.scale(self.normalize), few.centers(self.centers, self.regions),
            distance=parse_distance(self.distance),
            seed=block.seed, index=few.index, replicates=REPLICATES,
        )  # fmt: skip
        return Null(result.null[:, 0], len(few.truths))

    def shared_terms(self, block: Block, ranks: NDArray[np.int32]) -> dict[Any, NDArray[np.float64]]:
        r"""Returns how much each sample that a group shares moves the score."""
        assert block.groups is not None
        centers = block.centers(self.centers, self.regions)
        distance = parse_distance(self.distance)
        return _shared_terms(block, block.scale(self.normalize), centers, distance, ranks, block.groups)

    def observe(self, block: Block) -> Record:
        ranks = self.ranks(block)
        record: Record = {
            "ranks": ranks,
            "per_fiducial": self.per_fiducial(block, ranks),
            "samples": np.array(block.samples.shape[1]),
        }
        if self.test:
            null = self.null(block)
            record |= {"null_sums": null.sums, "null_count": np.array(null.count)}
        if block.groups is not None:
            terms = self.shared_terms(block, ranks)
            record["influence_group"] = np.array(list(terms))
            record["influence"] = np.stack(list(terms.values()))
            record["group"] = block.groups
        return record

    def result(self, records: list[Record], scaling: Scaling) -> MiraResult:
        r"""Joins the records of all blocks."""

        null = None
        if self.test:
            null = Null(np.sum([r["null_sums"] for r in records], axis=0), sum(int(r["null_count"]) for r in records))
        shared = None
        if "influence" in records[0]:
            terms: dict[Any, NDArray[np.float64]] = {}
            for record in records:
                for group, term in zip(record["influence_group"], record["influence"], strict=True):
                    terms[group] = terms.get(group, 0) + term
            shared = _shared_variance(terms, joined(records, "group"))
        return MiraResult(
            joined(records, "ranks"),
            int(records[0]["samples"]),
            joined(records, "per_fiducial"),
            scaling.resolve(self.normalize),
            self.reference,
            self.scale,
            shared,
            None if null is None else lambda: null,
        )

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        result = self.result(records, scaling)
        note = f"normalize={result.normalize}"
        if not result.exchangeable:
            note += " (not exchangeable: p-value approximate)"
        return Scores.of(result, note)


def mira(
    truths: ArrayLike,
    samples: ArrayLike,
    *,
    regions: int = 100,
    seed: int = 0,
    normalize: str = "auto",
    reference: str = "all",
    scale: str = "exact",
    distance: Any = "l2",
    centers: Any = "uniform",
    x: ArrayLike | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    groups: ArrayLike | None = None,
    threads: int | None = None,
) -> MiraResult:
    r"""Returns the MIRA score of a candidate's samples.

    Random balls are drawn around random centers; $J$ counts the samples closer to the center than the truth. The
    paper draws one reference sample per ball. Averaged over all of them, its statistic is

    $$ P(J) = \frac{1}{2} + \frac{J (S - J)}{S (S + 1)} , $$

    whose mean over regions and fiducials is the score: $(2S + 1) / (3(S + 1))$ for a perfect candidate, less for an
    overconfident or shifted one, more for an underconfident one.

    Arguments:
        truths: The truths, with shape $(L, *event)$.
        samples: The samples of the candidate, with shape $(L, S, *event)$, or $(1, S, *event)$ if all truths share
            one set (the non-conditional case), which widens the standard error.
        regions: The number of regions per fiducial (an array of centers brings its own).
        seed: The seed of centers and ties.
        normalize: The scale of the distances, see `mira_bench.ranks.scaling`.
        reference: `"all"` averages over all references, `"drawn"` is Algorithm 1 as printed.
        scale: `"exact"`, or `"reference"` for mira-score's division by $S / (S + 1)$.
        distance: `"l2"`, `"l1"`, `"chebyshev"`, `"cosine"`, `"minkowski(p)"`, or a function of points $(N, d)$ and
            one center $(d,)$ on the common scale that returns $(N,)$.
        centers: Where the regions are centered: `"uniform"`, `"uniform(a,b)"`, `"normal(m,s)"`, `"beta(a,b)"`,
            `"x(w)"`, `"prior"`, an array or a function; see `mira_bench.ranks.centers`.
        x: The observations, with shape $(L, *data)$, for `centers="x(w)"`.
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

    metric = Mira(regions, normalize, reference, scale, distance, centers)
    block = whole_block(truths, samples, seed=seed, bounds=bounds, groups=groups, x=x)
    ranks = metric.ranks(block, threads or available_threads())
    shared = None
    if block.groups is not None:
        shared = _shared_variance(metric.shared_terms(block, ranks), block.groups)
    return MiraResult(
        ranks,
        block.samples.shape[1],
        metric.per_fiducial(block, ranks),
        block.scaling.resolve(normalize),
        reference,
        scale,
        shared,
        lambda: metric.null(block),
    )
