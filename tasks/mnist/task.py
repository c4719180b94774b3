r"""Images of digits given their label: how well does a conditional generative model know them?"""

__all__ = ["DIGITS", "Digits", "Mnist", "labels_of"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.fiducials import Fiducials
from mira_bench.preprocessing import Binarize, Clip, Raw, Rescale
from mira_bench.streams import generator
from mira_bench.views import View

from .data import Images, checksums, load_images
from .features import ClassifierFeatures, PrincipalComponents
from .grayness import Grayness

DIGITS = 10
WHICH = ("own", "any", "wrong")
POOLS = ("test", "training")


def labels_of(x: Any) -> NDArray[np.int64]:
    r"""Returns the labels in observations of the task, with shape $(L,)$."""

    return np.asarray(x).reshape(len(x)).astype(np.int64)


def as_pixels(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    r"""Returns bytes as gray values from 0 to 1."""

    return images.astype(np.float32) / np.float32(255)


@dataclass(frozen=True)
class Mnist:
    r"""$y$ is an image of MNIST's test set with shape $(28, 28)$ and values in $[0, 1]$, $x$ its label.

    The fiducials are equally many of each digit, in the order 0, 1, ..., 9, 0, 1, ...: the first images of each digit
    in a permutation of the test set. All fiducials of a digit share one set of samples. The other test images of the
    digit are no fiducials, and are what the null is drawn from.

    Arguments:
        folder: The folder that has the images; by default they are found or fetched, see `data.py`.
        preprocess: What is done to truths and samples alike before any metric: `"raw"` (nothing), `"clip"` (to
            $[0, 1]$), `"min_max"` (`span` becomes $[0, 1]$) or `"binarize"` (at one half).
        span: The range of `min_max`: a fixed one, that pixels of all candidates hardly leave.
        per_digit: How many images of each digit are reserved as fiducials.
        seed: The seed of the permutation.
    """

    folder: str | None = field(default=None, compare=False)
    preprocess: str = "raw"
    span: tuple[float, float] = (-0.2, 1.2)
    per_digit: int = 100
    seed: int = 0

    version = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "span", tuple(map(float, self.span)))
        if len(self.span) != 2:
            raise UsageError(f"span={list(self.span)}: two numbers are needed, what becomes 0 and what becomes 1")
        if self.preprocess not in self.steps:
            raise UsageError(f"preprocess={self.preprocess!r} is not one of {', '.join(self.steps)}")
        if self.per_digit < 1:
            raise UsageError(f"per_digit={self.per_digit}: at least one is needed")

    def describe(self) -> Mapping[str, Any]:
        r"""What determines fiducials and samples: not where the images are, and not how they are looked at."""
        sums = dict(checksums(self.folder))
        return {
            "class": "mnist",
            "version": self.version,
            "per_digit": self.per_digit,
            "seed": self.seed,
            "sha256": sums,
        }

    @property
    def steps(self) -> dict[str, View]:
        r"""What can be done before scoring, by name."""
        return {"raw": Raw(), "clip": Clip(), "min_max": Rescale(*self.span), "binarize": Binarize()}

    @property
    def preprocessing(self) -> tuple[str, View]:
        return self.preprocess, self.steps[self.preprocess]

    @property
    def views(self) -> dict[str, Any]:
        r"""What else can be looked at.

        `grayness` is the one number that MIRA mostly sees, `pca` and `features` are learned from the training images.
        If samples are raw, there are also the other steps that could be done to them.
        """
        others = {key: step for key, step in self.steps.items() if key != "raw"} if self.preprocess == "raw" else {}
        learned: dict[str, Any] = {"pca": PrincipalComponents(), "features": ClassifierFeatures()}
        return {"grayness": Grayness(), **learned, **others}

    @property
    def block(self) -> int:
        return DIGITS * self.per_digit

    @property
    def most_fiducials(self) -> int:
        return self.block

    @property
    def bounds(self) -> tuple[float, float]:
        return 0.0, 1.0

    @property
    def images(self) -> Images:
        r"""All images; a process reads them once."""
        return load_images(self.folder)

    @property
    def training_images(self) -> NDArray[np.uint8]:
        return self.images.training

    @property
    def training_labels(self) -> NDArray[np.uint8]:
        return self.images.training_labels

    @cached_property
    def _split(self) -> tuple[NDArray[np.intp], tuple[NDArray[np.intp], ...]]:
        r"""Which test images are fiducials, $(n, 10)$, and which ones of each digit are left."""
        order = generator(self.seed, "mnist permutation").permutation(len(self.images.test_labels))
        labels = self.images.test_labels[order]
        by_digit = [order[labels == digit] for digit in range(DIGITS)]
        least = min(map(len, by_digit))
        if least <= self.per_digit:
            digit = next(d for d, rows in enumerate(by_digit) if len(rows) == least)
            raise UsageError(
                f"per_digit={self.per_digit}: the test set has {least} images of the digit {digit}, and some must be "
                "left for the null"
            )
        truths = np.stack([rows[: self.per_digit] for rows in by_digit], axis=1)
        return truths, tuple(rows[self.per_digit :] for rows in by_digit)

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        rows = self._split[0].reshape(-1)[:count]
        labels = self.images.test_labels[rows].astype(np.int64)
        return Fiducials(as_pixels(self.images.test[rows]), labels, group=labels)

    def pool(self, digit: int, which: str = "test") -> NDArray[np.uint8]:
        r"""Returns real images of a digit that are no fiducials: those left in the test set, or the training set."""
        if which == "training":
            return self.training_images[self.training_labels == digit]
        return self.images.test[self._split[1][digit]]

    def illustrate(self, fiducials: Fiducials, samples: Mapping[str, NDArray]) -> dict[str, Any]:
        from .pictures import digit_grid

        return {"digits": digit_grid(fiducials, samples, self.preprocessing)}


@dataclass(frozen=True)
class Digits:
    r"""Real images in place of a model's: the null, and two controls that know the label badly.

    Given the label, the null's images and the truths are a random draw of one set, so that a truth is to its samples
    as any of them to the others, and MIRA's expectation is exact. It is no exact posterior all the same: the pool is
    finite, and its images are drawn without replacement.

    Arguments:
        label: `"own"`, images of the digit that is asked for: real against real; `"any"`, of all digits: the label is
            ignored; `"wrong"`, of the next digit.
        pool: `"test"`, the test images that are no fiducials, or `"training"`, of which there are more, by other
            writers.
    """

    label: str = "own"
    pool: str = "test"

    version = 1
    role = "control"

    def __post_init__(self) -> None:
        if self.label not in WHICH:
            raise UsageError(f"label={self.label!r} is not one of {', '.join(WHICH)}")
        if self.pool not in POOLS:
            raise UsageError(f"pool={self.pool!r} is not one of {', '.join(POOLS)}")

    def build(self, task: Mnist, rng: np.random.Generator) -> "RealImages":
        own = [task.pool(digit, self.pool) for digit in range(DIGITS)]
        if self.label == "any":
            everything = np.concatenate(own)
            return RealImages((everything,) * DIGITS)
        step = 1 if self.label == "wrong" else 0
        return RealImages(tuple(own[(digit + step) % DIGITS] for digit in range(DIGITS)))


@dataclass(frozen=True)
class RealImages:
    r"""Draws images of a pool for each label, without replacement.

    Arguments:
        pools: The images by label, each with shape $(N, 28, 28)$.
    """

    pools: tuple[NDArray[np.uint8], ...]

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        sets = []
        for label in labels_of(x):
            pool = self.pools[label]
            if count > len(pool):
                raise UsageError(
                    f"samples={count}: there are {len(pool)} other images for the label {label}; ask for fewer, or "
                    "take pool=training"
                )
            sets.append(as_pixels(pool[rng.choice(len(pool), count, replace=False)]))
        return np.stack(sets)
