r"""Samplers for likelihoods with a gradient, and what tells whether they converged; networks that learn a posterior."""

__all__ = [
    "Convergence",
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
from .diagnostics import Convergence, diagnose, ess_bulk, ess_tail, rhat
from .given import FileCandidate, Given
from .mala import MalaResult, mala
from .neural import Neural
from .smc import SmcResult, smc
from .target import Evaluations, Target
