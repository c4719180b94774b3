r"""One page of all items of the paper: printed and own values side by side, the verdict, and the picture."""

__all__ = ["is_paper", "paper_page"]

import re
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from ..errors import UsageError
from ..report.outputs import read_facts
from ..report.page.content import Page, Section, Table, embed_picture
from .catalogue import Item, items

PICTURES = 1_600_000  # bytes of all pictures together


def is_paper(folder: Path) -> bool:
    r"""Whether a folder holds items of the paper."""

    return any(item.made is not None for item in items(folder))


def _read_markdown(path: Path) -> pd.DataFrame:
    r"""Reads the table as people read it, which `mira_bench.report.tables.markdown` wrote."""
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if line
    ]
    return pd.DataFrame(cells[2:], columns=cells[0])


def _item(folder: Path, item: Item, most: int, beside: str) -> Section:
    r"""The section of an item that was made."""
    assert item.made is not None
    facts = read_facts(folder / item.id)["paper"]
    table = _read_markdown(folder / item.id / "table.md")
    lead = [
        f"{item.where}: {item.made.status}; ranking: {item.made.ranking}. Made in {item.made.time} on "
        f"{item.made.date}, commit {item.made.commit}, by: {facts['command']}"
    ]
    notes = [f"Another order than printed: {pair}." for pair in facts.get("clashes", ())]
    title = f"{item.id}: {item.title}"
    picture = embed_picture(folder / item.id / "figure.png", "", f"{title}; the table has the numbers", most)
    links = {"more": [quote(f"{beside}{item.id}/notes.md")]}
    more = Table("Recipe, remarks and deviations", pd.DataFrame({"more": [f"{item.id}/notes.md"]}), links, folded=True)
    values = Table(f"{item.id}: printed and own values", table)
    return Section(item.id, title, lead, pictures=[picture], tables=[values, more], notes=notes, short=item.id)


def paper_page(folder: Path, beside: str = "") -> Page:
    r"""Returns the page of the items in a folder.

    Arguments:
        folder: The folder.
        beside: The way to it from the folder of the page, with a slash behind it.
    """

    every = items(folder)
    made = [item for item in every if item.made is not None]
    if not made:
        raise UsageError(f"there are no items of the paper in {folder}")
    rows = [
        {
            "item": item.id,
            "status": item.status,
            "what": item.title,
            "in the paper": item.where,
            "ranking": item.made.ranking if item.made else "",
            "time": item.made.time if item.made else "",
        }
        for item in every
    ]
    links = {"item": [f"#{item.id}" if item.made else "" for item in every]}
    lead = [
        "Reproduced: every number is within 3 standard errors of the printed one (ours on both sides, not the printed "
        "bars), and the candidates are in the same order. Differs and open have their reason in the notes.",
    ]
    first = Section("items", "All items", lead, tables=[Table("Items", pd.DataFrame(rows), links)])
    sections = [_item(folder, item, PICTURES // len(made), beside) for item in made]
    # What else a status says is in the table.
    counted = pd.Series([re.split("[;,]", item.status)[0] for item in every]).value_counts()
    about = ", ".join(f"{count} {status}" for status, count in counted.items())
    return Page("The paper's tables and figures, made again", about, [first, *sections])
