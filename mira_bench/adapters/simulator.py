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

from ..arrays import Array, as_array, flat
from ..errors import SimulationError, UsageError
from ..fiducials import CURE, Fiducials, name_vector, refuse_bad_data
from ..streams import forked, generator
from ..task import BLOCK
from .identity import describe, fingerprint
from .priors import GivenPrior, as_prior
from .source import Source, load_source

log = logging.getLogger("mira_bench")

Finder = Callable[[GivenPrior, Sequence[str] | None], "Style"]

PROBES = (5, 7)  # batches of two sizes: only a simulator that takes batches follows both
PATIENCE = 10  # seconds to count the parameter vectors that a simulator cannot do
GENERATORS = ("rng", "generator", "random_state")  # names of an argument that takes a generator, default or not
KEPT = 9  # parameter vectors of a batch of which some stay while the others change
COMPARED = 64  # parameter vectors that are simulated in a batch and alone, to compare; no time decides
COINCIDENCE = 1e-6  # a difference that chance gives so rarely is one


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
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(placed) > 1 and (placed[1].default is placed[1].empty or placed[1].name in GENERATORS)


def _detect(
    simulator: Callable[..., Any], prior: GivenPrior, batched: bool | None, names: Sequence[str] | None
) -> Style:  # fmt: skip
    r"""Finds out by trial how a simulator wants to be called."""
    takes_rng = _takes_rng(simulator)
    kinds = (True, False) if prior.torch else (False, True)
    said: list[str] = []
    blamed: str | None = None
    doubt = ""
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
                found = "" if not many or batched else _doubt(simulator, style, prior)
                if not found:
                    _refuse_other_data(simulator, style, prior)
                    return style
                doubt = doubt or found
                continue
            said.append(f"with {style}: {PROBES[0]} of them gave data of shape {shapes[0]}")
    if doubt:
        raise UsageError(
            f"{doubt}, and one parameter vector at a time it cannot be called; say how it is meant: "
            "batched=True (task.model.batched=true) if batches are right as they are"
        )
    if blamed is not None:
        raise SimulationError(blamed)
    raise UsageError(f"the simulator cannot be called; {'; '.join(dict.fromkeys(said))}")


def _refuse_other_data(simulator: Callable[..., Any], style: Style, prior: GivenPrior) -> None:
    r"""Raises if the same parameters and the same random states give other data."""
    y = prior.sample(PROBES[0], generator(0, "probe"))
    first, second = (_call(simulator, style, y, generator(0, "again")) for _ in range(2))
    if not np.array_equal(first, second, equal_nan=True):
        raise UsageError(
            "the simulator gives other data when it is called again with the same seed: let it take its generator as "
            "the second argument, simulator(y, rng), or use the global random states of NumPy, torch or Python"
        )


def _doubt(simulator: Callable[..., Any], style: Style, prior: GivenPrior) -> str:
    r"""What speaks against calling a simulator with batches, though it can be; nothing if the text is empty.

    A simulator for one vector may take a batch too. `y + rng.normal(size=2)` gives all of it the same noise;
    `y / np.linalg.norm(y)` gives every row something that depends on the others.
    """
    y = np.repeat(prior.sample(1, generator(0, "probe")), PROBES[0], axis=0)
    first, second = (_call(simulator, style, y, generator(0, "probe", i)) for i in range(2))
    if (first == first[:1]).all() and (first != second).any():
        return "in a batch, the simulator gives all parameter vectors the same noise"
    if _rowwise(simulator, style, prior, lambda row: [0, row, KEPT - 1]):
        return ""
    # How much noise a simulator draws may depend on parameters; then at least no row depends on later ones.
    if not _rowwise(simulator, style, prior, lambda row: list(range(row + 1))):
        return "the simulator gives other data for a parameter vector if others in its batch change"
    y = prior.sample(COMPARED, generator(0, "rows"))
    try:
        together = _call(simulator, style, y, generator(0, "together"))
        alone = [_call(simulator, style, y[i : i + 1], generator(0, "alone", i)) for i in range(COMPARED)]
        again = _call(simulator, style, y, generator(0, "again"))
    except Exception:  # a bad parameter vector is named when the task is run
        return ""
    if any(part.shape != (1, *together.shape[1:]) for part in alone):
        return "the simulator gives data of another shape for a batch of one parameter vector"
    if _differ(y, flat(together, 1), flat(np.concatenate(alone), 1), np.array_equal(together, again)):
        return "the simulator gives other data for parameter vectors in a batch than for each alone"
    return ""


