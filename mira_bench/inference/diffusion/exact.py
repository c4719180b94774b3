r"""The exact posterior of a mixture of Gaussians given data of a linear operator: a mixture again."""

__all__ = ["MixturePosterior"]

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from .linear import LinearOperator
from .mixture import Mixture

Floats = NDArray[np.float64]

BATCH = 256  # images whose data are found together
MOST_PIXELS = 4096  # where images vary in all of them: a covariance of more takes too much memory


@dataclass(frozen=True)
class MixturePosterior:
    r"""$p(y \mid x)$ for images $y$ of a mixture and data $x = A y + \sigma \epsilon$.

    Component $k$ has the precision $C_k^{-1} + G^\top G / \sigma^2$, whatever the data are. Where images stay in the
    subspace of the mixture, that is in its codes, and $G = A W$; where they vary outside as well, it is in pixels, and
    $G = A$.

    Arguments:
        prior: The mixture; of a `ClassMixtures`, one of its `mixtures`.
        operator: The operator, with its noise: a `ChannelOperator` or a `LinearOperator`.

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
    operator: Any

    def __post_init__(self) -> None:
        if tuple(self.prior.event) != tuple(self.operator.event):
            raise UsageError(f"the prior has images {self.prior.event}, the operator takes {self.operator.event}")
        pixels = math.prod(self.prior.event)
        if self._everywhere and pixels > MOST_PIXELS:
            raise UsageError(
                f"the exact posterior of images that vary in all of {pixels} pixels takes too much memory: at most "
                f"{MOST_PIXELS}, or a mixture without noise outside of its subspace"
            )

    @property
    def _everywhere(self) -> bool:
        r"""Whether images vary in all pixels, and not in the subspace alone."""
        return bool(self.prior.subspace.rest)

    @cached_property
    def _seen(self) -> tuple[Floats, Floats]:
        r"""The data of the mean image $(n,)$, and those of a unit of each coordinate, $(r, n)$ or $(d, n)$."""
        mean, components = self.prior.subspace.mean, self.prior.subspace.components
        units = np.eye(len(mean)) if self._everywhere else components
        images = np.concatenate([mean[None], units]).reshape(-1, *self.prior.event)
        data = _forward(self.operator, images).reshape(len(images), -1)
        return data[0], data[1:]

    def _component(self, k: int) -> tuple[Floats, Floats, float]:
        r"""The mean of a component, its precision, and the logarithm of the determinant of its covariance."""
        mean, covariance = self.prior.means[k], self.prior.covariances[k]
        inverse, volume = np.linalg.inv(covariance), float(np.linalg.slogdet(covariance)[1])
        if not self._everywhere:
            return mean, inverse, volume
        components, rest = self.prior.subspace.components, self.prior.subspace.rest
        rank, size = components.shape
        precision = components.T @ (inverse - np.eye(rank) / rest**2) @ components
        precision[np.diag_indices(size)] += rest**-2
        return mean @ components, precision, volume + 2 * (size - rank) * math.log(rest)

    @cached_property
    def _factors(self) -> tuple[Floats, Floats, Floats]:
        r"""Of every component: the root of its posterior covariance, its precision times mean, and a constant."""
        from threadpoolctl import threadpool_limits

        _, seen = self._seen
        with threadpool_limits(1):
            gram = seen @ seen.T / self.operator.noise**2
            roots, pulls, constants = [], [], []
            for k in range(len(self.prior.weights)):
                mean, inverse, volume = self._component(k)
                # Upper triangular, so that root @ root.T is the inverse of the precision.
                root = np.linalg.inv(np.linalg.cholesky(inverse + gram)).T
                roots.append(root)
                pulls.append(inverse @ mean)
                constants.append(np.log(np.abs(np.diag(root))).sum() - 0.5 * (volume + mean @ inverse @ mean))
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

    def mean(self, x: NDArray) -> NDArray[np.float32]:
        r"""Returns the mean image, with shape $(L, *event)$, for data $(L, *data)$."""
        logs, means = self.components(x)
        weights = np.exp(logs - np.logaddexp.reduce(logs, axis=1)[:, None])
        return self._images(np.einsum("lk,lkr->lr", weights, means)).reshape(len(x), *self.prior.event)

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
            found[l] = self._images(codes).reshape(count, *self.prior.event)
        return found

    def _images(self, coordinates: Floats) -> NDArray[np.float32]:
        if self._everywhere:
            return (self.prior.subspace.mean + coordinates).astype(np.float32)
        return self.prior.subspace.decode(coordinates)


def _forward(operator: Any, images: Floats) -> Floats:
    if not isinstance(operator, LinearOperator):
        return np.asarray(operator.forward(images), np.float64)
    import torch

    from ..gradient_training import one_thread

    with one_thread():
        return np.concatenate([operator.forward(part).numpy() for part in torch.split(torch.as_tensor(images), BATCH)])
