r"""What users pass in: NumPy arrays, torch tensors or lists, checked and flattened to one layout."""

__all__ = [
    "Array",
    "OnDisk",
    "as_array",
    "as_host",
    "as_observations",
    "as_pair",
    "as_samples",
    "as_truths",
    "check_samples",
    "flat",
    "in_one_unit",
    "is_device_tensor",
    "is_one_set",
    "meet_ties",
    "precision_of",
    "refuse_masks",
]

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .errors import UsageError

ROWS = 256  # observations that are looked at together

Array: TypeAlias = Any  # a NumPy array, or a torch tensor that lives on a device


@dataclass(frozen=True)
class OnDisk:
    r"""Samples that stay in their file: a slice reads a block of fiducials.

    Arguments:
        source: What to call the file in an error.
        shape: The shape of all samples, $(L, S, *event)$.
        dtype: The type of the entries.
        read: Returns the given rows, $(l, S, *event)$ up to the shape of the event.
        first: Returns the first sample of the given rows, $(l, 1, *event)$ up to the shape of the event, if that is
            cheaper than to read all of them.
        chains: The number of chains that the samples come from, one behind the other, if that is known.
    """

    source: str
    shape: tuple[int, ...]
    dtype: Any
    read: Callable[[slice], Array]
    first: Callable[[slice], Array] | None = None
    chains: int | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        part = self._guarded(self.read, rows)
        return part.reshape(part.shape[0], *self.shape[1:])

    def peek(self, rows: slice) -> Array:
        r"""Returns the first sample of some fiducials."""
        if self.first is None:
            return self[rows][:, :1]
        part = self._guarded(self.first, rows)
        return part.reshape(part.shape[0], 1, *self.shape[2:])

    def _guarded(self, read: Callable[[slice], Array], rows: slice) -> Array:
        try:
            return read(rows)
        except UsageError:
            raise
        except Exception as error:  # readers raise whatever their libraries do
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise UsageError(f"{self.source} cannot be read: {reason}") from error


def is_device_tensor(values: object) -> bool:
    r"""Whether `values` is a torch tensor outside the main memory, which stays where it is."""

    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor) and values.device.type != "cpu"


def _leaves(values: Any) -> Iterator[Any]:
    r"""Yields what nested lists hold: a list of arrays loses their masks and units just as silently as an array."""
    if not isinstance(values, list | tuple):
        yield values
    elif {type(value) for value in values} <= {float, int, bool}:
        yield from values[:1]
    else:
        for value in values:
            yield from _leaves(value)


def refuse_masks(values: Any, name: str) -> None:
    r"""Raises a sentence if entries are masked: NumPy would go on with what is under the mask."""

    for leaf in _leaves(values):
        if isinstance(leaf, np.ma.MaskedArray):
            masked = np.ma.getmaskarray(leaf)
        elif hasattr(leaf, "unmasked"):  # astropy's
            masked = np.asarray(leaf.mask)
        elif hasattr(leaf, "get_mask"):  # torch's, where the mask is what is valid
            masked = ~leaf.get_mask().cpu().numpy()
        else:
            continue
        if masked.any():
            where = tuple(int(i) for i in np.argwhere(masked)[0])
            raise UsageError(
                f"{name} has {np.count_nonzero(masked)} masked entries, the first at index {where}: leave their "
                "fiducials out, or fill them with what they should be"
            )


def _unit(value: Any) -> str | None:
    r"""The unit of a quantity (of astropy, pint, unyt or xarray), in words; none for plain numbers."""
    unit = getattr(value, "unit", None)
    unit = getattr(value, "units", None) if unit is None else unit
    if unit is None or callable(unit) or hasattr(unit, "shape"):  # the column of a table may have that name
        return None
    return None if str(unit) in ("", "1", "dimensionless") else str(unit)


def _units(values: Any) -> set[str | None]:
    return {_unit(leaf) for leaf in _leaves(values)}


def _plain(values: Any) -> Any:
    r"""Quantities as the numbers that they show."""
    if isinstance(values, list | tuple):
        return [_plain(value) for value in values]
    # What pint shows is under `magnitude`; np.asarray would warn, or convert to base units.
    return getattr(values, "magnitude", np.asarray(values))


def _names_of(values: Any) -> tuple[str, ...]:
    r"""The names of the parameters of a table of pandas or of an array of xarray; nothing if there are none."""
    if type(values).__name__ == "DataFrame":
        return tuple(map(str, values.columns))
    last = values.dims[-1] if type(values).__name__ == "DataArray" and values.dims else None
    return tuple(map(str, values[last].values.tolist())) if last is not None and last in values.coords else ()


