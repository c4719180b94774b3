r"""Truths, observations and samples that are already in files.

| file                    | truths                        | samples of a candidate                                 |
|-------------------------|-------------------------------|--------------------------------------------------------|
| `.npy`, `.npz`          | $(L, *event)$                 | $(L, S, *event)$, or $(S, L, *event)$ as sbi gives them |
| `.pt`, `.safetensors`   | the same, as a tensor         | the same                                               |
| `.h5`, `.hdf5`          | the same, as a dataset        | the same                                               |
| `.csv`, `.parquet`      | columns: fiducial, parameters | columns: fiducial, sample, parameters                  |
| `.nc` (ArviZ)           | variables over fiducials      | group `posterior`: variables over chain, draw, fiducial |

A file that holds several arrays is written `file.npz:key`. What is large stays on disk: `.npy`, tensors, HDF5 and
NetCDF are read in blocks of fiducials. Nothing that is read can run code: pickles are refused.
"""

__all__ = ["Files", "read_samples", "read_truths"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, OnDisk, as_array, as_truths
from .errors import UsageError
from .formats import TABLES, Content, read_file, read_frame, split_source
from .metric import Metric
from .result import Result
from .score import score

LAYOUTS = ("LSd", "SLd")


def _columns(content: Content, names: Sequence[str]) -> list[int]:
    r"""The columns of the named parameters; the name of a variable stands for all its entries."""
    assert content.names is not None
    columns: list[int] = []
    for name in names:
        found = [i for i, known in enumerate(content.names) if known == name or known.startswith(f"{name}[")]
        if not found:
            raise UsageError(f"{content.source} has no parameter {name!r}; it has: {', '.join(content.names)}")
        columns += found
    return columns


def _select(content: Content, names: Sequence[str] | None) -> Content:
    r"""Takes the named parameters, in their order."""
    if content.names is None or names is None:
        return content
    columns = _columns(content, names)
    chosen = tuple(content.names[i] for i in columns)
    if chosen == content.names:
        return content
    values = content.values
    shape = (*values.shape[:-1], len(columns))
    taken = OnDisk(content.source, shape, values.dtype, lambda rows: values[rows][..., columns])
    return Content(content.source, taken, chosen, content.labels)


def read_truths(source: str, *, names: Sequence[str] | None = None, fiducial: str | None = None) -> Content:
    r"""Reads truths $(L, *event)$ into memory.

    Arguments:
        source: The file, or `file:key`.
        names: The parameters to take, where the file names them.
        fiducial: The column or dimension of the fiducials; by default `fiducial`, `observation` or `obs_id`.
    """

    content = _select(read_file(source, fiducial, sampled=False), names)
    values = np.asarray(as_array(content.values[:], source))
    as_truths(values, source)
    values, labels = values[:, None] if values.ndim == 1 else values, content.labels
    if labels is not None and set(labels.tolist()) == set(range(len(values))):
        # Labels that count from 0 are positions, which files without labels follow.
        order = np.argsort(labels)
        values, labels = values[order], labels[order]
    return Content(source, values, content.names, labels)


def _layout(content: Content, fiducials: int, asked: str | None) -> str:
    shape = tuple(content.values.shape)
    if asked is not None:
        return asked
    first, second = (n == fiducials for n in shape[:2])
    if first and second:
        raise UsageError(
            f"{content.source} has shape {shape}, and both axes could be the {fiducials} fiducials: "
            "say which by --layout LSd (fiducials first) or --layout SLd (samples first, as sbi has it); "
            "task.layout= in a Hydra run"
        )
    if not first and not second:
        raise UsageError(
            f"{content.source} has shape {shape}; one of its first two axes must be the {fiducials} fiducials "
            "of the truths"
        )
    return "LSd" if first else "SLd"


def _order(content: Content, truths: Content) -> NDArray[np.intp] | None:
    r"""Where the truths' fiducials are in a file that labels its own; none if they are in order."""
    labels, fiducials = content.labels, len(truths.values)
    if labels is None:
        known = [] if truths.labels is None else truths.labels.tolist()
        if known != sorted(known):
            raise UsageError(
                f"{content.source} does not label its fiducials, and {truths.source} has them in no increasing order: "
                "label them in both, or count them from 0"
            )
        return None
    wanted = np.arange(fiducials) if truths.labels is None else truths.labels
    place = {label: i for i, label in enumerate(labels.tolist())}
    missing = next((label for label in wanted.tolist() if label not in place), None)
    if missing is not None or len(place) != fiducials:
        known = "counted from 0" if truths.labels is None else f"of {truths.source}"
        which = f"fiducial {missing}" if missing is not None else f"only the fiducials of the {fiducials} truths"
        raise UsageError(
            f"{content.source} labels {len(place)} fiducials, and the truths are {known}: {which} is expected"
        )
    order = np.array([place[label] for label in wanted.tolist()])
    return None if np.array_equal(order, np.arange(fiducials)) else order


def read_samples(
    source: str,
    truths: Content,
    *,
    names: Sequence[str] | None = None,
    layout: str | None = None,
    fiducial: str | None = None,
) -> Content:
    r"""Opens the samples of a candidate as $(L, S, *event)$, to be read in blocks of fiducials.

    Arguments:
        source: The file, or `file:key`.
        truths: The truths, which fix the number of fiducials and the event.
        names: The parameters to take, where the file names them; by default those that the truths name.
        layout: `"LSd"` or `"SLd"`, for files that do not say it; by default it is recognized by the number of truths.
        fiducial: The column or dimension of the fiducials; by default `fiducial`, `observation` or `obs_id`.
    """

    content = read_file(source, fiducial, sampled=True)
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
    swapped = content.names is None and _layout(content, fiducials, layout) == "SLd"
    lead = shape[1::-1] if swapped else shape[:2]
    if lead[0] != fiducials:
        raise UsageError(f"{source} has shape {shape}: {lead[0]} fiducials, the truths in {truths.source} {fiducials}")
    order = _order(content, truths)

    def read(rows: slice) -> Array:
        if order is not None:
            at = order[rows]
            # The rows between the first and the last one are read, which is a block if the order is nearly kept.
            low = int(at.min(initial=fiducials))
            return values[low : int(at.max(initial=-1)) + 1][at - low]
        return values[:, rows].swapaxes(0, 1) if swapped else values[rows]

    return Content(source, OnDisk(source, (*lead, *event), values.dtype, read), content.names, content.labels)


def _same_names(one: Content, other: Content) -> None:
    if one.names is not None and other.names is not None and set(one.names) != set(other.names):
        raise UsageError(
            f"{one.source} has the parameters {', '.join(one.names)}, {other.source} has {', '.join(other.names)}; "
            "they must have the same ones, or --names (task.names= in a Hydra run) must select them"
        )


def _read_bounds(bounds: Any) -> tuple[Array, Array] | None:
    r"""Returns `(low, high)` from two numbers or from a file with a row `low, high` per dimension."""
    if bounds is None:
        return None
    if not isinstance(bounds, str):
        low, high = bounds
        return low, high
    path, _ = split_source(bounds)
    if path.suffix.lower() in TABLES:
        frame = read_frame(path, bounds)
        if not {"low", "high"} <= set(frame.columns):
            raise UsageError(f"{bounds} needs the columns low and high; it has: {', '.join(frame.columns)}")
        return frame["low"].to_numpy(), frame["high"].to_numpy()
    table = np.asarray(as_array(read_file(bounds, None, sampled=False).values[:], bounds))
    if table.ndim != 2 or table.shape[1] != 2:
        raise UsageError(f"{bounds} has shape {table.shape}; a row (low, high) per dimension is needed: (d, 2)")
    return table[:, 0], table[:, 1]


@dataclass(frozen=True)
class Files:
    r"""Truths and candidates' samples in files, ready to be scored.

    Arguments:
        truths: The file of the truths.
        candidates: The files of the candidates' samples, by name.
        x: The file of the observations.
        names: The parameters to take, in their order, where files name them; else what to call them.
        layout: `"LSd"` or `"SLd"`; by default it is recognized.
        fiducial: The column or dimension of the fiducials in tables and NetCDF.
        bounds: `(low, high)` for all parameters, or a file with a row `low, high` for each.
        thin: Whether to thin all candidates to the smallest number of samples.
    """

    truths: str
    candidates: Mapping[str, str]
    x: str | None = None
    names: Sequence[str] | None = None
    layout: str | None = None
    fiducial: str | None = None
    bounds: Any = None
    thin: bool = False

    def __post_init__(self) -> None:
        if self.layout not in (None, *LAYOUTS):
            raise UsageError(f"layout={self.layout!r} is not one of {', '.join(LAYOUTS)}")
        if not self.candidates:
            raise UsageError("there are no candidates to score: give files as name=file")

    def score(
        self, *, metrics: Mapping[str, Metric], seed: int = 0, rank_by: str = "tiers", threads: int | None = None
    ) -> Result:
        r"""Reads the files and scores them; the arguments are those of `mira_bench.score`."""

        truths = read_truths(self.truths, names=self.names, fiducial=self.fiducial)
        samples = {
            name: read_samples(source, truths, names=self.names, layout=self.layout, fiducial=self.fiducial)
            for name, source in self.candidates.items()
        }
        named = [c for c in (truths, *samples.values()) if c.names is not None]
        for content in named[1:]:
            _same_names(content, named[0])
            if content.names != named[0].names:
                raise UsageError(
                    f"{content.source} and {named[0].source} have their parameters in different orders: "
                    "give the order by --names (task.names= in a Hydra run)"
                )
        x = None
        if self.x is not None:
            observations = read_file(self.x, self.fiducial, sampled=False)
            x = observations.values
            if len(x) != len(truths.values):
                raise UsageError(
                    f"{self.x} has shape {tuple(x.shape)}: {len(x)} observations for the {len(truths.values)} truths "
                    f"in {self.truths}"
                )
            order = _order(observations, truths)
            x = x if order is None else np.asarray(x[:])[order]
        if self.names is not None and len(set(self.names)) < len(self.names):
            raise UsageError(f"--names has a parameter twice: {', '.join(self.names)}")
        unnamed = [c for c in (truths, *samples.values()) if c.names is None]
        if self.names is not None and named and unnamed:
            stored = read_file(named[0].source, self.fiducial, sampled=named[0] is not truths).names or ()
            places = [stored.index(name) for name in named[0].names or ()]
            if places != sorted(places):
                raise UsageError(
                    f"--names reorders the parameters of {named[0].source}, but {unnamed[0].source} does not name its "
                    "own: which is which cannot be known"
                )
        names = named[0].names if named else self.names
        dim = int(np.prod(truths.values.shape[1:]))
        if names is not None and len(names) != dim:
            raise UsageError(f"there are {len(names)} names ({', '.join(names)}) for {dim} dimensions of {self.truths}")
        return score(
            truths.values,
            {name: content.values for name, content in samples.items()},
            x=x,
            names=names,
            metrics=metrics,
            seed=seed,
            bounds=_read_bounds(self.bounds),
            rank_by=rank_by,
            thin=self.thin,
            threads=threads,
        )
