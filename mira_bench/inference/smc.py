r"""Tempered sequential Monte Carlo, then chains: samples and the evidence of a posterior with several modes."""

__all__ = ["SmcResult", "smc"]

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from .diagnostics import diagnose
from .hmc import Mass, Moved, hmc, mass
from .moves import gibbs, permute, relocate, symmetrized
from .target import Evaluations, Floats, Target, UnitCube, unrolled

ACCEPTANCE = 0.8  # of a trajectory: the step adapts to it
STEP = (0.01, 0.5, 1.0)  # the smallest, the first and the largest step; one is half way to instability
WORTHWHILE = 0.01  # chains use one relocation per draw if fewer than this are accepted, else as many as a stage
AGREEMENT = 1.05  # the R-hat above which chains are extended
PRIOR_PRECISION = 12.0  # of a uniform law on the unit interval


class SmcResult(NamedTuple):
    r"""What `smc` returns.

    Arguments:
        samples: The chains in physical units, with shape $(C, n, d)$; $n$ is `draws` unless they were extended.
        log_likelihood: The log-likelihoods of the samples, with shape $(C, n)$.
        log_evidence: $\log \int L(\theta) \, p(\theta) \, d\theta$ under the uniform prior.
        acceptance: The mean acceptance of the trajectories of the chains.
        step: The length of their leapfrog steps.
        temperatures: The inverse temperature of each stage, rising to one.
        stage_acceptance: The mean acceptance of trajectories and of relocations (NaN without groups) in each stage,
            with shape $(stages, 2)$.
        evaluations: How many points were evaluated.
    """

    samples: Floats
    log_likelihood: Floats
    log_evidence: float
    acceptance: float
    step: float
    temperatures: Floats
    stage_acceptance: Floats
    evaluations: Evaluations


def smc(
    target: Target,
    rng: np.random.Generator,
    *,
    particles: int = 200,
    chains: int = 40,
    warmup: int = 10,
    draws: int = 110,
    leapfrogs: int = 10,
    relocations: int = 4,
    ess: float = 0.5,
    extend: int = 0,
) -> SmcResult:
    r"""Samples a posterior by tempering from the prior, then by chains that start from the particles.

    Particles from the prior follow $L^\beta$ while $\beta$ rises from 0 to 1, as fast as the effective number of
    particles allows. At each stage they are resampled and moved: some of their groups relocated, linear coordinates
    drawn from their conditional law, all coordinates by one trajectory of reflective Hamiltonian Monte Carlo. At
    $\beta = 1$ a few of the particles go on as chains, with a step and a mass matrix that are fixed after the warmup.

    The mass matrix is $\beta$ times the mean Fisher information, plus the mean of $\beta^2 g g^T$ with the gradients
    $g$ of the log-likelihood, plus the precision of the prior. Inside of the box the second term is as large as the
    first one and changes little. But a wrong model is often pressed against a wall, where its posterior falls like
    $\exp(-g u)$: its width is $1 / g$, of which the Fisher information knows nothing.

    Arguments:
        target: The likelihood and the box of its parameters, see `Target`.
        rng: The generator of all random numbers.
        particles: The number of particles that follow the tempering.
        chains: The number of chains, at most that of particles.
        warmup: The number of draws of each chain that adapt the step and are dropped.
        draws: The number of draws of each chain that are kept.
        leapfrogs: The number of leapfrog steps in a trajectory.
        relocations: The number of relocations of a group in each stage. As many before each draw, unless they are
            hardly ever accepted: then one.
        ess: The effective number of particles after a stage, as a fraction of those before.
        extend: How many times the chains may be made twice as long, while their R-hat is above 1.05.

    Example:
        >>> class Normal:
        ...     low, high = [-5.0], [5.0]
        ...     def log_likelihood(self, theta):
        ...         return -0.5 * (theta**2).sum(axis=1)
        ...     def log_likelihood_gradient(self, theta):
        ...         return self.log_likelihood(theta), -theta
        >>> result = smc(Normal(), np.random.default_rng(0))
        >>> result.samples.shape
        (40, 110, 1)
        >>> bool(abs(result.log_evidence - np.log(np.sqrt(2 * np.pi) / 10)) < 0.3)
        True

    References:
        | Sequential Monte Carlo Samplers (Del Moral, Doucet & Jasra 2006)
        | https://arxiv.org/abs/cond-mat/0212648
        | Reflection, Refraction, and Hamiltonian Monte Carlo (Mohasel Afshar & Domke 2015)
    """

    _refuse_sizes(particles, chains, warmup, draws, leapfrogs, relocations, ess, extend)
    cube = UnitCube(target)
    u = rng.random((particles, cube.dim))
    log_likelihood = cube.log_likelihood(u)
    if not np.isfinite(log_likelihood).any():
        raise UsageError(f"{cube.name}: log_likelihood is not finite at any of {particles} points drawn from the prior")
    beta, log_evidence, step = 0.0, 0.0, STEP[1]
    temperatures, accepted = [], []
    while beta < 1:
        rise = _rise(log_likelihood, 1 - beta, ess)
        beta = 1.0 if rise == 1 - beta else beta + rise
        weights, log_mean = _weights(rise * log_likelihood)
        log_evidence += log_mean
        keep = _systematic(weights, rng)
        u, log_likelihood = u[keep], log_likelihood[keep]
        metric = _mass(cube, u, beta)
        (u, log_likelihood, acceptance), relocated = _sweep(
            cube, u, log_likelihood, metric, step, rng, beta, leapfrogs, relocations
        )
        step = _adapted(step, acceptance)
        temperatures.append(beta)
        accepted.append((acceptance, relocated))

    if relocated < WORTHWHILE:
        relocations = min(relocations, 1)
    start = rng.choice(particles, chains, replace=False)
    u, log_likelihood = u[start], log_likelihood[start]
    for _ in range(warmup):
        (u, log_likelihood, acceptance), _ = _sweep(
            cube, u, log_likelihood, metric, step, rng, 1.0, leapfrogs, relocations
        )
        step = _adapted(step, acceptance)
    samples, logs = np.empty((chains, 0, cube.dim)), np.empty((chains, 0))
    total = 0.0
    for more in (draws * count for count in (1, *(2**i for i in range(extend)))):
        drawn, found = np.empty((chains, more, cube.dim)), np.empty((chains, more))
        for i in range(more):
            (u, log_likelihood, acceptance), _ = _sweep(
                cube, u, log_likelihood, metric, step, rng, 1.0, leapfrogs, relocations
            )
            drawn[:, i], found[:, i] = cube.to_physical(u), log_likelihood
            total += acceptance
        samples, logs = np.concatenate([samples, drawn], axis=1), np.concatenate([logs, found], axis=1)
        if extend and diagnose(samples, target).rhat.max() <= AGREEMENT:
            break
    return SmcResult(
        samples,
        logs,
        log_evidence,
        total / samples.shape[1],
        step,
        np.array(temperatures),
        np.array(accepted),
        cube.evaluations,
    )


