r"""Hamiltonian Monte Carlo in the unit cube, with walls that reflect and coordinates that go around.

The mass matrix $M$ need not be diagonal. At a wall of coordinate $i$ the momentum is mirrored in the metric of $M$,

$$ p_i \to p_i - 2 v_i / (M^{-1})_{ii}, \quad v = M^{-1} p , $$

which turns $v_i$ around and keeps the kinetic energy. All the other velocities change with it, so the walls are met
one after the other, in the order of time. To fold the coordinate back at the end of the step would be neither
reversible nor exact.
"""

__all__ = ["Mass", "Moved", "hmc", "mass", "trajectory"]

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiling import compiled
from .target import Floats, UnitCube

REFLECTIONS = 1000  # in one drift; a walker that meets more walls is out of control and stays where it was
JITTER = 0.3  # the step of each walker varies by so much, or else a trajectory may close on itself


class Mass(NamedTuple):
    r"""A mass matrix $M = R R^T$ and what follows from it, all with shape $(d, d)$."""

    root: Floats
    inverse_root: Floats
    inverse: Floats


class Moved(NamedTuple):
    r"""Walkers after a move.

    Arguments:
        u: The positions, with shape $(W, d)$.
        log_likelihood: Their log-likelihoods, with shape $(W,)$.
        acceptance: The mean probability of acceptance.
    """

    u: Floats
    log_likelihood: Floats
    acceptance: float


def mass(matrix: NDArray[np.floating]) -> Mass:
    r"""Returns the mass of a positive definite matrix."""

    root = np.asarray(np.linalg.cholesky(matrix), np.float64)
    inverse_root = np.asarray(np.linalg.inv(root), np.float64)
    return Mass(root, inverse_root, inverse_root.T @ inverse_root)


@compiled()
def _drift(
    u: NDArray, v: NDArray, step: NDArray, inverse: NDArray, periodic: NDArray, most: int, valid: NDArray
) -> None:
    r"""Moves walkers freely for the time of a step, in place: a billiard in the metric of the mass matrix."""
    dim = u.shape[1]
    for w in range(u.shape[0]):
        left = step[w]
        meetings = 0
        while valid[w]:
            # The first wall on the way. A velocity that is not finite meets none, and is found out by its sum.
            wall, time, total = -1, left, 0.0
            for i in range(dim):
                total += abs(v[w, i])
                if not periodic[i] and v[w, i] != 0:
                    until = ((1.0 if v[w, i] > 0 else 0.0) - u[w, i]) / v[w, i]
                    if until < time:
                        wall, time = i, until
            if meetings == most or not np.isfinite(total):
                valid[w] = False
                break
            for i in range(dim):
                u[w, i] += time * v[w, i]
            if wall < 0:
                break
            u[w, wall] = 1.0 if v[w, wall] > 0 else 0.0
            bounce = 2 * v[w, wall] / inverse[wall, wall]
            for i in range(dim):
                v[w, i] -= bounce * inverse[wall, i]
            left -= time
            meetings += 1
        for i in range(dim):
            if not valid[w]:
                v[w, i] = 0.0
            if periodic[i]:
                u[w, i] -= np.floor(u[w, i])
            else:
                u[w, i] = min(max(u[w, i], 0.0), 1.0)


def trajectory(
    cube: UnitCube, u: Floats, v: Floats, step: Floats, mass: Mass, beta: float = 1.0, leapfrogs: int = 10
) -> tuple[Floats, Floats, Floats, Floats, NDArray[np.bool_]]:
    r"""Follows the dynamics of the potential $-\beta \log L$ for some leapfrog steps.

    The map is reversible and keeps volume: from the end with the velocities turned around it leads back to the start.

    Arguments:
        cube: The target in coordinates of the unit cube.
        u: The positions, with shape $(W, d)$.
        v: The velocities, with shape $(W, d)$.
        step: The length of the steps, with shape $(W,)$.
        mass: The mass matrix of the dynamics.
        beta: The inverse temperature $\beta$: the power of the likelihood.
        leapfrogs: The number of leapfrog steps.

    Returns:
        The last positions and velocities, the first and the last log-likelihoods, and which walkers got through.
    """

    u, v = u.copy(), v.copy()
    valid = np.ones(len(u), bool)
    first, gradient = cube.gradient(u)
    kick = beta * step[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        v += 0.5 * kick * (gradient @ mass.inverse)
        for i in range(leapfrogs):
            _drift(u, v, step, mass.inverse, cube.periodic, REFLECTIONS, valid)
            last, gradient = cube.gradient(u)
            v += (kick if i < leapfrogs - 1 else 0.5 * kick) * (gradient @ mass.inverse)
    return u, v, first, last, valid


def hmc(
    cube: UnitCube,
    u: Floats,
    mass: Mass,
    step: float,
    rng: np.random.Generator,
    beta: float = 1.0,
    leapfrogs: int = 10,
) -> Moved:
    r"""Moves walkers by one trajectory with fresh velocities, accepted or rejected: leaves $L^\beta$ invariant.

    Arguments:
        cube: The target in coordinates of the unit cube.
        u: The positions, with shape $(W, d)$.
        mass: The mass matrix of the dynamics.
        step: The length of a leapfrog step; the posterior has width one in the metric of a good mass matrix.
        rng: The generator of velocities and decisions.
        beta: The inverse temperature $\beta$: the power of the likelihood.
        leapfrogs: The number of leapfrog steps; one evaluation of the gradient each, and one more.
    """

    z = rng.standard_normal(u.shape)
    steps = step * rng.uniform(1 - JITTER, 1 + JITTER, len(u))
    end, v, first, last, valid = trajectory(cube, u, z @ mass.inverse_root, steps, mass, beta, leapfrogs)
    with np.errstate(over="ignore", invalid="ignore"):
        energy = 0.5 * ((v @ mass.root) ** 2 - z**2).sum(axis=1) - beta * (last - first)
        probability = np.where(valid & ~np.isnan(energy), np.exp(-np.maximum(energy, 0.0)), 0.0)
    accepted = rng.random(len(u)) < probability
    return Moved(np.where(accepted[:, None], end, u), np.where(accepted, last, first), float(probability.mean()))
