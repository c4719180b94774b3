r"""Mixtures of Gaussians in a subspace of images, whose density, score and denoiser are known at every noise level."""

__all__ = ["ClassMixtures", "Mixture", "MixtureTrainer"]

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from ...trainer import Report, State
from .subspace import Subspace

if TYPE_CHECKING:
    from torch import Tensor

ITERATIONS = 200  # of EM at most
FLOOR = 1e-6  # the least variance of a component, of images in [0, 1]


@dataclass(frozen=True)
class Mixture:
    r"""A mixture of Gaussians of codes in a subspace, $p(c) = \sum_k \pi_k N(c \mid \mu_k, C_k)$, as a prior of images.

    With noise it stays one: $C_k + \sigma^2$. What images have outside of the subspace is white noise, or nothing.

    Arguments:
        subspace: The subspace, whose `rest` is the standard deviation of that white noise.
        event: The shape of an image.
        weights: The weights $\pi_k$, with shape $(K,)$.
        means: The means $\mu_k$, with shape $(K, r)$.
        covariances: The covariances $C_k$, with shape $(K, r, r)$.
    """

    subspace: Subspace
    event: tuple[int, ...]
    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    covariances: NDArray[np.float64]

    def __post_init__(self) -> None:
        count, rank = self.means.shape
        if self.weights.shape != (count,) or self.covariances.shape != (count, rank, rank):
            raise UsageError(
                f"weights {self.weights.shape}, means {self.means.shape}, covariances {self.covariances.shape}: "
                "a mixture has (K,), (K, r) and (K, r, r)"
            )
        if (self.weights < 0).any() or not math.isclose(float(self.weights.sum()), 1.0, abs_tol=1e-6):
            raise UsageError(f"the weights of a mixture must be positive and sum to 1, not to {self.weights.sum():.6g}")

    @cached_property
    def axes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""The variances $(K, r)$ along the principal axes of each component, and the axes $(K, r, r)$ as columns."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            variances, axes = np.linalg.eigh(self.covariances)
        return np.maximum(variances, 0.0), axes

    def sample(
        self, count: int, rng: np.random.Generator, condition: NDArray[np.integer] | None = None
    ) -> NDArray[np.float32]:
        r"""Returns images, with shape $(count, *event)$. A single mixture has no classes to be conditional on."""
        variances, axes = self.axes
        which = rng.choice(len(self.weights), size=count, p=self.weights)
        shifts = rng.standard_normal((count, variances.shape[1])) * np.sqrt(variances[which])
        codes = self.means[which].copy()
        for k in np.unique(which):  # one by one, as rows of `axes[which]` would take gigabytes
            codes[which == k] += shifts[which == k] @ axes[k].T
        images = self.subspace.decode(codes)
        if self.subspace.rest:
            noise = rng.standard_normal(images.shape)
            outside = noise - (noise @ self.subspace.components.T) @ self.subspace.components
            images += (self.subspace.rest * outside).astype(np.float32)
        return images.reshape(count, *self.event)

    def log_prob(self, x: "Tensor", sigma: "Tensor | float" = 0.0) -> "Tensor":
        r"""Returns the log-density of $y + \sigma \epsilon$ at images $(B, *event)$, with shape $(B,)$."""
        centered, codes, noise, remaining = self._seen(x, sigma)
        logs, *_ = self._components(codes, noise)
        components = self._tensors(x)[1]
        distance = (centered - codes @ components).square().sum(dim=1)
        size = centered.shape[1] - codes.shape[1]
        return logs.logsumexp(dim=1) - 0.5 * (distance / remaining + size * (2 * math.pi * remaining).log())

    def score(self, x: "Tensor", sigma: "Tensor | float" = 0.0) -> "Tensor":
        r"""Returns the gradient of `log_prob`, with the shape of $x$."""
        centered, codes, noise, remaining = self._seen(x, sigma)
        logs, along, spread = self._components(codes, noise)
        _, components, _, _, _, axes = self._tensors(x)
        count, rank = axes.shape[0], axes.shape[1]
        # One product with the axes of all components side by side, and one from codes to images: what is inside of the
        # subspace has another pull than white noise has.
        weighted = (logs.softmax(dim=1)[:, :, None] * along / spread).reshape(len(x), count * rank)
        pull = weighted @ axes.transpose(1, 2).reshape(count * rank, rank)
        remaining = remaining[:, None]
        return -((pull - codes / remaining) @ components + centered / remaining).reshape(x.shape)

    def denoise(self, x: "Tensor", sigma: "Tensor | float", condition: "Tensor | None" = None) -> "Tensor":
        r"""Returns $E[y \mid x]$ for images $(B, *event)$ with noise $(B,)$ or of one standard deviation.

        It is $x + \sigma^2 \nabla \log p_\sigma(x)$. That would be a small difference of large numbers where noise is
        strong, and lose the derivative; here each component pulls codes towards its mean, and nothing cancels.
        """
        centered, codes, noise, remaining = self._seen(x, sigma)
        logs, along, spread = self._components(codes, noise)
        mean, components, _, means, variances, axes = self._tensors(x)
        count, rank = means.shape
        pulled = logs.softmax(dim=1)[:, :, None] * (means + variances / spread * along)
        inside = pulled.reshape(len(x), count * rank) @ axes.transpose(1, 2).reshape(count * rank, rank)
        outside = (self.subspace.rest**2 / remaining)[:, None]
        return (mean + (inside - outside * codes) @ components + outside * centered).reshape(x.shape)

    def _seen(self, x: "Tensor", sigma: "Tensor | float") -> tuple["Tensor", "Tensor", "Tensor", "Tensor"]:
        r"""Returns images without their mean, their codes, and the variances of the noise and outside of all codes."""
        import torch

        noise = torch.as_tensor(sigma, dtype=x.dtype, device=x.device).expand(len(x)).square()
        mean, components, *_ = self._tensors(x)
        remaining = noise + self.subspace.rest**2
        if not bool((remaining > 0).all()):
            raise UsageError("images in a subspace have no density without noise: give sigma above zero, or a rest")
        centered = x.flatten(1) - mean
        return centered, centered @ components.T, noise, remaining

    def _components(self, codes: "Tensor", noise: "Tensor") -> tuple["Tensor", "Tensor", "Tensor"]:
        r"""Returns the log-density of each component, and along its axes the distances and the variances."""
        _, _, weights, means, variances, axes = self._tensors(codes)
        count, rank = means.shape
        along = (codes @ axes.transpose(0, 1).reshape(rank, count * rank)).reshape(-1, count, rank) - means
        spread = variances + noise[:, None, None]
        logs = weights.log() - 0.5 * (along.square() / spread + (2 * math.pi * spread).log()).sum(dim=2)
        return logs, along, spread

    @cached_property
    def _known(self) -> dict[Any, tuple["Tensor", ...]]:
        return {}

    def _tensors(self, like: "Tensor") -> tuple["Tensor", ...]:
        r"""Returns mean and components of the subspace, weights, means along the axes, variances and axes."""
        import torch

        key = (like.dtype, like.device)
        if key not in self._known:  # the denoiser is asked a thousand times
            variances, axes = self.axes
            along = np.einsum("kr,krs->ks", self.means, axes)
            arrays = (self.subspace.mean, self.subspace.components, self.weights, along, variances, axes)
            self._known[key] = tuple(torch.tensor(v, dtype=like.dtype, device=like.device) for v in arrays)
        return self._known[key]


