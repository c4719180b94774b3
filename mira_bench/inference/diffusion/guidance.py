r"""Samplers that guide a diffusion by the derivative of its denoiser: DPS and MMPS."""

__all__ = ["Dps", "Mmps"]

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from .observed import Asked, Observed
from .samplers import ImageSampler
from .sampling import ancestral, ddpm_levels, noise_levels

if TYPE_CHECKING:
    from torch import Tensor

SMALLEST, LARGEST = 0.005, 100.0  # noise levels of MMPS, beside images of about one
PRECISION = 1e-5  # of the solutions of linear systems, relative: what single precision has, and a little less


@dataclass(frozen=True, kw_only=True)
class Dps(ImageSampler):
    r"""Diffusion posterior sampling (Chung et al., 2023): every step is followed by one against the residual.

    $$ y_{t-1} \leftarrow y_{t-1} - \zeta \nabla_{y_t} \|x - A D(y_t)\| $$

    Data are in units in which the norm of the operator is one. The norm of the residual is that of each sample.
    (Published code takes the norm of all samples that are drawn together, which makes them depend on each other.)

    Arguments:
        steps: The number of steps of the DDPM.
        zeta: The step $\zeta$ against the residual, of images that are multiplied as in a variance preserving process.
    """

    steps: int = 1000
    zeta: float = 1.0

    def solve(self, prior: Asked, seen: Observed, draw: "Callable[[], Tensor]") -> "Tensor":
        levels = ddpm_levels(self.steps)
        y = float(levels[0]) * draw()

        def against(clean: "Tensor", product: "Callable[[Tensor], Tensor]", rows: slice) -> "Tensor":
            return product(seen.distance_gradient(clean))

        for here, there in pairwise(levels.tolist()):
            clean, push = prior.denoise_and(y, here, against)
            factor = ((1 + here**2) * (1 + there**2)) ** 0.5
            y = ancestral(y, clean, here, there, draw()) - self.zeta * factor * push
        return y


@dataclass(frozen=True, kw_only=True)
class Mmps(ImageSampler):
    r"""Moment matching posterior sampling (Rozet et al., 2024): the likelihood knows the covariance of the clean image.

    $$ D(y_t \mid x) = D + \sigma_t^2 J^\top A^\top (\sigma^2 + \sigma_t^2 A J A^\top)^{-1} (x - A D) $$

    with the derivative $J$ of the denoiser $D$. The system is solved by conjugate gradients.

    Arguments:
        steps: The number of noise levels.
        iterations: The number of conjugate gradients at each.
    """

    steps: int = 100
    iterations: int = 5

    linear = True

    def solve(self, prior: Asked, seen: Observed, draw: "Callable[[], Tensor]") -> "Tensor":
        operator = seen.linear
        levels = noise_levels(self.steps, SMALLEST, LARGEST).tolist()
        y = levels[0] * draw()
        for here, there in pairwise(levels):

            def towards(
                clean: "Tensor", product: "Callable[[Tensor], Tensor]", rows: slice, here: float = here
            ) -> "Tensor":
                def apply(v: "Tensor") -> "Tensor":
                    return operator.noise**2 * v + here**2 * operator.forward(product(operator.adjoint(v)))

                away = seen.x - operator.forward(clean)
                return here**2 * product(operator.adjoint(_conjugate_gradients(apply, away, self.iterations)))

            clean, shift = prior.denoise_and(y, here, towards)
            y = ancestral(y, clean + shift, here, there, draw())
        return y


def _conjugate_gradients(apply: "Callable[[Tensor], Tensor]", b: "Tensor", iterations: int) -> "Tensor":
    r"""Solves a positive definite system for every row, from zero."""
    import torch

    def dot(a: "Tensor", b: "Tensor") -> "Tensor":
        return (a * b).flatten(1).sum(dim=1).reshape(-1, *(1 for _ in a.shape[1:]))

    found, rest = torch.zeros_like(b), b
    way, square = rest, dot(rest, rest)
    solved = PRECISION**2 * square
    going = square > 0
    for _ in range(iterations):
        along = apply(way)
        curve = dot(way, along)
        # A row that is solved stays: what is left is rounding, which further steps would follow anywhere. So does one
        # along which the derivative is not positive, as a network's may be: it must not turn the step around.
        going = going & (square > solved) & (curve > 0)
        length = torch.where(going, square / curve, 0.0)
        found, rest = found + length * way, rest - length * along
        before, square = square, dot(rest, rest)
        way = rest + torch.where(going, square / before, 0.0) * way
    return found
