r"""Gaussian mixture: the common mean of a wide and a narrow Gaussian (after Sisson et al. 2007)."""

__all__ = ["GaussianMixture"]

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from .linear import BoxGaussian
from .priors import BoxPrior

DEVIATIONS = (1.0, 0.1)


@dataclass(frozen=True)
class GaussianMixture(BoxPrior):
    r"""$y \sim \mathcal{U}(-10, 10)^d$ and $x \sim \frac{1}{2} \mathcal{N}(y, I) + \frac{1}{2} \mathcal{N}(y, 0.01 I)$.

    Arguments:
        dim: The number of dimensions $d$ of the parameters.
    """

    dim: int = 2

    half = 10.0
    version = 1
    block = 100

    def simulator(self, y: NDArray, rng: np.random.Generator) -> NDArray:
        deviation = rng.choice(DEVIATIONS, (len(y), 1))
        return y + deviation * rng.standard_normal(y.shape)

    def log_likelihood(self, y: NDArray, x: NDArray) -> NDArray:
        r"""Returns $\log p(x | y)$, for parameters and observations of shape $(*, d)$."""
        parts = [stats.norm.logpdf(x, y, deviation).sum(axis=-1) for deviation in DEVIATIONS]
        return np.logaddexp(*parts) - np.log(2)

    def exact_posterior(self) -> "MixturePosterior":
        return MixturePosterior(self.half)


@dataclass(frozen=True)
class MixturePosterior:
    r"""The mixture of both Gaussians cut to the box, each with its share of the mass in there."""

    half: float

    @property
    def _parts(self) -> list[BoxGaussian]:
        return [BoxGaussian(self.half, deviation) for deviation in DEVIATIONS]

    def _log_shares(self, x: NDArray) -> NDArray:
        masses = np.stack([part.log_mass(x) for part in self._parts])
        return masses - np.logaddexp(*masses)

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        wide, narrow = (part.sample(x, count, rng) for part in self._parts)
        share = np.exp(self._log_shares(x)[0])
        return np.where((rng.random((len(x), count)) < share[:, None])[..., None], wide, narrow)

    def log_prob(self, y: NDArray, x: NDArray) -> NDArray:
        shares = self._log_shares(x)
        parts = [part.log_prob(y, x) + share[:, None] for part, share in zip(self._parts, shares, strict=True)]
        return np.logaddexp(*parts)

    def log_evidence(self, x: NDArray) -> NDArray:
        return np.logaddexp(*(part.log_evidence(x) for part in self._parts)) - np.log(2)
