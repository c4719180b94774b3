r"""The scale on which distances are measured: what is subtracted and divided before regions are drawn.

Under the null the truth must be treated like any sample, or the rank of the truth is no longer uniform. `task`,
`others`, `joint`, `pooled` and `none` do that; `samples`, `truths` and `scalar` do not, and exist because published
numbers were made with them.

| name      | range of each dimension                                        | exchangeable |
|-----------|----------------------------------------------------------------|--------------|
| `task`    | fixed, declared by the task (the prior box, the pixel range)   | yes          |
| `others`  | truths of the *other* fiducials                                | yes          |
| `joint`   | the samples and the truth of this fiducial                     | yes          |
| `pooled`  | all candidates' samples and the truth of this fiducial         | yes          |
| `none`    | no rescaling                                                   | yes          |
| `samples` | the samples of this fiducial (the paper's text)                | no           |
| `truths`  | all truths, this one included (mira-score's `norm=True`)       | no, O(1/L)   |
| `scalar`  | one range for all dimensions of all truths                     | no, O(1/L)   |
"""

__all__ = ["EXCHANGEABLE", "NORMALIZATIONS", "Scale", "Scaling", "as_bounds", "pooled_range", "sample_range"]

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, as_array, as_host, is_device_tensor
from ..errors import UsageError

EXCHANGEABLE = ("task", "others", "joint", "pooled", "none")
NORMALIZATIONS = ("auto", *EXCHANGEABLE, "samples", "truths", "scalar")

FEW = 10  # below this many fiducials the range of the others is too rough a ruler


@dataclass(frozen=True)
class Scale:
    r"""Maps $y$ to $(y - \text{low}) / \text{width}$; one row for all fiducials or one for each."""

    name: str
    low: NDArray[np.float64]
    width: NDArray[np.float64]

    def rows(self, block: slice) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if len(self.low) == 1:
            return self.low, self.width
        return self.low[block], self.width[block]

    def apply(self, values: NDArray, block: slice) -> NDArray:
        r"""Rescales truths `(L, d)` or samples `(L, S, d)` of a block of fiducials."""
        low, width = self.rows(block)
        shape = (len(low), *(1,) * (values.ndim - 2), low.shape[-1])
        return (values - low.reshape(shape)) / width.reshape(shape)


def _scale(name: str, low: NDArray, high: NDArray) -> Scale:
    width = np.asarray(high, np.float64) - low
    # A constant dimension has no range: every point sits at zero there, whatever the divisor.
    return Scale(name, np.asarray(low, np.float64), np.where(width > 0, width, 1.0))


@dataclass(frozen=True)
class Scaling:
    r"""All that is needed to find the scale of a block of fiducials.

    Arguments:
        truths: The truths of *all* fiducials, with shape $(L, d)$.
        task: The task's own range per dimension, `(low, high)`, each of shape $(d,)$, if it declares one.
        pooled: The range per fiducial over all candidates, `(low, high)`, each of shape $(L, d)$.
        pooled_views: The same on views of the points, by what the view is called.
    """

    truths: NDArray[np.float64]
    task: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    pooled: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    pooled_views: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=dict)

    def resolve(self, name: str) -> str:
        r"""Returns the normalization that `auto` stands for here, or raises if `name` cannot be had."""

        if name not in NORMALIZATIONS:
            raise UsageError(f"normalize={name!r} is not one of {', '.join(NORMALIZATIONS)}")
        if name == "auto":
            if self.task is not None:
                return "task"
            return "others" if len(self.truths) >= FEW else "joint"
        if name == "task" and self.task is None:
            raise UsageError("normalize='task' needs a task that declares a scale; this one has none")
        if name == "others" and len(self.truths) < 3:
            raise UsageError(f"normalize='others' needs at least 3 fiducials, there are {len(self.truths)}")
        return name

    def scale(self, name: str, samples: Array, index: NDArray[np.integer]) -> Scale:
        r"""Returns the scale of the fiducials `index`, whose samples are `samples` $(L, S, d)$."""

        name = self.resolve(name)
        if name == "none":
            shape = (1, self.truths.shape[1])
            return Scale(name, np.zeros(shape), np.ones(shape))
        if name == "task":
            assert self.task is not None
            low, high = self.task
            return _scale(name, np.atleast_2d(low), np.atleast_2d(high))
        if name == "truths":
            return _scale(name, self.truths.min(0, keepdims=True), self.truths.max(0, keepdims=True))
        if name == "scalar":
            one = np.ones((1, self.truths.shape[1]))
            return _scale(name, self.truths.min() * one, self.truths.max() * one)
        if name == "others":
            return self._others(index)
        if name == "pooled":
            if self.pooled is None:
                raise UsageError("normalize='pooled' needs all candidates at once: use it in a run or in score()")
            return _scale(name, self.pooled[0][index], self.pooled[1][index])
        low, high = sample_range(samples)
        if name == "joint":
            low, high = np.minimum(low, self.truths[index]), np.maximum(high, self.truths[index])
        return _scale(name, low, high)

    @cached_property
    def _extremes(self) -> NDArray[np.float64]:
        r"""The two smallest and the two largest truths of every dimension; found once, for all blocks."""
        return np.sort(self.truths, axis=0)[[0, 1, -2, -1]]

    def _others(self, index: NDArray[np.integer]) -> Scale:
        order = self._extremes
        mine = self.truths[index]
        low = np.where(mine == order[0], order[1], order[0])
        high = np.where(mine == order[-1], order[-2], order[-1])
        flat = high <= low
        low = np.where(flat, np.broadcast_to(order[0], low.shape), low)
        high = np.where(flat, np.broadcast_to(order[-1], high.shape), high)
        return _scale("others", low, high)


