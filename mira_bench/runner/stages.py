r"""Trainings that tell how far they are: what is kept of them on the way, a time limit, and going on after a stop."""

__all__ = ["train_in_stages"]

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..durations import clock
from ..errors import UsageError
from ..streams import forked, generator
from ..trainer import CURVE, EPOCH, Report, Stage, State, Unfinished, is_kept

if TYPE_CHECKING:
    from .setup import Setup

SAVE = 60.0  # seconds of training that a kill may cost
MEMORY = "memory "  # the first letters of what a training needs to go on
SPENT = "seconds"


@dataclass
class _Course:
    r"""What has happened in a training so far, over all its pieces.

    Arguments:
        epochs: Where the curves have their points.
        curves: Their values, by name.
        before: The seconds that earlier pieces took.
    """

    epochs: list[float] = field(default_factory=list)
    curves: dict[str, list[float]] = field(default_factory=dict)
    before: float = 0.0
    begun: float = field(default_factory=time.perf_counter)

    @classmethod
    def of(cls, memory: State) -> "_Course":
        names = [key.removeprefix(CURVE) for key in memory if key.startswith(CURVE) and key != EPOCH]
        curves = {name: memory[f"{CURVE}{name}"].tolist() for name in names}
        return cls(memory[EPOCH].tolist(), curves, float(memory[SPENT]))

    def add(self, stage: Stage, name: str) -> None:
        for key, value in stage.curves.items():
            if not np.isfinite(value):
                raise FloatingPointError(f"the {key} of {name} is {value} after {stage.epoch:g} epochs")
            self.curves.setdefault(key, []).append(float(value))
        self.epochs.append(float(stage.epoch))

    @property
    def here(self) -> float:
        r"""The seconds of this piece."""
        return time.perf_counter() - self.begun

    @property
    def seconds(self) -> float:
        return self.before + self.here

    @property
    def arrays(self) -> dict[str, NDArray]:
        return {EPOCH: np.array(self.epochs)} | {f"{CURVE}{key}": np.array(v) for key, v in self.curves.items()}

    @property
    def sentence(self) -> str:
        return ", ".join(f"{key} {values[-1]:.3g}" for key, values in self.curves.items())


def train_in_stages(
    setup: "Setup", name: str, wanted: Iterable[int | None], report: Report, minutes: float | None
) -> tuple[dict[int | None, State], float]:
    r"""Trains until all that is wanted is there; goes on with what the store has.

    Arguments:
        setup: What the run is made of.
        name: A candidate whose training it is.
        wanted: The epochs whose weights are wanted; none is the end.
        report: A function that is told how far the training is.
        minutes: How long it may take now.

    Returns:
        The states by epoch, and the seconds that the training has taken in all its pieces.

    Raises:
        Unfinished: If the time was not enough. What is done is in the store.
    """

    trainer, store = setup.trainer(name), setup.store
    rng = generator(setup.seed, "fit", "training", setup.trainings[name].seed)
    found: dict[int | None, State] = {}
    missing = set(wanted)
    memory = _memory(setup, name, missing)
    course = _Course() if memory is None else _Course.of(memory)
    saved, reached = time.perf_counter(), 0.0 if memory is None else float(memory[EPOCH][-1])
    own = None if memory is None else {k.removeprefix(MEMORY): v for k, v in memory.items() if k.startswith(MEMORY)}

    def save(stage: Stage) -> None:
        if stage.epoch > reached:  # an earlier checkpoint that was lost is found again, and must not cost a later one
            arrays = {f"{MEMORY}{key}": value for key, value in stage.memory().items()}
            store.put(setup.memory_spec(name), arrays | course.arrays | {SPENT: np.array(course.seconds)})

    with forked(setup.seed, "fit", "training", setup.trainings[name].seed):
        for stage in trainer.stages(trainer.learns_from(setup.task), rng, own):
            _check(missing, stage, name)
            course.add(stage, name)
            report("epochs", stage.epoch, stage.epochs)
            ended = stage.epoch >= stage.epochs
            for epoch in _due(stage, ended, missing):
                state = _plain(stage.weights()) | course.arrays
                store.put(setup.fit_spec(name, epoch), state, course.seconds)
                if epoch in missing:
                    missing.remove(epoch)
                    found[epoch] = state
            if ended:
                store.drop(setup.memory_spec(name))
                break
            late = minutes is not None and course.here > 60 * minutes
            if late or not missing or time.perf_counter() - saved > SAVE:
                save(stage)
                saved = time.perf_counter()
            if not missing:
                break
            if late:
                again = "the same command goes on" if store.root is not None else "without a store it is lost"
                raise Unfinished(
                    f"not trained yet: {stage.epoch:.4g} of {stage.epochs:g} epochs in {clock(course.seconds)} "
                    f"({course.sentence}); {again}"
                )
    if missing:
        raise UsageError(f"the trainer of {name} ended before its last epoch")
    return found, course.seconds


def _memory(setup: "Setup", name: str, missing: Iterable[int | None]) -> State | None:
    r"""What the store remembers of a training that was interrupted, if all that is missing comes after it."""
    memory = setup.store.get(setup.memory_spec(name))
    if memory is None or any(epoch is not None and epoch <= memory[EPOCH][-1] for epoch in missing):
        return None
    return memory


def _due(stage: Stage, ended: bool, missing: Iterable[int | None]) -> list[int | None]:
    r"""The checkpoints that a stage is."""
    due: list[int | None] = [int(stage.epoch)] if is_kept(stage.epoch) or stage.epoch in set(missing) else []
    return [*due, None] if ended else due


def _check(missing: Iterable[int | None], stage: Stage, name: str) -> None:
    beyond = next((epoch for epoch in missing if epoch is not None and not 1 <= epoch <= stage.epochs), None)
    if beyond is not None:
        raise UsageError(f"{name}: there are no weights after epoch {beyond}; the training has {stage.epochs:g} epochs")


def _plain(state: Mapping[str, NDArray]) -> dict[str, NDArray]:
    return {key: np.asarray(value) for key, value in state.items()}
