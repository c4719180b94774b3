r"""Candidates that learn: each training is made once, before any block, and kept in the store like a block.

A training has a seed of its own. `seeds=3` trains every such candidate three times, as `npe/0`, `npe/1` and `npe/2`,
each on simulations of its own. Candidates with the same training seed learn from the same simulations. Candidates with
the same trainer share a training, whatever their names are: `cvae` and `cvae@10`, which is the tenth epoch of it.
"""

__all__ = [
    "PROBE", "Fits", "Training", "expand", "fit_all", "is_trainer", "learn", "learn_task", "learns", "probe",
    "reason_of", "recall", "recall_task",
]  # fmt: skip

import dataclasses
import json
import logging
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..adapters.identity import describe, hash_arrays
from ..adapters.reads import listening
from ..arrays import as_array
from ..candidate import Candidate, Draws
from ..errors import RunError, SimulationError, UsageError
from ..streams import forked, generator
from ..trainer import Report, State
from .engines import Died, Engine
from .progress import Progress
from .stages import train_in_stages

if TYPE_CHECKING:
    from .setup import Setup

log = logging.getLogger("mira_bench")

LOOK = 1.0  # seconds between two looks at how far workers are
PROBE = "probe "  # the first letters of what is kept with a state to check it
PROBED = 8  # simulations and samples


@dataclass(frozen=True)
class Training:
    r"""One training of a candidate.

    Arguments:
        method: The name of the candidate that is trained.
        seed: The number of the training, from zero.
    """

    method: str
    seed: int


@dataclass
class Fits:
    r"""What came of the trainings of a run.

    Arguments:
        states: What was learned, by candidate.
        failures: Why a candidate has no state.
        seconds: The time that was spent on each candidate in this run; those that share a training share its time.
        took: The time that the training of each candidate took, now or in earlier runs.
    """

    states: dict[str, State] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)


def learns(candidate: Any) -> bool:
    r"""Whether a candidate is trained before it is sampled."""

    trained = hasattr(candidate, "fit") or is_trainer(getattr(candidate, "trainer", None))
    return trained and hasattr(candidate, "load")


def is_trainer(thing: Any) -> bool:
    r"""Whether something learns from data of its own; see `mira_bench.trainer`. Others learn from simulations."""

    return hasattr(thing, "learns_from")


def expand(candidates: Mapping[str, Candidate], seeds: int) -> tuple[dict[str, Candidate], dict[str, Training]]:
    r"""Returns the candidates, those that learn as often as there are seeds, and the training of each network."""

    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise UsageError(f"seeds={seeds!r}: a whole number of at least 1 is needed")
    everyone: dict[str, Candidate] = {}
    trainings: dict[str, Training] = {}
    for name, candidate in candidates.items():
        if not learns(candidate):
            everyone[name] = candidate
            continue
        for seed in range(seeds):
            label = name if seeds == 1 else f"{name}/{seed}"
            if label in candidates and seeds > 1:
                raise UsageError(f"candidate {label!r} has the name of a network of {name!r}; call it otherwise")
            everyone[label], trainings[label] = candidate, Training(name, seed)
    return everyone, trainings


def reason_of(error: Exception) -> str:
    r"""The sentence of an error, and below it where it came from."""

    sentence = " ".join(str(error).split())
    sentence = sentence if isinstance(error, UsageError) else f"{type(error).__name__}: {sentence}"
    return f"{sentence}\n{traceback.format_exc()}"


def _silent(what: str, done: float, total: float | None) -> None:
    pass


@dataclass(frozen=True)
class _Diary:
    r"""The report of a worker, which cannot reach the bars: a small file that the process that has them reads."""

    file: Path

    def __call__(self, what: str, done: float, total: float | None) -> None:
        with suppress(OSError):
            self.file.write_text(json.dumps([what, done, total]), encoding="utf-8")


@contextmanager
def _reading(progress: Progress, names: Iterable[str]) -> Iterator[dict[str, _Diary]]:
    r"""Shows what workers write into their diaries, once a second."""
    done = threading.Event()
    with tempfile.TemporaryDirectory(prefix="mira_bench_") as folder:
        diaries = {name: _Diary(Path(folder, str(i))) for i, name in enumerate(names)}

        def read() -> None:
            while not done.wait(LOOK):
                for name, diary in diaries.items():
                    with suppress(OSError, ValueError):  # not there yet, or half written
                        progress.tell(name, *json.loads(diary.file.read_text(encoding="utf-8")))

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            yield diaries
        finally:
            done.set()
            reader.join()


