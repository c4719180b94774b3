r"""Training of a diffusion model of codes: images of a linear subspace, conditional on their labels."""

__all__ = ["LatentTrainer"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...trainer import State
from ..gradient_training import Batch, GradientTrainer, Losses
from .subspace import Subspace

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class LatentTrainer(GradientTrainer):
    r"""A diffusion model in the space of the largest principal components, with a network of fully connected layers.

    It learns from `images`, $(N, *event)$, as bytes or in $[0, 1]$, and from `labels`, $(N,)$, if there are any.

    Arguments:
        rank: The number of principal components.
        width: The width of the network's layers.
        blocks: The number of its residual blocks.
    """

    rank: int = 100
    width: int = 256
    blocks: int = 3

    version = 1

    def learns_from(self, task: Any) -> State:
        return {"images": task.training_images, "labels": task.training_labels}

    def facts(self, data: State) -> dict[str, NDArray]:
        subspace = Subspace.of(data["images"], self.rank)
        # One scale for all: noise that is white in pixels stays white in codes.
        scale = subspace.encode(data["images"]).std()
        classes = int(data["labels"].max()) + 1 if "labels" in data else 0
        shape = {"event": np.array(data["images"].shape[1:]), "classes": np.array(classes)}
        return shape | subspace.to_arrays() | {"scale": np.array(scale)}

    def examples(self, data: State, facts: State) -> dict[str, NDArray]:
        codes = Subspace.from_arrays(facts).encode(data["images"]) / facts["scale"]
        return {**data, "images": codes.astype(np.float32)}

    def network(self, facts: State) -> Any:
        from .denoisers import LatentNetwork, Preconditioned

        return Preconditioned(LatentNetwork(self.rank, int(facts["classes"]), self.width, self.blocks), spread=1.0)

    def loss(self, network: Any, batch: Batch, noise: "torch.Generator", epoch: float) -> Losses:
        labels = batch["labels"].long() if "labels" in batch else None
        return {"loss": network.loss(batch["images"], noise, labels)}
