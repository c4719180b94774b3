r"""Simulation-based calibration: the ranks of the truth in every dimension (Talts et al. 2018)."""

__all__ = ["Ecdf", "Histogram", "Sbc", "SbcResult", "sbc"]

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..arrays import Array
from ..errors import UsageError
from ..metric import Block, Context, Metric, Record, Scores, whole_block
from ..ranks.kernel import marginal_ranks, projected_ranks
from ..ranks.players import random_axes
from ..ranks.scaling import Scaling
from ..statistics import holm, uniform_pvalue
from ..streams import generator
from .records import rank_record, ranks_of

BAND_DRAWS = 2000  # curves of perfect candidates that the level of a band is found with


@dataclass(frozen=True)
class Histogram:
    r"""Rank histograms with the band in which the counts of a perfect candidate lie.

    Arguments:
        edges: The first rank of every bin, and $S + 1$ at the end, with shape $(K + 1,)$.
        counts: The number of fiducials in every bin, with shape $(K, d)$.
        expected: The expected number, with shape $(K,)$: bins hold equally many ranks, or one more.
        lower: The lower edge of the band, with shape $(K,)$.
        upper: The upper edge of the band.
    """

    edges: NDArray[np.int64]
    counts: NDArray[np.int64]
    expected: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


@dataclass(frozen=True)
class Ecdf:
    r"""Distribution functions of ranks minus that of a perfect candidate, with the band in which its curve lies.

    Arguments:
        levels: The share of ranks below each point of the grid, with shape $(K,)$, from 0 to 1.
        difference: The share of fiducials whose rank is below it, minus the level, with shape $(K, d)$.
        lower: The lower edge of the band, with shape $(K,)$.
        upper: The upper edge of the band.
    """

    levels: NDArray[np.float64]
    difference: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


