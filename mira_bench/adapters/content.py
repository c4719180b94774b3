r"""What users' tables and labeled arrays hold: parameters by name, fiducials by label, samples in their order."""

__all__ = ["Content", "Given", "content_of", "dataset_content", "find_weights", "is_container", "table_content"]

import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import OnDisk, as_array
from ..errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    import xarray

log = logging.getLogger("mira_bench")

FIDUCIAL_NAMES = ("fiducial", "observation", "obs_id")
UNNAMED = re.compile(r"|Unnamed: \d+(\.\d+)?")  # what pandas calls a column without a name, such as its own index
INDEX_NAMES = ("index", "level_0", "__index_level_0__")
WEIGHT = re.compile(
    r"(?P<log>(log|ln)_?)?((importance|sample|posterior|nested)_?)?(weights?|wts?|w)|multiplicity|importance", re.I
)


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
        chains: The number of chains that the samples come from, one behind the other, if the file tells them apart.
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
    chains: int | None = None


def find_weights(found: Iterable[tuple[str, Callable[[], Any]]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
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


def _fiducial_name(existing: Sequence[str], asked: str | None, source: str, what: str) -> str:
    found = next((name for name in ([asked] if asked else FIDUCIAL_NAMES) if name in existing), None)
    if found is None:
        wanted = repr(asked) if asked else f"one of {', '.join(FIDUCIAL_NAMES)}"
        raise UsageError(
            f"{source} has no {what} for the fiducial ({wanted}); it has: {', '.join(existing)}. "
            "Another one is named by --fiducial (task.fiducial= in a Hydra run)"
        )
    return found


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


def table_content(
    frame: "pd.DataFrame", source: str, fiducial: str | None, sampled: bool, names: Sequence[str] | None
) -> Content:
    r"""Takes a table in the long form: a row per fiducial and sample, or per fiducial.

    Arguments:
        frame: The table.
        source: What to call it in an error.
        fiducial: The column of the fiducials; by default `fiducial`, `observation` or `obs_id`.
        sampled: Whether it holds samples, or one entry per fiducial.
        names: The parameters that will be taken, if the user says which.
    """

    import pandas as pd

    frame = _without_index(frame, source, names, fiducial)
    labeled = sampled or fiducial is not None or any(name in frame.columns for name in FIDUCIAL_NAMES)
    if not labeled:
        _refuse_labels(frame, source, names)
    keys = [_fiducial_name(list(frame.columns), fiducial, source, "column")] if labeled else []
    if sampled:
        if "sample" not in frame.columns:
            raise UsageError(f"{source} has no column 'sample'; it has: {', '.join(frame.columns)}")
        keys.append("sample")
    parameters = [c for c in frame.columns if c not in keys]
    if len(set(frame.columns)) < len(frame.columns) or not parameters or not len(frame):
        raise UsageError(
            f"{source} needs rows and distinct columns {', '.join([*keys, 'parameters'])}; it has {len(frame)} rows "
            f"and the columns {', '.join(frame.columns)}"
        )
    for name in parameters:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            raise UsageError(f"{source}: column {name!r} holds {frame[name].dtype}; real numbers are needed")
    if keys and frame[keys].isna().any(axis=None):
        row = int(frame[keys].isna().any(axis=1).to_numpy().argmax())
        raise UsageError(f"{source}: row {row} has no {' or '.join(keys)}")
    twice = frame.duplicated(keys) if keys else None
    if twice is not None and twice.any():
        row = frame[keys][twice].iloc[0]
        raise UsageError(f"{source} has two rows for {', '.join(f'{k} {row[k]}' for k in keys)}")
    weights, equal = find_weights((name, frame[name].to_numpy) for name in parameters)
    told: dict[str, Any] = {"stored": tuple(parameters), "weights": weights, "equal_weights": equal}
    if not sampled:
        values = frame[parameters].to_numpy(np.float64)
        return Content(source, values, tuple(parameters), frame[keys[0]].to_numpy() if keys else None, **told)
    frame = frame.sort_values(keys, kind="stable")
    labels, counts = np.unique(frame[keys[0]].to_numpy(), return_counts=True)
    if counts.min() < counts.max():
        _name_the_missing(frame, keys, source)
    values = frame[parameters].to_numpy(np.float64).reshape(len(labels), counts[0], len(parameters))
    return Content(source, values, tuple(parameters), labels, **told)


def _refuse_labels(frame: Any, source: str, names: Sequence[str] | None) -> None:
    r"""Refuses a column that counts the rows of a table without labels: it may be labels of another name."""
    for column in frame.columns if names is None else []:
        values = frame[column].to_numpy()
        counted = len(values) > 2 and any(np.array_equal(values, np.arange(len(values)) + first) for first in (0, 1))
        if counted:
            raise UsageError(
                f"{source} has a column {column!r} that counts the rows: if it labels the fiducials say so by "
                f"--fiducial {column}, if it is a parameter name all of them by --names (task.fiducial= and "
                "task.names= in a Hydra run)"
            )


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


def dataset_content(data: "xarray.Dataset", source: str, fiducial: str | None, sampled: bool) -> Content:
    r"""Takes a dataset: chains and draws, or the dimension `sample`, become samples, variables become parameters.

    Arguments:
        data: The dataset.
        source: What to call it in an error.
        fiducial: The dimension or coordinate of the fiducials; by default `fiducial`, `observation` or `obs_id`.
        sampled: Whether it holds samples, or one entry per fiducial.
    """

    places = [str(p) for p in dict.fromkeys([*data.sizes, *data.coords])]
    name = _fiducial_name(places, fiducial, source, "dimension or coordinate")
    if name in data.coords and len(data[name].dims) != 1:
        raise UsageError(f"{source}: the coordinate {name!r} has the dimensions {data[name].dims}; one is needed")
    along = str(data[name].dims[0]) if name in data.coords else name
    chains = "chain" in data.sizes or "sample" not in data.sizes
    of_samples: tuple[str, ...] = () if not sampled else ("chain", "draw") if chains else ("sample",)
    lead = (along, *of_samples)
    variables = {str(v): data[v] for v in data.data_vars if along in data[v].dims}
    for v, values in variables.items():
        if not set(lead) <= set(values.dims):
            other = "; samples may also have the one dimension 'sample'" if chains and sampled else ""
            raise UsageError(f"{source}: {v!r} has the dimensions {values.dims}; {', '.join(lead)} are needed{other}")
    if not variables:
        raise UsageError(f"{source}: no variable has the dimension {along!r}")
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
    shape = (fiducials, *((math.prod(data.sizes[d] for d in of_samples),) if sampled else ()), len(names))

    def read(rows: slice) -> NDArray:
        count = len(range(*rows.indices(fiducials)))
        parts = [c.isel({along: rows}).values.reshape(count, *shape[1:-1], width) for c, width in columns]
        return np.concatenate(parts, axis=-1)

    def first(rows: slice) -> NDArray:
        one = {along: rows} | dict.fromkeys(of_samples, slice(1))
        count = len(range(*rows.indices(fiducials)))
        return np.concatenate([c.isel(one).values.reshape(count, 1, width) for c, width in columns], axis=-1)

    dtype = np.result_type(*(c.dtype for c, _ in columns))
    labels = data[name].values if name in data.coords else None
    told = [v for v in data.variables if set(lead[-1:]) <= set(data[v].dims)]  # for each sample, or each fiducial
    weights, equal = find_weights((str(v), partial(getattr, data[v], "values")) for v in told)
    everything = OnDisk(source, shape, dtype, read, first if sampled else None)
    return Content(
        source, everything, tuple(names), labels, stored=tuple(names), weights=weights, equal_weights=equal,
        units=units, chains=data.sizes["chain"] if "chain" in lead else None,
    )  # fmt: skip


@dataclass(frozen=True)
class Given:
    r"""What a user has in memory, in place of the path of a file.

    Arguments:
        label: What to call it in an error.
        value: An array, or a container.
    """

    label: str
    value: Any

    def __str__(self) -> str:
        return self.label


def is_container(value: Any, fiducial: str | None = None) -> bool:
    r"""Whether a value names what it holds: a DataFrame, something of xarray, or ArviZ's.

    An array of xarray that names neither fiducials nor samples, and has no labels, is an array like others.

    Arguments:
        value: What a user gave.
        fiducial: The dimension of the fiducials, if the user says which.
    """

    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__}
    if ("xarray", "DataArray") in kinds:
        # Labels of a dimension that is not understood must not be taken for positions.
        labeled = any(value[name].dims for name in value.coords)
        return labeled or not {*FIDUCIAL_NAMES, "chain", "draw", "sample", fiducial}.isdisjoint(value.dims)
    known = {("pandas", "DataFrame"), ("xarray", "Dataset"), ("xarray", "DataTree")}
    return bool(kinds & known) or any(name == "InferenceData" for _, name in kinds)


def content_of(given: Given, fiducial: str | None, sampled: bool, names: Sequence[str] | None = None) -> Content:
    r"""Takes an array or a container; see `is_container`.

    Arguments:
        given: What is in memory.
        fiducial: The column or dimension of the fiducials.
        sampled: Whether it holds samples, or one entry per fiducial.
        names: The parameters that will be taken, if the user says which.
    """

    value, source = given.value, given.label
    if not is_container(value, fiducial):
        return Content(source, value if hasattr(value, "dtype") else as_array(value, source))
    kind = type(value).__name__
    if kind == "DataFrame":
        if value.columns.nlevels > 1:
            raise UsageError(
                f"{source} has columns of {value.columns.nlevels} levels: a row per fiducial and sample is needed, "
                "with the columns fiducial, sample and the parameters (frame.stack brings a level of columns into rows)"
            )
        frame = value.reset_index() if any(name is not None for name in value.index.names) else value
        frame = frame.rename(columns=str)
        labeled = any(name in frame for name in ([fiducial] if fiducial else FIDUCIAL_NAMES))
        if not labeled and not np.array_equal(frame.index.to_numpy(), np.arange(len(frame))):
            raise UsageError(
                f"{source} has an index without a name that does not count its rows: name it if it labels fiducials "
                "(frame.rename_axis('fiducial')), or drop it (frame.reset_index(drop=True))"
            )
        return table_content(frame, source, fiducial, sampled, names)
    if kind in ("InferenceData", "DataTree"):
        groups = list(value.groups() if callable(value.groups) else value.children)
        if "posterior" not in groups or not sampled:
            what = "the group posterior" if sampled else "truths"
            raise UsageError(f"{source} is {kind} without {what}; its groups are: {', '.join(groups) or 'none'}")
        group = value["posterior"]
        value = group.to_dataset() if hasattr(group, "to_dataset") else group
    elif kind == "DataArray":
        value = _as_dataset(value)
    return dataset_content(value, source, fiducial, sampled)


def _as_dataset(array: Any) -> Any:
    r"""A labeled array as a dataset; words along its last dimension are the names of parameters."""
    last = array.dims[-1] if array.dims else None
    if array.name is None and last in array.coords and array[last].dtype.kind in "OUT":
        return array.to_dataset(dim=last)
    return array.to_dataset(name=array.name or "y")
