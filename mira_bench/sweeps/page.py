r"""The page of what was collected: leaderboards with intervals, the jobs that are not done, and the runs."""

__all__ = ["collected_page"]

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from ..ranking.verdicts import VERDICTS
from ..report.page import REPORT, charts
from ..report.page.content import Card, Page, Section, Table
from ..report.page.marks import Palette
from .collect import Collected
from .leaderboard import display_board

SCORES = {"energy": "energy score (smaller is better)", "mira": "MIRA"}


def _label(row: object) -> str:
    settings = getattr(row, "settings", "")
    return f"{row.candidate} ({settings})" if settings else str(row.candidate)  # type: ignore[attr-defined]


def _unique(labels: Sequence[str]) -> list[str]:
    r"""Labels of which no two are equal: content tells candidates apart, and their settings may not."""
    return [f"{one} #{labels[:i].count(one) + 1}" if one in labels[:i] else one for i, one in enumerate(labels)]


def _board(number: int, label: str, board: pd.DataFrame, note: str, lost: Sequence[tuple[str, str]]) -> Section:
    r"""The section of a leaderboard."""
    rows = list(board.itertuples(index=False))
    labels = _unique([_label(r) for r in rows])
    palette = Palette(labels, [name for name, r in zip(labels, rows, strict=True) if r.role != "candidate"])
    drawn = []
    for score, what in SCORES.items():
        points = [
            {"candidate": name, "value": float(getattr(r, score)), "low": _known(getattr(r, f"{score}_low")),
             "high": _known(getattr(r, f"{score}_high"))}
            for name, r in zip(labels, rows, strict=True)
            if r.role == "candidate" and not pd.isna(getattr(r, score))
        ]  # fmt: skip
        expected = board["mira_expected"].dropna()
        if points:
            at = float(expected.iloc[0]) if score == "mira" and len(expected) else None
            drawn.append(charts.scores(points, palette, what, at))
    cards = [
        Card(name, "-" if pd.isna(r.rank) else str(int(r.rank)), str(r.tier) + "!" * bool(r.objections),
             palette.hue(name), str(r.verdict), *_words(str(r.verdict), str(r.reason)))
        for name, r in zip(labels, rows, strict=True)
        if r.role == "candidate"
    ]  # fmt: skip
    cells = display_board(board).rename(columns={"": "rank"})
    notes = [f"Not done: {name}: {why}" for name, why in lost]
    return Section(
        f"board-{number}", label, [_headline(rows), note], cards, charts=drawn, tables=[Table(label, cells)],
        notes=notes,
    )  # fmt: skip


def _words(verdict: str, reason: str) -> tuple[str, str, str]:
    r"""What a verdict means, what speaks for it, and what to do."""
    meaning, advice = VERDICTS.get(verdict, ("", ""))
    return meaning, "" if reason == "nan" else reason, advice


def _headline(rows: Sequence[object]) -> str:
    first = next((r for r in rows if not pd.isna(r.rank)), None)  # type: ignore[attr-defined]
    if first is None:
        return "No candidate has a score."
    tied = [_label(r) for r in rows if r.tied in ("tied", "not resolved")]  # type: ignore[attr-defined]
    with_others = f" It cannot be told from {', '.join(tied)}." if tied else ""
    return f"{_label(first)} is first: {first.verdict}.{with_others}"  # type: ignore[attr-defined]


def _known(value: float) -> float | None:
    return None if pd.isna(value) else float(value)


def _runs(runs: Sequence[Collected], out: Path) -> Section:
    r"""The runs, each with the address of its own page."""
    cells = pd.DataFrame(
        {"run": [os.path.relpath(run.folder, out) for run in runs], "task": [run.task for run in runs],
         "seed": [str(run.seed) for run in runs], "version": [run.version for run in runs],
         "first": [str(run.ranking["candidate"].iloc[0]) if len(run.ranking) else "-" for run in runs]}
    )  # fmt: skip
    pages = [Path(os.path.relpath(run.folder, out), REPORT) for run in runs]
    links = {"run": [quote(page.as_posix()) if (out / page).exists() else "" for page in pages]}
    return Section("runs", "Runs", tables=[Table("Runs", cells, links)])


def collected_page(
    boards: Sequence[tuple[str, pd.DataFrame, str]],
    runs: Sequence[Collected],
    gaps: Mapping[str, Sequence[tuple[str, str]]],
    out: Path,
) -> Page:
    r"""Returns the page of leaderboards.

    Arguments:
        boards: The label of each leaderboard, its table, and what a reader must know.
        runs: The runs that were collected.
        gaps: For labels, what is not done and why.
        out: The folder of the page.
    """

    sections = [_board(i, label, board, note, gaps.get(label, ())) for i, (label, board, note) in enumerate(boards, 1)]
    lost = {label: rows for label, rows in gaps.items() if label not in {label for label, _, _ in boards}}
    if lost:
        notes = [f"{label}: {name}: {why}" for label, rows in lost.items() for name, why in rows]
        sections.append(Section("lost", "Not done", notes=notes))
    about = f"{len(runs)} runs, {len(boards)} leaderboard{'s' * (len(boards) > 1)}"
    return Page("Leaderboard", about, [*sections, _runs(runs, out)], "collection")
