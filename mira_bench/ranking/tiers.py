r"""From scores to a ranking: tiers, paired comparison, ties with the best, and a verdict in words.

MIRA's distance from its expectation is the paper's order. By itself it picks the wrong winner: it sees one moment of
the ranks, and the prior is calibrated. So candidates are put into tiers first,

- A: no miscalibration found (calibration p >= .01) and better than the prior by two standard errors;
- B: informative, but miscalibrated;
- C: no information, worse than the prior (by four standard errors), or failed;

and ordered within a tier by the fair energy score, which is strictly proper.
"""

__all__ = ["RANKINGS", "TIERS", "Standing", "order", "order_key", "rank", "rule", "tie_words", "verdict"]

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ..errors import UsageError
from ..metric import Scores
from ..metrics.calibration import LEVEL, CalibrationResult
from ..metrics.convergence import ConvergenceResult
from ..metrics.energy import EnergyResult
from ..metrics.mira import MiraResult
from ..statistics import FEW_FIDUCIALS, farther_pvalue, holm, paired_pvalue
from ..streams import generator

RANKINGS = ("tiers", "mira")
TIE_LEVEL = 0.05
TIERS = "tiers, then by energy score"
# Where nothing was tested (-) nothing can be trusted, but it is not known to be worthless either.
TIER_ORDER = "AB-C"
SHIFT_EFFECT = 0.1  # a shift explains the verdict if the mean of the ranks moves by so many standard deviations

COLUMNS = [
    "candidate", "role", "tier", "rank", "mira", "mira_stderr", "mira_sigmas", "mira_rank", "calibration_p",
    "energy", "energy_stderr", "skill", "skill_stderr", "tied", "tied_p", "tarp_deviation", "sbc_p", "c2st",
    "mmd", "log_evidence", "rhat", "not_converged", "verdict", "evidence",
]  # fmt: skip


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
    def calibration(self) -> CalibrationResult | None:
        result: CalibrationResult | None = self._result("calibration")
        return result

    @property
    def convergence(self) -> ConvergenceResult | None:
        result: ConvergenceResult | None = self._result("convergence")
        return result

    @property
    def informative(self) -> bool | None:
        r"""Whether the candidate beats the prior; none if that cannot be known."""
        if self.energy is None or np.isnan(self.energy.prior).any():
            return None
        return self.energy.informative

    @property
    def tier(self) -> str:
        if self.failure is not None or self.informative is False:
            return "C"
        if self.calibration is None or self.informative is None:
            return "-"
        return "A" if self.calibration.pvalue >= LEVEL else "B"


def verdict(standing: Standing, names: list[str] | None = None) -> tuple[str, str]:
    r"""Returns the verdict and the tests that speak for it."""
    if standing.failure is not None:
        return "failed", standing.failure
    calibration, mira = standing.calibration, standing.mira
    if calibration is None:
        asked = standing.scores.get("calibration")
        why = "the calibration metric was not computed" if asked is None else f"calibration {asked.note}"
        return ("-", why) if asked is None or standing.informative is not False else _blind(standing, why)

    def label(marginal: int) -> str:
        return "" if marginal < 0 else f" of {calibration.where(marginal, names)}"

    if len(calibration.observed) < 3:
        return "too few fiducials", "at least 3 are needed to say anything"
    kind, marginal, z = calibration.spoke
    spoke = f"{kind}{label(marginal)} z = {z:+.1f}"
    if standing.informative is False:
        return _blind(standing, f"calibration p = {calibration.pvalue:.3f}")
    if calibration.pvalue >= LEVEL:
        width = calibration.detectable_width
        if math.isnan(width):
            return "no miscalibration found", "would not have seen even a factor of two in width"
        return "no miscalibration found", f"would have seen width errors above {width:.0%}"
    shift_p, effect, where = calibration.shift()
    if shift_p < LEVEL and abs(effect) >= SHIFT_EFFECT:
        return "shifted", f"ranks{label(where)} follow a shift, mean/sd {effect:+.2f}; {spoke}"
    mira_z = calibration.worst("mira")[0] if mira is None else mira.sigmas
    dispersion_z, where = calibration.worst("dispersion")
    agree = f"MIRA {mira_z:+.1f} sigma, SBC dispersion{label(where)} z = {dispersion_z:+.1f}"
    if mira_z < -2 and dispersion_z > 2:
        return "overconfident", agree
    if mira_z > 2 and dispersion_z < -2:
        return "underconfident", agree
    return "not uniform", spoke


