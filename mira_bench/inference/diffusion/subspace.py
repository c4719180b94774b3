r"""The linear subspace of images in which they vary most."""

__all__ = ["Projected", "Subspace"]

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from ...trainer import State


@dataclass(frozen=True)
class Subspace:
    r"""Principal components. Codes are coordinates in the subspace, in the units of the images.

    The components are orthonormal: white noise of images is white noise of codes, with the same standard deviation.

    Arguments:
        mean: The mean image, with shape $(D,)$.
        components: Orthonormal images, with shape $(r, D)$.
        rest: The root mean square of what is left of images outside, per dimension.
    """

    mean: NDArray[np.float64]
    components: NDArray[np.float64]
    rest: float

    @staticmethod
    def of(images: NDArray, rank: int) -> "Subspace":
        r"""Returns the subspace of the largest principal components of images $(N, *event)$."""
        from threadpoolctl import threadpool_limits

        values = as_values(images)
        count, size = values.shape
        if not 1 <= rank < min(count, size):
            most = min(count, size) - 1
            raise UsageError(f"rank={rank}: {count} images of {size} pixels have from 1 to {most} components")
        mean = values.mean(axis=0)
        values -= mean
        # Sums over several threads have another order, and so other last digits.
        with threadpool_limits(1):
            if size <= count:
                variances, vectors = np.linalg.eigh(values.T @ values / count)
                components = vectors[:, ::-1][:, :rank].T
            else:
                variances, vectors = np.linalg.eigh(values @ values.T / count)
                components = vectors[:, ::-1][:, :rank].T @ values
                components /= np.linalg.norm(components, axis=1, keepdims=True)
        signs = np.sign(components[np.arange(rank), np.abs(components).argmax(axis=1)])
        left = max(0.0, float(variances[:-rank].sum())) / (size - rank)
        return Subspace(mean, signs[:, None] * components, left**0.5)

    def encode(self, images: NDArray) -> NDArray[np.float64]:
        r"""Returns the codes of images $(N, *event)$, with shape $(N, r)$."""
        return (as_values(images) - self.mean) @ self.components.T

    def decode(self, codes: NDArray) -> NDArray[np.float32]:
        r"""Returns the images of codes $(N, r)$, with shape $(N, D)$."""
        return (self.mean + codes @ self.components).astype(np.float32)

    def to_arrays(self) -> dict[str, NDArray]:
        r"""Returns its arrays by name."""
        return {"mean": self.mean, "components": self.components, "rest": np.array(self.rest)}

    @staticmethod
    def from_arrays(state: State) -> "Subspace":
        r"""The inverse of `to_arrays`; other names are left alone."""
        return Subspace(state["mean"], state["components"], float(state["rest"]))

    def tensors(self, like: Any) -> tuple[Any, Any]:
        r"""Returns mean and components as tensors of the same kind as another."""
        import torch

        mean, components = (
            torch.as_tensor(v, dtype=like.dtype, device=like.device) for v in (self.mean, self.components)
        )
        return mean, components


def as_values(images: NDArray) -> NDArray[np.float64]:
    r"""Returns images as rows of numbers; bytes become numbers from 0 to 1."""
    values = images.reshape(len(images), -1).astype(np.float64)
    return values / 255 if images.dtype == np.uint8 else values


@dataclass(frozen=True)
class Projected:
    r"""What can be seen of images in a subspace: a view (`mira_bench.views`).

    Arguments:
        subspace: The subspace.
    """

    subspace: Subspace

    def points(self, values: NDArray) -> NDArray[np.float64]:
        codes = self.subspace.encode(np.asarray(values, np.float64).reshape(-1, values.shape[-1]))
        return codes.reshape(*values.shape[:-1], codes.shape[-1])

    def bounds(self, low: NDArray, high: NDArray) -> None:
        return None
