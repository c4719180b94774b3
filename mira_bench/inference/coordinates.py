r"""What networks see in place of parameters and data: unbounded, standardized coordinates."""

__all__ = ["Coordinates", "Standard", "support"]

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError

EDGE = 1e-6  # how near to a bound a parameter can be, as a share of the range; truths on the bound are moved there


def support(task: Any, y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Returns the bounds of the prior, $(d,)$ each, infinite where there are none.

    A task may state its `support`. Its `bounds` are a scale in the first place, and taken for the support of those
    parameters that never leave them.

    Arguments:
        task: The task whose prior it is.
        y: Draws of the prior, with shape $(n, d)$.
    """

    stated = getattr(task, "support", None)
    given = stated if stated is not None else getattr(task, "bounds", None)
    low, high = np.full(y.shape[1], -np.inf), np.full(y.shape[1], np.inf)
    if given is None:
        return low, high
    a, b = (np.broadcast_to(np.asarray(side, np.float64), low.shape) for side in given)
    inside = (y >= a).all(axis=0) & (y <= b).all(axis=0)
    if stated is not None and not inside.all():
        worst = int(np.argmin(inside))
        raise UsageError(f"support: the task draws parameter {worst} outside of [{a[worst]:g}, {b[worst]:g}]")
    return np.where(inside, a, low), np.where(inside, b, high)


@dataclass(frozen=True)
class Standard:
    r"""Data with mean zero and variance one, as float32.

    Arguments:
        mean: The mean of each entry, or of all entries of an image.
        scale: The standard deviation of each entry, or of all entries of an image.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @staticmethod
    def of(x: NDArray, together: bool) -> "Standard":
        r"""Measures data $(n, *data)$: each entry by itself, or all `together`, as befits the pixels of an image."""
        axes = tuple(range(x.ndim)) if together else (0,)
        scale = np.asarray(x.std(axis=axes, dtype=np.float64))
        return Standard(np.asarray(x.mean(axis=axes, dtype=np.float64)), np.where(scale > 0, scale, 1.0))

    def forward(self, x: NDArray) -> NDArray[np.float32]:
        out = np.asarray(x, np.float32) - self.mean.astype(np.float32)
        out /= self.scale.astype(np.float32)
        return out


@dataclass(frozen=True)
class Coordinates:
    r"""Parameters without bounds: the logit of one in an interval, the logarithm of one in a half-line.

    A density of these coordinates cannot leak out of the prior's support, so that no sample is ever rejected.

    Arguments:
        low: The lower bounds, with shape $(d,)$, infinite where there are none.
        high: The upper bounds, with shape $(d,)$, infinite where there are none.
        mean: The mean of the unbounded coordinates, with shape $(d,)$.
        scale: The standard deviations of the unbounded coordinates, with shape $(d,)$.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @staticmethod
    def of(y: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]) -> "Coordinates":
        r"""Measures parameters $(n, d)$ in their support."""
        flat = Coordinates(low, high, np.zeros(len(low)), np.ones(len(low)))
        u = flat.forward(y)
        scale = u.std(axis=0)
        return Coordinates(low, high, u.mean(axis=0), np.where(scale > 0, scale, 1.0))

    @property
    def _kinds(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        a, b = np.isfinite(self.low), np.isfinite(self.high)
        return a & b, a & ~b, ~a & b

    def forward(self, y: NDArray) -> NDArray[np.float64]:
        r"""Returns the coordinates of parameters $(*, d)$."""
        box, above, below = self._kinds
        u = np.array(y, np.float64)
        p = np.clip((u[..., box] - self.low[box]) / (self.high - self.low)[box], EDGE, 1 - EDGE)
        u[..., box] = np.log(p) - np.log1p(-p)
        u[..., above] = np.log(np.maximum(u[..., above] - self.low[above], EDGE))
        u[..., below] = -np.log(np.maximum(self.high[below] - u[..., below], EDGE))
        return np.asarray((u - self.mean) / self.scale)

    def inverse(self, u: NDArray) -> NDArray[np.float64]:
        r"""Returns the parameters at coordinates $(*, d)$."""
        box, above, below = self._kinds
        y = np.asarray(u, np.float64) * self.scale + self.mean
        y[..., box] = self.low[box] + (self.high - self.low)[box] / (1 + np.exp(-y[..., box]))
        y[..., above] = self.low[above] + np.exp(y[..., above])
        y[..., below] = self.high[below] - np.exp(-y[..., below])
        return y

    def log_slope(self, u: NDArray) -> NDArray[np.float64]:
        r"""Returns $\log |dy/du|$ at coordinates $(*, d)$, with shape $(*)$."""
        box, above, below = self._kinds
        raw = np.asarray(u, np.float64) * self.scale + self.mean
        slope = np.broadcast_to(np.log(self.scale), raw.shape).copy()
        width = np.log((self.high - self.low)[box])
        slope[..., box] += width - np.logaddexp(0, -raw[..., box]) - np.logaddexp(0, raw[..., box])
        slope[..., above] += raw[..., above]
        slope[..., below] -= raw[..., below]
        return np.asarray(slope.sum(axis=-1))
