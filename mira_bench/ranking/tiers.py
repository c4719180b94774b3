r"""From scores to a ranking: trust and sharpness, with a verdict in words.

MIRA's distance from its expectation is the paper's order. By itself it picks the wrong winner: it sees one moment of
the ranks, and the prior is calibrated. A strictly proper score knows better: a candidate that is significantly worse in
it is farther from the truth, whatever tests of calibration say. What the score cannot resolve, tiers decide: the next
rank goes to the best tier among all those that no remaining candidate beats significantly, and within it to the best
score. So no candidate stands above one that beats it, and the first is in the model confidence set.
"""

__all__ = [
    "RANKINGS", "TIERS", "TIER_WORDS", "Standing", "compare_pairs", "conflicts", "order", "rank", "rule", "succession",
    "tie_words",
]  # fmt: skip

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import UsageError
from ..statistics import FEW_FIDUCIALS, farther_pvalue, holm, mean_stderr, paired_pvalue, separations
from ..streams import generator
from .standing import Standing
from .verdicts import advice, objections, verdict

RANKINGS = ("tiers", "energy", "log", "mira", "tiers_first")
TIE_LEVEL = 0.05
TIERS = "energy score, and by tier where that does not separate"
TIER_WORDS = {
    "A": "no miscalibration found", "B": "miscalibrated", "C": "no better than the prior",
    "?": "too few fiducials to tell",
}  # fmt: skip

COLUMNS = [
    "candidate", "role", "tier", "rank", "mira", "mira_stderr", "mira_sigmas", "mira_rank", "calibration_p",
    "energy", "energy_stderr", "skill", "skill_stderr", "tied", "tied_p", "difference", "difference_stderr",
    "tarp_deviation", "sbc_p", "c2st", "mmd", "log_score", "log_score_stderr", "log_evidence", "rhat", "not_converged",
    "verdict", "evidence", "objections",
]  # fmt: skip


def rule(standings: Sequence[Standing], rank_by: str) -> str:
    r"""Returns by what the candidates are ordered, in words. Tiers need the metrics calibration and energy."""

    scored = [s for s in standings if s.role == "candidate" and s.failure is None]
    if rank_by == "log" and any(s.log_score is not None for s in scored):
        return "log score, those without a density last"
    tested = any(s.calibration is not None and s.information is not None for s in scored)
    if rank_by in ("tiers", "tiers_first") and tested:
        return TIERS if rank_by == "tiers" else "tiers, then by energy score"
    if rank_by != "mira" and any(s.energy is not None for s in scored):
        return "energy score"
    if any(s.mira is not None for s in scored):
        return "the distance of MIRA from its expectation, the paper's order"
    return "nothing: the order is the one in which they were given"


def _mira_distance(s: Standing) -> float:
    return math.inf if s.mira is None else abs(s.mira.score - s.mira.expected)


def score_of(s: Standing, rank_by: str) -> float:
    r"""Returns what orders, smaller is better; infinite if it is not known."""

    if rank_by == "mira":
        return _mira_distance(s)
    if rank_by == "log":
        return math.inf if s.log_score is None else -s.log_score.score
    return math.inf if s.energy is None else s.energy.score


def values_of(s: Standing, rank_by: str) -> NDArray[np.float64] | None:
    r"""Returns what is compared, fiducial by fiducial; smaller is better (MIRA: nearer to zero)."""

    if s.failure is not None:
        return None
    if rank_by == "mira":
        return None if s.mira is None else s.mira.per_fiducial - s.mira.expected
    if rank_by == "log":
        found = None if s.log_score is None else -s.log_score.per_fiducial
        return None if found is None or not np.isfinite(found).all() else found
    return None if s.energy is None else s.energy.per_fiducial


def _set_variance(s: Standing, rank_by: str) -> float:
    r"""The variance of the score that comes from sample sets which fiducials share."""
    result = s.mira if rank_by == "mira" else None if rank_by == "log" else s.energy
    return 0.0 if result is None or result.shared_variance is None else result.shared_variance


