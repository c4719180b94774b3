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
import scipy
from numpy.typing import NDArray

from ..compiling import compiled
from ..errors import UsageError
from .compiled import CHUNK, count_chebyshev, count_l1_pair, count_pair, count_within_chebyshev, relative

DISTANCES = "l2, l1, chebyshev, cosine, minkowski(p), or a function of (points, center)"
UNROLLED = 16  # dimensions up to which a kernel is compiled for their exact number


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
    if not name or (name == "minkowski") != bool(inside) or not power >= 1:
        raise UsageError(f"distance={distance!r} is not one of {DISTANCES}; p is at least 1")
    if name == "minkowski" and power in (1.0, 2.0):
        name = "l1" if power == 1 else "l2"
    if np.isinf(power):
        name = "chebyshev"
    return Distance(name, power)


@compiled()
def _count_boxes(
    samples: NDArray,
    truth: NDArray,
    inverse: NDArray,
    offsets: NDArray,
    largest: bool,
    generic: bool,
    unroll: tuple[int, ...],
    closer: NDArray,
    equal: NDArray,
) -> int:
    r"""Counts under l1 or, if `largest`, the Chebyshev distance; returns a non-finite sample's index, or -1."""
    count, (regions, dim) = samples.shape[0], offsets.shape
    z = np.ones(dim * CHUNK, np.float32)
    sign, twice = np.empty((regions + 1) * dim, np.float32), np.zeros((regions + 1) * dim, np.float32)
    gap = np.zeros((regions + 1) * dim, np.float32)
    for r in range(regions):
        most = np.abs(offsets[r]).max()
        for i in range(dim):
            b = offsets[r, i]
            sign[r * dim + i] = 1 if b >= 0 else -1
            twice[r * dim + i] = 2 * abs(b)
            gap[r * dim + i] = most - abs(b)
    far = twice + gap
    sign[regions * dim :] = 1  # an odd number of centers is filled up with one that is not counted
    found = np.empty(4, np.int32)
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        bad = relative(samples, truth, inverse, start, stop, z)
        if bad >= 0:
            return bad
        # Around centers of a continuous law, only a sample that shares a coordinate with the truth can be as far.
        ties = not generic or np.any(z[: dim * CHUNK] == 0)
        for r in range(0, regions, 1 if largest else 2):
            if largest:
                one = slice(r * dim, (r + 1) * dim)
                inside = count_chebyshev(z, sign[one], gap[one], far[one], stop - start, unroll)
                closer[r] += inside
                if ties:
                    within = count_within_chebyshev(z, sign[one], gap[one], far[one], stop - start, unroll)
                    equal[r] += within - inside
                continue
            two = slice(r * dim, (r + 2) * dim)
            count_l1_pair(z, sign[two], twice[two], stop - start, unroll, found)
            closer[r] += found[0]
            equal[r] += found[2]
            if r + 1 < regions:
                closer[r + 1] += found[1]
                equal[r + 1] += found[3]
    return -1


@compiled(fastmath={"contract"})
def _count_angles(
    samples: NDArray,
    truth: NDArray,
    low: NDArray,
    inverse: NDArray,
    centers: NDArray,
    unroll: tuple[int, ...],
    closer: NDArray,
    equal: NDArray,
) -> int:
    r"""Counts under the cosine distance; returns a non-finite sample's index, or -1.

    Closer means a larger projection of the unit vector on the center, so the change of the unit vector from truth to
    sample, as a direction, goes through the Euclidean loop with a ball that passes through the origin.
    """
    count, (regions, dim) = samples.shape[0], centers.shape
    direction, half = np.zeros(dim * CHUNK, np.float32), np.zeros(CHUNK, np.float32)
    flat = np.zeros((regions + 1) * dim, np.float32)
    for r in range(regions):
        flat[r * dim : (r + 1) * dim] = centers[r]
    mine, change = np.empty(dim), np.empty(dim)
    length = 0.0
    for i in range(dim):
        mine[i] = (truth[i] - low[i]) * inverse[i]
        length += mine[i] * mine[i]
    length = np.sqrt(length)
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        copies = np.int32(0)
        for j in range(start, stop):
            square = moved = 0.0
            for i in range(dim):
                change[i] = (np.float64(samples[j, i]) - truth[i]) * inverse[i]
                y = mine[i] + change[i]
                square += y * y
            if not np.isfinite(square):
                return j
            size = np.sqrt(square)
            for i in range(dim):
                # y / |y| - y* / |y*| = (z - y* (|y| - |y*|) / |y*|) / |y|, without the difference of unit vectors.
                step = change[i] / size if size > 0 else 0.0
                if length > 0 and size > 0:
                    step -= mine[i] / length * ((size - length) / size)
                elif length > 0:
                    step = -mine[i] / length
                change[i] = step
                moved += step * step
            moved = np.sqrt(moved)
            for i in range(dim):
                direction[i * CHUNK + j - start] = np.float32(change[i] / moved if moved > 0 else 0.0)
            copies += np.int32(moved == 0)
        for r in range(0, regions, 2):
            first, second = count_pair(direction, half, flat[r * dim : (r + 2) * dim], stop - start, unroll)
            closer[r] += first
            equal[r] += copies
            if r + 1 < regions:
                closer[r + 1] += second
                equal[r + 1] += copies
    return -1


