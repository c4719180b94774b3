r"""The contract between a problem and the samplers: a log-likelihood with its gradient, and a box."""

__all__ = ["Evaluations", "Target", "UnitCube", "unrolled"]

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import UsageError

Floats = NDArray[np.float64]


class Target(Protocol):
    r"""A likelihood $L(\theta)$ of one observation, under a uniform prior on a box.

    Parameters are in physical units, and come in batches $(W, d)$, one row per walker. A log-likelihood that is not
    finite counts as a likelihood of zero. Besides what is below, a target may have

    - `periodic`: which parameters are periodic over their range, with shape $(d,)$;
    - `groups`: the indices of exchangeable blocks of parameters, with shape $(G, k)$: the likelihood and the box stay
      the same when two rows change places;
    - `fisher(theta)`: the expected Fisher information (the Gauss-Newton Hessian), with shape $(W, d, d)$;
    - `linear`: the indices of $n$ parameters $c$ on which the log-likelihood depends as
      $-\frac{1}{2} c^T A^T A c + c^T A^T x$ and a constant: the data are linear in them, with Gaussian noise;
    - `linear_terms(theta)`: $A^T A$ and $A^T x$ in units of the noise, with shapes $(W, n, n)$ and $(W, n)$.

    Each of them may be none.
    """

    @property
    def low(self) -> ArrayLike:
        r"""The lower end of the box, with shape $(d,)$."""

    @property
    def high(self) -> ArrayLike:
        r"""The upper end of the box, with shape $(d,)$."""

    def log_likelihood(self, theta: Floats) -> NDArray:
        r"""Returns the log-likelihoods of points $(W, d)$, with shape $(W,)$."""

    def log_likelihood_gradient(self, theta: Floats) -> tuple[NDArray, NDArray]:
        r"""Returns the log-likelihoods of points $(W, d)$ and their gradients, with shapes $(W,)$ and $(W, d)$."""


class Evaluations(NamedTuple):
    r"""How many points were evaluated, by kind."""

    likelihood: int = 0
    gradient: int = 0
    fisher: int = 0
    linear_terms: int = 0


