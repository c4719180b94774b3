r"""Simple likelihood, complex posterior (Papamakarios et al. 2019), with and without distractors."""

__all__ = ["Slcp", "SlcpDistractors"]

import math
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mira_bench.inference.moves import truncated_normal

from .priors import BoxPrior
from .sampler import Effort, SampledPosterior

POINTS = 4  # that are observed, in two dimensions
FLOOR = 1e-6  # added to both variances, as in the published code: they may vanish otherwise
DISTRACTORS, COMPONENTS, DEGREES = 92, 20, 2.0


def _covariance(scales: NDArray, angle: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    r"""The variances and the covariance of a point, for $(y_3, y_4)$ and $y_5$."""
    s1, s2 = scales[..., 0] ** 2, scales[..., 1] ** 2
    return s1**2 + FLOOR, s2**2 + FLOOR, np.tanh(angle) * s1 * s2


@dataclass(frozen=True)
class Slcp(BoxPrior):
    r"""Four points $x \sim \mathcal{N}(m, \Sigma)$, and five parameters $y \sim \mathcal{U}(-3, 3)^5$.

    $m = (y_1, y_2)$, the deviations are $y_3^2$ and $y_4^2$, and the correlation is $\tanh y_5$: the signs of $y_3$ and
    $y_4$ cannot be known, which makes four modes.
    """

    dim: int = field(default=5, init=False)

    half = 3.0
    version = 1
    block = 5  # a posterior takes a part of a second

    def simulator(self, y: NDArray, rng: np.random.Generator) -> NDArray:
        v1, v2, c = (part[:, None] for part in _covariance(y[:, 2:4], y[:, 4]))
        noise = rng.standard_normal((len(y), POINTS, 2))
        first = np.sqrt(v1) * noise[..., 0]
        second = c / v1 * first + np.sqrt(v2 - c**2 / v1) * noise[..., 1]
        return (y[:, None, :2] + np.stack([first, second], axis=-1)).reshape(len(y), -1)

    def log_likelihood(self, y: NDArray, x: NDArray) -> NDArray:
        r"""Returns $\log p(x | y)$, for parameters $(*, 5)$ and observations $(*, 8)$."""
        v1, v2, c = (part[..., None] for part in _covariance(y[..., 2:4], y[..., 4]))
        points = x.reshape(*x.shape[:-1], POINTS, 2) - y[..., None, :2]
        left = v2 - c**2 / v1
        square = points[..., 0] ** 2 / v1 + (points[..., 1] - c / v1 * points[..., 0]) ** 2 / left
        return -0.5 * (square + np.log(v1) + np.log(left)).sum(axis=-1) - POINTS * math.log(2 * math.pi)

    def exact_posterior(self) -> SampledPosterior:
        return SampledPosterior(SlcpTarget, Effort(population=2000, kernels=16, thin=20))


@dataclass(frozen=True)
class SlcpTarget:
    r"""The likelihood of $|y_3|$, $|y_4|$ and $y_5$. The means given these, and the signs, are drawn exactly."""

    x: NDArray
    dim: ClassVar[int] = 3

    def evaluate(self, z: NDArray, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
        unit = special.ndtr(z)
        scales, angle = 3.0 * unit[:, :2], 6.0 * unit[:, 2] - 3.0
        v1, v2, c = _covariance(scales, angle)
        points = self.x.reshape(POINTS, 2)
        mean = points.mean(axis=0)
        a, b = (points - mean).T
        slope, left = c / v1, v2 - c**2 / v1
        square = (a @ a) / v1 + (b @ b - 2 * slope * (a @ b) + slope**2 * (a @ a)) / left
        # The points say as much as their mean, of variance Sigma / 4, and their scatter.
        log_likelihood = -0.5 * (square + (POINTS - 1) * (np.log(v1) + np.log(left) + 2 * math.log(2 * math.pi)))
        log_likelihood -= math.log(POINTS)
        first, mass = _boxed(np.full(len(z), mean[0]), np.sqrt(v1 / POINTS), rng)
        second, more = _boxed(mean[1] + slope * (first - mean[0]), np.sqrt(left / POINTS), rng)
        signs = np.where(rng.random(scales.shape) < 0.5, -1.0, 1.0)
        y = np.column_stack([first, second, signs * scales, angle])
        return y, log_likelihood + mass + more - 2 * math.log(6.0)


def _boxed(mean: NDArray, deviation: NDArray, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    r"""Draws from normal laws cut to $[-3, 3]$, and the logarithm of what is left of them."""
    draw = 6.0 * truncated_normal((mean + 3.0) / 6.0, deviation / 6.0, rng) - 3.0
    low, high = (special.log_ndtr((end - np.abs(mean)) / deviation) for end in (-3.0, 3.0))
    with np.errstate(divide="ignore"):
        return draw, high + np.log(-np.expm1(low - high))


@cache
def _distractors() -> tuple[NDArray, NDArray, NDArray]:
    r"""The locations and scale matrices' roots of the distractors' law, and the order of the data.

    The recipe and the seed are the published ones.
    """
    fixed = np.random.RandomState(42)
    locations = np.array([15 * fixed.normal(size=DISTRACTORS) for _ in range(COMPONENTS)])
    roots = []
    for _ in range(COMPONENTS):
        lower = np.tril(fixed.normal(size=(DISTRACTORS, DISTRACTORS)))
        roots.append(3 * (lower + np.diag(np.exp(fixed.normal(size=DISTRACTORS)))))
    return locations, np.array(roots), fixed.permutation(DISTRACTORS + 2 * POINTS)


@dataclass(frozen=True)
class SlcpDistractors(Slcp):
    r"""The eight numbers of SLCP among 92 others, which say nothing, in a fixed order.

    The others are drawn together from a mixture of 20 multivariate Student laws with two degrees of freedom.
    """

    version = 1

    def simulator(self, y: NDArray, rng: np.random.Generator) -> NDArray:
        locations, roots, order = _distractors()
        data = super().simulator(y, rng)
        chosen = rng.integers(COMPONENTS, size=len(y))
        stretch = np.sqrt(DEGREES / rng.chisquare(DEGREES, (len(y), 1)))
        noise = stretch * rng.standard_normal((len(y), DISTRACTORS))
        distractors = np.empty((len(y), DISTRACTORS))
        for k in range(COMPONENTS):
            mine = chosen == k
            distractors[mine] = locations[k] + noise[mine] @ roots[k].T
        return np.concatenate([data, distractors], axis=1)[:, order]

    @staticmethod
    def informative(x: NDArray) -> NDArray:
        r"""Returns the eight numbers of observations $(*, 100)$ that depend on the parameters."""
        return x[..., np.argsort(_distractors()[2])[: 2 * POINTS]]

    def log_likelihood(self, y: NDArray, x: NDArray) -> NDArray:
        r"""Returns $\log p(x | y)$ up to the density of the distractors, for observations $(*, 100)$."""
        return super().log_likelihood(y, self.informative(x))

    def exact_posterior(self) -> SampledPosterior:
        return SampledPosterior(_without_distractors, Effort(population=2000, kernels=16, thin=20))


def _without_distractors(x: NDArray) -> SlcpTarget:
    return SlcpTarget(SlcpDistractors.informative(x))