def _refuse_labels(inputs: Mapping[str, Any]) -> None:
    r"""Raises a sentence where labels say what positions do not: `score` matches them, functions of arrays do not."""
    cure = "mb.score matches what has labels; pass plain arrays here, in one order"
    found = {name: names for name, values in inputs.items() if (names := _names_of(values))}
    for name, names in found.items():
        other = next(iter(found))
        if names != found[other]:
            raise UsageError(f"{other} has the parameters {', '.join(found[other])}, {name} {', '.join(names)}: {cure}")
    for name in ("truths", "samples", "x") if "truths" in inputs else ():
        values: Any = inputs.get(name)
        kind = type(values).__name__
        if kind == "DataFrame":
            index = values.index.to_numpy()
            labeled = not np.array_equal(index, np.arange(len(index)))
        else:
            labeled = kind == "DataArray" and any(values[key].dims == values.dims[:1] for key in values.coords)
        if labeled:
            raise UsageError(f"{name} labels its fiducials: {cure}")


def in_one_unit(inputs: Mapping[str, Any]) -> dict[str, Any]:
    r"""Returns inputs that are compared with each other as plain numbers, if all are in the same unit.

    Arguments:
        inputs: Arrays, or nested lists of them, by what to call them in an error; none where there is nothing.
    """

    _refuse_labels(inputs)
    found = {name: _units(values) for name, values in inputs.items() if values is not None}
    everything = set().union(*found.values())
    if everything <= {None}:
        return dict(inputs)
    if len(everything) > 1:
        told = [f"{name} in {unit or 'no unit'}" for name, units in found.items() for unit in sorted(units, key=str)]
        raise UsageError(
            f"units differ: {', '.join(told)}; pass plain numbers in one unit for all, such as quantity.to_value(unit) "
            "of astropy or quantity.to(unit).magnitude of pint"
        )
    for name, values in inputs.items():
        refuse_masks(values, name)
    return {name: None if values is None else _plain(values) for name, values in inputs.items()}


def as_array(values: Any, name: str) -> Array:
    r"""Returns `values` as a real NumPy array (or as the device tensor that it is).

    Integers and booleans become float64; torch's bfloat16, which NumPy lacks, becomes float32. What a plain array
    cannot say is refused: entries that are masked, and units.
    """

    refuse_masks(values, name)
    unit = next((unit for unit in _units(values) if unit is not None), None)
    if unit is not None:
        raise UsageError(
            f"{name} has the unit {unit}, which is not looked at here: pass plain numbers, such as "
            f"quantity.to_value(unit) of astropy or quantity.to(unit).magnitude of pint"
        )
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        if is_device_tensor(values):
            return values
        values = values.detach()
        values = values.float() if values.dtype == torch.bfloat16 else values
        values = values.numpy()
    try:
        array = np.asarray(values)
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


def is_one_set(samples: Any) -> bool:
    r"""Whether all fiducials share one set of samples as a view, which no copy of it shows any more."""

    strides = samples.stride() if is_device_tensor(samples) else getattr(samples, "strides", ())
    return tuple(strides[:1]) == (0,) and samples.shape[0] > 1


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

    truths, samples = in_one_unit({"truths": truths, name: samples}).values()
    raw = as_array(truths, "truths")
    y = as_truths(raw)
    return y, as_samples(samples, len(y), tuple(raw.shape[1:]), name)


def refuse_non_finite(values: np.ndarray, name: str, first: int = 0) -> None:
    r"""Raises a sentence that names the first NaN or infinite entry.

    Arguments:
        values: Truths $(L, d)$ or samples $(L, S, d)$.
        name: What to call the values in the error.
        first: The index of their first fiducial in the whole run.
    """

    if values.ndim > 2 and is_one_set(values):
        values = values[:1]
    bad = ~np.isfinite(values)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        row = (first + where[0], *where[1:])
        at = f"fiducial {row[0]}, sample {row[1]}" if values.ndim > 2 else f"index {row}"
        raise UsageError(f"{name} is {values[where]} at {at}; finite numbers are needed")


def as_observations(x: Any, fiducials: int) -> Array:
    r"""Returns observations $(L, *data)$, which must be as many as fiducials, and finite."""

    values = as_array(x, "x")
    if len(values) != fiducials:
        raise UsageError(f"x has {len(values)} observations, the truths have {fiducials} fiducials")
    for first in range(0, fiducials, ROWS):  # it may be large, and on disk
        part = as_host(values[first : first + ROWS])
        bad = ~np.isfinite(part)
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            raise UsageError(
                f"x is {part[where]} at index {(first + where[0], *where[1:])}, one of {np.count_nonzero(bad)} such "
                "entries there: give what is missing a number, and say in another entry of x that it is missing"
            )
    return values


