r"""Scores samples that already exist: arrays in, tables and a ranking out."""

__all__ = ["score"]

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray

from ..arrays import (
    Array,
    OnDisk,
    as_array,
    as_host,
    as_truths,
    check_samples,
    flat,
    in_one_unit,
    is_device_tensor,
    is_one_set,
    precision_of,
    refuse_masks,
    refuse_non_finite,
    shared_by,
)
from ..diagnostics import autocorrelated
from ..errors import UsageError
from ..layouts import LAYOUTS, refuse_swapped, swap
from ..metric import Block, Metric
from ..metrics import choose_metrics
from ..ranking.tiers import RANKINGS, Standing
from ..ranks.kernel import available_threads
from ..ranks.scaling import Scaling, as_bounds, pooled_range, sample_range
from ..result import Result
from ..sharing import equal_sets, refuse_groups, refuse_repeats, tell_shared
from ..task import BLOCK
from .scoring import observe, standing

log = logging.getLogger("mira_bench")

BLOCK_ENTRIES = 2**25  # numbers in a block: 256 MB in double precision, if it has to be copied at all
SHARED_ENTRIES = 2**21  # numbers of candidates that share sample sets, if they are looked at all at once
COPIED_BYTES = 2**30  # blocks that threads hold at once, if they have to be copied


@dataclasses.dataclass(frozen=True)
class _Samples:
    r"""The samples of one candidate, which are read block by block.

    Arguments:
        name: What to call them in an error.
        values: Anything with `shape`, `dtype` and slices over fiducials, $(L, S, *event)$.
        shared: Whether they came as one set for all fiducials.
        thinned: The samples to take, if not all.
    """

    name: str
    values: Any
    shared: bool = False
    thinned: NDArray[np.intp] | None = None

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

    def __getitem__(self, rows: slice) -> Array:
        part = flat(as_array(self.values[rows], self.name), 2)
        part = part if self.thinned is None else part[:, self.thinned]
        return part if is_device_tensor(part) else np.ascontiguousarray(part)

    def first(self, rows: slice) -> Array:
        r"""The first sample of some fiducials, $(l, 1, d)$; thinning keeps it."""
        if isinstance(self.values, OnDisk):
            part = self.values.peek(rows)
        elif hasattr(self.values, "ndim"):  # an array of some kind, which knows more than slices of fiducials
            part = self.values[rows, :1]
        else:
            part = self.values[rows][:, :1]
        return flat(as_array(part, self.name), 2)


def _as_samples(values: Any, truths: NDArray[np.float64], event: tuple[int, ...], name: str, layout: Any) -> _Samples:
    fiducials = len(truths)
    if isinstance(values, OnDisk):
        name = f"{name} ({values.source})"
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
    return _Samples(name, values, shared or is_one_set(values))


def _find_sets(
    samples: Mapping[str, _Samples], truths: NDArray[np.float64], groups: NDArray | None
) -> tuple[dict[str, NDArray | None], list[str]]:
    r"""Which fiducials share sample sets, candidate by candidate, and what a user has to know about it."""
    if groups is not None:
        for one in samples.values():
            if not one.shared:
                refuse_groups(groups, one.blocks, one.__getitem__, one.name)
        return dict.fromkeys(samples, groups), []
    sets: dict[str, NDArray | None] = {}
    warnings = []
    for name, one in samples.items():
        if len(truths) == 1:
            sets[name] = None
        elif one.shared:
            sets[name] = np.zeros(len(truths), np.int64)
        else:
            found = sets[name] = equal_sets(one.blocks, one.first, one.__getitem__)
            if found is not None:
                warnings.append(tell_shared(found, one.name))
    refuse_repeats(truths, list(sets.values()))
    return sets, warnings


def _units(values: _Samples, sets: NDArray | None) -> list[slice]:
    r"""The blocks that metrics look at; all fiducials at once if they share sample sets and are not too many."""
    if sets is not None and np.prod(values.shape) <= SHARED_ENTRIES:
        return [slice(0, values.shape[0])]
    return values.blocks


