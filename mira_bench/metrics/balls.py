r"""What the metrics share that look at the ball ranks of MIRA."""

__all__ = ["BallMetric"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..metric import Block, Context, Metric
from .mira import Mira


@dataclass(frozen=True)
class BallMetric(Metric):
    r"""The base of metrics that are made of ball ranks; a subclass says what it keeps of them.

    Arguments:
        regions: The number of regions per fiducial.
        normalize: The scale of the distances, see `mira_bench.ranks.scaling`.
        distance: The distance, as in `mira`.
        centers: Where the regions are centered, as in `mira`.
    """

    regions: int = 100
    normalize: str = "auto"
    distance: Any = "l2"
    centers: Any = "uniform"

    def __post_init__(self) -> None:
        self._mira  # noqa: B018 -- checks the settings

    @property
    def _mira(self) -> Mira:
        return Mira(self.regions, self.normalize, distance=self.distance, centers=self.centers)

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        return context.behind(self.normalize, self.centers)

    def ranks(self, block: Block, threads: int = 1) -> NDArray[np.int32]:
        r"""Returns the ball ranks of a block, with shape $(L, R)$: those of MIRA with the same settings."""
        return self._mira.ranks(block, threads)
