r"""Truths, observations and samples that are already in files.

| file                    | truths                        | samples of a candidate                                 |
|-------------------------|-------------------------------|--------------------------------------------------------|
| `.npy`, `.npz`          | $(L, *event)$                 | $(L, S, *event)$, or $(S, L, *event)$ as sbi gives them |
| `.pt`, `.safetensors`   | the same, as a tensor         | the same                                               |
| `.h5`, `.hdf5`          | the same, as a dataset        | the same                                               |
| `.csv`, `.csv.gz`, `.parquet` | columns: fiducial, parameters | columns: fiducial, sample, parameters            |
| `.nc` (ArviZ)           | variables over fiducials      | group `posterior`: variables over chain, draw, fiducial |

A file that holds several arrays is written `file.npz:key`. What is large stays on disk: `.npy`, tensors, HDF5 and
NetCDF are read in blocks of fiducials. Nothing that is read can run code: pickles are refused.

Tables and NetCDF name their parameters and may label their fiducials, and are matched by them. Arrays have neither:

- Their parameters are in the order of `names`, or of the truths' file if that one names them. Truths without names do
  not say which is which of named samples, so `names` must; where truths are named, `names` may not reorder them.
- Their fiducials are in the order of the truths' rows, whose labels must then increase. A table of truths without
  labels has a row per fiducial, in their order.
- An array $(1, S, *event)$ is one set of samples for all fiducials.
- Files that call a parameter otherwise are told so by `new=old` among the names: `Om=omega_m` is `omega_m` where a
  file has no `Om`.
- A file of bounds has a row `low, high` per parameter, in any order if a column `name` says whose, else as arrays do.

Weighted samples are refused: everything here takes samples for equally probable. Chains of a `.nc` have their R-hat in
the ranking. A candidate that cannot be read fails alone, if there are others.
"""

__all__ = ["Files", "read_samples", "read_truths"]

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, OnDisk, as_array, as_truths
from ..errors import SamplesError, UsageError
from ..layouts import LAYOUTS
from ..metric import Metric
from .content import Content, Given
from .formats import TABLES, kind_of, read_file, read_frame, split_source

if TYPE_CHECKING:
    from ..result import Result

log = logging.getLogger("mira_bench")

NAME_COLUMNS = ("name", "names", "parameter", "parameters", "param")


def _split_name(name: str) -> tuple[str, str]:
    r"""What a parameter shall be called, and what a file may call it: `Om=omega_m`."""
    new, _, old = name.partition("=")
    return new.strip(), old.strip() or new.strip()


def _columns(content: Content, names: Sequence[str]) -> dict[int, str]:
    r"""The columns of the named parameters with their names; that of a variable stands for all its entries."""
    assert content.names is not None
    columns: dict[int, str] = {}
    for new, old in map(_split_name, names):
        found = {
            name: [i for i, known in enumerate(content.names) if known == name or known.startswith(f"{name}[")]
            for name in (new, old)
        }
        if new != old and found[new] and found[old]:
            raise UsageError(f"{content.source} has both {new} and {old}, and --names says that {old} is {new}")
        name = new if found[new] else old
        if not found[name]:
            also = f" or {old!r}" if old != new else ""
            raise UsageError(f"{content.source} has no parameter {new!r}{also}; it has: {', '.join(content.names)}")
        if not columns.keys().isdisjoint(found[name]):
            raise UsageError(f"--names has a parameter of {content.source} twice: {', '.join(names)}")
        columns |= {i: new + content.names[i].removeprefix(name) for i in found[name]}
    return columns


def _select(content: Content, names: Sequence[str] | None) -> Content:
    r"""Takes the named parameters, in their order."""
    if content.names is None or names is None:
        return content
    named = _columns(content, names)
    columns, chosen = list(named), tuple(named.values())
    new = {content.names[i]: name for i, name in named.items()}
    stored = tuple(new.get(name, name) for name in content.stored)
    content = replace(content, stored=stored, units={new.get(key, key): unit for key, unit in content.units.items()})
    if columns == list(range(len(content.names or ()))):
        return replace(content, names=chosen)
    values = content.values
    shape = (*values.shape[:-1], len(columns))
    taken = OnDisk(
        content.source, shape, values.dtype, lambda rows: values[rows][..., columns],
        lambda rows: _first(values, rows)[..., columns],
    )  # fmt: skip
    return replace(content, values=taken, names=chosen)


