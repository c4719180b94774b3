r"""The conditional generative models of digits: each is a candidate, whose training is a thing of its own."""

__all__ = ["Cvae", "Diffusion", "LatentDiffusion", "Mixtures"]

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mira_bench.arrays import Array
from mira_bench.errors import UsageError
from mira_bench.inference.diffusion.latent import LatentTrainer
from mira_bench.inference.diffusion.mixture import MixtureTrainer
from mira_bench.inference.diffusion.prior import DiffusionPrior, LatentPrior
from mira_bench.inference.diffusion.training import DiffusionTrainer
from mira_bench.inference.gradient_training import best_device, network_of, one_thread, train
from mira_bench.trainer import State

from .cvae import CvaeTrainer

DRAWS = ("mean", "pixels")
BATCH = 1000  # images that are decoded together

# Returns as many images as there are labels in its first argument, with shape (count, H, W).
Draw: TypeAlias = Callable[[NDArray[np.int64], np.random.Generator], NDArray[np.float32]]


@dataclass(frozen=True)
class ByLabel:
    r"""A distribution of images for each label.

    Arguments:
        draw: Draws an image for each of some labels.
        classes: The number of labels.
    """

    draw: Draw
    classes: int

    def sample(self, x: Array, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
        r"""Returns images with shape $(L, S, H, W)$, whose values are about from 0 to 1, for labels $(L,)$."""
        given = np.asarray(x).reshape(len(x))
        labels = given.astype(np.int64)
        if not np.array_equal(labels, given) or labels.min() < 0 or labels.max() >= self.classes:
            raise UsageError(f"x={given.tolist()}: labels are whole numbers from 0 to {self.classes - 1}")
        images = self.draw(labels.repeat(count), rng)
        return images.reshape(len(labels), count, *images.shape[1:])


@dataclass(frozen=True)
class Cvae:
    r"""The conditional variational autoencoder of the paper's appendix.

    Arguments:
        trainer: What determines its training.
        at: The epoch whose weights are used; none takes the last.
        draw: What a sample is given its code, which the paper leaves open: `"mean"`, the decoder's mean image, as such
            samples are shown nearly everywhere; or `"pixels"`, an image that is drawn pixel by pixel from the
            distribution that was trained.
    """

    trainer: CvaeTrainer = field(default_factory=CvaeTrainer)
    at: int | None = None
    draw: str = "mean"

    version = 1

    def __post_init__(self) -> None:
        if self.draw not in DRAWS:
            raise UsageError(f"draw={self.draw!r} is not one of {', '.join(DRAWS)}")

    def load(self, task: Any, state: State) -> ByLabel:
        network: Any = network_of(self.trainer, state)

        def draw(labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float32]:
            import torch

            codes = rng.standard_normal((len(labels), self.trainer.code), np.float32)
            parts = []
            with torch.inference_mode(), one_thread():
                for first in range(0, len(labels), BATCH):
                    rows = slice(first, first + BATCH)
                    code, label = (torch.as_tensor(v[rows], device=best_device()) for v in (codes, labels))
                    parts.append(network.pixels(code, label).cpu().numpy())
            means = np.concatenate(parts)
            if self.draw == "mean":
                return means
            if self.trainer.reconstruction == "bernoulli":
                return (rng.random(means.shape, np.float32) < means).astype(np.float32)
            spread = np.exp(0.5 * float(network.log_variance))
            return means + np.float32(spread) * rng.standard_normal(means.shape, np.float32)

        return ByLabel(draw, int(state["classes"]))

    def build(self, task: Any, rng: np.random.Generator) -> ByLabel:
        return self.load(task, train(self.trainer, self.trainer.learns_from(task), rng))


@dataclass(frozen=True)
class Diffusion:
    r"""A conditional diffusion model of the pixels, sampled by Heun's method.

    Arguments:
        trainer: What determines its training.
        at: The epoch whose weights are used; none takes the last.
        steps: The number of Heun steps, each of which costs two evaluations of the network.
        smallest: The smallest noise before zero, in units of the network.
        largest: The noise to begin with, in units of the network.
    """

    trainer: DiffusionTrainer = field(default_factory=DiffusionTrainer)
    at: int | None = None
    steps: int = 40
    smallest: float = 0.01
    largest: float = 40.0

    version = 1

    def load(self, task: Any, state: State) -> ByLabel:
        prior = DiffusionPrior.of(self.trainer, state)
        return ByLabel(_flow(prior, self.steps, self.smallest, self.largest), int(state["classes"]))

    def build(self, task: Any, rng: np.random.Generator) -> ByLabel:
        return self.load(task, train(self.trainer, self.trainer.learns_from(task), rng))


@dataclass(frozen=True)
class LatentDiffusion:
    r"""A conditional diffusion model of the largest principal components: trained in minutes, sampled in seconds.

    Arguments:
        trainer: What determines its training.
        at: The epoch whose weights are used; none takes the last.
        steps: The number of Heun steps.
        smallest: The smallest noise before zero, in units of the network.
        largest: The noise to begin with, in units of the network.
    """

    trainer: LatentTrainer = field(default_factory=LatentTrainer)
    at: int | None = None
    steps: int = 40
    smallest: float = 0.01
    largest: float = 80.0

    version = 1

    def load(self, task: Any, state: State) -> ByLabel:
        prior = LatentPrior.of(self.trainer, state)
        return ByLabel(_flow(prior, self.steps, self.smallest, self.largest), int(state["classes"]))

    def build(self, task: Any, rng: np.random.Generator) -> ByLabel:
        return self.load(task, train(self.trainer, self.trainer.learns_from(task), rng))


def _flow(prior: DiffusionPrior | LatentPrior, steps: int, smallest: float, largest: float) -> Draw:
    return lambda labels, rng: prior.sample(len(labels), rng, labels, steps=steps, smallest=smallest, largest=largest)


@dataclass(frozen=True)
class Mixtures:
    r"""A mixture of Gaussians for each digit, in the space of its largest principal components.

    Arguments:
        trainer: What determines its training.
    """

    trainer: MixtureTrainer = field(default_factory=MixtureTrainer)

    version = 1

    def load(self, task: Any, state: State) -> ByLabel:
        mixtures = self.trainer.load(state)
        return ByLabel(lambda labels, rng: mixtures.sample(len(labels), rng, labels), len(mixtures.mixtures))

    def build(self, task: Any, rng: np.random.Generator) -> ByLabel:
        return self.load(task, self.trainer.fit(self.trainer.learns_from(task), rng, lambda *_: None))
