r"""SIR: contact and recovery rate of an epidemic, from tests of a thousand people on ten days."""

__all__ = ["Sir"]

import math
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mira_bench.compiling import compiled

from .priors import LogNormalPrior, LogNormalTarget
from .sampler import Effort, SampledPosterior
from .solver import dormand_prince

POPULATION, TESTS = 1_000_000, 1000
TIMES = np.arange(0.0, 160.0, 17.0)  # days; ten of them
TOLERANCE = 1e-7  # of a step; the logarithms are then right to 1e-6


@cache
def _solve() -> Any:
    @compiled()
    def rate(u: NDArray, y: NDArray, out: NDArray) -> None:
        # The share that can be infected, and the logarithm of the share that is: small numbers keep their digits.
        new = y[0] * u[0]
        out[0] = -new * np.exp(u[1])
        out[1] = new - y[1]

    return dormand_prince(rate)


@dataclass(frozen=True)
class Sir(LogNormalPrior):
    r"""$S' = -\beta S I / N$, $I' = \beta S I / N - \gamma I$ and $x_i \sim \text{Binomial}(1000, I(t_i) / N)$.

    One of $N = 10^6$ is infected at the start; $t$ is 0, 17, ..., 153 days. The parameters are
    $\beta \sim \text{LogNormal}(\log 0.4, 0.5)$ and $\gamma \sim \text{LogNormal}(\log 1/8, 0.2)$.
    """

    location = (math.log(0.4), math.log(0.125))
    scale = (0.5, 0.2)
    version = 1
    block = 5  # a posterior takes a part of a second

    @property
    def names(self) -> list[str]:
        return ["β", "γ"]

    def infected(self, y: NDArray) -> NDArray:
        r"""Returns the share that is infected at the times of the tests, with shape $(*, 10)$."""
        start = np.array([1 - 1 / POPULATION, -math.log(POPULATION)])
        states = _solve()(np.ascontiguousarray(y, np.float64).reshape(-1, 2), start, TIMES, TOLERANCE)
        return np.clip(np.exp(states[..., 1]), 0.0, 1.0).reshape(*y.shape[:-1], -1)

    def simulator(self, y: NDArray, rng: np.random.Generator) -> NDArray:
        return rng.binomial(TESTS, self.infected(y)).astype(np.float64)

    def log_likelihood(self, y: NDArray, x: NDArray) -> NDArray:
        r"""Returns $\log p(x | y)$, for parameters $(*, 2)$ and observations $(*, 10)$ that broadcast."""
        share = self.infected(y)
        ways = special.gammaln(TESTS + 1) - special.gammaln(x + 1) - special.gammaln(TESTS - x + 1)
        return (ways + special.xlogy(x, share) + special.xlog1py(TESTS - x, -share)).sum(axis=-1)

    def exact_posterior(self) -> SampledPosterior:
        return SampledPosterior(partial(LogNormalTarget, self), Effort())