def _first(values: Any, rows: slice) -> Array:
    r"""The first sample of some fiducials."""
    return values.peek(rows) if isinstance(values, OnDisk) else values[rows, :1]


def _without_weights(content: Content, parameters: Sequence[str], of: str) -> Content:
    r"""Refuses weights that differ, and leaves out those that do not; a parameter may have such a name.

    Arguments:
        content: What was read from a file of samples or truths.
        parameters: The names of what is known to be a parameter.
        of: What the weights would belong to, for the error: samples or fiducials.
    """
    unknown = [name for name in content.weights if name not in parameters]
    if unknown:
        raise UsageError(
            f"{content.source} has {unknown[0]!r}, which looks like weights of its {of}, and they are not looked at: "
            f"resample it in proportion to them first, or rename what is no weight"
        )
    left = [n for n in content.names or () if n in parameters or n not in content.equal_weights]
    if not left or len(left) == len(content.names or ()):
        return content
    log.info("%s: its weights are all equal, and are left out", content.source)
    return _select(content, left)


def read_truths(source: str | Given, *, names: Sequence[str] | None = None, fiducial: str | None = None) -> Content:
    r"""Reads truths $(L, *event)$ into memory.

    Arguments:
        source: The path of the file, with `:key` behind it where a file holds several arrays.
        names: The parameters to take, where the file names them.
        fiducial: The column or dimension of the fiducials; by default `fiducial`, `observation` or `obs_id`.
    """

    content = _select(read_file(source, fiducial, sampled=False, names=names), names)
    values = np.asarray(as_array(content.values[:], str(source)))
    as_truths(values, str(source))
    values, labels = values[:, None] if values.ndim == 1 else values, content.labels
    shuffled = labels is not None and labels.tolist() != sorted(labels.tolist())
    if labels is not None and set(labels.tolist()) == set(range(len(values))):
        # Labels that count from 0 are positions: the result does not depend on the order of the rows.
        order = np.argsort(labels)
        values, labels = values[order], labels[order]
    return replace(content, values=values, labels=labels, shuffled=shuffled)


def _layout(content: Content, fiducials: int, asked: str | None) -> str:
    shape = tuple(content.values.shape)
    if asked is not None:
        return asked
    first, second = (n == fiducials for n in shape[:2])
    if first and second and fiducials > 1:
        raise UsageError(
            f"{content.source} has shape {shape}, and both axes could be the {fiducials} fiducials: "
            "say which by --layout LSd (fiducials first) or --layout SLd (samples first, as sbi has it); "
            "task.layout= in a Hydra run"
        )
    if second and shape[0] == 1 and fiducials > 1:
        raise UsageError(
            f"{content.source} has shape {shape}, which could be one set of {fiducials} samples for all fiducials, or "
            f"one sample for each of {fiducials}: say which by --layout LSd (one set) or --layout SLd (one sample "
            "each); task.layout= in a Hydra run"
        )
    if not first and not second and shape[0] != 1:
        raise UsageError(
            f"{content.source} has shape {shape}; one of its first two axes must be the {fiducials} fiducials "
            "of the truths"
        )
    if second and not first:
        raise UsageError(
            f"{content.source} has shape {shape}, and the {fiducials} fiducials of the truths along its second axis: "
            "say so by --layout SLd if samples come first in all files, as sbi has it, or swap its axes "
            "(task.layout= in a Hydra run)"
        )
    return "LSd"


def _order(content: Content, truths: Content) -> NDArray[np.intp] | None:
    r"""Where the truths' fiducials are in a file that labels its own; none if they are in order."""
    labels, fiducials = content.labels, len(truths.values)
    if labels is None:
        if truths.shuffled:
            raise UsageError(
                f"{content.source} does not label its fiducials, and {truths.source} has them in no increasing order: "
                f"label them in both, or give both in the same order with labels that increase"
            )
        return None
    wanted = np.arange(fiducials) if truths.labels is None else truths.labels
    place = {label: i for i, label in enumerate(labels.tolist())}
    missing = next((label for label in wanted.tolist() if label not in place), None)
    if missing is not None or len(place) != fiducials:
        known = "counted from 0" if truths.labels is None else "labeled otherwise"
        which = f"fiducial {missing}" if missing is not None else f"only the fiducials of the {fiducials} truths"
        raise UsageError(
            f"{content.source} labels {len(place)} fiducials, and the truths are {known}: {which} is expected"
        )
    order = np.array([place[label] for label in wanted.tolist()])
    return None if np.array_equal(order, np.arange(fiducials)) else order


