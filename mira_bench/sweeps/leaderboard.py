r"""A leaderboard over seeds: means with confidence intervals, ranks, and who is tied with the best.

A seed is a repetition of everything: other fiducials, and another training. Let a score have the values $m_s$ with the
standard errors $w_s$ over fiducials, for $k$ seeds. Its mean $\bar m$ has the standard error

$$ \sigma^2 = \frac{1}{k} \max(b^2, \overline{w^2}), \quad b^2 = \frac{1}{k - 1} \sum_s (m_s - \bar m)^2 . $$

The spread $b^2$ over seeds holds the errors over fiducials already, and what training adds. Where it is smaller than
they are, that is chance, and they stand. The interval is Student's, with $k - 1$ degrees of freedom if the spread
counts, else with those of all fiducials: a 95 % interval of three or more seeds covers 93-97 %, of two 87-97 %. With
one seed it is $w \, t_{L - 1}$: such a leaderboard knows nothing about the spread over seeds, and says so.

Candidates are compared with the best one fiducial by fiducial, on the seeds that both have: the differences have means
and errors per seed, which are combined by the same formula. Order, tiers and the words are those of
`mira_bench.ranking.tiers`. The calibration p-values of the seeds are combined by Fisher's method.
"""

__all__ = ["COLUMNS", "display_board", "few_seeds", "interval", "leaderboard", "pooled"]

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy

from ..metrics.calibration import LEVEL
from ..metrics.energy import NO_SKILL
from ..ranking.standing import trust_in
from ..ranking.tiers import succession, tie_words
from ..ranking.trainings import METRIC
from ..statistics import all_pairs, farther_pvalue, mean_stderr, paired_pvalue
from ..streams import generator
from .collect import Collected, Comparable

CONFIDENCE = 0.95
MARK = "†"
FEW = (
    f"{MARK} Fewer than three seeds: with two, the {CONFIDENCE:.0%} interval covers 87-97% of cases; "
    "with one, it is over fiducials alone."
)

COLUMNS = [
    "leaderboard", "task", "rank", "candidate", "settings", "role", "tier", "tied", "tied_p", "seeds", "failed",
    "mira", "mira_stderr", "mira_low", "mira_high", "mira_expected", "energy", "energy_stderr", "energy_low",
    "energy_high", "skill", "skill_stderr", "calibration_p", "verdict", "objections", "reason",
]  # fmt: skip


def pooled(means: Sequence[float], errors: Sequence[float], fiducials: int) -> tuple[float, float, float]:
    r"""Returns the mean over seeds, its standard error, and the degrees of freedom of the error.

    Arguments:
        means: The score of each seed.
        errors: Its standard error over fiducials, for each seed.
        fiducials: The number of fiducials of a seed.
    """

    m, w = np.asarray(means, np.float64), np.asarray(errors, np.float64)
    count = len(m)
    if count == 0:
        return math.nan, math.nan, math.nan
    within = float(np.mean(w**2))
    between = float(m.var(ddof=1)) if count > 1 else 0.0
    dof = count - 1 if between > within else count * (fiducials - 1)
    return float(m.mean()), math.sqrt(max(between, within) / count), float(dof)


def few_seeds(seeds: str) -> bool:
    r"""Whether a row, of so many seeds of all (`"2/5"`), has scores of fewer than three: its interval is rough."""

    return 0 < int(seeds.partition("/")[0]) < 3


def interval(mean: float, stderr: float, dof: float, level: float = CONFIDENCE) -> tuple[float, float]:
    r"""Returns Student's confidence interval."""

    half = stderr * float(scipy.stats.t.ppf(0.5 + level / 2, dof)) if dof >= 1 else math.nan
    return mean - half, mean + half


def _expected(run: Collected, name: str) -> float:
    r"""What MIRA gives a perfect candidate with as many samples as this one has in a run."""
    s = run.summary
    rows = s[(s["candidate"] == name) & (s["metric"] == "mira") & (s["view"] == "all")]
    return float(rows["expected"].iloc[0]) if len(rows) else math.nan


def _values(run: Collected, name: str, metric: str) -> pd.Series:
    r"""What is compared, fiducial by fiducial: energy score, log score, or MIRA's deviation from its expectation."""
    values = run.per_fiducial(name, metric).astype(np.float64)
    return values - _expected(run, name) if metric == "mira" else -values if metric == "log_score" else values


def _paired(mine: Collected, best: Collected, names: tuple[str, str], metric: str) -> tuple[np.ndarray, np.ndarray]:
    r"""The values of two candidates on the fiducials that both runs have."""
    a, b = _values(mine, names[0], metric), _values(best, names[1], metric)
    both = a.index.intersection(b.index)
    return a[both].to_numpy(), b[both].to_numpy()


