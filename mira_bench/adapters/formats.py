r"""The formats that samples come in, one reader each; see `mira_bench.adapters.files` for what they must hold.

Nothing that is read can run code: pickles are refused. Libraries are imported when their format is met.
"""

__all__ = ["TABLES", "Content", "read_file", "read_frame", "split_source"]

import importlib
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, OnDisk
from ..errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("mira_bench")

FIDUCIAL_NAMES = ("fiducial", "observation", "obs_id")
TABLES = (".csv", ".parquet")
FORMATS = (".npy", ".npz", *TABLES, ".pt", ".pth", ".safetensors", ".h5", ".hdf5", ".nc")
KEYED = re.compile(r"(?P<path>.+?\.(?:npz|pth?|safetensors|h5|hdf5|nc)):(?P<key>.+)", re.S)
UNNAMED = re.compile(r"|Unnamed: \d+(\.\d+)?")  # what pandas calls a column without a name, such as its own index
INDEX_NAMES = ("index", "level_0", "__index_level_0__")
WEIGHT = re.compile(r"(?P<log>(log|ln)_?)?((importance|sample|posterior)_?)?(weights?|wts?|w)", re.I)


@dataclass(frozen=True)
class Content:
    r"""What a file holds.

    Arguments:
        source: The file, as the user wrote it.
        values: Something with `shape`, `dtype` and slices over the first axis.
        names: The names of the parameters, if the file has them.
        labels: The label of each fiducial along the first axis, if the file has them.
        stored: The names of the parameters in the file, before some of them were taken.
        shuffled: Whether the file has its fiducials in another order than that of their labels.
        weights: What is called a weight in the file, and differs from sample to sample.
        equal_weights: What is called a weight in the file, and is always the same.
        units: The units of parameters, where the file has them.
    """

    source: str
    values: Any
    names: tuple[str, ...] | None = None
    labels: NDArray | None = None
    stored: tuple[str, ...] = ()
    shuffled: bool = False
    weights: tuple[str, ...] = ()
    equal_weights: tuple[str, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)


def split_source(source: str) -> tuple[Path, str | None]:
    r"""Separates `file:key`, after a check that there is such a file."""

    keyed = None if Path(source).exists() else KEYED.fullmatch(source)
    path, key = (Path(keyed["path"]), keyed["key"]) if keyed else (Path(source), None)
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{source} is none of the formats that can be read: {', '.join(FORMATS)}")
    if not path.is_file():
        raise UsageError(f"{source}: there is no file {path}")
    return path, key


def _needs(module: str, source: str, install: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"{source} needs {install}: pip install 'mira_bench[files]'") from error


def _pick(found: Mapping[str, Any], key: str | None, source: str, what: str) -> Any:
    r"""Returns the array of a file that may hold several."""
    if key is None and len(found) == 1:
        return next(iter(found.values()))
    listed = ", ".join(found) or "nothing"
    if key is None:
        raise UsageError(f"{source} holds {len(found)} {what}, and one must be named as {source}:key; it has: {listed}")
    if key not in found:
        raise UsageError(f"{source}: there is no {key!r} among its {what}; it has: {listed}")
    return found[key]


