r"""The conditional variational autoencoder of the paper's appendix, and its training."""

__all__ = ["CvaeTrainer"]

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.inference.gradient_training import Batch, GradientTrainer, Losses
from mira_bench.trainer import State

if TYPE_CHECKING:
    import torch

RECONSTRUCTIONS = ("bernoulli", "gaussian")


@dataclass(frozen=True, kw_only=True)
class CvaeTrainer(GradientTrainer):
    r"""The training of the conditional variational autoencoder.

    The appendix gives the layers, $(28 \times 28) \to (32 \times 14 \times 14) \to (64 \times 7 \times 7) \to 32$ and
    back by transposed convolutions, label embeddings that are learned and concatenated to the inputs of both, 500
    epochs with batches of 512, Adam with rate 3e-4 and weight decay 1e-5, cosine annealing, and a warm-up of the KL
    divergence.

    It is silent about what follows, which is our choice: convolutions of 4 x 4 pixels with stride 2 and rectified
    linear units between them; an embedding of the label that is one more channel of the encoder's image, and one of 10
    numbers that stand beside the code in the decoder (410,757 parameters); and the arguments `heating` and
    `reconstruction`.

    Arguments:
        code: The number of dimensions of the code.
        embedding: The number of dimensions of the label's embedding in the decoder.
        heating: The number of epochs in which the weight of the KL divergence rises linearly from 0 to 1.
        reconstruction: How pixels in $[0, 1]$ are distributed given the code: `"bernoulli"`, whose negative
            log-likelihood is the binary cross-entropy; or `"gaussian"`, with a variance that is learned, the same for
            all pixels.
    """

    epochs: int = 500
    batch: int = 512
    rate: float = 3e-4
    schedule: str = "cosine"
    weight_decay: float = 1e-5
    code: int = 32
    embedding: int = 10
    heating: int = 10
    reconstruction: str = "bernoulli"

    version = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reconstruction not in RECONSTRUCTIONS:
            raise UsageError(f"reconstruction={self.reconstruction!r} is not one of {', '.join(RECONSTRUCTIONS)}")

    def learns_from(self, task: Any) -> State:
        return {"images": task.training_images, "labels": task.training_labels}

    def facts(self, data: State) -> dict[str, NDArray]:
        height, width = data["images"].shape[1:]
        if height % 4 or width % 4:
            raise UsageError(f"the autoencoder halves images twice: {height} x {width} pixels are not divisible by 4")
        return {"event": np.array([height, width]), "classes": np.array(int(data["labels"].max()) + 1)}

    def network(self, facts: State) -> Any:
        from .networks import CvaeNetwork

        height, width = map(int, facts["event"])
        learned = self.reconstruction == "gaussian"
        return CvaeNetwork(height, width, int(facts["classes"]), self.code, self.embedding, learned)

    def loss(self, network: Any, batch: Batch, noise: "torch.Generator", epoch: float) -> Losses:
        r"""Returns the negative evidence lower bound per image, with the KL divergence weighted by the warm-up."""
        import torch
        from torch.nn import functional

        images = batch["images"]
        y = (images.float() / 255 if images.dtype == torch.uint8 else images.float())[:, None]
        labels = batch["labels"].long()
        mean, log_variance = network.encode(y, labels)
        shift = torch.randn(mean.shape, generator=noise).to(mean.device)
        decoded = network.decode(mean + (0.5 * log_variance).exp() * shift, labels)
        if self.reconstruction == "bernoulli":
            misfit = functional.binary_cross_entropy_with_logits(decoded, y, reduction="sum")
        else:
            precision = (-network.log_variance).exp()
            misfit = 0.5 * (precision * (decoded.sigmoid() - y).square() + network.log_variance).sum()
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()
        weight = min(1.0, epoch / self.heating) if self.heating else 1.0
        misfit, divergence = misfit / len(y), divergence / len(y)
        return {"loss": misfit + weight * divergence, "reconstruction": misfit, "divergence": divergence}
