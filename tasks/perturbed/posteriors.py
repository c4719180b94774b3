r"""Perturbations of the conjugate Gaussian posterior: heavy tails, and a rotation."""

__all__ = ["Rotated", "Student"]

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError

from ..gaussian import Conjugate

ABOUT = ("origin", "map")


def _center(task: Conjugate, x: NDArray) -> NDArray:
    r"""The mean of the exact posterior, which is also its maximum, with shape $(L, 1, d)$."""
    return (x / (1 + task.noise**2))[:, None]


@dataclass(frozen=True)
class StudentPosterior:
    r"""Student's t with location and scale of the exact posterior."""

    task: Conjugate
    degrees: float

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        normal = rng.standard_normal((len(x), count, self.task.dim))
        # One chi-square per sample and not per coordinate: the tails are heavy in all directions alike.
        stretch = np.sqrt(self.degrees / rng.chisquare(self.degrees, (len(x), count, 1)))
        return _center(self.task, x) + self.task.width * stretch * normal

    def log_prob(self, y: NDArray, x: NDArray) -> NDArray:
        dim, degrees, width = self.task.dim, self.degrees, self.task.width
        square = np.square((y - _center(self.task, x)) / width).sum(axis=-1)
        constant = math.lgamma((degrees + dim) / 2) - math.lgamma(degrees / 2)
        constant -= dim * math.log(width * math.sqrt(degrees * math.pi))
        return constant - (degrees + dim) / 2 * np.log1p(square / degrees)


@dataclass(frozen=True)
class Student:
    r"""The multivariate Student t whose location is the posterior mean and whose scale is the posterior's width.

    Arguments:
        degrees: The degrees of freedom. With two or less there is no variance.
    """

    degrees: float = 2.0

    version = 1

    def __post_init__(self) -> None:
        if not self.degrees > 0:
            raise UsageError(f"degrees={self.degrees}: a positive number of degrees of freedom is needed")

    def build(self, task: Any, rng: np.random.Generator) -> StudentPosterior:
        return StudentPosterior(task, self.degrees)


@dataclass(frozen=True)
class RotatedPosterior:
    r"""The exact posterior, rotated in the plane of the first two coordinates."""

    task: Conjugate
    angle: float
    about: str

    @property
    def rotation(self) -> NDArray[np.float64]:
        matrix = np.eye(self.task.dim)
        cos, sin = math.cos(math.radians(self.angle)), math.sin(math.radians(self.angle))
        matrix[:2, :2] = [[cos, -sin], [sin, cos]]
        return matrix

    def _pivot(self, x: NDArray) -> NDArray:
        return _center(self.task, x) if self.about == "map" else np.zeros((1, 1, self.task.dim))

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        pivot = self._pivot(x)
        return pivot + (self.task.exact_posterior().sample(x, count, rng) - pivot) @ self.rotation.T

    def log_prob(self, y: NDArray, x: NDArray) -> NDArray:
        pivot = self._pivot(x)
        return self.task.exact_posterior().log_prob(pivot + (y - pivot) @ self.rotation, x)


@dataclass(frozen=True)
class Rotated:
    r"""The exact posterior's samples, rotated.

    The posterior is isotropic: about its maximum a rotation changes nothing, about the origin it moves the mean.

    Arguments:
        angle: The angle of the rotation, in degrees.
        about: What is rotated about, `"origin"` or `"map"`.
    """

    angle: float = 40.0
    about: str = "origin"

    version = 1

    def __post_init__(self) -> None:
        if self.about not in ABOUT:
            raise UsageError(f"about={self.about!r} is not one of {', '.join(ABOUT)}")

    def skip(self, task: Any) -> str | None:
        return None if task.dim > 1 else "a rotation needs two dimensions"

    def build(self, task: Any, rng: np.random.Generator) -> RotatedPosterior:
        return RotatedPosterior(task, self.angle, self.about)