def read_samples(
    source: str | Given,
    truths: Content,
    *,
    names: Sequence[str] | None = None,
    layout: str | None = None,
    fiducial: str | None = None,
) -> Content:
    r"""Opens the samples of a candidate as $(L, S, *event)$, to be read in blocks of fiducials.

    Arguments:
        source: The path of the file, with `:key` behind it where a file holds several arrays.
        truths: The truths, which fix the number of fiducials and the event.
        names: The parameters to take, where the file names them; by default those that the truths name.
        layout: `"LSd"` or `"SLd"`, for files that do not say it: fiducials or samples first; fiducials by default.
        fiducial: The column or dimension of the fiducials; by default `fiducial`, `observation` or `obs_id`.
    """

    content = read_file(source, fiducial, sampled=True, names=names)
    asked = [word for name in names or () for word in _split_name(name)]
    content = _without_weights(content, [*asked, *truths.stored], "samples")
    wanted = truths.names if names is None else names
    if names is None and truths.names is not None and content.names is not None:
        _same_names(content, truths)
    content = _select(content, wanted)
    fiducials, event = len(truths.values), truths.values.shape[1:]
    values = content.values
    shape = tuple(values.shape)
    flat_event = event == (1,) and len(shape) == 2  # (L, S) for a single parameter
    if len(shape) != (2 if flat_event else 2 + len(event)) or (not flat_event and shape[2:] != event):
        raise UsageError(
            f"{source} has shape {shape}; two axes for fiducials and samples and the event {event} of the truths in "
            f"{truths.source} are needed"
        )
    if wanted is None and content.names is not None and not _is_one_array(content.names):
        raise UsageError(
            f"{source} names its parameters ({', '.join(content.names)}), and {truths.source} does not: say in which "
            "order the truths have them by --names (task.names= in a Hydra run)"
        )
    swapped = content.names is None and _layout(content, fiducials, layout) == "SLd"
    lead = shape[1::-1] if swapped else shape[:2]
    shared = content.names is None and lead[0] == 1
    if lead[0] != fiducials and not shared:
        raise UsageError(f"{source} has shape {shape}: {lead[0]} fiducials, the truths in {truths.source} {fiducials}")
    order = None if shared else _order(content, truths)

    def read(rows: slice) -> Array:
        if order is not None:
            low, rows, at = _around(order[rows])
            return values[rows][at - low]
        return values[:, rows].swapaxes(0, 1) if swapped else values[rows]

    def first(rows: slice) -> Array:
        if order is not None:
            low, rows, at = _around(order[rows])
            return _first(values, rows)[at - low]
        return values[:1, rows].swapaxes(0, 1) if swapped else _first(values, rows)

    return replace(content, values=OnDisk(str(source), (*lead, *event), values.dtype, read, first, content.chains))


def _around(at: NDArray[np.intp]) -> tuple[int, slice, NDArray[np.intp]]:
    r"""The rows between the first and the last one that are wanted: a block if the order is nearly kept."""
    low = int(at.min(initial=np.iinfo(np.intp).max)) if len(at) else 0
    return low, slice(low, int(at.max(initial=-1)) + 1), at


def _is_one_array(names: Sequence[str]) -> bool:
    r"""Whether names are the entries of one variable, counted from 0: these have an order of their own."""
    variable = names[0].partition("[")[0]
    return len(names) == 1 or list(names) == [f"{variable}[{i}]" for i in range(len(names))]


def _same_names(one: Content, other: Content) -> None:
    if one.names is not None and other.names is not None and set(one.names) != set(other.names):
        raise UsageError(
            f"{one.source} has the parameters {', '.join(one.names)}, {other.source} has {', '.join(other.names)}; "
            "they must have the same ones, or --names (task.names= in a Hydra run) must select them"
        )


def _same_units(contents: Sequence[Content]) -> None:
    seen: dict[str, tuple[str, str]] = {}
    for content in contents:
        for name in content.names or ():
            unit = content.units.get(name)
            source, other = seen.setdefault(name, (content.source, unit)) if unit is not None else ("", unit)
            if unit != other:
                raise UsageError(
                    f"{content.source} has {name} in {unit}, {source} in {other}: write both in one unit, for numbers "
                    "are taken as they are"
                )


