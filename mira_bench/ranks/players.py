r"""The exact null: let every point of a fiducial play the truth.

If a candidate is right, its $S$ samples and the truth are exchangeable, so any of the $S + 1$ points could have been
the truth. One sort per center gives the ball ranks of all of them. Drawing one player per fiducial, many times, gives
the null distribution of anything that is a mean over fiducials, for every $L$, $S$, $R$ and $d$.
"""

__all__ = ["Play", "ball_features", "expected_score", "play", "play_histogram", "random_axes", "region_score"]

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..compiling import compiled
from ..streams import generator
from .centers import Centers
from .distances import Distance
from .kernel import EUCLIDEAN, far_from, frame, one_blas_thread
from .scaling import Scale

CHUNK = 2**13  # distances that are sorted at a time: they stay in the cache, and need no new pages


def expected_score(samples: int) -> float:
    r"""The MIRA score of a perfect candidate, $(2S + 1) / (3(S + 1))$."""

    return (2 * samples + 1) / (3 * (samples + 1))


def region_score(ranks: NDArray, samples: int) -> NDArray[np.float64]:
    r"""The MIRA statistic averaged over all references, $P(J) = 1/2 + J (S - J) / (S (S + 1))$."""

    j = ranks.astype(np.float64)
    return np.asarray(0.5 + j * (samples - j) / (samples * (samples + 1)))


def random_axes(count: int, dim: int, seed: int) -> NDArray[np.float64]:
    r"""Returns random unit vectors, with shape $(q, d)$."""

    axes = generator(seed, "projections").standard_normal((count, dim))
    return axes / np.linalg.norm(axes, axis=1, keepdims=True)


@dataclass(frozen=True)
class Play:
    r"""What the players of some fiducials give: the MIRA score and the tilt, relative to their null expectation.

    Arguments:
        observed: Those of the truths, $(L, 2)$.
        variance: Their null variance, over the players of each fiducial, $(L, 2)$.
        null: Sums over the fiducials of those of randomly chosen players, $(B, 2)$.
    """

    observed: NDArray[np.float64]
    variance: NDArray[np.float64]
    null: NDArray[np.float64]


@compiled()
def _rank_features(order: NDArray, score: NDArray, tilt: NDArray, out: NDArray) -> None:
    regions, points = order.shape
    for r in range(regions):
        for k in range(points):
            out[order[r, k], 0] += score[k]
            out[order[r, k], 1] += tilt[k]


@compiled()
def _find_ties(far: NDArray, order: NDArray, tied: NDArray) -> None:
    regions, points = order.shape
    for r in range(regions):
        for k in range(1, points):
            if far[r, order[r, k]] == far[r, order[r, k - 1]]:
                tied[r] = True
                break


def _orders(
    points: NDArray[np.float64],
    centers: NDArray[np.float64],
    distance: Distance,
    single: bool,
    rng: np.random.Generator,
) -> Iterator[NDArray[np.intp]]:
    r"""Yields, for a few centers at a time, the points by their distance $(r, N)$; ties are broken anew in each."""
    breaks = None
    step = max(1, CHUNK // len(points))
    for start in range(0, len(centers), step):
        far = far_from(points, centers[start : start + step], distance)
        # Single precision sorts twice as fast; what is relative to the truth has digits to spare.
        order = np.argsort(far.astype(np.float32) if single else far, axis=1)
        tied = np.zeros(len(order), np.bool_)
        _find_ties(far, order, tied)
        for r in np.flatnonzero(tied):
            breaks = rng.spawn(1)[0] if breaks is None else breaks
            order[r] = np.lexsort((breaks.random(far.shape[1]), far[r]))
        yield order


def ball_features(
    points: NDArray[np.float64], centers: NDArray[np.float64], distance: Distance, rng: np.random.Generator
) -> NDArray[np.float64]:
    r"""The features of all S + 1 points of one fiducial; the truth is the first row."""
    samples = len(points) - 1
    shuffle = rng.permutation(samples + 1)  # a sort may order what is all but equal by position
    ranks = np.arange(samples + 1)
    score = (region_score(ranks, samples) - expected_score(samples)) / len(centers)
    tilt = (ranks / max(samples, 1) - 0.5) / len(centers)
    out = np.zeros((samples + 1, 2))
    for order in _orders(points[shuffle], centers, distance, distance.translates, rng):
        _rank_features(order, score, tilt, out)
    result = np.empty_like(out)
    result[shuffle] = out
    return result


def play(
    truths: NDArray[np.float64],
    samples: Array,
    scale: Scale,
    centers: Centers,
    *,
    distance: Distance = EUCLIDEAN,
    seed: int,
    index: NDArray[np.integer],
    replicates: int = 999,
) -> Play:
    r"""Lets every point of every given fiducial play the truth.

    Arguments:
        truths: The truths, with shape $(L, d)$.
        samples: The samples, with shape $(L, S, d)$.
        scale: The scale of these fiducials.
        centers: Draws the centers of given fiducials.
        distance: The distance, on the scaled coordinates.
        seed: The seed of the players.
        index: The indices of the fiducials in the whole run, with shape $(L,)$.
        replicates: How many times a player per fiducial is drawn.
    """

    fiducials, count = truths.shape[0], samples.shape[1]
    observed, variance = np.empty((fiducials, 2)), np.empty((fiducials, 2))
    null = np.zeros((replicates, 2))
    with one_blas_thread():
        for l in range(fiducials):
            rng = generator(seed, "players", int(index[l]))
            points, around = frame(truths[l], samples[l], scale, l, centers, index[l : l + 1], distance)
            table = ball_features(points, around, distance, rng)
            observed[l] = table[0]
            variance[l] = table.var(axis=0)
            null += table[rng.integers(0, count + 1, size=replicates)]
    return Play(observed, variance, null)


@compiled()
def _add_ranks(order: NDArray, players: NDArray, rank: NDArray, out: NDArray) -> None:
    regions, points = order.shape
    for r in range(regions):
        for k in range(points):
            rank[order[r, k]] = k
        for b in range(len(players)):
            out[b, rank[players[b]]] += 1


def play_histogram(
    truths: NDArray[np.float64],
    samples: Array,
    scale: Scale,
    centers: Centers,
    *,
    distance: Distance = EUCLIDEAN,
    seed: int,
    index: NDArray[np.integer],
    replicates: int = 199,
) -> NDArray[np.int64]:
    r"""Returns how often each ball rank occurs for randomly chosen players, with shape $(B, S + 1)$.

    The arguments are those of `play`. Sums over blocks of fiducials are those of all of them.
    """

    count = samples.shape[1]
    out = np.zeros((replicates, count + 1), np.int64)
    rank = np.empty(count + 1, np.int64)
    with one_blas_thread():
        for l in range(len(truths)):
            rng = generator(seed, "histogram players", int(index[l]))
            points, around = frame(truths[l], samples[l], scale, l, centers, index[l : l + 1], distance)
            shuffled = points[rng.permutation(count + 1)]
            players = rng.integers(0, count + 1, size=replicates)
            for order in _orders(shuffled, around, distance, False, rng):
                _add_ranks(order, players, rank, out)
    return out