def _rowwise(simulator: Callable[..., Any], style: Style, prior: GivenPrior, kept: Callable[[int], list[int]]) -> bool:
    r"""Whether the data of some rows of a batch stay the same, with the same noise, when all the others change.

    Arguments:
        simulator: The user's function.
        style: How it is called.
        prior: The prior that parameters are drawn from.
        kept: A function that returns the rows that stay, given one of them.
    """
    try:
        for row in range(KEPT):
            y, other = (prior.sample(KEPT, generator(0, "rows", row, kind)) for kind in ("kept", "changed"))
            rows = kept(row)
            other[rows] = y[rows]
            first, second = (_call(simulator, style, values, generator(0, "rows", row)) for values in (y, other))
            if not np.array_equal(first[rows], second[rows], equal_nan=True):
                return False
    except Exception:  # a bad parameter vector is named when the task is run
        return True
    return True


def _differ(y: NDArray, together: NDArray, alone: NDArray, exact: bool) -> bool:
    r"""Whether data $(n, k)$ of the same parameters follow two laws; without noise, whether they are unequal.

    If they do not, what is a row's first and second data is a coin flip, so sums of differences, also with weights and
    of squares, are symmetric: P(|sum d| > t sqrt(sum d^2)) is at most 2 exp(-t^2 / 2).
    """
    if exact:
        return not np.allclose(together, alone, rtol=1e-3, atol=1e-6 * (np.abs(together).max() or 1.0), equal_nan=True)
    columns = np.unique(np.linspace(0, together.shape[1] - 1, 50).astype(int))
    a, b = together[:, columns].astype(np.float64), alone[:, columns].astype(np.float64)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return False
    middle = (a + b).mean(axis=0) / 2
    spread = y.std(axis=0)
    weights = np.concatenate([np.ones((len(y), 1)), (y - y.mean(axis=0)) / np.where(spread > 0, spread, 1.0)], axis=1)
    largest = 0.0
    for d in (a - b, (a - middle) ** 2 - (b - middle) ** 2):
        weighted = d[:, :, None] * weights[:, None, :]
        norm = np.sqrt((weighted**2).sum(axis=0))
        ratios = np.abs(weighted.sum(axis=0)) / np.where(norm > 0, norm, 1.0)
        largest = max(largest, float(ratios.max()))
    count = 2 * len(columns) * weights.shape[1]
    return bool(2 * count * np.exp(-(largest**2) / 2) < COINCIDENCE)


