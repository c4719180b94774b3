r"""Linear operators on tensors, with white noise, and what a Gaussian makes of their data in closed form.

Complex numbers are two real channels: images have shape $(2, H, W)$ and data end with a dimension of size 2, real part
first.
"""

__all__ = ["Basis", "LinearOperator", "MatrixBasis", "MatrixOperator"]

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 256  # rows of a matrix that are found together


class Basis(Protocol):
    r"""Orthonormal images $V$ in which $A^\top A = V S^2 V^\top$ is diagonal. What is orthogonal to all is not seen."""

    @property
    def squares(self) -> "Tensor":
        r"""The squares of the singular values $S$, with shape $(m,)$."""

    def along(self, y: "Tensor") -> "Tensor":
        r"""Returns $V^\top y$, with shape $(B, m)$, for images $(B, *event)$."""

    def images(self, coordinates: "Tensor") -> "Tensor":
        r"""Returns $V c$, with shape $(B, *event)$, for coordinates $(B, m)$."""


class LinearOperator(ABC):
    r"""$x = A y + \sigma \epsilon$. A subclass has the operator, its adjoint, and a basis in which it is diagonal.

    Data $x$ of one image may stand for all: $(1, *data)$ goes with images $(B, *event)$.

    Attributes:
        event: The shape of an image.
        data: The shape of the data.
        noise: The standard deviation $\sigma$ of the noise.
    """

    event: tuple[int, ...]
    data: tuple[int, ...]
    noise: float

    @property
    def measurements(self) -> int:
        r"""How many numbers were measured."""
        return math.prod(self.data)

    @abstractmethod
    def forward(self, y: "Tensor") -> "Tensor":
        r"""Returns $A y$, with shape $(B, *data)$, for images $(B, *event)$."""

    @abstractmethod
    def adjoint(self, x: "Tensor") -> "Tensor":
        r"""Returns $A^\top x$, with shape $(B, *event)$, for data $(B, *data)$."""

    @property
    @abstractmethod
    def basis(self) -> Basis:
        r"""The basis in which $A^\top A$ is diagonal."""

    def gram(self, y: "Tensor") -> "Tensor":
        r"""Returns $A^\top A y$, with shape $(B, *event)$."""
        return self.adjoint(self.forward(y))

    def misfit(self, y: "Tensor", x: "Tensor") -> "Tensor":
        r"""Returns the mean square of $(x - A y) / \sigma$ over the data, with shape $(B,)$: one, for the truth."""
        return ((x - self.forward(y)) / self.noise).flatten(1).square().mean(dim=1)

    def log_likelihood(self, y: "Tensor", x: "Tensor") -> "Tensor":
        r"""Returns $\log p(x \mid y)$, with shape $(B,)$."""
        return -0.5 * self.measurements * (self.misfit(y, x) + math.log(2 * math.pi * self.noise**2))

    def pull(self, y: "Tensor", x: "Tensor", spread: float) -> "Tensor":
        r"""Returns the gradient at $y$ of the log-likelihood of a clean image that is $y$ up to a spread $r$.

        $$ A^\top (\sigma^2 + r^2 A A^\top)^{-1} (x - A y) $$

        """
        basis = self.basis
        return basis.images(self._away(y, x) / (self.noise**2 + spread**2 * basis.squares))

    def prox(self, y: "Tensor", x: "Tensor", spread: float) -> "Tensor":
        r"""Returns the mean of $p(x \mid z) N(z \mid y, r^2)$ over clean images $z$, which is also its mode."""
        return y + spread**2 * self.pull(y, x, spread)

    def conditional(self, y: "Tensor", x: "Tensor", spread: float, noise: "Tensor") -> "Tensor":
        r"""Returns draws of $p(x \mid z) N(z \mid y, r^2)$, with shape $(B, *event)$.

        Arguments:
            y: The images $y$, with shape $(B, *event)$.
            x: The data, with shape $(B, *data)$ or $(1, *data)$.
            spread: The standard deviation $r$.
            noise: White noise, with the shape of the images.
        """
        basis = self.basis
        # The symmetric root of the covariance: r outside of the basis, and less inside.
        shrink = (1 + (spread / self.noise) ** 2 * basis.squares).rsqrt() - 1
        inside = basis.images(shrink * basis.along(noise))
        return self.prox(y, x, spread) + spread * (noise + inside)

    def _away(self, y: "Tensor", x: "Tensor") -> "Tensor":
        r"""Returns $V^\top A^\top (x - A y)$."""
        basis = self.basis
        return basis.along(self.adjoint(x)) - basis.squares * basis.along(y)

    def rows(self) -> Iterator[NDArray[np.float64]]:
        r"""Yields the matrix $A$ in groups of rows, each with shape $(n, d)$: for small problems only."""
        import torch

        size = math.prod(self.data)
        for first in range(0, size, ROWS):
            count = min(ROWS, size - first)
            units = torch.zeros(count, size, dtype=torch.float64)
            units[torch.arange(count), first + torch.arange(count)] = 1.0
            yield self.adjoint(units.reshape(count, *self.data)).flatten(1).numpy()

    def checked(self, x: NDArray) -> NDArray:
        r"""Returns data, whose shape must be $(L, *data)$: the numbers of another layout would be as many."""
        if np.shape(x)[1:] != self.data:
            raise UsageError(f"data of shape {np.shape(x)}, where (L, {str(self.data)[1:]} is needed")
        return np.asarray(x)


