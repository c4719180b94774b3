r"""Views of images that are learned from the training images: principal components, and what a classifier sees."""

__all__ = ["ClassifierFeatures", "ClassifierTrainer", "PrincipalComponents", "SubspaceTrainer"]

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.inference.diffusion.subspace import Projected, Subspace
from mira_bench.inference.gradient_training import Batch, GradientTrainer, Losses, best_device, network_of, one_thread
from mira_bench.trainer import Report, State

if TYPE_CHECKING:
    import torch

BATCH = 1000  # images that are looked at together


@dataclass(frozen=True, kw_only=True)
class ClassifierTrainer(GradientTrainer):
    r"""A small convolutional network that tells digits apart.

    Arguments:
        features: The number of features that its last layer decides by.
    """

    epochs: int = 5
    batch: int = 128
    rate: float = 1e-3
    schedule: str = "cosine"
    features: int = 64

    version = 1

    def learns_from(self, task: Any) -> State:
        return {"images": task.training_images, "labels": task.training_labels}

    def facts(self, data: State) -> dict[str, NDArray]:
        height, width = data["images"].shape[1:]
        if min(height, width) < 4:
            raise UsageError(f"the classifier halves images twice: {height} x {width} pixels are too few")
        return {"event": np.array([height, width]), "classes": np.array(int(data["labels"].max()) + 1)}

    def network(self, facts: State) -> Any:
        from .networks import ClassifierNetwork

        height, width = map(int, facts["event"])
        return ClassifierNetwork(height, width, int(facts["classes"]), self.features)

    def loss(self, network: Any, batch: Batch, noise: "torch.Generator", epoch: float) -> Losses:
        import torch
        from torch.nn import functional

        images, labels = batch["images"], batch["labels"].long()
        y = images.float() / 255 if images.dtype == torch.uint8 else images.float()
        logits = network(y[:, None])
        correct = (logits.argmax(dim=1) == labels).float().mean()
        return {"loss": functional.cross_entropy(logits, labels), "accuracy": correct}


@dataclass(frozen=True)
class ClassifierFeatures:
    r"""The features by which a classifier tells digits apart: images that look alike to it are close.

    Arguments:
        trainer: What determines the training of the classifier.
    """

    trainer: ClassifierTrainer = field(default_factory=ClassifierTrainer)

    version = 1

    def load(self, state: State) -> "SeenByClassifier":
        return SeenByClassifier(network_of(self.trainer, state), tuple(map(int, state["event"])))


@dataclass(frozen=True)
class SeenByClassifier:
    r"""The view of a trained classifier.

    Arguments:
        network: The classifier.
        event: The shape of an image.
    """

    network: Any
    event: tuple[int, ...]

    def points(self, values: NDArray) -> NDArray[np.float32]:
        return self._through(self.network.body, values)

    def probabilities(self, values: NDArray) -> NDArray[np.float32]:
        r"""Returns how probable the classifier takes each label to be, for images $(*, d)$."""
        return self._through(lambda y: self.network(y).softmax(dim=1), values)

    def bounds(self, low: NDArray, high: NDArray) -> None:
        return None

    def _through(self, layers: Any, values: NDArray) -> NDArray[np.float32]:
        import torch

        images = np.asarray(values, np.float32).reshape(-1, 1, *self.event)
        with torch.inference_mode(), one_thread():
            parts = [
                layers(torch.as_tensor(images[first : first + BATCH], device=best_device())).cpu().numpy()
                for first in range(0, len(images), BATCH)
            ]
        found = np.concatenate(parts)
        return found.reshape(*values.shape[:-1], found.shape[-1])


@dataclass(frozen=True)
class SubspaceTrainer:
    r"""Principal components of the training images.

    Arguments:
        rank: How many.
    """

    rank: int = 20

    version = 1

    def learns_from(self, task: Any) -> State:
        return {"images": task.training_images}

    def fit(self, data: State, rng: np.random.Generator, report: Report) -> dict[str, NDArray]:
        return Subspace.of(data["images"], self.rank).to_arrays()


@dataclass(frozen=True)
class PrincipalComponents:
    r"""The coordinates of images along the largest principal components of the training images.

    Arguments:
        trainer: What determines the components.
    """

    trainer: SubspaceTrainer = field(default_factory=SubspaceTrainer)

    version = 1

    def load(self, state: State) -> "Projected":
        return Projected(Subspace.from_arrays(state))
