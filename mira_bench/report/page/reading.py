r"""A run as its folder has it: all that its page is made of."""

__all__ = ["Kept", "read_run"]

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ...errors import UsageError
from ..details import DETAILS, FORMAT, sha256_of
from ..outputs import MARK, read_facts
from ..tables import number, read_table
from .marks import Palette

OURS = ("overview", "sbc", "convergence", "training", "referee")  # figures whose content the page draws itself


@dataclass(frozen=True)
class Kept:
    r"""What a run left in its folder.

    Arguments:
        folder: The folder.
        ranking: The table `ranking.csv`.
        summary: The table `summary.csv`.
        details: The content of `details.json`; empty in folders of versions that did not write it.
        facts: The content of `provenance.json`; empty if the result was saved from Python.
        tag: Tells it from other runs on the same page.
        beside: The way from the folder of the page to that of the run, with a slash behind it; nothing if it is there.
        edited: Whether the table is another one than the run wrote.
    """

    folder: Path
    ranking: pd.DataFrame
    summary: pd.DataFrame
    details: dict[str, Any]
    facts: dict[str, Any]
    tag: str = ""
    beside: str = ""
    edited: bool = False

    @property
    def task(self) -> str:
        told = self.details.get("task") or self.facts.get("task")
        return str(told or (self.summary["task"].iloc[0] if len(self.summary) else self.folder.name))

    @property
    def rank_by(self) -> str:
        return str(self.details.get("rank_by", "tiers"))

    @cached_property
    def palette(self) -> Palette:
        table = self.ranking
        return Palette(table["candidate"].tolist(), table.loc[table["role"] != "candidate", "candidate"].tolist())

    @cached_property
    def ranked(self) -> pd.DataFrame:
        r"""The candidates that have a rank, best first."""
        return self.ranking[(self.ranking["role"] == "candidate") & (self.ranking["verdict"] != "failed")]

    def of(self, kind: str) -> dict[str, Any]:
        r"""Returns what `details.json` has of a kind, by candidate in the order of the ranking."""
        own = self.details.get(kind) or {}
        return {name: own[name] for name in self.ranking["candidate"] if name in own}

    @cached_property
    def scores(self) -> pd.DataFrame:
        r"""The scores of each fiducial, of all parameters together."""
        try:
            table = pd.read_parquet(self.folder / "scores.parquet")
        except OSError:
            return pd.DataFrame(columns=["candidate", "metric", "view", "fiducial", "value"])
        return table[table["view"] == "all"]

    def table(self, name: str, begin: str) -> pd.DataFrame | None:
        r"""Returns another table of the folder as text, if it begins as ours do: users have files of such names."""
        try:
            if not (self.folder / name).read_text(encoding="utf-8").startswith(begin):
                return None
        except (OSError, UnicodeDecodeError):
            return None
        cells = read_table(self.folder / name)
        return cells.apply(lambda column: [number(v, ".5g") if isinstance(v, float) else str(v) for v in column])

    @cached_property
    def config(self) -> str:
        try:
            return (self.folder / "config.yaml").read_text(encoding="utf-8")
        except OSError:
            return ""

    @property
    def drawn(self) -> list[Path]:
        r"""The pictures that the task drew."""
        found = sorted((self.folder / "figures").rglob("*.png"))
        return [path for path in found if path.stem not in OURS and MARK.encode() in path.read_bytes()]


def read_run(folder: Path) -> Kept:
    r"""Reads the folder of a run, of `score` or of `Result.save`."""

    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    try:
        ranking, summary = read_table(folder / "ranking.csv"), read_table(folder / "summary.csv")
    except FileNotFoundError as error:
        raise UsageError(f"{folder} holds no run: {Path(error.filename).name} is missing") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} holds no run that can be read: {error}") from error
    try:
        details = json.loads((folder / DETAILS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        details = {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / DETAILS} cannot be read: {error}") from error
    known = details if details.get("format") == FORMAT else {}
    edited = bool(known) and known.get("ranking") != sha256_of(folder / "ranking.csv")
    return Kept(folder, ranking, summary, known, read_facts(folder), edited=edited)
