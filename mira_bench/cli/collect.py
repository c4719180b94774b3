r"""The verb `collect`: any number of runs in, one table, one leaderboard, one figure and one page out."""

__all__ = ["main"]

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from ..errors import RunError, UsageError
from ..ranking.tiers import RANKINGS, TIERS
from ..report.figures import save
from ..report.outputs import clear_collected
from ..report.page import REPORT, write_page
from ..report.screen import screen
from ..report.tables import latex, markdown, without_empty
from ..sweeps.boards import leaderboard_figure
from ..sweeps.collect import Collected, Comparable, collect_jobs, collect_runs, gaps, group_runs, reruns, tidy
from ..sweeps.jobs import Job
from ..sweeps.leaderboard import CONFIDENCE, FEW, display_board, few_seeds, leaderboard
from ..sweeps.page import collected_page

RULES = {
    "tiers": TIERS,
    "tiers_first": "tiers, then by energy score",
    "energy": "energy score",
    "log": "log score",
    "mira": "the distance of MIRA from its expectation",
}
LISTED = 20  # jobs that are printed; jobs.csv has them all
NAMED = 4  # jobs that are named in a line


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mira-bench collect",
        description="Merges runs, of one sweep or of several machines, into table.csv, leaderboard.csv, a figure "
        "and a page.",
        epilog="Exit code: 0 if every job is done; 1 if jobs failed, are missing or still run (what is there is "
        "collected all the same, and the command that runs the rest is printed); 2 for bad usage.",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="folders of sweeps or runs")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="default: the folder, if it is one; or results/collected"
    )
    parser.add_argument("--by", nargs="+", default=[], metavar="KEY", help="one leaderboard per value of these keys")
    parser.add_argument("--rank-by", choices=RANKINGS, help="the rule (default: that of the runs)")
    return parser


def _note(group: Comparable, rank_by: str, board: pd.DataFrame) -> str:
    r"""What a reader of a leaderboard must know."""
    tiers = bool((board["tier"] != "-").any())
    few = f" {FEW}" if any(map(few_seeds, board["seeds"])) else ""
    seeds = sorted({run.seed for run in group.runs})
    config = group.runs[0].config
    sizes = [f"{config[key]} {key}" for key in ("fiducials", "samples") if config.get(key) is not None]
    rule = RULES[rank_by]
    if rank_by in ("tiers", "tiers_first") and not tiers:
        rule = "energy score (there are no tiers without the metric calibration)"
    if len(seeds) == 1:
        errors = (
            f"One seed ({seeds[0]}): intervals are over fiducials only, and say nothing about the spread over seeds"
        )
    else:
        errors = (
            f"{len(seeds)} seeds: mean over seeds with its {CONFIDENCE:.0%} interval, standard error "
            "sqrt(max(spread over seeds², mean squared error over fiducials) / seeds)"
        )
    sizes.append(f"seeds {_ranges(seeds)}")
    return f"{', '.join(sizes)}. {errors}. Ranked by {rule}; ties are paired by fiducial.{few}"


def _ranges(seeds: Sequence[int]) -> str:
    if len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1:
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _say_jobs(jobs: Sequence[Job]) -> bool:
    r"""Prints which jobs are not done; returns whether all are."""
    open_jobs = [job for job in jobs if job.status != "done"]
    if jobs:
        counts = {status: sum(job.status == status for job in jobs) for status in dict.fromkeys(j.status for j in jobs)}
        print(f"{len(jobs)} jobs: {', '.join(f'{n} {status}' for status, n in counts.items())}")
    for job in open_jobs[:LISTED]:
        print(f"  {job.status}: {job.name}{': ' * bool(job.reason)}{job.reason}", file=sys.stderr)
    if len(open_jobs) > LISTED:
        print(f"  and {len(open_jobs) - LISTED} more, in jobs.csv", file=sys.stderr)
    return not open_jobs


