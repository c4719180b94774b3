r"""What a run would cost, before it is started."""

__all__ = ["Estimate", "estimate"]

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..candidate import Candidate
from ..durations import clock
from ..errors import RunError
from ..fiducials import Fiducials
from ..metric import Block, Context
from ..ranks.scaling import Scaling, as_bounds
from ..streams import forked, generator
from ..task import Task
from ..trainer import Rehearsal
from ..views import views_of
from .engines import Engine
from .progress import Progress
from .run import split
from .scoring import observe
from .setup import Settings, Setup
from .store import Store
from .training import is_trainer, learn_task
from .units import build, simulate, work

PATIENCE = 120.0  # seconds of a block that is timed as a whole
LONG = 10.0  # seconds of the first block that make its start-up small, so that a second one says nothing new
PROBE = 4  # samples that tell what more would cost


@dataclass(frozen=True)
class Estimate:
    r"""What a run would cost.

    Arguments:
        seconds: The time per candidate, for all its blocks on one worker.
        total: The time of the whole run on all workers.
        disk: The bytes that the store would grow by.
        trainings: What training would cost, for each network that is trained.
        simulating: The time to simulate the fiducials, a part of the total.
        parallel: How many blocks are worked on at a time.
        starting: The time until workers are there, a part of the total.
    """

    seconds: dict[str, float]
    total: float
    disk: int
    trainings: dict[str, Rehearsal] = field(default_factory=dict)
    simulating: float = 0.0
    parallel: int = 1
    starting: float = 0.0


def estimate(
    task: Task,
    candidates: Mapping[str, Candidate],
    settings: Settings,
    report: Callable[[str], None] = lambda line: None,
) -> Estimate:
    r"""Times the first and the last block of every candidate and returns what the whole run would cost.

    The first block costs more than the later ones, because some nulls are found on the first fiducials only. Nothing
    is stored.

    Arguments:
        task: The task that fiducials are simulated from.
        candidates: The candidates that are sampled and scored, by name.
        settings: The settings of the run.
        report: A function that is told what is being timed, a line at a time.
    """

    settings.check_device()
    if is_trainer(getattr(task, "trainer", None)):
        report("learning what the task itself learns first; that is kept")
        known = Setup.of(task, candidates, dataclasses.replace(settings, keep_samples=False))
        setup = dataclasses.replace(learn_task(known, Engine(), Progress(False)), store=Store(None))
    else:
        setup = Setup.of(task, candidates, dataclasses.replace(settings, store=None, keep_samples=False))
    setup = dataclasses.replace(setup, candidates=split(setup)[0])
    learned = [key for key, one in setup.metrics.items() if any(hasattr(view, "trainer") for view in views_of(one))]
    if learned:
        report(f"not timed, for its view has to be learned first: {', '.join(learned)}")
        setup = dataclasses.replace(setup, metrics={k: m for k, m in setup.metrics.items() if k not in learned})
    trainings = _rehearse(setup, report)
    setup = dataclasses.replace(setup, fits={key: one.state for key, one in trainings.items()})
    ends = sorted({0, setup.blocks[-1]})
    report(f"timing simulations: {setup.size * len(ends)} fiducials")
    start = time.perf_counter()
    parts = {block: simulate(setup, block) for block in ends}
    simulation = (time.perf_counter() - start) / len(ends) * len(setup.blocks)
    dim = parts[0].truths.shape[1]
    # Truths that were not simulated are stood in for: only the range of all of them matters here.
    truths = np.resize(np.concatenate([part.truths for part in parts.values()]), (setup.fiducials, dim))
    scaling = Scaling(truths, task=as_bounds(getattr(task, "bounds", None), dim))
    setup = setup.seen_in(Context(scaling))
    report("compiling or loading the kernels")
    _warm_up(setup, scaling)
    seconds: dict[str, float] = {}
    disk = sum(v.nbytes for v in (parts[0].y, parts[0].x) if v is not None) * len(setup.blocks)
    timed: dict[str, str] = {}  # the first network of each method stands for the others
    for label in setup.candidates:
        method = setup.trainings[label].method if label in setup.trainings else label
        if method in timed:
            seconds[label] = seconds[timed[method]]
            continue
        timed[method] = label
        long = _too_long(setup, label, parts[0])
        if long:
            report(f"timing {method}: a few samples, for a block would take {clock(long)}; scoring is not counted")
            seconds[label] = long * len(setup.blocks)
            continue
        report(f"timing {method}: samples and scores of at most {sum(map(setup.count, ends))} fiducials")
        spent: dict[int, float] = {}
        for block in ends:
            if spent and spent[0] > LONG:
                break
            _, _, outcomes, reason, spent[block], _ = work(setup, label, block, parts[block], scaling)
            if outcomes is None:
                raise RunError(f"candidate {label!r} failed on block {block}: {reason.splitlines()[0]}")
        rest = setup.fiducials - setup.count(0)
        last = max(spent)
        seconds[label] = spent[0] + spent[last] * rest / setup.count(last)
        report(f"{method}: about {clock(seconds[label])} of a core")
        records = (o for o in outcomes.values() if not isinstance(o, str)) if outcomes else ()
        disk += sum(a.nbytes for o in records for a in o.values()) * len(setup.blocks)
        if settings.keep_samples:
            disk += 8 * setup.fiducials * setup.samples * dim
    learning = [one.simulating + one.training for one in trainings.values()]
    disk += sum(a.nbytes for one in trainings.values() for a in one.state.values())
    parallel = min(settings.workers, len(setup.candidates) * len(setup.blocks))
    total = simulation + sum(seconds.values()) / parallel
    total += sum(learning) / min(settings.workers, len(learning) or 1)
    starting = _time_start(setup, scaling, Engine(settings.workers, settings.backend, settings.address), report)
    return Estimate(seconds, total + starting, disk, trainings, simulation, parallel, starting)


