r"""All tables and figures of the paper: which can be made, which were, and with what result."""

__all__ = ["Item", "Made", "items", "runnable"]

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Made:
    r"""The last result of an item."""

    status: str
    ranking: str
    time: str
    date: str
    commit: str

    @classmethod
    def read(cls, folder: Path) -> "Made | None":
        r"""Reads what a folder of an item says about itself, if there is one."""
        file = folder / "provenance.json"
        if not file.is_file():
            return None
        facts = json.loads(file.read_text(encoding="utf-8"))
        if "paper" not in facts:  # the run was stopped before its table was written
            return None
        git = facts.get("git") or {}
        seconds = float(facts["seconds"])
        return cls(
            facts["paper"]["status"],
            facts["paper"]["ranking"],
            f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min",
            facts["date"],
            git.get("commit", "unknown")[:9],
        )


@dataclass(frozen=True)
class Item:
    r"""A table or a figure.

    Arguments:
        id: What it is called on the command line and in `results/paper`.
        where: The table or figure of the paper that it is.
        title: What the table or figure shows.
        cost: How long it takes to make it, roughly.
        missing: Why it cannot be made here, if it cannot.
        made: What the last time that it was made gave, if there is one.
    """

    id: str
    where: str
    title: str
    cost: str = ""
    missing: str = ""
    made: Made | None = None

    @property
    def status(self) -> str:
        if self.made is not None:
            return self.made.status
        return self.missing or "not run"


def _read(*path: str) -> Any:
    from omegaconf import OmegaConf

    text = resources.files("mira_bench.configs").joinpath(*path).read_text(encoding="utf-8")
    return OmegaConf.to_container(OmegaConf.create(text), resolve=False)


def items(folder: Path) -> list[Item]:
    r"""Returns all items in the paper's order, with the results that are in a folder."""

    found = []
    for entry in _read("paper.yaml")["items"]:
        name = entry["id"]
        if "missing" not in entry:
            section = _read("experiment", f"{name}.yaml")["paper"]
            entry = entry | {key: section[key] for key in ("where", "title", "cost")}
        found.append(Item(**entry, made=Made.read(folder / name)))
    return found


def runnable() -> list[str]:
    r"""Returns the ids of the items that can be made."""

    return [entry["id"] for entry in _read("paper.yaml")["items"] if "missing" not in entry]


def quick(item: str) -> dict[str, Any]:
    r"""Returns what is smaller in a quick run of an item."""

    overrides: dict[str, Any] = _read("experiment", f"{item}.yaml")["paper"]["quick"]
    return overrides
