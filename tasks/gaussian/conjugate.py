r"""A conjugate Gaussian model, whose posterior can be spoiled by known amounts."""

__all__ = ["Conjugate", "ConjugateCandidate"]

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from mira_bench.fiducials import Fiducials


def _width(noise: float) -> float:
    return float(noise / np.sqrt(1 + noise**2))


@dataclass(frozen=True)
class Conjugate:
    r"""$y \sim \mathcal{N}(0, I)$ and $x \sim \mathcal{N}(y, \sigma^2 I)$.

    The posterior is $\mathcal{N}(x / (1 + \sigma^2), \sigma^2 / (1 + \sigma^2) I)$, the evidence
    $\mathcal{N}(x | 0, (1 + \sigma^2) I)$.

    Arguments:
        dim: The number of dimensions $d$ of the parameters.
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
        return _width(self.noise)

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        y = self.prior_sample(count, rng)
        return Fiducials(y, y + self.noise * rng.standard_normal(y.shape))

    def prior_sample(self, count: int, rng: np.random.Generator) -> NDArray:
        return rng.standard_normal((count, self.dim))

    def prior_log_prob(self, y: NDArray) -> NDArray:
        return scipy.stats.norm.logpdf(y).sum(axis=-1)

    def exact_posterior(self) -> "ModelPosterior":
        return ModelPosterior(self.noise)


@dataclass(frozen=True)
class ConjugatePosterior:
    r"""The exact posterior under a noise level, stretched and shifted."""

    noise: float
    width: float = 1.0
    shift: float = 0.0

    def _location(self, x: NDArray) -> NDArray:
        return x / (1 + self.noise**2) + _width(self.noise) * self.shift

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        noise = rng.standard_normal((len(x), count, x.shape[1]))
        return self._location(x)[:, None] + self.width * _width(self.noise) * noise

    def log_prob(self, y: NDArray, x: NDArray) -> NDArray:
        return scipy.stats.norm.logpdf(y, self._location(x)[:, None], self.width * _width(self.noise)).sum(axis=-1)


@dataclass(frozen=True)
class ModelPosterior(ConjugatePosterior):
    r"""A posterior that is neither stretched nor shifted: that of a model, which has an evidence."""

    def log_evidence(self, x: NDArray) -> NDArray:
        return scipy.stats.norm.logpdf(x, 0.0, np.sqrt(1 + self.noise**2)).sum(axis=-1)


@dataclass(frozen=True)
class ConjugateCandidate:
    r"""The exact posterior with a wrong width or location, or that of a model with another noise level.

    Arguments:
        width: The factor on the standard deviation.
        shift: The shift of every coordinate, in posterior standard deviations.
        informed: If false, the prior: the data are ignored.
        noise: The noise level that the candidate assumes; by default the task's.
    """

    width: float = 1.0
    shift: float = 0.0
    informed: bool = True
    noise: float | None = None

    version = 1

    def build(self, task: Any, rng: np.random.Generator) -> Any:
        if not self.informed:
            from mira_bench.candidate import Prior

            return Prior().build(task, rng)
        noise = task.noise if self.noise is None else self.noise
        if self.width == 1 and self.shift == 0:
            return ModelPosterior(noise)
        return ConjugatePosterior(noise, self.width, self.shift)
