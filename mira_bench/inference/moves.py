r"""Moves that know the structure of a target: exchangeable groups and linear coordinates. All of them are exact."""

__all__ = ["gibbs", "permute", "relocate", "symmetrized", "truncated_normal"]

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .hmc import Moved
from .target import Floats, UnitCube

NEAR = 0.05  # the scale at which a group lands beside another one, in units of the box
SCANS = 3  # of the linear coordinates: their terms cost an image each, a scan costs next to nothing
FLAT = 1e-10  # a precision below this one, in units of the box, makes no difference to a uniform law


def permute(u: Floats, groups: NDArray[np.intp], rng: np.random.Generator) -> Floats:
    r"""Returns walkers $(W, d)$ with the groups of each in a random order, which changes no likelihood."""

    order = rng.random((len(u), len(groups))).argsort(axis=1)
    out = u.copy()
    out[:, groups] = np.take_along_axis(u[:, groups], order[:, :, None], axis=1)
    return out


def symmetrized(matrix: Floats, groups: NDArray[np.intp] | None) -> Floats:
    r"""Returns the mean of a matrix $(d, d)$ over all permutations of the groups."""

    if groups is None:
        return matrix
    count = len(groups)
    rest = np.setdiff1d(np.arange(len(matrix)), groups)
    blocks = matrix[groups[:, None, :, None], groups[None, :, None, :]]
    same = np.einsum("iikl->kl", blocks) / count
    other = (blocks.sum(axis=(0, 1)) - count * same) / max(count * (count - 1), 1)
    shared = matrix[groups[:, :, None], rest].mean(axis=0)
    out = matrix.copy()
    for i, row in enumerate(groups):
        for j, column in enumerate(groups):
            out[np.ix_(row, column)] = same if i == j else other
        out[np.ix_(row, rest)] = shared
        out[np.ix_(rest, row)] = shared.T
    return out


def _window(center: Floats, periodic: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    r"""The ends of the box as angles of a Cauchy law around a center."""
    low, high = np.where(periodic, -0.5, -center), np.where(periodic, 0.5, 1 - center)
    return np.arctan(low / NEAR), np.arctan(high / NEAR)


def _near(center: Floats, periodic: NDArray[np.bool_], rng: np.random.Generator) -> Floats:
    r"""Draws points around centers $(W, k)$: Cauchy's law, cut to the box. Its tails make it near at every scale."""
    low, high = _window(center, periodic)
    point = center + NEAR * np.tan(low + (high - low) * rng.random(center.shape))
    return np.where(periodic, point - np.floor(point), np.clip(point, 0.0, 1.0))


def _log_density(point: Floats, centers: Floats, periodic: NDArray[np.bool_]) -> Floats:
    r"""The log-density of points $(W, k)$: half uniform, half beside one of the centers $(W, G - 1, k)$."""
    if centers.shape[1] == 0:
        return np.zeros(len(point))
    low, high = _window(centers, periodic)
    offset = point[:, None] - centers
    offset = np.where(periodic, offset - np.round(offset), offset) / NEAR
    beside = (1 / (NEAR * (1 + offset**2) * (high - low))).prod(axis=2).mean(axis=1)
    return np.log(0.5 + 0.5 * beside)


def relocate(cube: UnitCube, u: Floats, log_likelihood: Floats, rng: np.random.Generator, beta: float = 1.0) -> Moved:
    r"""Moves one group of each walker to somewhere else: half the time anywhere, half the time beside another group.

    The law of the new place depends on the other groups only, which stay: the Hastings ratio is the ratio of its
    densities at the old and the new place. Leaves $L^\beta$ invariant.

    Arguments:
        cube: The target in coordinates of the unit cube.
        u: The positions, with shape $(W, d)$.
        log_likelihood: The log-likelihoods at the positions, with shape $(W,)$.
        rng: The generator of places and decisions.
        beta: The inverse temperature $\beta$: the power of the likelihood.
    """

    assert cube.groups is not None
    walkers, count = len(u), len(cube.groups)
    periodic = cube.periodic[cube.groups[0]]
    rows = np.arange(walkers)[:, None]
    chosen = rng.integers(count, size=walkers)
    columns = cube.groups[chosen]
    others = cube.groups[(chosen[:, None] + np.arange(1, count)) % count]
    centers = u[rows[:, None], others]
    point = rng.random(columns.shape)
    if count > 1:
        center = centers[np.arange(walkers), rng.integers(count - 1, size=walkers)]
        point = np.where(rng.random((walkers, 1)) < 0.5, point, _near(center, periodic, rng))
    proposal = u.copy()
    proposal[rows, columns] = point
    proposed = cube.log_likelihood(proposal)
    log_ratio = _log_density(u[rows, columns], centers, periodic) - _log_density(point, centers, periodic)
    probability = np.exp(np.minimum(beta * (proposed - log_likelihood) + log_ratio, 0.0))
    accepted = rng.random(walkers) < probability
    return Moved(
        np.where(accepted[:, None], proposal, u),
        np.where(accepted, proposed, log_likelihood),
        float(probability.mean()),
    )


def truncated_normal(mean: Floats, deviation: Floats, rng: np.random.Generator) -> Floats:
    r"""Draws from normal laws cut to $[0, 1]$, exact however far away the mean is.

    Arguments:
        mean: The means before the cut.
        deviation: The standard deviations before the cut, with the same shape.
        rng: The generator of the draws.
    """

    # In the lower tail the logarithm of the distribution function is accurate; the upper one is mirrored into it.
    mirrored = mean < 0.5
    center = np.where(mirrored, 1 - mean, mean)
    low, high = special.log_ndtr(-center / deviation), special.log_ndtr((1 - center) / deviation)
    uniform = rng.random(mean.shape)
    quantile = np.logaddexp(np.log1p(-uniform) + low, np.log(np.maximum(uniform, 1e-300)) + high)
    draw = np.clip(center + deviation * special.ndtri_exp(quantile), 0.0, 1.0)
    return np.where(mirrored, 1 - draw, draw)


def gibbs(cube: UnitCube, u: Floats, rng: np.random.Generator, beta: float = 1.0) -> Floats:
    r"""Draws the linear coordinates of walkers $(W, d)$ one by one from their conditional laws.

    The log-likelihood is quadratic in them, so each law is a normal one cut to the box. Leaves $L^\beta$ invariant.
    """

    assert cube.linear is not None
    square, slope = cube.linear_terms(u)
    linear = u[:, cube.linear]
    for _ in range(SCANS):
        for i in range(linear.shape[1]):
            precision = np.maximum(beta * square[:, i, i], FLAT)
            others = np.einsum("wj,wj->w", square[:, i], linear) - square[:, i, i] * linear[:, i]
            mean = beta * (slope[:, i] - others) / precision
            linear[:, i] = truncated_normal(mean, 1 / np.sqrt(precision), rng)
    out = u.copy()
    out[:, cube.linear] = linear
    return out
