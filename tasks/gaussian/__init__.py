r"""Gaussian toys: the paper's Section 4.1 and a conjugate model."""

__all__ = ["Conjugate", "ConjugateCandidate", "Toy", "ToyCandidate"]

from .conjugate import Conjugate, ConjugateCandidate
from .toy import Toy, ToyCandidate
