r"""What a page is made of: sections with words, charts, tables and pictures."""

__all__ = ["Card", "Choice", "Key", "Page", "Picture", "Section", "Table", "embed_picture"]

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from .marks import Chart, Palette

WIDEST = 1600  # pixels of a picture


@dataclass(frozen=True)
class Table:
    r"""A table that a reader can sort, filter and copy.

    Arguments:
        title: What it holds.
        cells: The cells as text.
        links: Where the cells of a column lead, by its name: an address in the page or a file beside it.
        folded: Whether it is closed at first.
    """

    title: str
    cells: pd.DataFrame
    links: Mapping[str, Sequence[str]] = field(default_factory=dict)
    folded: bool = False

    @property
    def rows(self) -> list[list[tuple[str, str]]]:
        r"""The text and the address of every cell."""
        empty = [""] * len(self.cells)
        addresses = [self.links.get(str(name), empty) for name in self.cells.columns]
        return [
            [(str(text), addresses[j][i]) for j, text in enumerate(row)]
            for i, row in enumerate(self.cells.itertuples(index=False))
        ]


@dataclass(frozen=True)
class Card:
    r"""A candidate in words.

    Arguments:
        name: The candidate.
        rank: Its rank, or what it is.
        tier: Its tier.
        hue: The name of its color.
        verdict: The verdict.
        meaning: What that means.
        evidence: What speaks for it.
        advice: What to do.
    """

    name: str
    rank: str
    tier: str
    hue: str
    verdict: str
    meaning: str
    evidence: str
    advice: str


@dataclass(frozen=True)
class Key:
    r"""An entry of a legend: a candidate with its color and dashes, or a band with its style."""

    name: str
    hue: str = ""
    dash: str = ""
    band: str = ""

    @classmethod
    def of(cls, names: Sequence[str], palette: Palette) -> "list[Key]":
        r"""Returns the legend of candidates."""
        return [cls(name, palette.hue(name), " ".join(map(str, palette.dash(name)))) for name in names]


@dataclass(frozen=True)
class Choice:
    r"""What a reader chooses to see in a chart.

    Arguments:
        label: What one of is chosen.
        options: Its possible values, with the words for each.
        keys: The candidates, any of which are chosen; the chart knows them by their place.
        shown: The number of candidates that are chosen at first.
        about: The place of the candidate that a value is about, or nothing: it is chosen with the value.
    """

    label: str
    options: Mapping[str, str]
    keys: Sequence[Key]
    shown: int
    about: Mapping[str, str]


@dataclass(frozen=True)
class Picture:
    r"""An image in the page.

    Arguments:
        title: What it shows.
        source: Its address, with the image in it.
        alt: What it shows, for those who do not see it.
    """

    title: str
    source: str
    alt: str


@dataclass(frozen=True)
class Section:
    r"""A part of a page.

    Arguments:
        id: Its address in the page.
        title: Its title.
        lead: What a reader must know, a paragraph each.
        cards: Candidates in words.
        keys: The legend of its charts.
        choice: What a reader chooses to see in them, if there is a choice.
        charts: Its charts; several small ones stand side by side.
        tables: Its tables.
        pictures: Its pictures.
        texts: Whole files, by their name.
        notes: What must not be overlooked, a sentence each.
        data: What the script looks up: the scores of each fiducial.
        tag: Tells the fiducials of this run from those of others on the page.
        short: What it is called where there is little room.
        begins: Whether a run begins with it, on a page of several.
    """

    id: str
    title: str
    lead: Sequence[str] = ()
    cards: Sequence[Card] = ()
    keys: Sequence[Key] = ()
    choice: Choice | None = None
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    tag: str = ""
    short: str = ""
    begins: bool = False


@dataclass(frozen=True)
class Page:
    r"""A page.

    Arguments:
        title: Its title.
        about: What was looked at, in a line.
        sections: Its parts.
        kind: What it is of: a run, several, or what `collect` gathered.
    """

    title: str
    about: str
    sections: Sequence[Section]
    kind: str = "run"


def embed_picture(path: Path, title: str, alt: str, most: int) -> Picture:
    r"""Returns the image of a file, smaller if it has too many bytes.

    Arguments:
        path: A png.
        title: What it shows.
        alt: What it shows, for those who do not see it.
        most: The number of bytes that it may have.
    """

    content, kind = path.read_bytes(), "png"
    if len(content) > most:
        from PIL import Image

        with Image.open(path) as image:
            shrunk = image.convert("RGB")
        width = min(WIDEST, shrunk.width)
        while True:
            buffer = io.BytesIO()
            size = (width, max(1, round(shrunk.height * width / shrunk.width)))
            shrunk.resize(size, Image.Resampling.LANCZOS).save(buffer, "WEBP", quality=80)
            content, kind = buffer.getvalue(), "webp"
            if len(content) <= most or width < 300:
                break
            width = int(0.75 * width)
    return Picture(title, f"data:image/{kind};base64,{base64.b64encode(content).decode()}", alt)
