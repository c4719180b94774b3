r"""Langevin chains on the exact posterior of a mixture: what many cheap steps give, without any approximation."""

__all__ = ["Langevin"]

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from .exact import MOST_PIXELS
from .mixture import Mixture
from .observed import Asked, Observed
from .samplers import ImageSampler

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Langevin(ImageSampler):
    r"""Metropolis-adjusted Langevin chains, one a sample, on the density that a mixture and a linear operator have.

    They begin at draws of the posterior that one Gaussian with the moments of the mixture would have, whose covariance
    is their metric. They are exact in the end, but seldom cross from one Gaussian of the mixture to another.

    Arguments:
        steps: The number of steps of each chain.
        rate: The length of a step, in units of the sixth root of the number of dimensions.
    """

    steps: int = 300
    rate: float = 1.65

    linear = True

    def skip(self, operator: Any) -> str | None:
        size = math.prod(operator.event)
        large = f"Langevin chains need a matrix of {size} x {size} pixels: at most {MOST_PIXELS} are taken"
        return super().skip(operator) or (large if size > MOST_PIXELS else None)

    def solve(self, prior: Asked, seen: Observed, draw: "Callable[[], Tensor]") -> "Tensor":
        import torch

        mixture = _with_density(prior.prior)
        mean, root = _gaussian_posterior(mixture, seen)
        shape = (-1, *mixture.event)

        def target(z: "Tensor") -> tuple["Tensor", "Tensor"]:
            y = (mean + z @ root.T).reshape(shape)
            logs = mixture.log_prob(y, 0.0) + seen.log_likelihood(y)
            prior.calls += 1
            return logs, (mixture.score(y, 0.0) + seen.gradient(y)).flatten(1) @ root

        z = draw().flatten(1)
        step = self.rate * z.shape[1] ** (-1 / 6)
        logs, slope = target(z)
        for _ in range(self.steps):
            ahead = z + 0.5 * step**2 * slope + step * draw().flatten(1)
            logs_ahead, slope_ahead = target(ahead)
            there = (ahead - z - 0.5 * step**2 * slope).square().sum(dim=1)
            back = (z - ahead - 0.5 * step**2 * slope_ahead).square().sum(dim=1)
            ratio = logs_ahead - logs + (there - back) / (2 * step**2)
            chance = torch.special.ndtr(draw().flatten(1)[:, 0])
            taken = (chance.log() < ratio)[:, None]
            z, slope = torch.where(taken, ahead, z), torch.where(taken, slope_ahead, slope)
            logs = torch.where(taken[:, 0], logs_ahead, logs)
        return (mean + z @ root.T).reshape(shape)


def _with_density(prior: Any) -> Mixture:
    if not isinstance(prior, Mixture) or not prior.subspace.rest:
        raise UsageError("Langevin chains need a mixture that has a density: with noise outside of its subspace")
    return prior


def _gaussian_posterior(prior: Mixture, seen: Observed) -> tuple["Tensor", "Tensor"]:
    r"""Returns mean $(d,)$ and root $(d, d)$ of the posterior under one Gaussian with the moments of a mixture."""
    import torch

    operator, subspace = seen.linear, prior.subspace
    size, rank = len(subspace.mean), len(subspace.components)
    weights, means = torch.as_tensor(prior.weights), torch.as_tensor(prior.means)
    components, offset = torch.as_tensor(subspace.components), torch.as_tensor(subspace.mean)
    center = weights @ means
    away = means - center
    spread = torch.einsum("k,krs->rs", weights, torch.as_tensor(prior.covariances)) + (weights * away.T) @ away
    precision = components.T @ (torch.linalg.inv(spread) - torch.eye(rank) / subspace.rest**2) @ components
    precision += torch.eye(size) / subspace.rest**2
    units = torch.eye(size, dtype=torch.float64).reshape(size, *prior.event)
    precision += torch.cat([operator.gram(part).flatten(1) for part in torch.split(units, 256)]) / operator.noise**2
    mean = offset + center @ components
    pull = seen.gradient(mean.reshape(1, *prior.event)).flatten()
    # Upper triangular, so that root @ root.T is the covariance.
    factor = torch.linalg.cholesky(precision)
    root = torch.linalg.solve_triangular(factor.T, torch.eye(size, dtype=torch.float64), upper=True)
    return (mean + torch.cholesky_solve(pull[:, None], factor)[:, 0]).float(), root.float()
