r"""Scores samples that already exist: arrays in, tables and a ranking out."""

__all__ = ["score"]

import dataclasses
import functools
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray

from ..adapters.content import Given, is_container
from ..adapters.files import Files
from ..adapters.posterior import draw
from ..arrays import (
    Array,
    as_array,
    as_host,
    as_observations,
    as_truths,
    in_one_unit,
    precision_of,
    refuse_non_finite,
)
from ..diagnostics import FIDUCIALS, autocorrelated
from ..errors import SamplesError, UsageError
from ..layouts import LAYOUTS
from ..metric import Block, Metric
from ..metrics import Convergence, choose_metrics
from ..ranking.tiers import RANKINGS, Standing
from ..ranks.scaling import Scaling, as_bounds, pooled_range, sample_range
from ..report.glimpses import glimpses
from ..result import Result
from ..sharing import equal_sets, refuse_groups, refuse_repeats, tell_shared
from .sample_sets import Samples, as_samples, thin_all, units_of, workers_for
from .scoring import observe, standing

log = logging.getLogger("mira_bench")


def _given(label: str, value: Any) -> str | Given:
    return os.fspath(value) if isinstance(value, str | os.PathLike) else Given(label, value)


def _drawn(candidates: Mapping[str, Any], x: Any, count: int, seed: int, fiducial: str | None) -> dict[str, Any]:
    r"""Samples the posteriors among the candidates."""
    out = {}
    for name, one in candidates.items():
        values = is_container(one, fiducial) or isinstance(one, str | os.PathLike) or hasattr(one, "shape")
        if values or not (callable(one) or hasattr(one, "sample")):
            out[name] = one
        elif x is None:
            raise UsageError(f"candidate {name!r} is a posterior, and is sampled given the observations: pass x=")
        elif is_container(x, fiducial) or isinstance(x, str | os.PathLike):
            raise UsageError(f"candidate {name!r} is a posterior, and x names its entries: pass x as an array")
        else:
            with _blaming(name):
                out[name] = draw(one, as_array(x, "x"), count, seed=seed)
    return out


@contextmanager
def _blaming(candidate: str) -> Iterator[None]:
    r"""Says whose samples cannot be used."""
    try:
        yield
    except UsageError as error:
        raise SamplesError(str(error), candidate) from error


@contextmanager
def _in_python() -> Iterator[None]:
    r"""Calls options what they are called in Python: sentences about files have the words of the command line."""
    try:
        yield
    except UsageError as error:
        told = re.sub(r" \((task\.\w+=( and )?)+ in a Hydra run\)|; task\.\w+= in a Hydra run", "", str(error))
        told = re.sub(r"--(layout|fiducial) (\w+)", r"\1='\2'", told)
        told = re.sub(r"--(names|layout|bounds|fiducial)\b", r"\1=", told)
        if told == str(error):
            raise
        raise UsageError(told) from error


