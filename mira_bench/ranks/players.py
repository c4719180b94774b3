r"""The exact null: let every point of a fiducial play the truth.

If a candidate is right, its $S$ samples and the truth are exchangeable, so any of the $S + 1$ points could have been
the truth. One sort per center gives the ball ranks of all of them. Drawing one player per fiducial, many times, gives
the null distribution of anything that is a mean over fiducials, for every $L$, $S$, $R$ and $d$.
"""

__all__ = ["Play", "feature_names", "marginal_axes", "play", "play_histogram", "random_axes", "width_effects"]

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

MARGINALS = 16  # beyond this many dimensions, random projections stand in for the marginals
PER_MARGINAL = ("location", "trend", "dispersion")


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


def marginal_axes(dim: int, seed: int) -> NDArray[np.float64]:
    r"""Returns the directions of the marginals, $(q, d)$: the axes, or random unit vectors if they are many."""

    return np.eye(dim) if dim <= MARGINALS else random_axes(MARGINALS, dim, seed)


def feature_names(marginals: int) -> list[tuple[str, int]]:
    r"""The columns of a feature table: their kind and the marginal they belong to (-1 for the balls)."""

    return [("mira", -1), ("tilt", -1)] + [(kind, m) for m in range(marginals) for kind in PER_MARGINAL]


@dataclass(frozen=True)
class Play:
    r"""What the players of some fiducials give. All features are centered on their null expectation.

    Arguments:
        observed: The features of the true truths, $(L, F)$.
        variance: The null variance of each feature, over the players of each fiducial, $(L, F)$.
        null: Sums over the fiducials of the features of randomly chosen players, $(B, F)$.
    """

    observed: NDArray[np.float64]
    variance: NDArray[np.float64]
    null: NDArray[np.float64]


@compiled()
def _rank_features(order: NDArray, score: NDArray, out: NDArray) -> None:
    regions, points = order.shape
    for r in range(regions):
        for k in range(points):
            out[order[r, k], 0] += score[k] / regions
            out[order[r, k], 1] += (k / (points - 1) - 0.5) / regions


def _features(
    points: NDArray[np.float64],
    centers: NDArray[np.float64],
    distance: Distance,
    axes: NDArray[np.float64],
    trend: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    r"""The features of all S + 1 points of one fiducial; the truth is the first row."""
    samples = len(points) - 1
    shuffle = rng.permutation(samples + 1)  # ties are broken by position, so positions are random
    shuffled = points[shuffle]
    table = region_score(np.arange(samples + 1), samples) - expected_score(samples)
    out = np.zeros((samples + 1, 2 + len(PER_MARGINAL) * len(axes)))
    # Single precision sorts twice as fast; what is relative to the truth has digits to spare.
    far = far_from(shuffled, centers, distance)
    _rank_features(np.argsort(far.astype(np.float32) if distance.translates else far, axis=1), table, out)
    if len(axes):
        order = np.argsort(shuffled @ axes.T, axis=0, kind="stable")
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.arange(samples + 1)[:, None], axis=0)
        u = ranks / samples - 0.5
        out[:, 2::3] = u
        out[:, 3::3] = u * trend
        out[:, 4::3] = u**2 - null_dispersion(samples)
    result = np.empty_like(out)
    result[shuffle] = out
    return result


def null_dispersion(samples: int) -> float:
    r"""The mean of $(u - 1/2)^2$ for a rank $u = J / S$ of a perfect candidate."""

    u = np.arange(samples + 1) / samples - 0.5
    return float(np.mean(u**2))


def play(
    truths: NDArray[np.float64],
    samples: Array,
    scale: Scale,
    centers: Centers,
    *,
    distance: Distance = EUCLIDEAN,
    axes: NDArray[np.float64],
    trend: NDArray[np.float64],
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
        axes: The directions of the marginal features, with shape $(q, d)$; none of them if $q = 0$.
        trend: Where each fiducial's points lie along the axes, $(L, q)$: the weight of the trend feature.
        seed: The seed of the players.
        index: The indices of the fiducials in the whole run, with shape $(L,)$.
        replicates: How many times a player per fiducial is drawn.
    """

    fiducials, count = truths.shape[0], samples.shape[1]
    features = 2 + len(PER_MARGINAL) * len(axes)
    observed, variance = np.empty((fiducials, features)), np.empty((fiducials, features))
    null = np.zeros((replicates, features))
    with one_blas_thread():
        for l in range(fiducials):
            rng = generator(seed, "players", int(index[l]))
            points, around = frame(truths[l], samples[l], scale, l, centers, index[l : l + 1], distance)
            table = _features(points, around, distance, axes, trend[l], rng)
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
            # Ties are broken by position, so positions are random, and players are drawn by position.
            shuffled = points[rng.permutation(count + 1)]
            order = np.argsort(far_from(shuffled, around, distance), axis=1)
            _add_ranks(order, rng.integers(0, count + 1, size=replicates), rank, out)
    return out


WIDTHS = np.array([0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0])


def width_effects(
    samples: NDArray[np.float64],
    centers: NDArray[np.float64],
    axes: NDArray[np.float64],
    rng: np.random.Generator,
    players: int = 4,
) -> NDArray[np.float64]:
    r"""How the features of one fiducial move when the candidate's own draws get too narrow or too wide.

    Some samples play the truth; the others are stretched about their mean by each factor in `WIDTHS`. The same
    players and centers without the stretch are subtracted, which removes most of the noise.

    Arguments:
        samples: The samples of one fiducial on the common scale, with shape $(S, d)$.
        centers: The centers, with shape $(R, d)$.
        axes: The directions of the marginals.
        rng: The generator that picks the players.
        players: How many of the samples play the truth.

    Returns:
        The mean change of the features, with shape `(len(WIDTHS), F)`.
    """

    count = len(samples)
    y = samples - samples.mean(axis=0)
    c = centers - samples.mean(axis=0)
    factors = np.concatenate([[1.0], WIDTHS])
    effects = np.zeros((len(factors), 2 + len(PER_MARGINAL) * len(axes)))
    along, square, marginal = c @ y.T, np.einsum("ij,ij->i", y, y), y @ axes.T
    chosen = rng.permutation(count)[: min(players, count)]
    for m in chosen:
        rest = np.arange(count) != m
        mine = square[m] - 2 * along[:, m]
        for a, factor in enumerate(factors):
            theirs = factor**2 * square[rest] - 2 * factor * along[:, rest]
            j = np.count_nonzero(theirs < mine[:, None], axis=1)
            effects[a, 0] += region_score(j, count - 1).mean()
            effects[a, 1] += j.mean() / (count - 1)
            u = np.count_nonzero(factor * marginal[rest] < marginal[m], axis=0) / (count - 1) - 0.5
            effects[a, 2::3] += u
            effects[a, 4::3] += u**2
    return np.asarray((effects[1:] - effects[0]) / len(chosen))
