r"""Images that are seen through an operator, with a prior that is known: which sampler finds the posterior?"""

__all__ = ["Inverse"]

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.fiducials import Fiducials
from mira_bench.inference.diffusion.exact import MOST_PIXELS, MixturePosterior
from mira_bench.inference.diffusion.linear import LinearOperator
from mira_bench.inference.diffusion.mixture import Mixture
from mira_bench.trainer import State

from . import phantoms
from .images import Images, load_images
from .priors import Codes, ImagePrior

BLOCK = 4


@dataclass(frozen=True)
class Inverse:
    r"""$y$ is an image with shape $(C, H, W)$ and values of about one; $x$ is what an instrument makes of it.

    The prior is a mixture of Gaussians that is fitted to images. Truths are drawn from it, so that the posterior is
    exact where the operator is linear, and the denoiser of every sampler is exact.

    Arguments:
        problem: The instrument: `Mri`, `Scattering`, `Visibilities` or `Closures`.
        trainer: What learns the prior.
        reference: What samples the posterior where it is not known in closed form, if anything does.
        learned: What it learned.
        truths: Where true images come from: `"prior"`, so that a posterior can be exact; or a file or folder of images,
            see `load_images`. They are taken in their order, as one block: give as many as are to be scored.
    """

    problem: Any
    trainer: ImagePrior = field(default_factory=ImagePrior)
    reference: Any = None
    learned: State | None = field(default=None, compare=False, repr=False)
    truths: str = "prior"

    version = 1

    def __post_init__(self) -> None:
        shape = self.trainer.given_shape
        if shape is not None and shape != self.event:
            two = ": two channels are real and imaginary part, np.stack([images, 0 * images], axis=1) in a file .npy"
            raise UsageError(
                f"images={self.trainer.images} has images {shape}; those of the problem are {self.event}"
                f"{two if self.event[0] == 2 else ''}"
            )

    def describe(self) -> Mapping[str, Any]:
        r"""What determines fiducials."""
        parts: dict[str, Any] = {
            "problem": {"class": type(self.problem).__name__, **dataclasses.asdict(self.problem)},
            "trainer": self.trainer.describe(),
        }
        if self.reference is not None:
            parts["reference"] = {"version": self.reference.version, **dataclasses.asdict(self.reference)}
        if self._given is not None:
            parts["truths"] = self._given.sha256
        if self.trainer.given_shape is not None:  # problems find their units with procedural images all the same
            parts["recipe"] = phantoms.VERSION
        return {"class": "inverse", "version": self.version, **parts}

    @property
    def data_files(self) -> dict[str, str]:
        path = os.path.abspath(os.path.expanduser(self.truths))
        own = {path: self._given.sha256} if self._given is not None and os.path.isfile(path) else {}
        return {**self.trainer.data_files, **own}

    @functools.cached_property
    def _given(self) -> Images | None:
        r"""True images of the user, if there are any."""
        if self.truths == "prior":
            return None
        found = load_images(self.truths, self.event[0])
        if found.images.shape[1:] != self.event:
            raise UsageError(
                f"{self.truths} has images {found.images.shape[1:]}; those of the problem are {self.event}"
            )
        return found

    def load(self, state: State) -> "Inverse":
        r"""Returns the task that knows its prior."""
        known = dataclasses.replace(self, learned=state)
        # With the images that this one was identified by: their file may be another by now.
        vars(known).update({key: value for key, value in vars(self).items() if key == "_given"})
        return known

    @functools.cached_property
    def prior(self) -> Mixture:
        r"""The prior."""
        if self.learned is None:
            raise UsageError("the prior of this task is not learned yet: run it, or give it a state by load")
        return self.trainer.load(self.learned)

    @property
    def event(self) -> tuple[int, ...]:
        r"""The shape of an image."""
        return tuple(self.problem.event)

    @property
    def operator(self) -> Any:
        r"""The operator, with its noise."""
        return self.problem.operator()

    @property
    def block(self) -> int:
        return BLOCK if self._given is None else len(self._given.images)

    @property
    def most_fiducials(self) -> float:
        return math.inf if self._given is None else len(self._given.images)

    @property
    def bounds(self) -> tuple[float, float]:
        return self.trainer.bounds

    @property
    def views(self) -> dict[str, Any]:
        r"""What else can be looked at: `codes`, the coordinates of images in the subspace of the prior."""
        return {"codes": Codes(self.trainer)}

    @property
    def prior_sample(self) -> Callable[[int, np.random.Generator], NDArray[np.float32]]:
        r"""Draws images as the true ones are."""
        if self._given is not None:
            raise AttributeError("truths are images, of which there are no more")
        return lambda count, rng: self.prior.sample(count, rng)

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        if count > self.most_fiducials:
            raise UsageError(f"{count} images were asked for, and {self.truths} has {self.most_fiducials}")
        y = self.prior_sample(count, rng) if self._given is None else self._given.images[:count]
        return Fiducials(y, self.problem.measure(y, rng))

    def log_likelihood(self, y: NDArray, x: NDArray) -> NDArray[np.float64]:
        r"""The log-likelihood of images, for shapes that broadcast."""
        return self._of_each("log_likelihood", y, x)

    def misfit(self, y: NDArray, x: NDArray) -> NDArray[np.float64]:
        r"""The mean square of residuals in units of their noise, for shapes that broadcast."""
        return self._of_each("misfit", y, x)

    def _of_each(self, what: str, y: NDArray, x: NDArray) -> NDArray[np.float64]:
        r"""Asks the operator for images $(L, K, *event)$ and observations $(L, 1, *data)$, or as many of both."""
        import torch

        event, data = self.event, tuple(self.operator.data)
        shape = np.broadcast_shapes(y.shape[: -len(event)], x.shape[: -len(data)])
        images = np.broadcast_to(y, (*shape, *event)).reshape(-1, *event)
        shared = len(shape) == 2 and np.shape(x)[: -len(data)] == (shape[0], 1)
        observed = x.reshape(-1, *data) if shared else np.broadcast_to(x, (*shape, *data)).reshape(-1, *data)
        each = shape[1] if shared else 1  # images of an observation
        function = getattr(self.operator, what)
        found = np.empty(len(images))
        with torch.no_grad():
            for l, one in enumerate(observed):
                rows = slice(l * each, (l + 1) * each)
                pair = (torch.as_tensor(np.array(a), dtype=torch.float32) for a in (images[rows], one[None]))
                found[rows] = function(*pair).double().numpy()
        return found.reshape(shape)

    @functools.cached_property
    def _posterior(self) -> Any:
        if self.reference is not None:
            return self.reference.build(self)
        return MixturePosterior(self.prior, self.operator)

    @property
    def exact_posterior(self) -> Callable[[], Any]:
        if self._given is not None:
            raise AttributeError("truths are images, and no prior is exact for them")
        # Asked before the prior is learned: what is known by then decides.
        small = not self.trainer.mixture.rest or math.prod(self.event) <= MOST_PIXELS
        if self.reference is None and not (isinstance(self.operator, LinearOperator) and small):
            raise AttributeError("the posterior of this problem is not known in closed form")
        return lambda: self._posterior

    def illustrate(self, fiducials: Fiducials, samples: Mapping[str, NDArray]) -> dict[str, Any]:
        from .grids import moments_grid
        from .pictures import draw

        measured = draw(self.problem, np.asarray(fiducials.y)[0], np.asarray(fiducials.x)[0])
        return {"posteriors": moments_grid(self, fiducials, samples), "problem": measured}
