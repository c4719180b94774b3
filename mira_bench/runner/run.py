r"""The pipeline: fiducials are simulated, candidates fitted and sampled, samples scored, unit by unit.

`units.py` has the unit of work; here the units of a run are handed out, and what comes back becomes a `Result`.
"""

__all__ = ["perform", "run", "split"]

import dataclasses
import functools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..adapters.identity import describe
from ..arrays import as_truths
from ..candidate import Candidate
from ..errors import UsageError
from ..fiducials import Fiducials
from ..metric import Block, Context, Metric, Record, Scores
from ..metrics.records import joined
from ..ranking.tiers import Standing
from ..ranks.scaling import Scaling, as_bounds, pooled_range, sample_range
from ..result import Result
from ..task import Task
from ..trainer import curves_of
from ..views import path, views_of, with_inner, with_states
from .again import look_again
from .canary import Reuse, check_candidates, check_fits, check_task
from .engines import Died, Engine, one_thread
from .progress import Progress
from .scoring import Outcome, standing
from .setup import Settings, Setup
from .store import Store
from .training import Fits, fit_all, is_trainer, learn, learn_task
from .units import forget, simulate, work

log = logging.getLogger("mira_bench")


@dataclass(frozen=True)
class _Range(Metric):
    r"""Keeps the range of the samples, which `normalize="pooled"` needs of all candidates before any score."""

    name = "range"
    normalize = "none"

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        return ()

    def observe(self, block: Block) -> Record:
        low, high = sample_range(block.samples)
        return {"low": low, "high": high}

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        raise UsageError("the ranges of several candidates are put together, not scored")


