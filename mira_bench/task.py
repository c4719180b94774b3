r"""The contract of a task: where truths and observations come from."""

__all__ = ["Task"]

from typing import Protocol, runtime_checkable

import numpy as np

from .fiducials import Fiducials

BLOCK = 32  # fiducials that are simulated and sampled together, unless the task says otherwise


@runtime_checkable
class Task(Protocol):
    r"""A true model to draw joint samples from. A frozen dataclass is the natural way to write one.

    Besides `simulate`, a task may have

    - `bounds`: `(low, high)`, the fixed range of every parameter (the prior box, the pixel range);
    - `names`: the names of the parameters;
    - `block`: the number of fiducials that are drawn together from one random stream. Results depend on it;
    - `prior_sample(count, rng)`: draws from the prior, which give every run its prior control;
    - `prior_log_prob(y)`: the prior's log-density at points $(n, *event)$, with shape $(n,)$; $-\infty$ outside;
    - `simulator(y, rng)`: an observation for each of the given parameters, with shape $(n, *data)$;
    - `exact_posterior()`: the `Posterior` that every run shows as its oracle.
    """

    @property
    def version(self) -> int:
        r"""Raised when the task's behavior changes, so that stored results of the old one are not reused."""

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        r"""Draws `count` fiducials."""
