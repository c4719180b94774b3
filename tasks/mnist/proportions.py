r"""Images of a few digits given the proportions in which they occur, and models that know them more or less well."""

__all__ = ["DigitProportions", "ProportionsModel"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.fiducials import Fiducials

from .data import checksums, load_images
from .task import as_pixels


@dataclass(frozen=True)
class DigitProportions:
    r"""$x \sim \text{Dirichlet}(\alpha, \dots, \alpha)$; $y$ is a digit of the class $k \sim x$, with noise, clipped.

    An image of the class is drawn from the training set with replacement, normal noise is added to every pixel, and
    what leaves $[0, 1]$ is moved to its edge. A sample and the truth may be the same image: both are draws of one law.

    Arguments:
        folder: The folder that has the images; by default they are found or fetched, see `data.py`.
        digits: The digits that occur.
        concentration: The concentration $\alpha$ of the proportions.
        noise: The standard deviation of the noise, before it is clipped.
    """

    folder: str | None = field(default=None, compare=False)
    digits: Sequence[int] = (0, 2, 4)
    concentration: float = 1.0
    noise: float = 0.05

    version = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "digits", tuple(map(int, self.digits)))
        if len(self.digits) < 2 or not set(self.digits) <= set(range(10)):
            raise UsageError(f"digits={list(self.digits)}: at least two of the digits 0 to 9 are needed")
        if self.concentration <= 0 or self.noise < 0:
            raise UsageError(f"concentration={self.concentration}, noise={self.noise}: positive numbers are needed")

    def describe(self) -> Mapping[str, Any]:
        r"""What determines fiducials and samples, which is not where the images are."""
        own = {"class": "mnist proportions", "version": self.version, "digits": list(self.digits)}
        constants = {"concentration": self.concentration, "noise": self.noise}
        return own | constants | {"sha256": dict(checksums(self.folder))}

    @property
    def bounds(self) -> tuple[float, float]:
        return 0.0, 1.0

    def draw(
        self, proportions: NDArray[np.float64], count: int, noise: float, rng: np.random.Generator
    ) -> NDArray[np.float32]:
        r"""Returns images for each of some proportions $(L, K)$, with shape $(L, S, 28, 28)$."""
        images = load_images(self.folder)
        pools = [np.flatnonzero(images.training_labels == digit) for digit in self.digits]
        edges = np.cumsum(proportions, axis=1)[:, None, :-1]
        kinds = np.sum(rng.random((len(proportions), count, 1)) > edges, axis=2)
        places = rng.random(kinds.shape)
        rows = np.empty(kinds.shape, np.intp)
        for kind, pool in enumerate(pools):
            mine = kinds == kind
            rows[mine] = pool[(places[mine] * len(pool)).astype(np.intp)]
        drawn = as_pixels(images.training[rows])
        drawn += np.float32(noise) * rng.standard_normal(drawn.shape, np.float32)
        return np.clip(drawn, 0.0, 1.0, out=drawn)

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        x = rng.dirichlet([self.concentration] * len(self.digits), size=count)
        return Fiducials(self.draw(x, 1, self.noise, rng)[:, 0], x)

    def exact_posterior(self) -> "ProportionsPosterior":
        return ProportionsPosterior(self, 1.0, self.noise, False)


@dataclass(frozen=True)
class ProportionsModel:
    r"""A model of the images given proportions.

    Arguments:
        second: What the proportion of the second digit is multiplied with before all are made to sum to one.
        noise: The standard deviation of the model's noise.
        ignore: Whether it ignores the proportions: all digits are equally likely.
    """

    second: float = 1.0
    noise: float = 0.05
    ignore: bool = False

    version = 1

    def build(self, task: DigitProportions, rng: np.random.Generator) -> "ProportionsPosterior":
        return ProportionsPosterior(task, self.second, self.noise, self.ignore)


@dataclass(frozen=True)
class ProportionsPosterior:
    r"""Draws images; see `ProportionsModel`."""

    task: DigitProportions
    second: float
    noise: float
    ignore: bool

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        p = np.full_like(x, 1 / x.shape[1]) if self.ignore else np.array(x, np.float64)
        p[:, 1] *= self.second
        return self.task.draw(p / p.sum(axis=1, keepdims=True), count, self.noise, rng)
