r"""Lotka-Volterra: four rates of predators and prey, from counts of both at ten times."""

__all__ = ["LotkaVolterra"]

import math
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.compiling import compiled

from .priors import LogNormalPrior, LogNormalTarget
from .sampler import Effort, SampledPosterior
from .solver import dormand_prince

START = (30.0, 1.0)  # prey and predators
TIMES = 2.1 * np.arange(10)
NOISE = 0.1  # of the logarithms of the counts
LOWEST, HIGHEST = math.log(1e-10), math.log(1e4)  # counts are cut to this range before the noise, as published
TOLERANCE = 1e-6  # of a step; the logarithms are then right to 2e-4, and the noise is 0.1


@cache
def _solve() -> Any:
    @compiled()
    def rate(u: NDArray, y: NDArray, out: NDArray) -> None:
        # For the logarithms of the counts, which stay positive however few are left.
        out[0] = y[0] - y[1] * np.exp(u[1])
        out[1] = -y[2] + y[3] * np.exp(u[0])

    return dormand_prince(rate)


@dataclass(frozen=True)
class LotkaVolterra(LogNormalPrior):
    r"""$X' = \alpha X - \beta X Y$, $Y' = -\gamma Y + \delta X Y$ and $\log x \sim \mathcal{N}(\log (X, Y), 0.1^2)$.

    The counts are 30 and 1 at the start and seen at $t = 0, 2.1, ..., 18.9$: ten numbers of prey, then ten of
    predators. $\alpha, \gamma \sim \text{LogNormal}(-1/8, 1/2)$ and $\beta, \delta \sim \text{LogNormal}(-3, 1/2)$.
    """

    location = (-0.125, -3.0, -0.125, -3.0)
    scale = (0.5, 0.5, 0.5, 0.5)
    version = 1
    block = 5  # a posterior takes a part of a second

    @property
    def names(self) -> list[str]:
        return ["α", "β", "γ", "δ"]

    def log_counts(self, y: NDArray) -> NDArray:
        r"""Returns the logarithms of the counts without noise, with shape $(*, 20)$."""
        states = _solve()(np.ascontiguousarray(y, np.float64).reshape(-1, 4), np.log(START), TIMES, TOLERANCE)
        return np.clip(states.swapaxes(1, 2).reshape(*y.shape[:-1], -1), LOWEST, HIGHEST)

    def simulator(self, y: NDArray, rng: np.random.Generator) -> NDArray:
        counts = self.log_counts(y)
        return np.exp(counts + NOISE * rng.standard_normal(counts.shape))

    def log_likelihood(self, y: NDArray, x: NDArray) -> NDArray:
        r"""Returns $\log p(x | y)$, for parameters $(*, 4)$ and observations $(*, 20)$ that broadcast."""
        seen = np.log(x)
        square = ((seen - self.log_counts(y)) / NOISE) ** 2
        return (-0.5 * square - seen - math.log(NOISE * math.sqrt(2 * math.pi))).sum(axis=-1)

    def exact_posterior(self) -> SampledPosterior:
        return SampledPosterior(partial(LogNormalTarget, self), Effort())
