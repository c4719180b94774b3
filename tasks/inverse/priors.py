r"""What images of a problem look like: a mixture of Gaussians that is fitted to procedural images, or to a user's."""

__all__ = ["KINDS", "Codes", "ImagePrior"]

import dataclasses
import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.inference.diffusion.mixture import Mixture, MixtureTrainer
from mira_bench.inference.diffusion.subspace import Projected
from mira_bench.streams import generator
from mira_bench.trainer import Report, State

from . import phantoms
from .images import Images, load_images

KINDS = {"brains": phantoms.brains, "black_holes": phantoms.black_holes, "cells": phantoms.cells}


@dataclass(frozen=True, kw_only=True)
class ImagePrior:
    r"""Fits a mixture of Gaussians to images. It is kept like any training.

    Arguments:
        images: Procedural images, `"brains"`, `"black_holes"` or `"cells"`; or a file or folder of yours, see
            `load_images`.
        size: The pixels on a side of procedural images.
        channels: The channels of images of yours.
        count: The number of procedural images to learn from; of yours, the first so many.
        seed: The seed of procedural images.
        bounds: The range that is the scale of distances.
        mixture: How.
    """

    images: str = "brains"
    size: int = 32
    channels: int = 1
    count: int = 3000
    seed: int = 0
    bounds: tuple[float, float] = (-1.0, 1.0)
    mixture: MixtureTrainer = field(default_factory=lambda: MixtureTrainer(rank=60, components=8, rest=True))

    version = 1
    packages = ("scikit-learn",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", tuple(map(float, self.bounds)))
        if self.images not in KINDS and not os.path.exists(os.path.expanduser(self.images)):
            raise UsageError(f"images={self.images!r} is neither a file or folder nor one of {', '.join(KINDS)}")

    def describe(self) -> Mapping[str, Any]:
        r"""What determines the prior: of images of a user their content, not where they are."""
        own = dataclasses.asdict(self)
        source = {"recipe": phantoms.VERSION} if self.images in KINDS else {"images": self._given.sha256}
        return {**own, **source, "mixture version": self.mixture.version}

    @property
    def data_files(self) -> dict[str, str]:
        r"""The hash of the file of images, by its path; a folder has many, and is known by its content alone."""
        path = os.path.abspath(os.path.expanduser(self.images))
        return {path: self._given.sha256} if self.images not in KINDS and os.path.isfile(path) else {}

    @property
    def given_shape(self) -> tuple[int, ...] | None:
        r"""The shape of an image of yours; none if they are procedural."""
        return None if self.images in KINDS else tuple(self._given.images.shape[1:])

    @functools.cached_property
    def _given(self) -> Images:
        return load_images(self.images, self.channels)

    def learns_from(self, task: Any) -> State:
        if self.images in KINDS:  # the recipe stands for the images
            recipe = [phantoms.VERSION, list(KINDS).index(self.images), self.count, self.size, self.seed]
            return {"procedural": np.array(recipe)}
        return {"images": self._given.images[: self.count]}

    def fit(self, data: State, rng: np.random.Generator, report: Report) -> dict[str, NDArray]:
        images = self.procedural(self.count) if "procedural" in data else data["images"]
        return self.mixture.fit({"images": images}, rng, report)

    def procedural(self, count: int) -> NDArray[np.float32]:
        r"""Returns the first procedural images."""
        return KINDS[self.images](count, generator(self.seed, "images", self.images), self.size)

    def load(self, state: State) -> Mixture:
        r"""Returns the prior."""
        return self.mixture.load(state).mixtures[0]


@dataclass(frozen=True)
class Codes:
    r"""A view: the coordinates of images in the subspace of a prior, in which few numbers say all that varies.

    Arguments:
        trainer: What learns the prior.
    """

    trainer: ImagePrior

    version = 1

    def load(self, state: State) -> Projected:
        return Projected(self.trainer.load(state).subspace)
