r"""The ranking as csv, Markdown, LaTeX and on a terminal."""

__all__ = [
    "console", "display", "known", "latex", "markdown", "number", "plus_minus", "read_table", "save", "without_empty",
]  # fmt: skip

import math
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..ranking.tiers import TIER_WORDS, rule
from .outputs import announce

if TYPE_CHECKING:
    from rich.table import Table

    from ..result import Result

DASH = "-"
# The columns of our tables that hold words, which are words also if they look like a number or like nothing.
WORDS = {
    "task", "candidate", "metric", "view", "note", "role", "tier", "tied", "verdict", "evidence", "method", "tiers",
    "best", "worst", "verdicts", "objections", "leaderboard", "settings", "seeds", "reason", "host", "folder", "row",
    "column", "rule", "winner", "case", "name", "overrides", "status",
    "preprocess",
}  # fmt: skip
KEPT = ("", "candidate", "verdict", "evidence")
NUMBERS = (
    "MIRA", "σ", "by MIRA", "cal. p", "energy", "skill", "Δ", "TARP", "SBC p", "C2ST", "MMD", "Δ ln Z", "R-hat",
)  # fmt: skip


def read_table(path: Path) -> pd.DataFrame:
    r"""Reads a table that this package wrote as csv. A candidate may be called `null`, `NA` or `1e5`."""

    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    numbers = {name: [_number(text) for text in table[name]] for name in table.columns if name not in WORDS}
    return table.assign(**numbers)


def _number(text: str) -> float:
    return float(text) if text not in ("", "<NA>") else math.nan  # Python reads every digit that was written


def known(value: Any) -> bool:
    return value is not None and value is not pd.NA and not (isinstance(value, float) and math.isnan(value))


def number(value: Any, form: str = ".4f") -> str:
    return format(float(value), form) if known(value) else DASH


def plus_minus(value: Any, error: Any, form: str = ".4f") -> str:
    if not known(value):
        return DASH
    return f"{number(value, form)} ± {number(error, form)}" if known(error) else number(value, form)


def _p(value: Any) -> str:
    if not known(value):
        return DASH
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


def _rank(row: Any) -> str:
    if row.role != "candidate":
        return str(row.role)
    return str(int(row.rank)) if known(row.rank) else DASH


def display(ranking: pd.DataFrame, more: Mapping[str, str] | None = None) -> pd.DataFrame:
    r"""Returns the ranking as people read it: numbers with their errors, as text.

    Arguments:
        ranking: The ranking, as `Result.ranking` has it.
        more: The titles of further columns, by name.
    """

    best = ranking["log_evidence"].max()  # only differences of log-evidences have a meaning
    columns: dict[str, Callable[[Any], str]] = {
        "": _rank,
        "candidate": lambda r: r.candidate,
        "MIRA": lambda r: plus_minus(r.mira, r.mira_stderr),
        "σ": lambda r: number(r.mira_sigmas, "+.1f"),
        "by MIRA": lambda r: str(int(r.mira_rank)) if known(r.mira_rank) else DASH,
        "tier": lambda r: r.tier + ("!" if r.objections else ""),
        # The test has two thousand draws, observed one included: below this, digits say nothing.
        "cal. p": lambda r: _p(r.calibration_p) if not r.calibration_p <= 0.001 else "≤0.001",
        "energy": lambda r: plus_minus(r.energy, r.energy_stderr),
        "skill": lambda r: number(r.skill, ".3f"),
        "Δ": lambda r: number(r.difference, "+.4f"),
        "tied": lambda r: r.tied,
        "TARP": lambda r: number(r.tarp_deviation, ".3f"),
        "SBC p": lambda r: _p(r.sbc_p),
        "C2ST": lambda r: number(r.c2st, ".3f"),
        "MMD": lambda r: number(r.mmd, ".4f"),
        "Δ ln Z": lambda r: number(r.log_evidence - best, "+.1f"),
        "R-hat": lambda r: number(r.rhat, ".2f") + ("!" if known(r.not_converged) and r.not_converged else ""),
        "verdict": lambda r: r.verdict,
        "evidence": lambda r: "; but ".join(filter(None, [r.evidence, r.objections])),
    }
    rows = list(ranking.itertuples(index=False))
    table = pd.DataFrame({title: [cell(r) for r in rows] for title, cell in columns.items()})
    for name, title in (more or {}).items():
        table.insert(table.columns.get_loc("verdict"), title, [number(value) for value in ranking[name]])
    return without_empty(table)


def without_empty(table: pd.DataFrame) -> pd.DataFrame:
    r"""Leaves out the columns in which nobody has anything; not those that say who it is, and why there is nothing."""

    others = [title for title in table.columns if title not in KEPT]
    return table.drop(columns=[title for title in others if len(table) and (table[title] == DASH).all()])


def _line(cell: Any) -> str:
    r"""A cell in one line: a name may have several, and would end the row."""
    return " ".join(str(cell).splitlines())


def markdown(table: pd.DataFrame) -> str:
    r"""Returns a table as Markdown."""

    lines = ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    for row in table.itertuples(index=False):
        lines.append("| " + " | ".join(_line(cell).replace("|", "\\|") for cell in row) + " |")
    return "\n".join(lines) + "\n"


LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
        "±": r"$\pm$", "σ": r"$\sigma$", "Δ": r"$\Delta$", "≤": r"$\le$",
    }
)  # fmt: skip


def latex(table: pd.DataFrame) -> str:
    def cell(text: str) -> str:
        return text.translate(LATEX).replace("|z|", "$|z|$")

    lines = [r"\begin{tabular}{" + "l" * len(table.columns) + "}", r"\toprule"]
    lines += [" & ".join(cell(c) for c in table.columns) + r" \\", r"\midrule"]
    lines += [" & ".join(cell(_line(c)) for c in row) + r" \\" for row in table.itertuples(index=False)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def explanation(result: "Result", shown: Container[str]) -> str:
    r"""What a reader of the ranking must know about its columns, in a few lines.

    Arguments:
        result: The result.
        shown: The titles of the columns that are shown.
    """

    lines = []
    scored = [s.mira for s in result.standings if s.mira is not None]
    if scored:
        first = scored[0]
        fiducials, regions = first.ranks.shape
        counts = sorted({mira.samples for mira in scored})
        each = "" if len(counts) == 1 else " (each candidate has its own S and is compared with its own expectation)"
        lines.append(
            f"{fiducials} fiducials, {' to '.join(map(str, sorted({counts[0], counts[-1]})))} samples, "
            f"{regions} regions, normalize={first.normalize}. A perfect candidate scores {first.expected:.4f} "
            f"± {number(first.null_stderr)}{each}; the paper's band: ± {first.paper_band:.4f}."
            + (" σ: MIRA's deviation from that in null standard deviations." if "σ" in shown else "")
        )
    ordered_by = rule(result.standings, result.rank_by)
    lines.append(f"Ranked by {ordered_by}.")
    if "tier" in shown:
        ranked = result.ranking[result.ranking["role"] == "candidate"]
        there = [f"{tier} {words}" for tier, words in TIER_WORDS.items() if (ranked["tier"] == tier).any()]
        objected = ", ! with objections (see below)" if ranked["objections"].fillna("").any() else ""
        lines.append(f"Tiers: {', '.join(there)}{objected}. What each verdict means, and what to do: docs/verdicts.md.")
    if "R-hat" in shown and result.ranking["not_converged"].fillna(0).any():
        lines.append("R-hat: the largest of all posteriors; ! if some miss the limit. None is dropped.")
    return "\n".join(lines)


def save(result: "Result", folder: Path) -> None:
    r"""Writes `scores.parquet`, `summary.csv`, `ranking.csv`, `.md`, `.tex`.

    With several seeds there is `methods.csv`, and if something was trained `trainings.csv`.
    """

    announce(folder, "scores.parquet", "summary.csv", *(f"ranking.{kind}" for kind in ("csv", "md", "tex")))
    if result.methods is not None:
        announce(folder, "methods.csv")
        result.methods.to_csv(folder / "methods.csv", index=False)
    if result.trainings is not None:
        announce(folder, "trainings.csv")
        result.trainings.to_csv(folder / "trainings.csv", index=False)
    result.scores.to_parquet(folder / "scores.parquet", index=False)
    result.summary.to_csv(folder / "summary.csv", index=False)
    result.ranking.to_csv(folder / "ranking.csv", index=False)
    table = display(result.ranking, result.columns)
    title = f"# {result.task}\n\n"
    text = title + markdown(table) + "\n" + explanation(result, table.columns) + "\n"
    (folder / "ranking.md").write_text(text, encoding="utf-8")
    (folder / "ranking.tex").write_text(latex(table), encoding="utf-8")


# The columns that fit a terminal narrower than so many characters; the files always have them all.
FITTING = {
    100: ("", "candidate", "MIRA", "tier", "verdict"),
    150: ("", "candidate", "MIRA", "σ", "tier", "cal. p", "skill", "tied", "verdict"),
}


def console(result: "Result", width: int) -> "Table":
    r"""Returns the ranking for a terminal of a given width."""

    from rich import box
    from rich.markup import escape
    from rich.table import Table

    shown = display(result.ranking, result.columns)
    narrow = next((columns for limit, columns in FITTING.items() if width < limit), None)
    shown = shown if narrow is None else shown[[title for title in (*narrow, "evidence") if title in shown]]
    table = Table(
        title=escape(f"{result.task}: which posterior can be trusted"), caption=explanation(result, shown.columns),
        caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False,
    )  # fmt: skip
    for title in shown.columns:
        if title != "evidence":
            right = title in (*NUMBERS, *result.columns.values())
            table.add_column(title, justify="right" if right else "left", no_wrap=title not in ("candidate", "verdict"))
    candidates = result.ranking["role"] == "candidate"
    for i, row in enumerate(shown.itertuples(index=False)):
        *cells, evidence = (escape(_line(c)) for c in row)
        cells[-1] += f"\n[dim]{evidence}[/dim]"
        last = i + 1 < len(shown) and candidates.iloc[i] and not candidates.iloc[i + 1]
        table.add_row(*cells, end_section=bool(last))
    return table