def main(arguments: Sequence[str]) -> int:
    r"""Runs the verb and returns its exit code: 1 if jobs are missing or failed."""

    asked = _parser().parse_intermixed_args(arguments)
    runs, notes = collect_runs(asked.folders)
    jobs = collect_jobs(asked.folders)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    complete = _say_jobs(jobs)
    out = asked.out or (asked.folders[0] if len(asked.folders) == 1 else Path("results", "collected"))
    if not runs:
        if jobs:
            clear_collected(out)  # a leaderboard of before would be one of runs that are no more
        _say_reruns(reruns(asked.folders, jobs))
        raise (RunError if jobs else UsageError)(f"there are no finished runs in {', '.join(map(str, asked.folders))}")
    groups = group_runs(runs, asked.by)
    boards = []
    for group in groups:
        rules = {str(run.config.get("rank_by", "tiers")) for run in group.runs}
        rank_by = asked.rank_by or (rules.pop() if len(rules) == 1 else "tiers")
        board = leaderboard(group, rank_by)
        boards.append((group, board, _note(group, rank_by, board)))
    try:
        out.mkdir(parents=True, exist_ok=True)
        _write(out, boards, tidy(groups), runs, jobs, gaps(jobs, runs))
    except OSError as error:
        raise UsageError(f"the folder {out} cannot be written: {error}") from error
    _show(boards)
    print(f"{len(runs)} runs. Table, leaderboard and figure: {out}; look at {_page_of(out)}")
    _say_reruns(reruns(asked.folders, jobs))
    return 0 if complete else 1


def _say_reruns(again: Mapping[str, Sequence[str]]) -> None:
    for command, names in again.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        print(f"To run again {'; '.join(names[:NAMED])}{more}: {command}")


def _page_of(out: Path) -> Path:
    r"""The page of the leaderboards, which has another name beside that of a run."""
    return out / ("leaderboard.html" if (out / "ranking.csv").exists() else REPORT)


def _write(
    out: Path,
    boards: Sequence[tuple[Comparable, pd.DataFrame, str]],
    table: pd.DataFrame,
    runs: Sequence[Collected],
    jobs: Sequence[Job],
    missing: Mapping[str, Sequence[tuple[str, str]]],
) -> None:
    clear_collected(out)
    whole = pd.concat([board for _, board, _ in boards], ignore_index=True)
    whole.to_csv(out / "leaderboard.csv", index=False)  # first: it shows whose the others are
    table.to_csv(out / "table.csv", index=False)
    table.to_parquet(out / "table.parquet", index=False)
    # A job that has no run is told below the last leaderboard of its task: its sizes are not known.
    last = {group.task: group.label for group, _, _ in boards}
    lost = {last.get(task, task): rows for task, rows in missing.items()}
    pages = {group.label: f"{markdown(display_board(board))}\n{note}\n" for group, board, note in boards}
    for label, rows in lost.items():
        lines = [f"- {name}: {why}" for name, why in rows]
        pages[label] = "\n".join([pages.get(label, ""), "Not done:", "", *lines, ""]).lstrip("\n")
    text = "\n".join(f"# {label}\n\n{page}" for label, page in pages.items())
    (out / "leaderboard.md").write_text(text, encoding="utf-8")
    parts = [f"% {group.label}\n{latex(display_board(board))}" for group, board, _ in boards]
    (out / "leaderboard.tex").write_text("\n".join(parts), encoding="utf-8")
    save(leaderboard_figure([(group.label, board) for group, board, _ in boards], lost), out / "leaderboard")
    named = [(group.label, board, note) for group, board, note in boards]
    write_page(collected_page(named, runs, lost, out), _page_of(out))
    if jobs:
        facts = [{**vars(job), "overrides": " ".join(job.overrides)} for job in jobs]
        pd.DataFrame(facts).drop(columns=["fingerprint", "pid", "reads"]).to_csv(out / "jobs.csv", index=False)


def _show(boards: Sequence[tuple[Comparable, pd.DataFrame, str]]) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    page = screen()
    for group, board, note in boards:
        shown = without_empty(display_board(board))
        table = Table(title=escape(group.label), caption=escape(note), caption_justify="left", box=box.SIMPLE_HEAD)
        for title in shown.columns:
            table.add_column(title, no_wrap=title in ("MIRA", "energy"))
        for row in shown.itertuples(index=False):
            table.add_row(*(escape(str(cell)) for cell in row))
        page.print(table)
