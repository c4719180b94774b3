r"""The pipeline: fiducials are simulated, candidates fitted and sampled, samples scored, unit by unit.

`units.py` has the unit of work; here the units of a run are handed out, and what comes back becomes a `Result`.
"""

__all__ = ["check_plan", "make_plan", "run", "split", "standing"]

import dataclasses
import functools
import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib.externals.loky.process_executor import BrokenProcessPool
from numpy.typing import NDArray

from .arrays import as_truths
from .canary import Reuse, check_candidates, check_fits, check_task
from .candidate import Candidate, Oracle, Prior
from .engines import Engine, one_thread
from .errors import UsageError
from .fiducials import Fiducials
from .fit import expand, fit_all, reason_of
from .identity import describe
from .metric import Block, Context, Metric, Record, Scores
from .metrics import choose_metrics
from .progress import Progress
from .ranking import RANKINGS, Standing
from .result import Result
from .scaling import Scaling, as_bounds, sample_range
from .store import Store
from .task import Task
from .units import FAILED, Identity, Outcome, Plan, forget, simulate, work

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
        return Scores(result=[np.concatenate([r[key] for r in records]) for key in ("low", "high")])


def _as_scores(made: Any) -> Scores:
    r"""What a metric says, after a check: the tables of all metrics are made of it."""
    if not isinstance(made, Scores):
        raise TypeError(f"reduce returned a {type(made).__name__}; mira_bench.Scores is needed")
    numbers = {key: float(getattr(made, key)) for key in ("score", "stderr", "expected", "pvalue")}
    each = None if made.per_fiducial is None else np.asarray(made.per_fiducial, np.float64)
    if each is not None and each.ndim != 1:
        raise TypeError(f"reduce returned per_fiducial of shape {each.shape}; one number per fiducial is needed")
    return dataclasses.replace(made, **numbers, note=str(made.note), per_fiducial=each)


def standing(
    name: str,
    role: str,
    blocks: Sequence[Mapping[str, Outcome]],
    metrics: Mapping[str, Metric],
    scaling: Scaling,
    shared: bool = False,
) -> Standing:
    r"""Reduces what metrics saw in all blocks of a candidate to its scores.

    If fiducials share a sample set, p-values that take them for independent are left out.
    """

    scores = {}
    for key, metric in metrics.items():
        outcomes = [block[key] for block in blocks]
        reason = next((o for o in outcomes if isinstance(o, str)), None)
        if reason is None:
            try:
                scores[key] = _as_scores(metric.reduce([o for o in outcomes if not isinstance(o, str)], scaling))
            except Exception as error:  # a metric fails alone, and says so in its own row
                log.error("metric %s failed for candidate %s: %s", key, name, reason_of(error))
                scores[key] = Scores(note=f"{FAILED}{reason_of(error).splitlines()[0]}")
                continue
            if shared and metric.independent:
                note = f"{scores[key].note}; no p-value: fiducials share a sample set"
                scores[key] = dataclasses.replace(scores[key], pvalue=math.nan, note=note)
        else:
            scores[key] = Scores(note=reason if reason.startswith(FAILED) else f"not computed: {reason}")
    return Standing(name, role, scores)


