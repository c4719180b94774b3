r"""Trainings of diffusion models of images, with or without classes."""

__all__ = ["DiffusionTrainer"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from ...trainer import State
from ..gradient_training import Batch, GradientTrainer, Losses

if TYPE_CHECKING:
    import torch
    from torch import Tensor

KINDS = ("preconditioned", "ve")
# A small NCSN++: one block per level, without attention, filters and skips from image to image.
LITE: Mapping[str, Any] = {
    "nf": 32,
    "ch_mult": (1, 2),
    "num_res_blocks": 1,
    "attention": False,
    "fir": False,
    "progressive": "none",
    "progressive_input": "none",
    "fourier_scale": 1.0,
}


@dataclass(frozen=True, kw_only=True)
class DiffusionTrainer(GradientTrainer):
    r"""A diffusion model of images: an NCSN++ of score-models as a denoiser, conditional on labels if there are any.

    It learns from arrays `images`, $(N, H, W)$ or $(N, C, H, W)$, as bytes or in $[0, 1]$, and `labels`, $(N,)$.

    Arguments:
        kind: `"preconditioned"`, the denoiser and loss of Karras et al. (2022); or `"ve"`, the plain score matching of
            score-models with a variance exploding process.
        architecture: Arguments of `score_models.NCSNpp`.
        fold: The pixels on a side of the squares that the network sees as channels of one pixel.
        pad: The pixels that are added on each side of an image for the network.
        center: The value that is zero for the network, in the units of the images.
        scale: The distance from there that is one for the network.
        smallest: The smallest noise of the variance exploding process, in units of the network.
        largest: The largest one.
    """

    kind: str = "preconditioned"
    architecture: Mapping[str, Any] = field(default_factory=lambda: dict(LITE))
    fold: int = 2
    pad: int = 0
    center: float = 0.5
    scale: float = 0.5
    smallest: float = 0.01
    largest: float = 50.0

    version = 1
    packages = ("score-models",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in KINDS:
            raise UsageError(f"kind={self.kind!r} is not one of {', '.join(KINDS)}")
        plain = {key: tuple(value) if key == "ch_mult" else value for key, value in self.architecture.items()}
        object.__setattr__(self, "architecture", plain)

    def learns_from(self, task: Any) -> State:
        return {"images": task.training_images, "labels": task.training_labels}

    def facts(self, data: State) -> dict[str, NDArray]:
        shape = data["images"].shape[1:]
        classes = int(data["labels"].max()) + 1 if "labels" in data else 0
        return {"event": np.array(shape), "classes": np.array(classes)}

    def network(self, facts: State) -> Any:
        from .denoisers import Folded, Preconditioned, VarianceExploding, ncsnpp

        channels, *sides = (1, *facts["event"])[-3:]
        levels = self.fold * 2 ** (len(self.architecture.get("ch_mult", (2, 2, 2, 2))) - 1)
        if any((side + 2 * self.pad) % levels for side in sides):
            raise UsageError(
                f"pad={self.pad}, fold={self.fold}: {sides[0]} x {sides[1]} pixels with padding cannot be divided "
                f"by {levels}, as the levels of the network (ch_mult) need"
            )
        network = ncsnpp(int(channels) * self.fold**2, int(facts["classes"]), self.architecture)
        folded = Folded(network, self.fold, self.pad)
        if self.kind == "ve":
            return VarianceExploding(folded, self.smallest, self.largest)
        return Preconditioned(folded)

    def loss(self, network: Any, batch: Batch, noise: "torch.Generator", epoch: float) -> Losses:
        return {"loss": network.loss(self.to_network(batch["images"]), noise, _classes(batch))}

    def to_network(self, images: "Tensor") -> "Tensor":
        r"""Returns images as the network sees them, $(B, C, H, W)$."""
        import torch

        values = images.float() / 255 if images.dtype == torch.uint8 else images.float()
        return (values.reshape(len(values), -1, *values.shape[-2:]) - self.center) / self.scale


def _classes(batch: Batch) -> "Tensor | None":
    return batch["labels"].long() if "labels" in batch else None
