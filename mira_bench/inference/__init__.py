r"""Samplers for likelihoods with a gradient, and what tells whether they converged; networks that learn a posterior."""

__all__ = [
    "ChainDiagnosis",
    "Evaluations",
    "FileCandidate",
    "Given",
    "MalaResult",
    "Neural",
    "SmcResult",
    "Target",
    "diagnose",
    "ess_bulk",
    "ess_tail",
    "mala",
    "rhat",
    "smc",
    "sort_groups",
]

from ..diagnostics import sort_groups
from ..moved import old_names
from .diagnostics import ChainDiagnosis, diagnose, ess_bulk, ess_tail, rhat
from .given import FileCandidate, Given
from .mala import MalaResult, mala
from .neural import Neural
from .smc import SmcResult, smc
from .target import Evaluations, Target

__getattr__ = old_names(__name__)