def probe(setup: "Setup", name: str, state: State) -> dict[str, NDArray]:
    r"""Returns a few simulations of a training's stream, and the first samples of its state, for `canary.py`."""
    purpose = ("fit", setup.name, setup.trainings[name].seed)
    # How a candidate samples may change without a new training.
    candidate: Any = getattr(setup.candidates[name], "trainer", setup.candidates[name])
    with forked(setup.seed, "probe", *purpose):
        drawn = setup.task.simulate(PROBED, generator(setup.seed, *purpose))
        posterior = candidate.load(setup.task, state)
        x = np.empty((PROBED, 0)) if drawn.x is None else drawn.x
        samples = posterior.sample(x[:1], PROBED, generator(setup.seed, "probe", *purpose))
    values = samples.values if isinstance(samples, Draws) else samples
    found = {"y": drawn.y, "x": x, "samples": values}
    return {f"{PROBE}{key}": np.asarray(as_array(value, f"the probed {key}")) for key, value in found.items()}


def _fit(
    setup: "Setup", names: Sequence[str], report: Report, minutes: float | None
) -> tuple[str, dict[str, State], str, float, float]:
    r"""Returns what the candidates that share a training have learned, from the store or fresh.

    Returns:
        The first candidate, the states by candidate, the reason of a failure, the seconds that it took now (0 if it was
        in the store), and those that it took whenever it was made.
    """
    start = time.perf_counter()
    first = names[0]
    try:
        wanted = {name: getattr(setup.candidates[name], "at", None) for name in names}
        states: dict[int | None, State] = {}
        took = 0.0
        for epoch in set(wanted.values()):
            spec = setup.fit_spec(first, epoch)
            stored, header = setup.store.get(spec), setup.store.look(spec)
            if stored is not None:
                states[epoch] = {key: value for key, value in stored.items() if not key.startswith(PROBE)}
                took = max(took, 0.0 if header is None else header.seconds)
        missing = set(wanted.values()) - set(states)
        spent = 0.0
        if missing:
            fresh, took = _train(setup, first, missing, report, minutes)
            states |= fresh
            spent = time.perf_counter() - start
        return first, {name: states[epoch] for name, epoch in wanted.items()}, "", spent, took
    except SimulationError as error:
        # Not the candidate's failure but the task's: another prior is another task, and what others do now is void.
        raise SimulationError(f"training of candidate {first!r}: {error}") from error
    except Exception as error:
        return first, {}, reason_of(error), time.perf_counter() - start, 0.0


def _train(
    setup: "Setup", name: str, missing: set[int | None], report: Report, minutes: float | None
) -> tuple[dict[int | None, State], float]:
    r"""Makes a training, and keeps it; returns its states by epoch, and the seconds that it took."""
    trainer = setup.trainer(name)
    if hasattr(trainer, "stages"):
        return train_in_stages(setup, name, missing, report, minutes)
    if missing != {None}:
        raise UsageError(f"{name}: its trainer has no epochs, and keeps its end alone")
    start = time.perf_counter()
    seed = setup.trainings[name].seed
    if is_trainer(trainer):
        purpose: tuple[Any, ...] = ("fit", "training", seed)
        data = trainer.learns_from(setup.task)
        with forked(setup.seed, *purpose):
            learned, reads = trainer.fit(data, generator(setup.seed, *purpose), report), {}
    else:
        # The name of the candidate is no part of the stream: all methods learn from the same simulations.
        rng = generator(setup.seed, "fit", setup.name, seed)
        candidate: Any = setup.candidates[name]
        with listening() as heard:
            learned = candidate.fit(setup.task, rng, report)
        reads = heard.hashes()
    state = {key: np.asarray(value) for key, value in learned.items()}
    spent = time.perf_counter() - start
    if setup.store.root is not None:
        probed = {} if is_trainer(trainer) else probe(setup, name, state)
        setup.store.put(setup.fit_spec(name), state | probed, spent, reads=reads)
    return {None: state}, spent