def precision_of(samples: Any) -> str:
    r"""Returns the name of the type of entries, `float32` for NumPy's and torch's; nothing if there is none."""

    return str(getattr(samples, "dtype", "")).rpartition(".")[2]


def _rounded(values: np.ndarray, precision: str) -> np.ndarray:
    r"""Returns float64 values as what is left of them in another precision."""
    if precision == "bfloat16":
        import torch

        return torch.as_tensor(values).bfloat16().double().numpy()
    with np.errstate(over="ignore"):  # infinite, and equal to no finite sample
        return values.astype(precision).astype(np.float64)


def _chunks(samples: Array) -> Iterator[slice]:
    fiducials, count, dim = samples.shape
    step = max(1, 2**21 // max(1, count * dim))
    return (slice(i, min(i + step, fiducials)) for i in range(0, fiducials, step))


def _is_single(samples: np.ndarray, dims: np.ndarray) -> np.ndarray:
    r"""Which of the dimensions hold nothing but single-precision numbers, whatever the type of the array."""
    samples = samples[:1] if is_one_set(samples) else samples
    dims = dims & (_rounded(samples[:, 0], "float32") == samples[:, 0]).all(axis=0)  # settles most cases at once
    for rows in _chunks(samples):
        if not dims.any():
            break
        dims = dims & (_rounded(samples[rows], "float32") == samples[rows]).all(axis=(0, 1))
    return dims


def meet_ties(truths: np.ndarray, samples: Array, precision: str | None = None) -> tuple[np.ndarray, Array]:
    r"""Returns truths $(L, d)$ and samples $(L, S, d)$ such that what is equal up to the coarser precision is equal.

    On a grid, a truth and a sample that are both 0.1 are a tie, which is broken at random. In single precision one of
    them is 0.10000000149, and always above. So a truth moves to the sample that it would be in single precision, and a
    sample to its truth if the truth is the one in single precision. What meets nothing stays as it is. To samples in
    half precision all truths are rounded.

    Arguments:
        truths: The truths in double precision, with shape $(L, d)$.
        samples: The samples, with shape $(L, S, d)$.
        precision: The precision that the samples had before they became an array, by default that of the array;
            double-precision numbers that are all single ones were single once.
    """

    precision = precision or precision_of(samples)
    dims = np.ones(truths.shape[1], bool)
    double = precision not in ("float32", "float16", "bfloat16")
    if double:
        if is_device_tensor(samples) or len(truths) == 0:
            return truths, samples
        precision = "float32"
    rounded = _rounded(truths, precision)
    moved = rounded != truths
    dims &= moved.any(axis=0)
    if double:
        # Numbers with a few binary digits, such as integers, are the same in both precisions.
        single = ~dims & (_rounded(truths, "float16") != truths).any(axis=0)
        if single.any():
            samples = _moved_to_truths(truths, samples, single)
        dims = _is_single(samples, dims) if dims.any() else dims
    if not dims.any():
        return truths, samples
    if precision != "float32":  # half precision: what is lost is no longer small, even where nothing is met
        return np.where(np.isfinite(rounded), rounded, truths), samples
    met = np.zeros_like(moved)
    wide = len(dims) > 16  # NumPy's innermost loop should be the longer one
    parts = [slice(None)] if wide else [slice(int(i), int(i) + 1) for i in np.flatnonzero(dims)]
    for rows, columns in itertools.product(_chunks(samples), parts):
        part, wanted = samples[rows, :, columns], rounded[rows, None, columns]
        if is_device_tensor(part):
            wanted = sys.modules["torch"].as_tensor(wanted).to(part)
            met[rows, columns] = (part == wanted).any(dim=1).cpu().numpy()
        else:
            wanted = wanted.astype(part.dtype)
            same = part == wanted if wide else part[..., 0] == wanted[..., 0]
            met[rows, columns] = same.any(axis=1).reshape(len(same), -1)
    return np.where(met & dims, rounded, truths), samples


def _moved_to_truths(truths: np.ndarray, samples: np.ndarray, dims: np.ndarray) -> np.ndarray:
    r"""Moves samples in double precision to the truth that they are rounded to, in some dimensions."""
    copied = None
    for rows in _chunks(samples):
        part, truth = samples[rows], truths[rows, None]
        met = (_rounded(part, "float32") == truth) & (part != truth) & dims
        if met.any():
            copied = np.array(samples) if copied is None else copied
            copied[rows] = np.where(met, truth, part)
    return samples if copied is None else copied
