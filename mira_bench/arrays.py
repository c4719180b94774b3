r"""What users pass in: NumPy arrays, torch tensors or lists, checked and flattened to one layout."""

__all__ = [
    "Array",
    "OnDisk",
    "as_array",
    "as_host",
    "as_pair",
    "as_samples",
    "as_truths",
    "check_samples",
    "flat",
    "is_device_tensor",
]

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .errors import UsageError

Array: TypeAlias = Any  # a NumPy array, or a torch tensor that lives on a device


@dataclass(frozen=True)
class OnDisk:
    r"""Samples that stay in their file: a slice reads a block of fiducials.

    Arguments:
        source: What to call the file in an error.
        shape: $(L, S, *event)$.
        dtype: The type of the entries.
        read: Returns the given rows, $(l, S, *event)$ up to the shape of the event.
    """

    source: str
    shape: tuple[int, ...]
    dtype: Any
    read: Callable[[slice], Array]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        part = self.read(rows)
        return part.reshape(part.shape[0], *self.shape[1:])


def is_device_tensor(values: object) -> bool:
    r"""Whether `values` is a torch tensor outside the main memory, which stays where it is."""

    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor) and values.device.type != "cpu"


def as_array(values: Any, name: str) -> Array:
    r"""Returns `values` as a real NumPy array (or as the device tensor that it is).

    Integers and booleans become float64; torch's bfloat16, which NumPy lacks, becomes float32.
    """

    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        if is_device_tensor(values):
            return values
        values = values.detach()
        values = values.float() if values.dtype == torch.bfloat16 else values
        values = values.numpy()
    try:
        array = values if isinstance(values, np.ndarray) else np.asarray(values)
    except ValueError as error:
        raise UsageError(f"{name} is not a rectangular array: {error}") from error
    if array.dtype.kind in "biu":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise UsageError(f"{name} has dtype {array.dtype}; real numbers are needed")
    return array


def as_host(values: Array) -> np.ndarray:
    r"""Returns an array or a device tensor as a float64 array in main memory."""

    return np.asarray(values.double().cpu().numpy() if is_device_tensor(values) else values, np.float64)


def flat(values: Array, lead: int) -> Array:
    r"""Flattens the event dimensions behind the first `lead` ones: `(L, *event)` to `(L, d)`."""

    size = int(np.prod(values.shape[lead:], dtype=np.int64))
    return values.reshape(*values.shape[:lead], size)


def as_truths(truths: object, name: str = "truths") -> np.ndarray:
    r"""Returns the truths as a finite float64 array $(L, d)$."""

    array = as_array(truths, name)
    if is_device_tensor(array):
        array = array.detach().double().cpu().numpy()
    if array.ndim == 0 or array.shape[0] == 0:
        raise UsageError(f"{name} has shape {tuple(array.shape)}; at least one fiducial is needed")
    array = flat(array, 1).astype(np.float64)
    if array.shape[1] == 0:
        raise UsageError(f"{name} has an event of size zero: there is nothing to compare")
    refuse_non_finite(array, name)
    return np.ascontiguousarray(array)


def as_samples(samples: object, fiducials: int, event: tuple[int, ...], name: str) -> Array:
    r"""Returns the samples as $(L, S, d)$ without copying them, after a check of their shape."""

    array = as_array(samples, name)
    if tuple(array.shape[:1]) == (1,) and fiducials > 1:
        array = shared_by(array, fiducials)
    check_samples(tuple(array.shape), fiducials, event, name)
    return flat(array, 2)


def shared_by(samples: Array, fiducials: int) -> Array:
    r"""Returns one set of samples $(1, S, *event)$ as that of all fiducials: a view, not L copies."""

    shape = (fiducials, *samples.shape[1:])
    return samples.expand(shape) if is_device_tensor(samples) else np.broadcast_to(samples, shape)


def check_samples(shape: tuple[int, ...], fiducials: int, event: tuple[int, ...], name: str) -> None:
    r"""Raises a sentence if samples of this shape do not belong to the truths."""

    wanted = f"(L, S, *event) = ({fiducials}, S, {', '.join(map(str, event)) or 'no event'})"
    if len(shape) != 2 + len(event) or shape[2:] != event:
        raise UsageError(f"{name} has shape {shape}; the truths ask for {wanted}")
    if shape[0] != fiducials:
        raise UsageError(f"{name} has {shape[0]} fiducials along its first axis, the truths have {fiducials}")
    if shape[1] == 0:
        raise UsageError(f"{name} holds no samples: S = 0")


def as_pair(truths: object, samples: object, name: str = "samples") -> tuple[np.ndarray, Array]:
    r"""Returns truths $(L, d)$ and samples $(L, S, d)$ that belong together."""

    raw = as_array(truths, "truths")
    y = as_truths(raw)
    return y, as_samples(samples, len(y), tuple(raw.shape[1:]), name)


def refuse_non_finite(values: np.ndarray, name: str, first: int = 0) -> None:
    r"""Raises a sentence that names the first NaN or infinite entry.

    Arguments:
        values: Truths $(L, d)$ or samples $(L, S, d)$.
        name: What to call them.
        first: The index of their first fiducial.
    """

    if values.ndim > 2 and values.strides[0] == 0:
        values = values[:1]  # one set that all fiducials share
    bad = ~np.isfinite(values)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        row = (first + where[0], *where[1:])
        at = f"fiducial {row[0]}, sample {row[1]}" if values.ndim > 2 else f"index {row}"
        raise UsageError(f"{name} is {values[where]} at {at}; finite numbers are needed")
