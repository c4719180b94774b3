r"""The metrics: each a function of `(truths, samples)` and a thin object for the runner."""

__all__ = [
    "Calibration",
    "Energy",
    "Evidence",
    "Hpd",
    "Lc2st",
    "Mira",
    "Sbc",
    "Tarp",
    "default_metrics",
    "energy_score",
    "hpd_coverage",
    "lc2st",
    "log_bayes_factor",
    "mira",
    "sbc",
    "tarp",
]

from ..metric import Metric
from .calibration import Calibration
from .energy import Energy, energy_score
from .evidence import Evidence, log_bayes_factor
from .hpd import Hpd, hpd_coverage
from .lc2st import Lc2st, lc2st
from .mira import Mira, mira
from .sbc import Sbc, sbc
from .tarp import Tarp, tarp


def default_metrics(regions: int = 100, normalize: str = "auto") -> dict[str, Metric]:
    r"""Returns the metrics of a run that does not choose its own."""

    return {
        "mira": Mira(regions=regions, normalize=normalize),
        "calibration": Calibration(normalize=normalize),
        "tarp": Tarp(regions=regions, normalize=normalize),
        "sbc": Sbc(normalize=normalize),
        "energy": Energy(normalize=normalize),
    }
