r"""The formats that samples come in, one reader each; see `mira_bench.adapters.files` for what they must hold.

Nothing that is read can run code: pickles are refused. Libraries are imported when their format is met.
"""

__all__ = ["TABLES", "Content", "kind_of", "read_file", "read_frame", "split_source"]

import importlib
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array
from ..errors import UsageError
from .content import WEIGHT, Content, Given, content_of, dataset_content, find_weights, table_content

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("mira_bench")

TABLES = (".csv", ".csv.gz", ".parquet")
FORMATS = (".npy", ".npz", *TABLES, ".pt", ".pth", ".safetensors", ".h5", ".hdf5", ".nc")
KEYED = re.compile(r"(?P<path>.+?\.(?:npz|pth?|safetensors|h5|hdf5|nc)):(?P<key>.+)", re.S)


def kind_of(path: Path) -> str:
    r"""Returns the ending that tells the format of a file: `.npy`, `.csv.gz`."""

    return next((kind for kind in FORMATS if path.name.lower().endswith(kind)), path.suffix.lower())


def split_source(source: str) -> tuple[Path, str | None]:
    r"""Separates `file:key`, after a check that there is such a file."""

    keyed = None if Path(source).exists() else KEYED.fullmatch(source)
    path, key = (Path(keyed["path"]), keyed["key"]) if keyed else (Path(source), None)
    if path.is_dir():
        raise UsageError(f"{source} is a directory, not a file: name the file in it")
    if kind_of(path) not in FORMATS:
        raise UsageError(f"{source} is none of the formats that can be read: {', '.join(FORMATS)}")
    if not path.is_file():
        raise UsageError(f"{source}: there is no file {path}")
    if path.stat().st_size == 0:
        raise UsageError(f"{source} is an empty file: nothing was written into it")
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


def _beside(values: Array, others: Mapping[str, Any], read: Callable[[Any], Any]) -> tuple[Array, tuple[str, ...]]:
    r"""Adds the weights, one for each of the samples, that a file has beside the array."""
    named = ((name, read(item)) for name, item in others.items() if WEIGHT.fullmatch(name.rpartition("/")[2]))
    fitting = [(name, array) for name, array in named if math.prod(array.shape) == math.prod(values.shape[:2])]
    return values, find_weights((name, partial(np.asarray, array)) for name, array in fitting)[0]


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


def read_frame(path: Path, source: str) -> "pd.DataFrame":
    r"""Reads a csv or parquet file."""

    import pandas as pd

    try:
        # The default parser of csv may miss the nearest number by a bit.
        csv = kind_of(path) != ".parquet"
        frame = pd.read_csv(path, engine="pyarrow") if csv else pd.read_parquet(path)
    except Exception as error:  # parsers raise whatever they like
        raise UsageError(f"{source} cannot be read: {_first_line(error)}") from error
    frame.columns = pd.Index([str(c).strip() for c in frame.columns])
    if csv and len(frame.columns) and all(_is_number(name) for name in frame.columns):
        raise UsageError(f"the first row of {source} holds numbers: it needs a header that names the columns")
    return frame


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.lower() != "nan"


def _netcdf(path: Path, key: str | None, source: str, fiducial: str | None, sampled: bool) -> Content:
    r"""Reads a group of an ArviZ file, or a Dataset: chains and draws become samples, variables become parameters."""
    xarray = _needs("xarray", source, "xarray and h5netcdf")
    h5netcdf = _needs("h5netcdf", source, "xarray and h5netcdf")
    group = key
    try:
        if sampled and key is None:
            with h5netcdf.File(path, "r") as file:
                group = "posterior" if file.groups else None  # a Dataset that was saved alone has no groups
        data = xarray.open_dataset(path, group=group, cache=False)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{source}: its group {group or '/'} cannot be read: {_first_line(error)}") from error
    return dataset_content(data, source, fiducial, sampled)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def read_file(source: str | Given, fiducial: str | None, sampled: bool, names: Sequence[str] | None = None) -> Content:
    r"""Opens a file of any format, or takes what is in memory.

    Arguments:
        source: The path of the file, with `:key` behind it where a file holds several arrays; or what is given.
        fiducial: The column or dimension of the fiducials; by default `fiducial`, `observation` or `obs_id`.
        sampled: Whether the file holds samples, or one entry per fiducial.
        names: The parameters that will be taken, if the user says which.
    """

    from pickle import UnpicklingError

    if isinstance(source, Given):
        return content_of(source, fiducial, sampled, names)
    path, key = split_source(source)
    suffix = kind_of(path)
    try:
        if suffix in TABLES:
            return table_content(read_frame(path, source), source, fiducial, sampled, names)
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
