r"""Ball ranks under distances other than the Euclidean one.

As in `ranks.py` everything is relative to the truth: with $z = y - y^*$ and $b = c - y^*$ a sample is inside the ball
if $d(z, b) < d(0, b)$. Each kernel compares in the form that loses fewest digits when the posterior is narrow.
"""

__all__ = ["DISTANCES", "Distance", "count_closer", "pairwise", "parse_distance"]

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from .errors import UsageError

DISTANCES = "l2, l1, chebyshev, cosine, minkowski(p), or a function of (points, center)"
_CHUNK = 512


@dataclass(frozen=True)
class Distance:
    r"""A distance: its name, the power of `minkowski`, or the user's function of broadcast points and centers."""

    name: str
    power: float = 2.0
    function: Callable[[NDArray, NDArray], NDArray] | None = None

    @property
    def translates(self) -> bool:
        r"""Whether the distance depends on the difference of the points only."""
        return self.name not in ("cosine", "custom")


def parse_distance(distance: Any) -> Distance:
    r"""Returns the distance that a name or a function stands for."""

    if isinstance(distance, Distance):
        return distance
    if callable(distance):
        return Distance("custom", function=distance)
    match = re.fullmatch(r"\s*(l2|l1|chebyshev|cosine|minkowski)\s*(?:\(([^()]*)\))?\s*", str(distance))
    name, inside = match.groups() if match else ("", None)
    try:
        power = float(inside) if inside else 2.0
    except ValueError:
        name, power = "", 2.0
    if not name or (name == "minkowski") != bool(inside) or power < 1:
        raise UsageError(f"distance={distance!r} is not one of {DISTANCES}; p is at least 1")
    if name == "minkowski" and power in (1.0, 2.0):
        name = "l1" if power == 1 else "l2"
    return Distance(name, power)


@njit(nogil=True, cache=True, fastmath={"contract"})
def _count_l1(z: NDArray, offsets: NDArray, closer: NDArray, equal: NDArray) -> None:
    # |z - b| - |b| = max(-w, w - 2|b|) with w = sign(b) z: no difference of large numbers.
    dim, size = z.shape
    total = np.empty(size, np.float32)
    for r in range(offsets.shape[0]):
        for j in range(size):
            total[j] = 0
        for i in range(dim):
            b = offsets[r, i]
            sign = np.float32(1) if b >= 0 else np.float32(-1)
            twice = np.float32(2) * abs(b)
            row = z[i]
            for j in range(size):
                w = sign * row[j]
                total[j] += max(-w, w - twice)
        inside, same = np.int32(0), np.int32(0)
        for j in range(size):
            inside = np.int32(inside + np.int32(total[j] < 0))
            same = np.int32(same + np.int32(total[j] == 0))
        closer[r] += inside
        equal[r] += same


@njit(nogil=True, cache=True, fastmath={"contract"})
def _count_largest(z: NDArray, offsets: NDArray, closer: NDArray, equal: NDArray) -> None:
    dim, size = z.shape
    total = np.empty(size, np.float64)
    for r in range(offsets.shape[0]):
        mine = 0.0
        for j in range(size):
            total[j] = 0
        for i in range(dim):
            b = offsets[r, i]
            mine = max(mine, abs(b))
            row = z[i]
            for j in range(size):
                total[j] = max(total[j], abs(row[j] - b))
        for j in range(size):
            closer[r] += total[j] < mine
            equal[r] += total[j] == mine