@dataclass(frozen=True)
class SimulatorTask:
    r"""A task that a user's prior and simulator make; see `Task.from_simulator`."""

    prior: GivenPrior
    simulator: Callable[..., Any]
    style: Style
    names: Sequence[str] | None = None
    bounds: tuple[Array, Array] | None = None
    version: int = 1
    block: int = BLOCK
    source: Source | None = None

    @property
    def support(self) -> tuple[NDArray, NDArray] | None:
        r"""The bounds of the prior, infinite where there are none, if the prior knows them."""
        return self.prior.support

    def describe(self) -> dict[str, Any]:
        r"""What identifies the task in the store: its file and all that it loaded, or the content of its functions."""
        given = (self.prior.given, self.simulator)
        inside = fingerprint(given, "the prior or the simulator") if self.source is None else self.source.content
        settings = describe({"names": self.names, "bounds": self.bounds, "block": self.block, "style": self.style})
        return {"class": "simulator", "content": inside, "version": self.version, "settings": settings}

    def __reduce__(self) -> tuple[Any, ...]:
        if self.source is not None:  # workers run the file by themselves: what it defines has no module to import
            return _from_source, (self.source, self.style, self.version, self.block)
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
) -> SimulatorTask:
    r"""Makes a task of a prior and a simulator: this is `Task.from_simulator`.

    Arguments:
        prior: A torch distribution, a frozen distribution of scipy, a list of one-dimensional ones or a mapping from
            names to them, or a function `(count, rng)` that returns draws $(n, d)$. Only the last has no density, and
            so neither NLE nor NRE.
        simulator: A function of parameters that returns data. It takes a batch $(n, d)$ or one vector $(d,)$, arrays
            or tensors, which is found out by trial and logged; with a second argument, or one called `rng`, it is given
            the generator. With the same generator it must give the same data.
        names: The names of the parameters.
        bounds: The range of the parameters for distances; by default that of a bounded prior.
        batched: Whether the simulator takes batches, where the trial should not decide.
        version: Raise it when something changes that the functions do not show.
        block: The number of fiducials that are simulated together.

    Example:
        >>> from scipy import stats
        >>> task = task_from_simulator([stats.norm(), stats.norm()], lambda y, rng: y + rng.normal(size=y.shape))
        >>> task.simulate(10, np.random.default_rng(0)).x.shape
        (10, 2)
    """

    return _make(
        prior, simulator, names, bounds, version, block, lambda law, known: _detect(simulator, law, batched, known)
    )


def task_from_file(file: str, batched: bool | None = None, version: int = 1, block: int = BLOCK) -> SimulatorTask:
    r"""Makes a task of a Python file that defines `prior` and `simulator`, and may define `names` and `bounds`."""

    if file is None:
        raise UsageError("task=mine needs task.file=: a Python file that defines prior and simulator")
    source = load_source(file, "task.file")
    simulator = source.find("simulator")
    return _from_source(source, lambda law, known: _detect(simulator, law, batched, known), version, block)


def _from_source(source: Source, style: "Style | Finder", version: int, block: int) -> SimulatorTask:
    prior, simulator = source.find("prior"), source.find("simulator")
    names, bounds = (getattr(source.module, key, None) for key in ("names", "bounds"))
    try:
        return _make(prior, simulator, names, bounds, version, block, style, source)
    except UsageError as error:
        raise type(error)(f"{source.path}: {error}") from error


def _make(
    prior: Any,
    simulator: Callable[..., Any],
    names: Sequence[str] | None,
    bounds: tuple[Array, Array] | None,
    version: int,
    block: int,
    style: "Style | Finder",
    source: Source | None = None,
) -> SimulatorTask:
    r"""Puts a task together; the style is known where it was found out before."""
    if not callable(simulator):
        raise UsageError(f"the simulator is a {type(simulator).__name__}; a function of parameters is needed")
    law = as_prior(prior)
    trial, again = (law.sample(2, generator(0, "prior")) for _ in range(2))
    if not np.array_equal(trial, again):
        raise UsageError(
            "the prior gives other draws when it is asked again with the same seed: take them from the generator, "
            "the second argument of a function (count, rng)"
        )
    names = names if names is not None else law.names
    if names is not None and len(names) != trial.shape[1]:
        raise UsageError(f"there are {len(names)} names for {trial.shape[1]} parameters")
    if bounds is None and law.support is not None and np.isfinite(law.support).all():
        bounds = law.support
    found = style if isinstance(style, Style) else style(law, names)
    log.info("the simulator takes %s", found)
    kind = SimulatorTask if law.log_prob is None else DensityTask
    return kind(law, simulator, found, None if names is None else tuple(names), bounds, version, block, source)
