r"""Ball ranks and marginal ranks: the one hot kernel.

For a fiducial with truth $y^*$, samples $y_1, \dots, y_S$ and a center $c$, the ball rank is the number of samples
that are closer to the center than the truth is,

$$ J = \#\{j : d(y_j, c) < d(y^*, c)\} \in \{0, \dots, S\}. $$

MIRA, its drawn variant and TARP are functions of $J$ alone. With $z_j = y_j - y^*$ and $b = c - y^*$ the Euclidean
comparison needs no distance at all,

$$ d(y_j, c) < d(y^*, c) \iff \tfrac{1}{2} |z_j| < b \cdot z_j / |z_j| , $$

so a rank is a product of centers and *unit directions* and a count. Everything is relative to the truth (taken in
float64), so large offsets cancel before single precision begins, and every direction has length one, so neither a
narrow posterior nor an outlier leaves the range of float32.
"""

__all__ = [
    "EUCLIDEAN",
    "available_threads",
    "ball_ranks",
    "break_ties",
    "marginal_ranks",
    "projected_ranks",
    "sample_influence",
]

import functools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from ..arrays import Array, as_host, is_device_tensor, refuse_non_finite
from ..compiling import compiled
from ..errors import UsageError
from ..streams import fiducial_keys, uniforms
from .centers import Centers
from .compiled import CHUNK, count_pair, directions
from .distances import Distance, count_closer, pairwise
from .scaling import Scale

EUCLIDEAN = Distance("l2")

_FUSED = (2, 4, 8, 16)  # dimensions that the fused loop is unrolled for; beyond, a BLAS product is faster
_BLOCK_BYTES = 2**21  # centers of a block of fiducials


@compiled()
def _count_block(
    samples: NDArray,
    truths: NDArray,
    low: NDArray,
    inverse: NDArray,
    centers: NDArray,
    unroll: tuple[int, ...],
    closer: NDArray,
    equal: NDArray,
) -> int:
    r"""Adds to `closer` and `equal`, both (L, R); returns the flat index of a non-finite sample, or -1."""
    fiducials, count, dim = samples.shape
    regions = centers.shape[1]
    width = len(unroll)
    direction = np.zeros(width * CHUNK, np.float32)
    half = np.empty(CHUNK, np.float32)
    offsets = np.zeros((regions + 1) * width, np.float32)
    for l in range(fiducials):
        row = l if inverse.shape[0] > 1 else 0
        for r in range(regions):
            for i in range(dim):
                offset = centers[l, r, i] - (truths[l, i] - low[row, i]) * inverse[row, i]
                offsets[r * width + i] = np.float32(offset)
        for start in range(0, count, CHUNK):
            stop = min(start + CHUNK, count)
            size = stop - start
            bad = directions(samples[l], truths[l], inverse[row], start, stop, direction, half)
            if bad >= 0:
                return l * count + bad
            copies = np.int32(0)
            for j in range(size):
                copies += np.int32(half[j] == 0)
            for r in range(0, regions, 2):
                first, second = count_pair(direction, half, offsets[r * width : (r + 2) * width], size, unroll)
                closer[l, r] += first
                equal[l, r] += copies
                if r + 1 < regions:
                    closer[l, r + 1] += second
                    equal[l, r + 1] += copies
    return -1


@compiled(fastmath={"contract"})
def _unit_rows(samples: NDArray, truth: NDArray, inverse: NDArray, direction: NDArray, half: NDArray) -> int:
    r"""Like `_directions`, with one row per sample, for a BLAS product."""
    count, dim = samples.shape
    lanes = dim // 4 * 4
    for j in range(count):
        a = b = c = d = 0.0  # four sums in a fixed order: as fast as a reassociated one, and always the same bits
        for i in range(0, lanes, 4):
            a += ((np.float64(samples[j, i]) - truth[i]) * inverse[i]) ** 2
            b += ((np.float64(samples[j, i + 1]) - truth[i + 1]) * inverse[i + 1]) ** 2
            c += ((np.float64(samples[j, i + 2]) - truth[i + 2]) * inverse[i + 2]) ** 2
            d += ((np.float64(samples[j, i + 3]) - truth[i + 3]) * inverse[i + 3]) ** 2
        for i in range(lanes, dim):
            a += ((np.float64(samples[j, i]) - truth[i]) * inverse[i]) ** 2
        square = (a + b) + (c + d)
        if not np.isfinite(square):
            return j
        length = np.sqrt(square)
        per_length = 1.0 / length if length > 0 else 0.0
        half[j] = np.float32(0.5 * length)
        for i in range(dim):
            direction[j, i] = np.float32((np.float64(samples[j, i]) - truth[i]) * inverse[i] * per_length)
    return -1