def _find_sets(
    samples: Mapping[str, Samples], truths: NDArray[np.float64], groups: NDArray | None
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
            with _blaming(name):
                found = sets[name] = equal_sets(one.blocks, one.first, one.__getitem__)
            if found is not None:
                warnings.append(tell_shared(found, one.name))
    refuse_repeats(truths, list(sets.values()))
    return sets, warnings


def _different(samples: Samples, sets: NDArray | None) -> Samples | Array:
    r"""The samples of fiducials that have sets of their own: copies of one set say as much as it does."""
    if sets is None:
        return samples
    firsts = np.unique(sets, return_index=True)[1][:FIDUCIALS]
    return np.concatenate([as_host(samples[slice(i, i + 1)]) for i in firsts])


def _outside(truths: NDArray[np.float64], bounds: Any) -> list[str]:
    r"""What is to be known about bounds that leave truths outside."""
    if bounds is None:
        return []
    outside = int(((truths < bounds[0]) | (truths > bounds[1])).any(axis=1).sum())
    said = f"{outside} of {len(truths)} truths are outside of the bounds, which are then no bounds of the prior"
    return [f"{said}: check their units and the order of parameters"] if outside else []


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
    reference: Any | None = None,
    rank_by: str = "tiers",
    thin: bool | int = False,
    threads: int | None = None,
    layout: str | None = None,
    fiducial: str | None = None,
    samples: int = 500,
) -> Result:
    r"""Scores and ranks the samples of several candidates on the same fiducials.

    Arguments:
        truths: The truths, with shape $(L, *event)$: an array, or what names its parameters, as candidates may.
        candidates: The samples of each candidate, with shape $(L, S, *event)$, where $S$ may differ, or
            $(1, S, *event)$ if all truths share one set. Arrays, tensors, lists, or anything that can be sliced over
            fiducials, such as a memory map or an HDF5 dataset: it is read in blocks. Copies of one set are found, and
            scored as a shared one. What names its parameters and fiducials is matched by them, see
            `mira_bench.adapters.files`: ArviZ's `InferenceData`, an xarray `Dataset`, `DataArray` or `DataTree` with
            the dimensions fiducial, chain and draw (or sample), a `DataFrame` with the columns fiducial and sample, and
            the path of a file. A posterior, as `mira_bench.draw` takes it, is sampled given `x`.
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
        reference: Samples of a reference posterior, with shape $(L, S', *event)$, for metrics that compare with it: an
            array, or what candidates may be.
        rank_by: `"tiers"`, `"energy"`, `"mira"` or `"tiers_first"`, see `mira_bench.ranking.tiers`.
        thin: Whether to thin all candidates to the smallest $S$, evenly spaced, or the number of samples to thin those
            to that have more; by default each is compared with the expectation for its own $S$.
        threads: The number of threads, by default all cores. The result does not depend on it.
        layout: `"LSd"` if candidates and reference have their fiducials first, `"SLd"` if they have their samples
            first, as sbi does. By default it is `"LSd"`, but what has as many samples as fiducials is refused if its
            numbers speak for the other one, see `mira_bench.layouts`.
        fiducial: The column or dimension of the fiducials in tables and labeled arrays; by default `fiducial`,
            `observation` or `obs_id`.
        samples: The number of samples that are drawn of posteriors.

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
    if isinstance(names, str):
        raise UsageError(f"names={names!r} is one word: give a list, such as names={names.split(',')!r}")
    if rank_by not in RANKINGS:
        raise UsageError(f"rank_by={rank_by!r} is not one of {', '.join(RANKINGS)}")
    if rank_by == "log":
        raise UsageError("rank_by='log' needs densities, and here are samples alone: rank_by='energy' is as proper")
    if layout not in (None, *LAYOUTS):
        raise UsageError(f"layout={layout!r} is not one of {', '.join(LAYOUTS)}")
    candidates = _drawn(candidates, x, samples, seed, fiducial)
    given = (truths, x, reference, *candidates.values())
    if any(is_container(one, fiducial) or isinstance(one, str | os.PathLike) for one in given):
        found = Files(
            _given("truths", truths), {name: _given(f"candidate {name!r}", one) for name, one in candidates.items()},
            None if x is None else _given("x", x), names, layout, fiducial, bounds, thin,
            None if reference is None else _given("reference", reference),
        )  # fmt: skip
        more = {"groups": groups, "seed": seed, "rank_by": rank_by, "threads": threads}
        with _in_python():
            return found.score(metrics=choose_metrics(metrics, regions, normalize), strict=True, **more)
    inputs = {f"candidate {name!r}": values for name, values in candidates.items()}
    inputs = in_one_unit({"truths": truths, "bounds": bounds, "reference": reference, **inputs})
    truths, bounds, reference, *values = inputs.values()
    precisions = {name: precision_of(one) for name, one in zip(candidates, values, strict=True)}
    raw = as_array(truths, "truths")
    y = as_truths(raw)
    event = tuple(raw.shape[1:])
    own: dict[str, Samples] = {}
    for name, one in zip(candidates, values, strict=True):
        with _blaming(name):
            own[name] = as_samples(one, y, event, f"candidate {name!r}", layout)
    if thin is not False:
        if thin is not True and (not isinstance(thin, int | np.integer) or thin < 1):
            raise UsageError(f"thin={thin!r}: True, or a positive number of samples is needed")
        own = thin_all(own, None if thin is True else int(thin))
    observations = None if x is None else as_observations(x, len(y))
    exact = None if reference is None else as_samples(reference, y, event, "reference", layout)
    if names is not None and len(names) != y.shape[1]:
        raise UsageError(f"there are {len(names)} names for {y.shape[1]} dimensions")
    if names is not None and len(set(names)) < len(names):
        raise UsageError(f"names has a parameter twice: {', '.join(map(str, names))}")
    labels = None if groups is None else np.asarray(groups)
    if labels is not None and labels.shape != (len(y),):
        raise UsageError(f"groups has shape {labels.shape}; one label per fiducial is needed: ({len(y)},)")
    workers = workers_for(own, threads)
    box = as_bounds(bounds, y.shape[1], y)
    sets, warnings = _find_sets(own, y, labels)
    warnings = [*_outside(y, box), *warnings]
    for warning in warnings:
        log.warning("%s", warning)

    chosen = choose_metrics(metrics, regions, normalize)
    if any(one.chains is not None for one in own.values()):
        chosen.setdefault("convergence", Convergence())
    pooled = None
    if any(metric.normalize == "pooled" for metric in chosen.values()):
        parts = ((rows, *sample_range(one[rows])) for one in own.values() for rows in one.blocks)
        pooled = pooled_range(y, parts)
    scaling = Scaling(y, task=box, pooled=pooled)
    for metric in chosen.values():
        scaling.resolve(metric.normalize)

    def work(name: str, rows: slice) -> dict:
        with _blaming(name):
            values = own[name][rows]
            if isinstance(values, np.ndarray):
                refuse_non_finite(values, own[name].name, rows.start)
        block = Block(
            truths=y[rows],
            samples=values,
            index=np.arange(rows.start, rows.stop),
            scaling=scaling,
            seed=seed,
            name=own[name].name,
            groups=None if (mine := sets[name]) is None else mine[rows],
            x=None if observations is None else observations[rows],
            reference=None if exact is None else lambda: as_host(exact[rows]),
            precision=precisions[name],
            diagnostics=own[name].rhat(rows),
        )
        return observe(block, chosen)

    pool = Parallel(n_jobs=workers, backend="threading")
    units = [(name, rows) for name, values in own.items() for rows in units_of(values, sets[name])]
    outcomes = pool(delayed(work)(name, rows) for name, rows in units)
    standings: list[Standing] = []
    for name in own:
        mine = [outcome for (owner, _), outcome in zip(units, outcomes, strict=True) if owner == name]
        standings.append(standing(name, "candidate", mine, chosen, scaling, sets[name] is not None))

    remarks: dict[str, list[str]] = {name: [] for name in own}
    if len({s.shape[1] for s in own.values()}) > 1:
        for name, s in own.items():
            remarks[name].append(f"S = {s.shape[1]}")
    for name, s in own.items():
        effective = autocorrelated(_different(s, sets[name]))
        if effective is not None:
            told = f"{effective:.0f} of {s.shape[1]} samples are effective"
            remarks[name].append(f"autocorrelated: {told}")
            warnings.append(
                f"{s.name} is autocorrelated: {told}, so its scores deviate from the exact null; thin the chains more"
            )
            log.warning("%s", warnings[-1])
    warnings += [f"{s.name}: {c.sentence}" for s in standings if (c := s.convergence) is not None and len(c.missed)]
    # Now, that the result need not hold the samples; images have pictures instead.
    looks = {name: s.of_fiducial for name, s in own.items()}
    shown: Mapping[str, Any] = {}
    if len(event) <= 1:
        try:
            shown = glimpses(standings, rank_by, seed, names, y, looks)
        except Exception as error:  # scores do not need this
            log.warning("there are no corner plots: %s: %s", type(error).__name__, error)
    return Result(
        task="samples",
        standings=[_with_remarks(one, remarks[one.name], chosen) for one in standings],
        metrics=list(chosen),
        columns={key: metric.column for key, metric in chosen.items() if metric.column},
        names=None if names is None else list(names),
        rank_by=rank_by,
        seed=seed,
        warnings=warnings,
        corners=functools.partial(dict, shown),
    )
