r"""Slope and intercept of a line, and models of it that assume another prior or another noise."""

__all__ = ["LinearRegression", "NoisyPosterior", "ShiftedPosterior"]

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.fiducials import Fiducials


@dataclass(frozen=True)
class LinearRegression:
    r"""$t_i = m z_i + b + \sigma \epsilon_i$ with $z_i \sim \mathcal{U}(-1, 1)$ drawn anew for each fiducial.

    The parameters are $y = (m, b)$, normal around zero. The observation holds the positions and the data,
    $x = (z, t)$, with shape $(L, 2, \text{points})$.

    Arguments:
        points: The number of points of the line that are observed.
        slope: The standard deviation of the slope $m$.
        intercept: The standard deviation of the intercept $b$.
        noise: The standard deviation $\sigma$ of the data.
    """

    points: int = 100
    slope: float = 0.5
    intercept: float = 2.0
    noise: float = 1.0

    version = 1
    block = 100
    names = ("m", "b")

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        y = self.prior_sample(count, rng)
        z = rng.uniform(-1, 1, size=(count, self.points))
        data = y[:, :1] * z + y[:, 1:] + self.noise * rng.standard_normal(z.shape)
        return Fiducials(y, np.stack([z, data], axis=1))

    def prior_sample(self, count: int, rng: np.random.Generator) -> NDArray:
        return rng.standard_normal((count, 2)) * [self.slope, self.intercept]

    def exact_posterior(self) -> "LinePosterior":
        return LinePosterior((self.slope, self.intercept), self.noise)


@dataclass(frozen=True)
class LinePosterior:
    r"""The posterior and the evidence of a line with prior $\mathcal{N}(\mu (1, 1), \text{diag}(s^2))$.

    Only the two-by-two precision of the parameters is inverted; the covariance of the data never is.

    Arguments:
        widths: The prior standard deviations $s$ of slope and intercept.
        noise: The standard deviation of the data.
        mean: The prior mean $\mu$ of both.
    """

    widths: tuple[float, float]
    noise: float
    mean: float = 0.0

    def _solve(self, x: NDArray) -> tuple[NDArray, NDArray]:
        r"""Returns the posterior mean $(L, 2)$ and the Cholesky root of the posterior precision, $(L, 2, 2)$."""
        design, data = _design(x), x[:, 1]
        prior = 1 / np.square(self.widths)
        precision = np.einsum("lpi,lpj->lij", design, design) / self.noise**2 + np.diag(prior)
        pull = np.einsum("lpi,lp->li", design, data) / self.noise**2 + self.mean * prior
        return np.linalg.solve(precision, pull[..., None])[..., 0], np.linalg.cholesky(precision)

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        location, root = self._solve(x)
        return location[:, None] + rng.standard_normal((len(x), count, 2)) @ np.linalg.inv(root)

    def log_prob(self, y: NDArray, x: NDArray) -> NDArray:
        location, root = self._solve(x)
        white = (y - location[:, None]) @ root
        return _half_log_det(root)[:, None] - np.square(white).sum(axis=-1) / 2 - math.log(2 * math.pi)

    def log_evidence(self, x: NDArray) -> NDArray:
        # Bayes at the posterior mean: likelihood times prior over posterior. Nothing large cancels for a small noise.
        location, root = self._solve(x)
        residual = (x[:, 1] - np.einsum("lpi,li->lp", _design(x), location)) / self.noise
        likelihood = -np.square(residual).sum(axis=1) / 2 - x.shape[2] * math.log(self.noise * math.sqrt(2 * math.pi))
        pull = (location - self.mean) / self.widths
        prior = -np.square(pull).sum(axis=1) / 2 - np.log(self.widths).sum()
        return np.asarray(likelihood + prior - _half_log_det(root))


def _design(x: NDArray) -> NDArray:
    return np.stack([x[:, 0], np.ones_like(x[:, 0])], axis=-1)


def _half_log_det(root: NDArray) -> NDArray:
    return np.asarray(np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1))


@dataclass(frozen=True)
class MovedPosterior:
    r"""The posterior of a model around zero, moved; and the evidence of the model whose prior is moved as far.

    They do not belong together: one hundred points outweigh the prior, whose move hardly moves the posterior.
    """

    model: LinePosterior
    shift: float

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        return self.model.sample(x, count, rng) + self.shift

    def log_prob(self, y: NDArray, x: NDArray) -> NDArray:
        return self.model.log_prob(y - self.shift, x)

    def log_evidence(self, x: NDArray) -> NDArray:
        return replace(self.model, mean=self.shift).log_evidence(x)


@dataclass(frozen=True)
class ShiftedPosterior:
    r"""The candidate behind the paper's table: the posterior with its mean shifted by $\sqrt{\eta} (1, 1)$.

    Its evidence is that of the model whose prior mean is $\sqrt{\eta} (1, 1)$.

    Arguments:
        eta: The "noise level" $\eta$ of the table, a squared shift.
        width: The standard deviation of slope and intercept in the prior that the candidate assumes.
        noise: The noise that it assumes.
        role: `"control"` for the model that Bayes factors are relative to, which is not ranked.
    """

    eta: float = 0.0
    width: float = 1.0
    noise: float = 1.0
    role: str = "candidate"

    version = 1

    def __post_init__(self) -> None:
        if not self.eta >= 0:
            raise UsageError(f"eta={self.eta}: a squared shift cannot be negative")

    def build(self, task: Any, rng: np.random.Generator) -> MovedPosterior:
        return MovedPosterior(LinePosterior((self.width, self.width), self.noise), math.sqrt(self.eta))


@dataclass(frozen=True)
class NoisyPosterior:
    r"""The exact posterior of a model that takes the noise for another one: the paper's text, to the letter.

    Arguments:
        noise: The noise that the candidate assumes.
    """

    noise: float

    version = 1

    def __post_init__(self) -> None:
        if not self.noise > 0:
            raise UsageError(f"noise={self.noise}: a standard deviation must be positive")

    def build(self, task: Any, rng: np.random.Generator) -> LinePosterior:
        return replace(task.exact_posterior(), noise=self.noise)
