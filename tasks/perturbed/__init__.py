r"""Known perturbations of known posteriors: what does each metric see of them?"""

__all__ = ["Factorized", "Rotated", "Student", "Suppressed", "Unconditional"]

from .posteriors import Rotated, Student
from .tails import Factorized, Suppressed, Unconditional
