r"""Candidates that learn: each is fitted once, before any block, and its fit is kept in the store like a block.

A training has a seed of its own. `seeds=3` trains every such candidate three times, as `npe/0`, `npe/1` and `npe/2`,
each on simulations of its own. Candidates with the same training seed learn from the same simulations.
"""

__all__ = ["Training", "expand", "fit", "learns", "reason_of"]

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .candidate import Candidate
from .errors import UsageError
from .store import Store
from .streams import generator

State = Mapping[str, NDArray]


@dataclass(frozen=True)
class Training:
    r"""One training of a candidate.

    Arguments:
        method: The name of the candidate.
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


def fit(
    candidate: Any,
    task: Any,
    stream: tuple[Any, ...],
    store: Store,
    spec: Mapping[str, Any],
    report: Callable[[str, int, int | None], None],
) -> tuple[State | None, str, float]:
    r"""Returns the state of a fitted candidate, from the store or fresh; a failure is a reason, not an exception.

    Arguments:
        candidate: The candidate.
        task: The task.
        stream: The seed and the purpose of the random numbers.
        store: Where the fit is kept.
        spec: What determines it.
        report: What is told of the progress: what is counted, how many are done, of how many (if that is known).
    """

    start = time.perf_counter()
    try:
        state = store.get(spec)
        if state is None:
            state = {key: np.asarray(value) for key, value in candidate.fit(task, generator(*stream), report).items()}
            store.put(spec, state)
        return state, "", time.perf_counter() - start
    except Exception as error:
        return None, reason_of(error), time.perf_counter() - start
