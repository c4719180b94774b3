r"""mira_bench: which of these posteriors can I trust, and by how much is it better than the next one?

- `score(truths, {"npe": samples})` scores and ranks samples that exist: arrays, tables, ArviZ, files, sbi's posteriors.
- `run(task, {"npe": candidate})` simulates, samples, scores and ranks; `Task.from_simulator` makes a task.
- `load(folder)` reads the folder of a run, and `load(folder).posterior("npe")` is the network that it trained.
- `mira`, `calibration`, `tarp`, `sbc`, `energy_score`, ... are the metrics, functions of `(truths, samples)`;
  `c2st`, `mmd`, `wasserstein`, `moments`, ... compare two sets of samples.
- `draw(posterior, x, count)` samples a posterior; `plan(width=0.1)` says how many fiducials are needed.

A result has `.ranking` and `.summary` (DataFrames), `.plot("overview")` and `.save(folder)`.

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
    "CalibrationResult",
    "Candidate",
    "Convergence",
    "Draws",
    "Energy",
    "Evidence",
    "Fidelity",
    "FidelityResult",
    "Fiducials",
    "Hpd",
    "Lc2st",
    "Metric",
    "Mira",
    "Mmd",
    "Moments",
    "MomentsResult",
    "PooledSbc",
    "Posterior",
    "Pqmass",
    "Rehearsal",
    "Result",
    "RunError",
    "Saved",
    "Sbc",
    "Scores",
    "SlicedDistances",
    "SlicedWasserstein",
    "Stage",
    "Sufficient",
    "Tarp",
    "Task",
    "Tilt",
    "Trained",
    "TwoSampleResult",
    "UsageError",
    "Wasserstein",
    "__version__",
    "c2st",
    "calibration",
    "draw",
    "effective_samples",
    "energy_score",
    "fidelity",
    "hpd_coverage",
    "lc2st",
    "load",
    "log_bayes_factor",
    "mira",
    "mira_sufficient",
    "mmd",
    "moments",
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

from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from ._version import __version__

# In a checkout `tasks` and `configs` stand at the top for people to see; in a wheel they are inside the package.
if not (_Path(__file__).parent / "tasks").is_dir():
    __path__.append(str(_Path(__file__).parent.parent))

if _TYPE_CHECKING:
    from .adapters.posterior import draw
    from .candidate import Candidate, Draws, Posterior
    from .diagnostics import effective_samples
    from .errors import RunError, UsageError
    from .fiducials import Fiducials
    from .metric import Block, Metric, Scores
    from .metrics import (
        C2st,
        Calibration,
        CalibrationResult,
        Convergence,
        Energy,
        Evidence,
        Fidelity,
        FidelityResult,
        Hpd,
        Lc2st,
        Mira,
        Mmd,
        Moments,
        MomentsResult,
        PooledSbc,
        Pqmass,
        Sbc,
        SlicedDistances,
        SlicedWasserstein,
        Sufficient,
        Tarp,
        Tilt,
        TwoSampleResult,
        Wasserstein,
        c2st,
        calibration,
        energy_score,
        fidelity,
        hpd_coverage,
        lc2st,
        log_bayes_factor,
        mira,
        mira_sufficient,
        mmd,
        moments,
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
    from .saved import Saved, Trained, load
    from .task import Task
    from .trainer import Rehearsal, Stage

# Names are imported when they are first used: whoever asks for --help does not wait for libraries.
_HOMES = {
    "adapters.posterior": "draw",
    "candidate": "Candidate Draws Posterior",
    "diagnostics": "effective_samples",
    "errors": "RunError UsageError",
    "fiducials": "Fiducials",
    "metric": "Block Metric Scores",
    "metrics": (
        "C2st Calibration CalibrationResult Convergence Energy Evidence Fidelity FidelityResult Hpd Lc2st Mira Mmd "
        "Moments MomentsResult PooledSbc Pqmass Sbc SlicedDistances SlicedWasserstein Sufficient Tarp Tilt "
        "TwoSampleResult Wasserstein c2st calibration energy_score fidelity hpd_coverage lc2st log_bayes_factor mira "
        "mira_sufficient mmd moments pqmass sbc sliced_wasserstein tarp wasserstein"
    ),
    "metrics.mira": "theory",
    "ranking.power": "plan",
    "ranking.tiers": "rank",
    "result": "Result",
    "runner.run": "run",
    "runner.score": "score",
    "saved": "Saved Trained load",
    "task": "Task",
    "trainer": "Rehearsal Stage",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> _Any:
    if name in _HOME_OF:
        value = getattr(_import_module(f".{_HOME_OF[name]}", __name__), name)
        globals()[name] = value
        return value
    if not name.startswith("_"):
        try:
            return _import_module(f".{name}", __name__)
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
