r"""What a reproduced item leaves behind: a table in three formats, a figure, notes; and the page of all items."""

__all__ = ["items_page", "write_item"]

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..report.figures import save
from ..report.outputs import finish, read_facts
from ..report.tables import latex, markdown
from ..sweeps.study import Run
from .catalogue import Item, items
from .compare import DIFFERS, OPEN, compare, ranking_agreement, status
from .figures import comparison, over_training

KEPT = [
    "row", "column", "paper", "paper_error", "ours", "ours_error", "z", "verdict", "z_printed_bar",
    "default", "default_error", "expected", "default_expected", "candidate", "fiducials", "samples", "repeats",
]  # fmt: skip


def _number(value: float, error: float = float("nan")) -> str:
    if pd.isna(value):
        return ""
    small = 0 < abs(value) < 0.01 or abs(value) >= 100
    text = f"{value:.3g}" if small else f"{value:.4f}"
    return text if pd.isna(error) else f"{text} ± {error:.2g}" if small else f"{text} ± {error:.4f}"


def shown(table: pd.DataFrame) -> pd.DataFrame:
    r"""Returns the table as people read it: the two values side by side, our defaults, and the verdict."""

    # Where neither the row nor the column names the candidate (rows that were swapped in print), the cell does.
    hidden = table.groupby("row")["candidate"].transform("nunique") > 1
    hidden &= table.groupby("column")["candidate"].transform("nunique") > 1
    columns = {
        "row": table["row"],
        "what": table["column"].where(~hidden, table["column"] + " of " + table["candidate"]),
        "paper": [("< " if r.below else "") + _number(r.paper, r.paper_error) for r in table.itertuples()],
        "ours ± standard error": [_number(r.ours, r.ours_error) for r in table.itertuples()],
        "z": ["" if pd.isna(z) else f"{z:+.1f}" for z in table["z"]],
        "z, printed bar": ["" if pd.isna(z) else f"{z:+.1f}" for z in table["z_printed_bar"]],
        "verdict": table["verdict"],
        "our defaults": [_number(r.default, r.default_error) for r in table.itertuples()],
    }
    keep = [key for key, values in columns.items() if key in ("row", "what", "verdict") or any(values)]
    return pd.DataFrame({key: [str(v) for v in columns[key]] for key in keep})


def sizes(table: pd.DataFrame) -> str:
    r"""Says how many fiducials, samples and repeats the scores come from."""

    scored = table[table["is_mira"]]
    parts = []
    for name in ("fiducials", "samples"):
        values = sorted(scored[name].unique())
        parts.append(f"{values[0]} {name}" if len(values) == 1 else f"{values[0]} to {values[-1]} {name}")
    repeats = int(table["repeats"].max())
    return ", ".join(parts + ([f"{repeats} repeats"] if repeats > 1 else []))


def _notes(item: str, paper: Mapping[str, Any], table: pd.DataFrame, facts: Mapping[str, Any]) -> str:
    verdicts = table["verdict"].value_counts()
    counted = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    of_the_paper = " of the paper" if paper["where"].startswith(("Table", "Figure")) else ""
    lines = [f"# {item}: {paper['title']}", "", f"{paper['where']}{of_the_paper}.", ""]
    changed = facts["paper"]["changed"]
    if changed:
        lines += [f"**Not the paper's experiment but a changed one: {sizes(table)}. A look, not the evidence.**", ""]
    lines += [f"**{facts['paper']['status']}** ({counted}; ranking: {facts['paper']['ranking']}).", ""]
    if facts["paper"]["clashes"]:
        lines += [*(f"- another order than printed: {pair}" for pair in facts["paper"]["clashes"]), ""]
    lines += [markdown(shown(table))]
    lines += [
        "z compares with our own standard error on both sides, theirs at the paper's number of fiducials; *z, printed",
        "bar* takes the printed bar for the standard error. *Our defaults*: the same samples, scored as this package",
        "does without being asked otherwise (all references, exact scale, exchangeable normalization).",
        "",
        "## Recipe",
        "",
        paper["recipe"].strip(),
        "",
    ]
    if paper.get("remarks"):
        lines += ["## Remarks", "", paper["remarks"].strip(), ""]
    if not changed and ((table["verdict"] == DIFFERS).any() or facts["paper"]["ranking"] == "differs"):
        lines += ["## Why it differs", "", (paper.get("differs") or "Not understood yet.").strip(), ""]
    if (table["verdict"] == OPEN).any():
        reasons = [part.get("open") for part in (*paper.get("rows", {}).values(), *paper.get("columns", {}).values())]
        reasons += [cell.get("open") for row in paper.get("cells", {}).values() for cell in row.values()]
        lines += ["## Why it is open", "", *(f"- {r.strip()}" for r in dict.fromkeys(reasons) if r), ""]
    git = facts.get("git") or {}
    commit = git.get("commit", "unknown")[:12] + (" with changes" if git.get("changed") else "")
    lines += [
        "## Command",
        "",
        f"`{facts['paper']['command']}`: {facts['seconds']:.0f} s on {facts['cores']} cores, {sizes(table)}, "
        f"seed {facts['seed']}, {facts['date']}, commit {commit}.",
        "",
    ]
    return "\n".join(lines)


