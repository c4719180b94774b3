r"""Compressed-sensing MRI with several coils: $x_j = P F S_j z + \sigma \epsilon$ for each coil $j$.

$F$ is the orthonormal Fourier transform with its origin in the middle of the image, $P$ keeps some lines of it, and the
sensitivities $S_j$ of the coils have a sum of squares of one. Lines are read out in full, along the last axis, so that
$A^H A$ mixes no two columns of an image: it is a block for each of them.
"""

__all__ = ["ColumnBasis", "Mri", "MriOperator"]

import functools
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.inference.diffusion.linear import LinearOperator
from mira_bench.streams import generator

from .problem import LinearProblem, require

if TYPE_CHECKING:
    from torch import Tensor

DISTANCE = 1.7  # of the coils from the middle, in units of half the frame


@dataclass(frozen=True)
class Mri(LinearProblem):
    r"""$y$ is a complex image $(2, H, H)$; $x$ are the sampled lines of all coils, with shape $(J, lines, H, 2)$.

    Arguments:
        size: The pixels on a side, $H$.
        coils: The number of coils, $J$.
        acceleration: One of so many lines is sampled.
        center: The share of the lines in the middle, low frequencies, that are always sampled.
        noise: The standard deviation $\sigma$ of the noise in real and imaginary part each.
        seed: The seed of the other lines, which are random.
    """

    size: int = 32
    coils: int = 4
    acceleration: float = 4.0
    center: float = 0.08
    noise: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        require(self, size=1, coils=0, acceleration=0.0, center=0.0, noise=0.0)
        if not self._middle <= self._count <= self.size:
            raise UsageError(
                f"acceleration={self.acceleration} and center={self.center}: {self._count} of {self.size} lines cannot "
                f"hold the {self._middle} in the middle"
            )

    @property
    def _count(self) -> int:
        return round(self.size / self.acceleration)

    @property
    def _middle(self) -> int:
        return max(1, round(self.center * self.size))

    @property
    def event(self) -> tuple[int, int, int]:
        return 2, self.size, self.size

    @property
    def data(self) -> tuple[int, int, int, int]:
        return self.coils, self._count, self.size, 2

    @property
    def lines(self) -> NDArray[np.int64]:
        r"""The lines that are sampled, in order; frequency zero is line `size // 2`."""
        first = self.size // 2 - self._middle // 2
        middle = np.arange(first, first + self._middle)
        others = np.setdiff1d(np.arange(self.size), middle)
        rng = generator(self.seed, "mri lines")
        return np.sort(np.concatenate([middle, rng.choice(others, self._count - self._middle, replace=False)]))

    @property
    def sensitivities(self) -> NDArray[np.complex128]:
        r"""The sensitivities of the coils, with shape $(J, H, H)$: fields of wires around, as in a birdcage."""
        side = (np.arange(self.size) + 0.5) * (2 / self.size) - 1
        wires = DISTANCE * np.exp(2j * np.pi * np.arange(self.coils) / self.coils)
        fields = 1 / (wires[:, None, None] - (side[None, :] + 1j * side[:, None]))
        return np.asarray(fields / np.sqrt(np.square(np.abs(fields)).sum(axis=0)))

    def operator(self) -> "MriOperator":
        return _operator(self)


@functools.lru_cache(maxsize=4)
def _operator(problem: Mri) -> "MriOperator":
    return MriOperator(problem.sensitivities, problem.lines, problem.noise)


