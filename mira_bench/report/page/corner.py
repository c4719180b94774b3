r"""The section of corner plots: the samples of chosen candidates for a chosen fiducial, with the truth.

Parameters are `p0`, `p1`, ... in what Vega-Lite evaluates, their names are titles alone. A reader's choice are the
signals `fiducial` and `shown`, which the script of the page sets.
"""

__all__ = ["corners"]

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .content import Choice, Key, Section, Table
from .marks import Chart, Palette, Rows, Spec, tips_of
from .reading import Kept

BINS = 20
SHOWN = 3  # candidates that are drawn at first
CHOSEN = {"filter": "datum.fiducial === fiducial"}
BLANK: Spec = {"data": {"values": []}, "mark": "point"}


def corners(run: Kept) -> Iterator[Section]:
    r"""Yields the section, if the samples of some fiducials were kept."""

    told = run.details.get("corners")
    if not told:
        return
    fiducials, parameters = told["fiducials"], told["parameters"]
    known = {name for one in fiducials.values() for name in one["samples"]}
    names = [name for name in run.ranking["candidate"] if name in known]
    some = f" The {len(parameters)} parameters with the smallest p-values of SBC are drawn, of {told['of']}."
    lead = [
        "The samples of one observation, in pairs of parameters and each by itself; the lines are the truth. Choose a "
        "fiducial, and the candidates that are to be compared."
        + (some if len(parameters) < told["of"] else ""),
    ]  # fmt: skip
    options = {number: f"{number} ({one['why']})" for number, one in fiducials.items()}
    worst = {number: str(one["why"]).partition("worst of ")[2] for number, one in fiducials.items()}
    about = {number: str(names.index(name)) if name in names else "" for number, name in worst.items()}
    yield Section(
        "corner", "Corner plots", lead, short="Corner",
        choice=Choice("fiducial", options, Key.of(names, run.palette), SHOWN, about),
        charts=[_chart(fiducials, parameters, names, run.palette)],
        tables=[Table("Means ± standard deviations", _moments(fiducials, parameters, names), folded=True)],
    )  # fmt: skip


def _moments(fiducials: Mapping[str, Any], parameters: Sequence[str], names: Sequence[str]) -> pd.DataFrame:
    rows = []
    for number, one in fiducials.items():
        rows.append([number, "truth", *(f"{value:.4g}" for value in one["truth"])])
        for name in (name for name in names if name in one["samples"]):
            own = [np.asarray(values) for values in one["samples"][name]]
            rows.append([number, name, *(f"{values.mean():.4g} ± {values.std():.2g}" for values in own)])
    return pd.DataFrame(rows, columns=["fiducial", "of", *parameters])


def _chart(
    fiducials: Mapping[str, Any], parameters: Sequence[str], names: Sequence[str], palette: Palette
) -> Chart:  # fmt: skip
    r"""Draws histograms on the diagonal, and the pairs below it."""
    count = len(parameters)
    rows: Rows = []
    truths: Rows = []
    for number, one in fiducials.items():
        truth = {f"t{j}": value for j, value in enumerate(one["truth"])}
        truths.append({"fiducial": int(number), **truth})
        for k, name in enumerate(names):
            if name in one["samples"]:
                own = one["samples"][name]
                front = {"fiducial": int(number), "k": k, "candidate": name, "weight": 1 / len(own[0])}
                samples = {f"p{j}": values for j, values in enumerate(own)}
                rows.append(front | truth | samples)
    color = palette.color(names)
    cells = [
        _marginal(j, j == count - 1, parameters, truths, color) if i == j
        else _pair(i, j, i == count - 1, parameters, truths, color) if j < i
        else BLANK
        for i in range(count) for j in range(count)
    ]  # fmt: skip
    every = [f"p{j}" for j in range(count)]
    ends = [{"op": op, "field": one, "as": f"{op}_{one}"} for one in every for op in ("min", "max")]
    spec = {
        "data": {"values": rows},
        "params": [{"name": "fiducial", "value": truths[0]["fiducial"]},
                   {"name": "shown", "value": list(range(min(SHOWN, len(names))))}],
        "transform": [CHOSEN, {"filter": "indexof(shown, datum.k) >= 0"}, {"flatten": every},
                      {"joinaggregate": ends}],
        "concat": cells, "columns": count, "spacing": 5, "align": "each",
    }  # fmt: skip
    alt = f"Corner plot of {', '.join(parameters)}: samples and the truth; the table below has means and deviations"
    return Chart(spec, alt, cells=count)


