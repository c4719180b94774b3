r"""The verb `list`: the tasks, candidates, metrics and experiments that exist."""

__all__ = ["configs", "listing", "main", "sentence"]

import argparse
import re
import textwrap
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from ..report.screen import columns

KINDS = ("tasks", "candidates", "metrics", "experiments")
PAGE = 120  # characters in a line of what goes into a file or a pipe

# Tasks without candidates of their own, and how theirs are given.
GIVEN = {
    "files": "samples that exist: task=files task.truths=truths.npy 'task.candidates={npe: npe.npy, mcmc: run.h5}'",
    "mine": "those for every task, and what your files define: 'candidates=[npe,mine.py:build]'; npe if none are named",
}


def configs(group: str, folder: str | None = None) -> list[str]:
    r"""Returns the names of the configs of a group.

    Arguments:
        group: The name of the group, such as `task`.
        folder: A folder of the user's own configs.
    """

    found: set[str] = set()
    for root in _roots(folder):
        inside = root / group
        if inside.is_dir():
            found |= {file.name.removesuffix(".yaml") for file in inside.iterdir() if file.name.endswith(".yaml")}
            for inner in inside.iterdir():
                if inner.is_dir() and not inner.name.startswith("_"):
                    found |= {f"{inner.name}/{name}" for name in configs(f"{group}/{inner.name}", folder)}
    return sorted(found)


def _roots(folder: str | None) -> list[Any]:
    return [*([] if folder is None else [Path(folder)]), resources.files("mira_bench.configs")]


def _read(group: str, name: str, folder: str | None) -> str:
    files = (root / group / f"{name}.yaml" for root in _roots(folder))
    return str(next(file for file in files if file.is_file()).read_text(encoding="utf-8"))


def sentence(group: str, name: str, folder: str | None = None) -> str:
    r"""Returns the first sentence of a config, which begins with a comment that says what it is."""

    words: list[str] = []
    for line in _read(group, name, folder).splitlines():
        if line.startswith("# @package"):
            continue
        if not line.startswith("# "):
            break
        words.append(line.removeprefix("#").strip())
    return re.split(r"(?<=[.?])\s", " ".join(words), maxsplit=1)[0]


def _lines(group: str, folder: str | None, width: int, indent: int = 2) -> list[str]:
    r"""A line for each config of a group: its name, and what it is as far as there is room."""
    names = configs(group, folder)
    longest = max(map(len, names)) + 2
    room = max(width - indent - longest, 20)

    def said(name: str) -> str:
        return textwrap.shorten(sentence(group, name, folder), room, placeholder=" ...")

    return [f"{'':<{indent}}{name:<{longest}}{said(name)}".rstrip() for name in names]


def _candidates_of(task: str, folder: str | None) -> dict[str, None]:
    r"""The candidates of a task, those first that it has from the task that it extends."""
    from omegaconf import OmegaConf

    config = OmegaConf.create(_read("task", task, folder))
    assert isinstance(config, Mapping)
    found: dict[str, None] = {}
    for base in config.get("defaults", []):
        extended = re.fullmatch(r"(?:/task/)?([\w/]+?)(?:@_here_)?", str(base))
        if extended and extended[1] != "_self_":
            found |= _candidates_of(extended[1], folder)
    own = [] if "candidates" not in config or OmegaConf.is_missing(config, "candidates") else config["candidates"]
    return found | dict.fromkeys(str(name) for name in own)


def _of_task(task: str, folder: str | None, width: int) -> str:
    names = ", ".join(_candidates_of(task, folder)) or GIVEN.get(task, "none of its own")
    return textwrap.fill(f"{task}: {names}", width, initial_indent="    ", subsequent_indent="      ")


def listing(what: str | None = None, folder: str | None = None, width: int = PAGE) -> str:
    r"""Returns what exists, a name a line.

    Arguments:
        what: One of `KINDS`; by default all of them.
        folder: A folder of the user's own configs.
        width: The number of characters in a line.
    """

    def candidates() -> list[str]:
        return [
            "  for every task, if they are named, e.g. 'candidates=[npe,nle]'",
            *_lines("candidate", folder, width, 4),
            "  of each task, all of them if none are named",
            *(_of_task(task, folder, width) for task in configs("task", folder)),
        ]

    chosen = KINDS if what is None else (what,)
    parts = {kind: candidates() if kind == "candidates" else _lines(kind[:-1], folder, width) for kind in chosen}
    return "\n".join("\n".join([title.capitalize(), *lines]) for title, lines in parts.items())


def main(arguments: Sequence[str], folder: str | None = None) -> int:
    r"""Prints what exists.

    Arguments:
        arguments: The words after the verb.
        folder: A folder of the user's own configs.
    """

    parser = argparse.ArgumentParser(prog="mira-bench list", description="What exists, a line each.")
    parser.add_argument("what", nargs="?", choices=KINDS)
    print(listing(parser.parse_args(arguments).what, folder, columns(PAGE)))
    return 0