@dataclass(frozen=True)
class ColumnBasis:
    r"""A basis of complex vectors for each column of an image. A vector and $i$ times it are two real images.

    Arguments:
        vectors: The vectors as columns of a matrix for each column of the image, with shape $(W, H, H)$.
        squares: The squares of the singular values, with shape $(2 W H,)$.
    """

    vectors: "Tensor" = field(repr=False)
    squares: "Tensor"

    def along(self, y: "Tensor") -> "Tensor":
        import torch

        z = torch.complex(y[:, 0], y[:, 1])
        inside = self.vectors.mH.to(z.dtype) @ z.permute(2, 1, 0)  # (W, H, B)
        return torch.view_as_real(inside.permute(2, 0, 1).contiguous()).flatten(1)

    def images(self, coordinates: "Tensor") -> "Tensor":
        import torch

        width, height, _ = self.vectors.shape
        inside = torch.view_as_complex(coordinates.reshape(-1, width, height, 2).contiguous())
        z = (self.vectors.to(inside.dtype) @ inside.permute(1, 2, 0)).permute(2, 1, 0)
        return torch.stack([z.real, z.imag], dim=1)


class MriOperator(LinearOperator):
    r"""The sampled lines of all coils.

    Arguments:
        sensitivities: The sensitivities of the coils, with shape $(J, H, W)$.
        lines: The lines that are sampled, with shape $(n,)$.
        noise: The standard deviation of the noise in real and imaginary part.
    """

    def __init__(self, sensitivities: NDArray[np.complex128], lines: NDArray[np.int64], noise: float) -> None:
        import torch

        coils, height, width = sensitivities.shape
        self.event, self.data, self.noise = (2, height, width), (coils, len(lines), width, 2), noise
        self.lines = torch.tensor(lines)
        self.sensitivities = torch.tensor(sensitivities)
        # A shift of the origin to the middle is a phase of every number, here and there.
        rows, columns = (np.exp(2j * np.pi * (n // 2) * np.arange(n) / n) for n in (height, width))
        middle = np.exp(-2j * np.pi * ((height // 2) ** 2 / height + (width // 2) ** 2 / width))
        self._before = torch.tensor(sensitivities * (rows[:, None] * columns))
        self._after = torch.tensor(middle * rows[lines][:, None] * columns)
        self._single = self._before.to(torch.complex64), self._after.to(torch.complex64)

    def _as(self, like: "Tensor") -> "tuple[Tensor, Tensor]":
        single = like.dtype == self._single[0].dtype
        return self._single if single else (self._before.to(like.dtype), self._after.to(like.dtype))

    def forward(self, y: "Tensor") -> "Tensor":
        import torch

        z = torch.complex(y[:, 0], y[:, 1])[:, None]
        before, after = self._as(z)
        waves = torch.fft.fft2(before * z, norm="ortho")
        return torch.view_as_real(waves[:, :, self.lines] * after)

    def adjoint(self, x: "Tensor") -> "Tensor":
        import torch

        sampled = torch.view_as_complex(x.contiguous())
        before, after = self._as(sampled)
        waves = sampled.new_zeros(len(x), self.data[0], *self.event[1:])
        waves[:, :, self.lines] = sampled * after.conj()
        z = (before.conj() * torch.fft.ifft2(waves, norm="ortho")).sum(dim=1)
        return torch.stack([z.real, z.imag], dim=1)

    @cached_property
    def basis(self) -> ColumnBasis:
        r"""The basis, found column by column: ten seconds of a core for 320 x 320 pixels."""
        import torch
        from threadpoolctl import threadpool_limits

        _, height, width = self.event
        place = np.arange(height) - height // 2
        waves = np.exp(-2j * np.pi * np.outer(self.lines.numpy() - height // 2, place) / height) / np.sqrt(height)
        sampled, sensitivities = waves.conj().T @ waves, self.sensitivities.numpy()
        vectors = torch.empty(width, height, height, dtype=torch.complex64)
        squares = torch.empty(width, height)
        with threadpool_limits(1):  # sums over several threads have other last digits
            for w in range(width):
                column = sensitivities[:, :, w]
                values, found = np.linalg.eigh(sampled * (column.conj().T @ column))
                vectors[w], squares[w] = torch.tensor(found), torch.tensor(np.maximum(values, 0.0))
        return ColumnBasis(vectors, squares.flatten().repeat_interleave(2))