def _axis(field: str, title: str | None) -> Spec:
    shown = {"title": title, "tickCount": 3, "labelOverlap": True, "labelLimit": 48, "grid": False}
    axis = shown if title is not None else None
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"zero": False, "nice": False, "padding": 12},
        "axis": axis,
    }


def _truth(truths: Rows, encoding: Spec, tips: list[Spec]) -> Spec:
    mark = {"type": "rule", "style": "truth"}
    return {"data": {"values": truths}, "transform": [CHOSEN], "mark": mark, "encoding": {**encoding, "tooltip": tips}}


def _marginal(j: int, last: bool, names: Sequence[str], truths: Rows, color: Spec) -> Spec:
    r"""The histogram of one parameter; all candidates have the same bins, which end where the pairs' axes do."""
    low, high = f"min(datum.min_p{j}, datum.t{j})", f"max(datum.max_p{j}, datum.t{j})"
    place = f"floor({BINS} * (datum.p{j} - datum.low) / (datum.high - datum.low))"
    transform = [
        {"calculate": low, "as": "low"}, {"calculate": high, "as": "high"},
        {"calculate": f"datum.high > datum.low ? min({place}, {BINS - 1}) : 0", "as": "bin"},
        {"aggregate": [{"op": "sum", "field": "weight", "as": "share"}],
         "groupby": ["candidate", "bin", "low", "high"]},
        {"calculate": f"datum.low + datum.bin * (datum.high - datum.low) / {BINS}", "as": "from"},
        {"calculate": f"datum.low + (datum.bin + 1) * (datum.high - datum.low) / {BINS}", "as": "to"},
    ]  # fmt: skip
    x = _axis("from", names[j] if last else None)
    y = {"field": "share", "type": "quantitative", "axis": None, "scale": {"domainMin": 0}}
    tips = tips_of(
        ("candidate", "candidate"), ("from", f"{names[j]} from", ".4g"), ("to", "to", ".4g"),
        ("share", "share of samples", ".1%"),
    )  # fmt: skip
    mark = {"type": "rect", "style": "pile"}
    encoding = {"x": x, "x2": {"field": "to"}, "y": y, "y2": {"datum": 0}, "color": color, "tooltip": tips}
    lines = _truth(truths, {"x": x | {"field": f"t{j}"}}, tips_of((f"t{j}", f"true {names[j]}", ".4g")))
    return {"layer": [{"transform": transform, "mark": mark, "encoding": encoding}, lines]}


def _pair(i: int, j: int, last: bool, names: Sequence[str], truths: Rows, color: Spec) -> Spec:
    r"""Two parameters against each other."""
    x, y = _axis(f"p{j}", names[j] if last else None), _axis(f"p{i}", None if j else names[i])
    tips = tips_of(("candidate", "candidate"), (f"p{j}", names[j], ".4g"), (f"p{i}", names[i], ".4g"))
    true = tips_of((f"t{j}", f"true {names[j]}", ".4g"), (f"t{i}", f"true {names[i]}", ".4g"))
    mark = {"type": "point", "style": "sample"}
    return {
        "layer": [
            {"mark": mark, "encoding": {"x": x, "y": y, "color": color, "tooltip": tips}},
            _truth(truths, {"x": x | {"field": f"t{j}"}}, true),
            _truth(truths, {"y": y | {"field": f"t{i}"}}, true),
        ]
    }
