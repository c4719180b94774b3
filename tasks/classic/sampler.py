r"""Reference posteriors where there is no formula: tempered importance sampling, then an independence sampler.

Parameters are written as points $z$ of a standard normal law (the prior in these coordinates). A population from the
prior follows $L^\beta$ while $\beta$ rises to one; at every stage a mixture of Student laws is fitted to the weighted
population, and a new one is drawn from it, independent of the old. The last mixture $q$ proposes the states of
Metropolis-Hastings chains. Proposals do not depend on the state, so a chain forgets its past as fast as the weights
$L(z) p(z) / q(z)$ are even: the effective sample size and R-hat of the chains show how well $q$ fits, and the mean
weight is the evidence.
"""

__all__ = ["Effort", "NormalTarget", "SampledPosterior", "Students"]

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mira_bench.candidate import Draws
from mira_bench.inference import diagnose
from mira_bench.ranks.kernel import one_blas_thread

Floats = NDArray[np.float64]

DEGREES = 5.0  # of freedom of the proposals: their tails are heavier than the posterior's, as weights must be bounded
DEFENSE = 0.05  # the share of proposals that come from the prior, should the population have missed a place
ITERATIONS = 10  # of expectation maximization; a better fit would not pay
SHRUNK = 0.1  # the covariance of a kernel that knows nothing, as a share of that of all points
WIDER = 1.3  # kernels than the fit: a proposal that is too narrow at an edge gives a few points most of the weight
STAGES = 30  # most take ten; the diagnostics of the chains tell if a population has not arrived by then
CHAINS = 4
SHORTEST = 500  # steps of a chain: with fewer there is no judging it


class NormalTarget(Protocol):
    r"""The likelihood of one observation, over a standard normal prior."""

    @property
    def dim(self) -> int:
        r"""The number of coordinates $z$."""

    def evaluate(self, z: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        r"""Returns parameters $(n, d)$ for points $(n, k)$, and log-likelihoods $(n,)$.

        Parameters that $z$ does not fix may be drawn from a law of their own; the likelihood is then divided by the
        ratio of this law to their prior.
        """


@dataclass(frozen=True)
class Effort:
    r"""How much work a reference posterior takes.

    Arguments:
        population: The number of points in each stage.
        kernels: The number of Student laws in the proposal; one suits a posterior with a single, round mode.
        thin: The number of steps of a chain for each sample that is kept.
        ess: The effective number of points after a stage, as a fraction of the population.
    """

    population: int = 1000
    kernels: int = 8
    thin: int = 10
    ess: float = 0.15


class Students(NamedTuple):
    r"""A mixture of multivariate Student laws, and a little of the prior.

    Arguments:
        shares: The weights of the laws, with shape $(K,)$.
        centers: Their locations, with shape $(K, k)$.
        roots: Lower square roots of their scale matrices, with shape $(K, k, k)$.
    """

    shares: Floats
    centers: Floats
    roots: Floats

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        dim = self.centers.shape[1]
        stretch = np.sqrt(DEGREES / rng.chisquare(DEGREES, (count, 1)))
        noise = rng.standard_normal((count, dim))
        chosen = rng.choice(len(self.shares), count, p=self.shares)
        near = self.centers[chosen] + stretch * np.einsum("nij,nj->ni", self.roots[chosen], noise)
        return np.where(rng.random((count, 1)) < DEFENSE, noise, near)

    def log_prob(self, z: Floats) -> Floats:
        dim = z.shape[1]
        constant = math.lgamma((DEGREES + dim) / 2) - math.lgamma(DEGREES / 2) - dim / 2 * math.log(DEGREES * math.pi)
        parts = [math.log(DEFENSE) + log_normal(z)]
        for share, center, root in zip(self.shares, self.centers, self.roots, strict=True):
            square = (np.linalg.solve(root, (z - center).T) ** 2).sum(axis=0)
            volume = math.log((1 - DEFENSE) * share) + constant - np.log(np.diag(root)).sum()
            parts.append(volume - (DEGREES + dim) / 2 * np.log1p(square / DEGREES))
        return special.logsumexp(parts, axis=0)


def log_normal(z: Floats) -> Floats:
    r"""The log-density of the standard normal law at points $(n, k)$."""

    return -0.5 * (z**2).sum(axis=1) - z.shape[1] / 2 * math.log(2 * math.pi)


def _normalized(log_weights: Floats) -> Floats:
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def _fit(z: Floats, weights: Floats, kernels: int, rng: np.random.Generator) -> Students:
    r"""Fits a mixture to weighted points, by expectation maximization for Gaussians from a random start."""
    dim = z.shape[1]
    mean = weights @ z
    covariance = (weights[:, None] * (z - mean)).T @ (z - mean)
    covariance += 1e-9 * np.trace(covariance) * np.eye(dim)
    places = (rng.random() + np.arange(kernels)) / kernels
    centers = z[np.minimum(np.searchsorted(np.cumsum(weights), places), len(z) - 1)] if kernels > 1 else mean[None]
    shares, covariances = np.full(kernels, 1 / kernels), np.tile(covariance, (kernels, 1, 1))
    # What so few points do not know about the shape of a kernel, the other points do.
    few = (dim + 1) * (weights @ weights)
    for _ in range(ITERATIONS if kernels > 1 else 0):
        logs = np.empty((kernels, len(z)))
        for k in range(kernels):
            root = np.linalg.cholesky(covariances[k])
            square = (np.linalg.solve(root, (z - centers[k]).T) ** 2).sum(axis=0)
            logs[k] = math.log(shares[k]) - np.log(np.diag(root)).sum() - 0.5 * square
        belongs = weights * np.exp(logs - special.logsumexp(logs, axis=0))
        mass = belongs.sum(axis=1)
        shares = (mass + few) / (mass + few).sum()
        for k in range(kernels):
            centers[k] = (belongs[k] @ z + few * centers[k]) / (mass[k] + few)
            off = z - centers[k]
            covariances[k] = ((belongs[k][:, None] * off).T @ off + few * SHRUNK * covariance) / (mass[k] + few)
    roots = np.asarray(np.linalg.cholesky(covariances), np.float64)
    return Students(shares, centers, roots if kernels == 1 else WIDER * roots)


def _temper(log_prior: Floats, log_likelihood: Floats, log_proposal: Floats, beta: float, ess: float) -> float:
    r"""The largest inverse temperature, if above `beta`, at which the weights are even enough."""

    def enough(new: float) -> bool:
        weights = _normalized(log_prior + new * log_likelihood - log_proposal)
        return bool(1 / (weights @ weights) >= ess * len(weights))

    if enough(1.0):
        return 1.0
    low, high = beta, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high) if low > 0 else high / 8
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low if low > beta else high


