r"""Your own simulator as a task: a prior to draw from, and a function from parameters to data."""

__all__ = ["SimulatorTask", "task_from_file", "task_from_simulator"]

import inspect
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, as_array
from .errors import SimulationError, UsageError
from .fiducials import CURE, Fiducials, name_vector, refuse_bad_data
from .identity import fingerprint, load_file
from .priors import Prior, as_prior
from .streams import forked, generator
from .task import BLOCK

log = logging.getLogger("mira_bench")

PROBES = (5, 7)  # batches of two sizes: only a simulator that takes batches follows both
PATIENCE = 10  # seconds to count the parameter vectors that a simulator cannot do


@dataclass(frozen=True)
class Style:
    r"""How a simulator wants to be called: with batches or not, with tensors or arrays, with a generator or not."""

    batched: bool
    tensors: bool
    takes_rng: bool

    def __str__(self) -> str:
        kind = "tensors" if self.tensors else "arrays"
        return f"batches of parameters ({kind})" if self.batched else f"one parameter vector at a time ({kind})"


class _RowError(Exception):
    r"""The row of a batch that a simulator of single vectors raised at; the cause is what it raised."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


def _simulate(simulator: Callable[..., Any], style: Style, values: NDArray, rng: np.random.Generator) -> NDArray:
    given: Any = values
    if style.tensors:
        import torch

        given = torch.as_tensor(values, dtype=torch.float32)
    made = simulator(given, rng) if style.takes_rng else simulator(given)
    return np.asarray(as_array(made, "the simulator's data"))


def _call(simulator: Callable[..., Any], style: Style, y: NDArray, rng: np.random.Generator) -> NDArray:
    r"""Simulates data for parameters $(n, d)$. Random states that the simulator may use by itself are forked."""

    with forked(int(rng.integers(2**63)), "simulator"):
        if style.batched:
            return _simulate(simulator, style, y, rng)
        rows = []
        for i, row in enumerate(y):
            try:
                rows.append(np.atleast_1d(_simulate(simulator, style, row, rng)))
            except Exception as error:
                raise _RowError(i) from error
        return np.stack(rows)


def _said(error: BaseException) -> str:
    error = error.__cause__ or error if isinstance(error, _RowError) else error
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _blame(
    simulator: Callable[..., Any],
    style: Style,
    y: NDArray,
    rng: np.random.Generator,
    names: Sequence[str] | None,
    error: Exception,
) -> tuple[int, int, str]:
    r"""Goes on one vector at a time; returns how many failed, how many were tried, and a sentence about the first."""
    start = time.monotonic()
    first = error.row if isinstance(error, _RowError) else None
    failed, tried = (0, 0) if first is None else (1, first + 1)
    with forked(int(rng.integers(2**63)), "simulator"):
        for i in range(tried, len(y)):
            if failed and time.monotonic() - start > PATIENCE:
                break
            tried += 1
            try:
                _simulate(simulator, style, y[i : i + 1] if style.batched else y[i], rng)
            except Exception as other:
                failed += 1
                first, error = (i, other) if first is None else (first, error)
    if first is None:
        alone = "batched=False (task.model.batched=false) simulates one at a time"
        return 0, tried, f"the simulator raises {_said(error)} for a batch, and for none of its {len(y)} alone; {alone}"
    count = f"{failed} of {tried} parameter vectors" + (f" that were tried, of {len(y)}," if tried < len(y) else "")
    where = name_vector(y[first], names)
    return failed, tried, f"the simulator raises {_said(error)} at {where} ({count} in this batch); {CURE}"


def _takes_rng(simulator: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(simulator).parameters.values()
    except (TypeError, ValueError):
        return False
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(needed) > 1


def _detect(
    simulator: Callable[..., Any], prior: Prior, batched: bool | None, names: Sequence[str] | None
) -> Style:  # fmt: skip
    r"""Finds out by trial how a simulator wants to be called."""
    takes_rng = _takes_rng(simulator)
    kinds = (True, False) if prior.torch else (False, True)
    said: list[str] = []
    blamed: str | None = None
    doubtful: Style | None = None
    for many in (True, False) if batched is None else (batched,):
        for tensors in kinds:
            style = Style(many, tensors, takes_rng)
            try:
                shapes = []
                for count in PROBES:
                    rng = generator(0, "probe", count)
                    y = prior.sample(count, rng)
                    shapes.append(_call(simulator, style, y, rng).shape)
            except Exception as error:
                said.append(f"with {style}: {_said(error)}")
                failed, tried, sentence = _blame(simulator, style, y, rng, names, error)
                if 0 < failed < tried:  # it can be called so, and some vectors are bad
                    blamed = blamed or sentence
                continue
            if [s[:1] for s in shapes] == [(n,) for n in PROBES] and len({s[1:] for s in shapes}) == 1:
                if not many or batched or not _shares_noise(simulator, style, prior):
                    return style
                doubtful = doubtful or style
                continue
            said.append(f"with {style}: {PROBES[0]} of them gave data of shape {shapes[0]}")
    if doubtful is not None:
        return doubtful
    if blamed is not None:
        raise SimulationError(blamed)
    raise UsageError(f"the simulator cannot be called; {'; '.join(dict.fromkeys(said))}")


def _shares_noise(simulator: Callable[..., Any], style: Style, prior: Prior) -> bool:
    r"""Whether equal parameters in a batch get equal data, which differ in the next batch.

    A simulator for one vector, `y + rng.normal(size=2)`, takes a batch too, and gives all of it the same noise.
    """
    y = np.repeat(prior.sample(1, generator(0, "probe")), PROBES[0], axis=0)
    first, second = (_call(simulator, style, y, generator(0, "probe", i)) for i in range(2))
    return bool((first == first[:1]).all() and (first != second).any())


@dataclass(frozen=True)
class SimulatorTask:
    r"""A task that a user's prior and simulator make; see `Task.from_simulator`."""

    prior: Prior
    simulator: Callable[..., Any]
    style: Style
    names: Sequence[str] | None = None
    bounds: tuple[Array, Array] | None = None
    version: int = 1
    block: int = BLOCK
    file: str | None = None
    text: str | None = None

    @property
    def support(self) -> tuple[NDArray, NDArray] | None:
        r"""The bounds of the prior, infinite where there are none, if the prior knows them."""
        return self.prior.support

    def describe(self) -> dict[str, Any]:
        r"""What identifies the task in the store: the text of its file, or of its functions."""
        parts = (self.names, self.bounds, self.block)
        inside = self.text or fingerprint((self.prior.given, self.simulator), "the prior or the simulator")
        return {"class": "simulator", "content": inside, "version": self.version, "settings": repr(parts)}

    def __reduce__(self) -> tuple[Any, ...]:
        if self.file is not None:  # workers run the file by themselves: what it defines has no module to import
            return task_from_file, (self.file, self.style.batched, self.version, self.block)
        return type(self), tuple(getattr(self, key) for key in self.__dataclass_fields__)

    def prior_sample(self, count: int, rng: np.random.Generator) -> NDArray:
        return self.prior.sample(count, rng)

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        y = self.prior.sample(count, rng)
        try:
            x = _call(self.simulator, self.style, y, rng)
        except Exception as error:
            raise SimulationError(_blame(self.simulator, self.style, y, rng, self.names, error)[2]) from error
        if len(x) != count:
            raise UsageError(f"the simulator gave data of shape {x.shape} for {count} parameter vectors")
        refuse_bad_data(y, x, self.names)
        return Fiducials(y, x)