def _refuse_sizes(
    particles: int, chains: int, warmup: int, draws: int, leapfrogs: int, relocations: int, ess: float, extend: int
) -> None:
    if particles < 2:
        raise UsageError(f"particles={particles}: at least two are needed")
    if not 1 <= chains <= particles:
        raise UsageError(f"chains={chains}: between 1 and the number of particles, {particles}, can go on as chains")
    for name, value, least in (
        ("draws", draws, 1), ("leapfrogs", leapfrogs, 1), ("warmup", warmup, 0), ("relocations", relocations, 0),
        ("extend", extend, 0),
    ):  # fmt: skip
        if value < least:
            raise UsageError(f"{name}={value}: at least {least} is needed")
    if not 0 < ess < 1:
        raise UsageError(f"ess={ess}: a fraction between 0 and 1 is needed")


def _weights(log_weights: Floats) -> tuple[Floats, float]:
    r"""The normalized weights, and the logarithm of the mean weight."""
    largest = log_weights.max()
    weights = np.exp(log_weights - largest)
    total = weights.sum()
    return weights / total, float(largest + np.log(total / len(weights)))


def _rise(log_likelihood: Floats, most: float, ess: float) -> float:
    r"""How much the inverse temperature can rise until the effective number of particles is a fraction `ess`."""
    finite = log_likelihood[np.isfinite(log_likelihood)]

    def enough(rise: float) -> bool:
        weights, _ = _weights(rise * finite)
        return bool(1 / (weights @ weights) >= ess * len(finite))

    if enough(most):
        return most
    low, high = 0.0, most
    while high - low > 1e-6 * high:  # the effective number falls all the way, so bisection finds the place
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return 0.5 * (low + high)


def _systematic(weights: Floats, rng: np.random.Generator) -> NDArray[np.intp]:
    r"""The indices of resampled particles: each as often as its weight says, rounded up or down."""
    places = (rng.random() + np.arange(len(weights))) / len(weights)
    return np.minimum(np.searchsorted(np.cumsum(weights), places, side="right"), np.flatnonzero(weights)[-1])


def _mass(cube: UnitCube, u: Floats, beta: float) -> Mass:
    r"""The mass matrix of a stage: a precision of the particles, invariant under permutations of groups."""
    if cube.has_fisher:
        fisher = cube.fisher(u)
        fisher = fisher[np.isfinite(fisher).all(axis=(1, 2))]
        if not len(fisher):
            raise UsageError(f"{cube.name}: fisher is not finite at any of {len(u)} particles")
        _, gradient = cube.gradient(u)
        curvature = beta * fisher.mean(axis=0) + beta**2 * gradient.T @ gradient / len(u)
        precision = symmetrized(curvature, cube.groups) + PRIOR_PRECISION * np.eye(cube.dim)
        try:
            return mass(precision)
        except np.linalg.LinAlgError:
            raise UsageError(f"{cube.name}: the mean of fisher has a negative eigenvalue") from None
    # Without it, the inverse of their covariance, with correlations shrunk by what so few particles cannot know.
    covariance = np.atleast_2d(np.cov(unrolled(u, cube.periodic), rowvar=False))
    shrink = cube.dim / (cube.dim + len(u))
    covariance = (1 - shrink) * covariance + shrink * np.diag(np.diag(covariance))
    return mass(np.linalg.inv(symmetrized(covariance, cube.groups)))


def _sweep(
    cube: UnitCube,
    u: Floats,
    log_likelihood: Floats,
    metric: Mass,
    step: float,
    rng: np.random.Generator,
    beta: float,
    leapfrogs: int,
    relocations: int,
) -> tuple[Moved, float]:
    r"""Every kind of move once; returns the walkers with the acceptance of the trajectories, and of relocations."""
    relocated = []
    if cube.groups is not None:
        for _ in range(relocations):
            u, log_likelihood, acceptance = relocate(cube, u, log_likelihood, rng, beta)
            relocated.append(acceptance)
    if cube.linear is not None:
        u = gibbs(cube, u, rng, beta)
    moved = hmc(cube, u, metric, step, rng, beta, leapfrogs)
    if cube.groups is not None:
        moved = moved._replace(u=permute(moved.u, cube.groups, rng))
    return moved, float(np.mean(relocated)) if relocated else np.nan


def _adapted(step: float, acceptance: float) -> float:
    return float(np.clip(step * np.exp(acceptance - ACCEPTANCE), STEP[0], STEP[2]))