@dataclass(frozen=True)
class MatrixBasis:
    r"""A basis that is a matrix.

    Arguments:
        vectors: The images $V$ as rows, with shape $(m, d)$.
        squares: The squares of the singular values, with shape $(m,)$.
        event: The shape of an image.
    """

    vectors: "Tensor" = field(repr=False)
    squares: "Tensor"
    event: tuple[int, ...]

    @staticmethod
    def of(matrix: NDArray, event: tuple[int, ...]) -> "MatrixBasis":
        r"""Finds the basis of a matrix $(n, d)$."""
        import torch
        from threadpoolctl import threadpool_limits

        matrix = np.asarray(matrix, np.float64)
        with threadpool_limits(1):  # sums over several threads have other last digits
            _, values, vectors = np.linalg.svd(matrix, full_matrices=False)
        return MatrixBasis(torch.tensor(vectors).float(), torch.tensor(values).square().float(), event)

    def along(self, y: "Tensor") -> "Tensor":
        return y.flatten(1) @ self.vectors.T.to(y.dtype)

    def images(self, coordinates: "Tensor") -> "Tensor":
        return (coordinates @ self.vectors.to(coordinates.dtype)).reshape(-1, *self.event)


class MatrixOperator(LinearOperator):
    r"""A matrix, for problems that are small enough to write it down.

    Arguments:
        matrix: The matrix $A$, with shape $(n, d)$.
        noise: The standard deviation of the noise.
        event: The shape of an image, with $d$ numbers.
        data: The shape of the data, with $n$ numbers.
    """

    def __init__(self, matrix: NDArray, noise: float, event: tuple[int, ...], data: tuple[int, ...]) -> None:
        import torch

        if tuple(matrix.shape) != (math.prod(data), math.prod(event)):
            raise UsageError(f"a matrix of shape {tuple(matrix.shape)} does not map images {event} to data {data}")
        if not noise > 0:
            raise UsageError(f"noise={noise}: it must be positive")
        self.event, self.data, self.noise = tuple(event), tuple(data), float(noise)
        self.matrix: Any = torch.tensor(np.asarray(matrix), dtype=torch.float64)
        self._single = self.matrix.float()

    def _as(self, like: "Tensor") -> "Tensor":
        return self._single if like.dtype == self._single.dtype else self.matrix.to(like.dtype)

    def forward(self, y: "Tensor") -> "Tensor":
        return (y.flatten(1) @ self._as(y).T).reshape(-1, *self.data)

    def adjoint(self, x: "Tensor") -> "Tensor":
        return (x.flatten(1) @ self._as(x)).reshape(-1, *self.event)

    @cached_property
    def basis(self) -> MatrixBasis:
        return MatrixBasis.of(self.matrix.numpy(), self.event)
