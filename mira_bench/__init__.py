r"""mira_bench: which of these posteriors can I trust, and by how much is it better than the next one?

Example:
    >>> import numpy as np, mira_bench as mb
    >>> rng = np.random.default_rng(0)
    >>> truths, samples = rng.normal(size=(200, 3)), rng.normal(size=(200, 100, 3))
    >>> mb.mira(truths, samples).pvalue > 0.01
    True
"""

__all__ = [
    "Block",
    "C2st",
    "Calibration",
    "Candidate",
    "Convergence",
    "Draws",
    "Energy",
    "Evidence",
    "Fiducials",
    "Hpd",
    "Lc2st",
    "Metric",
    "Mira",
    "Mmd",
    "Posterior",
    "Pqmass",
    "Result",
    "RunError",
    "Sbc",
    "Scores",
    "SlicedWasserstein",
    "Sufficient",
    "Tarp",
    "Task",
    "TwoSampleResult",
    "UsageError",
    "Wasserstein",
    "__version__",
    "c2st",
    "draw",
    "effective_samples",
    "energy_score",
    "hpd_coverage",
    "lc2st",
    "log_bayes_factor",
    "mira",
    "mira_sufficient",
    "mmd",
    "plan",
    "pqmass",
    "rank",
    "run",
    "sbc",
    "score",
    "sliced_wasserstein",
    "tarp",
    "theory",
    "wasserstein",
]

from pathlib import Path as _Path

# In a checkout `tasks` and `configs` stand at the top for people to see; in a wheel they are inside the package.
if not (_Path(__file__).parent / "tasks").is_dir():
    __path__.append(str(_Path(__file__).parent.parent))

from ._version import __version__
from .adapters.posterior import draw
from .candidate import Candidate, Draws, Posterior
from .diagnostics import effective_samples
from .errors import RunError, UsageError
from .fiducials import Fiducials
from .metric import Block, Metric, Scores
from .metrics import (
    C2st,
    Calibration,
    Convergence,
    Energy,
    Evidence,
    Hpd,
    Lc2st,
    Mira,
    Mmd,
    Pqmass,
    Sbc,
    SlicedWasserstein,
    Sufficient,
    Tarp,
    TwoSampleResult,
    Wasserstein,
    c2st,
    energy_score,
    hpd_coverage,
    lc2st,
    log_bayes_factor,
    mira,
    mira_sufficient,
    mmd,
    pqmass,
    sbc,
    sliced_wasserstein,
    tarp,
    wasserstein,
)
from .metrics.mira import theory
from .ranking.power import plan
from .ranking.tiers import rank
from .result import Result
from .runner.run import run
from .runner.score import score
from .task import Task


def __dir__() -> list[str]:
    return list(__all__)
