r"""What a page shows and no table holds: curves, features and pairs, small enough to be kept beside the tables.

A run writes `details.json`, so that its page can be made again from its folder alone.
"""

__all__ = ["COMPARED", "DETAILS", "FORMAT", "details", "sha256_of", "worst_parameters"]

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..metrics.calibration import CalibrationResult
from ..metrics.mira import MiraResult
from ..metrics.sbc import SbcResult
from ..ranking.standing import Standing
from ..ranking.tiers import compare_pairs, order, rule
from .tables import display, explanation

if TYPE_CHECKING:
    from ..result import Result

DETAILS = "details.json"
FORMAT = 2  # raised when the keys change
POINTS = 400  # of a scatter plot or a curve
PARAMETERS = 100  # whose p-values are kept, the smallest ones
CURVES = 12  # of these parameters whose curves are kept
ENDS = 20  # the smallest and the largest values of a diagnostic that are kept, whatever else is
# In what the rule of a ranking compares candidates, and the metric that has it for every fiducial.
COMPARED = {"log": ("log score", "log_score"), "mira": ("MIRA", "mira")}


def sha256_of(path: Path) -> str:
    r"""Returns the hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def plain(value: Any) -> Any:
    r"""Returns arrays and numbers as JSON has them: six digits, nothing where there is no number."""

    if isinstance(value, np.ndarray):
        return [plain(one) for one in value.tolist()]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def _some(count: int, most: int = POINTS) -> NDArray[np.intp]:
    r"""Evenly spaced places, all of them if there are few."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, most)).astype(np.intp))


def _mira(standing: Standing, mira: MiraResult) -> dict[str, Any]:
    keys = ("score", "stderr", "expected", "null_stderr", "paper_band", "samples", "normalize")
    fiducials, regions = mira.ranks.shape
    found = {key: getattr(mira, key) for key in keys} | {"fiducials": fiducials, "regions": regions}
    return found | {"by_construction": standing.by_construction}


def _calibration(test: CalibrationResult, names: list[str] | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "pvalue": test.pvalue,
        "groups": test.group_pvalues,
        "critical": test.critical,
        "features": [test.label(feature, names) for feature in test.features],
        "of": [feature.group for feature in test.features],
        "z": test.z,
        "detectable": vars(test.detectable),
        "fiducials": test.fiducials,
        "samples": test.samples,
        "notes": test.notes,
        "fixed": [test.where(axis, names) for axis in test.fixed],
    }
    axis = test.guilty
    if axis is not None and test.locations is not None and test.places is not None:
        shown = _some(len(test.locations))
        found["guilty"] = {
            "parameter": test.where(axis, names),
            "fiducial": shown,
            "of": len(test.locations),
            "rank": test.locations[shown, axis] + 0.5,
            "mean": test.places[shown, axis],
        }
    return found


def worst_parameters(every: Sequence[SbcResult]) -> NDArray[np.intp]:
    r"""Returns the parameters with the smallest p-value of any candidate first; an image has more than can be shown."""

    # Where fiducials share samples there are no p-values, and D orders.
    badness = [-sbc.statistics if sbc.shared else sbc.pvalues for sbc in every]
    return np.argsort(np.min(badness, axis=0), kind="stable")[:PARAMETERS] if badness else np.empty(0, np.intp)


def _sbc(sbc: SbcResult, names: list[str] | None, worst: NDArray[np.intp]) -> dict[str, Any]:
    curves = sbc.ecdf()
    labels = sbc.labels(names)
    return {
        "levels": curves.levels,
        "band": None if sbc.shared else [curves.lower, curves.upper],
        "of": len(labels),
        "parameters": [labels[i] for i in worst],
        "pvalues": sbc.pvalues[worst],
        "statistics": sbc.statistics[worst],
        "difference": {labels[i]: curves.difference[:, i] for i in worst[:CURVES]},
    }


def _coverage(tarp: Any) -> dict[str, Any]:
    edges = {"lower": tarp.lower - tarp.expected, "upper": tarp.upper - tarp.expected}
    return {"levels": tarp.levels, "difference": tarp.coverage - tarp.expected, **edges}


def _of(standing: Standing, metric: str) -> Any:
    scores = standing.scores.get(metric)
    return None if scores is None else scores.result


def details(result: "Result") -> dict[str, Any]:
    r"""Returns all of it, by kind and candidate, as JSON has it."""

    good = [s for s in result.standings if s.failure is None]
    ranked = order([s for s in good if s.role == "candidate"], result.rank_by, result.seed)
    ranks = {s.name: sbc for s in good if (sbc := _of(s, "sbc")) is not None}
    own = [sbc for name, sbc in ranks.items() if name in {s.name for s in ranked}]
    worst = worst_parameters(own or list(ranks.values()))
    found: dict[str, Any] = {
        "format": FORMAT,
        "task": result.task,
        "seed": result.seed,
        "names": result.names,
        "columns": dict(result.columns),
        "rank_by": result.rank_by,
        "rule": rule(result.standings, result.rank_by),
        "explanation": explanation(result, display(result.ranking, result.columns).columns).splitlines(),
        "notices": result.notices,
        "reuse": list(result.reuse),
        "warnings": list(result.warnings),
        "failures": result.failures,
        "mira": {s.name: _mira(s, s.mira) for s in good if s.mira is not None},
        "calibration": {s.name: _calibration(s.calibration, result.names) for s in good if s.calibration is not None},
        "tarp": {s.name: _coverage(tarp) for s in good if (tarp := _of(s, "tarp")) is not None},
        "sbc": {name: _sbc(sbc, result.names, worst) for name, sbc in ranks.items()},
        "corners": {} if result.corners is None else result.corners(),
        "pairs": compare_pairs(ranked, result.rank_by, result.seed),
        "training": {name: _curves(own) for name, own in result.curves.items() if own},
        "convergence": {
            s.name: {"limit": c.limit, "values": _diagnostics(c.values)}
            for s in good
            if (c := s.convergence) is not None
        },
    }
    return dict(plain(found))


def _diagnostics(every: Mapping[str, NDArray]) -> dict[str, Any]:
    r"""What samplers say of each fiducial: some values and all extreme ones with their fiducials, and what all are."""
    found = {}
    for key, values in every.items():
        there = np.flatnonzero(np.isfinite(values))
        if len(there):
            ranked = there[np.argsort(values[there], kind="stable")]
            shown = np.unique(np.concatenate([there[_some(len(there))], ranked[:ENDS], ranked[-ENDS:]]))
            least, largest = values[ranked[0]], values[ranked[-1]]
            found[key] = {
                "fiducial": shown, "value": values[shown], "of": len(there),
                "median": np.median(values[there]), "least": least, "largest": largest,
            }  # fmt: skip
    return found


def _curves(own: Any) -> dict[str, Any]:
    found = {}
    for key, (epochs, values) in own.items():
        shown = _some(len(epochs))
        found[key] = {"epochs": np.asarray(epochs)[shown], "values": np.asarray(values)[shown]}
    return found