def _time_start(setup: Setup, scaling: Scaling, engine: Engine, report: Callable[[str], None]) -> float:
    r"""Starts the workers, and has them load what they need; returns the time until they can begin."""
    if engine.here:
        return 0.0
    report(f"starting {engine.workers} workers")
    start = time.perf_counter()
    empty = dataclasses.replace(setup, fits={})
    for _ in engine.map(_warm_up, [(empty, scaling)] * engine.workers):
        pass
    return time.perf_counter() - start


def _too_long(setup: Setup, label: str, fiducials: Fiducials) -> float:
    r"""Returns the seconds that sets of a block would take if they are too many to be drawn here; else nothing.

    A set that many fiducials share is large, and all of them are in one block: a few samples are timed first. Where
    every fiducial has a set of its own a sampler may need as long for two samples as for all, and blocks are small.
    """
    if fiducials.group is None:
        return 0.0
    posterior = build(setup, label)[0]
    x, spent = np.asarray(fiducials.x)[:1], []
    for count in (1, 1, 1 + PROBE):  # the first one is slow for other reasons
        start = time.perf_counter()
        with forked(setup.seed, "cost", label):
            posterior.sample(x, count, generator(setup.seed, "cost", label))
        spent.append(time.perf_counter() - start)
    each = max(spent[2] - spent[1], 0.0) / PROBE
    whole = len(np.unique(fiducials.group)) * (spent[1] + each * (setup.samples - 1))
    return whole if whole > PATIENCE else 0.0


def _rehearse(setup: Setup, report: Callable[[str], None]) -> dict[str, Rehearsal]:
    r"""Finds out what training costs, once for all networks of a method; candidates that share a training pay once."""
    found: dict[str, Rehearsal] = {}
    paid: dict[str, Rehearsal] = {}
    out: dict[str, Rehearsal] = {}
    for label, training in setup.trainings.items():
        if label not in setup.candidates:
            continue
        shared = setup.shared_training(label)
        if shared in paid:
            out[label] = dataclasses.replace(paid[shared], simulating=0.0, training=0.0)
            continue
        if training.method not in found:
            found[training.method] = _rehearse_one(setup, label, report)
        out[label] = paid[shared] = found[training.method]
    return out


def _rehearse_one(setup: Setup, label: str, report: Callable[[str], None]) -> Rehearsal:
    own = setup.trainer(label)
    trainer: Any = own if is_trainer(own) else setup.candidates[label]
    source = own.learns_from(setup.task) if is_trainer(own) else setup.task
    rng = generator(setup.seed, "rehearsal", setup.name)
    short = hasattr(trainer, "rehearse")
    method = setup.trainings[label].method
    report(f"timing the training of {method}: {'a small part' if short else 'all of it'}")
    if short:
        rehearsal: Rehearsal = trainer.rehearse(source, rng)
        return rehearsal
    start = time.perf_counter()
    state = trainer.fit(source, rng, lambda what, done, total: None)
    return Rehearsal(0.0, time.perf_counter() - start, 0, state, "trained in full")


def _warm_up(setup: Setup, scaling: Scaling) -> None:
    r"""Compiles or loads the kernels, so that their first call is not taken for the price of a block."""
    few = min(2, len(scaling.truths))
    samples = generator(0, "warm-up").standard_normal((few, min(setup.samples, 8), scaling.truths.shape[1]))
    observe(Block(scaling.truths[:few], samples, np.arange(few), scaling, 0), setup.metrics)
