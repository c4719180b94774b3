r"""The verb `paper`: the paper's tables and figures, listed or made again."""

__all__ = ["main"]

import argparse
import json
import shlex
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import UsageError
from ..paper.catalogue import items, quick, runnable
from ..ranks.kernel import available_threads

FOLDER = Path("results/paper")
NARROW = 120  # below, ids would leave no room for all columns
HARMLESS = ("workers", "parallel.backend", "store", "progress", "keep_samples")  # settings that change no number


def _list(folder: Path) -> None:
    from rich import box
    from rich.table import Table

    from ..report.screen import screen

    page = screen()
    titles = ["id", "status", "time", "what", "in the paper", "date", "commit"]
    shown = titles[:4] if page.width < NARROW else titles
    table = Table(box=box.SIMPLE_HEAD)
    for title in shown:  # an id is there to be copied
        table.add_column(title, overflow="fold", no_wrap=title in ("id", "date", "commit"))
    for item in items(folder):
        made, cost = item.made, f"~ {item.cost}" if item.cost else ""
        last = (made.date, made.commit) if made else ("", "")
        row = (item.id, item.status, made.time if made else cost, item.title, item.where, *last)
        table.add_row(*row[: len(shown)])
    page.print(table)
    said = "`python -m mira_bench paper ID` makes one again, `paper all` all that fit here; --quick: smaller ones."
    print(textwrap.fill(said, page.width))


def _choose(names: Sequence[str]) -> list[str]:
    possible = runnable()
    if "all" in names:
        return possible
    everything = {item.id: item for item in items(FOLDER)}
    for name in names:
        if name not in everything:
            raise UsageError(f"the paper has no item {name!r}; there are: {', '.join(everything)}, and all")
        if name not in possible:
            raise UsageError(f"{name} is not implemented yet ({everything[name].missing})")
    return list(dict.fromkeys(names))


def main(arguments: Sequence[str], run: Callable[[Sequence[str]], int]) -> int:
    r"""Lists or makes items.

    Arguments:
        arguments: The words after the verb.
        run: Runs an experiment with Hydra and returns the exit code.
    """

    parser = argparse.ArgumentParser(
        prog="mira-bench paper",
        description="The paper's tables and figures: without an id, all with their status; with ids, made again.",
        epilog="key=value changes the config of the experiment, e.g. seed=1; such a run goes to results/runs/paper.",
    )
    parser.add_argument("items", nargs="*", metavar="ID|key=value", help="the items to make, or all; and settings")
    parser.add_argument("--quick", action="store_true", help="a smaller run, which says so")
    parser.add_argument("--out", type=Path, help=f"the folder ({FOLDER}; quick or changed: results/runs/paper)")
    chosen = parser.parse_intermixed_args(arguments)
    names = [word for word in chosen.items if "=" not in word]
    overrides = [word for word in chosen.items if "=" in word]
    # What is not the paper's experiment does not become evidence.
    changed = chosen.quick or any(word.split("=")[0].lstrip("+~") not in HARMLESS for word in overrides)
    folder = chosen.out or (Path("results/runs/paper") if changed else FOLDER)
    if not names:
        if overrides:
            raise UsageError(f"{overrides[0]} is a setting, but of which item? paper ID {overrides[0]}")
        _list(folder)
        return 0
    code = 0
    for name in _choose(names):
        print(f"{name}{' (quick)' if chosen.quick else ''}")
        words = [f"experiment={name}", f"out={folder / name}", f"workers={available_threads()}"]
        if chosen.quick:
            words += [f"{key}={value}" for key, value in quick(name).items()]
        command = shlex.join(["python", "-m", "mira_bench", "paper", name, *["--quick"] * chosen.quick, *overrides])
        words += [f"++paper.changed={str(changed).lower()}", f"++paper.command={json.dumps(command)}"]
        code = max(code, run([*words, *overrides]))
    if not changed:
        from ..paper.folder import items_page
        from ..paper.page import is_paper, paper_page
        from ..report.page import REPORT, write_page

        (folder / "README.md").write_text(items_page(folder), encoding="utf-8")
        if is_paper(folder):
            write_page(paper_page(folder), folder / REPORT)
    return code