def write_item(item: str, paper: Mapping[str, Any], runs: Sequence[Run], out: Path) -> pd.DataFrame:
    r"""Writes the table, the figures and the notes of an item, prints the table, and returns it.

    Arguments:
        item: The id of the item.
        paper: The section `paper` of its config.
        runs: The runs of its study, whose `provenance.json` is in the folder.
        out: The folder of the item.
    """

    table = compare(paper, runs)
    ranking, clashes = ranking_agreement(table)
    before = read_facts(out)
    changed = bool(paper.get("changed", False))
    facts = dict(before)
    facts["paper"] = {
        "item": item,
        "status": status(table, ranking) + (" (changed)" if changed else ""),
        "ranking": ranking,
        "clashes": clashes,
        "changed": changed,
        "command": paper.get("command", f"python -m mira_bench experiment={item}"),
    }
    written = [*(f"table.{kind}" for kind in ("csv", "md", "tex")), "notes.md", "figure.png", "figure.pdf"]
    finish(out, {**before, "outputs": [*before.get("outputs", ()), *written]})
    table[KEPT].to_csv(out / "table.csv", index=False)
    text = shown(table)
    (out / "table.md").write_text(markdown(text), encoding="utf-8")
    (out / "table.tex").write_text(latex(text), encoding="utf-8")
    (out / "notes.md").write_text(_notes(item, paper, table, facts), encoding="utf-8")
    look = {"title": paper["title"], **paper.get("figure", {})}
    save(over_training(table, runs, paper) if look.get("x") == "epochs" else comparison(table, look), out / "figure")
    finish(out, {**read_facts(out), "paper": facts["paper"]})
    print(markdown(text))
    print(f"{item}: {facts['paper']['status']}; ranking: {ranking}. {sizes(table)}. Table, figure and notes: {out}")
    return table


def items_page(folder: Path) -> str:
    r"""Returns the page of all items as Markdown."""

    def row(item: Item) -> dict[str, str]:
        made = item.made
        name = f"[{item.id}]({item.id}/notes.md)" if made else item.id
        return {
            "item": name,
            "in the paper": item.where,
            "what": item.title,
            "status": item.status,
            "ranking": made.ranking if made else "",
            "time": made.time if made else "",
            "date": made.date if made else "",
            "commit": made.commit if made else "",
        }

    table = pd.DataFrame([row(item) for item in items(folder)])
    return "\n".join(
        [
            "# The paper's tables and figures",
            "",
            "Made by `python -m mira_bench paper all`. A status is computed from the item's table: *reproduced* if all",
            "numbers are within 3 standard errors of the printed ones (ours on both sides, not the printed bars) and",
            "the candidates are in the same order; *differs* otherwise, with the reason in its notes; *open* if no",
            "reading of the paper gives a printed score. The status is that of the MIRA scores, in the reading of the",
            "paper that the notes state; other columns that differ are named. *Ranking*: are the candidates in the",
            "printed order by their distance from the expected score? *Same within errors*: pairs that are in another",
            "order are closer than 3 standard errors; a dash: there is nothing to rank. What was found on the way:",
            "[docs/errata.md](../../docs/errata.md). (Table 1 lists the priors of the lens.)",
            "",
            markdown(table),
        ]
    )
