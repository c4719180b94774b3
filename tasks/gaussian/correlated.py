r"""A Gaussian model whose posterior is correlated, for failures that no marginal shows."""

__all__ = ["Correlated", "CorrelatedCandidate"]

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.fiducials import Fiducials


@dataclass(frozen=True)
class Correlated:
    r"""$y \sim \mathcal{N}(0, I_2)$ and $x \sim \mathcal{N}(y, \sigma^2 C)$ with correlation $\rho$ in $C$.

    Arguments:
        noise: The standard deviation $\sigma$ of the data.
        correlation: The correlation $\rho$ of the noise.
    """

    noise: float = 0.5
    correlation: float = 0.9

    version = 1
    block = 100
    names = ("y0", "y1")

    @property
    def covariance(self) -> NDArray[np.float64]:
        r"""The covariance of the data."""
        return self.noise**2 * np.array([[1, self.correlation], [self.correlation, 1]])

    @property
    def gain(self) -> NDArray[np.float64]:
        r"""The matrix that maps an observation to the mean of its posterior."""
        return np.asarray(np.linalg.inv(np.eye(2) + self.covariance), np.float64)

    @property
    def root(self) -> NDArray[np.float64]:
        r"""A square root of the covariance of the posterior."""
        return np.asarray(np.linalg.cholesky(self.gain @ self.covariance), np.float64)

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        y = self.prior_sample(count, rng)
        return Fiducials(y, y + rng.standard_normal((count, 2)) @ np.linalg.cholesky(self.covariance).T)

    def prior_sample(self, count: int, rng: np.random.Generator) -> NDArray:
        return rng.standard_normal((count, 2))

    def prior_log_prob(self, y: NDArray) -> NDArray:
        return -0.5 * np.sum(y**2, axis=-1) - np.log(2 * np.pi)

    def exact_posterior(self) -> "CorrelatedPosterior":
        return CorrelatedPosterior(self, 1.0, 0.0, False)


@dataclass(frozen=True)
class CorrelatedPosterior:
    r"""The exact posterior, spoiled."""

    task: Correlated
    width: float
    shift: float
    rotated: bool

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        noise = self.width * rng.standard_normal((len(x), count, 2)) @ self.task.root.T
        if self.rotated:
            noise = noise * [1, -1]
        sd = np.sqrt(np.diag(self.task.gain @ self.task.covariance))
        return (x @ self.task.gain.T + self.shift * sd)[:, None] + noise


@dataclass(frozen=True)
class CorrelatedCandidate:
    r"""The exact posterior with a wrong width, location or correlation.

    Arguments:
        width: The factor on the standard deviations.
        shift: The shift of every coordinate, in posterior standard deviations.
        rotated: Whether the correlation has the wrong sign. The marginals are then right.
    """

    width: float = 1.0
    shift: float = 0.0
    rotated: bool = False

    version = 1

    def build(self, task: Any, rng: np.random.Generator) -> CorrelatedPosterior:
        return CorrelatedPosterior(task, self.width, self.shift, self.rotated)
