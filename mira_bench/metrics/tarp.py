r"""TARP: expected coverage of balls around random points (Lemos et al. 2023), on the ball ranks."""

__all__ = ["Tarp", "TarpResult", "tarp"]

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from ..metric import Block, Record, Scores, whole_block
from ..ranks.kernel import available_threads
from ..ranks.scaling import Scaling
from .balls import BallMetric
from .coverage import Coverage
from .records import rank_record, ranks_of


@dataclass(frozen=True)
class TarpResult(Coverage):
    r"""The expected coverage of one candidate's balls; the ranks are the ball ranks. See `Coverage`."""

    purpose = "tarp"


def tarp(
    truths: ArrayLike,
    samples: ArrayLike,
    *,
    regions: int = 100,
    seed: int = 0,
    normalize: str = "auto",
    distance: Any = "l2",
    centers: Any = "uniform",
    x: ArrayLike | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    confidence: float = 0.95,
    threads: int | None = None,
) -> TarpResult:
    r"""Returns the expected coverage of a candidate's samples.

    The ball around a random point through the truth holds the fraction $J / S$ of the samples; over fiducials that
    fraction is uniform if the candidate is right. With the same centers, MIRA is a functional of this curve,

    $$ \text{MIRA} = \frac{1}{2} + \frac{S}{S + 1} \int_0^1 (2a - 1) \, ECP(a) \, da . $$

    Arguments:
        truths: The truths, with shape $(L, *event)$.
        samples: The samples of the candidate, with shape $(L, S, *event)$. Where fiducials share sample sets there is
            no p-value.
        regions: The number of centers per fiducial.
        seed: The seed of centers, ties, bootstrap and test.
        normalize: The scale of the distances, see `mira_bench.ranks.scaling`.
        distance: The distance, as in `mira`.
        centers: The centers of the balls, which the paper of TARP calls reference points, as in `mira`: `"uniform"`,
            `"prior"`, `"x(w)"`, an array, ...
        x: The observations, with shape $(L, *data)$, for `centers="x(w)"`.
        bounds: The range `(low, high)` that `normalize="task"` uses.
        confidence: The level of the band.
        threads: The number of threads, by default all cores.

    References:
        | Sampling-Based Accuracy Testing of Posterior Estimators for General Inference (Lemos et al. 2023)
        | https://arxiv.org/abs/2302.03026
    """

    block = whole_block(truths, samples, seed=seed, bounds=bounds, x=x)
    ranks = Tarp(regions, normalize, distance, centers).ranks(block, threads or available_threads())
    return TarpResult(ranks, block.samples.shape[1], seed, confidence, block.groups is not None)


@dataclass(frozen=True)
class Tarp(BallMetric):
    r"""TARP as a metric of the runner; its score is the largest deviation of the coverage. See `tarp`."""

    name = "tarp"
    independent = True  # the p-value takes fiducials for independent

    def observe(self, block: Block) -> Record:
        return rank_record(self.ranks(block), block)

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        note = f"largest deviation of the coverage; normalize={scaling.resolve(self.normalize)}"
        return TarpResult(*ranks_of(records)).scores(note)
