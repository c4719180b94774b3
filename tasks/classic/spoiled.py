r"""Reference posteriors that are wrong by known amounts."""

__all__ = ["Spoiled"]

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.candidate import Draws


@dataclass(frozen=True)
class Spoiled:
    r"""The samples of the task's exact or reference posterior, stretched about their mean and shifted.

    Arguments:
        width: The factor on the distance from the mean.
        shift: The shift of every coordinate, in posterior standard deviations.
    """

    width: float = 1.0
    shift: float = 0.0

    version = 1

    def skip(self, task: Any) -> str | None:
        return None if hasattr(task, "exact_posterior") else "the task has no exact posterior to spoil"

    def build(self, task: Any, rng: np.random.Generator) -> "SpoiledPosterior":
        return SpoiledPosterior(task.exact_posterior(), self.width, self.shift)


@dataclass(frozen=True)
class SpoiledPosterior:
    r"""A posterior whose samples are stretched and shifted."""

    exact: Any
    width: float
    shift: float

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        values = np.asarray(Draws.of(self.exact.sample(x, count, rng)).values)
        mean = values.mean(axis=1, keepdims=True)
        return mean + self.width * (values - mean) + self.shift * values.std(axis=1, keepdims=True)
