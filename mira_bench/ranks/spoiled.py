r"""What errors of known sizes do to the features: the answer to "what would have been seen?".

A candidate that is too narrow by a factor looks like truths that are too far out by the same factor. So some samples
play the truth, moved as the error would, beside those that are left, and their features are compared with those before.
"""

__all__ = ["CORRELATIONS", "SHIFTS", "WIDTHS", "Effects", "beside", "effects_of"]

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .features import Feature, dispersion_of, tails_of
from .kernel import EUCLIDEAN, far_from
from .players import region_score
from .tables import whitening

WIDTHS = np.array([0.33, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0])
SHIFTS = np.array([-3.0, -2.0, -1.0, -0.7, -0.5, -0.3, -0.2, -0.1, -0.05, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 3.0])
CORRELATIONS = np.array([-0.95, -0.8, -0.6, -0.4, -0.3, -0.2, -0.1, -0.05, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 0.95])
PLAYERS = 4  # samples of a fiducial that play the truth, each for itself; and at most one in so many

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Effects:
    r"""Mean changes of features under errors of known sizes; in a test, absolute and in standard deviations.

    Arguments:
        balls: The MIRA score, if all widths are off by `WIDTHS`, $(W,)$.
        dispersion: The dispersions, $(W, q)$.
        tails: The tails of the distance from the middle, $(W,)$.
        location: The locations, if parameters are off by `SHIFTS` posterior standard deviations, $(H, q)$.
        pair: The product of the ranks of two parameters, if their correlation is off by `CORRELATIONS`, $(K,)$.
    """

    balls: Floats
    dispersion: Floats
    tails: Floats
    location: Floats
    pair: Floats

    @staticmethod
    def keep(found: Sequence["Effects"]) -> dict[str, NDArray]:
        r"""Returns the sums of what some fiducials gave, for a record."""
        if not found:
            return {}
        sums = {f"effect_{key}": np.sum([getattr(e, key) for e in found], axis=0) for key in Effects.__annotations__}
        return sums | {"effect_count": np.array(len(found))}

    @staticmethod
    def of(records: Sequence[Mapping[str, NDArray]], sd: Mapping[Feature, float]) -> "Effects | None":
        r"""Returns the effects that records kept, in standard deviations of a feature in one fiducial."""
        kept = [r for r in records if "effect_count" in r]
        if not kept:
            return None
        count = sum(int(r["effect_count"]) for r in kept)
        mean = {key: np.sum([r[f"effect_{key}"] for r in kept], axis=0) / count for key in Effects.__annotations__}

        def unit(group: str, kind: str) -> Floats:
            return np.array([value for f, value in sd.items() if (f.group, f.kind) == (group, kind)])

        def relative(key: str, unit: Floats) -> Floats:
            # A parameter that cannot vary has no features: no error of it could be seen, and none could be made.
            return np.abs(mean[key][..., unit > 0]) / unit[unit > 0]

        def single(key: str, unit: Floats) -> Floats:
            known = unit[unit > 0]
            return np.abs(mean[key]) / np.median(known) if len(known) else np.zeros(len(mean[key]))

        return Effects(
            single("balls", unit("balls", "mira")),
            relative("dispersion", unit("marginals", "dispersion")),
            single("tails", unit("shape", "tails")),
            relative("location", unit("marginals", "location")),
            single("pair", unit("shape", "pair")),
        )


def _relative(values: Floats, among: Floats) -> Floats:
    r"""The relative ranks of values $(K, q)$, each by itself among others $(S, q)$."""
    below = np.count_nonzero(among[None] < values[:, None], axis=1)
    equal = np.count_nonzero(among[None] == values[:, None], axis=1)
    return (below + equal / 2 + 0.5) / (len(among) + 1)


def beside(points: Floats, samples: Floats, centers: Floats) -> Floats:
    r"""Returns the MIRA score of points $(K, d)$, each of which plays the truth beside samples $(S, d)$: $(K,)$."""

    far = np.sort(far_from(samples, centers, EUCLIDEAN), axis=1)
    mine = far_from(points, centers, EUCLIDEAN)
    ranks = np.stack([np.searchsorted(row, own) for row, own in zip(far, mine, strict=True)])
    return np.asarray(region_score(ranks, len(samples)).mean(axis=0))


def effects_of(samples: Floats, centers: Floats, axes: Floats, rng: np.random.Generator) -> Effects:
    r"""Returns what errors do to the features of one fiducial, averaged over some players.

    Arguments:
        samples: The samples on the common scale, with shape $(S, d)$.
        centers: The centers of the balls on that scale, with shape $(R, d)$.
        axes: The directions of the marginals, with shape $(q, d)$.
        rng: Chooses the players and pairs.
    """

    q = len(axes)
    factors = np.concatenate([[1.0], WIDTHS])[:, None, None]
    shifts = np.concatenate([[0.0], SHIFTS])[:, None, None]
    turns = np.concatenate([[0.0], CORRELATIONS])[:, None]
    order = rng.permutation(len(samples))
    players = max(1, min(PLAYERS, len(samples) // PLAYERS))
    own, rest = samples[order[:players]], samples[order[players:]]
    mean = rest.mean(axis=0)
    along, middle, start = rest @ axes.T, mean @ axes.T, own @ axes.T

    def relative(values: Floats, among: Floats) -> Floats:
        return _relative(values.reshape(-1, among.shape[1]), among).reshape(values.shape)

    # A candidate that is wide by a factor has truths that are near by it.
    moved = mean + (own - mean) / factors
    balls = beside(moved.reshape(-1, len(mean)), rest, centers).reshape(len(factors), players)
    width = dispersion_of(relative(moved @ axes.T, along))
    location = relative(start - shifts * along.std(axis=0), along)
    tails, pair = np.zeros(balls.shape), np.zeros((len(turns), players))
    if q > 1:
        white = whitening(along)
        others, mine = (along - middle) @ white, (start - middle) @ white
        far, near = np.square(others).sum(axis=1), np.square(mine).sum(axis=1)
        tails = tails_of(relative((near / factors[..., 0] ** 2)[..., None], far[:, None])[..., 0], q)
        i, j = rng.permutation(q)[:2]
        # The symmetric root of a correlation matrix with r beside the diagonal.
        even, odd = np.sqrt(1 + turns), np.sqrt(1 - turns)
        same, other = (even + odd) / 2, (even - odd) / 2
        turned = [same * mine[:, i] + other * mine[:, j], other * mine[:, i] + same * mine[:, j]]
        pair = np.prod(relative(np.stack(turned, axis=-1), others[:, [i, j]]) - 0.5, axis=-1)
    parts = (part.mean(axis=1) for part in (balls, width, tails, location, pair))
    return Effects(*(part[1:] - part[0] for part in parts))
