r"""The classic tasks of simulation-based inference, with exact or reference posteriors (Lueckmann et al. 2021)."""

__all__ = [
    "BernoulliGlm",
    "GaussianLinear",
    "GaussianLinearUniform",
    "GaussianMixture",
    "LotkaVolterra",
    "Sir",
    "Slcp",
    "SlcpDistractors",
    "Spoiled",
    "TwoMoons",
    "reference",
]

from .glm import BernoulliGlm
from .linear import GaussianLinear, GaussianLinearUniform
from .lotka_volterra import LotkaVolterra
from .mixture import GaussianMixture
from .shipped import reference
from .sir import Sir
from .slcp import Slcp, SlcpDistractors
from .spoiled import Spoiled
from .two_moons import TwoMoons
