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
    "Calibration",
    "Candidate",
    "Energy",
    "Fiducials",
    "Metric",
    "Mira",
    "Posterior",
    "Result",
    "RunError",
    "Sbc",
    "Scores",
    "Tarp",
    "Task",
    "UsageError",
    "__version__",
    "draw",
    "effective_samples",
    "energy_score",
    "mira",
    "rank",
    "run",
    "sbc",
    "score",
    "tarp",
]

from pathlib import Path as _Path

# In a checkout `tasks` and `configs` stand at the top for people to see; in a wheel they are inside the package.
if not (_Path(__file__).parent / "tasks").is_dir():
    __path__.append(str(_Path(__file__).parent.parent))

from ._version import __version__
from .candidate import Candidate, Posterior
from .chains import effective_samples
from .draws import draw
from .errors import RunError, UsageError
from .fiducials import Fiducials
from .metric import Block, Metric, Scores
from .metrics import Calibration, Energy, Mira, Sbc, Tarp, energy_score, mira, sbc, tarp
from .ranking import rank
from .result import Result
from .run import run
from .score import score
from .task import Task
