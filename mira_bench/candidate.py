r"""The contract of a candidate: how samples are made. And the two controls that every run carries."""

__all__ = ["Candidate", "Draws", "Oracle", "Posterior", "Prior"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .arrays import Array

_TOLD = "diagnostic "


@dataclass(frozen=True)
class Draws:
    r"""Samples, and what a sampler found out on the way. A plain array of samples does where there is no more to say.

    Arguments:
        values: The samples, with shape $(L, S, *event)$.
        log_evidence: The log-evidence of the candidate's model for each observation, with shape $(L,)$.
        diagnostics: Numbers about each posterior by name (`rhat`, `ess_bulk`, ...), each with shape $(L,)$.
    """

    values: Array
    log_evidence: NDArray[np.float64] | None = None
    diagnostics: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    @staticmethod
    def of(drawn: "Array | Draws") -> "Draws":
        r"""Returns what a posterior drew as `Draws`."""
        return drawn if isinstance(drawn, Draws) else Draws(drawn)

    def to_arrays(self) -> dict[str, NDArray]:
        r"""Returns all of it under names, for the store."""
        arrays = {"values": np.asarray(self.values)} | {f"{_TOLD}{key}": v for key, v in self.diagnostics.items()}
        return arrays if self.log_evidence is None else arrays | {"log_evidence": self.log_evidence}

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray]) -> "Draws":
        r"""The inverse of `to_arrays`; other names are left alone."""
        told = {key.removeprefix(_TOLD): v for key, v in arrays.items() if key.startswith(_TOLD)}
        return Draws(arrays["values"], arrays.get("log_evidence"), told)


class Posterior(Protocol):
    r"""Something that can be sampled given observations.

    Besides `sample`, a posterior may have

    - `log_prob(y, x)`: the log-density of points $(L, K, *event)$ given observations, with shape $(L, K)$, and
      `normalized = False` if it lacks a constant: the log score then leaves it out;
    - `log_evidence(x)`: the log-evidence of the model behind it, with shape $(L,)$.
    """

    def sample(self, x: Array, count: int, rng: np.random.Generator) -> Array | Draws:
        r"""Returns `count` samples for each observation, with shape $(L, S, *event)$: an array, a tensor or `Draws`."""


@runtime_checkable
class Candidate(Protocol):
    r"""A candidate posterior. A frozen dataclass is the natural way to write one.

    Besides `build`, a candidate may have

    - `role`: `"candidate"` (the default), or `"control"` or `"oracle"`, which are shown and not ranked;
    - `skip(task)`: the reason why it does not apply to a task, or `None`;
    - `load(task, state)` and a `trainer`, in place of `build` in a run, if it learns. `load` returns the posterior of a
      state, which is what the trainer learned; see `mira_bench.trainer`. `at` may be the epoch whose weights are wanted
      in place of the last ones;
    - `fit(task, rng, report)` in place of the trainer, if it learns from simulations of the task, all at once. It
      returns its state as plain arrays by name, and may tell its progress: `report("epochs", 3, None)`. `trainer` then
      may give a candidate that has all that determines the training, and `rehearse(task, rng)` what it would cost.
    """

    @property
    def version(self) -> int:
        r"""Raised when the candidate's behavior changes."""

    def build(self, task: Any, rng: np.random.Generator) -> Posterior:
        r"""Returns the posterior: trained, loaded or written down."""


@dataclass(frozen=True)
class Prior:
    r"""The control that ignores the observation: calibrated and without any information."""

    version = 1
    role = "control"

    def skip(self, task: Any) -> str | None:
        return None if hasattr(task, "prior_sample") else "the task has no prior to sample"

    def build(self, task: Any, rng: np.random.Generator) -> Posterior:
        return _Blind(task)


@dataclass(frozen=True)
class _Blind:
    task: Any

    def sample(self, x: Array, count: int, rng: np.random.Generator) -> Array:
        draws = self.task.prior_sample(len(x) * count, rng)
        return draws.reshape(len(x), count, *draws.shape[1:])


@dataclass(frozen=True)
class Oracle:
    r"""The control that knows the exact posterior: what the best candidate could look like."""

    version = 1
    role = "oracle"

    def skip(self, task: Any) -> str | None:
        return None if hasattr(task, "exact_posterior") else "the task has no exact posterior"

    def build(self, task: Any, rng: np.random.Generator) -> Posterior:
        posterior: Posterior = task.exact_posterior()
        return posterior
