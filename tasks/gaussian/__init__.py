r"""Gaussian toys: the paper's Section 4.1, a conjugate model, and a correlated one."""

__all__ = ["Conjugate", "ConjugateCandidate", "Correlated", "CorrelatedCandidate", "Toy", "ToyCandidate"]

from .conjugate import Conjugate, ConjugateCandidate
from .correlated import Correlated, CorrelatedCandidate
from .toy import Toy, ToyCandidate
