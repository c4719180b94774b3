r"""The Metropolis-adjusted Langevin algorithm as it is used in practice: many walkers from the prior, one step size."""

__all__ = ["MalaResult", "mala"]

from typing import NamedTuple

import numpy as np
from scipy import special

from ..errors import UsageError
from .target import Evaluations, Floats, Target, UnitCube

ACCEPTANCE = 0.574  # optimal in many dimensions (Roberts & Rosenthal 1998)


class MalaResult(NamedTuple):
    r"""What `mala` returns.

    Arguments:
        samples: The chains in physical units, with shape $(C, n, d)$.
        log_likelihood: The log-likelihoods of the samples, with shape $(C, n)$.
        acceptance: The mean acceptance of the steps that were kept.
        step: Their length, in logit coordinates.
        evaluations: How many points were evaluated.
    """

    samples: Floats
    log_likelihood: Floats
    acceptance: float
    step: float
    evaluations: Evaluations


class _Walkers(NamedTuple):
    x: Floats
    log_likelihood: Floats
    log_density: Floats
    gradient: Floats


def mala(
    target: Target,
    rng: np.random.Generator,
    *,
    walkers: int = 100,
    warmup: int = 200,
    draws: int = 200,
    step: float = 0.1,
) -> MalaResult:
    r"""Samples a posterior by Langevin steps with accept/reject, in logit coordinates of the box.

    The chains are exact in the limit of many draws. From the prior they seldom get there: see `smc`.

    Arguments:
        target: The likelihood and the box of its parameters, see `Target`. Periodic coordinates are not joined.
        rng: The generator of all random numbers.
        walkers: The number of chains that run side by side.
        warmup: The number of draws of each chain that adapt the step and are dropped.
        draws: The number of draws of each chain that are kept.
        step: The first length of a step; it adapts during the warmup.

    References:
        | Exponential Convergence of Langevin Distributions and Their Discrete Approximations (Roberts & Tweedie 1996)
    """

    if walkers < 2:
        raise UsageError(f"walkers={walkers}: at least two are needed")
    if draws < 1 or warmup < 0:
        raise UsageError(f"draws={draws}, warmup={warmup}: at least one draw is needed, and no negative warmup")
    if not step > 0:
        raise UsageError(f"step={step}: a positive length is needed")
    cube = UnitCube(target)
    now = _evaluated(cube, special.logit(rng.uniform(1e-12, 1 - 1e-12, (walkers, cube.dim))))
    if not np.isfinite(now.log_likelihood).any():
        raise UsageError(f"{cube.name}: log_likelihood is not finite at any of {walkers} points drawn from the prior")
    samples, logs = np.empty((walkers, draws, cube.dim)), np.empty((walkers, draws))
    total = 0.0
    for i in range(-warmup, draws):
        now, acceptance = _step(cube, now, step, rng)
        if i < 0:
            # The gain falls, so that the step settles.
            step *= float(np.exp((acceptance - ACCEPTANCE) / np.sqrt(1 + 0.1 * (i + warmup))))
        else:
            samples[:, i], logs[:, i] = cube.to_physical(special.expit(now.x)), now.log_likelihood
            total += acceptance
    return MalaResult(samples, logs, total / draws, step, cube.evaluations)


def _evaluated(cube: UnitCube, x: Floats) -> _Walkers:
    u = special.expit(x)
    log_likelihood, gradient = cube.gradient(u)
    slope = u * special.expit(-x)  # du/dx, the density of a uniform law in logit coordinates
    log_density = log_likelihood - np.abs(x).sum(axis=1) - 2 * np.log1p(np.exp(-np.abs(x))).sum(axis=1)
    return _Walkers(x, log_likelihood, log_density, gradient * slope + 1 - 2 * u)


def _step(cube: UnitCube, now: _Walkers, step: float, rng: np.random.Generator) -> tuple[_Walkers, float]:
    noise = rng.standard_normal(now.x.shape)
    then = _evaluated(cube, now.x + 0.5 * step**2 * now.gradient + step * noise)
    back = (now.x - then.x) / step - 0.5 * step * then.gradient
    with np.errstate(invalid="ignore"):
        log_ratio = then.log_density - now.log_density + 0.5 * (noise**2 - back**2).sum(axis=1)
    probability = np.exp(np.minimum(np.nan_to_num(log_ratio, nan=-np.inf), 0.0))
    accepted = rng.random(len(noise)) < probability
    moved = [np.where(accepted.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in zip(then, now, strict=True)]
    return _Walkers(*moved), float(probability.mean())
