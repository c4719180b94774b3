r"""A conjugate Gaussian model, whose posterior can be spoiled by known amounts."""

__all__ = ["Conjugate", "ConjugateCandidate"]

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from mira_bench.fiducials import Fiducials


@dataclass(frozen=True)
class Conjugate:
    r"""$y \sim \mathcal{N}(0, I)$ and $x \sim \mathcal{N}(y, \sigma^2 I)$.

    The posterior is $\mathcal{N}(x / (1 + \sigma^2), \sigma^2 / (1 + \sigma^2) I)$.

    Arguments:
        dim: The number of dimensions.
        noise: The standard deviation $\sigma$ of the data.
    """

    dim: int = 2
    noise: float = 0.5

    version = 1
    block = 100

    @property
    def names(self) -> list[str]:
        return [f"y{i}" for i in range(self.dim)]

    @property
    def width(self) -> float:
        r"""The standard deviation of the posterior."""
        return float(self.noise / np.sqrt(1 + self.noise**2))

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        y = self.prior_sample(count, rng)
        return Fiducials(y, y + self.noise * rng.standard_normal(y.shape))

    def prior_sample(self, count: int, rng: np.random.Generator) -> NDArray:
        return rng.standard_normal((count, self.dim))

    def exact_posterior(self) -> "ConjugatePosterior":
        return ConjugatePosterior(self)


@dataclass(frozen=True)
class ConjugatePosterior:
    r"""The exact posterior, stretched and shifted."""

    task: Conjugate
    width: float = 1.0
    shift: float = 0.0

    def _location(self, x: NDArray) -> NDArray:
        return x / (1 + self.task.noise**2) + self.task.width * self.shift

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        noise = rng.standard_normal((len(x), count, x.shape[1]))
        return self._location(x)[:, None] + self.width * self.task.width * noise

    def log_prob(self, y: NDArray, x: NDArray) -> NDArray:
        return stats.norm.logpdf(y, self._location(x)[:, None], self.width * self.task.width).sum(axis=-1)


@dataclass(frozen=True)
class ConjugateCandidate:
    r"""The exact posterior with a wrong width or location.

    Arguments:
        width: The factor on the standard deviation.
        shift: The shift of every coordinate, in posterior standard deviations.
        informed: If false, the prior: the data are ignored.
    """

    width: float = 1.0
    shift: float = 0.0
    informed: bool = True

    version = 1

    def build(self, task: Any, rng: np.random.Generator) -> Any:
        if not self.informed:
            from mira_bench.candidate import Prior

            return Prior().build(task, rng)
        return ConjugatePosterior(task, self.width, self.shift)
