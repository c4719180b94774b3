r"""Gaussian toys: the paper's Section 4.1, a conjugate model, and a correlated one."""

__all__ = [
    "Conjugate",
    "ConjugateCandidate",
    "Correlated",
    "CorrelatedCandidate",
    "SpoiledCandidate",
    "Toy",
    "ToyCandidate",
]

from .conjugate import Conjugate, ConjugateCandidate
from .correlated import Correlated, CorrelatedCandidate, SpoiledCandidate
from .toy import Toy, ToyCandidate
