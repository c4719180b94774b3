r"""The log score: the mean log-density of the truth, in nats. What the field reports when no reference exists."""

__all__ = ["LogScore", "LogScoreResult"]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..metric import Block, Context, Metric, Record, Scores
from ..ranks.scaling import Scaling
from .means import MeanScore
from .records import joined

LEAK = 0.01  # mass outside of the prior's support that is worth a note


@dataclass(frozen=True)
class LogScoreResult(MeanScore):
    r"""The log score of one candidate; larger is better.

    Arguments:
        per_fiducial: The log-density of each truth, with shape $(L,)$.
        inside: The share of each fiducial's samples inside the prior's support, with shape $(L,)$.
    """

    per_fiducial: NDArray[np.float64]
    inside: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"LogScoreResult(score={self.score:.4f}, stderr={self.stderr:.4f})"


@dataclass(frozen=True)
class LogScore(Metric):
    r"""Mean $\log q(y^* | x)$ over fiducials, for candidates that have a density.

    It is strictly proper, and local: only the density at the truth counts. Density that a candidate puts outside of the
    prior's support is known to be lost: cutting it off and normalizing adds $-\log$ of the share inside, which is
    estimated by the candidate's own samples (plus one, as if one more sample were inside, so that it is never zero).
    """

    name = "log_score"
    needs = ("log_prob_truth",)
    column = "log q"

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        return ()

    def observe(self, block: Block) -> Record:
        assert block.log_prob_truth is not None
        density = np.asarray(block.log_prob_truth(), np.float64)
        inside = np.ones(len(density))
        if block.in_support is not None:
            within = block.in_support()
            inside = (within.sum(axis=1) + 1) / (within.shape[1] + 1)
        return {"log_prob": density, "inside": inside}

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        density, inside = joined(records, "log_prob"), joined(records, "inside")
        result = LogScoreResult(density - np.log(inside), inside)
        note = "nats, larger is better"
        if np.isneginf(result.per_fiducial).any():
            count = int(np.isneginf(result.per_fiducial).sum())
            note += f"; {count} truths have no density: the score is minus infinity"
        if inside.mean() < 1 - LEAK:
            note += f"; corrected for {1 - inside.mean():.1%} of samples outside of the prior's support"
        return Scores.of(result, note)
