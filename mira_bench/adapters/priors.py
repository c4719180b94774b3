r"""Priors as users have them: distributions of torch and scipy, one or one for each parameter, and functions."""

__all__ = ["GivenPrior", "as_prior"]

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_array
from ..errors import UsageError
from ..streams import forked

Bounds = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class GivenPrior:
    r"""What a task needs to know of a prior.

    Arguments:
        given: The prior as the user gave it.
        sample: Returns draws $(n, d)$ for a number and a generator.
        log_prob: Returns the log-density of points $(n, d)$, if there is one.
        support: The bounds, infinite where there are none, if they are known.
        names: The names of the parameters, if they have any.
        torch: Whether it is a distribution of torch.
    """

    given: Any
    sample: Callable[[int, np.random.Generator], NDArray[np.float64]]
    log_prob: Callable[[NDArray], NDArray[np.float64]] | None = None
    support: Bounds | None = None
    names: tuple[str, ...] | None = None
    torch: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return as_prior, (self.given,)  # its functions are made anew where it arrives


def as_prior(prior: Any) -> GivenPrior:
    r"""Returns what a task needs to know of a prior; see `Task.from_simulator` for what can be given."""

    if isinstance(prior, Mapping):
        return _joined(prior, list(prior.values()), tuple(map(str, prior)))
    if isinstance(prior, list | tuple):
        return _joined(prior, list(prior), None)
    if hasattr(prior, "log_prob") and hasattr(prior, "sample"):
        return _torch(prior)
    if hasattr(prior, "rvs"):
        return _scipy(prior)
    if callable(prior):
        return GivenPrior(prior, lambda count, rng: _draws(prior(count, rng), count))
    raise UsageError(
        f"the prior is a {type(prior).__name__}; a distribution of torch or scipy, a list of them, "
        "or a function (count, rng) is needed"
    )


def _draws(values: Any, count: int) -> NDArray[np.float64]:
    array = np.asarray(as_array(values, "the prior's draws"), np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or len(array) != count:
        raise UsageError(f"the prior gave draws of shape {array.shape}; {count} draws have shape ({count}, d)")
    if not np.isfinite(array).all():
        raise UsageError("the prior gave draws that are not finite")
    return array


def _torch(prior: Any) -> GivenPrior:
    import torch

    def sample(count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        with forked(int(rng.integers(2**63)), "prior"):
            return _draws(prior.sample((count,)), count)

    def log_prob(y: NDArray) -> NDArray[np.float64]:
        points = torch.as_tensor(np.asarray(y), dtype=torch.float32)
        if not prior.event_shape and not prior.batch_shape:
            points = points[:, 0]
        with torch.no_grad():
            outside = ~_inside(prior, points)
            logs = _quiet(prior, points)
        logs = logs.reshape(len(y), -1).sum(-1).double().numpy()
        return np.where(outside.reshape(len(y), -1).any(-1).numpy(), -np.inf, logs)

    return GivenPrior(prior, sample, log_prob, _torch_support(prior), torch=True)


def _inside(prior: Any, points: Any) -> Any:
    import torch

    try:
        return prior.support.check(points)
    except (NotImplementedError, AttributeError):
        return torch.ones(len(points), dtype=torch.bool)


def _quiet(prior: Any, points: Any) -> Any:
    r"""The log-density; where torch refuses a point outside of the support, minus infinity."""
    import torch

    try:
        return prior.log_prob(points)
    except ValueError:
        found = torch.full((len(points),), -torch.inf)
        good = _inside(prior, points).reshape(len(points), -1).all(-1)
        if good.any():
            found[good] = prior.log_prob(points[good]).reshape(int(good.sum()), -1).sum(-1)
        return found


def _torch_support(prior: Any) -> Bounds | None:
    import torch

    try:
        constraint = prior.support
    except (NotImplementedError, AttributeError):
        return None
    while hasattr(constraint, "base_constraint"):
        constraint = constraint.base_constraint
    shape = torch.Size([*prior.batch_shape, *prior.event_shape]) or torch.Size([1])
    if len(shape) != 1:
        return None
    sides = [
        np.broadcast_to(np.asarray(getattr(constraint, key, default), np.float64), tuple(shape))
        for key, default in (("lower_bound", -np.inf), ("upper_bound", np.inf))
    ]
    return sides[0], sides[1]


def _scipy(prior: Any) -> GivenPrior:
    # A univariate law has a support; with arrays of parameters it is one for each parameter of the task.
    single = hasattr(prior, "support")
    sides = np.broadcast_arrays(*map(np.atleast_1d, prior.support())) if single else None
    if sides is not None and sides[0].ndim > 1:
        raise UsageError(f"the prior of scipy has parameters of shape {sides[0].shape}; one for each of d is (d,)")

    def sample(count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        shape = count if sides is None else (count, len(sides[0]))
        values = np.asarray(prior.rvs(size=shape, random_state=rng), np.float64)
        return _draws(values.reshape(count, -1), count)  # scipy drops the axis of a single draw or parameter

    if not hasattr(prior, "logpdf"):
        return GivenPrior(prior, sample)

    def log_prob(y: NDArray) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            return np.asarray(prior.logpdf(y), np.float64).reshape(len(y), -1).sum(axis=1)

    return GivenPrior(
        prior, sample, log_prob, None if sides is None else (sides[0].astype(float), sides[1].astype(float))
    )


def _joined(given: Any, priors: list[Any], names: tuple[str, ...] | None) -> GivenPrior:
    r"""Independent priors, one for each parameter."""
    if not priors:
        raise UsageError("the list of priors is empty")
    parts = [as_prior(one) for one in priors]

    def sample(count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        columns = [part.sample(count, rng) for part in parts]
        wide = next((i for i, c in enumerate(columns) if c.shape[1] != 1), None)
        if wide is not None:
            raise UsageError(f"prior {wide} of the list has {columns[wide].shape[1]} parameters; each must have one")
        return np.concatenate(columns, axis=1)

    def log_prob(y: NDArray) -> NDArray[np.float64]:
        logs = [part.log_prob(y[:, i : i + 1]) for i, part in enumerate(parts) if part.log_prob is not None]
        return np.sum(logs, axis=0)

    known = all(part.log_prob is not None for part in parts)
    sides = [part.support for part in parts if part.support is not None]
    support = (
        (np.concatenate([s[0] for s in sides]), np.concatenate([s[1] for s in sides]))
        if len(sides) == len(parts)
        else None
    )
    return GivenPrior(given, sample, log_prob if known else None, support, names, all(part.torch for part in parts))