def succession(
    trust: Sequence[int], scores: Sequence[float], pvalues: NDArray[np.float64] | None, level: float = TIE_LEVEL
) -> list[int]:
    r"""Returns the order: at each rank the most trusted of those that nobody left beats, then the best score.

    Arguments:
        trust: The place of each candidate's tier, the best first.
        scores: The scores, smaller is better; infinite if there is none.
        pvalues: The p-values of all pairs having the same score, $(k, k)$; none if tiers come before scores.
        level: Below this p-value the worse of two is beaten.
    """

    left = list(range(len(scores)))
    out = []

    def beaten(i: int) -> bool:
        return pvalues is not None and any(pvalues[i, j] < level and scores[j] < scores[i] for j in left if j != i)

    while left:
        free = [i for i in left if not beaten(i) and math.isfinite(scores[i])] or left
        best = min(free, key=lambda i: (trust[i], scores[i]))
        out.append(best)
        left.remove(best)
    return out


def _pairs(standings: Sequence[Standing], rank_by: str, seed: int) -> NDArray[np.float64]:
    r"""The p-values of all pairs being equally good."""
    values = [values_of(s, rank_by) for s in standings]
    lengths = [len(v) for v in values if v is not None]
    if not lengths:
        return np.full((len(values), len(values)), np.nan)
    table = np.stack([np.full(max(lengths), np.nan) if v is None else v for v in values])
    extra = np.array([_set_variance(s, rank_by) for s in standings])
    return separations(table, generator(seed, "sign flips"), extra if extra.any() else None)


def compare_pairs(standings: Sequence[Standing], rank_by: str, seed: int) -> dict[str, Any]:
    r"""Returns how all pairs of candidates compare in what orders, for figures.

    Arguments:
        standings: The candidates that have scores, in the order of the ranking.
        rank_by: The rule of the ranking.
        seed: The seed of sign flips.

    Returns:
        `candidates`, and matrices $(k, k)$: `difference` (the mean score of the row minus that of the column, positive
        is worse), its `stderr`, and `pvalue`, which holds for all pairs together. Empty where MIRA orders: a distance
        from an expectation has no such differences.
    """

    shown = [s for s in standings if values_of(s, rank_by) is not None]
    if rank_by == "mira" or len(shown) < 2:
        return {}
    cells = [[_difference(a, b, rank_by) for b in shown] for a in shown]
    return {
        "candidates": [s.name for s in shown],
        "difference": [[cell.get("difference", 0.0) for cell in row] for row in cells],
        "stderr": [[cell.get("difference_stderr", 0.0) for cell in row] for row in cells],
        "pvalue": _pairs(shown, rank_by, seed),
    }


def order(standings: Sequence[Standing], rank_by: str, seed: int = 0) -> list[Standing]:
    r"""Returns the candidates, best first; those that failed are last."""

    good = [s for s in standings if s.failure is None]
    failed = [s for s in standings if s.failure is not None]
    if rank_by in ("tiers", "tiers_first"):
        pvalues = _pairs(good, rank_by, seed) if rank_by == "tiers" else None
        scores = [score_of(s, rank_by) for s in good]
        if not any(math.isfinite(score) for score in scores):
            return sorted(good, key=lambda s: (s.trust, _mira_distance(s))) + failed
        return [good[i] for i in succession([s.trust for s in good], scores, pvalues)] + failed
    # What has no log score is ordered by the energy score, which is as proper.
    return sorted(good, key=lambda s: (score_of(s, rank_by), score_of(s, "energy"), _mira_distance(s))) + failed


