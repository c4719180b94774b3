r"""Where a candidate stands: its scores, and the tier that they put it into.

- A: no miscalibration found, and shown to know more than the prior;
- B: informative, but miscalibrated;
- C: no information, worse than the prior, or failed;
- ?: not resolved: too few fiducials to tell whether it knows more than the prior;
- -: not tested.
"""

__all__ = ["TRUST", "Standing", "difference", "trust_in"]

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..metric import Scores
from ..metrics.calibration import LEVEL, CalibrationResult
from ..metrics.convergence import ConvergenceResult
from ..metrics.energy import EnergyResult
from ..metrics.log_score import LogScoreResult
from ..metrics.mira import MiraResult
from ..statistics import mean_stderr

# The best first. Where nothing was tested (-) nothing can be trusted, but it is not known to be worthless either.
TRUST = "AB-C"


@dataclass
class Standing:
    r"""One candidate's scores, or the reason why it has none.

    Arguments:
        name: The name of the candidate.
        role: `"candidate"`, `"control"` or `"oracle"`; only candidates are ranked.
        scores: What each metric says about it, by metric.
        failure: Why the candidate failed, if it did.
        method: What was trained, if the candidate is a trained network.
        shared: Whether fiducials share its sample sets.
    """

    name: str
    role: str = "candidate"
    scores: Mapping[str, Scores] = field(default_factory=dict, repr=False)
    failure: str | None = None
    method: str | None = None
    shared: bool = False

    def _result(self, metric: str) -> Any:
        scores = self.scores.get(metric)
        return None if scores is None else scores.result

    @property
    def mira(self) -> MiraResult | None:
        result: MiraResult | None = self._result("mira")
        return result

    @property
    def energy(self) -> EnergyResult | None:
        result: EnergyResult | None = self._result("energy")
        return result

    @property
    def log_score(self) -> LogScoreResult | None:
        result: LogScoreResult | None = self._result("log_score")
        return result

    @property
    def calibration(self) -> CalibrationResult | None:
        result: CalibrationResult | None = self._result("calibration")
        return result

    @property
    def convergence(self) -> ConvergenceResult | None:
        result: ConvergenceResult | None = self._result("convergence")
        return result

    @property
    def information(self) -> str | None:
        r"""`"some"` if it beats the prior, `"none"` if it is shown not to, `"unresolved"`, or none if nobody knows."""
        return None if self.energy is None else self.energy.information

    @property
    def calibrated(self) -> bool | None:
        r"""Whether no miscalibration was found; none if it was not tested."""
        return None if self.calibration is None else self.calibration.pvalue >= LEVEL

    @property
    def tier(self) -> str:
        if self.information == "none":
            return "C"
        if self.failure is not None or self.calibrated is None or self.information is None:
            return "-"
        if self.information == "unresolved":
            return "?"
        return "A" if self.calibrated else "B"

    @property
    def by_construction(self) -> bool:
        r"""Whether its MIRA score is 1/2 because parameters are fixed: every ball then holds all samples or none."""
        if self.mira is None or self.calibration is None or not len(self.calibration.fixed):
            return False
        return bool(((self.mira.ranks == 0) | (self.mira.ranks == self.mira.samples)).all())

    @property
    def trust(self) -> int:
        r"""The place of its tier among the others, the best first; what is not resolved goes by its calibration."""
        return trust_in(self.tier, bool(self.calibrated))


def trust_in(tier: str, calibrated: bool) -> int:
    r"""Returns the place of a tier among the others, the best first; what is not resolved (?) goes by calibration."""

    return TRUST.index(tier if tier != "?" else "A" if calibrated else "B")


def difference(mine: tuple[Standing, Scores], other: tuple[Standing, Scores]) -> tuple[float, float]:
    r"""Returns the mean over fiducials of a candidate's score minus another's, and its standard error.

    They have the same fiducials, centers and reference samples, so that most of what makes scores vary is not in the
    difference. Where fiducials share sample sets, it has the variance of the sets of both; a metric that does not
    know that variance has no standard error there.

    Arguments:
        mine: The candidate, with what a metric says about it.
        other: The one that is subtracted.

    Returns:
        Difference and error, NaN without one score per fiducial.
    """

    a, b = mine[1].per_fiducial, other[1].per_fiducial
    if a is None or b is None or len(a) != len(b) or len(a) == 0:
        return math.nan, math.nan
    if mine[0] is other[0]:
        return 0.0, 0.0
    with np.errstate(invalid="ignore"):  # a log score may be infinite
        mean, stderr = mean_stderr(a - b)
    for one, scores in (mine, other):
        if one.shared:
            variance = getattr(scores.result, "shared_variance", None)
            stderr = math.nan if variance is None else math.hypot(stderr, math.sqrt(variance))
    return mean, stderr
