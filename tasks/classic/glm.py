r"""Bernoulli GLM: a neuron's filter from spikes that it makes in response to white noise."""

__all__ = ["BernoulliGlm"]

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .priors import Joint
from .sampler import Effort, SampledPosterior

BINS, LAGS = 100, 9


@cache
def _design() -> NDArray[np.float64]:
    r"""A column of ones, and the stimulus at each lag, with shape $(100, 10)$. The seed is the published one."""
    stimulus = np.random.RandomState(42).randn(BINS).astype(np.float32).astype(np.float64)
    columns = [np.ones(BINS)]
    columns += [np.concatenate([np.zeros(lag), stimulus[: BINS - lag]]) for lag in range(LAGS)]
    return np.stack(columns, axis=1)


@cache
def _prior_root() -> NDArray[np.float64]:
    r"""A square root of the prior's covariance, with shape $(10, 10)$.

    The offset has variance 2; second differences of the filter are penalized, late ones more: the precision is
    $F^T F$ with $F_{i,i-2} = 1$, $F_{i,i-1} = -2$ and $F_{ii} = 1 + \sqrt{(i - 1) / 9}$.
    """
    root = np.zeros((LAGS, LAGS))
    for i in range(LAGS):
        for column, value in ((i - 2, 1.0), (i - 1, -2.0), (i, 1 + math.sqrt(i / LAGS))):
            if column >= 0:
                root[i, column] = value
    out = np.zeros((LAGS + 1, LAGS + 1))
    out[0, 0] = math.sqrt(2.0)
    out[1:, 1:] = np.linalg.inv(root)  # F y is standard normal
    return out


@dataclass(frozen=True)
class BernoulliGlm(Joint):
    r"""Spikes $s_t \sim \text{Bernoulli}(\text{sigmoid}(V y)_t)$ in 100 bins; $x = V^T s$ is sufficient for $y$.

    $V$ holds the stimulus at nine lags and a constant, so $x$ is the number of spikes and nine times the mean stimulus
    before a spike. The prior of offset and filter $y$ is Gaussian and smooth.
    """

    dim: ClassVar[int] = LAGS + 1
    version = 1
    block = 5  # a posterior takes a part of a second

    @property
    def names(self) -> list[str]:
        return ["offset", *(f"f{i + 1}" for i in range(LAGS))]

    def prior_sample(self, count: int, rng: np.random.Generator) -> NDArray:
        return rng.standard_normal((count, self.dim)) @ _prior_root().T

    def prior_log_prob(self, y: NDArray) -> NDArray:
        root = _prior_root()
        z = np.linalg.solve(root, y.T).T
        return -0.5 * (z**2).sum(axis=-1) - self.dim / 2 * math.log(2 * math.pi) - np.linalg.slogdet(root)[1]

    def simulator(self, y: NDArray, rng: np.random.Generator) -> NDArray:
        design = _design()
        spikes = rng.random((len(y), BINS)) < 1 / (1 + np.exp(-y @ design.T))
        return spikes @ design

    def log_likelihood(self, y: NDArray, x: NDArray) -> NDArray:
        r"""Returns $\log p(x | y)$, for parameters and observations of shape $(*, 10)$.

        The stimulus is a row of real numbers, so no two spike trains have the same $x$.
        """
        return (y * x).sum(axis=-1) - np.logaddexp(0.0, y @ _design().T).sum(axis=-1)

    def exact_posterior(self) -> SampledPosterior:
        return SampledPosterior(GlmTarget, Effort(kernels=1))


@dataclass(frozen=True)
class GlmTarget:
    r"""The likelihood of an observation. The posterior is log-concave: one mode."""

    x: NDArray
    dim: ClassVar[int] = LAGS + 1

    def evaluate(self, z: NDArray, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
        y = z @ _prior_root().T
        return y, BernoulliGlm().log_likelihood(y, self.x)