def _thin(samples: dict[str, _Samples]) -> dict[str, _Samples]:
    r"""Takes as many samples of every candidate as the one with the fewest has, evenly spaced."""
    fewest = min(s.shape[1] for s in samples.values())
    return {
        name: dataclasses.replace(s, thinned=np.arange(fewest) * s.shape[1] // fewest) if s.shape[1] > fewest else s
        for name, s in samples.items()
    }


def _with_remarks(one: Standing, remarks: Sequence[str], metrics: Mapping[str, Metric]) -> Standing:
    r"""Appends what is to be known about a candidate's samples to the rows of the metrics that have room for it."""
    scores = {
        key: dataclasses.replace(row, note="; ".join(filter(None, [row.note, *remarks])))
        if metrics[key].remarks
        else row
        for key, row in one.scores.items()
    }
    return dataclasses.replace(one, scores=scores)


def score(
    truths: ArrayLike,
    candidates: Mapping[str, Any],
    *,
    x: Any | None = None,
    names: Sequence[str] | None = None,
    metrics: Mapping[str, Metric] | Sequence[str] | None = None,
    regions: int = 100,
    seed: int = 0,
    normalize: str = "auto",
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    groups: ArrayLike | None = None,
    reference: ArrayLike | None = None,
    rank_by: str = "tiers",
    thin: bool = False,
    threads: int | None = None,
    layout: str | None = None,
) -> Result:
    r"""Scores and ranks the samples of several candidates on the same fiducials.

    Arguments:
        truths: The truths, with shape $(L, *event)$.
        candidates: The samples of each candidate, with shape $(L, S, *event)$, where $S$ may differ, or
            $(1, S, *event)$ if all truths share one set. Arrays, tensors, lists, or anything that can be sliced over
            fiducials, such as a memory map or an HDF5 dataset: it is read in blocks. Copies of one set are found, and
            scored as a shared one.
        x: The observations, with shape $(L, *data)$, for metrics that look at them.
        names: The names of the parameters.
        metrics: The metrics by name, or names of default ones; by default MIRA, the calibration test, TARP, SBC, the
            energy score, C2ST and MMD.
        regions: The number of regions per fiducial, for the default metrics.
        seed: The seed of centers, ties and tests.
        normalize: The scale of the distances for the default metrics, see `mira_bench.ranks.scaling`.
        bounds: The range `(low, high)` of the parameters, e.g. the prior box: the scale if it is given.
        groups: Labels with shape $(L,)$ of fiducials that share one sample set, in every candidate. Without them,
            equal sets are found in each candidate by itself.
        reference: Samples of a reference posterior, with shape $(L, S', *event)$, for metrics that compare with it.
        rank_by: `"tiers"`, `"energy"`, `"mira"` or `"tiers_first"`, see `mira_bench.ranking.tiers`.
        thin: Whether to thin all candidates to the smallest $S$, evenly spaced; by default each is compared with the
            expectation for its own $S$.
        threads: The number of threads, by default all cores. The result does not depend on it.
        layout: `"LSd"` if candidates and reference have their fiducials first, `"SLd"` if they have their samples
            first, as sbi does. By default it is `"LSd"`, but what has as many samples as fiducials is refused if its
            numbers speak for the other one, see `mira_bench.layouts`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truths = rng.normal(size=(300, 2))
        >>> good, narrow = rng.normal(size=(300, 100, 2)), 0.5 * rng.normal(size=(300, 100, 2))
        >>> result = score(truths, {"good": good, "narrow": narrow})
        >>> result.summary.query("metric == 'mira'").score.round(1).tolist()
        [0.7, 0.6]
    """

    if not isinstance(candidates, Mapping):
        raise UsageError("candidates must be a mapping of names to samples, such as {'npe': samples}")
    if not candidates:
        raise UsageError("there are no candidates to score: the mapping is empty")
    if rank_by not in RANKINGS:
        raise UsageError(f"rank_by={rank_by!r} is not one of {', '.join(RANKINGS)}")
    if rank_by == "log":
        raise UsageError("rank_by='log' needs densities, and here are samples alone: rank_by='energy' is as proper")
    if layout not in (None, *LAYOUTS):
        raise UsageError(f"layout={layout!r} is not one of {', '.join(LAYOUTS)}")
    inputs = {f"candidate {name!r}": values for name, values in candidates.items()}
    inputs = in_one_unit({"truths": truths, "bounds": bounds, "reference": reference, **inputs})
    truths, bounds, reference, *values = inputs.values()
    precisions = {name: precision_of(one) for name, one in zip(candidates, values, strict=True)}
    raw = as_array(truths, "truths")
    y = as_truths(raw)
    event = tuple(raw.shape[1:])
    samples = {
        name: _as_samples(one, y, event, f"candidate {name!r}", layout)
        for name, one in zip(candidates, values, strict=True)
    }
    if thin:
        samples = _thin(samples)
    observations = None if x is None else as_array(x, "x")
    if observations is not None and len(observations) != len(y):
        raise UsageError(f"x has {len(observations)} observations, the truths have {len(y)} fiducials")
    exact = None if reference is None else _as_samples(reference, y, event, "reference", layout)
    if names is not None and (isinstance(names, str) or len(names) != y.shape[1]):
        told = repr(names) if isinstance(names, str) else len(names)
        raise UsageError(f"there are {told} names for {y.shape[1]} dimensions")
    labels = None if groups is None else np.asarray(groups)
    if labels is not None and labels.shape != (len(y),):
        raise UsageError(f"groups has shape {labels.shape}; one label per fiducial is needed: ({len(y)},)")
    sets, warnings = _find_sets(samples, y, labels)
    for warning in warnings:
        log.warning("%s", warning)

    chosen = choose_metrics(metrics, regions, normalize)
    pooled = None
    if any(metric.normalize == "pooled" for metric in chosen.values()):
        parts = ((rows, *sample_range(one[rows])) for one in samples.values() for rows in one.blocks)
        pooled = pooled_range(y, parts)
    scaling = Scaling(y, task=as_bounds(bounds, y.shape[1], y), pooled=pooled)
    for metric in chosen.values():
        scaling.resolve(metric.normalize)

    def work(name: str, rows: slice) -> dict:
        values = samples[name][rows]
        if isinstance(values, np.ndarray):
            refuse_non_finite(values, samples[name].name, rows.start)
        block = Block(
            truths=y[rows],
            samples=values,
            index=np.arange(rows.start, rows.stop),
            scaling=scaling,
            seed=seed,
            name=samples[name].name,
            groups=None if (mine := sets[name]) is None else mine[rows],
            x=None if observations is None else observations[rows],
            reference=None if exact is None else lambda: as_host(exact[rows]),
            precision=precisions[name],
        )
        return observe(block, chosen)

    copied = max(s.copied for s in samples.values())
    workers = min(threads or available_threads(), max(1, COPIED_BYTES // max(1, copied)))
    pool = Parallel(n_jobs=workers, backend="threading")
    units = [(name, rows) for name, values in samples.items() for rows in _units(values, sets[name])]
    outcomes = pool(delayed(work)(name, rows) for name, rows in units)
    standings: list[Standing] = []
    for name in samples:
        mine = [outcome for (owner, _), outcome in zip(units, outcomes, strict=True) if owner == name]
        standings.append(standing(name, "candidate", mine, chosen, scaling, sets[name] is not None))

    remarks: dict[str, list[str]] = {name: [] for name in samples}
    if len({s.shape[1] for s in samples.values()}) > 1:
        for name, s in samples.items():
            remarks[name].append(f"S = {s.shape[1]}")
    for name, s in samples.items():
        effective = autocorrelated(s)
        if effective is not None:
            told = f"{effective:.0f} of {s.shape[1]} samples are effective"
            remarks[name].append(f"autocorrelated: {told}")
            warnings.append(
                f"{s.name} is autocorrelated: {told}, so its scores deviate from the exact null; thin the chains more"
            )
            log.warning("%s", warnings[-1])
    return Result(
        task="samples",
        standings=[_with_remarks(one, remarks[one.name], chosen) for one in standings],
        metrics=list(chosen),
        columns={key: metric.column for key, metric in chosen.items() if metric.column},
        names=None if names is None else list(names),
        rank_by=rank_by,
        seed=seed,
        warnings=warnings,
    )
