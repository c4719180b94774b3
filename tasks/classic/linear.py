r"""Gaussian linear: the mean of a Gaussian in ten dimensions, under a Gaussian or a uniform prior."""

__all__ = ["GaussianLinear", "GaussianLinearUniform"]

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from mira_bench.inference.moves import truncated_normal

from .priors import BoxPrior, Joint

VARIANCE = 0.1  # of the data, and of the Gaussian prior


def _log_likelihood(y: NDArray, x: NDArray) -> NDArray:
    return stats.norm.logpdf(x, y, np.sqrt(VARIANCE)).sum(axis=-1)


@dataclass(frozen=True)
class GaussianLinear(Joint):
    r"""$y \sim \mathcal{N}(0, 0.1 \, I)$ and $x \sim \mathcal{N}(y, 0.1 \, I)$.

    Arguments:
        dim: The number of dimensions $d$ of the parameters.
    """

    dim: int = 10

    version = 1
    block = 100

    @property
    def names(self) -> list[str]:
        return [f"θ{i + 1}" for i in range(self.dim)]

    def prior_sample(self, count: int, rng: np.random.Generator) -> NDArray:
        return np.sqrt(VARIANCE) * rng.standard_normal((count, self.dim))

    def prior_log_prob(self, y: NDArray) -> NDArray:
        return _log_likelihood(np.zeros(self.dim), y)

    def simulator(self, y: NDArray, rng: np.random.Generator) -> NDArray:
        return y + np.sqrt(VARIANCE) * rng.standard_normal(y.shape)

    def log_likelihood(self, y: NDArray, x: NDArray) -> NDArray:
        r"""Returns $\log p(x | y)$, for parameters and observations of shape $(*, d)$."""
        return _log_likelihood(y, x)

    def exact_posterior(self) -> "GaussianPosterior":
        return GaussianPosterior()


@dataclass(frozen=True)
class GaussianPosterior:
    r"""$\mathcal{N}(x / 2, 0.05 \, I)$."""

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        return x[:, None] / 2 + np.sqrt(VARIANCE / 2) * rng.standard_normal((len(x), count, x.shape[1]))

    def log_prob(self, y: NDArray, x: NDArray) -> NDArray:
        return stats.norm.logpdf(y, x[:, None] / 2, np.sqrt(VARIANCE / 2)).sum(axis=-1)

    def log_evidence(self, x: NDArray) -> NDArray:
        return stats.norm.logpdf(x, 0.0, np.sqrt(2 * VARIANCE)).sum(axis=-1)


@dataclass(frozen=True)
class GaussianLinearUniform(BoxPrior):
    r"""$y \sim \mathcal{U}(-1, 1)^d$ and $x \sim \mathcal{N}(y, 0.1 \, I)$.

    Arguments:
        dim: The number of dimensions $d$ of the parameters.
    """

    dim: int = 10

    half = 1.0
    version = 1
    block = 100

    def simulator(self, y: NDArray, rng: np.random.Generator) -> NDArray:
        return y + np.sqrt(VARIANCE) * rng.standard_normal(y.shape)

    def log_likelihood(self, y: NDArray, x: NDArray) -> NDArray:
        r"""Returns $\log p(x | y)$, for parameters and observations of shape $(*, d)$."""
        return _log_likelihood(y, x)

    def exact_posterior(self) -> "BoxGaussian":
        return BoxGaussian(self.half, float(np.sqrt(VARIANCE)))


@dataclass(frozen=True)
class BoxGaussian:
    r"""$\mathcal{N}(x, \sigma^2 I)$ cut to a box $[-b, b]^d$: the coordinates are independent."""

    half: float
    deviation: float

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        mean = np.broadcast_to((x[:, None] + self.half) / (2 * self.half), (len(x), count, x.shape[1]))
        unit = truncated_normal(np.array(mean), np.full(mean.shape, self.deviation / (2 * self.half)), rng)
        return self.half * (2 * unit - 1)

    def log_mass(self, x: NDArray) -> NDArray:
        r"""Returns the logarithm of the share of the law that is in the box, with shape $(L,)$."""
        # Mirrored such that both ends are in the lower tail, where the logarithm is accurate.
        low = special.log_ndtr((-self.half - np.abs(x)) / self.deviation)
        high = special.log_ndtr((self.half - np.abs(x)) / self.deviation)
        return (high + np.log1p(-np.exp(low - high))).sum(axis=-1)

    def log_prob(self, y: NDArray, x: NDArray) -> NDArray:
        density = stats.norm.logpdf(y, x[:, None], self.deviation).sum(axis=-1)
        inside = (np.abs(y) <= self.half).all(axis=-1)
        return np.where(inside, density - self.log_mass(x)[:, None], -np.inf)

    def log_evidence(self, x: NDArray) -> NDArray:
        return self.log_mass(x) - x.shape[1] * np.log(2 * self.half)
