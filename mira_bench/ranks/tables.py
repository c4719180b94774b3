r"""Tables of ranks: where each point of a fiducial stands among all of them, the truth being one.

If a candidate is right, its samples and the truth are exchangeable given the observation. So every function of a point
and of the unordered set has an exact null: let each point of the set play the truth. Functions of ranks are robust, and
a table of ranks is all that is kept: of every point, its rank along the axes, along the whitened axes, in distance from
the middle, in likelihood, and how deep it lies in random balls.
"""

__all__ = ["Table", "marginal_axes", "midranks", "rank_table", "whitening"]

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiling import compiled
from .distances import Distance
from .kernel import EUCLIDEAN
from .players import ball_features, random_axes

MARGINALS = 16  # beyond this many dimensions, random projections stand in for the marginals
SHRINKAGE = 0.02  # of correlations towards zero, at least
DIGITS = 9  # of whitened coordinates, in standard deviations: what is equal in these is tied

Floats = NDArray[np.float64]


def marginal_axes(dim: int, seed: int) -> Floats:
    r"""Returns the directions of the marginals, $(q, d)$: the axes, or random unit vectors if they are many."""

    return np.eye(dim) if dim <= MARGINALS else random_axes(MARGINALS, dim, seed)


@compiled()
def _share_ranks(values: NDArray, order: NDArray, out: NDArray) -> None:
    rows, count = values.shape
    for i in range(rows):
        start = 0
        while start < count:
            stop = start + 1
            while stop < count and values[i, order[i, stop]] == values[i, order[i, start]]:
                stop += 1
            for k in range(start, stop):
                out[order[i, k], i] = start + stop - 1
            start = stop


def midranks(values: Floats) -> NDArray[np.uint32]:
    r"""Returns *twice* the rank, from 0, of every value in its row $(C, N)$, as $(N, C)$; equal values share theirs."""

    rows = np.ascontiguousarray(values, np.float64)
    out = np.empty(rows.shape[::-1], np.uint32)
    _share_ranks(rows, np.argsort(rows, axis=1), out)
    return out


def whitening(points: Floats) -> Floats:
    r"""Returns the matrix that whitens points $(N, q)$, the symmetric root of their inverse covariance, $(q, q)$.

    Correlations are shrunk, a little where points are many, completely where they are fewer than dimensions. The
    symmetric root keeps each axis as close to its own parameter as can be.
    """

    count, dim = points.shape
    centered = points - points.mean(axis=0)
    covariance = centered.T @ centered / count
    sd = np.sqrt(np.diag(covariance))
    fixed = sd == 0
    sd = np.where(fixed, 1.0, sd)
    shrink = min(1.0, SHRINKAGE + (dim / max(count - 1, 1)) ** 2)
    correlation = (1 - shrink) * covariance / np.outer(sd, sd)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    root = (vectors / np.sqrt(np.maximum(values, 1e-9))) @ vectors.T / sd[:, None]
    # An axis along which nothing moves would get the rounding errors of the others, and they would be ranked.
    root[:, fixed] = 0.0
    return np.asarray(root)


@dataclass(frozen=True)
class Table:
    r"""The ranks of the $N$ points of one set.

    Arguments:
        ranks: Twice the mid-ranks, with shape $(N, C)$: along the $q$ axes; if there are several, along the $q$
            whitened axes and in distance from the middle; in likelihood, if there is one.
        balls: The MIRA score and the tilt of every point in random balls, relative to the null, $(N, 2)$.
    """

    ranks: NDArray[np.uint32]
    balls: NDArray[np.float32]


def rank_table(
    points: Floats,
    centers: Floats,
    axes: Floats,
    *,
    distance: Distance = EUCLIDEAN,
    likelihood: Floats | None = None,
    rng: np.random.Generator,
) -> Table:
    r"""Ranks the points of one set.

    Arguments:
        points: The points, truth or truths and samples alike, on the common scale, with shape $(N, d)$.
        centers: The centers of random balls on that scale, with shape $(R, d)$.
        axes: The directions of the marginals, with shape $(q, d)$.
        distance: The distance.
        likelihood: The log-likelihood of every point, with shape $(N,)$, if there is one.
        rng: Breaks ties of the balls.
    """

    along = points @ axes.T
    rows = [along.T]
    if len(axes) > 1:
        white = (along - along.mean(axis=0)) @ whitening(along)
        # Points of a grid lie equally far from the middle; the last digits, which know their order, must not rank them.
        white, radius = white.round(DIGITS), np.einsum("ij,ij->i", white, white).round(DIGITS)
        rows += [white.T, radius[None]]
    if likelihood is not None:
        rows.append(np.where(np.isnan(likelihood), -np.inf, likelihood)[None])
    balls = ball_features(points, centers, distance, rng).astype(np.float32)
    return Table(midranks(np.concatenate(rows)), balls)