def _bounds_names(frame: Any, source: str) -> list[str] | None:
    r"""The names of the parameters in a table of bounds, if it has them: in a column or in the index."""
    import pandas as pd

    index = frame.index.to_series() if not isinstance(frame.index, pd.RangeIndex) else None
    columns = {c: frame[c] for c in frame.columns if c not in ("low", "high")}
    named = [values for c, values in columns.items() if c.lower() in NAME_COLUMNS]
    words = [v for v in (*columns.values(), index) if v is not None and not pd.api.types.is_numeric_dtype(v)]
    found = named or words
    if len(found) > 1:
        raise UsageError(f"{source} has several columns that could name its parameters: call one of them name")
    if not found:
        return None
    names = [str(name).strip() for name in found[0]]
    if len(set(names)) < len(names):
        raise UsageError(f"{source} has two rows for one parameter: {', '.join(names)}")
    return names


def _rows_by_name(
    stored: Sequence[str], names: Sequence[str] | None, other: Mapping[str, str], dim: int, source: str
) -> list[int]:
    r"""Where the parameters are in a table of bounds; the name of a variable stands for all its entries."""
    if names is None:
        if dim == 1 and len(stored) == 1:
            return [0]
        raise UsageError(
            f"{source} names its parameters ({', '.join(stored)}), and no other file does: say in which order these "
            "have them by --names (task.names= in a Hydra run)"
        )
    rows = []
    for name in names:
        variable, bracket, entry = name.partition("[")
        old = other.get(variable, variable)
        row = next((stored.index(n) for n in (name, variable, old + bracket + entry, old) if n in stored), None)
        if row is None:
            raise UsageError(f"{source} has no row for the parameter {name!r}; it has: {', '.join(stored)}")
        rows.append(row)
    return rows


def _read_bounds(
    bounds: Any, names: Sequence[str] | None, other: Mapping[str, str], dim: int, reordered: bool
) -> tuple[Array, Array] | None:
    r"""Returns `(low, high)` from two numbers or from a file with a row `low, high` per dimension.

    Arguments:
        bounds: Two numbers `(low, high)`, or the path of a file.
        names: The names of the parameters, if they are known.
        other: What files may call them.
        dim: The number of dimensions $d$ of the parameters.
        reordered: Whether the parameters are in another order than in the truths' file.
    """
    if bounds is None:
        return None
    if not isinstance(bounds, str):
        low, high = bounds
        return low, high
    path, _ = split_source(bounds)
    if kind_of(path) in TABLES:
        frame = read_frame(path, bounds)
        if not {"low", "high"} <= set(frame.columns):
            raise UsageError(f"{bounds} needs the columns low and high; it has: {', '.join(frame.columns)}")
        table, stored = frame[["low", "high"]].to_numpy(), _bounds_names(frame, bounds)
        if stored is not None:
            table = table[_rows_by_name(stored, names, other, dim, bounds)]
            return table[:, 0], table[:, 1]
    else:
        table = np.asarray(as_array(read_file(bounds, None, sampled=False).values[:], bounds))
        if table.ndim != 2 or table.shape[1] != 2:
            raise UsageError(f"{bounds} has shape {table.shape}; a row (low, high) per dimension is needed: (d, 2)")
    if reordered and len(table) > 1:
        raise UsageError(
            f"--names reorders the parameters, and {bounds} does not name its rows: add a column name (in a csv), for "
            "which is which cannot be known"
        )
    return table[:, 0], table[:, 1]


