r"""Linear operators between images and data, with white noise: what a measurement does to an image.

An operator has `forward(y)`, `adjoint(x)` and `log_likelihood(y, x)`, for images $(B, *event)$ and data $(B, *data)$.
"""

__all__ = ["ChannelOperator", "Operator", "Spectrum", "SpectrumTrainer"]

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from ...trainer import Report, State

if TYPE_CHECKING:
    from torch import Tensor


class Operator(Protocol):
    r"""What makes data of images: $x = A(y) + \eta$."""

    def forward(self, y: Any) -> Any:
        r"""Returns $A(y)$, with shape $(B, *data)$, for images $(B, *event)$."""

    def adjoint(self, x: Any) -> Any:
        r"""Returns $A^\top x$, with shape $(B, *event)$, for data $(B, *data)$."""

    def log_likelihood(self, y: Any, x: Any) -> Any:
        r"""Returns $\log p(x \mid y)$, with shape $(B,)$."""


@dataclass(frozen=True)
class ChannelOperator:
    r"""The same matrix for every channel of an image, and white noise: $x = A y + \sigma \epsilon$.

    Arguments:
        matrix: The matrix $A$, a sparse one of SciPy, with shape $(n, p)$.
        noise: The standard deviation $\sigma$ of the noise.
        event: The shape of an image, channels first: $(C, *)$ with $p$ pixels in each.
        data: The shape of the data, channels first: $(C, *)$ with $n$ pixels in each.
        spectrum: The singular values of the matrix, for those that need them.
    """

    matrix: Any
    noise: float
    event: tuple[int, ...]
    data: tuple[int, ...]
    spectrum: "Spectrum | None" = None

    def __post_init__(self) -> None:
        sizes = math.prod(self.data[1:]), math.prod(self.event[1:])
        if tuple(self.matrix.shape) != sizes or self.data[0] != self.event[0]:
            raise UsageError(
                f"a matrix of shape {tuple(self.matrix.shape)} does not map images {self.event} to data {self.data}"
            )
        if not self.noise > 0:
            raise UsageError(f"noise={self.noise}: it must be positive")

    def forward(self, y: NDArray) -> NDArray:
        r"""Returns $A y$, with shape $(B, *data)$, for images $(B, *event)$."""
        return _apply(self.matrix, _checked(y, self.event, "images"), self.data)

    def adjoint(self, x: NDArray) -> NDArray:
        r"""Returns $A^\top x$, with shape $(B, *event)$, for data $(B, *data)$."""
        return _apply(self.matrix.T, self.checked(x), self.event)

    def checked(self, x: NDArray) -> NDArray:
        r"""Returns data, whose shape must be $(B, *data)$: the numbers of another layout would be as many."""
        return _checked(x, self.data, "data")

    def log_likelihood(self, y: NDArray, x: NDArray) -> NDArray[np.float64]:
        r"""Returns $\log p(x \mid y)$, with shape $(B,)$, for images $(B, *event)$ and data $(B, *data)$."""
        if len(y) != len(x):
            raise UsageError(f"the likelihood of {len(y)} images and {len(x)} data: there must be as many of both")
        away = (self.checked(x).astype(np.float64) - self.forward(y)).reshape(len(y), -1) / self.noise
        size = math.prod(self.data)
        return np.asarray(-0.5 * np.square(away).sum(axis=1) - size * math.log(self.noise * math.sqrt(2 * math.pi)))

    def with_spectrum(self, spectrum: "Spectrum") -> "ChannelOperator":
        r"""Returns the same operator, whose spectrum is known."""
        return replace(self, spectrum=spectrum)


def _checked(values: NDArray, shape: tuple[int, ...], what: str) -> NDArray:
    values = np.asarray(values)
    if values.shape[1:] != shape:
        raise UsageError(f"an array of {what} has the shape {values.shape}, where (B, {str(shape)[1:]} is needed")
    return values


def _apply(matrix: Any, values: NDArray, shape: tuple[int, ...]) -> NDArray:
    r"""Multiplies each channel of each row by a sparse matrix."""
    rows = np.asarray(values).reshape(-1, matrix.shape[1])
    return np.asarray((matrix @ rows.T).T).reshape(-1, *shape)


@dataclass(frozen=True)
class Spectrum:
    r"""The singular values of a matrix, $A = U S V^\top$: coordinates in which it is diagonal, and white noise white.

    Arguments:
        matrix: The matrix, a sparse one of SciPy, with shape $(n, p)$.
        values: Its singular values $S$, with shape $(p,)$, the smallest first.
        right: The vectors $V$ as columns, with shape $(p, p)$.
    """

    matrix: Any = field(repr=False)
    values: NDArray[np.float32]
    right: NDArray[np.float32] = field(repr=False)

    @staticmethod
    def of(matrix: Any) -> "Spectrum":
        r"""Returns the spectrum of a matrix."""
        return Spectrum(matrix, **Spectrum.arrays(matrix))

    @staticmethod
    def arrays(matrix: Any) -> dict[str, NDArray[np.float32]]:
        r"""Finds values and vectors of a matrix: half a minute of a core for 4096 pixels."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):  # sums over several threads have other last digits
            squares, right = np.linalg.eigh((matrix.T @ matrix).toarray())
        return {"values": np.sqrt(np.maximum(squares, 0.0)).astype(np.float32), "right": right.astype(np.float32)}

    def along(self, images: NDArray) -> NDArray[np.float32]:
        r"""Returns coordinates $V^\top y$ of images with shape $(*, p)$."""
        return np.asarray(images, np.float32) @ self.right

    def images(self, coordinates: NDArray) -> NDArray[np.float32]:
        r"""The inverse of `along`."""
        return np.asarray(coordinates, np.float32) @ self.right.T

    def data(self, x: NDArray) -> NDArray[np.float32]:
        r"""Returns coordinates $S U^\top x = V^\top A^\top x$ of data with shape $(*, n)$."""
        rows = np.asarray(x, np.float64).reshape(-1, self.matrix.shape[0])
        return self.along((self.matrix.T @ rows.T).T).reshape(*np.shape(x)[:-1], -1)

    def pull(self, y: "Tensor", data: "Tensor", sigma: float, noise: float) -> "Tensor":
        r"""Returns the score of data given a noisy image, both in coordinates.

        $$ \nabla_y \log N(x \mid A y, \sigma^2 I + \sigma_t^2 A A^\top) $$

        This would be exact if nothing but the noisy image were known of the clean one. It is right where the noise of
        the image is small, which is where samples end.

        Arguments:
            y: Coordinates of noisy images, with shape $(*, p)$.
            data: What `data` returns, with shape $(*, p)$.
            sigma: The noise $\sigma_t$ of the images.
            noise: The noise $\sigma$ of the data.
        """
        import torch

        square = torch.as_tensor(self.values, dtype=y.dtype, device=y.device).square()
        return (data - square * y) / (noise**2 + sigma**2 * square)


@dataclass(frozen=True, kw_only=True)
class SpectrumTrainer:
    r"""Diagonalizes the operator of a task once: what is found is kept like a training."""

    version = 1

    def learns_from(self, task: Any) -> State:
        matrix = task.operator().matrix.tocsr()
        return {
            "data": matrix.data,
            "indices": matrix.indices,
            "indptr": matrix.indptr,
            "shape": np.array(matrix.shape),
        }

    def fit(self, data: State, rng: np.random.Generator, report: Report) -> dict[str, NDArray]:
        from scipy.sparse import csr_array

        matrix = csr_array((data["data"], data["indices"], data["indptr"]), shape=tuple(data["shape"]))
        return dict(Spectrum.arrays(matrix))
