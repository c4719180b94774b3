r"""TARP: expected coverage of balls around random points (Lemos et al. 2023), on the ball ranks."""

__all__ = ["Tarp", "TarpResult", "tarp"]

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import as_pair
from ..metric import Block, Record, Scores
from ..ranks import available_threads, ball_ranks, uniform_centers
from ..scaling import Scaling, as_bounds
from .coverage import Coverage


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
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    confidence: float = 0.95,
    threads: int | None = None,
) -> TarpResult:
    r"""Returns the expected coverage of a candidate's samples.

    The ball around a random point through the truth holds the fraction $J / S$ of the samples; over fiducials that
    fraction is uniform if the candidate is right. With the same centers, MIRA is a functional of this curve,

    .. math:: \text{MIRA} = \frac{1}{2} + \frac{S}{S + 1} \int_0^1 (2a - 1) \, ECP(a) \, da .

    Arguments:
        truths: The truths, with shape $(L, *event)$.
        samples: The samples of the candidate, with shape $(L, S, *event)$.
        regions: The number of centers per fiducial.
        seed: The seed of centers, ties, bootstrap and test.
        normalize: The scale of the distances, see `mira_bench.scaling`.
        bounds: The range `(low, high)` that `normalize="task"` uses.
        confidence: The level of the band.
        threads: The number of threads, by default all cores.

    References:
        | Sampling-Based Accuracy Testing of Posterior Estimators for General Inference (Lemos et al. 2023)
        | https://arxiv.org/abs/2302.03026
    """

    y, values = as_pair(truths, samples)
    scaling = Scaling(y, task=as_bounds(bounds, y.shape[1]))
    ruler = scaling.scale(normalize, values, np.arange(len(y)))
    centers = uniform_centers(seed, regions, y.shape[1])
    ranks = ball_ranks(y, values, ruler, centers, seed=seed, threads=threads or available_threads())
    return TarpResult(ranks, values.shape[1], seed, confidence)


@dataclass(frozen=True)
class Tarp:
    r"""TARP as a metric of the runner; its score is the largest deviation of the coverage. See `tarp`."""

    regions: int = 100
    normalize: str = "auto"

    name = "tarp"
    version = 1

    def observe(self, block: Block) -> Record:
        centers = uniform_centers(block.seed, self.regions, block.truths.shape[1])
        ranks = ball_ranks(
            block.truths, block.samples, block.scale(self.normalize), centers,
            seed=block.seed, index=block.index, name=block.name,
        )  # fmt: skip
        return {"ranks": ranks, "samples": np.array(block.samples.shape[1]), "seed": np.array(block.seed)}

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        ranks = np.concatenate([r["ranks"] for r in records])
        result = TarpResult(ranks, int(records[0]["samples"]), int(records[0]["seed"]))
        return Scores(
            score=result.deviation,
            stderr=result.deviation_stderr,
            expected=0.0,
            pvalue=result.pvalue,
            note=f"largest deviation of the coverage; normalize={scaling.resolve(self.normalize)}",
            result=result,
        )