@dataclass(frozen=True)
class Files:
    r"""Truths and candidates' samples in files, ready to be scored.

    Arguments:
        truths: The file of the truths, or what is in memory.
        candidates: The files of the candidates' samples, by name.
        x: The file of the observations.
        names: The parameters to take, in their order, where files name them; else what to call them. Truths without
            names have them in this order. `new=old` renames what some file calls `old`.
        layout: `"LSd"` or `"SLd"`: fiducials or samples first; fiducials by default.
        fiducial: The column or dimension of the fiducials in tables and NetCDF.
        bounds: `(low, high)` for all parameters, or a file with a row `low, high` for each; a table may have a column
            `name`, and then any order.
        thin: Whether to thin all candidates to the smallest number of samples, or the number to thin them to.
        reference: The file of a reference posterior's samples.
    """

    truths: str | Given
    candidates: Mapping[str, str | Given]
    x: str | Given | None = None
    names: Sequence[str] | None = None
    layout: str | None = None
    fiducial: str | None = None
    bounds: Any = None
    thin: bool | int = False
    reference: str | Given | None = None

    def __post_init__(self) -> None:
        if self.layout not in (None, *LAYOUTS):
            raise UsageError(f"layout={self.layout!r} is not one of {', '.join(LAYOUTS)}")
        if not self.candidates:
            raise UsageError("there are no candidates to score: give files as name=file")

    def score(self, *, metrics: Mapping[str, Metric], strict: bool = False, **settings: Any) -> "Result":
        r"""Reads the files and scores them.

        Arguments:
            metrics: The metrics that look at the files, by name.
            strict: Whether a candidate that cannot be read is an error also if there are others.
            settings: Further arguments of `mira_bench.score`: `seed`, `rank_by`, `threads`, `groups`.
        """
        from ..runner.score import score

        truths = read_truths(self.truths, names=self.names, fiducial=self.fiducial)
        samples, failures = self._open(truths, strict)
        exact = None if self.reference is None else self._read(self.reference, truths)
        if truths.shuffled and settings.get("groups") is not None:
            raise UsageError(
                f"groups have no labels, and {truths.source} has its fiducials in no increasing order: which is which "
                "cannot be known; give truths with labels that increase"
            )
        every = [truths, *samples.values(), *([] if exact is None else [exact])]
        named = [c for c in every if c.names is not None]
        for content in named[1:]:
            _same_names(content, named[0])
            if content.names != named[0].names:
                raise UsageError(
                    f"{content.source} and {named[0].source} have their parameters in different orders: "
                    "give the order by --names (task.names= in a Hydra run)"
                )
        _same_units(every)
        x = None
        if self.x is not None:
            observations = read_file(self.x, self.fiducial, sampled=False)  # its columns are data, by any name
            x = observations.values
            if len(x) != len(truths.values):
                raise UsageError(
                    f"{self.x} has shape {tuple(x.shape)}: {len(x)} observations for the {len(truths.values)} truths "
                    f"in {self.truths}"
                )
            order = _order(observations, truths)
            x = x if order is None else np.asarray(x[:])[order]
        renamed = dict(map(_split_name, self.names or ()))
        if len(renamed) < len(self.names or ()):
            raise UsageError(f"--names has a parameter twice: {', '.join(self.names or ())}")
        places = [truths.stored.index(name) for name in truths.names or ()]
        reordered = places != sorted(places)
        unnamed = next((c for c in every[1:] if c.names is None), None)
        if reordered and unnamed is not None:
            raise UsageError(
                f"--names reorders the parameters of {self.truths}, but {unnamed.source} does not name its own: which "
                "is which cannot be known"
            )
        _without_weights(truths, [*(truths.names or ()), *(n for c in every[1:] for n in c.stored)], "fiducials")
        names = named[0].names if named else tuple(renamed) or None
        dim = int(np.prod(truths.values.shape[1:]))
        if names is not None and len(names) != dim:
            raise UsageError(f"there are {len(names)} names ({', '.join(names)}) for {dim} dimensions of {self.truths}")
        settings |= {"x": x, "names": names, "metrics": metrics, "reference": None if exact is None else exact.values}
        settings |= {"bounds": _read_bounds(self.bounds, names, renamed, dim, reordered), "thin": self.thin}
        while True:  # what cannot be read may show only on the way
            values = {name: content.values for name, content in samples.items() if name not in failures}
            try:
                result = score(truths.values, values, layout="LSd", **settings)
                return result.with_failures(failures, list(self.candidates))
            except SamplesError as error:
                if strict or len(values) == 1:
                    raise
                failures[error.candidate] = str(error)

    def _open(self, truths: Content, strict: bool) -> tuple[dict[str, Content], dict[str, str]]:
        r"""Opens the files of the candidates; returns those that can be read, and why the others cannot."""
        samples: dict[str, Content] = {}
        failures: dict[str, str] = {}
        for name, source in self.candidates.items():
            try:
                samples[name] = self._read(source, truths)
            except UsageError as error:
                failures[name] = str(error)
        if failures and (strict or not samples):
            raise UsageError(next(iter(failures.values())))
        return samples, failures

    def _read(self, source: str | Given, truths: Content) -> Content:
        return read_samples(source, truths, names=self.names, layout=self.layout, fiducial=self.fiducial)