# No fused multiply-add here: a copy of the truth must give exactly zero, whichever way its power is computed.
@njit(nogil=True, cache=True)
def _count_power(z: NDArray, offsets: NDArray, power: float, closer: NDArray, equal: NDArray) -> None:
    dim, size = z.shape
    whole = int(power) if power == int(power) and power <= 8 else 0
    total = np.empty(size, np.float64)
    for r in range(offsets.shape[0]):
        for j in range(size):
            total[j] = 0
        for i in range(dim):
            b = offsets[r, i]
            row = z[i]
            if whole == 3:
                mine = abs(b) * abs(b) * abs(b)
                for j in range(size):
                    a = abs(row[j] - b)
                    total[j] += a * a * a - mine
            elif whole > 0:
                mine = abs(b) ** whole
                for j in range(size):
                    total[j] += abs(row[j] - b) ** whole - mine
            else:
                mine = abs(b) ** power
                for j in range(size):
                    total[j] += abs(row[j] - b) ** power - mine
        for j in range(size):
            closer[r] += total[j] < 0
            equal[r] += total[j] == 0


def _unit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    length = np.linalg.norm(values, axis=-1, keepdims=True)
    return np.divide(values, length, out=np.zeros_like(values), where=length > 0)


def count_closer(
    samples: NDArray[np.floating],
    truth: NDArray[np.float64],
    low: NDArray[np.float64],
    inverse: NDArray[np.float64],
    centers: NDArray[np.float32],
    distance: Distance,
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    r"""Counts the samples of one fiducial that are closer to each center than the truth, and the ties.

    Arguments:
        samples: The samples, with shape $(S, d)$.
        truth: The truth, with shape $(d,)$.
        low: What the scale subtracts.
        inverse: What the scale multiplies by.
        centers: The centers in scaled coordinates, with shape $(R, d)$.
        distance: The distance.

    Returns:
        The counts, each with shape $(R,)$, and the index of a sample that is not finite, or -1.
    """

    closer, equal = np.zeros(len(centers), np.int32), np.zeros(len(centers), np.int32)
    origin = (truth - low) * inverse
    offsets = centers - origin
    for start in range(0, len(samples), _CHUNK):
        part = np.asarray(samples[start : start + _CHUNK], np.float64)
        z = (part - truth) * inverse
        finite = np.isfinite(z).all(axis=1)
        if not finite.all():
            return closer, equal, start + int(np.argmin(finite))
        if distance.name == "l1":
            _count_l1(np.ascontiguousarray(z.T, np.float32), offsets.astype(np.float32), closer, equal)
        elif distance.name == "chebyshev":
            _count_largest(np.ascontiguousarray(z.T), offsets, closer, equal)
        elif distance.name == "minkowski":
            _count_power(np.ascontiguousarray(z.T), offsets, distance.power, closer, equal)
        elif distance.name == "cosine":
            # Closer means a larger projection of the unit vector on the center: linear, like the Euclidean rank.
            gain = (_unit(z + origin) - _unit(origin)) @ centers.astype(np.float64).T
            closer += np.count_nonzero(gain > 0, axis=0).astype(np.int32)
            equal += np.count_nonzero(gain == 0, axis=0).astype(np.int32)
        else:
            assert distance.function is not None
            for r, center in enumerate(centers.astype(np.float64)):
                mine = distance.function(origin, center)
                theirs = np.asarray(distance.function(z + origin, center))
                if theirs.shape != (len(z),):
                    raise UsageError(
                        f"the distance returned shape {theirs.shape} for {len(z)} points and one center; "
                        f"({len(z)},) is needed"
                    )
                closer[r] += np.count_nonzero(theirs < mine)
                equal[r] += np.count_nonzero(theirs == mine)
    return closer, equal, -1


def pairwise(points: NDArray[np.float64], centers: NDArray[np.float64], distance: Distance) -> NDArray[np.float64]:
    r"""Returns the distances between centers $(R, d)$ and points $(N, d)$, with shape $(R, N)$."""

    if distance.function is not None:
        return np.stack([np.asarray(distance.function(points, center)) for center in centers])
    if distance.name == "minkowski":
        return cdist(centers, points, "minkowski", p=distance.power)
    names = {"l1": "cityblock", "l2": "sqeuclidean", "chebyshev": "chebyshev"}
    if distance.name == "cosine":
        return -_unit(centers) @ _unit(points).T
    return cdist(centers, points, names[distance.name])