def _execute(
    setup: Setup,
    parts: list[Fiducials],
    scaling: Scaling,
    engine: Engine,
    progress: Progress,
    unfit: Mapping[str, str],
) -> tuple[dict[str, list[dict[str, Outcome]]], dict[str, str], dict[str, float], dict[str, str]]:
    r"""Runs all units but those of unfit candidates.

    Returns:
        The outcomes per candidate by block, failures, seconds, and the hashes of the files that were read.
    """
    reads: dict[str, str] = {}
    failures = {name: (-1, reason) for name, reason in unfit.items()}
    seconds = dict.fromkeys(setup.candidates, 0.0)
    seen: dict[str, dict[int, dict[str, Outcome]]] = {name: {} for name in setup.candidates}

    def calls(names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        # The generator is read while results come in, so a candidate that failed gets no further blocks.
        for name in names:
            for block in setup.blocks:
                if name not in failures and block not in seen[name]:
                    # A unit takes its own weights along, not those of all candidates.
                    own = {name: setup.fits[name]} if name in setup.fits else {}
                    yield dataclasses.replace(setup, fits=own), name, block, parts[block], scaling

    for result in engine.map_named(work, calls, list(setup.candidates), "sampling"):
        if isinstance(result, Died):
            result = result.name, setup.blocks[0], None, result.reason, 0.0, {}
        name, block, outcomes, reason, spent, files = result
        seconds[name] += spent
        reads |= files
        if outcomes is None:
            if name not in failures:
                log.error("candidate %s failed on block %d: %s", name, block, reason)
                progress.fail(name)
            # Blocks that were under way may fail too: the first one speaks, whatever the order of their ends.
            sentence = reason.splitlines()[0]
            failures[name] = min(failures.get(name, (block, sentence)), (block, sentence))
        else:
            seen[name][block] = outcomes
            progress.advance(name, setup.count(block), spent)
    ordered = {name: [seen[name][b] for b in sorted(seen[name])] for name in setup.candidates}
    return ordered, {name: reason for name, (_, reason) in failures.items()}, seconds, reads


def run(task: Task, candidates: Mapping[str, Candidate], **settings: Any) -> Result:
    r"""Simulates fiducials, samples the candidates, scores and ranks them.

    Arguments:
        task: The task that fiducials are simulated from.
        candidates: The candidates that are sampled and scored, by name.
        settings: How: `fiducials`, `samples`, `seed`, `metrics`, `store`, `workers` and so on; see `Settings`.
    """

    return perform(task, candidates, Settings.of(**settings))


run.__signature__ = Settings.signature(run)  # type: ignore[attr-defined]


def perform(task: Task, candidates: Mapping[str, Candidate], settings: Settings) -> Result:
    r"""Does what `run` says, with settings that are put together."""

    setup = Setup.of(task, candidates, settings)
    if not candidates:
        raise UsageError("there are no candidates to score: the list is empty")
    settings.check_device()
    engine = Engine(settings.workers, settings.backend, settings.address)
    if engine.remote and setup.store.root is not None:
        setup = dataclasses.replace(setup, store=Store(setup.store.root.absolute()))
    everyone = setup.candidates
    reuse = Reuse()
    with one_thread(), Progress(settings.progress, settings.workers) as bars:
        setup = learn_task(setup, engine, bars, settings.fit_minutes)
        # Candidates may look at a simulation to say whether they apply, and a task that learns has none before.
        applicable, skipped = split(setup)
        setup = dataclasses.replace(setup, candidates=applicable)
        parts, scaling = _simulate_all(setup, reuse, bars, settings.check)
        setup, fits = _train_all(setup, engine, reuse, bars, settings)
        refuse_ambiguous(setup.metrics)
        setup = _learn_views(setup, engine, bars, settings)
        setup, scaling = _find_scales(setup, parts, scaling, engine, settings.check)
        for candidate in setup.candidates:
            bars.add(candidate, setup.fiducials)
        bars.add_sum()
        stale = check_candidates(setup, parts, scaling, engine, reuse, settings.check)
        outcomes, failures, seconds, reads = _execute(setup, parts, scaling, engine, bars, stale)
    forget()
    failures |= skipped | fits.failures
    spent = dict.fromkeys(fits.failures, 0.0) | seconds
    seconds = {key: own + fits.seconds.get(key, 0.0) for key, own in spent.items()}
    standings = _standings(setup, everyone, outcomes, failures, scaling, shared=parts[0].group is not None)
    names = getattr(task, "names", None)
    warnings = [f"{s.name}: {c.sentence}" for s in standings if (c := s.convergence) is not None and len(c.missed)]
    return Result(
        task=setup.name,
        standings=standings,
        metrics=list(setup.metrics),
        columns={key: metric.column for key, metric in setup.metrics.items() if metric.column},
        names=None if names is None else list(names),
        rank_by=settings.rank_by,
        seed=setup.seed,
        seconds=seconds,
        warnings=warnings,
        reuse=reuse.sentences,
        remarks=list(getattr(setup.task, "remarks", ())),
        identity=setup.identity.hashes,
        curves={key: curves_of(fits.states[key]) for key in everyone if key in fits.states},
        training_seconds=fits.took,
        files={**reads, **setup.identity.files},
        preprocess=getattr(task, "preprocessing", ("",))[0],
        pictures=functools.partial(_illustrate, setup, parts[0]) if hasattr(task, "illustrate") else None,
        corners=functools.partial(look_again, setup, parts, standings, settings.rank_by, seconds),
    )


def _simulate_all(setup: Setup, reuse: Reuse, bars: Progress, check: bool) -> tuple[list[Fiducials], Scaling]:
    r"""Makes the fiducials, block by block; with all of them, the scale is known."""
    if check:
        check_task(setup, reuse)
    bars.add("fiducials", setup.fiducials)
    parts: list[Fiducials] = []
    for block in setup.blocks:
        parts.append(simulate(setup, block))
        bars.advance("fiducials", setup.count(block), seconds=0)  # not the price of a posterior
    everything = Fiducials.concatenate(parts)[: setup.fiducials]
    truths = as_truths(everything.y, f"y of task {setup.name!r}")
    return parts, Scaling(truths, task=as_bounds(getattr(setup.task, "bounds", None), truths.shape[1]))


def _train_all(setup: Setup, engine: Engine, reuse: Reuse, bars: Progress, settings: Settings) -> tuple[Setup, Fits]:
    r"""Trains the candidates that learn; returns the setup without those that failed, and what came of it."""
    check_fits(setup, engine, reuse, settings.check)
    fits = fit_all(setup, engine, bars, settings.fit_minutes)
    trained = {key: one for key, one in setup.candidates.items() if key not in fits.failures}
    return dataclasses.replace(setup, candidates=trained, fits=fits.states), fits


def refuse_ambiguous(metrics: Mapping[str, Metric]) -> None:
    r"""Raises if two views that differ look the same in words, by which their ranges and states are known."""
    known: dict[str, Any] = {}
    for view in (view for metric in metrics.values() for view in views_of(metric)):
        one = describe(view)
        if known.setdefault(repr(view), one) != one:
            raise UsageError(f"two views that differ are both called {view!r}: give their class a repr that tells them")


def _learn_views(setup: Setup, engine: Engine, bars: Progress, settings: Settings) -> Setup:
    r"""Makes the trainings of views that are learned; returns the setup with metrics that look through them."""
    seen = [view for metric in setup.metrics.values() for view in views_of(metric)]
    views = {repr(view): view for view in seen if is_trainer(getattr(view, "trainer", None))}
    if not views:
        return setup
    states = learn(setup, views, engine, bars, settings.fit_minutes)
    learned = {key: with_states(metric, states) for key, metric in setup.metrics.items()}
    return dataclasses.replace(setup, metrics=learned)


def _find_scales(
    setup: Setup, parts: list[Fiducials], scaling: Scaling, engine: Engine, check: bool
) -> tuple[Setup, Scaling]:
    r"""Finds what metrics look at beyond a block, and refuses a scale that cannot be had before work is spent."""
    scaling = _with_pooled(setup, parts, scaling, engine, check)
    for metric in setup.metrics.values():
        scaling.resolve(metric.normalize)
    return setup.seen_in(Context(scaling, Fiducials.concatenate(parts)[: setup.fiducials].x)), scaling


def _standings(
    setup: Setup,
    everyone: Mapping[str, Candidate],
    outcomes: Mapping[str, Sequence[Mapping[str, Outcome]]],
    failures: Mapping[str, str],
    scaling: Scaling,
    shared: bool,
) -> list[Standing]:
    r"""Reduces what was seen of every candidate, in the order in which they were given."""
    standings = []
    for key, one in everyone.items():
        role = getattr(one, "role", "candidate")
        if key in failures:
            made = Standing(key, role, failure=failures[key])
        else:
            made = standing(key, role, outcomes[key], setup.metrics, scaling, shared)
        training = setup.trainings.get(key)
        standings.append(made if training is None else dataclasses.replace(made, method=training.method))
    return standings


def _illustrate(setup: Setup, fiducials: Fiducials) -> Mapping[str, Any]:
    r"""Lets a task draw the first block, from the samples that were kept."""
    stored = {name: setup.store.get(setup.samples_spec(name, 0)) for name in setup.candidates}
    samples = {name: block["values"] for name, block in stored.items() if block is not None}
    return setup.task.illustrate(fiducials, samples) if samples else {}  # type: ignore[attr-defined]


def split(setup: Setup) -> tuple[dict[str, Candidate], dict[str, str]]:
    r"""Separates the candidates that do not apply to the task, with their reason."""
    reasons = {}
    for name, candidate in setup.candidates.items():
        skip = getattr(candidate, "skip", None)
        reason = skip(setup.task) if skip is not None else None
        if reason is not None:
            reasons[name] = f"skipped: {reason}"
    return {k: c for k, c in setup.candidates.items() if k not in reasons}, reasons


def _with_pooled(setup: Setup, parts: list[Fiducials], scaling: Scaling, engine: Engine, check: bool) -> Scaling:
    r"""Finds the range of all candidates' samples if a metric asks for it: a pass of its own over the samples.

    Controls are left out: showing them must not change the scores of the others.
    """
    # Views have a range of their own; without a view it is that of all parameters.
    asking = {path(views_of(metric)): metric for metric in setup.metrics.values() if metric.normalize == "pooled"}
    if not asking:
        return scaling
    ranges = {key: with_inner(metric, _Range()) for key, metric in asking.items()}
    ranked = {k: c for k, c in setup.candidates.items() if getattr(c, "role", "candidate") == "candidate"}
    known = dataclasses.replace(setup.identity, metrics={key: describe(one) for key, one in ranges.items()})
    first = dataclasses.replace(setup, metrics=ranges, candidates=ranked, identity=known)
    first = first.seen_in(Context(scaling))
    stale = check_candidates(first, parts, scaling, engine, Reuse(), check)
    outcomes, failures, _, _ = _execute(first, parts, scaling, engine, Progress(False), stale)
    pooled = {}
    for key, metric in asking.items():
        found = []
        for name in (name for name in outcomes if name not in failures):
            records = [seen for block in outcomes[name] if not isinstance(seen := block[key], str)]
            found.append((slice(None), joined(records, "low"), joined(records, "high")))
        truths = scaling.truths
        for view in views_of(metric):
            truths = np.asarray(view.points(truths), np.float64)
        pooled[key] = pooled_range(truths, found)
    return dataclasses.replace(scaling, pooled=pooled.pop("", None), pooled_views=pooled)
