r"""The contract of a training: a thing of its own, to which any number of candidates, views and tasks refer.

A trainer is all that determines what is learned, beside the data and the seed. The runner makes each training once,
before anything is sampled, keeps it in the store under the hash of trainer, data and seed, and goes on with one that
was interrupted.
"""

__all__ = ["Rehearsal", "Report", "Stage", "State", "Trainer", "Unfinished", "curves_of", "is_kept"]

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .errors import UsageError

State = Mapping[str, NDArray]
Report = Callable[[str, float, float | None], None]

CURVE = "curve "  # the first letters of the arrays that hold a training's curves
EPOCH = f"{CURVE}epoch"


@dataclass(frozen=True)
class Stage:
    r"""How far a training is. It is told every few seconds of work, and when an epoch ends.

    Arguments:
        epoch: The number of epochs that are done, e.g. 1.25.
        epochs: The number of epochs of the whole training.
        curves: Numbers since the last stage by name, e.g. the loss.
        weights: Returns what `load` of a candidate needs.
        memory: Returns what the training needs to go on from here, to the bit.
    """

    epoch: float
    epochs: float
    curves: Mapping[str, float]
    weights: Callable[[], State]
    memory: Callable[[], State]


@dataclass(frozen=True)
class Rehearsal:
    r"""What a training would cost.

    Arguments:
        simulating: The seconds of its simulations.
        training: The seconds of the rest.
        simulations: The number of simulations that the training needs.
        state: A state that can be loaded and sampled, however badly it was trained.
        note: What the estimate of the cost assumes.
    """

    simulating: float
    training: float
    simulations: int
    state: Mapping[str, NDArray]
    note: str = ""


class Trainer(Protocol):
    r"""Something that learns from data. A frozen dataclass is the natural way to write one.

    Besides `learns_from` it has either `stages(data, rng, memory)`, which yields a `Stage` after the other, or, if it
    is done at once, `fit(data, rng, report)`, which returns its state. States are plain arrays by name.

    `stages` begins at `memory`, if there is one. The generator is the training's own and always stands at its
    beginning: draw one number from it, and make the generators of an epoch (its order) and of a step (its noise) from
    that number and the number of the epoch or step. Then no random state has to be remembered, and a training that was
    interrupted ends with the same weights as another.

    It may have `rehearse(data, rng)`, which returns a `Rehearsal` after a few small batches, and `packages`, the names
    of libraries whose version decides what is learned.
    """

    @property
    def version(self) -> int:
        r"""Raised when the trainer's behavior changes."""

    def learns_from(self, task: Any) -> State:
        r"""Returns the data by name. Tasks that give the same data share the training."""


class Unfinished(UsageError):
    r"""A training that reached its time limit; what is done is kept."""


def is_kept(epoch: float) -> bool:
    r"""Whether the weights after an epoch are kept: 1, 2, 3, 5, 10, 20, 30, 50, 100, ...

    Example:
        >>> [epoch for epoch in range(1, 120) if is_kept(epoch)]
        [1, 2, 3, 5, 10, 20, 30, 50, 100]
    """

    if epoch < 1 or epoch != int(epoch):
        return False
    leading = str(int(epoch)).rstrip("0")
    return leading in ("1", "2", "3", "5")


def curves_of(state: State) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    r"""Returns the curves of a training by name: epochs, and the values there."""

    found = {}
    for key, values in state.items():
        if key.startswith(CURVE) and key != EPOCH:
            epochs = state[EPOCH] if EPOCH in state else np.arange(1, 1 + len(values))
            found[key.removeprefix(CURVE)] = (np.asarray(epochs, np.float64), np.asarray(values, np.float64))
    # The networks of an ensemble are numbered; one alone needs no number.
    alone = all(key.startswith("0 ") for key in found)
    return {key.removeprefix("0 ") if alone else key: curve for key, curve in found.items()}
