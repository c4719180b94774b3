r"""The toy of the paper's Section 4.1 (after Lemos et al. 2023): four candidates, four verdicts."""

__all__ = ["Toy", "ToyCandidate"]

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mira_bench.fiducials import Fiducials


def _split(x: NDArray) -> tuple[NDArray, NDArray]:
    dim = x.shape[1] // 2
    return x[:, :dim], np.exp(x[:, dim:])


@dataclass(frozen=True)
class Toy:
    r"""$y \sim \mathcal{N}(\theta, v \Sigma)$, clipped to the box, with $\Sigma$ diagonal.

    The observation is $x = (\theta, \log \sigma)$, with $\theta \sim \mathcal{U}(-5, 5)^d$ and
    $\log \sigma_i \sim \mathcal{U}(-5, -1)$.

    Arguments:
        dim: The number of dimensions $d$.
        box: Half the side of the box.
        variance: The factor $v$ on the variance of the truth. The paper varies it and keeps the candidate; here the
            candidates vary and the truths stay, so that all are scored on the same fiducials.
    """

    dim: int = 2
    box: float = 5.0
    variance: float = 1.0

    version = 1
    block = 100

    @property
    def bounds(self) -> tuple[list[float], list[float]]:
        return [-self.box] * self.dim, [self.box] * self.dim

    @property
    def names(self) -> list[str]:
        return [f"y{i}" for i in range(self.dim)]

    def _conditions(self, count: int, rng: np.random.Generator) -> NDArray:
        theta = rng.uniform(-self.box, self.box, size=(count, self.dim))
        return np.concatenate([theta, rng.uniform(-5, -1, size=(count, self.dim))], axis=1)

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        x = self._conditions(count, rng)
        y = ToyCandidate(variance=self.variance, box=self.box).sample(x, 1, rng)[:, 0]
        return Fiducials(y, x)

    def prior_sample(self, count: int, rng: np.random.Generator) -> NDArray:
        return np.asarray(self.simulate(count, rng).y)

    def exact_posterior(self) -> "ToyCandidate":
        return ToyCandidate(variance=self.variance, box=self.box)


@dataclass(frozen=True)
class ToyCandidate:
    r"""$\mathcal{N}(\theta - b \, \text{sign}(\theta) Z(1 - |\theta| / 5) \sigma, v \Sigma)$, clipped to the box.

    $Z$ is the inverse survival function of the standard normal.

    Arguments:
        variance: The factor $v$ on the variance: 1 is right, less is overconfident, more is underconfident.
        bias: The factor $b$ on the shift. The paper's numbers need 5, which its text does not mention.
        box: Half the side of the box.
    """

    variance: float = 1.0
    bias: float = 0.0
    box: float = 5.0

    version = 1

    def build(self, task: Any, rng: np.random.Generator) -> "ToyCandidate":
        return self

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        theta, sigma = _split(x)
        shift = self.bias * np.sign(theta) * -special.ndtri(1 - np.abs(theta) / self.box) * sigma
        noise = rng.standard_normal((len(x), count, theta.shape[1]))
        y = (theta - shift)[:, None] + np.sqrt(self.variance) * sigma[:, None] * noise
        return np.asarray(np.clip(y, -self.box, self.box))