def fit_all(setup: "Setup", engine: Engine, progress: Progress, minutes: float | None = None) -> Fits:
    r"""Makes the trainings of all candidates that learn.

    Arguments:
        setup: What the run is made of.
        engine: Where the trainings run.
        progress: The bars that show how far the trainings are.
        minutes: How long a training may take.
    """

    fits = Fits()
    shared: dict[str, list[str]] = {}
    for name in (name for name in setup.candidates if name in setup.trainings):
        shared.setdefault(setup.shared_training(name), []).append(name)
    teams = {names[0]: names for names in shared.values()}
    done: set[str] = set()

    def report(name: str) -> Report:
        if engine.here:
            return partial(progress.tell, name)
        return _silent if engine.remote else diaries[name]

    def calls(names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        for name in names:
            if name not in done:
                yield setup, teams[name], report(name), minutes

    progress.add_trainings(list(teams))
    with _reading(progress, teams) as diaries:
        for result in engine.map_named(_fit, calls, list(teams), "training"):
            if isinstance(result, Died):
                result = result.name, {}, result.reason.replace("died", "died in training"), 0.0, 0.0
            first, states, reason, spent, took = result
            done.add(first)
            for name in teams[first]:
                fits.seconds[name], fits.took[name] = spent / len(teams[first]), took
                if not states:
                    log.error("candidate %s failed to fit: %s", name, reason)
                    fits.failures[name] = reason.splitlines()[0]
            if states:
                log.info("candidate %s: %s", first, f"trained in {spent:.1f} s" if spent else "training from the store")
            fits.states |= states
            progress.trained(first, failed=not states)
    return fits


def _learning(setup: "Setup", things: Mapping[str, Any]) -> "Setup":
    r"""The setup in which things that are no candidates take their place."""
    known = dataclasses.replace(setup.identity, trainers={key: describe(one.trainer) for key, one in things.items()})
    trainings = {key: Training(key, 0) for key in things}
    return dataclasses.replace(setup, candidates=things, trainings=trainings, identity=known)


def learn(
    setup: "Setup", things: Mapping[str, Any], engine: Engine, progress: Progress, minutes: float | None = None
) -> dict[str, State]:
    r"""Makes the trainings of what is no candidate, views or the task itself, and returns the states by name.

    Arguments:
        setup: What the run is made of.
        things: What learns by its `trainer`, by name.
        engine: Where the trainings run.
        progress: The bars that show how far the trainings are.
        minutes: How long a training may take.
    """

    fits = fit_all(_learning(setup, things), engine, progress, minutes)
    if fits.failures:
        key, reason = next(iter(fits.failures.items()))
        raise RunError(f"{key} was not learned: {reason}")
    return fits.states


def learn_task(setup: "Setup", engine: Engine, progress: Progress, minutes: float | None = None) -> "Setup":
    r"""Returns the setup with a task that knows what it learns by its own `trainer`, if it has one; see `Task`."""

    task: Any = setup.task
    if not is_trainer(getattr(task, "trainer", None)):
        return setup
    name = f"task {setup.name}"
    return _with_learned(setup, learn(setup, {name: task}, engine, progress, minutes)[name])


def recall_task(setup: "Setup") -> "Setup | None":
    r"""Returns what `learn_task` does, from the store alone; none if that has no training of the task."""

    task: Any = setup.task
    if not is_trainer(getattr(task, "trainer", None)):
        return setup
    name = f"task {setup.name}"
    learning = _learning(setup, {name: task})
    state = recall(learning, name)
    return None if state is None else _with_learned(setup, state)


def recall(setup: "Setup", name: str) -> State | None:
    r"""Returns what a candidate learned, as the store has it; none if it has no such training."""

    found = setup.store.get(setup.fit_spec(name, getattr(setup.candidates[name], "at", None)))
    return None if found is None else {key: value for key, value in found.items() if not key.startswith(PROBE)}


def _with_learned(setup: "Setup", state: State) -> "Setup":
    task: Any = setup.task
    # Its fiducials are those of what was learned, wherever that was.
    learned = {"task": setup.identity.task, "learned": hash_arrays(state)}
    identity = dataclasses.replace(setup.identity, task=learned)
    # What trainers of candidates learn from may be another thing now, also for the task's own trainer.
    return dataclasses.replace(setup, task=task.load(state), identity=identity, data={})
