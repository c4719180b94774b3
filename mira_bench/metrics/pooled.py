r"""Kolmogorov-Smirnov distances over all fiducials and projections together, as they are published for images.

Values of $L$ fiducials and $q$ projections (or pixels) are pooled, and two pools of the same size are compared. Their
p-value takes all $L q$ values for independent. Those of one fiducial are not: its truth and its samples are the same in
all of them. So it is as published, and no more: what it says about a candidate is less than it seems.
"""

__all__ = ["PooledSbc", "SlicedDistances"]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from ..arrays import as_host
from ..errors import UsageError
from ..metric import Block, Context, Metric, Record, Scores
from ..ranks.kernel import marginal_ranks, projected_ranks
from ..ranks.players import random_axes
from ..ranks.scaling import Scaling
from ..streams import generator
from .records import joined, rank_record, ranks_of

AS_INDEPENDENT = "p as if all of them were independent"


def _compared(pool: NDArray, other: NDArray) -> tuple[float, float]:
    test = scipy.stats.ks_2samp(pool, other, method="asymp")
    return float(test.statistic), float(test.pvalue)


@dataclass(frozen=True)
class PooledSbc(Metric):
    r"""The ranks of the truth in some dimensions or along random directions, all together, against uniform ones.

    They are compared with as many drawn uniform ranks. Ties are broken at random, so that the ranks of a perfect
    candidate are uniform also where most values are the same (black pixels).

    Arguments:
        dimensions: How many dimensions are ranked, chosen at random: the same ones for all candidates.
        projections: How many random directions are ranked in place of dimensions.
        normalize: The scale on which directions are drawn.
    """

    dimensions: int = 50
    projections: int = 0
    normalize: str = "auto"

    name = "pooled_sbc"
    independent = True

    def __post_init__(self) -> None:
        if self.dimensions < 1 or self.projections < 0:
            raise UsageError(f"dimensions={self.dimensions}, projections={self.projections}: some are needed")

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        return context.behind(self.normalize) if self.projections else ()

    def observe(self, block: Block) -> Record:
        dim = block.truths.shape[1]
        if self.projections:
            axes = random_axes(self.projections, dim, block.seed)
            ruler = block.scale(self.normalize)
            found = projected_ranks(block.truths, block.samples, ruler, axes, seed=block.seed, index=block.index)
        else:
            count = min(self.dimensions, dim)
            chosen = np.sort(generator(block.seed, "pooled dimensions").choice(dim, count, replace=False))
            samples = np.stack([as_host(values)[:, chosen] for values in block.samples])
            found = marginal_ranks(block.truths[:, chosen], samples, seed=block.seed, index=block.index)
        return rank_record(found, block)

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        ranks, samples, seed = ranks_of(records)
        uniform = generator(seed, "pooled uniform ranks").integers(samples + 1, size=ranks.size)
        score, pvalue = _compared(ranks.ravel(), uniform)
        what = "random directions" if self.projections else "dimensions"
        note = f"D of {len(ranks)} x {ranks.shape[1]} ranks in {what} against as many uniform ones; {AS_INDEPENDENT}"
        return Scores(score, pvalue=pvalue, note=note)


@dataclass(frozen=True)
class SlicedDistances(Metric):
    r"""Mean distances of the samples to the truth along random directions, against those of a reference posterior.

    For each fiducial and direction $a$ the mean over samples of $|a \cdot y_j - a \cdot y^*|$ is taken, for the
    candidate and for the reference, and the two pools are compared.

    Arguments:
        projections: The number of random directions, the same ones for all fiducials and candidates.
        normalize: The scale on which directions are drawn.
    """

    projections: int = 50
    normalize: str = "auto"

    name = "sliced_distances"
    needs = ("reference",)
    independent = True

    def __post_init__(self) -> None:
        if self.projections < 1:
            raise UsageError(f"projections={self.projections}: at least one is needed")

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        return context.behind(self.normalize)

    def observe(self, block: Block) -> Record:
        assert block.reference is not None
        axes = random_axes(self.projections, block.truths.shape[1], block.seed)
        ruler = block.scale(self.normalize)
        reference = block.reference()
        found = np.empty((2, len(block.truths), self.projections))
        for l, truth in enumerate(block.truths):
            width = ruler.rows(slice(l, l + 1))[1][0]
            for side, samples in enumerate((block.samples[l], reference[l])):
                found[side, l] = np.abs((as_host(samples) - truth) / width @ axes.T).mean(axis=0)
        return {"own": found[0], "reference": found[1]}

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        own, reference = joined(records, "own"), joined(records, "reference")
        score, pvalue = _compared(own.ravel(), reference.ravel())
        note = (
            f"D of {len(own)} x {own.shape[1]} mean distances along random directions against those of the reference "
        )
        note += f"posterior; {AS_INDEPENDENT}; normalize={scaling.resolve(self.normalize)}"
        return Scores(score, pvalue=pvalue, note=note)
