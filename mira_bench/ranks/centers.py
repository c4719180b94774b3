r"""Where regions are centered: a law, the observation, the prior, or points that the user gives."""

__all__ = ["Centers", "make_centers", "uniform_centers"]

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..arrays import Array, as_array, as_host, flat
from ..errors import UsageError
from ..streams import fiducial_keys, generator, uniforms

Law = Callable[[NDArray], NDArray]

LAWS: dict[str, Callable[[float, float], Law]] = {
    "uniform": lambda a, b: lambda u: a + (b - a) * u,
    "normal": lambda m, s: lambda u: m + s * special.ndtri(u),
    "beta": lambda a, b: lambda u: special.betaincinv(a, b, u),
}
FORMS = "uniform, uniform(a,b), normal(m,s), beta(a,b), x(w), prior"


@dataclass(frozen=True)
class Centers:
    r"""Draws the centers of given fiducials.

    They depend on the seed and the fiducial's index only, so all candidates meet the same regions.

    Arguments:
        draw: Returns the centers of the fiducials with given indices, with shape $(L, R, d)$.
        own_units: Whether they are in the units of the parameters and follow the scale of the distances; else they
            are in scaled coordinates, in which the range of the parameters is $[0, 1]$.
    """

    draw: Callable[[NDArray[np.integer]], NDArray]
    own_units: bool = False

    def scaled(
        self, index: NDArray[np.integer], low: NDArray[np.float64], width: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        r"""Returns the centers in scaled coordinates; `low` and `width` have one row, or one per fiducial."""
        drawn = self.draw(index)
        if self.own_units:
            drawn = (drawn - low[:, None]) / width[:, None]
        return np.ascontiguousarray(drawn, dtype=np.float32)

    def first(self, regions: int) -> "Centers":
        r"""Returns the first centers of every fiducial."""
        return Centers(lambda index: self.draw(index)[:, :regions], self.own_units)


def _keyed(seed: int, regions: int, dim: int) -> Callable[[NDArray[np.integer]], NDArray[np.float32]]:
    def draw(index: NDArray[np.integer]) -> NDArray[np.float32]:
        keys = fiducial_keys(seed, "centers", index)
        return uniforms(keys, regions * dim).reshape(len(keys), regions, dim)

    return draw


def uniform_centers(seed: int, regions: int, dim: int) -> Centers:
    r"""Returns centers $c \sim \mathcal{U}(0, 1)^d$ in scaled coordinates, the default."""

    return Centers(_keyed(seed, regions, dim))


def check_centers(centers: Any) -> None:
    r"""Raises if `centers` is a text that names no law."""

    if isinstance(centers, str):
        _parse(centers)


def _parse(text: str) -> tuple[str, tuple[float, ...]]:
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*", text)
    name, inside = match.groups() if match else ("", None)
    try:
        numbers = tuple(float(part) for part in inside.split(",")) if inside else ()
    except ValueError:
        name, numbers = "", ()
    wanted = {"uniform": (0, 2), "normal": (2,), "beta": (2,), "x": (1,), "prior": (0,)}.get(name, ())
    if len(numbers) not in wanted:
        raise UsageError(f"centers={text!r} is not one of {FORMS}")
    return name, numbers


def make_centers(
    centers: Any,
    seed: int,
    regions: int,
    dim: int,
    *,
    x: Array | None = None,
    index: NDArray[np.integer] | None = None,
    truths: NDArray[np.float64] | None = None,
) -> Centers:
    r"""Returns the centers that a description stands for.

    Arguments:
        centers: One of

            - `"uniform"`, `"uniform(a,b)"`, `"normal(m,s)"`, `"beta(a,b)"`: a law of every coordinate, on the scale
              on which the range of the parameters is $[0, 1]$;
            - `"x(w)"`: the observation plus $\mathcal{U}(-w, w)$, in the units of the parameters. Regions that
              depend on the observation see a candidate that ignores it;
            - `"prior"`: truths of other fiducials;
            - an array $(L, R, *event)$, $(L, *event)$ or $(R, *event)$ in the units of the parameters (where the first
              axis could be either, it is the fiducials);
            - a function of `(count, rng)` that returns `count` points $(\text{count}, *event)$ in those units.
        seed: The seed of the centers.
        regions: The number of centers per fiducial.
        dim: The number of dimensions $d$ of the parameters.
        x: The observations of the fiducials `index`, for `"x(w)"`.
        index: The indices of these fiducials, by default $0, 1, \dots$
        truths: The truths of all fiducials, for `"prior"` and for arrays.
    """

    if callable(centers):

        def call(rows: NDArray[np.integer]) -> NDArray:
            points = [centers(regions, generator(seed, "centers", int(i))) for i in rows]
            return np.stack([_event(as_array(p, "centers"), (regions,), dim) for p in points])

        return Centers(call, own_units=True)
    if not isinstance(centers, str):
        return _given(as_host(as_array(centers, "centers")), dim, truths)
    name, numbers = _parse(centers)
    keyed = _keyed(seed, regions, dim)
    if name == "x":
        return _around(x, index, numbers[0], keyed, dim)
    if name == "prior":
        assert truths is not None
        others = truths

        def other(rows: NDArray[np.integer]) -> NDArray:
            if len(others) < 2:
                raise UsageError("centers='prior' needs at least two fiducials: the others are draws of the prior")
            keys = fiducial_keys(seed, "centers", rows)
            step = 1 + np.floor(uniforms(keys, regions).astype(np.float64) * (len(others) - 1)).astype(int)
            return others[(np.asarray(rows)[:, None] + step) % len(others)]

        return Centers(other, own_units=True)
    law = LAWS[name](*(numbers or (0.0, 1.0)))
    if name == "uniform" and not numbers:
        return Centers(keyed)
    # Half a step away from zero, where a quantile may be infinite.
    return Centers(lambda rows: law(keyed(rows).astype(np.float64) + 2.0**-25))


def _event(values: NDArray, lead: tuple[int, ...], dim: int) -> NDArray[np.float64]:
    array = flat(np.asarray(values, np.float64), len(lead)) if values.ndim >= len(lead) else values
    if array.shape != (*lead, dim):
        raise UsageError(f"centers has shape {tuple(values.shape)}; {(*lead, dim)} is needed")
    return array


def _given(points: NDArray, dim: int, truths: NDArray | None) -> Centers:
    fiducials = 0 if truths is None else len(truths)
    if not np.isfinite(points).all():
        raise UsageError("centers holds a value that is not finite")
    per_fiducial = fiducials > 0 and len(points) == fiducials and points.size % (fiducials * dim) == 0
    if per_fiducial:
        own = points.reshape(fiducials, -1, dim)
    elif points.ndim >= 1 and len(points) and points.size == len(points) * dim:
        own = np.broadcast_to(points.reshape(1, -1, dim), (fiducials, len(points), dim))
    else:
        raise UsageError(
            f"centers has shape {points.shape}; (L, R, *event), (L, *event) or (R, *event) is needed, for "
            f"L = {fiducials} fiducials of {dim} dimensions"
        )
    return Centers(lambda rows: own[rows], own_units=True)


def _around(x: Array | None, index: NDArray | None, width: float, keyed: Any, dim: int) -> Centers:
    if x is None:
        raise UsageError("centers='x(w)' needs the observations x")
    observations = flat(as_host(x), 1)
    if observations.shape[1] != dim:
        raise UsageError(
            f"centers='x(w)' needs observations of the parameters' shape: x has {observations.shape[1]} dimensions, "
            f"y has {dim}"
        )
    at = {int(i): row for row, i in enumerate(np.arange(len(observations)) if index is None else index)}

    def draw(rows: NDArray[np.integer]) -> NDArray:
        noise = width * (2 * keyed(rows).astype(np.float64) - 1)
        return observations[[at[int(i)] for i in rows]][:, None] + noise

    return Centers(draw, own_units=True)
