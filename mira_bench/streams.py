r"""Randomness: a seed and a purpose in, an independent stream out.

Every random number of a run belongs to a stream named by what it is for (data, samples, centers, ties, ...) and by
the block or fiducial it serves. Nothing depends on the order of the work, the number of workers or a restart.
"""

__all__ = ["fiducial_keys", "forked", "generator", "uniforms"]

import hashlib
import json
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
from numpy.typing import NDArray

from .compiling import compiled

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)


def _digest(seed: int, purpose: tuple[object, ...]) -> int:
    text = json.dumps([int(seed), *map(str, purpose)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")


def generator(seed: int, *purpose: object) -> np.random.Generator:
    r"""Returns the NumPy generator of a purpose.

    Arguments:
        seed: The seed of the run.
        purpose: What the stream is for, e.g. `("samples", "gaussian", "correct", 3)`.
    """

    return np.random.Generator(np.random.PCG64(_digest(seed, purpose)))


@contextmanager
def forked(seed: int, *purpose: object) -> Iterator[None]:
    r"""Seeds the global random states of Python, NumPy and, if it is in use, torch, and puts the old ones back.

    For libraries and users that know no other randomness; sbi uses two of the three. Threads share these states, so
    units of work never run in threads.
    """

    ours = generator(seed, *purpose)
    with seeded(*(int(ours.integers(2**32)) for _ in range(3))):
        yield


@contextmanager
def seeded(python: int, numpy: int, torch: int) -> Iterator[None]:
    r"""Seeds the global random states with given numbers, and puts the old ones back.

    Arguments:
        python: The seed of Python's `random`.
        numpy: The seed of NumPy's global state.
        torch: The seed of torch, if it is in use.
    """

    library = sys.modules.get("torch")
    states = random.getstate(), np.random.get_state()
    with library.random.fork_rng() if library is not None else nullcontext():
        try:
            random.seed(python)
            np.random.seed(numpy)
            if library is not None:
                library.manual_seed(torch)
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


@compiled()
def _mix(x: np.uint64) -> np.uint64:
    x = (x ^ (x >> np.uint64(30))) * _MIX_A
    x = (x ^ (x >> np.uint64(27))) * _MIX_B
    return x ^ (x >> np.uint64(31))


@compiled()
def _fill(keys: NDArray[np.uint64], out: NDArray[np.float32]) -> None:
    # SplitMix64 in counter mode (Steele, Lea & Flood 2014): two 24-bit uniforms from each word.
    half = (out.shape[1] + 1) // 2
    scale = np.float32(2.0**-24)
    for row in range(out.shape[0]):
        for i in range(half):
            word = _mix(keys[row] + np.uint64(i + 1) * _GOLDEN)
            out[row, 2 * i] = np.float32(word >> np.uint64(40)) * scale
            if 2 * i + 1 < out.shape[1]:
                low = (word >> np.uint64(8)) & np.uint64(0xFFFFFF)
                out[row, 2 * i + 1] = np.float32(low) * scale


def fiducial_keys(seed: int, purpose: str, index: NDArray[np.integer]) -> NDArray[np.uint64]:
    r"""Returns one 64-bit key per fiducial, so that each has a stream of its own.

    Arguments:
        seed: The seed of the run.
        purpose: What the streams are for, e.g. `"centers"`.
        index: The indices of the fiducials, with shape $(L,)$.
    """

    start = np.uint64(_digest(seed, (purpose,)) & 0xFFFFFFFFFFFFFFFF)
    with np.errstate(over="ignore"):
        keys = start ^ (np.asarray(index).astype(np.uint64) * _MIX_A)
        keys = (keys ^ (keys >> np.uint64(33))) * _MIX_B
        keys = (keys ^ (keys >> np.uint64(29))) * _GOLDEN
    return np.asarray(keys ^ (keys >> np.uint64(32)), dtype=np.uint64)


def uniforms(keys: NDArray[np.uint64], count: int) -> NDArray[np.float32]:
    r"""Returns `count` numbers in $[0, 1)$ from each of the keyed streams, with shape `(len(keys), count)`.

    A counter-based generator: about a nanosecond a number, no state, any row on its own.
    """

    out = np.empty((len(keys), count), dtype=np.float32)
    _fill(keys, out)
    return out
