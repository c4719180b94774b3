r"""The metrics: each a function of `(truths, samples)`, or of two sets of samples, and a thin object for the runner."""

__all__ = [
    "C2st",
    "Calibration",
    "CalibrationResult",
    "Convergence",
    "Energy",
    "Evidence",
    "Fidelity",
    "FidelityResult",
    "Hpd",
    "Lc2st",
    "LogScore",
    "Mira",
    "Mmd",
    "Moments",
    "MomentsResult",
    "PooledSbc",
    "Pqmass",
    "Sbc",
    "SlicedDistances",
    "SlicedWasserstein",
    "Sufficient",
    "Tarp",
    "Tilt",
    "TwoSample",
    "TwoSampleResult",
    "Wasserstein",
    "all_metrics",
    "c2st",
    "calibration",
    "choose_metrics",
    "energy_score",
    "fidelity",
    "hpd_coverage",
    "lc2st",
    "log_bayes_factor",
    "mira",
    "mira_sufficient",
    "mmd",
    "moments",
    "pqmass",
    "sbc",
    "sliced_wasserstein",
    "tarp",
    "wasserstein",
]

from collections.abc import Mapping, Sequence

from ..errors import UsageError
from ..metric import Metric, check_metric
from .c2st import C2st, c2st
from .calibration import Calibration, CalibrationResult, calibration
from .convergence import Convergence
from .energy import Energy, energy_score
from .evidence import Evidence, log_bayes_factor
from .fidelity import Fidelity, FidelityResult, fidelity
from .hpd import Hpd, hpd_coverage
from .lc2st import Lc2st, lc2st
from .log_score import LogScore
from .mira import Mira, mira
from .mmd import Mmd, mmd
from .moments import Moments, MomentsResult, moments
from .pooled import PooledSbc, SlicedDistances
from .pqmass import Pqmass, pqmass
from .sbc import Sbc, sbc
from .sufficient import Sufficient, mira_sufficient
from .tarp import Tarp, tarp
from .tilt import Tilt
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
        "tilt": Tilt(regions=regions, normalize=normalize),
        "sufficient": Sufficient(normalize=normalize),
        "wasserstein": Wasserstein(normalize=normalize),
        "sliced_wasserstein": SlicedWasserstein(normalize=normalize),
        "pqmass": Pqmass(normalize=normalize),
        "moments": Moments(normalize=normalize),
        "fidelity": Fidelity(),
        "hpd": Hpd(),
        "log_score": LogScore(),
        "evidence": Evidence(),
        "convergence": Convergence(),
        "lc2st": Lc2st(),
        "pooled_sbc": PooledSbc(normalize=normalize),
        "sliced_distances": SlicedDistances(normalize=normalize),
    }


def choose_metrics(
    metrics: Mapping[str, Metric] | Sequence[str | Metric] | None, regions: int = 100, normalize: str = "auto"
) -> dict[str, Metric]:
    r"""Returns the metrics that a user asks for.

    Arguments:
        metrics: The default ones if none are given; names, and metrics of the user's own, in any mixture; or metrics by
            the names that they shall have in tables.
        regions: The number of regions of those that are given by name.
        normalize: The scale of those that are given by name.
    """

    if metrics is not None and not isinstance(metrics, str | Metric) and len(metrics) == 0:
        raise UsageError("there are no metrics to compute: the list is empty")
    if isinstance(metrics, Mapping):
        return {str(name): check_metric(metric, str(name)) for name, metric in metrics.items()}
    known = all_metrics(regions, normalize)
    asked = DEFAULT if metrics is None else [metrics] if isinstance(metrics, str | Metric) else metrics
    chosen: dict[str, Metric] = {}
    for one in asked:
        if isinstance(one, str) and one not in known:
            raise UsageError(f"metric {one!r} does not exist; there are: {', '.join(known)}")
        metric = known[one] if isinstance(one, str) else check_metric(one, getattr(one, "name", "") or repr(one))
        label = one if isinstance(one, str) else metric.name
        if label in chosen:
            raise UsageError(f"there are two metrics {label!r}: give them names, as in {{'a': ..., 'b': ...}}")
        chosen[label] = metric
    return chosen
