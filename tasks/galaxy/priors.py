r"""What a galaxy may look like: a mixture of Gaussians for each class, fitted to images once and kept."""

__all__ = ["CLASSES", "GalaxyPriors", "galaxy_images"]

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mira_bench.inference.diffusion.mixture import Mixture, MixtureTrainer
from mira_bench.streams import generator
from mira_bench.trainer import Report, State

from . import procedural

if TYPE_CHECKING:
    from .task import Galaxy

CLASSES = ("spiral", "elliptical")
MOST = 400  # images of a class that a mixture learns from: with their mirror images, more take minutes and gigabytes


@functools.lru_cache(maxsize=2)
def galaxy_images(count: int, size: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    r"""Returns procedural galaxies, `count` of each class, with shape $(2 n, 3, H, W)$, and their classes."""

    makers = (procedural.spirals, procedural.ellipticals)
    parts = [make(count, generator(seed, "galaxies", name), size) for make, name in zip(makers, CLASSES, strict=True)]
    return np.concatenate(parts), np.repeat(np.arange(len(CLASSES)), count)


def _symmetric(images: NDArray) -> NDArray:
    r"""Images with all their rotations by right angles and reflections: a galaxy is as likely to be seen so."""
    turned = [np.rot90(images, k, axes=(-2, -1)) for k in range(4)]
    return np.concatenate([*turned, *(t[..., ::-1] for t in turned)])


@dataclass(frozen=True, kw_only=True)
class GalaxyPriors:
    r"""Fits a mixture of Gaussians in a linear subspace to the images of each class and their mirror images.

    Arguments:
        mixture: How.
    """

    mixture: MixtureTrainer = field(default_factory=lambda: MixtureTrainer(rank=100, components=20))

    version = 1
    packages = ("scikit-learn",)

    def learns_from(self, task: "Galaxy") -> State:
        if task.images == "procedural":  # the recipe stands for the images, which take a while to make
            return {"procedural": np.array([procedural.VERSION, min(task.count, MOST), task.size, task.seed])}
        labels = task.training_labels
        few = np.concatenate([np.flatnonzero(labels == k)[:MOST] for k in range(len(CLASSES))])
        return {"images": task.training_images[few], "labels": labels[few]}

    def fit(self, data: State, rng: np.random.Generator, report: Report) -> dict[str, NDArray]:
        if "procedural" in data:
            _, count, size, seed = map(int, data["procedural"])
            images, labels = galaxy_images(count, size, seed)
        else:
            images, labels = data["images"], data["labels"]
        # Copies are made in the order of the labels: first all images, then all of them turned, and so on.
        return self.mixture.fit({"images": _symmetric(images), "labels": np.tile(labels, 8)}, rng, report)

    def load(self, state: State) -> dict[str, Mixture]:
        r"""Returns the prior of each class."""
        return dict(zip(CLASSES, self.mixture.load(state).mixtures, strict=True))
