r"""A reference posterior for data that are not linear: tempering, in the few directions in which images vary."""

__all__ = ["CodeReference"]

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.candidate import Draws
from mira_bench.errors import UsageError
from mira_bench.inference.diagnostics import diagnose
from mira_bench.inference.diffusion.mixture import Mixture
from mira_bench.inference.gradient_training import one_thread
from mira_bench.inference.smc import smc

if TYPE_CHECKING:
    from torch import Tensor

    from .task import Inverse

MOST_CODES = 20  # beyond them, particles do not find their way
WALL = 6.0  # where the box ends, in standard deviations of the prior


@dataclass(frozen=True)
class CodeReference:
    r"""Draws images whose codes follow one Gaussian, given any data: by tempering from the prior, then by chains.

    It is called a reference by the task's card only where it passed the checks that are told there.

    Arguments:
        particles: The number of particles that follow the tempering.
        chains: The number of chains.
        warmup: The draws of each chain that are dropped.
        draws: The draws of each chain that are kept, of which samples are taken at random.
        extend: How many times chains may be made twice as long, while they do not agree.
    """

    particles: int = 400
    chains: int = 20
    warmup: int = 20
    draws: int = 100
    extend: int = 3

    version = 2

    def build(self, task: "Inverse") -> "CodePosterior":
        r"""Returns the posterior of a task."""
        return CodePosterior(task.prior, task.operator, self)


@dataclass(frozen=True)
class CodePosterior:
    r"""The posterior of images whose codes follow one Gaussian.

    Arguments:
        prior: The prior, a mixture of one Gaussian, without noise outside of its subspace.
        operator: The operator, which must have `restricted`; that of closures does.
        settings: The settings of the chains.
    """

    prior: Mixture
    operator: Any
    settings: CodeReference

    def __post_init__(self) -> None:
        count, rank = self.prior.means.shape
        if count > 1 or self.prior.subspace.rest or rank > MOST_CODES:
            raise UsageError(
                f"a reference by chains needs one Gaussian of at most {MOST_CODES} codes and nothing outside of their "
                f"subspace: components=1, rest=false; this prior has {count} of {rank} codes"
            )

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> Draws:
        r"""Returns images with shape $(L, S, *event)$, the evidence, and what chains say of themselves."""
        found = np.empty((len(x), count, *self.prior.event), np.float32)
        told: dict[str, list[float]] = {"rhat": [], "ess_bulk": [], "acceptance": []}
        evidence = np.empty(len(x))
        with one_thread():
            for l, one in enumerate(x):
                target = _Codes(self.prior, self.operator, one)
                result = smc(target, rng, **dataclasses.asdict(self.settings))
                diagnosis = diagnose(result.samples, target)
                told["rhat"].append(float(diagnosis.rhat.max()))
                told["ess_bulk"].append(float(diagnosis.ess_bulk.min()))
                told["acceptance"].append(result.acceptance)
                evidence[l] = result.log_evidence + target.log_volume
                # In a random order: neighbors in a chain are alike, and whoever looks at the order would think of that.
                drawn = result.samples.reshape(-1, target.rank)
                rows = rng.choice(len(drawn), count, replace=count > len(drawn))
                found[l] = self.prior.subspace.decode(target.codes(drawn[rows])).reshape(count, *self.prior.event)
        return Draws(found, evidence, {key: np.array(values) for key, values in told.items()})


class _Codes:
    r"""The posterior of normal codes as `smc` sees it: a likelihood on a box so wide that its walls are never met.

    The normal prior is a part of that likelihood. In coordinates in which the prior would be uniform, the tails of
    codes are squeezed into the corners of the box, and some posteriors were missed altogether.
    """

    def __init__(self, prior: Mixture, operator: Any, x: NDArray) -> None:
        import torch

        self.rank = prior.means.shape[1]
        self.low, self.high = np.full(self.rank, -WALL), np.full(self.rank, WALL)
        self.mean, self.root = prior.means[0], np.linalg.cholesky(prior.covariances[0])
        # Uniform on the box to begin with, normal in the end: the evidence knows the ratio of their densities.
        self.log_volume = self.rank * (math.log(2 * WALL) - 0.5 * math.log(2 * math.pi))
        subspace = prior.subspace
        # What is measured of codes is found once: an image is the mean, and a sum of components.
        inside = operator.restricted(np.concatenate([subspace.components, subspace.mean[None]]))
        self.given = inside.given(torch.as_tensor(np.asarray(x, np.float64))[None])

    def codes(self, theta: NDArray) -> NDArray[np.float64]:
        r"""Returns codes that follow the prior, for points that are standard normal."""
        return np.asarray(self.mean + theta @ self.root.T)

    def _images(self, theta: NDArray) -> "Tensor":
        import torch

        codes = torch.as_tensor(self.codes(theta))
        return torch.cat([codes, codes.new_ones(len(codes), 1)], dim=1)

    def log_likelihood(self, theta: NDArray) -> NDArray[np.float64]:
        import torch

        with torch.no_grad():
            found = self.given.log_likelihood(self._images(theta)).numpy()
        return np.asarray(found - 0.5 * (theta**2).sum(axis=1))

    def log_likelihood_gradient(self, theta: NDArray) -> tuple[NDArray, NDArray]:
        import torch

        images = self._images(theta).requires_grad_()
        values = self.given.log_likelihood(images)
        (slope,) = torch.autograd.grad(values.sum(), images)
        found = values.detach().numpy() - 0.5 * (theta**2).sum(axis=1)
        return found, slope.numpy()[:, :-1] @ self.root - theta

    def fisher(self, theta: NDArray) -> NDArray[np.float64]:
        r"""Returns the Gauss-Newton Hessian, with shape $(W, r, r)$: how fast whitened residuals change."""
        slopes = self.given.slopes(self._images(theta)).numpy()[:, :, :-1] @ self.root
        return np.asarray(slopes.transpose(0, 2, 1) @ slopes + np.eye(self.rank))
