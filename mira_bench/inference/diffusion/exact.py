r"""The exact posterior of a mixture of Gaussians given data of a linear operator: a mixture again."""

__all__ = ["MixturePosterior"]

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from .mixture import Mixture
from .operators import ChannelOperator

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MixturePosterior:
    r"""$p(y \mid x)$ for images $y$ of a mixture in a subspace and data $x = A y + \sigma \epsilon$.

    Codes of component $k$ have the precision $C_k^{-1} + G^\top G / \sigma^2$ with $G = A W$, whatever the data are.

    Arguments:
        prior: The mixture, without noise outside of its subspace; of a `ClassMixtures`, one of its `mixtures`.
        operator: The operator, with its noise.

    Example:
        >>> from scipy.sparse import eye_array
        >>> from mira_bench.inference.diffusion import ChannelOperator, Mixture, MixturePosterior, Subspace
        >>> plane = Subspace(np.zeros(4), np.eye(4)[:2], 0.0)  # images of 1 x 2 x 2 pixels, of which two vary
        >>> prior = Mixture(plane, (1, 2, 2), np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
        >>> posterior = MixturePosterior(prior, ChannelOperator(eye_array(4).tocsr(), 1.0, (1, 2, 2), (1, 2, 2)))
        >>> posterior.sample(np.ones((3, 1, 2, 2)), 5, np.random.default_rng(0)).shape
        (3, 5, 1, 2, 2)
    """

    prior: Mixture
    operator: ChannelOperator

    def __post_init__(self) -> None:
        if self.prior.subspace.rest:
            raise UsageError("the exact posterior is known for mixtures without noise outside of their subspace")
        if self.prior.event != self.operator.event:
            raise UsageError(f"the prior has images {self.prior.event}, the operator takes {self.operator.event}")

    @cached_property
    def _seen(self) -> tuple[Floats, Floats]:
        r"""The data of the mean image $(n,)$, and those of the components of the subspace, $(r, n)$."""
        mean, components = self.prior.subspace.mean, self.prior.subspace.components
        images = np.concatenate([mean[None], components]).reshape(-1, *self.prior.event)
        data = self.operator.forward(images).reshape(len(images), -1)
        return data[0], data[1:]

    @cached_property
    def _factors(self) -> tuple[Floats, Floats, Floats]:
        r"""Of every component: the root of its posterior covariance, its precision times mean, and a constant."""
        from threadpoolctl import threadpool_limits

        _, seen = self._seen
        with threadpool_limits(1):
            gram = seen @ seen.T / self.operator.noise**2
            roots, pulls, constants = [], [], []
            for mean, covariance in zip(self.prior.means, self.prior.covariances, strict=True):
                inverse = np.linalg.inv(covariance)
                precision = inverse + gram
                # Upper triangular, so that root @ root.T is the inverse of the precision.
                root = np.linalg.inv(np.linalg.cholesky(precision)).T
                roots.append(root)
                pulls.append(inverse @ mean)
                volumes = np.log(np.abs(np.diag(root))).sum() - 0.5 * np.linalg.slogdet(covariance)[1]
                constants.append(volumes - 0.5 * mean @ inverse @ mean)
        return np.stack(roots), np.stack(pulls), np.array(constants)

    def components(self, x: NDArray) -> tuple[Floats, Floats]:
        r"""Returns of every component the log of weight times evidence $(L, K)$ and the posterior mean $(L, K, r)$."""
        offset, seen = self._seen
        roots, pulls, constants = self._factors
        noise = self.operator.noise
        away = self.operator.checked(x).astype(np.float64).reshape(len(x), -1) - offset
        pull = pulls + (away @ seen.T / noise**2)[:, None]
        white = np.einsum("krs,lkr->lks", roots, pull)
        means = np.einsum("krs,lks->lkr", roots, white)
        logs = np.log(self.prior.weights) + constants + 0.5 * np.square(white).sum(axis=2)
        size = away.shape[1]
        known = -0.5 * np.square(away / noise).sum(axis=1) - size * math.log(noise * math.sqrt(2 * math.pi))
        return logs + known[:, None], means

    def log_evidence(self, x: NDArray) -> Floats:
        r"""Returns $\log p(x)$, with shape $(L,)$, for data $(L, *data)$."""
        return np.asarray(np.logaddexp.reduce(self.components(x)[0], axis=1))

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
        r"""Returns images with shape $(L, count, *event)$ for data $(L, *data)$."""
        logs, means = self.components(x)
        roots = self._factors[0]
        weights = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
        found = np.empty((len(x), count, *self.prior.event), np.float32)
        for l in range(len(x)):
            which = rng.choice(len(roots), size=count, p=weights[l] / weights[l].sum())
            noise = rng.standard_normal((count, roots.shape[1]))
            codes = means[l, which]
            for k in np.unique(which):
                codes[which == k] += noise[which == k] @ roots[k].T
            found[l] = self.prior.subspace.decode(codes).reshape(count, *self.prior.event)
        return found
