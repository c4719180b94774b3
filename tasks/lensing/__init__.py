r"""Strong lensing with parametric sources, as in the paper's section on model misspecification."""

__all__ = ["LensCandidate", "LensModel", "Lensing", "Likelihood", "Sersic"]

from .model import LensModel, Sersic
from .task import LensCandidate, Lensing, Likelihood
