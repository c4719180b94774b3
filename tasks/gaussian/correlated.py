r"""A Gaussian model whose posterior is correlated, for failures that no marginal shows."""

__all__ = ["Correlated", "CorrelatedCandidate", "SpoiledCandidate"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.candidate import Prior
from mira_bench.fiducials import Fiducials
from mira_bench.streams import generator


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


@dataclass(frozen=True)
class SpoiledPosterior:
    r"""A Gaussian around a linear function of the data."""

    gain: NDArray[np.float64]
    offset: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        noise = rng.standard_normal((len(x), count, 2)) @ np.linalg.cholesky(self.covariance).T
        return (x @ self.gain.T + self.offset)[:, None] + noise

    def log_prob(self, y: NDArray, x: NDArray) -> NDArray:
        root = np.linalg.cholesky(self.covariance)
        z = np.linalg.solve(root, (y - (x @ self.gain.T + self.offset)[:, None])[..., None])[..., 0]
        return -0.5 * np.sum(z**2, axis=-1) - np.log(np.diag(root)).sum() - np.log(2 * np.pi)


@dataclass(frozen=True)
class SpoiledCandidate:
    r"""The exact posterior with errors of each parameter, of their correlation, or like those of a trained network.

    Arguments:
        width: The factor on the standard deviations: one number, or one for each parameter.
        shift: The shifts, in posterior standard deviations: one number, or one for each parameter.
        correlation: The correlation of the parameters given the data; by default the right one.
        flipped: Whether the correlation has the wrong sign.
        shrink: The factor on the means, which are those of the prior at 0.
        ignores: The datum that is not looked at, if any. The posterior is the right one given the other datum.
        informed: If false, the prior: the data are ignored.
        network: If given, errors of all kinds as training leaves them, of random sizes: those of the network of this
            number, which are always the same.
    """

    width: float | Sequence[float] = 1.0
    shift: float | Sequence[float] = 0.0
    correlation: float | None = None
    flipped: bool = False
    shrink: float = 1.0
    ignores: int | None = None
    informed: bool = True
    network: int | None = None

    version = 1

    def __post_init__(self) -> None:
        for key in ("width", "shift"):
            value = getattr(self, key)
            object.__setattr__(self, key, value if isinstance(value, int | float) else tuple(map(float, value)))

    def build(self, task: Any, rng: np.random.Generator) -> Any:
        if not self.informed:
            return Prior().build(task, rng)
        gain, covariance = task.gain, task.gain @ task.covariance
        if self.ignores is not None:
            known = 1 / (1 + task.noise**2)
            used = np.arange(2) != self.ignores
            gain, covariance = np.diag(used * known), np.diag(np.where(used, known * task.noise**2, 1.0))
        sd = np.sqrt(np.diag(covariance))
        width, shift, shrink = np.asarray(self.width), np.asarray(self.shift), self.shrink
        correlation = covariance[0, 1] / sd.prod() if self.correlation is None else self.correlation
        correlation *= -1 if self.flipped else 1
        if self.network is not None:
            luck = generator(self.network, "errors of a network")
            width, shift = width * luck.uniform(0.85, 1.2, size=2), shift + luck.normal(0, 0.12, size=2)
            shrink *= 1 - abs(luck.normal(0, 0.05))
            correlation = np.clip(correlation + luck.normal(0, 0.15), -0.95, 0.95)
        turned = np.array([[1, correlation], [correlation, 1]]) * np.outer(width * sd, width * sd)
        return SpoiledPosterior(shrink * gain, shift * sd, turned)
