r"""A posterior with two modes, and candidates that get them wrong."""

__all__ = ["Modes", "ModesDefect"]

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.fiducials import Fiducials

SHAPES = ("two", "four", "one")


@dataclass(frozen=True)
class Modes:
    r"""$x \sim \mathcal{N}(0, I)$ and $y = x + b \Delta + \sigma \epsilon$ with $b = 1$ by a chance $w$, else 0.

    Arguments:
        dim: The number of parameters and of data $d$.
        weight: The weight $w$ of the second mode.
        distance: The distance $\Delta$ of the modes along each of the axes in which they differ.
        axes: In how many axes, the first ones, the modes differ; by default in all.
        width: The width $\sigma$ of each mode.
    """

    dim: int = 2
    weight: float = 0.5
    distance: float = 2.0
    axes: int | None = None
    width: float = 0.3

    version = 1
    block = 100

    @property
    def names(self) -> list[str]:
        return [f"y{i}" for i in range(self.dim)]

    @property
    def step(self) -> NDArray[np.float64]:
        r"""The vector from the first mode to the second."""
        return np.where(np.arange(self.dim) < (self.dim if self.axes is None else self.axes), self.distance, 0.0)

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        x = rng.standard_normal((count, self.dim))
        return Fiducials(self.exact_posterior().sample(x, 1, rng)[:, 0], x)

    def prior_sample(self, count: int, rng: np.random.Generator) -> NDArray:
        return np.asarray(self.simulate(count, rng).y)

    def exact_posterior(self) -> "ModesPosterior":
        return ModesPosterior(self, ModesDefect())


@dataclass(frozen=True)
class ModesPosterior:
    r"""The posterior of a mixture, with a defect."""

    task: Modes
    defect: "ModesDefect"

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        task, defect = self.task, self.defect
        weight = np.full((len(x), 1, 1), task.weight if defect.weight is None else defect.weight)
        if defect.by_datum:
            weight = np.where(x[:, :1, None] > 0, weight, 1 - weight)
        shape = (len(x), count, task.dim if defect.shape == "four" else 1)
        if defect.shape == "one":
            along = weight + np.sqrt(weight * (1 - weight)) * rng.standard_normal(shape)
        else:
            along = (rng.random(shape) < weight).astype(np.float64)
        return x[:, None] + along * task.step + task.width * rng.standard_normal((len(x), count, task.dim))


@dataclass(frozen=True)
class ModesDefect:
    r"""The exact posterior of `Modes`, wrong in some way.

    Arguments:
        weight: The weight of the second mode; by default the task's. At 0 the mode is missing.
        by_datum: Whether that is the weight only where the first datum is positive, and the first mode's elsewhere.
        shape: `"two"` modes, as it should be; `"four"`, if each of two parameters jumps by itself; `"one"`, a Gaussian
            of the same mean and covariance.
    """

    weight: float | None = None
    by_datum: bool = False
    shape: str = "two"

    version = 1

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise UsageError(f"shape={self.shape!r} is not one of {', '.join(SHAPES)}")

    def build(self, task: Any, rng: np.random.Generator) -> ModesPosterior:
        return ModesPosterior(task, self)
