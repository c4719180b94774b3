r"""Candidates that learn: each is fitted once, before any block, and its fit is kept in the store like a block.

A training has a seed of its own. `seeds=3` trains every such candidate three times, as `npe/0`, `npe/1` and `npe/2`,
each on simulations of its own. Candidates with the same training seed learn from the same simulations.
"""

__all__ = ["PROBE", "State", "Training", "expand", "fit_all", "learns", "probe", "reason_of"]

import json
import logging
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..adapters.reads import listening
from ..arrays import as_array
from ..candidate import Candidate, Draws
from ..errors import SimulationError, UsageError
from ..streams import forked, generator
from .engines import Died, Engine
from .progress import Progress

if TYPE_CHECKING:
    from .setup import Setup

log = logging.getLogger("mira_bench")

State = Mapping[str, NDArray]
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


def learns(candidate: Any) -> bool:
    r"""Whether a candidate is fitted before it is sampled."""

    return hasattr(candidate, "fit") and hasattr(candidate, "load")


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


def _silent(what: str, done: int, total: int | None) -> None:
    pass


@dataclass(frozen=True)
class _Diary:
    r"""The report of a worker, which cannot reach the bars: a small file that the process that has them reads."""

    file: Path

    def __call__(self, what: str, done: int, total: int | None) -> None:
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
    setup: "Setup", name: str, report: Callable[[str, int, int | None], None]
) -> tuple[str, State | None, str, float]:
    r"""Returns the state of a fitted candidate, from the store (after 0 s) or fresh; a failure is a reason."""
    start = time.perf_counter()
    try:
        spec = setup.fit_spec(name)
        stored = setup.store.get(spec)
        if stored is not None:
            return name, {key: value for key, value in stored.items() if not key.startswith(PROBE)}, "", 0.0
        # The name of the candidate is no part of the stream: all methods learn from the same simulations.
        rng = generator(setup.seed, "fit", setup.name, setup.trainings[name].seed)
        candidate: Any = setup.candidates[name]
        with listening() as heard:
            state = {key: np.asarray(value) for key, value in candidate.fit(setup.task, rng, report).items()}
        spent = time.perf_counter() - start
        if setup.store.root is not None:
            setup.store.put(spec, state | probe(setup, name, state), spent, reads=heard.hashes())
        return name, state, "", spent
    except SimulationError as error:
        # Not the candidate's failure but the task's: another prior is another task, and what others do now is void.
        raise SimulationError(f"training of candidate {name!r}: {error}") from error
    except Exception as error:
        return name, None, reason_of(error), time.perf_counter() - start


def fit_all(
    setup: "Setup", engine: Engine, progress: Progress
) -> tuple[dict[str, State], dict[str, str], dict[str, float]]:
    r"""Fits the candidates that learn; returns their states, failures, and seconds.

    Arguments:
        setup: What the run is made of.
        engine: Where the trainings run.
        progress: The bars that show how far the trainings are.
    """

    states: dict[str, State] = {}
    failures: dict[str, str] = {}
    seconds: dict[str, float] = {}
    waiting = [name for name in setup.candidates if name in setup.trainings]

    def report(name: str) -> Callable[[str, int, int | None], None]:
        if engine.here:
            return partial(progress.tell, name)
        return _silent if engine.remote else diaries[name]

    def calls(names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        for name in names:
            if name not in states and name not in failures:
                yield setup, name, report(name)

    progress.add_trainings(waiting)
    with _reading(progress, waiting) as diaries:
        for result in engine.map_named(_fit, calls, waiting, "training"):
            if isinstance(result, Died):
                result = result.name, None, result.reason.replace("died", "died in training"), 0.0
            name, state, reason, spent = result
            seconds[name] = spent
            if state is None:
                log.error("candidate %s failed to fit: %s", name, reason)
                failures[name] = reason.splitlines()[0]
            else:
                log.info("candidate %s: %s", name, f"trained in {spent:.1f} s" if spent else "training from the store")
                states[name] = state
            progress.trained(name, failed=state is None)
    return states, failures, seconds