def _execute(
    plan: Plan,
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
    seconds = dict.fromkeys(plan.candidates, 0.0)
    seen: dict[str, dict[int, dict[str, Outcome]]] = {name: {} for name in plan.candidates}

    def calls(names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        # The generator is read while results come in, so a candidate that failed gets no further blocks.
        for name in names:
            for block in plan.blocks:
                if name not in failures and block not in seen[name]:
                    # A unit takes its own weights along, not those of all candidates.
                    own = {name: plan.fits[name]} if name in plan.fits else {}
                    yield dataclasses.replace(plan, fits=own), name, block, parts[block], scaling

    def results() -> Iterator[tuple[str, int, dict[str, Outcome] | None, str, float, dict[str, str]]]:
        try:
            yield from engine.map(work, calls(plan.candidates))
            return
        except BrokenProcessPool:
            log.warning("a worker process died; candidates go on one at a time, to find the one that it died of")
        for name in plan.candidates:
            try:
                yield from engine.map(work, calls([name]))
            except BrokenProcessPool:
                # A unit of the round before may still have been under way, and may have taken this worker with it.
                log.warning("a worker process died of candidate %s, or beside it; it gets a second chance", name)
                try:
                    yield from engine.map(work, calls([name]))
                except BrokenProcessPool:
                    yield name, plan.blocks[0], None, "its worker process died (killed, or out of memory)", 0.0, {}

    for name, block, outcomes, reason, spent, files in results():
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
            progress.advance(name, plan.count(block), spent)
    ordered = {name: [seen[name][b] for b in sorted(seen[name])] for name in plan.candidates}
    return ordered, {name: reason for name, (_, reason) in failures.items()}, seconds, reads


def check_plan(plan: Plan, workers: int, rank_by: str) -> None:
    r"""Raises a sentence about what cannot be run."""
    if workers < 1:
        raise UsageError(f"workers={workers}: at least one is needed")
    if not plan.candidates:
        raise UsageError("there are no candidates to score: the list is empty")
    if not plan.metrics:
        raise UsageError("there are no metrics to compute: the list is empty")
    if rank_by not in RANKINGS:
        raise UsageError(f"rank_by={rank_by!r} is not one of {', '.join(RANKINGS)}")
    if plan.device not in (None, "cpu"):
        import torch

        try:
            torch.empty(1, device=plan.device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise UsageError(f"device={plan.device!r} cannot be used: {reason}") from error


def make_plan(
    task: Task,
    candidates: Mapping[str, Candidate],
    metrics: Mapping[str, Metric] | Sequence[str] | None,
    fiducials: int,
    samples: int,
    seed: int,
    store: str | os.PathLike[str] | None,
    keep_samples: bool,
    device: str | None,
    controls: bool,
    name: str | None,
    seeds: int = 1,
) -> Plan:
    r"""Puts the arguments of `run` together, with the controls, after a check."""
    for key, value in (("fiducials", fiducials), ("samples", samples), ("seed", seed)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise UsageError(f"{key}={value!r}: a whole number is needed")
        if key != "seed" and value < 1:
            raise UsageError(f"{key}={value}: at least one is needed")
    if keep_samples and store is None:
        raise UsageError("keep_samples needs a store to keep them in")
    if not isinstance(candidates, Mapping):
        raise UsageError("candidates must be a mapping from names to candidates, e.g. {'npe': Neural(budget=2000)}")
    for label, one in candidates.items():
        if not hasattr(one, "build"):
            raise UsageError(
                f"candidate {label!r} is a {type(one).__name__} without build(task, rng); "
                "mira_bench.inference has Neural and Given"
            )
    everyone, trainings = expand(candidates, seeds)
    if controls:
        for label, control in (("oracle", Oracle()), ("prior", Prior())):
            if label not in everyone and control.skip(task) is None:
                everyone[label] = control
    chosen = choose_metrics(metrics)
    try:
        identity = Identity.of(task, everyone, chosen)
    except UsageError:
        if store is not None:
            raise
        identity = Identity()
    return Plan(
        name=name or type(task).__name__.lower(),
        task=task,
        candidates=everyone if candidates else {},
        metrics=chosen,
        fiducials=int(fiducials),
        samples=int(samples),
        seed=int(seed),
        store=Store(store),
        keep_samples=keep_samples,
        device=device,
        identity=identity,
        trainings=trainings,
    )


def run(
    task: Task,
    candidates: Mapping[str, Candidate],
    *,
    fiducials: int = 1000,
    samples: int = 500,
    seed: int = 0,
    metrics: Mapping[str, Metric] | Sequence[str] | None = None,
    rank_by: str = "tiers",
    workers: int = 1,
    backend: str = "loky",
    address: str | None = None,
    device: str | None = None,
    store: str | os.PathLike[str] | None = None,
    keep_samples: bool = False,
    controls: bool = True,
    progress: bool = False,
    name: str | None = None,
    seeds: int = 1,
    check: bool = True,
) -> Result:
    r"""Simulates fiducials, samples the candidates, scores and ranks them.

    Arguments:
        task: The task.
        candidates: The candidates by name.
        fiducials: The number of fiducials $L$.
        samples: The number of samples per fiducial $S$.
        seed: The seed: the same seed gives the same result for any number of workers.
        metrics: The metrics by name, or names of default ones; by default MIRA, the calibration test, TARP, SBC, the
            energy score, C2ST and MMD.
        rank_by: `"tiers"` or `"mira"`, see `mira_bench.ranking`.
        workers: The number of processes.
        backend: What runs them: `"loky"`, another backend of joblib, or `"dask"`; see `mira_bench.engines`.
        address: The address of a Dask scheduler.
        device: Where ranks are computed, e.g. `"cuda"`; by default on the CPU.
        store: The folder in which finished blocks are kept; without one, nothing is.
        keep_samples: Whether samples are kept in the store, so that a new metric needs no new sampling.
        controls: Whether to add the prior and, where the task has one, the exact posterior.
        progress: Whether to show progress on a terminal.
        name: The name of the task.
        seeds: How often candidates that learn are trained. With several, `Result.methods` has a row per method.
        check: Whether a block of all that would be taken from the store is made anew, to see that it is still the
            same; see `mira_bench.canary`.
    """

    plan = make_plan(
        task, candidates, metrics, fiducials, samples, seed, store, keep_samples, device, controls, name, seeds
    )
    check_plan(plan, workers, rank_by)
    engine = Engine(workers, backend, address)
    if engine.remote and plan.store.root is not None:
        plan = dataclasses.replace(plan, store=Store(plan.store.root.absolute()))
    everyone = plan.candidates
    applicable, skipped = split(plan)
    plan = dataclasses.replace(plan, candidates=applicable)
    reuse = Reuse()
    with one_thread(), Progress(progress, workers) as bars:
        if check:
            check_task(plan, reuse)
        bars.add("fiducials", plan.fiducials)
        parts: list[Fiducials] = []
        for block in plan.blocks:
            parts.append(simulate(plan, block))
            bars.advance("fiducials", plan.count(block), seconds=0)  # not the price of a posterior
        everything = Fiducials.concatenate(parts)[: plan.fiducials]
        truths = as_truths(everything.y, f"y of task {plan.name!r}")
        scaling = Scaling(truths, task=as_bounds(getattr(task, "bounds", None), truths.shape[1]))
        check_fits(plan, engine, reuse, check)
        states, unfit, learning = fit_all(plan, engine, bars)
        trained = {key: one for key, one in plan.candidates.items() if key not in unfit}
        plan = dataclasses.replace(plan, candidates=trained, fits=states)
        scaling = _with_pooled(plan, parts, scaling, engine, check)
        for metric in plan.metrics.values():
            scaling.resolve(metric.normalize)
        plan = plan.seen_in(Context(scaling, everything.x))
        for candidate in plan.candidates:
            bars.add(candidate, plan.fiducials)
        bars.add_sum()
        stale = check_candidates(plan, parts, scaling, engine, reuse, check)
        outcomes, failures, seconds, reads = _execute(plan, parts, scaling, engine, bars, stale)
    forget()
    failures |= skipped | unfit
    seconds = {key: spent + learning.get(key, 0.0) for key, spent in (dict.fromkeys(unfit, 0.0) | seconds).items()}
    standings = []
    for key, one in everyone.items():
        role = getattr(one, "role", "candidate")
        if key in failures:
            made = Standing(key, role, failure=failures[key])
        else:
            shared = parts[0].group is not None
            made = standing(key, role, outcomes[key], plan.metrics, scaling, shared)
        training = plan.trainings.get(key)
        standings.append(made if training is None else dataclasses.replace(made, method=training.method))
    names = getattr(task, "names", None)
    warnings = [f"{s.name}: {c.sentence}" for s in standings if (c := s.convergence) is not None and len(c.missed)]
    return Result(
        task=plan.name,
        standings=standings,
        metrics=list(plan.metrics),
        columns={key: metric.column for key, metric in plan.metrics.items() if metric.column},
        names=None if names is None else list(names),
        rank_by=rank_by,
        seed=plan.seed,
        seconds=seconds,
        warnings=warnings,
        reuse=reuse.sentences,
        identity=plan.identity.hashes,
        files={**reads, **plan.identity.files},
        pictures=functools.partial(_illustrate, plan, parts[0]) if hasattr(task, "illustrate") else None,
    )


def _illustrate(plan: Plan, fiducials: Fiducials) -> Mapping[str, Any]:
    r"""Lets a task draw the first block, from the samples that were kept."""
    stored = {name: plan.store.get(plan.samples_spec(name, 0)) for name in plan.candidates}
    samples = {name: block["values"] for name, block in stored.items() if block is not None}
    return plan.task.illustrate(fiducials, samples) if samples else {}  # type: ignore[attr-defined]


def split(plan: Plan) -> tuple[dict[str, Candidate], dict[str, str]]:
    r"""Separates the candidates that do not apply to the task, with their reason."""
    reasons = {}
    for name, candidate in plan.candidates.items():
        skip = getattr(candidate, "skip", None)
        reason = skip(plan.task) if skip is not None else None
        if reason is not None:
            reasons[name] = f"skipped: {reason}"
    return {k: c for k, c in plan.candidates.items() if k not in reasons}, reasons


def _with_pooled(plan: Plan, parts: list[Fiducials], scaling: Scaling, engine: Engine, check: bool) -> Scaling:
    r"""Finds the range of all candidates' samples if a metric asks for it: a pass of its own over the samples.

    Controls are left out: showing them must not change the scores of the others.
    """
    if all(metric.normalize != "pooled" for metric in plan.metrics.values()):
        return scaling
    ranges = _Range()
    ranked = {k: c for k, c in plan.candidates.items() if getattr(c, "role", "candidate") == "candidate"}
    known = dataclasses.replace(plan.identity, metrics={"range": describe(ranges)})
    first = dataclasses.replace(plan, metrics={"range": ranges}, candidates=ranked, identity=known)
    first = first.seen_in(Context(scaling))
    stale = check_candidates(first, parts, scaling, engine, Reuse(), check)
    outcomes, failures, _, _ = _execute(first, parts, scaling, engine, Progress(False), stale)
    low, high = scaling.truths.copy(), scaling.truths.copy()
    for name, blocks in outcomes.items():
        if name not in failures:
            records = [b["range"] for b in blocks if not isinstance(b["range"], str)]
            a, b = ranges.reduce(records, scaling).result
            low, high = np.minimum(low, a), np.maximum(high, b)
    return dataclasses.replace(scaling, pooled=(low, high))