class _Entry:
    r"""A candidate with its settings, over the seeds that it has."""

    def __init__(self, name: str, settings: str, runs: Sequence[Collected]) -> None:
        self.name, self.settings = name, settings
        self.runs: dict[int, Collected] = {}
        rows: dict[int, Any] = {}
        failures = 0
        self.reason = ""  # of the first failure
        for run in runs:
            row = run.ranking.set_index("candidate").loc[name]
            if run.seed in self.runs:
                continue  # the same candidate on the same fiducials, in a run with other candidates
            if row["verdict"] == "failed":
                failures += 1
                self.reason = self.reason or str((run.facts.get("failures") or {}).get(name, ""))
                continue
            self.runs[run.seed], rows[run.seed] = run, row
        self.role = str(runs[0].ranking.set_index("candidate").loc[name, "role"])
        self.failures = failures
        self.table = pd.DataFrame(list(rows.values()))
        self.fiducials = next((len(run.per_fiducial(name, "energy")) for run in self.runs.values()), 0)
        self.fiducials = self.fiducials or next((len(r.per_fiducial(name, "mira")) for r in self.runs.values()), 0)

    def score(self, metric: str) -> tuple[float, float, float]:
        if self.table.empty or metric not in self.table:
            return math.nan, math.nan, math.nan
        known = self.table[[metric, f"{metric}_stderr"]].astype(float).dropna()
        return pooled(known[metric].tolist(), known[f"{metric}_stderr"].tolist(), self.fiducials)

    @property
    def expected(self) -> float:
        found = [_expected(run, self.name) for run in self.runs.values()]
        return float(np.mean(found)) if found else math.nan

    @property
    def calibration_p(self) -> float:
        known = [] if self.table.empty else self.table["calibration_p"].dropna().astype(float).tolist()
        if len(known) < 2:
            return known[0] if known else math.nan
        return float(scipy.stats.combine_pvalues(known, method="fisher").pvalue)

    @property
    def tier(self) -> str:
        if not self.runs:
            return "-"
        if len(self.runs) == 1:
            return str(self.table["tier"].iloc[0])
        skill, stderr, _ = self.score("skill")
        if math.isnan(skill):
            return "-"
        p = self.calibration_p
        if skill <= 2 * stderr:
            return "C" if skill + 2 * stderr < NO_SKILL else "-" if math.isnan(p) else "?"
        return "-" if math.isnan(p) else "A" if p >= LEVEL else "B"

    @property
    def trust(self) -> int:
        r"""The place of its tier, as `Standing.trust`."""
        return trust_in(self.tier, self.calibration_p >= LEVEL)

    @property
    def objections(self) -> str:
        r"""What speaks against it in the runs in which it is in tier A."""
        told = [] if "objections" not in self.table else [str(t) for t in self.table["objections"] if t and t == t]
        return "; ".join(dict.fromkeys(told)) if self.tier == "A" else ""

    @property
    def verdict(self) -> str:
        if not self.runs:
            return "failed"
        counts = Counter(map(str, self.table["verdict"]))
        if len(counts) == 1:
            return next(iter(counts))
        return ", ".join(f"{word} {n}/{len(self.runs)}" for word, n in counts.most_common())

    def orders(self, metric: str) -> float:
        r"""Returns what orders, smaller is better; infinite if it is not known."""
        value = self.score(metric)[0]
        value = abs(value - self.expected) if metric == "mira" else -value if metric == "log_score" else value
        return math.inf if math.isnan(value) else value

    def against(self, best: "_Entry", metric: str) -> float:
        r"""Returns the p-value of the paired comparison with the best entry; NaN if nothing is shared."""
        shared = sorted(self.runs.keys() & best.runs.keys())
        pairs = [_paired(self.runs[seed], best.runs[seed], (self.name, best.name), metric) for seed in shared]
        pairs = [pair for pair in pairs if len(pair[0]) > 1]

        def compare(sign: int) -> float:
            differences = [a - sign * b for a, b in pairs]
            if len(differences) == 1:
                return paired_pvalue(differences[0], generator(min(self.runs), "sign flips"))
            found = [mean_stderr(d) for d in differences]
            mean, stderr, dof = pooled([m for m, _ in found], [e for _, e in found], len(differences[-1]))
            if stderr == 0:
                return 1.0 if mean == 0 else 0.0
            return float(2 * scipy.stats.t.sf(abs(mean) / stderr, dof))

        if not pairs:
            return math.nan
        return farther_pvalue(compare) if metric == "mira" else compare(1)


