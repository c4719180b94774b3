r"""Samplers that take turns between a denoiser and the data: DiffPIR, DAPS and PnP-DM."""

__all__ = ["Daps", "DiffPir", "PnpDm"]

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from .observed import Asked, Observed
from .samplers import ImageSampler
from .sampling import ancestral, ddpm_levels, noise_levels

if TYPE_CHECKING:
    from torch import Tensor

FLOOR = 0.002  # the noise at which an image counts as clean, beside images of about one


@dataclass(frozen=True, kw_only=True)
class DiffPir(ImageSampler):
    r"""Denoising for plug-and-play image restoration (Zhu et al., 2023): the clean image is moved towards the data.

    $$ \hat y = \arg\min_z \frac{\|x - A z\|^2}{2 \sigma^2} + \lambda \frac{\|z - D(y_t)\|^2}{2 \sigma_t^2} $$

    Arguments:
        steps: The number of steps of the DDPM.
        strength: The weight $\lambda$ of the prior.
        zeta: The share of new noise in every step.
        inner: The number of gradient steps towards the data, where they are not linear.
        rate: Their length, in units of the inverse of the largest curvature at the mean of the prior.
    """

    steps: int = 1000
    strength: float = 8.0
    zeta: float = 0.3
    inner: int = 20
    rate: float = 1.0

    def solve(self, prior: Asked, seen: Observed, draw: "Callable[[], Tensor]") -> "Tensor":
        levels = ddpm_levels(self.steps)
        y = float(levels[0]) * draw()
        for here, there in pairwise(levels.tolist()):
            clean = prior.denoise(y, here)
            spread = here / self.strength**0.5
            moved = seen.linear.prox(clean, seen.x, spread) if seen.is_linear else self._descend(clean, seen, spread)
            noise = (1 - self.zeta) ** 0.5 * (y - moved) / here + self.zeta**0.5 * draw()
            y = moved + there * noise
        return y

    def _descend(self, clean: "Tensor", seen: Observed, spread: float) -> "Tensor":
        length = self.rate / (seen.curvature + spread**-2)
        if seen.inside is None:
            return _steps(clean, seen, spread, length, self.inner)
        inside, basis = seen.inside
        start = basis.along(clean)
        return clean + basis.images(_steps(start, inside, spread, length, self.inner) - start)


@dataclass(frozen=True, kw_only=True)
class Daps(ImageSampler):
    r"""Decoupled annealing posterior sampling (Zhang et al., 2025): a clean image by the flow, then one near the data.

    At each level the probability flow gives a clean image $\hat y$; $z \sim p(x \mid z) N(z \mid \hat y, \sigma_t^2)$
    is drawn, and noise of the next level is added. The draw is exact for linear operators, by Langevin steps for
    others.

    Arguments:
        steps: The number of noise levels.
        flow: The number of steps of the flow at each.
        smallest: The smallest noise level.
        largest: The largest noise level.
        langevin: The number of Langevin steps, where data are not linear.
        rate: Their length, in units of the inverse of the largest curvature at the mean of the prior.
    """

    steps: int = 200
    flow: int = 5
    smallest: float = 0.1
    largest: float = 100.0
    langevin: int = 100
    rate: float = 0.2

    def solve(self, prior: Asked, seen: Observed, draw: "Callable[[], Tensor]") -> "Tensor":
        levels = noise_levels(self.steps, self.smallest, self.largest).tolist()
        y = levels[0] * draw()
        for here, there in pairwise(levels):
            clean = y
            for a, b in pairwise(noise_levels(self.flow, min(FLOOR, here / 2), here).tolist()):
                clean = clean + (1 - b / a) * (prior.denoise(clean, a) - clean)
            near = near_data(clean, seen, here, draw, self.langevin, self.rate)
            y = near + there * draw() if there > 0 else near
        return y


@dataclass(frozen=True, kw_only=True)
class PnpDm(ImageSampler):
    r"""Plug-and-play diffusion models (Wu et al., 2024): Gibbs sampling of an image and of a copy of it near the data.

    In turns $z \sim p(x \mid z) N(z \mid y, \rho^2)$, exact for linear operators and by Langevin steps for others, and
    $y \sim p(y) N(y \mid z, \rho^2)$, by the reverse process from the noise level $\rho$ on. The coupling $\rho$ falls.

    Arguments:
        steps: The number of turns.
        smallest: The smallest coupling.
        largest: The largest coupling.
        decay: The ratio of two couplings.
        reverse: The number of steps of the reverse process.
        langevin: The number of Langevin steps, where data are not linear.
        rate: Their length, in units of the inverse of the largest curvature at the mean of the prior.
    """

    steps: int = 100
    smallest: float = 0.02
    largest: float = 10.0
    decay: float = 0.93
    reverse: int = 20
    langevin: int = 40
    rate: float = 0.2

    def solve(self, prior: Asked, seen: Observed, draw: "Callable[[], Tensor]") -> "Tensor":
        y = prior.denoise(self.largest * draw(), self.largest)
        for turn in range(self.steps):
            rho = max(self.smallest, self.largest * self.decay**turn)
            y = near_data(y, seen, rho, draw, self.langevin, self.rate)
            for here, there in pairwise(noise_levels(self.reverse, min(FLOOR, rho / 2), rho).tolist()):
                y = ancestral(y, prior.denoise(y, here), here, there, draw())
        return y


def near_data(
    y: "Tensor", seen: Observed, spread: float, draw: "Callable[[], Tensor]", steps: int, rate: float
) -> "Tensor":
    r"""Returns draws of $p(x \mid z) N(z \mid y, r^2)$, exact for linear operators and by Langevin steps for others.

    Arguments:
        y: The images, with shape $(B, *event)$.
        seen: The observation.
        spread: The standard deviation $r$.
        draw: Draws white noise with the shape of the images.
        steps: The number of Langevin steps.
        rate: Their length, in units of the inverse of the largest curvature at the mean of the prior.
    """

    if seen.is_linear:
        return seen.linear.conditional(y, seen.x, spread, draw())
    length = rate / (seen.curvature + spread**-2)
    if seen.inside is None:
        return _steps(y, seen, spread, length, steps, iter(draw, None))
    inside, basis = seen.inside
    start = basis.along(y)
    moved = _steps(start, inside, spread, length, steps, _pieces(draw, start.shape[1]))
    # What data do not see is pulled back by a constant share in every step: all steps together are one draw.
    kept = (1 - length / spread**2) ** 2
    other = draw()
    other = other - basis.images(basis.along(other))
    return y + basis.images(moved - start) + (2 * length * sum(kept**k for k in range(steps))) ** 0.5 * other


def _steps(
    start: "Tensor", seen: Observed, spread: float, length: float, count: int, noise: "Iterator[Tensor] | None" = None
) -> "Tensor":
    r"""Takes steps up the density $p(x \mid z) N(z \mid y, r^2)$ from $y$: Langevin steps, if there is noise."""
    z = start
    for _ in range(count):
        z = z + length * (seen.gradient(z) - (z - start) / spread**2)
        if noise is not None:
            z = z + (2 * length) ** 0.5 * next(noise)
    return z


def _pieces(draw: "Callable[[], Tensor]", size: int) -> "Iterator[Tensor]":
    r"""Yields white noise of fewer numbers, as many times as a draw of images has them."""
    while True:
        drawn = draw().flatten(1)
        yield from (drawn[:, first : first + size] for first in range(0, drawn.shape[1] - size + 1, size))
