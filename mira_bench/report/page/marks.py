r"""What charts have in common: candidates with their colors, axes, points with errors.

Colors are names (`c0`, `quiet`), which the page's style sheet gives a value in either theme, and marks have the styles
`band`, `line`, `dot`, ... of the page's script. Names of candidates are data, never parts of an expression.
"""

__all__ = [
    "DIVERGING", "HEADS", "HOVER", "HUES", "SLANTED", "Chart", "Palette", "Rows", "Spec", "across", "bars", "drawing",
    "room", "rows_of", "tips_of", "with_errors",
]  # fmt: skip

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HUES = 8  # colors of the style sheet: c0 to c7
DASHES: tuple[list[int], ...] = ([], [6, 2], [2, 2], [8, 2, 2, 2])  # those who come after all colors have other strokes
HOVER = {"type": "point", "opacity": 0, "size": 90, "filled": True}  # lines have no values of their own to hover on

DIVERGING = {"domain": [-8, 0, 8], "range": ["cold", "still", "warm"], "clamp": True, "interpolate": "rgb"}
HEADS = {"title": None, "orient": "top", "labelAngle": -35, "labelLimit": 110, "domain": False, "ticks": False}
SLANTED = {"left": 5, "top": 5, "right": 30, "bottom": 5}  # room for the last head

Spec = dict[str, Any]
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Chart:
    r"""A chart with what is said of it.

    Arguments:
        spec: What Vega-Lite draws.
        alt: What it shows, for those who do not see it.
        title: The title above it, if it has one.
        pick: The field whose value a click on a mark gives to the address, if there is one.
        cells: The number of panels side by side, whose size the page chooses, if it has several.
        least: The pixels that it needs; where there are fewer a reader scrolls.
    """

    spec: Spec
    alt: str
    title: str = ""
    pick: str = ""
    cells: int = 0
    least: int = 0


@dataclass(frozen=True)
class Palette:
    r"""Who has which color: candidates in the order of the ranking, controls are quiet.

    Arguments:
        names: All rows of the ranking in their order.
        controls: Those that are not ranked.
    """

    names: Sequence[str]
    controls: Sequence[str] = ()

    def hue(self, name: str) -> str:
        r"""Returns the name of a color."""
        if name in self.controls:
            return "quiet"
        return f"c{[one for one in self.names if one not in self.controls].index(name) % HUES}"

    def dash(self, name: str) -> list[int]:
        r"""Returns the lengths of dashes and gaps."""
        if name in self.controls:
            return [2, 3] if list(self.controls).index(name) else [7, 3]
        ranked = [one for one in self.names if one not in self.controls]
        return DASHES[ranked.index(name) // HUES % len(DASHES)]

    def color(self, names: Sequence[str] | None = None) -> Spec:
        r"""Returns the encoding of a candidate's color."""
        shown = list(self.names if names is None else names)
        scale = {"domain": shown, "range": [self.hue(one) for one in shown]}
        return {"field": "candidate", "type": "nominal", "scale": scale, "legend": None}

    def stroke(self, names: Sequence[str] | None = None) -> Spec:
        r"""Returns the encoding of a candidate's dashes."""
        shown = list(self.names if names is None else names)
        scale = {"domain": shown, "range": [self.dash(one) for one in shown]}
        return {"field": "candidate", "type": "nominal", "scale": scale, "legend": None}


def tips_of(*fields: tuple[str, str] | tuple[str, str, str]) -> list[Spec]:
    r"""What is shown on hovering: fields with their titles, and their formats if they are numbers."""
    return [
        {"field": f[0], "title": f[1], "type": "quantitative", "format": f[2]}
        if len(f) == 3
        else {"field": f[0], "title": f[1], "type": "nominal"}
        for f in fields
    ]


def across(field: str, title: str, **scale: Any) -> Spec:
    axis = {"title": title, "tickCount": 5, "labelOverlap": True}
    return {"field": field, "type": "quantitative", "axis": axis, "scale": {"zero": False, "nice": False, **scale}}


def drawing(rows: Rows, layers: list[Spec], height: int) -> Spec:
    size = {"width": "container", "height": height, "autosize": {"type": "fit-x", "contains": "padding"}}
    return {**size, "data": {"values": rows}, "layer": layers}


def rows_of(names: Sequence[str]) -> Spec:
    axis = {"title": None, "labelLimit": 150, "grid": True, "domain": False, "ticks": False}
    return {"field": "candidate", "type": "nominal", "sort": list(names), "axis": axis, "scale": {"domain": [*names]}}


def bars(rows: Rows, names: Sequence[str], palette: Palette, x: Spec, tips: list[Spec]) -> list[Spec]:
    r"""A point with its error for each candidate, in the order of the ranking."""
    y, color = rows_of(names), palette.color(names)
    mine = {"data": {"values": rows}}
    return [
        {**mine, "mark": {"type": "rule", "style": "error"},
         "encoding": {"x": x | {"field": "low"}, "x2": {"field": "high"}, "y": y, "color": color}},
        {**mine, "mark": {"type": "point", "style": "dot"},
         "encoding": {"x": x, "y": y, "color": color, "tooltip": tips}},
    ]  # fmt: skip


def room(values: Sequence[float | None], share: float = 0.06) -> list[float]:
    r"""A range that the data fill, with a little room around them."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    low, high = min(known), max(known)
    margin = share * ((high - low) or abs(high) or 1.0)
    return [low - margin, high + margin]


def with_errors(rows: Rows, times: float = 1.0) -> Rows:
    return [
        row
        | {"low": row["value"] - times * (row["error"] or 0.0), "high": row["value"] + times * (row["error"] or 0.0)}
        for row in rows
    ]
