r"""Reconstructions of a galaxy: what a prior and a noise level make of the data."""

__all__ = ["Diffused", "Exact", "Trained"]

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.candidate import Draws
from mira_bench.errors import UsageError
from mira_bench.inference.diffusion.exact import MixturePosterior
from mira_bench.inference.diffusion.operators import ChannelOperator, Spectrum, SpectrumTrainer
from mira_bench.inference.diffusion.posterior_sampling import PredictorCorrector
from mira_bench.inference.diffusion.prior import DiffusionPrior
from mira_bench.inference.diffusion.training import DiffusionTrainer
from mira_bench.inference.gradient_training import train
from mira_bench.trainer import State

from .priors import CLASSES
from .task import Galaxy


def _check(prior: str, noise: float) -> None:
    if prior not in CLASSES:
        raise UsageError(f"prior={prior!r} is not one of {', '.join(CLASSES)}")
    if isinstance(noise, bool) or not isinstance(noise, int | float) or not noise > 0:
        raise UsageError(f"noise={noise!r}: a positive number is needed")


@dataclass(frozen=True)
class Exact:
    r"""The exact posterior under the mixture of a class and a noise level.

    Arguments:
        prior: The class, `"spiral"` or `"elliptical"`.
        noise: The standard deviation of the noise.
    """

    prior: str = "spiral"
    noise: float = 2.0

    version = 1

    def __post_init__(self) -> None:
        _check(self.prior, self.noise)

    def build(self, task: Galaxy, rng: np.random.Generator) -> MixturePosterior:
        return MixturePosterior(task.prior_of(self.prior), task.operator(self.noise))


@dataclass(frozen=True)
class Sampled:
    r"""A posterior by a sampler.

    Arguments:
        prior: What has a denoiser.
        operator: The operator with its noise and spectrum.
        sampler: The sampler.
        condition: The class of the prior, if it has several.
    """

    prior: Any
    operator: ChannelOperator
    sampler: PredictorCorrector
    condition: int | None = None

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> Draws:
        values = self.sampler.sample(self.prior, self.operator, x, count, rng, self.condition)
        calls = np.full(len(x), float(count * self.sampler.calls))
        return Draws(values, diagnostics={"denoiser_calls": calls})


@dataclass(frozen=True)
class Diffused:
    r"""The same posterior as `Exact` by a diffusion sampler: what differs is the sampler's own error.

    Arguments:
        prior: The class, `"spiral"` or `"elliptical"`.
        noise: The standard deviation of the noise.
        sampler: The sampler.
        trainer: What diagonalizes the lens.
    """

    prior: str = "spiral"
    noise: float = 2.0
    sampler: PredictorCorrector = field(default_factory=PredictorCorrector)
    trainer: SpectrumTrainer = field(default_factory=SpectrumTrainer)

    version = 1

    def __post_init__(self) -> None:
        _check(self.prior, self.noise)

    def load(self, task: Galaxy, state: State) -> Sampled:
        operator = task.operator(self.noise)
        spectrum = Spectrum(operator.matrix, state["values"], state["right"])
        return Sampled(task.prior_of(self.prior), operator.with_spectrum(spectrum), self.sampler)

    def build(self, task: Galaxy, rng: np.random.Generator) -> Sampled:
        return self.load(task, self.trainer.fit(self.trainer.learns_from(task), rng, lambda *_: None))


@dataclass(frozen=True)
class Trained:
    r"""The posterior of a diffusion model that is trained on the images of both classes, as in the paper.

    Arguments:
        prior: The class, `"spiral"` or `"elliptical"`.
        noise: The standard deviation of the noise.
        sampler: The sampler.
        trainer: What determines the training, which all such candidates share.
        at: The epoch whose weights are used; none takes the last.
    """

    prior: str = "spiral"
    noise: float = 2.0
    sampler: PredictorCorrector = field(default_factory=PredictorCorrector)
    trainer: DiffusionTrainer = field(default_factory=DiffusionTrainer)
    at: int | None = None

    version = 1

    def __post_init__(self) -> None:
        _check(self.prior, self.noise)
        trainer, sampler = self.trainer, self.sampler
        low, high = (trainer.scale * level for level in (trainer.smallest, trainer.largest))
        # A preconditioned network has no ends; this one would be asked for times that it has never seen.
        if trainer.kind == "ve" and not low * (1 - 1e-9) <= sampler.smallest < sampler.largest <= high * (1 + 1e-9):
            raise UsageError(
                f"sampler: noise from {sampler.largest:g} to {sampler.smallest:g}, but the network learns from "
                f"{high:g} to {low:g}, in the units of the images"
            )

    def load(self, task: Galaxy, state: State) -> Sampled:
        operator = task.operator(self.noise)
        spectrum = Spectrum.of(operator.matrix)
        prior = DiffusionPrior.of(self.trainer, state)
        return Sampled(prior, operator.with_spectrum(spectrum), self.sampler, CLASSES.index(self.prior))

    def build(self, task: Galaxy, rng: np.random.Generator) -> Sampled:
        return self.load(task, train(self.trainer, self.trainer.learns_from(task), rng))