# No fused multiply-add here: a copy of the truth must give exactly zero, whichever way its power is computed.
@compiled()
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
    generic: bool,
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    r"""Counts the samples of one fiducial that are closer to each center than the truth, and the ties.

    Arguments:
        samples: The samples, with shape $(S, d)$.
        truth: The truth, with shape $(d,)$.
        low: What the scale subtracts, with shape $(d,)$.
        inverse: What the scale multiplies by, with shape $(d,)$.
        centers: The centers in scaled coordinates, with shape $(R, d)$.
        distance: The distance, on the scaled coordinates.
        generic: Whether the centers follow a continuous law, so that ties are copies of the truth.

    Returns:
        The counts, each with shape $(R,)$, and the index of a sample that is not finite, or -1.
    """

    closer, equal = np.zeros(len(centers), np.int32), np.zeros(len(centers), np.int32)
    origin = (truth - low) * inverse
    offsets = centers - origin
    unroll = (0,) * len(truth)
    if distance.name in ("l1", "chebyshev") and len(truth) <= UNROLLED:
        largest = distance.name == "chebyshev"
        return closer, equal, _count_boxes(samples, truth, inverse, offsets, largest, generic, unroll, closer, equal)
    if distance.name == "cosine" and len(truth) <= UNROLLED:
        return closer, equal, _count_angles(samples, truth, low, inverse, centers, unroll, closer, equal)
    for start in range(0, len(samples), CHUNK):
        part = samples[start : start + CHUNK]
        z = (part - truth) * inverse
        finite = np.isfinite(z).all(axis=1)
        if not finite.all():
            return closer, equal, start + int(np.argmin(finite))
        if distance.name == "minkowski":
            _count_power(np.ascontiguousarray(z.T), offsets, distance.power, closer, equal)
            continue
        frame = (z, offsets, np.zeros_like(origin)) if distance.translates else (z + origin, centers, origin)
        points, around, mine = frame
        far = pairwise(np.concatenate([mine[None], points]), around.astype(np.float64), distance)
        closer += np.count_nonzero(far[:, 1:] < far[:, :1], axis=1).astype(np.int32)
        equal += np.count_nonzero(far[:, 1:] == far[:, :1], axis=1).astype(np.int32)
    return closer, equal, -1


def pairwise(points: NDArray[np.float64], centers: NDArray[np.float64], distance: Distance) -> NDArray[np.float64]:
    r"""Returns the distances between centers $(R, d)$ and points $(N, d)$, with shape $(R, N)$."""

    if distance.function is not None:
        rows = [np.asarray(distance.function(points, center)) for center in centers]
        if rows[0].shape != (len(points),):
            raise UsageError(
                f"the distance returned shape {rows[0].shape} for {len(points)} points and one center; "
                f"({len(points)},) is needed"
            )
        return np.stack(rows)
    if distance.name == "minkowski":
        return scipy.spatial.distance.cdist(centers, points, "minkowski", p=distance.power)
    names = {"l1": "cityblock", "l2": "sqeuclidean", "chebyshev": "chebyshev"}
    if distance.name == "cosine":
        return -_unit(centers) @ _unit(points).T
    return scipy.spatial.distance.cdist(centers, points, names[distance.name])