def _compared(ordered: list[Standing], rank_by: str, seed: int) -> tuple[NDArray[np.float64], int]:
    r"""The p-values of the comparison of each candidate with the first, and the number of fiducials."""
    best = values_of(ordered[0], rank_by)
    if best is None:
        return np.full(len(ordered), np.nan), 0
    if rank_by != "mira":
        pvalues = _pairs(ordered, rank_by, seed)[0]
        pvalues[0] = np.nan
        return pvalues, len(best)
    pvalues = np.full(len(ordered), np.nan)
    for i, standing in enumerate(ordered[1:], start=1):
        mine = values_of(standing, rank_by)
        if mine is not None:
            sets = _set_variance(standing, rank_by) + _set_variance(ordered[0], rank_by)

            def compare(sign: int, mine: np.ndarray = mine, best: np.ndarray = best, sets: float = sets) -> float:
                return paired_pvalue(mine - sign * best, generator(seed, "sign flips"), sets)

            pvalues[i] = farther_pvalue(compare)
    known = ~np.isnan(pvalues)
    pvalues[known] = holm(pvalues[known])
    return pvalues, len(best)


def tie_words(pvalues: NDArray[np.float64], same: Sequence[bool], fiducials: int) -> list[str]:
    r"""Returns for each candidate, the best one first, whether it can be told from the best.

    Arguments:
        pvalues: The p-values of the comparisons with the best, corrected for their number; NaN where there is none.
        same: Whether the candidate is as trusted as the best.
        fiducials: The number of fiducials that were compared.
    """

    unresolved = "tied" if fiducials >= FEW_FIDUCIALS else "not resolved"
    words = ["best"] if fiducials else ["-"]
    for p, alike in zip(pvalues[1:], same[1:], strict=True):
        if math.isnan(p):
            words.append("-")
        elif p < TIE_LEVEL:
            words.append("no")
        else:
            words.append(unresolved if alike else "by tier")
    return words


def conflicts(ordered: Sequence[Standing], rank_by: str, seed: int) -> list[str]:
    r"""Says where trust and sharpness disagree: the first candidate is sharper, and one below is to be trusted more."""

    if rank_by != "tiers" or not ordered or ordered[0].failure is not None:
        return []
    first = ordered[0]
    trusted = next((s for s in ordered[1:] if s.failure is None and s.trust < first.trust and s.tier == "A"), None)
    if trusted is None or first.tier not in ("B", "C"):
        return []
    word = verdict(first)[0]
    good = [s for s in ordered if s.failure is None]
    place = [s.name for s in good].index(trusted.name)
    if not _pairs(good, rank_by, seed)[0, place] < TIE_LEVEL:
        return [
            f"{trusted.name} stands below {first.name} because another candidate beats it; no miscalibration was found "
            f"in {trusted.name}, while {first.name} is {word}"
        ]
    return [
        f"{first.name} is sharper than {trusted.name}, but {word}: {advice(word)}; or take {trusted.name}, in which no "
        "miscalibration was found"
    ]


def _disagreements(ordered: Sequence[Standing], seed: int) -> list[str]:
    r"""Says where the log score and the energy score separate two candidates in opposite ways."""
    both = [s for s in ordered if values_of(s, "log") is not None and values_of(s, "energy") is not None]
    if len(both) < 2:
        return []
    log, energy = (_pairs(both, by, seed) for by in ("log", "energy"))
    found = []
    for i, a in enumerate(both):
        for j, b in enumerate(both[i + 1 :], start=i + 1):
            if max(log[i, j], energy[i, j]) < TIE_LEVEL:
                by_log = score_of(a, "log") < score_of(b, "log")
                if by_log != (score_of(a, "energy") < score_of(b, "energy")):
                    better, other = (a, b) if by_log else (b, a)
                    found.append(
                        f"the log score prefers {better.name}, the energy score {other.name}: the former looks at the "
                        "density at the truth alone, tails included"
                    )
    return found


def _without_density(ordered: Sequence[Standing]) -> list[str]:
    r"""Says why candidates have no log score."""
    found = {s.name: s.scores["log_score"].note for s in ordered if s.log_score is None and "log_score" in s.scores}
    return [f"{name} ranks below those that have a log score, which was {note}" for name, note in found.items()]


