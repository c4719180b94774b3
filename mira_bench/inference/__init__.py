r"""Samplers that any task can use whose likelihood has a gradient, and what tells whether they converged."""

__all__ = [
    "Convergence",
    "Evaluations",
    "MalaResult",
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

from .diagnostics import Convergence, diagnose, ess_bulk, ess_tail, rhat, sort_groups
from .mala import MalaResult, mala
from .smc import SmcResult, smc
from .target import Evaluations, Target
