r"""The priors that several of the tasks share, and how parameters and observations are drawn together."""

__all__ = ["BoxPrior", "LogNormalPrior", "LogNormalTarget"]

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mira_bench.fiducials import Fiducials


class Joint(ABC):
    r"""A prior and a simulator: draws of one are parameters of the other."""

    @abstractmethod
    def prior_sample(self, count: int, rng: np.random.Generator) -> NDArray:
        r"""Draws parameters, with shape $(n, d)$."""

    @abstractmethod
    def simulator(self, y: NDArray, rng: np.random.Generator) -> NDArray:
        r"""Draws an observation for each row of parameters $(n, d)$, with shape $(n, *data)$."""

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        y = self.prior_sample(count, rng)
        return Fiducials(y, self.simulator(y, rng))


class BoxPrior(Joint):
    r"""$y \sim \mathcal{U}(-b, b)^d$."""

    dim: int
    half: ClassVar[float]  # b

    @property
    def bounds(self) -> tuple[list[float], list[float]]:
        return [-self.half] * self.dim, [self.half] * self.dim

    @property
    def names(self) -> list[str]:
        return [f"θ{i + 1}" for i in range(self.dim)]

    def prior_sample(self, count: int, rng: np.random.Generator) -> NDArray:
        return rng.uniform(-self.half, self.half, (count, self.dim))

    def prior_log_prob(self, y: NDArray) -> NDArray:
        inside = (np.abs(y) <= self.half).all(axis=-1)
        return np.where(inside, -self.dim * np.log(2 * self.half), -np.inf)


class LogNormalPrior(Joint):
    r"""$\log y_i \sim \mathcal{N}(\mu_i, \sigma_i^2)$."""

    location: ClassVar[tuple[float, ...]]  # mu
    scale: ClassVar[tuple[float, ...]]  # sigma

    @abstractmethod
    def log_likelihood(self, y: NDArray, x: NDArray) -> NDArray:
        r"""Returns $\log p(x | y)$, for parameters $(n, d)$ and one observation."""

    def from_normal(self, z: NDArray) -> NDArray:
        r"""Returns the parameters that stand for points $(n, d)$ of a standard normal law."""
        return np.exp(np.asarray(self.location) + np.asarray(self.scale) * z)

    def prior_sample(self, count: int, rng: np.random.Generator) -> NDArray:
        return self.from_normal(rng.standard_normal((count, len(self.location))))

    def prior_log_prob(self, y: NDArray) -> NDArray:
        positive = (y > 0).all(axis=-1)
        log = np.log(np.where(y > 0, y, 1.0))
        z = (log - np.asarray(self.location)) / np.asarray(self.scale)
        density = (-0.5 * z**2 - log - np.log(self.scale) - 0.5 * np.log(2 * np.pi)).sum(axis=-1)
        return np.where(positive, density, -np.inf)


@dataclass(frozen=True)
class LogNormalTarget:
    r"""The likelihood of an observation, by the logarithms of the parameters in units of the prior.

    Arguments:
        task: The task, whose prior is log-normal and whose likelihood is known.
        x: The observation.
    """

    task: LogNormalPrior
    x: NDArray

    @property
    def dim(self) -> int:
        return len(self.task.location)

    def evaluate(self, z: NDArray, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
        y = self.task.from_normal(z)
        return y, self.task.log_likelihood(y, self.x)
