r"""What MIRA mostly sees of an image: how gray it is. `explain` says how much."""

__all__ = ["Grayness", "agreement", "explain"]

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Grayness:
    r"""$\sum_i y_i (1 - y_i)$: 0 for an image of black and white, up to a quarter of the number of pixels.

    The squared distance of an image to a center $c$ is $|c|^2 + \sum_i y_i^2 - 2 \sum_i c_i y_i$. For a center that is
    uniform on $[0, 1]^d$ its expectation is $d / 3$ minus this sum: the grayer image is closer to most centers.
    """

    version = 1

    def points(self, values: NDArray) -> NDArray:
        return np.sum(values * (1 - values), axis=-1, keepdims=True)

    def bounds(self, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray]:
        return np.zeros(1), np.full(1, len(low) / 4)


def agreement(images: NDArray, centers: NDArray, pairs: NDArray[np.integer]) -> float:
    r"""Returns how often the grayer one of two images is the one that is closer to a center.

    Arguments:
        images: The images, with shape $(N, d)$.
        centers: The centers, with shape $(R, d)$.
        pairs: Which images are compared, with shape $(P, 2)$.
    """

    gray = Grayness().points(images)[:, 0]
    # Without the norm of the center, which is the same for both.
    distances = np.sum(images**2, axis=1)[:, None] - 2 * np.einsum("nd,rd->nr", images, centers)
    a, b = pairs.T
    return float(np.mean((distances[a] < distances[b]) == (gray[a] > gray[b])[:, None]))


def explain() -> None:
    r"""Prints it for the truths of the task, and how gray the digits are."""
    from .task import Mnist

    rng = np.random.default_rng(0)
    truths = Mnist().simulate(1000, rng)
    images = truths.truths
    pairs = rng.integers(len(images), size=(2000, 2))
    share = agreement(images, rng.random((100, images.shape[1])), pairs[pairs[:, 0] != pairs[:, 1]])
    print(f"the grayer of two images is closer to a random center in {share:.1%} of cases")
    gray, labels = Grayness().points(images)[:, 0], np.asarray(truths.group)
    means = ", ".join(f"{digit}: {gray[labels == digit].mean():.1f}" for digit in range(10))
    print(f"grayness by digit: {means}; standard deviation within a digit {_within(gray, labels):.1f}")


def _within(gray: NDArray, labels: NDArray) -> float:
    return float(np.sqrt(np.mean([gray[labels == digit].var() for digit in range(10)])))
