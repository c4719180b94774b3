r"""The metrics: each a function of `(truths, samples)`, or of two sets of samples, and a thin object for the runner."""

__all__ = [
    "C2st",
    "Calibration",
    "Convergence",
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
    "all_metrics",
    "c2st",
    "choose_metrics",
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
from .convergence import Convergence
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

DEFAULT = ("mira", "calibration", "tarp", "sbc", "energy", "c2st", "mmd")


def all_metrics(regions: int = 100, normalize: str = "auto") -> dict[str, Metric]:
    r"""Returns every metric under its name, the default ones first."""

    return {
        "mira": Mira(regions=regions, normalize=normalize),
        "calibration": Calibration(normalize=normalize),
        "tarp": Tarp(regions=regions, normalize=normalize),
        "sbc": Sbc(normalize=normalize),
        "energy": Energy(normalize=normalize),
        "c2st": C2st(normalize=normalize),
        "mmd": Mmd(normalize=normalize),
        "sufficient": Sufficient(normalize=normalize),
        "wasserstein": Wasserstein(normalize=normalize),
        "sliced_wasserstein": SlicedWasserstein(normalize=normalize),
        "pqmass": Pqmass(normalize=normalize),
        "hpd": Hpd(),
        "evidence": Evidence(),
        "convergence": Convergence(),
        "lc2st": Lc2st(),
    }


def choose_metrics(
    metrics: Mapping[str, Metric] | Sequence[str] | None, regions: int = 100, normalize: str = "auto"
) -> dict[str, Metric]:
    r"""Returns the metrics that a user asks for: the default ones, some by name, or metrics of their own."""

    if metrics is not None and len(metrics) == 0:
        raise UsageError("there are no metrics to compute: the list is empty")
    if isinstance(metrics, Mapping):
        return dict(metrics)
    known = all_metrics(regions, normalize)
    names = list(DEFAULT) if metrics is None else [metrics] if isinstance(metrics, str) else list(metrics)
    for name in names:
        if name not in known:
            raise UsageError(f"metric {name!r} does not exist; there are: {', '.join(known)}")
    return {name: known[name] for name in names}
