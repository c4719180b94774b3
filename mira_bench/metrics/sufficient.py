r"""The variant of MIRA in the paper's appendix, which looks only at the regions that hold the truth."""

__all__ = ["Sufficient", "SufficientResult", "mira_sufficient"]

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import UsageError
from ..metric import Block, Record, Scores, whole_block
from ..ranks.distances import parse_distance
from ..ranks.players import expected_score, play_histogram
from ..ranks.scaling import Scaling
from ..statistics import mean_stderr
from .balls import BallMetric
from .records import joined


@dataclass(frozen=True)
class SufficientResult:
    r"""The law of $q_N$ for one candidate.

    Arguments:
        counts: How often each rank $0, \dots, S$ occurred, with shape $(L, S + 1)$.
        null: The same summed over fiducials for randomly chosen players, with shape $(B, S + 1)$.
    """

    counts: NDArray[np.int64] = field(repr=False)
    null: NDArray[np.int64] = field(repr=False)

    @property
    def samples(self) -> int:
        r"""The number of samples $S$."""
        return self.counts.shape[1] - 1

    @property
    def values(self) -> NDArray[np.float64]:
        r"""The values that $q_N$ can take, $m / (S + 1)$ for $m = 1, \dots, S$."""
        return np.arange(1, self.samples + 1) / (self.samples + 1)

    @property
    def cdf(self) -> NDArray[np.float64]:
        r"""The distribution function of $q_N$ at `values`."""
        return _law(self.counts.sum(axis=0))

    @property
    def expected_cdf(self) -> NDArray[np.float64]:
        r"""That of a perfect candidate, $m (m + 1) / (S (S + 1))$, which tends to that of Beta(2, 1)."""
        m = np.arange(1, self.samples + 1)
        return m * (m + 1) / (self.samples * (self.samples + 1))

    @property
    def score(self) -> float:
        r"""The mean of $q_N$."""
        held, sums = _moments(self.counts, self.values)
        return float(sums.sum() / held.sum())

    @property
    def stderr(self) -> float:
        r"""The standard error over fiducials (of a ratio, by the delta method)."""
        held, sums = _moments(self.counts, self.values)
        return mean_stderr((sums - self.score * held) / held.mean())[1]

    @property
    def expected(self) -> float:
        r"""The mean for a perfect candidate, $(2S + 1) / (3(S + 1))$."""
        return expected_score(self.samples)

    @property
    def deviation(self) -> float:
        r"""The largest distance between the distribution function and that of a perfect candidate."""
        return float(np.abs(self.cdf - self.expected_cdf).max())

    @cached_property
    def pvalue(self) -> float:
        r"""The p-value of the deviation; its null lets every point of a fiducial play the truth.

        So it holds although the regions of a fiducial are correlated.
        """
        draws = np.abs(np.stack([_law(row) for row in self.null]) - self.expected_cdf).max(axis=1)
        return (1 + int(np.count_nonzero(draws >= self.deviation * (1 - 1e-9)))) / (1 + len(draws))


def _law(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    # The truth is in the ball of the reference with n samples before it if J <= n: q = (n + 1) / (S + 1).
    held = np.cumsum(counts)[:-1]
    total = np.cumsum(held)
    # A truth that is in no ball at all has no law: all mass at the largest value.
    return total / total[-1] if total[-1] > 0 else np.r_[np.zeros(len(held) - 1), 1.0]


def _moments(counts: NDArray[np.int64], values: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
    held = np.cumsum(counts, axis=1)[:, :-1].astype(np.float64)
    return held.sum(axis=1), held @ values


def mira_sufficient(
    truths: ArrayLike,
    samples: ArrayLike,
    *,
    regions: int = 32,
    seed: int = 0,
    normalize: str = "auto",
    distance: Any = "l2",
    centers: Any = "uniform",
    x: ArrayLike | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    replicates: int = 199,
) -> SufficientResult:
    r"""Returns the law of $q_N = (n + 1) / (N + 2)$ over the regions that hold the truth.

    For a perfect candidate $q_N$ tends to Beta(2, 1). The appendix calls that sufficient. What it proves is that the
    ball rank is uniform: a prior that ignores the observation passes too, unless the centers depend on it.

    All references are used: the law is that of $n$ given $J \leq n$, with $J$ the ball rank and $n$ uniform.

    Arguments:
        truths: The truths, with shape $(L, *event)$.
        samples: The samples of the candidate, with shape $(L, S, *event)$.
        regions: The number of regions per fiducial; each sorts all samples.
        seed: The seed of centers, ties and null.
        normalize: The scale of the distances, see `mira_bench.ranks.scaling`.
        distance: The distance, as in `mira`.
        centers: Where the regions are centered, as in `mira`.
        x: The observations, with shape $(L, *data)$, for `centers="x(w)"`.
        bounds: The range `(low, high)` that `normalize="task"` uses.
        replicates: The number of null draws.

    References:
        | MIRA: A Score for Conditional Distribution Accuracy and Model Comparison (Sharief, Zeghal et al. 2026)
    """

    metric = Sufficient(regions, normalize, distance, centers, replicates)
    record = metric.observe(whole_block(truths, samples, seed=seed, bounds=bounds, x=x))
    return SufficientResult(record["counts"], record["null"])


@dataclass(frozen=True)
class Sufficient(BallMetric):
    r"""The sufficient variant as a metric of the runner; see `mira_sufficient` and `BallMetric`.

    Arguments:
        replicates: The number of null draws.
    """

    regions: int = 32
    replicates: int = 199

    name = "sufficient"

    def observe(self, block: Block) -> Record:
        if block.groups is not None:
            raise UsageError("fiducials share a sample set, and the test takes them for independent")
        ranks = self.ranks(block)
        count = block.samples.shape[1]
        counts = np.stack([np.bincount(row, minlength=count + 1) for row in ranks])
        null = play_histogram(
            block.truths, block.samples, block.scale(self.normalize), block.centers(self.centers, self.regions),
            distance=parse_distance(self.distance), seed=block.seed, index=block.index, replicates=self.replicates,
        )  # fmt: skip
        return {"counts": counts, "null": null}

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        result = SufficientResult(joined(records, "counts"), np.sum([r["null"] for r in records], axis=0))
        note = f"mean of q over regions that hold the truth; largest deviation of its law {result.deviation:.4f}"
        return Scores.of(result, note)
