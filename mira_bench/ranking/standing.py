r"""Where a candidate stands: its scores, and the tier that they put it into.

- A: no miscalibration found, and shown to know more than the prior;
- B: informative, but miscalibrated;
- C: no information, worse than the prior, or failed;
- ?: not resolved: too few fiducials to tell whether it knows more than the prior;
- -: not tested.
"""

__all__ = ["TRUST", "Standing", "trust_in"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..metric import Scores
from ..metrics.calibration import LEVEL, CalibrationResult
from ..metrics.convergence import ConvergenceResult
from ..metrics.energy import EnergyResult
from ..metrics.log_score import LogScoreResult
from ..metrics.mira import MiraResult

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
    """

    name: str
    role: str = "candidate"
    scores: Mapping[str, Scores] = field(default_factory=dict, repr=False)
    failure: str | None = None
    method: str | None = None

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
        if self.failure is not None or self.information == "none":
            return "C"
        if self.calibrated is None or self.information is None:
            return "-"
        if self.information == "unresolved":
            return "?"
        return "A" if self.calibrated else "B"

    @property
    def trust(self) -> int:
        r"""The place of its tier among the others, the best first; what is not resolved goes by its calibration."""
        return trust_in(self.tier, bool(self.calibrated))


def trust_in(tier: str, calibrated: bool) -> int:
    r"""Returns the place of a tier among the others, the best first; what is not resolved (?) goes by calibration."""

    return TRUST.index(tier if tier != "?" else "A" if calibrated else "B")
