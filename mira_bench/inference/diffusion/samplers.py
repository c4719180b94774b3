r"""What all samplers of images given data share: a prior with a denoiser, an operator, and one observation at a time.

They work in the coordinates $y_t = y + \sigma_t \epsilon$. A variance preserving process is the same one with images
that are multiplied by $\sqrt{\bar\alpha_t} = (1 + \sigma_t^2)^{-1/2}$, so methods that were published for one are
written here for the other, with the same steps.
"""

__all__ = ["ImageSampler"]

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...candidate import Draws
from ...errors import RunError, UsageError
from ..gradient_training import one_thread
from .observed import Asked, Observed

if TYPE_CHECKING:
    from torch import Tensor

BATCH = 64  # images that are denoised together
FAR = 1e3  # the noise of which only the mean of the prior is left


@dataclass(frozen=True, kw_only=True)
class ImageSampler(ABC):
    r"""A sampler of $p(y \mid x)$ by a denoiser. Samples know nothing of each other, whatever the batch is.

    Attributes:
        linear: Whether it needs a linear operator.
    """

    version = 3
    linear = False

    @abstractmethod
    def solve(self, prior: Asked, seen: Observed, draw: "Callable[[], Tensor]") -> "Tensor":
        r"""Returns images with shape $(S, *event)$.

        Arguments:
            prior: The prior.
            seen: The observation.
            draw: Draws white noise with the shape of all images.
        """

    def skip(self, operator: Any) -> str | None:
        r"""The reason why it does not apply to an operator, or none."""
        from .linear import LinearOperator

        needed = self.linear and not isinstance(operator, LinearOperator)
        return f"{type(self).__name__} needs a linear operator" if needed else None

    def sample(
        self, prior: Any, operator: Any, x: NDArray, count: int, rng: np.random.Generator, batch: int = BATCH
    ) -> Draws:
        r"""Returns images with shape $(L, S, *event)$, and how often the denoiser was asked for each sample.

        Arguments:
            prior: Whatever has `denoise(y, sigma)`.
            operator: The operator.
            x: The data, with shape $(L, *data)$.
            count: The number of samples $S$ of each.
            rng: The generator.
            batch: The number of images that are denoised together. The result is the same, up to rounding.
        """

        import torch

        reason = self.skip(operator)
        if reason is not None:
            raise UsageError(reason)
        if tuple(x.shape[1:]) != tuple(operator.data):  # the numbers of another layout would be as many
            raise UsageError(f"data of shape {x.shape}, where (L, {str(tuple(operator.data))[1:]} is needed")
        found = np.empty((len(x), count, *operator.event), np.float32)
        calls = np.empty(len(x))
        with torch.no_grad(), one_thread():
            middle = Asked(prior, batch).denoise(torch.zeros(1, *operator.event), FAR)
            for l, observation in enumerate(x):
                noise = torch.Generator().manual_seed(int(rng.integers(2**63)))
                asked = Asked(prior, batch)
                seen = Observed(operator, torch.tensor(observation, dtype=torch.float32)[None], middle)

                def draw(noise: torch.Generator = noise) -> "Tensor":
                    return torch.randn((count, *operator.event), generator=noise)

                images = self.solve(asked, seen, draw)
                bad = int((~images.flatten(1).isfinite().all(dim=1)).sum())
                if bad:
                    raise RunError(f"{bad} of {count} samples of {type(self).__name__} diverged: {self}")
                found[l], calls[l] = images.numpy(), asked.calls
        return Draws(found, diagnostics={"denoiser_calls": calls})