@dataclass(frozen=True)
class SbcResult:
    r"""The marginal ranks of one candidate.

    Arguments:
        ranks: The number of samples below the truth, with shape $(L, d + q)$: the marginals, then the projections.
        samples: The number of samples $S$.
        seed: The seed of the randomized test.
        projections: The number $q$ of random projections.
        shared: Whether fiducials share sample sets. The test takes them for independent, so there are no p-values.
    """

    ranks: NDArray[np.int32]
    samples: int
    seed: int = 0
    projections: int = 0
    shared: bool = False

    def __repr__(self) -> str:
        return f"SbcResult(pvalue={self.pvalue:.3g}, fiducials={len(self.ranks)}, samples={self.samples})"

    @cached_property
    def _tests(self) -> NDArray[np.float64]:
        rng = generator(self.seed, "sbc test")
        return np.array([uniform_pvalue(column, self.samples, rng) for column in self.ranks.T])

    @property
    def statistics(self) -> NDArray[np.float64]:
        r"""Kolmogorov-Smirnov's D of every dimension and projection, with shape $(d + q,)$."""
        return self._tests[:, 0]

    @property
    def pvalues(self) -> NDArray[np.float64]:
        r"""The p-value of every dimension and projection, with shape $(d + q,)$."""
        return np.full(len(self._tests), np.nan) if self.shared else self._tests[:, 1]

    @property
    def adjusted(self) -> NDArray[np.float64]:
        r"""Holm's p-values, which hold for all dimensions and projections together, with shape $(d + q,)$."""
        return holm(self.pvalues)

    @property
    def pvalue(self) -> float:
        r"""The joint statement: the smallest p-value, corrected for the number of dimensions and projections."""
        return float(self.adjusted.min())

    @cached_property
    def pooled(self) -> float:
        r"""Kolmogorov-Smirnov's D of the ranks of all projections (without any: of all dimensions) together.

        This is what the paper's tables print. The ranks of one fiducial are not independent of each other, so that
        the usual p-value of this D, with $L$ times $q$ ranks, does not hold, and none is given.
        """
        ranks = self.ranks[:, -self.projections :] if self.projections else self.ranks
        return uniform_pvalue(ranks.ravel(), self.samples, generator(self.seed, "sbc pooled"))[0]

    def labels(self, names: list[str] | None = None) -> list[str]:
        r"""Returns what to call every column of the ranks."""
        marginals = self.ranks.shape[1] - self.projections
        known = names if names is not None and len(names) == marginals else [f"dim {i}" for i in range(marginals)]
        return [*known, *(f"projection {i}" for i in range(self.projections))]

    def histogram(self, bins: int | None = None, *, confidence: float = 0.95, simultaneous: bool = False) -> Histogram:
        r"""Returns the histogram of the ranks, with the binomial band of a perfect candidate.

        Arguments:
            bins: The number of bins; by default one for 20 fiducials, between 5 and 20.
            confidence: The level of the band.
            simultaneous: Whether all bins of a histogram are inside with that probability (by Bonferroni), or each.
        """
        count = len(self.ranks)
        wanted = min(20, max(5, count // 20)) if bins is None else bins
        if wanted < 1:
            raise UsageError(f"bins={wanted}: at least one is needed")
        size = min(wanted, self.samples + 1)
        edges = np.arange(size + 1) * (self.samples + 1) // size
        share = np.diff(edges) / (self.samples + 1)
        counts = np.stack([np.histogram(column, edges - 0.5)[0] for column in self.ranks.T], axis=1)
        tail = (1 - confidence) / 2 / (size if simultaneous else 1)
        lower, upper = (scipy.stats.binom.ppf(q, count, share) for q in (tail, 1 - tail))
        return Histogram(edges, counts, count * share, lower, upper)

    def ecdf(self, points: int = 50, *, confidence: float = 0.95) -> Ecdf:
        r"""Returns the distribution functions of the ranks minus the uniform one, with a band.

        The whole curve of a perfect candidate is inside the band with the given probability: the level of its binomial
        intervals is found by simulation (Säilynoja et al. 2022). Fiducials that share sample sets are not
        independent, and the band is then too narrow.

        Arguments:
            points: The number of steps of the grid, at most one for each rank.
            confidence: The level of the band.

        References:
            | Graphical Test for Discrete Uniformity and its Applications (Säilynoja et al. 2022)
            | https://arxiv.org/abs/2103.10522
        """
        count, size = len(self.ranks), min(points, self.samples + 1)
        edges = np.arange(size + 1) * (self.samples + 1) // size
        levels = edges / (self.samples + 1)
        shares = np.stack([(self.ranks < edge).mean(axis=0) for edge in edges])
        drawn = generator(self.seed, "ecdf band").multinomial(count, np.diff(levels), BAND_DRAWS)
        below = np.cumsum(drawn, axis=1)[:, :-1]
        inner = scipy.stats.binom(count, levels[1:-1])
        tails = np.minimum(inner.cdf(below), inner.sf(below - 1)).min(axis=1, initial=0.5)
        tail = float(np.quantile(tails, 1 - confidence, method="lower")) * (1 - 1e-9)  # who is at the edge is inside
        lower, upper = (np.array([0, *inner.ppf(q), count]) / count - levels for q in (tail, 1 - tail))
        return Ecdf(levels, shares - levels[:, None], lower, upper)


def _check(marginals: bool, projections: int) -> None:
    if projections < 0:
        raise UsageError(f"projections={projections}: none or more are needed")
    if not marginals and projections == 0:
        raise UsageError("SBC without marginals needs projections: there is nothing to rank")


def _ranks(
    truths: NDArray[np.float64],
    samples: Array,
    scaling: Scaling,
    normalize: str,
    marginals: bool,
    projections: int,
    seed: int,
    index: NDArray[np.integer],
) -> NDArray[np.int32]:
    columns = [marginal_ranks(truths, samples, seed=seed, index=index)] if marginals else []
    if projections:
        axes = random_axes(projections, truths.shape[1], seed)
        ruler = scaling.scale(normalize, samples, index)
        columns.append(projected_ranks(truths, samples, ruler, axes, seed=seed, index=index))
    return np.concatenate(columns, axis=1)


def sbc(
    truths: ArrayLike,
    samples: ArrayLike,
    *,
    marginals: bool = True,
    projections: int = 0,
    seed: int = 0,
    normalize: str = "auto",
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
) -> SbcResult:
    r"""Returns the rank of each truth among its samples, dimension by dimension and along random directions.

    The rank of $a \cdot y^*$ among the $a \cdot y_j$ is uniform on $\{0, \dots, S\}$ if the candidate is right, for
    every direction $a$: the axes give the marginals, random unit vectors also see what is between them, such as a wrong
    correlation. Ties are broken at random.

    Arguments:
        truths: The truths, with shape $(L, *event)$.
        samples: The samples of the candidate, with shape $(L, S, *event)$. Where fiducials share sample sets there are
            no p-values.
        marginals: Whether the dimensions themselves are ranked.
        projections: The number of random projections.
        seed: The seed of directions, ties and test.
        normalize: The scale on which directions are drawn, see `mira_bench.ranks.scaling`. Marginals need none.
        bounds: The range `(low, high)` that `normalize="task"` uses.

    References:
        | Validating Bayesian Inference Algorithms with Simulation-Based Calibration (Talts et al. 2018)
        | https://arxiv.org/abs/1804.06788
    """

    _check(marginals, projections)
    block = whole_block(truths, samples, seed=seed, bounds=bounds)
    ranks = _ranks(
        block.truths, block.samples, block.scaling, normalize, marginals, projections, seed, block.index
    )  # fmt: skip
    return SbcResult(ranks, block.samples.shape[1], seed, projections, block.groups is not None)


@dataclass(frozen=True)
class Sbc(Metric):
    r"""SBC as a metric of the runner; its score is the worst dimension's D. See `sbc`."""

    marginals: bool = True
    projections: int = 0
    normalize: str = "auto"

    name = "sbc"
    independent = True  # the p-value takes fiducials for independent

    def __post_init__(self) -> None:
        _check(self.marginals, self.projections)

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        # The ranks of the marginals do not depend on the scale.
        return context.behind(self.normalize) if self.projections else ()

    def observe(self, block: Block) -> Record:
        ranks = _ranks(
            block.truths, block.samples, block.scaling, self.normalize, self.marginals, self.projections,
            block.seed, block.index,
        )  # fmt: skip
        return rank_record(ranks, block)

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        result = SbcResult(*ranks_of(records), self.projections)
        ranks = result.ranks
        worst = int(result.statistics.argmax())
        marginals = ranks.shape[1] - self.projections
        kinds = ((marginals, "dimension"), (self.projections, "projection"))
        ranked = " and ".join(f"{n} {word}{'s' * (n > 1)}" for n, word in kinds if n)
        note = f"Kolmogorov-Smirnov D of the worst of {ranked} ({result.labels()[worst]}); p corrected for all"
        if self.projections:
            note += f"; D of all projections pooled, which are not independent: {result.pooled:.4f}"
        return Scores(
            score=float(result.statistics[worst]),
            stderr=_stderr(ranks[:, worst], result.samples),
            pvalue=result.pvalue,
            note=note,
            result=result,
        )


def _stderr(ranks: NDArray[np.int32], samples: int) -> float:
    # D is the distribution function's error where it is largest: a binomial proportion over fiducials.
    u = np.sort((ranks + 0.5) / (samples + 1))
    steps = np.arange(1, len(u) + 1) / len(u)
    p = float(steps[np.abs(steps - u).argmax()])
    return float(np.sqrt(max(p * (1 - p), 0.0) / len(u)))
