r"""Distributions of images by their denoisers: diffusion models that are trained, and mixtures that are written down.

A prior has `sample(count, rng, condition)` and `denoise(x, sigma, condition)`; one that is known exactly, a mixture,
also `log_prob(x, sigma)` and `score(x, sigma)`. All are in the units of the images.
"""

__all__ = [
    "ClassMixtures",
    "DiffusionPrior",
    "DiffusionTrainer",
    "LatentPrior",
    "LatentTrainer",
    "Mixture",
    "MixtureTrainer",
    "Subspace",
    "heun",
    "noise_levels",
]

from .latent import LatentTrainer
from .mixture import ClassMixtures, Mixture, MixtureTrainer
from .prior import DiffusionPrior, LatentPrior
from .sampling import heun, noise_levels
from .subspace import Subspace
from .training import DiffusionTrainer
