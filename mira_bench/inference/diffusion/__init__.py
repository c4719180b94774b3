r"""Distributions of images by their denoisers, diffusion models and mixtures, and what data say about such images.

A prior has `sample(count, rng, condition)` and `denoise(x, sigma, condition)`; one that is known exactly, a mixture,
also `log_prob(x, sigma)` and `score(x, sigma)`. An operator has `forward(y)`, `adjoint(x)` and `log_likelihood(y, x)`.
A sampler of posteriors is `sample(prior, operator, x, count, rng)`. All are in the units of the images.
"""

__all__ = [
    "Asked",
    "ChannelOperator",
    "ClassMixtures",
    "Daps",
    "DiffPir",
    "DiffusionPrior",
    "DiffusionTrainer",
    "Dps",
    "ImageSampler",
    "Langevin",
    "LatentPrior",
    "LatentTrainer",
    "LinearOperator",
    "MatrixOperator",
    "Mixture",
    "MixturePosterior",
    "MixtureTrainer",
    "Mmps",
    "Observed",
    "Operator",
    "PnpDm",
    "PredictorCorrector",
    "RedDiff",
    "Spectrum",
    "SpectrumTrainer",
    "Subspace",
    "ancestral",
    "ddpm_levels",
    "heun",
    "noise_levels",
]

from .exact import MixturePosterior
from .guidance import Dps, Mmps
from .langevin import Langevin
from .latent import LatentTrainer
from .linear import LinearOperator, MatrixOperator
from .mixture import ClassMixtures, Mixture, MixtureTrainer
from .observed import Asked, Observed
from .operators import ChannelOperator, Operator, Spectrum, SpectrumTrainer
from .posterior_sampling import PredictorCorrector
from .prior import DiffusionPrior, LatentPrior
from .reddiff import RedDiff
from .samplers import ImageSampler
from .sampling import ancestral, ddpm_levels, heun, noise_levels
from .splitting import Daps, DiffPir, PnpDm
from .subspace import Subspace
from .training import DiffusionTrainer