class UnitCube:
    r"""A target as the samplers see it: in the unit cube, checked, with its evaluations counted.

    Arguments:
        target: The target in physical units.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.name = type(target).__name__
        self.low = np.atleast_1d(np.asarray(target.low, np.float64))
        self.high = np.atleast_1d(np.asarray(target.high, np.float64))
        if self.low.ndim != 1 or self.low.shape != self.high.shape:
            raise UsageError(f"{self.name}: low has shape {self.low.shape} and high {self.high.shape}; both need (d,)")
        wrong = np.flatnonzero(~(self.low < self.high) | ~np.isfinite(self.high - self.low))
        if wrong.size:
            i = wrong[0]
            raise UsageError(f"{self.name}: low must be below high; parameter {i} has {self.low[i]} and {self.high[i]}")
        self.dim = len(self.low)
        self.width = self.high - self.low
        periodic = getattr(target, "periodic", None)
        self.periodic = np.zeros(self.dim, bool) if periodic is None else np.asarray(periodic, bool)
        if self.periodic.shape != (self.dim,):
            raise UsageError(f"{self.name}: periodic has shape {self.periodic.shape}; {(self.dim,)} is needed")
        groups, linear = getattr(target, "groups", None), getattr(target, "linear", None)
        self.groups = None if groups is None else self._indices("groups", groups, 2)
        self.linear = None if linear is None else self._indices("linear", linear, 1)
        if self.groups is not None:
            for row in self.groups[1:]:
                first = self.groups[0]
                for box in (self.low, self.high, self.periodic):
                    if (box[row] != box[first]).any():
                        raise UsageError(f"{self.name}: groups {first} and {row} have different boxes")
        if self.linear is not None and self.periodic[self.linear].any():
            raise UsageError(f"{self.name}: a linear parameter is periodic; it cannot be both")
        self.has_fisher = getattr(target, "fisher", None) is not None
        self.evaluations = Evaluations()

    def _indices(self, what: str, values: ArrayLike, ndim: int) -> NDArray[np.intp]:
        indices = np.asarray(values)
        good = indices.ndim == ndim and indices.size and np.issubdtype(indices.dtype, np.integer)
        if not good or np.unique(indices).size < indices.size or indices.min() < 0 or indices.max() >= self.dim:
            shape = "(G, k)" if ndim == 2 else "(n,)"
            raise UsageError(
                f"{self.name}: {what} must be different indices below {self.dim} with shape {shape}, "
                f"not {indices.tolist()}"
            )
        return indices.astype(np.intp)

    def to_physical(self, u: Floats) -> Floats:
        return np.minimum(self.low + self.width * u, self.high)

    def from_physical(self, theta: NDArray) -> Floats:
        return np.asarray((theta - self.low) / self.width)

    def log_likelihood(self, u: Floats) -> Floats:
        r"""Returns the log-likelihoods of points $(W, d)$; minus infinity where the target's value is not finite."""
        self.evaluations = self.evaluations._replace(likelihood=self.evaluations.likelihood + len(u))
        return self._finite(self.target.log_likelihood(self.to_physical(u)), u)

    def gradient(self, u: Floats) -> tuple[Floats, Floats]:
        r"""Returns the log-likelihoods of points $(W, d)$, and their gradients by the coordinates of the cube."""
        self.evaluations = self.evaluations._replace(gradient=self.evaluations.gradient + len(u))
        values, gradient = self.target.log_likelihood_gradient(self.to_physical(u))
        gradient = self._checked("log_likelihood_gradient", gradient, u.shape) * self.width
        # Any field keeps a leapfrog reversible and its volume, so a zero where there is no gradient stays exact.
        finite = np.isfinite(gradient)
        return self._finite(values, u), gradient if finite.all() else np.where(finite, gradient, 0.0)

    def fisher(self, u: Floats) -> Floats:
        r"""Returns the Fisher information at points $(W, d)$ by the coordinates of the cube, $(W, d, d)$."""
        self.evaluations = self.evaluations._replace(fisher=self.evaluations.fisher + len(u))
        fisher = self.target.fisher(self.to_physical(u))  # type: ignore[attr-defined]
        return self._checked("fisher", fisher, (*u.shape, self.dim)) * self.width[:, None] * self.width

    def linear_terms(self, u: Floats) -> tuple[Floats, Floats]:
        r"""Returns $A^T A$ and $A^T x$ at points $(W, d)$, for linear coordinates in the cube."""
        self.evaluations = self.evaluations._replace(linear_terms=self.evaluations.linear_terms + len(u))
        square, slope = self.target.linear_terms(self.to_physical(u))  # type: ignore[attr-defined]
        assert self.linear is not None
        shape = (len(u), len(self.linear))
        square = self._checked("linear_terms", square, (*shape, shape[1]))
        slope = self._checked("linear_terms", slope, shape)
        low, width = self.low[self.linear], self.width[self.linear]
        return square * width[:, None] * width, (slope - square @ low) * width

    def _finite(self, values: ArrayLike, u: Floats) -> Floats:
        values = self._checked("log_likelihood", values, u.shape[:1])
        return np.where(np.isfinite(values), values, -np.inf)

    def _checked(self, what: str, values: ArrayLike, shape: tuple[int, ...]) -> Floats:
        values = np.asarray(values, np.float64)
        if values.shape != shape:
            raise UsageError(f"{self.name}: {what} returned shape {values.shape} where {shape} is needed")
        return values


def unrolled(u: Floats, periodic: NDArray[np.bool_]) -> Floats:
    r"""Returns points $(*, d)$ of the cube with periodic coordinates as distances from their circular mean."""

    around = np.exp(2j * np.pi * u[..., periodic])
    center = np.angle(around.mean(axis=tuple(range(u.ndim - 1)))) / (2 * np.pi)
    out = np.array(u)
    out[..., periodic] = (u[..., periodic] - center + 0.5) % 1 - 0.5
    return out
