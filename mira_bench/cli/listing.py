r"""The verb `list`: the tasks, candidates, metrics and experiments that exist."""

__all__ = ["configs", "listing", "main"]

import argparse
from collections.abc import Sequence
from importlib import resources

KINDS = ("tasks", "candidates", "metrics", "experiments")

# Tasks without candidates of their own, and how theirs are given.
GIVEN = {
    "files": "samples that exist: task=files task.truths=truths.npy 'task.candidates={npe: npe.npy, mcmc: run.h5}'",
    "mine": "those for every task, and what your files define: 'candidates=[npe,mine.py:build]'; npe if none are named",
}


def configs(group: str) -> list[str]:
    r"""Returns the names of the configs of a group."""

    folder = resources.files("mira_bench.configs") / group
    if not folder.is_dir():
        return []
    found = [f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")]
    for inner in folder.iterdir():
        if inner.is_dir() and not inner.name.startswith("_"):
            found += [f"{inner.name}/{name}" for name in configs(f"{group}/{inner.name}")]
    return sorted(found)


def _read(group: str, name: str) -> str:
    return (resources.files("mira_bench.configs") / group / f"{name}.yaml").read_text(encoding="utf-8")


def _described(group: str, name: str) -> str:
    r"""The name of a config, and its first line, which is a comment that says what it is."""
    return f"{name:<14}{_read(group, name).splitlines()[0].removeprefix('#').strip()}"


def _of_task(task: str) -> str:
    from omegaconf import OmegaConf

    config = OmegaConf.create(_read("task", task))
    own = [] if OmegaConf.is_missing(config, "candidates") else list(config.candidates)
    return ", ".join(own) or GIVEN[task]


def listing(what: str | None = None) -> str:
    r"""Returns what exists, a name a line.

    Arguments:
        what: One of `KINDS`; by default all of them.
    """

    parts = {
        "tasks": [f"  {task}" for task in configs("task")],
        "candidates": [
            "  for every task, if they are named, e.g. 'candidates=[npe,nle]'",
            *(f"    {_described('candidate', name)}" for name in configs("candidate")),
            "  of each task, all of them if none are named",
            *(f"    {task}: {_of_task(task)}" for task in configs("task")),
        ],
        "metrics": [f"  {metric}" for metric in configs("metric")],
        "experiments": [f"  {experiment}" for experiment in configs("experiment")],
    }
    chosen = parts if what is None else {what: parts[what]}
    return "\n".join("\n".join([title.capitalize(), *lines]) for title, lines in chosen.items())


def main(arguments: Sequence[str]) -> int:
    r"""Prints what exists."""

    parser = argparse.ArgumentParser(prog="mira-bench list", description="What exists.")
    parser.add_argument("what", nargs="?", choices=KINDS)
    print(listing(parser.parse_args(arguments).what))
    return 0
