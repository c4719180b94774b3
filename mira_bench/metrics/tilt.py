r"""The tilt of ball ranks: whether truths lie farther out than samples, or nearer, which one score does not tell."""

__all__ = ["Tilt"]

from dataclasses import dataclass

import numpy as np

from ..metric import Block, Record, Scores
from ..ranks.scaling import Scaling
from ..statistics import mean_stderr
from .balls import BallMetric
from .records import joined


@dataclass(frozen=True)
class Tilt(BallMetric):
    r"""The mean ball rank of the truth as a share of the samples, minus a half: 0 for a perfect candidate.

    With the seed, the regions and the centers of MIRA, its ranks are those of MIRA.
    """

    name = "tilt"

    def observe(self, block: Block) -> Record:
        share = self.ranks(block).mean(axis=1) / block.samples.shape[1]
        return {"per_fiducial": share - 0.5, "shared": np.array(block.groups is not None)}

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        each = joined(records, "per_fiducial")
        mean, stderr = mean_stderr(each)
        scale = scaling.resolve(self.normalize)
        note = f"mean ball rank of the truth as a share of the samples, minus 1/2; normalize={scale}"
        if any(record["shared"] for record in records):
            return Scores(mean, expected=0.0, note=f"{note}; fiducials share samples: no error", per_fiducial=each)
        return Scores(mean, stderr, 0.0, note=note, per_fiducial=each)