def propose(target: NormalTarget, effort: Effort, rng: np.random.Generator) -> Students:
    r"""Returns a mixture that is close to the posterior."""

    z = rng.standard_normal((effort.population, target.dim))
    log_proposal = log_normal(z)
    beta, rounds = 0.0, 0
    for _ in range(STAGES):
        _, log_likelihood = target.evaluate(z, rng)
        # A point without likelihood has no weight at any temperature.
        log_likelihood = np.where(np.isfinite(log_likelihood), log_likelihood, -1e300)
        beta = _temper(log_normal(z), log_likelihood, log_proposal, beta, effort.ess)
        weights = _normalized(log_normal(z) + beta * log_likelihood - log_proposal)
        mixture = _fit(z, weights, effort.kernels, rng)
        rounds += beta == 1.0
        if rounds == 2:  # the second fit at the end is to a population of the posterior itself
            return mixture
        z = mixture.sample(effort.population, rng)
        log_proposal = mixture.log_prob(z)
    return mixture


def _chains(log_weights: Floats, uniforms: Floats) -> NDArray[np.intp]:
    r"""The proposals at which chains are, with shape $(C, n)$: Metropolis-Hastings for proposals of one law."""
    count, steps = log_weights.shape
    states = np.empty((count, steps), np.intp)
    rows = np.arange(count)
    state = np.zeros(count, np.intp)
    logs = np.log(uniforms)
    for i in range(steps):
        accepted = logs[:, i] < log_weights[:, i] - log_weights[rows, state]
        state = np.where(accepted, i, state)
        states[:, i] = state
    return states


class Sampled(NamedTuple):
    r"""Samples of one posterior, and what was found on the way.

    Arguments:
        values: The samples, with shape $(S, d)$.
        log_evidence: The estimate of the log-evidence.
        rhat: The largest $\hat R$ of a parameter.
        ess_bulk: The smallest effective number of draws of a parameter.
        acceptance: The share of the proposals that were accepted.
    """

    values: Floats
    log_evidence: float
    rhat: float
    ess_bulk: float
    acceptance: float


def sample_posterior(target: NormalTarget, count: int, effort: Effort, rng: np.random.Generator) -> Sampled:
    r"""Samples the posterior of one observation."""

    mixture = propose(target, effort, rng)
    steps = max(effort.thin * math.ceil(count / CHAINS), SHORTEST)
    burn = steps // 10
    z = mixture.sample(CHAINS * (burn + steps), rng)
    theta, log_likelihood = target.evaluate(z, rng)
    log_likelihood = np.where(np.isfinite(log_likelihood), log_likelihood, -np.inf)
    log_weights = log_likelihood + log_normal(z) - mixture.log_prob(z)
    largest = log_weights.max()
    log_evidence = largest + math.log(np.mean(np.exp(log_weights - largest)))
    shape = (CHAINS, burn + steps)
    log_weights = np.maximum(log_weights.reshape(shape), -1e300)  # the first proposal may be an impossible one
    states = _chains(log_weights, rng.random(shape))[:, burn:]
    chains = theta.reshape(*shape, -1)[np.arange(CHAINS)[:, None], states]
    told = diagnose(chains)
    # Every chain gives as many samples, as far apart as can be; what is too many comes off the end.
    kept = np.linspace(0, steps - 1, math.ceil(count / CHAINS)).round().astype(np.intp)
    values = chains[:, kept].swapaxes(0, 1).reshape(-1, chains.shape[2])[:count]
    moved = (np.diff(states, axis=1) != 0).mean()
    return Sampled(values, float(log_evidence), float(told.rhat.max()), float(told.ess_bulk.min()), float(moved))


@dataclass(frozen=True)
class SampledPosterior:
    r"""The posterior of a task whose likelihood is known, by the independence sampler.

    Arguments:
        target: A function that returns the target of an observation.
        effort: How much work goes into a posterior.
    """

    target: Callable[[Any], NormalTarget]
    effort: Effort = field(default_factory=Effort)

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> Draws:
        # A stream for each observation: how many others there are changes nothing.
        streams = rng.spawn(len(x))
        with one_blas_thread():
            found = [sample_posterior(self.target(x[l]), count, self.effort, streams[l]) for l in range(len(x))]
        told = {key: np.array([getattr(r, key) for r in found]) for key in ("rhat", "ess_bulk", "acceptance")}
        return Draws(np.stack([r.values for r in found]), np.array([r.log_evidence for r in found]), told)