@dataclass(frozen=True)
class DensityTask(SimulatorTask):
    r"""A simulator whose prior has a density, which NLE and NRE need."""

    __reduce__ = SimulatorTask.__reduce__

    def prior_log_prob(self, y: NDArray) -> NDArray[np.float64]:
        assert self.prior.log_prob is not None
        return self.prior.log_prob(y)


def task_from_simulator(
    prior: Any,
    simulator: Callable[..., Any],
    *,
    names: Sequence[str] | None = None,
    bounds: tuple[Array, Array] | None = None,
    batched: bool | None = None,
    version: int = 1,
    block: int = BLOCK,
    file: str | None = None,
    text: str | None = None,
) -> SimulatorTask:
    r"""Makes a task of a prior and a simulator: this is `Task.from_simulator`.

    Arguments:
        prior: A torch distribution, a frozen distribution of scipy, a list of one-dimensional ones or a mapping from
            names to them, or a function `(count, rng)` that returns draws $(n, d)$. Only the last has no density, and
            so neither NLE nor NRE.
        simulator: A function of parameters that returns data. It takes a batch $(n, d)$ or one vector $(d,)$, arrays
            or tensors, which is found out by trial and logged; with a second argument it is given the generator.
        names: The names of the parameters.
        bounds: The range of the parameters for distances; by default that of a bounded prior.
        batched: Whether the simulator takes batches, where the trial should not decide.
        version: Raise it when something changes that the text of the functions does not show.
        block: The number of fiducials that are simulated together.
        file: The file that defines both.
        text: What identifies them in the store; by default their content.

    Example:
        >>> from scipy import stats
        >>> task = task_from_simulator([stats.norm(), stats.norm()], lambda y, rng: y + rng.normal(size=y.shape))
        >>> task.simulate(10, np.random.default_rng(0)).x.shape
        (10, 2)
    """

    if not callable(simulator):
        raise UsageError(f"the simulator is a {type(simulator).__name__}; a function of parameters is needed")
    law = as_prior(prior)
    trial = law.sample(2, generator(0, "prior"))
    names = names if names is not None else law.names
    if names is not None and len(names) != trial.shape[1]:
        raise UsageError(f"there are {len(names)} names for {trial.shape[1]} parameters")
    if bounds is None and law.support is not None and np.isfinite(law.support).all():
        bounds = law.support
    style = _detect(simulator, law, batched, names)
    log.info("the simulator takes %s", style)
    kind = SimulatorTask if law.log_prob is None else DensityTask
    return kind(law, simulator, style, None if names is None else tuple(names), bounds, version, block, file, text)


def task_from_file(file: str, batched: bool | None = None, version: int = 1, block: int = BLOCK) -> SimulatorTask:
    r"""Makes a task of a Python file that defines `prior` and `simulator`, and may define `names` and `bounds`."""

    if file is None:
        raise UsageError("task=mine needs task.file=: a Python file that defines prior and simulator")
    module, text = load_file(file, "task.file")
    for name in ("prior", "simulator"):
        if not hasattr(module, name):
            there = ", ".join(sorted(k for k in vars(module) if not k.startswith("_"))) or "nothing"
            raise UsageError(f"{file} defines no {name}; it has {there}")
    optional = {key: getattr(module, key) for key in ("names", "bounds") if hasattr(module, key)}
    try:
        return task_from_simulator(
            module.prior, module.simulator, batched=batched, version=version, block=block, file=file, text=text,
            **optional,
        )  # fmt: skip
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from error
