r"""Two moons (Greenberg et al. 2019): a crescent, folded, so that the posterior has two of them."""

__all__ = ["TwoMoons"]

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .priors import BoxPrior

RADIUS, SPREAD, OFFSET = 0.1, 0.01, 0.25  # of the crescent: mean and deviation of its radius, and where it is
ANGLES = 2000  # of the quadrature; the integrand is smooth on the scale SPREAD / RADIUS


def _fold(y: NDArray) -> tuple[NDArray, NDArray]:
    r"""The coordinates along the two diagonals; the first one enters by its absolute value."""
    return np.abs(y[..., 0] + y[..., 1]) / math.sqrt(2), (y[..., 1] - y[..., 0]) / math.sqrt(2)


@dataclass(frozen=True)
class TwoMoons(BoxPrior):
    r"""$x = (r \cos a + \frac{1}{4}, r \sin a) + (-|y_1 + y_2|, y_2 - y_1) / \sqrt{2}$.

    $a \sim \mathcal{U}(-\pi/2, \pi/2)$, $r \sim \mathcal{N}(0.1, 0.01^2)$ and $y \sim \mathcal{U}(-1, 1)^2$.
    """

    dim: int = field(default=2, init=False)

    half = 1.0
    version = 1
    block = 100

    def simulator(self, y: NDArray, rng: np.random.Generator) -> NDArray:
        fold, along = _fold(y)
        crescent = _crescent(len(y), rng)
        return np.stack([crescent[:, 0] - fold, crescent[:, 1] + along], axis=1)

    def log_likelihood(self, y: NDArray, x: NDArray) -> NDArray:
        r"""Returns $\log p(x | y)$, for parameters and observations of shape $(*, 2)$."""
        fold, along = _fold(y)
        u, v = x[..., 0] + fold - OFFSET, x[..., 1] - along
        radius = np.maximum(np.hypot(u, v), 1e-300)
        density = -0.5 * ((radius - RADIUS) / SPREAD) ** 2 - math.log(SPREAD * math.sqrt(2 * math.pi))
        return np.where(u >= 0, density - math.log(math.pi) - np.log(radius), -np.inf)

    def exact_posterior(self) -> "TwoMoonsPosterior":
        return TwoMoonsPosterior()


def _crescent(count: int, rng: np.random.Generator) -> NDArray:
    angle = rng.uniform(-math.pi / 2, math.pi / 2, count)
    radius = rng.normal(RADIUS, SPREAD, count)
    return np.stack([radius * np.cos(angle) + OFFSET, radius * np.sin(angle)], axis=1)


@dataclass(frozen=True)
class TwoMoonsPosterior:
    r"""The exact posterior.

    Under a flat prior, $(|y_1 + y_2|, y_2 - y_1) / \sqrt{2}$ is distributed as $(p_1 - x_1, x_2 - p_2)$ with $p$ on the
    crescent, given that the first is not negative and $y$ is in the box. Both signs of $y_1 + y_2$ are as likely.
    """

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        return np.stack([self._sample(one, count, rng) for one in x])

    def _sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        fold, along, tries = np.empty(0), np.empty(0), 2 * count
        while len(fold) < count:
            crescent = _crescent(tries, rng)
            a, b = crescent[:, 0] - x[0], x[1] - crescent[:, 1]
            inside = (a >= 0) & (a + np.abs(b) <= math.sqrt(2))
            fold, along = np.append(fold, a[inside]), np.append(along, b[inside])
            tries = min(2 * tries, 1_000_000)
        sum_ = np.where(rng.random(count) < 0.5, -1, 1) * fold[:count]
        return np.stack([sum_ - along[:count], sum_ + along[:count]], axis=1) / math.sqrt(2)

    def log_evidence(self, x: NDArray) -> NDArray:
        r"""Half the probability that a point of the crescent belongs to parameters in the box; by quadrature."""
        angle = math.pi * ((np.arange(ANGLES) + 0.5) / ANGLES - 0.5)
        cos, sin = np.cos(angle), np.sin(angle)
        a, b = x[:, :1] - OFFSET, x[:, 1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            # The three conditions on y are linear in the radius r.
            low, high = a / cos, np.full((len(x), ANGLES), np.inf)
            for slope, most in ((cos - sin, math.sqrt(2) + a - b), (cos + sin, math.sqrt(2) + a + b)):
                high = np.where(slope > 0, np.minimum(high, most / slope), high)
                low = np.where(slope < 0, np.maximum(low, most / slope), low)
        z = [(end - RADIUS) / SPREAD for end in (low, high)]
        share = np.maximum(special.ndtr(z[1]) - special.ndtr(z[0]), 0.0).mean(axis=1)
        with np.errstate(divide="ignore"):
            return np.log(share / 2)

    def log_prob(self, y: NDArray, x: NDArray) -> NDArray:
        task = TwoMoons()
        joint = task.log_likelihood(y, x[:, None]) + task.prior_log_prob(y)
        return joint - self.log_evidence(x)[:, None]