def _weights(found: Iterable[tuple[str, Callable[[], Any]]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    r"""Returns the names of weights among named arrays: those that differ from sample to sample, and the others."""
    unequal: list[str] = []
    equal: list[str] = []
    for name, read in found:
        match = WEIGHT.fullmatch(name.rpartition("/")[2])
        if match is None:
            continue
        values = np.asarray(read(), np.float64)
        if values.size == 0 or (match["log"] is None and (values < 0).any()):
            continue  # a parameter of that name, such as the dark energy's equation of state
        (equal if (values == values.flat[0]).all() else unequal).append(name)
    return tuple(unequal), tuple(equal)


def _beside(values: Array, others: Mapping[str, Any], read: Callable[[Any], Any]) -> tuple[Array, tuple[str, ...]]:
    r"""Adds the weights, one for each of the samples, that a file has beside the array."""
    named = ((name, read(item)) for name, item in others.items() if WEIGHT.fullmatch(name.rpartition("/")[2]))
    fitting = [(name, array) for name, array in named if math.prod(array.shape) == math.prod(values.shape[:2])]
    return values, _weights((name, partial(np.asarray, array)) for name, array in fitting)[0]


def _npy(path: Path, key: str | None, source: str) -> tuple[Array, tuple[str, ...]]:
    # Without np.load, which would look for a pickle in a file that is not an array.
    return np.lib.format.open_memmap(path, mode="r"), ()


def _npz(path: Path, key: str | None, source: str) -> tuple[Array, tuple[str, ...]]:
    with np.load(path, allow_pickle=False) as archive:
        name = _pick({name: name for name in archive.files}, key, source, "arrays")
        return _beside(archive[name], {n: n for n in archive.files if n != name}, archive.__getitem__)


def _pt(path: Path, key: str | None, source: str) -> tuple[Array, tuple[str, ...]]:
    import torch

    settings: dict[str, Any] = {"map_location": "cpu", "weights_only": True}
    try:
        loaded = torch.load(path, mmap=True, **settings)
    except RuntimeError:  # the format before torch 1.6 cannot be mapped
        loaded = torch.load(path, **settings)
    if isinstance(loaded, torch.Tensor):
        loaded = {"tensor": loaded}
    if not isinstance(loaded, dict):
        raise UsageError(f"{source} holds a {type(loaded).__name__}; a tensor or a dict of tensors is needed")
    found = {str(k): v for k, v in loaded.items() if isinstance(v, torch.Tensor)}
    picked = _pick(found, key, source, "tensors")
    return _beside(picked, {n: v for n, v in found.items() if v is not picked}, lambda v: v.double().numpy())


def _safetensors(path: Path, key: str | None, source: str) -> tuple[Array, tuple[str, ...]]:
    safetensors = _needs("safetensors", source, "safetensors")
    # The tensors are views of a map of the file, which they keep alive.
    with safetensors.safe_open(path, framework="pt") as file:
        names = list(file.keys())
        name = _pick({name: name for name in names}, key, source, "tensors")
        others = {n: n for n in names if n != name}
        return _beside(file.get_tensor(name), others, lambda n: file.get_tensor(n).double().numpy())


def _hdf5(path: Path, key: str | None, source: str) -> tuple[Array, tuple[str, ...]]:
    h5py = _needs("h5py", source, "h5py")
    file = h5py.File(path, "r")  # stays open as long as its datasets are in use
    found: dict[str, Any] = {}
    file.visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
    picked = _pick(found, None if key is None else key.strip("/"), source, "datasets")
    group = picked.name.rpartition("/")[0]
    others = {n: item for n, item in found.items() if item != picked and item.name.rpartition("/")[0] == group}
    return _beside(picked, others, lambda item: item[()])


ARRAYS: dict[str, Callable[[Path, str | None, str], tuple[Array, tuple[str, ...]]]] = {
    ".npy": _npy, ".npz": _npz, ".pt": _pt, ".pth": _pt, ".safetensors": _safetensors, ".h5": _hdf5, ".hdf5": _hdf5,
}  # fmt: skip


def _fiducial_name(existing: Sequence[str], asked: str | None, source: str, what: str) -> str:
    found = next((name for name in ([asked] if asked else FIDUCIAL_NAMES) if name in existing), None)
    if found is None:
        wanted = repr(asked) if asked else f"one of {', '.join(FIDUCIAL_NAMES)}"
        raise UsageError(
            f"{source} has no {what} for the fiducial ({wanted}); it has: {', '.join(existing)}. "
            "Another one is named by --fiducial (task.fiducial= in a Hydra run)"
        )
    return found


def read_frame(path: Path, source: str) -> "pd.DataFrame":
    r"""Reads a csv or parquet file."""

    import pandas as pd

    try:
        # The default parser of csv may miss the nearest number by a bit.
        csv = path.suffix.lower() == ".csv"
        frame = pd.read_csv(path, engine="pyarrow") if csv else pd.read_parquet(path)
    except Exception as error:  # parsers raise whatever they like
        raise UsageError(f"{source} cannot be read: {_first_line(error)}") from error
    frame.columns = pd.Index([str(c).strip() for c in frame.columns])
    return frame


def _without_index(frame: Any, source: str, names: Sequence[str] | None, fiducial: str | None) -> Any:
    r"""Leaves out the index that pandas writes in front of a table, which is no parameter."""
    for column in frame.columns:
        if column == fiducial or (names is not None and column in names):
            continue
        unnamed = UNNAMED.fullmatch(column) is not None
        if not unnamed and column not in INDEX_NAMES:
            continue
        counts = np.array_equal(frame[column].to_numpy(), np.arange(len(frame)))
        if unnamed and counts:
            log.info("%s: its column without a name counts the rows, and is left out", source)
            frame = frame.drop(columns=column)
        elif names is None and (unnamed or counts):
            what = "a column without a name" if unnamed else f"a column {column!r} that counts the rows"
            raise UsageError(
                f"{source} has {what}, which may be an index or a parameter: write the table without it "
                "(index=False in pandas), name it, or select the parameters by --names (task.names= in a Hydra run)"
            )
    return frame


def _table(path: Path, source: str, fiducial: str | None, sampled: bool, names: Sequence[str] | None) -> Content:
    r"""Reads the long form: a row per fiducial and sample."""
    import pandas as pd

    frame = _without_index(read_frame(path, source), source, names, fiducial)
    keys = [_fiducial_name(list(frame.columns), fiducial, source, "column")]
    if sampled:
        if "sample" not in frame.columns:
            raise UsageError(f"{source} has no column 'sample'; it has: {', '.join(frame.columns)}")
        keys.append("sample")
    parameters = [c for c in frame.columns if c not in keys]
    if len(set(frame.columns)) < len(frame.columns) or not parameters or not len(frame):
        raise UsageError(
            f"{source} needs rows and distinct columns {', '.join(keys)} and parameters; it has {len(frame)} rows and "
            f"the columns {', '.join(frame.columns)}"
        )
    for name in parameters:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            raise UsageError(f"{source}: column {name!r} holds {frame[name].dtype}; real numbers are needed")
    if frame[keys].isna().any(axis=None):
        row = int(frame[keys].isna().any(axis=1).to_numpy().argmax())
        raise UsageError(f"{source}: row {row} has no {' or '.join(keys)}")
    twice = frame.duplicated(keys)
    if twice.any():
        row = frame[keys][twice].iloc[0]
        raise UsageError(f"{source} has two rows for {', '.join(f'{k} {row[k]}' for k in keys)}")
    weights, equal = _weights((name, frame[name].to_numpy) for name in parameters)
    told: dict[str, Any] = {"stored": tuple(parameters), "weights": weights, "equal_weights": equal}
    if not sampled:
        values = frame[parameters].to_numpy(np.float64)
        return Content(source, values, tuple(parameters), frame[keys[0]].to_numpy(), **told)
    frame = frame.sort_values(keys, kind="stable")
    labels, counts = np.unique(frame[keys[0]].to_numpy(), return_counts=True)
    if counts.min() < counts.max():
        _name_the_missing(frame, keys, source)
    values = frame[parameters].to_numpy(np.float64).reshape(len(labels), counts[0], len(parameters))
    return Content(source, values, tuple(parameters), labels, **told)


def _name_the_missing(frame: Any, keys: list[str], source: str) -> None:
    groups = frame.groupby(keys[0], sort=True)["sample"]
    everything = set(frame["sample"])
    for label, mine in groups:
        missing = sorted(everything - set(mine))
        if missing:
            listed = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
            raise UsageError(
                f"{source}: fiducial {label} has {len(mine)} of {len(everything)} samples; "
                f"there are no rows for sample {listed}"
            )


def _netcdf(path: Path, key: str | None, source: str, fiducial: str | None, sampled: bool) -> Content:
    r"""Reads a group of an ArviZ file: chains and draws become samples, variables become parameters."""
    xarray = _needs("xarray", source, "xarray and h5netcdf")
    _needs("h5netcdf", source, "xarray and h5netcdf")
    group = key or ("posterior" if sampled else None)
    try:
        data = xarray.open_dataset(path, group=group, cache=False)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{source}: its group {group or '/'} cannot be read: {_first_line(error)}") from error
    places = [str(p) for p in dict.fromkeys([*data.sizes, *data.coords])]
    name = _fiducial_name(places, fiducial, source, "dimension or coordinate")
    if name in data.coords and len(data[name].dims) != 1:
        raise UsageError(f"{source}: the coordinate {name!r} has the dimensions {data[name].dims}; one is needed")
    along = str(data[name].dims[0]) if name in data.coords else name
    lead = (along, "chain", "draw") if sampled else (along,)
    variables = {str(v): data[v] for v in data.data_vars if along in data[v].dims}
    for v, values in variables.items():
        if not set(lead) <= set(values.dims):
            raise UsageError(f"{source}: {v!r} has the dimensions {values.dims}; {', '.join(lead)} are needed")
    if not variables:
        raise UsageError(f"{source}: no variable of the group {group or '/'} has the dimension {along!r}")
    names: list[str] = []
    units: dict[str, str] = {}
    columns: list[tuple[Any, int]] = []
    for v, values in variables.items():
        inner = [str(d) for d in values.dims if d not in lead]
        sizes = [values.sizes[d] for d in inner]
        columns.append((values.transpose(*lead, *inner), math.prod(sizes)))
        at = {d: data[d].values if d in data.coords else np.arange(values.sizes[d]) for d in inner}
        for entry in np.ndindex(*sizes):
            where = ", ".join(str(at[d][i]) for d, i in zip(inner, entry, strict=True))
            names.append(f"{v}[{where}]" if inner else v)
            if "units" in values.attrs:
                units[names[-1]] = str(values.attrs["units"])
    fiducials = data.sizes[along]
    shape = (fiducials, *((data.sizes["chain"] * data.sizes["draw"],) if sampled else ()), len(names))

    def read(rows: slice) -> NDArray:
        count = len(range(*rows.indices(fiducials)))
        parts = [c.isel({along: rows}).values.reshape(count, *shape[1:-1], width) for c, width in columns]
        return np.concatenate(parts, axis=-1)

    def first(rows: slice) -> NDArray:
        one = {along: rows, "chain": slice(1), "draw": slice(1)}
        count = len(range(*rows.indices(fiducials)))
        return np.concatenate([c.isel(one).values.reshape(count, 1, width) for c, width in columns], axis=-1)

    dtype = np.result_type(*(c.dtype for c, _ in columns))
    labels = data[name].values if name in data.coords else None
    told = [v for v in data.variables if set(lead[-1:]) <= set(data[v].dims)]  # for each sample, or each fiducial
    weights, equal = _weights((str(v), partial(getattr, data[v], "values")) for v in told)
    values = OnDisk(source, shape, dtype, read, first if sampled else None)
    return Content(
        source, values, tuple(names), labels, stored=tuple(names), weights=weights, equal_weights=equal, units=units
    )  # fmt: skip


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def read_file(source: str, fiducial: str | None, sampled: bool, names: Sequence[str] | None = None) -> Content:
    r"""Opens a file of any format.

    Arguments:
        source: The path of the file, with `:key` behind it where a file holds several arrays.
        fiducial: The column or dimension of the fiducials; by default `fiducial`, `observation` or `obs_id`.
        sampled: Whether the file holds samples, or one entry per fiducial.
        names: The parameters that will be taken, if the user says which.
    """

    from pickle import UnpicklingError

    path, key = split_source(source)
    suffix = path.suffix.lower()
    try:
        if suffix in TABLES:
            return _table(path, source, fiducial, sampled, names)
        if suffix == ".nc":
            return _netcdf(path, key, source, fiducial, sampled)
        values, weights = ARRAYS[suffix](path, key, source)
        return Content(source, values, weights=weights if sampled else ())
    except UsageError:
        raise
    except UnpicklingError as error:
        raise UsageError(f"{source} holds more than tensors; a pickle is never executed") from error
    except Exception as error:  # readers raise whatever their libraries do
        pickled = any(word in str(error).lower() for word in ("python object", "pickle"))
        reason = "it holds Python objects; a pickle is never executed" if pickled else _first_line(error)
        raise UsageError(f"{source} cannot be read: {reason}") from error