@dataclass(frozen=True)
class ClassMixtures:
    r"""A mixture for each class.

    Arguments:
        mixtures: The mixture of each class.
    """

    mixtures: tuple[Mixture, ...]

    def sample(
        self, count: int, rng: np.random.Generator, condition: NDArray[np.integer] | None = None
    ) -> NDArray[np.float32]:
        r"""Returns images, with shape $(count, *event)$, of the given classes."""
        classes = _needed(condition)
        found = np.empty((count, *self.mixtures[0].event), np.float32)
        for k in np.unique(classes):
            found[classes == k] = self.mixtures[k].sample(int((classes == k).sum()), rng)
        return found

    def denoise(self, x: "Tensor", sigma: "Tensor", condition: "Tensor | None" = None) -> "Tensor":
        r"""Returns $E[y \mid x]$ for images $(B, *event)$ with noise $(B,)$ and classes $(B,)$."""
        classes, found = _needed(condition), x.clone()
        for k in classes.unique().tolist():
            found[classes == k] = self.mixtures[k].denoise(x[classes == k], sigma[classes == k])
        return found


def _needed(condition: Any) -> Any:
    if condition is None:
        raise UsageError("a mixture for each class needs to know the class")
    return condition


@dataclass(frozen=True, kw_only=True)
class MixtureTrainer:
    r"""Fits a mixture of Gaussians to images, one to each class if they have labels, by expectation-maximization.

    Arguments:
        rank: The number of principal components of each class.
        components: The number of Gaussians of each class.
        rest: Whether what is outside of the subspace is white noise of the same strength, and not left out.
    """

    rank: int = 60
    components: int = 15
    rest: bool = False

    version = 1
    packages = ("scikit-learn",)

    def learns_from(self, task: Any) -> State:
        return {"images": task.training_images, "labels": task.training_labels}

    def fit(self, data: State, rng: np.random.Generator, report: Report) -> dict[str, NDArray]:
        r"""Returns the parameters of all mixtures, and whether EM converged."""
        images = data["images"]
        labels = data.get("labels", np.zeros(len(images), np.int64))
        classes = int(labels.max()) + 1
        state = {"event": np.array(images.shape[1:]), "classes": np.array(classes)}
        for k in range(classes):
            if not (labels == k).any():
                raise UsageError(f"no image has the label {k}, and some have {classes - 1}")
            found = self._fit_one(images[labels == k], int(rng.integers(2**32)))
            state |= {f"class {k} {key}": value for key, value in found.items()}
            report("classes", k + 1, classes)
        return state

    def _fit_one(self, images: NDArray, seed: int) -> dict[str, NDArray]:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture
        from threadpoolctl import threadpool_limits

        subspace = Subspace.of(images, self.rank)
        em = GaussianMixture(self.components, reg_covar=FLOOR, max_iter=ITERATIONS, random_state=seed)
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is told with the state
            em.fit(subspace.encode(images))
        found = {"weights": em.weights_, "means": em.means_, "covariances": em.covariances_}
        found |= {"converged": np.array(em.converged_), "log likelihood": np.array(em.lower_bound_)}
        return found | subspace.to_arrays()

    def load(self, state: State) -> ClassMixtures:
        r"""Returns the mixture of each class."""
        event = tuple(map(int, state["event"]))
        return ClassMixtures(tuple(self._load_one(state, f"class {k} ", event) for k in range(int(state["classes"]))))

    def _load_one(self, state: State, prefix: str, event: tuple[int, ...]) -> Mixture:
        mine = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        subspace = Subspace.from_arrays(mine if self.rest else mine | {"rest": np.array(0.0)})
        weights = mine["weights"] / mine["weights"].sum()
        return Mixture(subspace, event, weights, mine["means"], mine["covariances"])
