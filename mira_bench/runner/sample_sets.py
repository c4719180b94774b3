r"""The samples of a candidate that already exist: checked, thinned, and read in blocks that fit into memory."""

__all__ = ["Samples", "as_samples", "thin_all", "units_of", "workers_for"]

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import (
    Array,
    OnDisk,
    as_array,
    as_host,
    check_samples,
    flat,
    is_device_tensor,
    is_one_set,
    refuse_masks,
    shared_by,
)
from ..diagnostics import chain_rhat
from ..durations import rough
from ..errors import UsageError
from ..layouts import refuse_swapped, swap
from ..memory import available_memory, release
from ..ranks.kernel import available_threads
from ..task import BLOCK

BLOCK_ENTRIES = 2**25  # numbers in a block: 256 MB in double precision, if it has to be copied at all
SHARED_ENTRIES = 2**21  # numbers of candidates that share sample sets, if they are looked at all at once
COPIED_BYTES = 2**30  # blocks that threads hold at once, if they have to be copied
SECONDS = 5e-6  # that a number takes in all metrics, measured once: 456 s for 2 x 2,000,000 x 20 on two busy cores
ENOUGH_SAMPLES = 10_000  # what is said to be thinned to


@dataclasses.dataclass(frozen=True)
class Samples:
    r"""The samples of one candidate, which are read block by block.

    Arguments:
        name: What to call them in an error.
        values: Anything with `shape`, `dtype` and slices over fiducials, $(L, S, *event)$.
        shared: Whether they came as one set for all fiducials.
        thinned: The samples to take, if not all.
        chains: The number of chains that all samples come from, one behind the other, if that is known.
    """

    name: str
    values: Any
    shared: bool = False
    thinned: NDArray[np.intp] | None = None
    chains: int | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        r"""$(L, S, d)$."""
        fiducials, count, *event = self.values.shape
        count = count if self.thinned is None else len(self.thinned)
        return fiducials, count, int(np.prod(event, dtype=np.int64))

    @property
    def blocks(self) -> list[slice]:
        r"""The blocks of fiducials; they do not depend on where the samples are."""
        fiducials, count, dim = self.shape
        size = min(BLOCK, max(1, BLOCK_ENTRIES // (count * dim)))
        return [slice(i, min(i + size, fiducials)) for i in range(0, fiducials, size)]

    @property
    def copied(self) -> int:
        r"""The bytes of a block in memory; none if it is a view of the values."""
        first = self.blocks[0]
        view = isinstance(self.values, np.ndarray) and self.values[first].flags.c_contiguous and self.thinned is None
        return 0 if view else 8 * (first.stop - first.start) * self.shape[1] * self.shape[2]

    @property
    def working(self) -> int:
        r"""The bytes that a thread needs beside the values: its block, and what metrics make of one fiducial."""
        # Fitted to one measurement: two threads with 2,000,000 x 20 took 4.9 GB, the pages of their file among them.
        return self.copied + 8 * self.shape[1] * (5 * self.shape[2] + 30)

    def rhat(self, rows: slice) -> dict[str, NDArray[np.float64]] | None:
        r"""The largest R-hat of each fiducial, if these are chains that are long enough to tell."""
        if self.chains is None:
            return None
        found = chain_rhat(flat(as_array(self.values[rows], self.name), 2), self.chains)
        return None if found is None else {"rhat": found}

    def __getitem__(self, rows: slice) -> Array:
        if self.thinned is not None:
            return self._thinned(rows)
        part = flat(as_array(self.values[rows], self.name), 2)
        return part if is_device_tensor(part) else np.ascontiguousarray(part)

    def _thinned(self, rows: slice) -> Array:
        r"""Some samples of a block; those that are not taken are never in memory for more than a few fiducials."""
        start, stop, _ = rows.indices(self.values.shape[0])
        if is_device_tensor(self.values):
            return flat(as_array(self.values[start:stop], self.name), 2)[:, self.thinned]
        step = max(1, BLOCK_ENTRIES // max(1, math.prod(self.values.shape[1:])))
        taken = []
        for i in range(start, max(stop, start + 1), step):
            part = flat(as_array(self.values[i : min(i + step, stop)], self.name), 2)
            taken.append(part[:, self.thinned])
            release(part)
        return np.concatenate(taken)

    def of_fiducial(self, i: int) -> NDArray:
        r"""The samples of one fiducial, $(S, d)$."""
        return as_host(self[slice(i, i + 1)])[0]

    def first(self, rows: slice) -> Array:
        r"""The first sample of some fiducials, $(l, 1, d)$; thinning keeps it."""
        if isinstance(self.values, OnDisk):
            part = self.values.peek(rows)
        elif hasattr(self.values, "ndim"):  # an array of some kind, which knows more than slices of fiducials
            part = self.values[rows, :1]
        else:
            part = self.values[rows][:, :1]
        return flat(as_array(part, self.name), 2)


def as_samples(values: Any, truths: NDArray[np.float64], event: tuple[int, ...], name: str, layout: Any) -> Samples:
    fiducials = len(truths)
    chains = None
    if isinstance(values, OnDisk):
        name, chains = name if name == values.source else f"{name} ({values.source})", values.chains
    if not (hasattr(values, "shape") and hasattr(values, "dtype")):
        values = as_array(values, name)
    refuse_masks(values, name)
    values = swap(values, name) if layout == "SLd" else values
    shape = tuple(values.shape)
    shared = shape[:1] == (1,) and fiducials > 1
    if layout is None and not shared and shape[:1] != (fiducials,) and shape[1:2] == (fiducials,):
        raise UsageError(
            f"{name} has shape {shape}, and the {fiducials} fiducials of the truths along its second axis: swap the "
            "axes, or pass layout='SLd'"
        )
    if shared:
        values = shared_by(as_array(values[:] if isinstance(values, OnDisk) else values, name), fiducials)
    check_samples(tuple(values.shape), fiducials, event, name)
    as_array(values[:0], name)  # refuses what is not made of real numbers, before the work begins
    if layout is None:
        refuse_swapped(
            truths, shape, lambda rows: values[rows], name,
            "pass layout='SLd' if samples come first, as sbi has them, or layout='LSd' if fiducials do",
        )  # fmt: skip
    return Samples(name, values, shared or is_one_set(values), chains=None if shared else chains)


def units_of(values: Samples, sets: NDArray | None) -> list[slice]:
    r"""The blocks that metrics look at; all fiducials at once if they share sample sets and are not too many."""
    if sets is not None and np.prod(values.shape) <= SHARED_ENTRIES:
        return [slice(0, values.shape[0])]
    return values.blocks


def thin_all(samples: dict[str, Samples], most: int | None) -> dict[str, Samples]:
    r"""Takes as many samples of every candidate as the one with the fewest has, or as are asked for, evenly spaced."""
    fewest = min(s.shape[1] for s in samples.values()) if most is None else most
    return {
        name: dataclasses.replace(s, thinned=np.arange(fewest) * s.shape[1] // fewest) if s.shape[1] > fewest else s
        for name, s in samples.items()
    }


def workers_for(samples: Mapping[str, Samples], threads: int | None) -> int:
    r"""The number of threads whose work fits into memory; a sentence if not even that of one does."""
    copied = max(s.copied for s in samples.values())
    workers = min(threads or available_threads(), max(1, COPIED_BYTES // max(1, copied)))
    largest = max(samples.values(), key=lambda s: s.working)
    free = available_memory()
    if free is None or workers * largest.working <= free:
        return workers
    if largest.working > free:
        raise UsageError(
            f"{largest.name} has {largest.shape[1]:,} samples of {largest.shape[2]} numbers for each fiducial, which "
            f"take about {largest.working / 1e9:.1f} GB and {rough(math.prod(largest.shape) * SECONDS)} to score, and "
            f"{free / 1e9:.1f} GB of memory are left: take fewer, for example by thin={ENOUGH_SAMPLES} "
            f"(--thin-to {ENOUGH_SAMPLES} of mira-bench score), which reads no others"
        )
    return max(1, free // largest.working)
