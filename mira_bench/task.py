r"""The contract of a task: where truths and observations come from."""

__all__ = ["Task"]

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from .fiducials import Fiducials

BLOCK = 32  # fiducials that are simulated and sampled together, unless the task says otherwise


if TYPE_CHECKING:
    from abc import ABCMeta

    from .adapters.simulator import SimulatorTask

    _ProtocolMeta = ABCMeta
else:
    _ProtocolMeta = type(Protocol)


class _Makers(_ProtocolMeta):
    r"""What the class `Task` can do by itself. A method of the class would be one that every task must have."""

    def from_simulator(cls, prior: Any, simulator: Callable[..., Any], **settings: Any) -> "SimulatorTask":
        r"""Makes a task of a prior and a simulator; see `mira_bench.adapters.simulator.task_from_simulator`.

        Arguments:
            prior: A distribution of torch or scipy, a list or a mapping of one-dimensional ones, or a function
                `(count, rng)` that returns draws $(n, d)$.
            simulator: A function of a batch of parameters $(n, d)$, or of one $(d,)$, that returns data; with a second
                argument it is given the generator.
            settings: `names`, `bounds`, `batched`, `version`, `block`.
        """
        from .adapters.simulator import task_from_simulator

        return task_from_simulator(prior, simulator, **settings)


@runtime_checkable
class Task(Protocol, metaclass=_Makers):
    r"""A true model to draw joint samples from. A frozen dataclass is the natural way to write one.

    Besides `simulate`, a task may have

    - `bounds`: `(low, high)`, the fixed range of every parameter (the prior box, the pixel range);
    - `names`: the names of the parameters;
    - `block`: the number of fiducials that are drawn together from one random stream. Results depend on it;
    - `prior_sample(count, rng)`: draws from the prior, which give every run its prior control;
    - `prior_log_prob(y)`: the log-density of the prior at points $(n, *event)$, with shape $(n,)$, minus infinity
      outside of its support. NLE and NRE need it;
    - `log_likelihood(y, x)`: the log-likelihood of points, for shapes that broadcast: $(L, K, *event)$ and
      $(L, 1, *data)$ give $(L, K)$. The calibration test then ranks the truth's likelihood, which sees much;
    - `misfit(y, x)`: how far points are from the data, as the mean square of residuals in units of their noise, for the
      same shapes. The metric `fidelity` shows it;
    - `conditional`: false if `x` is not what the samples are given, so that no test may use it;
    - `simulator(y, rng)`: an observation for each of the given parameters, with shape $(n, *data)$;
    - `support`: `(low, high)`, the bounds of the prior where they are not `bounds`, infinite where there are none;
    - `exact_posterior()`: the `Posterior` that every run shows as its oracle;
    - `preprocessing`: `(name, view)`, what is done to truths and samples alike before any metric looks at them; see
      `mira_bench.preprocessing`;
    - `most_fiducials`: how many fiducials there are, where that is limited: images of a test set;
    - `trainer` and `load(state)`, if the task itself learns, e.g. the prior of its images; see `mira_bench.trainer`.
      The training is made before anything is simulated, and `load` returns the task that knows what was learned;
    - `data_files`: the hashes of files that the user named, by path; the run's folder keeps them;
    - `illustrate(fiducials, samples)`: figures by name, from the first block of fiducials and the samples that each
      candidate has for it (one set for each group of fiducials, in the order of their first ones, if they share sets).
      It is asked if samples are kept.

    Where fiducials have a `group`, a candidate is asked for one set of samples per group, given the observation of its
    first fiducial.
    """

    @property
    def version(self) -> int:
        r"""Raised when the task's behavior changes, so that stored results of the old one are not reused."""

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        r"""Draws `count` fiducials."""
