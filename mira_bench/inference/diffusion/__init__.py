r"""Distributions of images by their denoisers, diffusion models and mixtures, and what data say about such images.

A prior has `sample(count, rng, condition)` and `denoise(x, sigma, condition)`; one that is known exactly, a mixture,
also `log_prob(x, sigma)` and `score(x, sigma)`. An operator has `forward(y)`, `adjoint(x)` and `log_likelihood(y, x)`.
A sampler of posteriors is `sample(prior, operator, x, count, rng)`. All are in the units of the images.
"""

__all__ = [
    "ChannelOperator",
    "ClassMixtures",
    "DiffusionPrior",
    "DiffusionTrainer",
    "LatentPrior",
    "LatentTrainer",
    "Mixture",
    "MixturePosterior",
    "MixtureTrainer",
    "Operator",
    "PredictorCorrector",
    "Spectrum",
    "SpectrumTrainer",
    "Subspace",
    "heun",
    "noise_levels",
]

from .exact import MixturePosterior
from .latent import LatentTrainer
from .mixture import ClassMixtures, Mixture, MixtureTrainer
from .operators import ChannelOperator, Operator, Spectrum, SpectrumTrainer
from .posterior_sampling import PredictorCorrector
from .prior import DiffusionPrior, LatentPrior
from .sampling import heun, noise_levels
from .subspace import Subspace
from .training import DiffusionTrainer
