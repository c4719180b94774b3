r"""From ranks to features: numbers whose expectation is known for a perfect candidate, and moves if it is wrong.

Scores of ranks are chosen for what they see: the location is the rank itself (Wilcoxon), the dispersion is the absolute
normal score, between Mood's bounded one, which is blind to tails, and Klotz' square, which is all tails. The peak is a
polynomial of fourth order (Neyman), which tells one mode from two. The distance from the middle has three scores: its
rank, its tails (the normal law's $\chi^2$ of the same rank) and the spread of its rank.
"""

__all__ = ["Feature", "dispersion_of", "expand", "feature_list", "tails_of"]

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Feature:
    r"""One feature of a point among the points of its set.

    Arguments:
        group: The group that it is tested with: `"balls"`, `"marginals"`, `"shape"` or `"data"`.
        kind: What it is.
        axes: The axes that it looks at: none, one, or a pair.
        column: The column of the data that it is multiplied by, or -1.
    """

    group: str
    kind: str
    axes: tuple[int, ...] = ()
    column: int = -1


def feature_list(axes: int, columns: int, likelihood: bool) -> list[Feature]:
    r"""Returns the features in the order in which `expand` computes them.

    Arguments:
        axes: The number of marginals.
        columns: The number of columns of the data.
        likelihood: Whether the rank of the likelihood is known.
    """

    each, data = range(axes), range(columns)
    found = [Feature("balls", "mira"), Feature("balls", "tilt")]
    found += [Feature("marginals", "location", (i,)) for i in each]
    found += [Feature("marginals", "dispersion", (i,)) for i in each]
    found += [Feature("shape", "peak", (i,)) for i in each]
    if axes > 1:
        found += [Feature("shape", "pair", (i, j)) for i in each for j in range(i + 1, axes)]
        found += [Feature("shape", kind) for kind in ("radius", "tails", "spread of the radius")]
    found += [Feature("data", "trend", (i,)) for i in each]
    found += [Feature("data", "location", (i,), j) for i in each for j in data]
    found += [Feature("data", "dispersion", (i,), j) for i in each for j in data]
    if axes > 1:
        found += [Feature("data", "tails", (), j) for j in data]
    if likelihood:
        found += [Feature("data", "likelihood"), Feature("data", "spread of the likelihood")]
    return found


@lru_cache(maxsize=8)
def _lookup(points: int, axes: int) -> tuple[Floats, Floats, Floats]:
    r"""Location, dispersion and tails of every possible value of twice a mid-rank."""
    u = (np.arange(2 * points - 1) / 2 + 0.5) / points
    return u - 0.5, dispersion_of(u), tails_of(u, axes)


def dispersion_of(u: Floats) -> Floats:
    r"""Returns the dispersion score of relative ranks $u \in (0, 1)$."""

    return np.asarray(np.abs(special.ndtri(u)))


def tails_of(u: Floats, axes: int) -> Floats:
    r"""Returns the tail score of relative ranks of the distance from the middle."""

    return np.asarray(2 * special.gammaincinv(axes / 2, u))


def expand(ranks: NDArray, balls: NDArray, place: Floats, data: Floats, likelihood: bool) -> Floats:
    r"""Returns the features of all points of a set, $(N, F)$.

    Arguments:
        ranks: Twice the mid-ranks; see `Table`.
        balls: The features of the balls, with shape $(N, 2)$.
        place: Where the set lies along the axes, relative to the other sets, $(q,)$.
        data: The data of the set, relative to the other sets, with shape $(J,)$.
        likelihood: Whether the last column holds the ranks of the likelihood.
    """

    count, axes = len(ranks), len(place)
    location, dispersion, tails = _lookup(count, axes)
    marginal = ranks[:, :axes]
    where, width = location[marginal], dispersion[marginal]
    square = np.square(where)
    parts = [balls.astype(np.float64), where, width, square * (square - 3 / 14)]
    if axes > 1:
        white, far = location[ranks[:, axes : 2 * axes]], ranks[:, 2 * axes]
        first, second = np.triu_indices(axes, 1)
        radius, outside = location[far], tails[far]
        parts += [white[:, first] * white[:, second], np.stack([radius, outside, np.square(radius)], axis=1)]
    parts.append(where * place)
    if len(data):
        parts += [(where[:, :, None] * data).reshape(count, -1), (width[:, :, None] * data).reshape(count, -1)]
        if axes > 1:
            parts.append(outside[:, None] * data)
    if likelihood:
        likely = location[ranks[:, -1]]
        parts += [likely[:, None], np.square(likely)[:, None]]
    return np.concatenate(parts, axis=1)
