r"""The verb `report`: the page of a run made again from its folder, or one page for several runs."""

__all__ = ["main"]

import argparse
import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError
from ..report.page import REPORT, run_page, several_page, write_page
from ..report.page.content import Page
from ..report.page.reading import Kept, read_run

MOST = 20  # runs on one page: their data must stay small enough to open


def _runs(folder: Path) -> list[Kept]:
    r"""The run in a folder, or all runs below it."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    if (folder / "ranking.csv").exists():
        return [read_run(folder)]
    found = [read_run(path.parent) for path in sorted(folder.rglob("ranking.csv"))]
    if not found:
        raise UsageError(f"{folder} holds no run, and there is none below it: ranking.csv is missing")
    return found


def _way(page: Path, folder: Path) -> str:
    r"""The way from the folder of a page to another one, with a slash behind it; nothing if it is the same."""
    way = Path(os.path.relpath(folder, page.parent)).as_posix()
    return "" if way == "." else f"{way}/"


def _page(folders: Sequence[Path], out: Path) -> Page:
    from ..paper.page import is_paper, paper_page

    if len(folders) == 1 and is_paper(folders[0]):
        return paper_page(folders[0], _way(out, folders[0]))
    found = [run for folder in folders for run in _runs(folder)]
    runs = [dataclasses.replace(run, beside=_way(out, run.folder)) for run in found]
    if len(runs) > MOST:
        raise UsageError(f"{len(runs)} runs are too many for one page, which takes {MOST}: see collect")
    return run_page(runs[0]) if len(runs) == 1 else several_page(runs)


def main(arguments: Sequence[str]) -> int:
    r"""Writes the page."""

    parser = argparse.ArgumentParser(
        prog="mira-bench report",
        description="Makes the page of a run again, from what is in its folder; or one page for several runs, or for "
        "the results of the paper.",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="folders of runs, or results/paper")
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"default: {REPORT} in the folder, if it is one")
    asked = parser.parse_intermixed_args(arguments)
    out = asked.out or (asked.folders[0] if len(asked.folders) == 1 else Path("results")) / REPORT
    if out.is_dir():
        out = out / REPORT
    page = _page(asked.folders, out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error}") from error
    print(f"The page: {write_page(page, out)}")
    return 0