def _blind(standing: Standing, calibration: str) -> tuple[str, str]:
    r"""The verdict on a candidate that does not beat the prior."""
    assert standing.energy is not None
    words = "worse than the prior" if standing.energy.harmful else "no information"
    return words, f"skill {standing.energy.skill:+.3f} +- {standing.energy.skill_stderr:.3f}; {calibration}"


def objections(standing: Standing) -> list[str]:
    r"""Returns what speaks against a candidate of tier A: other views, and a reference posterior if there is one."""
    found = []
    for key, scores in standing.scores.items():
        metric, _, view = key.partition("@")
        if not scores.pvalue < LEVEL:
            continue
        if metric == "calibration" and view:
            found.append(
                f"{standing.name} is in tier A, which looks at all parameters as they are; in the view {view}, "
                f"calibration has p = {scores.pvalue:.2g}"
            )
        elif metric == "c2st" and not view and scores.note.startswith("against the reference"):
            found.append(
                f"{standing.name} is in tier A and yet differs from the reference posterior: C2ST {scores.score:.3f}, "
                f"p = {scores.pvalue:.2g}"
            )
    return found


def rule(standings: Sequence[Standing], rank_by: str) -> str:
    r"""Returns by what the candidates are ordered, in words. Tiers need the metrics calibration and energy."""

    scored = [s for s in standings if s.role == "candidate" and s.failure is None]
    if rank_by == "tiers":
        if any(s.calibration is not None and s.informative is not None for s in scored):
            return TIERS
        if any(s.energy is not None for s in scored):
            blind = any(s.informative is False for s in scored)
            return "energy score" + (", those without information last" if blind else "")
    if any(s.mira is not None for s in scored):
        return "the distance of MIRA from its expectation, the paper's order"
    return "nothing: the order is the one in which they were given"


def order(standings: Sequence[Standing], rank_by: str) -> list[Standing]:
    r"""Returns the candidates, best first."""

    def distance(s: Standing) -> float:
        return math.inf if s.mira is None else abs(s.mira.score - s.mira.expected)

    def energy(s: Standing) -> float:
        return math.inf if s.energy is None else s.energy.score

    def key(s: Standing) -> tuple[Any, ...]:
        return order_key(s.tier, energy(s), distance(s), s.failure is not None, rank_by)

    return sorted(standings, key=key)


def order_key(tier: str, energy: float, distance: float, failed: bool, rank_by: str) -> tuple[Any, ...]:
    r"""Returns what candidates are sorted by.

    Arguments:
        tier: The tier: `A`, `B`, `C`, or `-` if it is not known.
        energy: The energy score, infinite if it is not known.
        distance: The distance of MIRA from its expectation, infinite if it is not known.
        failed: Whether the candidate failed.
        rank_by: What orders: `"tiers"`, or `"mira"` for the paper's order.
    """

    if failed:
        return (2, 0, 0)
    return (0, distance, 0) if rank_by == "mira" else (0, TIER_ORDER.index(tier), energy, distance)


def _tied(ordered: list[Standing], rank_by: str, seed: int) -> list[tuple[str, float]]:
    r"""For each candidate, whether it is separated from the best one, and the adjusted p-value.

    The quantity that orders is the one that is compared, fiducial by fiducial: the energy score, or how far MIRA is
    from its expectation, which depends on the number of samples, on either side.
    """

    def values(s: Standing) -> np.ndarray | None:
        if s.failure is not None:
            return None
        if rank_by == "mira":
            return None if s.mira is None else s.mira.per_fiducial - s.mira.expected
        return None if s.energy is None else s.energy.per_fiducial

    best = values(ordered[0])
    pvalues = np.full(len(ordered), np.nan)
    if best is None:
        return [("-", math.nan)] * len(ordered)
    for i, standing in enumerate(ordered[1:], start=1):
        mine = values(standing)
        if mine is not None:

            def compare(sign: int, mine: np.ndarray = mine, best: np.ndarray = best) -> float:
                return paired_pvalue(mine - sign * best, generator(seed, "sign flips"))

            pvalues[i] = farther_pvalue(compare) if rank_by == "mira" else compare(1)
    same = [rank_by == "mira" or s.tier == ordered[0].tier for s in ordered]
    return tie_words(pvalues, same, len(best))