def sample_range(samples: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Returns the smallest and the largest value per fiducial and dimension, each $(L, d)$."""

    if is_device_tensor(samples):
        low, high = samples.amin(dim=1).double().cpu().numpy(), samples.amax(dim=1).double().cpu().numpy()
    else:
        low = np.stack([np.min(s, axis=0) for s in samples]).astype(np.float64)
        high = np.stack([np.max(s, axis=0) for s in samples]).astype(np.float64)
    return low, high


def pooled_range(
    truths: NDArray[np.float64], ranges: Iterable[tuple[slice, NDArray, NDArray]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Returns the range of all candidates' samples and the truth, per fiducial and dimension, each $(L, d)$.

    Arguments:
        truths: The truths of all fiducials, with shape $(L, d)$.
        ranges: Which fiducials, and the smallest and the largest value of a candidate there, each $(l, d)$.
    """

    low, high = truths.copy(), truths.copy()
    for rows, least, most in ranges:
        low[rows], high[rows] = np.minimum(low[rows], least), np.maximum(high[rows], most)
    return low, high


def as_bounds(
    bounds: Any, dim: int, truths: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    r"""Returns a declared range `(low, high)` as two arrays of shape $(d,)$, after a check.

    Arguments:
        bounds: The range `(low, high)`, each a number or one per dimension; none if there is no range.
        dim: The number of dimensions $d$ of the parameters.
        truths: The truths, which tell in two dimensions whether the pair is one of rows `(low, high)` by mistake.
    """

    if bounds is None:
        return None
    try:
        low, high = (np.broadcast_to(as_host(as_array(b, "bounds")).ravel(), (dim,)) for b in bounds)
    except ValueError as error:
        raise UsageError(f"bounds must be a pair (low, high) for {dim} dimensions: {error}") from error
    if not np.all(np.isfinite(low) & np.isfinite(high) & (low < high)):
        raise UsageError("bounds must be finite, with low < high in every dimension")
    if truths is not None and dim == 2 and np.size(bounds[0]) == 2:
        both = np.array([low, high])
        a, b = both[:, 0], both[:, 1]
        inside, turned = (np.all((low <= truths) & (truths <= high)), np.all((a <= truths) & (truths <= b)))
        # Truths that fill a smaller box exactly by chance do not exist.
        if turned and (not inside or np.prod(b - a) < np.prod(high - low)):
            raise UsageError(
                f"bounds have low = {low.tolist()} and high = {high.tolist()}, but all truths lie in the box from "
                f"{a.tolist()} to {b.tolist()}, its rows being columns: give (low, high) with an entry per parameter, "
                "or a file with a row low, high per parameter"
            )
    return low, high
