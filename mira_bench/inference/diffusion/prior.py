r"""Trained diffusion models as distributions of images: `denoise` and `sample`, in the units of the images."""

__all__ = ["DiffusionPrior", "LatentPrior"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...trainer import State
from ..gradient_training import best_device, network_of, one_thread
from .latent import LatentTrainer
from .sampling import heun, noise_levels
from .subspace import Subspace
from .training import DiffusionTrainer

if TYPE_CHECKING:
    from torch import Tensor

BATCH = 250  # images that are denoised together: more need more memory, and are not faster


@dataclass(frozen=True)
class DiffusionPrior:
    r"""The distribution that a denoiser stands for.

    Arguments:
        network: The denoiser, of points in units of the network.
        event: The shape of a point.
        inner: The shape of a point for the network.
        center: The value that is zero for the network.
        scale: The distance from there that is one for it.
    """

    network: Any
    event: tuple[int, ...]
    inner: tuple[int, ...]
    center: float
    scale: float

    @staticmethod
    def of(trainer: DiffusionTrainer, state: State) -> "DiffusionPrior":
        r"""Returns the distribution of images that a training found."""
        event = tuple(map(int, state["event"]))
        return DiffusionPrior(network_of(trainer, state), event, (1, *event)[-3:], trainer.center, trainer.scale)

    def denoise(self, x: "Tensor", sigma: "Tensor", condition: "Tensor | None" = None) -> "Tensor":
        r"""Returns $E[y \mid x]$ for points $(B, *event)$ with noise $(B,)$, and classes $(B,)$ if there are any."""
        inner = (x.reshape(len(x), *self.inner) - self.center) / self.scale
        found = self.network.denoise(inner, sigma / self.scale, condition)
        return self.center + self.scale * found.reshape(x.shape)

    def sample(
        self,
        count: int,
        rng: np.random.Generator,
        condition: NDArray[np.integer] | None = None,
        steps: int = 40,
        smallest: float = 0.01,
        largest: float = 40.0,
        batch: int = BATCH,
    ) -> NDArray[np.float32]:
        r"""Returns samples, with shape $(count, *event)$.

        Arguments:
            count: The number of samples.
            rng: The generator.
            condition: The class of each, with shape $(count,)$, if the model has classes.
            steps: The number of Heun steps, each of which costs two evaluations of the network.
            smallest: The smallest noise before zero, in units of the network.
            largest: The noise to begin with, in units of the network.
            batch: The number of samples that are made together. The result is the same, up to rounding.
        """

        import torch

        levels = noise_levels(steps, smallest, largest) * self.scale
        start = self.center + levels[0].astype(np.float32) * rng.standard_normal((count, *self.event), np.float32)
        found = np.empty_like(start)
        with torch.inference_mode(), one_thread():
            for first in range(0, count, batch):
                rows = slice(first, first + batch)
                x = torch.as_tensor(start[rows], device=best_device())
                classes = None if condition is None else torch.as_tensor(condition[rows], device=x.device).long()

                def denoise(x: "Tensor", sigma: "Tensor", classes: "Tensor | None" = classes) -> "Tensor":
                    return self.denoise(x, sigma, classes)

                found[rows] = heun(denoise, x, levels).cpu().numpy()
        return found


@dataclass(frozen=True)
class LatentPrior:
    r"""A distribution of images that lie in a linear subspace.

    Arguments:
        codes: The distribution of their codes.
        subspace: The subspace.
        event: The shape of an image.
    """

    codes: DiffusionPrior
    subspace: Subspace
    event: tuple[int, ...]

    @staticmethod
    def of(trainer: LatentTrainer, state: State) -> "LatentPrior":
        r"""Returns the distribution of images that a training found."""
        inside = (trainer.rank,)
        codes = DiffusionPrior(network_of(trainer, state), inside, inside, 0.0, float(state["scale"]))
        return LatentPrior(codes, Subspace.from_arrays(state), tuple(map(int, state["event"])))

    def denoise(self, x: "Tensor", sigma: "Tensor", condition: "Tensor | None" = None) -> "Tensor":
        r"""Returns $E[y \mid x]$ for images $(B, *event)$ with noise $(B,)$, and classes $(B,)$ if there are any."""
        mean, components = self.subspace.tensors(x)
        noisy = (x.flatten(1) - mean) @ components.T
        return (mean + self.codes.denoise(noisy, sigma, condition) @ components).reshape(x.shape)

    def sample(
        self, count: int, rng: np.random.Generator, condition: NDArray[np.integer] | None = None, **settings: Any
    ) -> NDArray[np.float32]:
        r"""Returns images, with shape $(count, *event)$; settings are those of `DiffusionPrior.sample`."""
        return self.subspace.decode(self.codes.sample(count, rng, condition, **settings)).reshape(count, *self.event)
