r"""What MIRA mostly sees of an image: how gray it is."""

__all__ = ["Grayness"]

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Grayness:
    r"""$\sum_i y_i (1 - y_i)$: 0 for an image of black and white, up to a quarter of the number of pixels.

    The squared distance of an image to a center $c$ is $|c|^2 + \sum_i y_i^2 - 2 \sum_i c_i y_i$. For a center that is
    uniform on $[0, 1]^d$ its expectation is $d / 3$ minus this sum, and in hundreds of dimensions that decides which of
    two images is closer to most of the centers.
    """

    version = 1

    def points(self, values: NDArray) -> NDArray:
        return np.sum(values * (1 - values), axis=-1, keepdims=True)

    def bounds(self, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray]:
        return np.zeros(1), np.full(1, len(low) / 4)
