r"""The innermost loops: counts over a chunk of samples, for two centers at a time where that is faster.

Samples lie in a flat buffer with one row of `CHUNK` per dimension. The number of dimensions is the length of the tuple
`unroll`, a compile-time constant: the loop over dimensions disappears and the one over samples becomes SIMD. What
belongs to the two centers comes as a slice: an index that the compiler cannot prove positive costs a factor of ten.
"""

__all__ = [
    "CHUNK",
    "count_chebyshev",
    "count_l1_pair",
    "count_pair",
    "count_within_chebyshev",
    "directions",
    "relative",
]

import numpy as np
from numpy.typing import NDArray

from ..compiling import compiled

CHUNK = 512  # samples in flight: they stay in the L1/L2 cache


# `contract` allows fused multiply-adds and nothing else: no reassociation, so the same input gives the same bits
# whether the machine code was just compiled or comes from the cache.
@compiled(fastmath={"contract"})
def directions(
    samples: NDArray, truth: NDArray, inverse: NDArray, start: int, stop: int, direction: NDArray, half: NDArray
) -> int:
    r"""Fills the unit directions and half lengths of samples; returns a non-finite sample's index, or -1."""
    dim = truth.shape[0]
    for j in range(start, stop):
        square = 0.0
        for i in range(dim):
            z = (np.float64(samples[j, i]) - truth[i]) * inverse[i]
            square += z * z
        if not np.isfinite(square):
            return j
        length = np.sqrt(square)
        per_length = 1.0 / length if length > 0 else 0.0
        half[j - start] = np.float32(0.5 * length)
        for i in range(dim):
            z = (np.float64(samples[j, i]) - truth[i]) * inverse[i]
            direction[i * CHUNK + j - start] = np.float32(z * per_length)
    return -1


@compiled(fastmath={"contract"})
def count_pair(
    direction: NDArray, half: NDArray, offsets: NDArray, size: int, unroll: tuple[int, ...]
) -> tuple[np.int32, np.int32]:
    r"""Counts the samples inside the balls around two centers."""
    # len(unroll) is a compile-time constant: the inner loop disappears and the outer one becomes SIMD.
    width = len(unroll)
    first, second = np.int32(0), np.int32(0)
    for j in range(size):
        a = b = -half[j]
        for i in range(width):
            n = direction[i * CHUNK + j]
            a += offsets[i] * n
            b += offsets[width + i] * n
        first = np.int32(first + np.int32(a > np.float32(0)))
        second = np.int32(second + np.int32(b > np.float32(0)))
    return first, second


@compiled(fastmath={"contract"})
def relative(samples: NDArray, truth: NDArray, inverse: NDArray, start: int, stop: int, out: NDArray) -> int:
    r"""Fills the scaled differences between samples and truth; returns a non-finite sample's index, or -1."""
    dim = truth.shape[0]
    for j in range(start, stop):
        for i in range(dim):
            z = (np.float64(samples[j, i]) - truth[i]) * inverse[i]
            if not np.isfinite(z):
                return j
            out[i * CHUNK + j - start] = np.float32(z)
    return -1


# |z - b| - |b| = max(-w, w - 2|b|) with w = sign(b) z: no difference of large numbers when the posterior is narrow.
# Everything is finite here (`relative` has checked), and without NaN and signed zeros a maximum is one instruction.
@compiled(fastmath={"contract", "nnan", "nsz"})
def count_l1_pair(
    z: NDArray, sign: NDArray, twice: NDArray, size: int, unroll: tuple[int, ...], found: NDArray
) -> None:
    r"""Counts samples inside the l1 balls around two centers, and those on their surface: found is [in, in, on, on]."""
    width = len(unroll)
    first, second, on_first, on_second = np.int32(0), np.int32(0), np.int32(0), np.int32(0)
    for j in range(size):
        a = b = np.float32(0)
        for i in range(width):
            v = z[i * CHUNK + j]
            p, q = sign[i] * v, sign[width + i] * v
            a += np.fmax(-p, p - twice[i])
            b += np.fmax(-q, q - twice[width + i])
        first = np.int32(first + np.int32(a < np.float32(0)))
        second = np.int32(second + np.int32(b < np.float32(0)))
        on_first = np.int32(on_first + np.int32(a == np.float32(0)))
        on_second = np.int32(on_second + np.int32(b == np.float32(0)))
    found[0], found[1], found[2], found[3] = first, second, on_first, on_second


# Inside a cube means inside in every dimension: -gap < w < 2|b| + gap, where gap is how far |b| is below the largest.
@compiled(fastmath={"contract", "nnan", "nsz"})
def count_chebyshev(
    z: NDArray, sign: NDArray, gap: NDArray, far: NDArray, size: int, unroll: tuple[int, ...]
) -> np.int32:
    r"""Counts samples inside the cube around one center."""
    inside = np.int32(0)
    for j in range(size):
        every = True
        for i in range(len(unroll)):
            w = sign[i] * z[i * CHUNK + j]
            every = every & (w > -gap[i]) & (w < far[i])
        inside = np.int32(inside + np.int32(every))
    return inside


@compiled(fastmath={"contract", "nnan", "nsz"})
def count_within_chebyshev(
    z: NDArray, sign: NDArray, gap: NDArray, far: NDArray, size: int, unroll: tuple[int, ...]
) -> np.int32:
    r"""Counts samples inside the cube around one center or on its surface."""
    within = np.int32(0)
    for j in range(size):
        every = True
        for i in range(len(unroll)):
            w = sign[i] * z[i * CHUNK + j]
            every = every & (w >= -gap[i]) & (w <= far[i])
        within = np.int32(within + np.int32(every))
    return within
