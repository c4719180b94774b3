r"""The metrics: each a function of `(truths, samples)`, or of two sets of samples, and a thin object for the runner."""

__all__ = [
    "C2st",
    "Calibration",
    "Energy",
    "Evidence",
    "Hpd",
    "Lc2st",
    "Mira",
    "Mmd",
    "Pqmass",
    "Sbc",
    "SlicedWasserstein",
    "Sufficient",
    "Tarp",
    "TwoSample",
    "TwoSampleResult",
    "Wasserstein",
    "c2st",
    "choose_metrics",
    "default_metrics",
    "energy_score",
    "hpd_coverage",
    "lc2st",
    "log_bayes_factor",
    "mira",
    "mira_sufficient",
    "mmd",
    "pqmass",
    "sbc",
    "sliced_wasserstein",
    "tarp",
    "wasserstein",
]

from collections.abc import Mapping, Sequence

from ..errors import UsageError
from ..metric import Metric
from .c2st import C2st, c2st
from .calibration import Calibration
from .energy import Energy, energy_score
from .evidence import Evidence, log_bayes_factor
from .hpd import Hpd, hpd_coverage
from .lc2st import Lc2st, lc2st
from .mira import Mira, mira
from .mmd import Mmd, mmd
from .pqmass import Pqmass, pqmass
from .sbc import Sbc, sbc
from .sufficient import Sufficient, mira_sufficient
from .tarp import Tarp, tarp
from .two_sample import TwoSample, TwoSampleResult
from .wasserstein import SlicedWasserstein, Wasserstein, sliced_wasserstein, wasserstein


def default_metrics(regions: int = 100, normalize: str = "auto") -> dict[str, Metric]:
    r"""Returns the metrics of a run that does not choose its own."""

    return {
        "mira": Mira(regions=regions, normalize=normalize),
        "calibration": Calibration(normalize=normalize),
        "tarp": Tarp(regions=regions, normalize=normalize),
        "sbc": Sbc(normalize=normalize),
        "energy": Energy(normalize=normalize),
        "c2st": C2st(normalize=normalize),
        "mmd": Mmd(normalize=normalize),
    }


def choose_metrics(
    metrics: Mapping[str, Metric] | Sequence[str] | None, regions: int = 100, normalize: str = "auto"
) -> dict[str, Metric]:
    r"""Returns the metrics that a user asks for: all default ones, some of them by name, or metrics of their own."""

    if isinstance(metrics, Mapping):
        return dict(metrics)
    known = default_metrics(regions, normalize)
    names = list(known) if metrics is None else [metrics] if isinstance(metrics, str) else list(metrics)
    for name in names:
        if name not in known:
            raise UsageError(f"metric {name!r} does not exist; there are: {', '.join(known)}")
    return {name: known[name] for name in names}
