r"""Candidates: the posterior of the task's own prior by a sampler of diffusion models, and posteriors made wrong."""

__all__ = ["Reshaped", "Solver"]

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.candidate import Draws
from mira_bench.errors import UsageError
from mira_bench.inference.diffusion.samplers import ImageSampler

from .task import Inverse


@dataclass(frozen=True)
class Solver:
    r"""A sampler on the prior of the task, whose denoiser is exact: what is wrong is the sampler's own error.

    Arguments:
        sampler: The sampler.
        prior: Another prior with `denoise(y, sigma)`, e.g. an `InverseBenchPrior`; by default that of the task.
    """

    sampler: ImageSampler
    prior: Any = None

    version = 1

    @property
    def data_files(self) -> dict[str, str]:
        return dict(getattr(self.prior, "data_files", {}))

    def skip(self, task: Inverse) -> str | None:
        return self.sampler.skip(task.operator)

    def build(self, task: Inverse, rng: np.random.Generator) -> "Solved":
        return Solved(task.prior if self.prior is None else self.prior, task.operator, self.sampler)


@dataclass(frozen=True)
class Solved:
    r"""A posterior by a sampler.

    Arguments:
        prior: What has a denoiser.
        operator: The operator.
        sampler: The sampler.
    """

    prior: Any
    operator: Any
    sampler: ImageSampler

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> Draws:
        return self.sampler.sample(self.prior, self.operator, x, count, rng)


@dataclass(frozen=True)
class Reshaped:
    r"""A control: the exact posterior, made narrower or wider around its mean, which stays right.

    Arguments:
        width: The factor of all distances from the mean.
    """

    width: float

    version = 1
    role = "control"

    def __post_init__(self) -> None:
        if not self.width >= 0:
            raise UsageError(f"width={self.width}: a factor of at least zero is needed")

    def skip(self, task: Inverse) -> str | None:
        return None if task.reference is None and hasattr(task, "exact_posterior") else "no posterior in closed form"

    def build(self, task: Inverse, rng: np.random.Generator) -> "_Reshaped":
        return _Reshaped(task.exact_posterior(), self.width)


@dataclass(frozen=True)
class _Reshaped:
    exact: Any
    width: float

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
        mean = self.exact.mean(x)[:, None]
        return np.asarray(mean + np.float32(self.width) * (self.exact.sample(x, count, rng) - mean), np.float32)