def notices(standings: Sequence[Standing], rank_by: str, seed: int) -> list[str]:
    r"""Returns what the order alone does not say, one sentence each."""

    ordered = order([s for s in standings if s.role == "candidate"], rank_by, seed)
    good = [s for s in ordered if s.failure is None]
    told = conflicts(ordered, rank_by, seed) + _disagreements(good, seed)
    return told + (_without_density(good) if rank_by == "log" else [])


def rank(
    standings: list[Standing], *, rank_by: str = "tiers", names: list[str] | None = None, seed: int = 0
) -> pd.DataFrame:
    r"""Returns the ranking, best candidate first, controls last.

    Arguments:
        standings: The candidates with their scores.
        rank_by: `"tiers"`: by energy score, and by tier where that does not separate; `"energy"` or `"log"`: by that
            score alone; `"tiers_first"`: by tier, then energy; `"mira"`: the paper's order, by the distance of MIRA
            from its expectation.
        names: The names of the parameters.
        seed: The seed of sign flips, which decide what separates.
    """

    if rank_by not in RANKINGS:
        raise UsageError(f"rank_by={rank_by!r} is not one of {', '.join(RANKINGS)}")
    ordered = order([s for s in standings if s.role == "candidate"], rank_by, seed)
    by_mira = {s.name: i for i, s in enumerate(order(ordered, "mira"), 1) if s.mira is not None}
    words: list[str] = []
    pvalues = np.array([])
    if ordered:
        pvalues, fiducials = _compared(ordered, rank_by, seed)
        same = [rank_by not in ("tiers", "tiers_first") or s.trust == ordered[0].trust for s in ordered]
        words = tie_words(pvalues, same, fiducials)
    rows = []
    for i, standing in enumerate([*ordered, *(s for s in standings if s.role != "candidate")]):
        row = _row(standing, names)
        if i < len(ordered):
            row |= {"tied": words[i], "tied_p": pvalues[i], "mira_rank": by_mira.get(standing.name)}
            row |= {"rank": i + 1 if standing.failure is None else None}
            row |= _difference(standing, ordered[0], rank_by)
        else:
            row |= {"tier": "-", "tied": "-"}
        rows.append(row)
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.astype({"rank": "Int64", "mira_rank": "Int64", "not_converged": "Int64"})


def _difference(standing: Standing, best: Standing, rank_by: str) -> dict[str, float]:
    r"""The paired difference to the first candidate in what orders, with its sign: positive is worse."""
    mine, first = values_of(standing, rank_by), values_of(best, rank_by)
    if standing is best or mine is None or first is None or rank_by == "mira":
        return {}
    mean, stderr = mean_stderr(mine - first)
    sets = _set_variance(standing, rank_by) + _set_variance(best, rank_by)
    return {"difference": mean, "difference_stderr": math.hypot(stderr, sets**0.5)}


def _row(standing: Standing, names: list[str] | None) -> dict[str, Any]:
    mira, energy, calibration, log = standing.mira, standing.energy, standing.calibration, standing.log_score
    word, evidence = verdict(standing, names)
    if standing.convergence is not None and len(standing.convergence.missed):
        evidence += f"; {standing.convergence.sentence}"
    row: dict[str, Any] = {"candidate": standing.name, "role": standing.role, "tier": standing.tier}
    row |= {"verdict": word, "evidence": evidence}
    row["objections"] = "; ".join(objections(standing)) if standing.tier == "A" else ""
    if mira is not None:
        row |= {"mira": mira.score, "mira_stderr": mira.stderr, "mira_sigmas": mira.sigmas}
    if energy is not None:
        row |= {"energy": energy.score, "energy_stderr": energy.stderr}
        if standing.information is not None:
            row |= {"skill": energy.skill, "skill_stderr": energy.skill_stderr}
    if calibration is not None:
        row |= {"calibration_p": calibration.pvalue}
    if log is not None:
        row |= {"log_score": log.score, "log_score_stderr": log.stderr}
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
    return row
