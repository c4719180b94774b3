r"""Strong lensing with parametric sources, as in the paper's section on model misspecification."""

__all__ = ["LensModel", "Sersic"]

from .model import LensModel, Sersic