def _in_order(entries: list[_Entry], rank_by: str) -> tuple[list[_Entry], list[tuple[str, float]]]:
    r"""The candidates, best first, and for each whether it can be told from the first, with the p-value."""
    if not entries:
        return [], []
    metric = METRIC.get(rank_by, "energy")
    pvalues = all_pairs(len(entries), lambda i, j: entries[i].against(entries[j], metric))
    by_tier = rank_by in ("tiers", "tiers_first")
    trust = [e.trust if by_tier else 0 for e in entries]
    scores = [e.orders(metric) for e in entries]
    if by_tier and not any(math.isfinite(score) for score in scores):
        scores = [e.orders("mira") for e in entries]
    order = succession(trust, scores, pvalues if rank_by == "tiers" else None)
    order.sort(key=lambda i: not entries[i].runs)
    best = order[0]
    against = np.array([math.nan, *(pvalues[best, i] for i in order[1:])])
    compared = entries[best].fiducials * max(1, len(entries[best].runs))
    words = tie_words(against, [trust[i] == trust[best] for i in order], compared)
    if not compared:
        words, against = ["-"] * len(order), np.full(len(order), math.nan)
    return [entries[i] for i in order], list(zip(words, against.tolist(), strict=True))


def leaderboard(group: Comparable, rank_by: str = "tiers") -> pd.DataFrame:
    r"""Returns the leaderboard of comparable runs, best candidate first, controls last.

    Arguments:
        group: The runs that share the leaderboard.
        rank_by: The rule, as in `mira_bench.ranking.tiers`.
    """

    seeds = len({run.seed for run in group.runs})
    everyone = [_Entry(name, settings, runs) for (name, settings), runs in group.entries().items()]
    ordered, ties = _in_order([e for e in everyone if e.role == "candidate"], rank_by)
    rows = []
    for i, entry in enumerate([*ordered, *(e for e in everyone if e.role != "candidate")]):
        ranked = i < len(ordered)
        row: dict[str, Any] = {"leaderboard": group.label, "task": group.task, "candidate": entry.name}
        row |= {"settings": entry.settings, "role": entry.role, "verdict": entry.verdict, "reason": entry.reason}
        row["objections"] = entry.objections
        row |= {"seeds": f"{len(entry.runs)}/{seeds}", "failed": entry.failures, "mira_expected": entry.expected}
        row |= {"calibration_p": entry.calibration_p, "tier": entry.tier if ranked else "-"}
        if ranked:
            row |= {"tied": ties[i][0] if entry.runs else "-", "tied_p": ties[i][1]}
            row |= {"rank": i + 1 if entry.runs else None}
        else:
            row["tied"] = "-"
        for score in ("mira", "energy", "skill"):
            mean, stderr, dof = entry.score(score)
            row |= {score: mean, f"{score}_stderr": stderr}
            if score != "skill":
                row[f"{score}_low"], row[f"{score}_high"] = interval(mean, stderr, dof)
        rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS).astype({"rank": "Int64"})


def display_board(table: pd.DataFrame) -> pd.DataFrame:
    r"""Returns a leaderboard as people read it: numbers with their intervals, as text."""

    def number(value: float, form: str = ".4f") -> str:
        return "-" if pd.isna(value) else format(float(value), form)

    def spread(mean: float, low: float, high: float) -> str:
        if pd.isna(mean):
            return "-"
        return number(mean) if pd.isna(low) else f"{number(mean)} [{number(low)}, {number(high)}]"

    def rank(row: Any) -> str:
        return str(row.role) if row.role != "candidate" else "-" if pd.isna(row.rank) else str(int(row.rank))

    def seeds(row: Any) -> str:
        return f"{row.seeds}{MARK * few_seeds(row.seeds)}{f' ({row.failed} failed)' if row.failed else ''}"

    def verdict(row: Any) -> str:
        return f"{row.verdict}: {textwrap.shorten(row.reason, 60)}" if row.verdict == "failed" else str(row.verdict)

    rows = list(table.itertuples(index=False))
    shown = {
        "": [rank(r) for r in rows],
        "candidate": [str(r.candidate) for r in rows],
        "settings": [str(r.settings) for r in rows],
        "seeds": [seeds(r) for r in rows],
        "MIRA": [spread(r.mira, r.mira_low, r.mira_high) for r in rows],
        "tier": [f"{r.tier}{'!' if r.objections else ''}" for r in rows],
        "energy": [spread(r.energy, r.energy_low, r.energy_high) for r in rows],
        "skill": [number(r.skill, ".3f") for r in rows],
        "tied with best": [str(r.tied) for r in rows],
        "verdict": [verdict(r) for r in rows],
    }
    if not any(shown["settings"]):
        del shown["settings"]
    return pd.DataFrame(shown)