def tie_words(pvalues: np.ndarray, same: list[bool], fiducials: int) -> list[tuple[str, float]]:
    r"""Returns for each candidate, the best one first, whether it is tied with the best, and the adjusted p-value.

    Arguments:
        pvalues: The p-values of the paired comparisons with the best; NaN for itself and where there is none.
        same: Whether the candidate is in the same tier as the best.
        fiducials: The number of fiducials that were compared.
    """

    known = ~np.isnan(pvalues)
    pvalues[known] = holm(pvalues[known])
    unresolved = "tied" if fiducials >= FEW_FIDUCIALS else "not resolved"
    words = ["best"]
    for p, alike in zip(pvalues[1:], same[1:], strict=True):
        if math.isnan(p):
            words.append("-")
        elif p < TIE_LEVEL:
            words.append("no")
        else:
            # A worse tier is a finding of its own; equal energy does not undo it.
            words.append(unresolved if alike else "no")
    return list(zip(words, pvalues.tolist(), strict=True))


def rank(
    standings: list[Standing], *, rank_by: str = "tiers", names: list[str] | None = None, seed: int = 0
) -> pd.DataFrame:
    r"""Returns the ranking, best candidate first, controls last.

    Arguments:
        standings: The candidates with their scores.
        rank_by: `"tiers"`, or `"mira"` for the paper's order: the distance of MIRA from its expectation.
        names: The names of the parameters.
        seed: The seed of sign flips, which decide ties when there are few fiducials.
    """

    if rank_by not in RANKINGS:
        raise UsageError(f"rank_by={rank_by!r} is not one of {', '.join(RANKINGS)}")
    ordered = order([s for s in standings if s.role == "candidate"], rank_by)
    by_mira = {s.name: i for i, s in enumerate(order(ordered, "mira"), 1) if s.mira is not None}
    ties = _tied(ordered, rank_by, seed) if ordered else []
    rows = []
    for i, standing in enumerate([*ordered, *(s for s in standings if s.role != "candidate")]):
        ranked = i < len(ordered)
        mira, energy, calibration = standing.mira, standing.energy, standing.calibration
        word, evidence = verdict(standing, names)
        if standing.convergence is not None and len(standing.convergence.missed):
            evidence += f"; {standing.convergence.sentence}"
        row: dict[str, Any] = {"candidate": standing.name, "role": standing.role, "tier": standing.tier}
        row |= {"verdict": word, "evidence": evidence}
        if ranked:
            row |= {"tied": ties[i][0], "tied_p": ties[i][1], "mira_rank": by_mira.get(standing.name)}
            row |= {"rank": i + 1 if standing.failure is None else None}
        else:
            row |= {"tier": "-", "tied": "-"}
        if mira is not None:
            row |= {"mira": mira.score, "mira_stderr": mira.stderr, "mira_sigmas": mira.sigmas}
        if energy is not None:
            row |= {"energy": energy.score, "energy_stderr": energy.stderr}
            if standing.informative is not None:
                row |= {"skill": energy.skill, "skill_stderr": energy.skill_stderr}
        if calibration is not None:
            row |= {"calibration_p": calibration.pvalue}
        for column, metric, attribute in (
            ("tarp_deviation", "tarp", "score"),
            ("sbc_p", "sbc", "pvalue"),
            ("c2st", "c2st", "score"),
            ("mmd", "mmd", "score"),
            ("log_evidence", "evidence", "score"),
            ("rhat", "convergence", "score"),
        ):
            if metric in standing.scores:
                row[column] = getattr(standing.scores[metric], attribute)
        if standing.convergence is not None:
            row["not_converged"] = len(standing.convergence.missed)
        rows.append(row)
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.astype({"rank": "Int64", "mira_rank": "Int64", "not_converged": "Int64"})
