r"""The last section of a run's page: how it was made, and how to make it again."""

__all__ = ["circumstances", "command_of"]

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import pandas as pd

from ...durations import rough
from .content import Section, Table
from .reading import Kept


def command_of(facts: Mapping[str, Any]) -> str:
    r"""Returns the command that made a run, as it is typed."""

    # What Python calls the module; folders of earlier versions have it.
    return str(facts.get("command", "")).replace("__main__.py", "python -m mira_bench", 1)


def circumstances(run: Kept) -> Iterator[Section]:
    r"""Yields the section: command, code, machine, versions, files and config."""

    facts = run.facts
    if not facts:
        lead = ["The result was saved from Python (Result.save), which knows neither a command nor a config."]
        yield Section("made", "How it was made", lead)
        return
    git = facts.get("git")
    commit = "not in a checkout" if not git else git["commit"] + (" with changes" if git.get("changed") else "")
    rows = {
        "command": command_of(facts),
        "finished": facts.get("finished", facts.get("date", "")),
        "took": rough(float(facts["seconds"])) if "seconds" in facts else "",
        "seed": facts.get("seed", ""),
        "commit": commit,
        "machine": f"{facts.get('cores', '?')} cores, {facts.get('processor', '')}, {facts.get('platform', '')}",
        "python": facts.get("python", ""),
        **(facts.get("versions") or {}),
    }
    cells = pd.DataFrame({"what": list(rows), "value": [str(value) for value in rows.values()]})
    tables = [Table("Circumstances", cells)]
    if facts.get("files"):
        files = pd.DataFrame(
            {"file": list(facts["files"]), "sha256": [str(one)[:16] for one in facts["files"].values()]}
        )
        tables.append(Table("Files that took part", files, folded=True))
    beside = [name for name in facts.get("outputs", ()) if name != "report.html" and not name.startswith("figures/")]
    links = {"file": [quote(run.beside + name) for name in beside]}
    tables.append(Table("Files of the run", pd.DataFrame({"file": beside}), links, folded=True))
    texts = {"config.yaml": run.config} if run.config else {}
    lead = ["The same command, with the same code and versions, gives the same numbers to the bit."]
    lead += [f"{one[:1].upper()}{one[1:]}." for one in run.details.get("reuse", ())]
    yield Section("made", "How it was made", lead, tables=tables, texts=texts)
