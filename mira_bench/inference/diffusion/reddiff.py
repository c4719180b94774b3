r"""RED-diff: an image is fitted to the data, with the denoiser as its regularization."""

__all__ = ["RedDiff"]

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .observed import Asked, Observed
from .samplers import ImageSampler
from .sampling import ddpm_levels

if TYPE_CHECKING:
    from torch import Tensor

BETAS = (0.9, 0.99)  # of Adam


@dataclass(frozen=True, kw_only=True)
class RedDiff(ImageSampler):
    r"""Regularization by denoising diffusion (Mardani et al., 2023): one image, by stochastic gradients.

    It begins at the mean of the prior. Noise falls along a DDPM. With new noise $\epsilon$ in every step, Adam follows

    $$ \lambda (\mu - D(\mu + \sigma_t \epsilon)) + \frac{d}{n} \nabla \frac{\|x - A \mu\|^2}{2} $$

    which is the published gradient with its weight $\lambda / \mathrm{SNR}_t$, and means over $d$ pixels and $n$ data.
    Data are in units in which the norm of the operator is one. It is made to find a mode: what its samples differ by is
    the noise of the gradients.

    Arguments:
        steps: The number of steps of the DDPM.
        rate: The learning rate of Adam.
        strength: The weight $\lambda$ of the prior.
    """

    steps: int = 1000
    rate: float = 0.02
    strength: float = 0.25

    def solve(self, prior: Asked, seen: Observed, draw: "Callable[[], Tensor]") -> "Tensor":
        import torch

        mean = seen.middle.repeat(len(draw()), *(1 for _ in seen.operator.event)).requires_grad_()
        adam = torch.optim.Adam([mean], lr=self.rate, betas=BETAS)
        weight = mean[0].numel() / (seen.size * seen.curvature)
        for sigma in ddpm_levels(self.steps).tolist()[:-1]:
            now = mean.detach()
            clean = prior.denoise(now + sigma * draw(), sigma)
            mean.grad = self.strength * (now - clean) - weight * seen.gradient(now)
            adam.step()
        return mean.detach()