def _count_wide(
    samples: NDArray[np.floating],
    truth: NDArray[np.float64],
    low: NDArray[np.float64],
    inverse: NDArray[np.float64],
    centers: NDArray[np.float32],
) -> tuple[NDArray[np.int32], int, int]:
    r"""The ranks of one fiducial in many dimensions."""
    closer = np.zeros(len(centers), np.int32)
    copies = 0
    for start, inside, same, bad in _closer_chunks(samples, truth, low, inverse, centers):
        if bad >= 0:
            return closer, copies, start + bad
        closer += np.count_nonzero(inside, axis=1).astype(np.int32)
        copies += same
    return closer, copies, -1


def _closer_chunks(
    samples: NDArray[np.floating],
    truth: NDArray[np.float64],
    low: NDArray[np.float64],
    inverse: NDArray[np.float64],
    centers: NDArray[np.float32],
) -> Iterator[tuple[int, NDArray[np.bool_], int, int]]:
    r"""Yields per chunk of samples: its start, which samples are closer to each center than the truth, $(R, chunk)$,
    how many are at the truth itself, and the first that is not finite, or -1.

    Each chunk is a product of centers and unit directions.
    """
    count, dim = samples.shape
    # Rounding an offset moves a random center by as much, for all samples alike: harmless.
    offsets = centers - ((truth - low) * inverse).astype(np.float32)
    step = max(64, 2**17 // dim)
    direction, half = np.empty((min(step, count), dim), np.float32), np.empty(min(step, count), np.float32)
    for start in range(0, count, step):
        part = _host(samples[start : start + step])
        d, h = direction[: len(part)], half[: len(part)]
        bad = _unit_rows(part, truth, inverse, d, h)
        yield start, offsets @ d.T > h, int(np.count_nonzero(h == 0)), bad


def _count_torch(
    samples: Array,
    truth: NDArray[np.float64],
    low: NDArray[np.float64],
    inverse: NDArray[np.float64],
    centers: NDArray[np.float32],
) -> tuple[NDArray[np.int32], int, int]:
    r"""The ranks of one fiducial on the device where its samples live."""
    import torch

    double = torch.float32 if samples.device.type == "mps" else torch.float64
    place = {"device": samples.device, "dtype": double}
    y, scale = torch.as_tensor(truth, **place), torch.as_tensor(inverse, **place)
    z = (samples.to(double) - y) * scale
    length = z.norm(dim=1)
    finite = torch.isfinite(length)
    if not finite.all():
        return np.zeros(len(centers), np.int32), 0, int(torch.argmin(finite.int()))
    direction = (z / torch.where(length > 0, length, 1.0)[:, None]).float()
    offset = torch.as_tensor(centers, device=samples.device) - ((y - torch.as_tensor(low, **place)) * scale)
    closer = (offset.float() @ direction.T > (0.5 * length).float()).sum(dim=1)
    return closer.int().cpu().numpy(), int((length == 0).sum()), -1


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks for all loaded libraries, which takes milliseconds


def one_blas_thread() -> AbstractContextManager[object]:
    r"""Keeps BLAS to one thread: the work is divided above it, and its results must not depend on its threads."""

    return _controller().limit(limits=1, user_api="blas")


def _unroll(dim: int) -> tuple[int, ...]:
    return (0,) * next(width for width in _FUSED if dim <= width)


def _host(block: Array) -> NDArray[np.floating]:
    dtype = np.float64 if block.dtype.itemsize > 4 else np.float32
    return np.ascontiguousarray(block, dtype=dtype)


def ball_ranks(
    truths: NDArray[np.float64],
    samples: Array,
    scale: Scale,
    centers: Centers,
    *,
    distance: Distance = EUCLIDEAN,
    seed: int = 0,
    index: NDArray[np.integer] | None = None,
    threads: int = 1,
    name: str = "samples",
) -> NDArray[np.int32]:
    r"""Returns the ball ranks $J$, with shape $(L, R)$.

    Samples that coincide with the truth (under other distances than the Euclidean one: that are as far from the
    center) are ties. They are broken at random, $J + \mathcal{U}\{0, \dots, t\}$, and $J$ stays uniform under the null.

    Arguments:
        truths: The truths, with shape $(L, d)$.
        samples: The samples, with shape $(L, S, d)$; never copied as a whole.
        scale: The scale on which distances are measured.
        centers: Draws the centers of given fiducials.
        distance: The distance, on the scaled coordinates.
        seed: The seed of the ties.
        index: The fiducials' own indices, if they are a part of a larger set.
        threads: The number of threads; the result does not depend on it.
        name: What to call the samples in an error.
    """

    fiducials, dim = truths.shape
    index = np.arange(fiducials) if index is None else np.asarray(index)
    regions = centers.draw(index[:1]).shape[1]
    closer = np.zeros((fiducials, regions), np.int32)
    equal = np.zeros((fiducials, regions), np.int32)
    on_device = is_device_tensor(samples)
    euclidean = distance.name == "l2"
    fused = dim <= _FUSED[-1] and not on_device and euclidean
    per_block = max(1, _BLOCK_BYTES // (4 * regions * dim))
    per_block = min(per_block, -(-fiducials // threads))
    if fused and not (samples.flags.c_contiguous and samples.dtype in (np.float32, np.float64)):
        # These are copied block by block: into another precision, or from one set that all fiducials share.
        per_block = max(1, min(per_block, 4 * _BLOCK_BYTES // (8 * samples.shape[1] * dim)))
    blocks = [slice(i, min(i + per_block, fiducials)) for i in range(0, fiducials, per_block)]

    def refuse(at: int) -> None:
        where = divmod(at, samples.shape[1])
        raise UsageError(
            f"{name} holds a NaN, an infinite or an overflowing value at fiducial {index[where[0]]}, "
            f"sample {where[1]}; finite numbers are needed"
        )

    def work(block: slice) -> None:
        low, width = scale.rows(block)
        drawn = centers.scaled(index[block], low, width)
        if fused:
            values = _host(samples[block])
            bad = _count_block(
                values, truths[block], low, 1.0 / width, drawn, _unroll(dim), closer[block], equal[block]
            )  # fmt: skip
            if bad >= 0:
                refuse(block.start * samples.shape[1] + bad)
            return
        for l in range(block.start, block.stop):
            row = l - block.start if len(low) > 1 else 0
            given = truths[l], low[row], 1.0 / width[row], drawn[l - block.start]
            if not euclidean:
                values = _host(as_host(samples[l]) if on_device else samples[l])
                closer[l], equal[l], bad = count_closer(values, *given, distance, not centers.own_units)
            else:
                count = _count_torch if on_device else _count_wide
                closer[l], equal[l], bad = count(samples[l], *given)
            if bad >= 0:
                refuse(l * samples.shape[1] + bad)

    with one_blas_thread():
        if threads > 1 and len(blocks) > 1 and not on_device:
            with ThreadPoolExecutor(min(threads, len(blocks))) as pool:
                list(pool.map(work, blocks))
        else:
            for block in blocks:
                work(block)
    return break_ties(closer, equal, fiducial_keys(seed, "ties", index))


def break_ties(below: NDArray[np.int32], equal: NDArray[np.int32], keys: NDArray[np.uint64]) -> NDArray[np.int32]:
    r"""Adds $\mathcal{U}\{0, \dots, t\}$ to ranks $(L, R)$ that have $t$ ties; there is a key per fiducial."""

    tied = equal.any(axis=1)
    if tied.any():
        u = uniforms(keys[tied], below.shape[1])
        # min: the product of a float32 just below one and t + 1 may round up to t + 1.
        below[tied] += np.minimum(u * (equal[tied] + 1), equal[tied]).astype(np.int32)
    return below


def marginal_ranks(
    truths: NDArray[np.float64],
    samples: Array,
    *,
    seed: int = 0,
    index: NDArray[np.integer] | None = None,
    name: str = "samples",
) -> NDArray[np.int32]:
    r"""Returns the number of samples below the truth in every dimension, $(L, d)$, ties broken at random."""

    index = np.arange(len(truths)) if index is None else np.asarray(index)
    below = np.empty(truths.shape, np.int32)
    equal = np.empty(truths.shape, np.int32)
    for block in _slices(len(truths), samples.shape[1] * samples.shape[2]):
        values = samples[block]
        values = as_host(values) if is_device_tensor(values) else values
        refuse_non_finite(values, name, block.start)
        truth = truths[block][:, None]
        below[block] = np.count_nonzero(values < truth, axis=1)
        equal[block] = np.count_nonzero(values == truth, axis=1)
    return break_ties(below, equal, fiducial_keys(seed, "marginal ties", index))


def projected_ranks(
    truths: NDArray[np.float64],
    samples: Array,
    scale: Scale,
    axes: NDArray[np.float64],
    *,
    seed: int = 0,
    index: NDArray[np.integer] | None = None,
) -> NDArray[np.int32]:
    r"""Returns the ranks of the truth along directions $(q, d)$ of the rescaled space, with shape $(L, q)$."""

    along = np.empty((len(truths), samples.shape[1], len(axes)))
    for l, truth in enumerate(truths):
        width = scale.rows(slice(l, l + 1))[1][0]
        # Relative to the truth, a sample that coincides with it is a tie along every direction, to the bit.
        along[l] = (as_host(samples[l]) - truth) / width @ axes.T
    return marginal_ranks(np.zeros((len(truths), len(axes))), along, seed=seed, index=index)


def _slices(fiducials: int, entries: int) -> Iterator[slice]:
    step = max(1, _BLOCK_BYTES // max(1, entries))
    return (slice(i, min(i + step, fiducials)) for i in range(0, fiducials, step))


def sample_influence(
    truths: NDArray[np.float64],
    samples: Array,
    scale: Scale,
    centers: Centers,
    weights: NDArray[np.float64],
    index: NDArray[np.integer],
    distance: Distance = EUCLIDEAN,
) -> NDArray[np.float64]:
    r"""Returns $\sum_{l, r} w_{lr} 1[d(y_j, c_{lr}) < d(y^*_l, c_{lr})]$ for samples that all the truths share.

    Arguments:
        truths: The truths that share the samples, with shape $(L, d)$.
        samples: The shared samples, with shape $(S, d)$.
        scale: The scale of these fiducials.
        centers: Draws the centers of given fiducials.
        weights: The weight of each region, with shape $(L, R)$.
        index: The fiducials' indices, with shape $(L,)$.
        distance: The distance, on the scaled coordinates.
    """

    out = np.zeros(samples.shape[0])
    shared = as_host(samples)
    with one_blas_thread():
        for l in range(len(truths)):
            if distance.name != "l2":
                points, around = frame(truths[l], shared, scale, l, centers, index[l : l + 1], distance)
                far = far_from(points, around, distance)
                out += weights[l] @ (far[:, 1:] < far[:, :1])
                continue
            low, width = scale.rows(slice(l, l + 1))
            drawn = centers.scaled(index[l : l + 1], low, width)[0]
            weight = weights[l].astype(np.float32)
            for start, inside, _, _ in _closer_chunks(shared, truths[l], low[0], 1.0 / width[0], drawn):
                out[start : start + inside.shape[1]] += weight @ inside
    return out


def frame(
    truth: NDArray[np.float64],
    samples: Array,
    scale: Scale,
    row: int,
    centers: Centers,
    index: NDArray[np.integer],
    distance: Distance,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Returns the points of one fiducial, truth first, and its centers, in scaled coordinates around the truth.

    A distance that is not a function of differences gets them around the scale's own origin.
    """

    low, width = scale.rows(slice(row, row + 1))
    around = centers.scaled(index, low, width)[0].astype(np.float64)
    origin = truth if distance.translates else low[0]
    points = (np.concatenate([truth[None], as_host(samples)]) - origin) / width[0]
    return points, around - (origin - low[0]) / width[0]


def far_from(points: NDArray[np.float64], centers: NDArray[np.float64], distance: Distance) -> NDArray[np.float64]:
    r"""Returns something that orders the points $(N, d)$ by their distance to each center $(R, d)$: $(R, N)$."""

    if distance.name == "l2":
        # |y - c|^2 without the part that all points share: no large numbers where the points are near the origin.
        return np.einsum("ij,ij->i", points, points) - 2 * centers @ points.T
    return pairwise(points, centers, distance)


def available_threads() -> int:
    r"""The number of cores that this process may use."""

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
