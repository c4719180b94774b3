r"""Galaxy source reconstruction (Section 4.3.2 of the paper): priors and noise levels behind a fixed lens."""

__all__ = ["Diffused", "Exact", "Galaxy", "GalaxyPriors", "Lens", "Trained"]

from .candidates import Diffused, Exact, Trained
from .lens import Lens
from .priors import GalaxyPriors
from .task import Galaxy
