r"""The charts of a page, as Vega-Lite has them: data and marks, no code."""

__all__ = [
    "coverage", "differences", "ecdf", "fiducials", "matrix", "mira", "rank_trend", "scores", "skill", "strip",
    "training", "zmap",
]  # fmt: skip

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .marks import (
    DIVERGING,
    HEADS,
    HOVER,
    HUES,
    SLANTED,
    Chart,
    Palette,
    Rows,
    Spec,
    across,
    bars,
    drawing,
    room,
    rows_of,
    tips_of,
    with_errors,
)  # fmt: skip

BINS = 10
FEATURE, CELL = 150, 38  # pixels that the name of a row and a number in a map need


def differences(rows: Rows, palette: Palette, what: str) -> Chart:
    r"""Draws how much worse than the first each candidate is, with two standard errors.

    Arguments:
        rows: `candidate`, `value`, `error`, `tied`.
        palette: The colors.
        what: What is compared.
    """

    rows = with_errors(rows, 2.0)
    names = [row["candidate"] for row in rows]
    ends = sorted(abs(row[key]) for row in rows for key in ("low", "high") if row[key])
    # One far candidate must not press the others together: linear near zero, logarithmic beyond.
    wide = bool(ends) and ends[-1] > 20 * float(np.median(ends))
    near = float(np.median(ends)) if wide else 0.0
    bent = ", logarithmic far from 0" if wide else ""
    x = across("value", f"difference in {what}{bent}", **({"type": "symlog", "constant": near} if wide else {}))
    if wide:
        powers = [10**k for k in range(-300, 300) if near / 2 <= 10**k <= 1.1 * ends[-1]]
        x["axis"] |= {"values": [0, *powers], "format": "~g"}
    x["scale"]["domain"] = room([0.0, *(row[key] for row in rows for key in ("low", "high"))])
    tips = tips_of(("candidate", "candidate"), ("value", "difference", "+.4g"), ("error", "± standard error", ".2g"))
    zero = {"data": {"values": [{"zero": 0}]}, "mark": {"type": "rule", "style": "zero"},
            "encoding": {"x": {"field": "zero", "type": "quantitative"}}}  # fmt: skip
    layers = [zero, *bars(rows, names, palette, x, [*tips, *tips_of(("tied", "tied with the first"))])]
    alt = "How much worse than the first: " + "; ".join(f"{r['candidate']} {r['value']:+.4g}" for r in rows)
    return Chart(drawing([], layers, 30 * len(names) + 20), alt, "How far behind the first, ± 2 standard errors")


def skill(rows: Rows, palette: Palette) -> Chart:
    r"""Draws how much more than the prior each candidate knows, with two standard errors; rows as in `differences`."""

    rows = with_errors(rows, 2.0)
    names = [row["candidate"] for row in rows]
    x = across("value", "skill: 0 the prior, 1 the truth")
    x["scale"]["domain"] = room([row[key] for row in rows for key in ("low", "high")])
    tips = tips_of(("candidate", "candidate"), ("value", "skill", ".4f"), ("error", "± standard error", ".4f"))
    alt = "Skill: " + "; ".join(f"{r['candidate']} {r['value']:.3f}" for r in rows)
    return Chart(
        drawing([], bars(rows, names, palette, x, tips), 30 * len(names) + 20),
        alt,
        "How much it knows, ± 2 standard errors",
    )


def mira(rows: Rows, palette: Palette, told: Mapping[str, Any]) -> Chart:
    r"""Draws the MIRA scores with the exact null band and the paper's.

    Arguments:
        rows: `candidate`, `value`, `error`, `expected`, `sigmas`, `construction`.
        palette: The colors.
        told: `expected`, `null_stderr` and `paper_band` of the first candidate.
    """

    rows = with_errors(rows)
    names = [row["candidate"] for row in rows]
    e, null, band = told["expected"], told["null_stderr"], told["paper_band"]
    bands = [{"low": e - band, "high": e + band, "style": "paper"}]
    bands += [] if null is None else [{"low": e - null, "high": e + null, "style": "exact"}]
    x = across("value", "MIRA ± standard error")
    x["scale"]["domain"] = room([e - band, e + band, *(row[key] for row in rows for key in ("low", "high"))])
    layers: list[Spec] = [
        {"data": {"values": [one]}, "mark": {"type": "rect", "style": one["style"]},
         "encoding": {"x": x | {"field": "low"}, "x2": {"field": "high"}}}
        for one in bands
    ]  # fmt: skip
    layers.append(
        {"data": {"values": rows}, "mark": {"type": "tick", "style": "expected"},
         "encoding": {"x": x | {"field": "expected"}, "y": rows_of(names)}}
    )  # fmt: skip
    tips = tips_of(
        ("candidate", "candidate"), ("value", "MIRA", ".4f"), ("error", "± standard error", ".4f"),
        ("expected", "a perfect candidate's", ".4f"), ("sigmas", "σ", "+.1f"),
    )  # fmt: skip
    layers += bars(rows, names, palette, x, tips)
    by_construction = [row for row in rows if row["construction"]]
    if by_construction:
        layers.append(
            {"data": {"values": by_construction}, "mark": {"type": "text", "style": "said", "text": "by construction"},
             "encoding": {"x": x, "y": rows_of(names)}}
        )  # fmt: skip
    alt = f"MIRA, {e:.4f} for a perfect candidate: " + "; ".join(f"{r['candidate']} {r['value']:.4f}" for r in rows)
    return Chart(drawing([], layers, 30 * len(names) + 20), alt)


def scores(rows: Rows, palette: Palette, what: str, expected: float | None = None) -> Chart:
    r"""Draws scores with their intervals. Wide intervals leave the frame: they must not press the scores together.

    Arguments:
        rows: `candidate`, `value`, `low`, `high`.
        palette: The colors.
        what: What the score is called.
        expected: The score of a perfect candidate, if it has one.
    """

    names = [row["candidate"] for row in rows]
    values = [row["value"] for row in rows] + ([] if expected is None else [expected])
    x = across("value", f"{what}, 95 % interval")
    inner = room(values, 0.3)
    ends = [row[key] for row in rows for key in ("low", "high") if row[key] is not None]
    x["scale"]["domain"] = room([min(max(end, inner[0]), inner[1]) for end in [*ends, *values]], 0.04)
    tips = tips_of(
        ("candidate", "candidate"), ("value", what, ".4f"), ("low", "from", ".4f"), ("high", "to", ".4f")
    )  # fmt: skip
    layers = bars(rows, names, palette, x, tips)
    layers[0]["mark"] |= {"clip": True}
    if expected is not None:
        encoding = {"x": {"field": "at", "type": "quantitative"}}
        layers.append(
            {"data": {"values": [{"at": expected}]}, "mark": {"type": "rule", "style": "zero"}, "encoding": encoding}
        )
    alt = f"{what}: " + "; ".join(f"{row['candidate']} {row['value']:.4f}" for row in rows)
    return Chart(drawing([], layers, 30 * len(names) + 20), alt, what)


def zmap(features: Sequence[str], candidates: Sequence[str], z: Sequence[Sequence[float | None]]) -> Chart:
    r"""Draws the deviations of features: a row each, a column per candidate."""

    rows: Rows = [
        {"feature": feature, "candidate": name, "z": value, "said": f"{value:+.{int(abs(value) < 9.95)}f}"}
        for feature, own in zip(features, z, strict=True)
        for name, value in zip(candidates, own, strict=True)
        if value is not None
    ]
    x = {"field": "candidate", "type": "nominal", "sort": list(candidates), "scale": {"domain": list(candidates)},
         "axis": HEADS}  # fmt: skip
    y = {"field": "feature", "type": "nominal", "sort": list(features), "scale": {"domain": list(features)},
         "axis": {"title": None, "labelLimit": 190, "domain": False, "ticks": False}}  # fmt: skip
    color = {"field": "z", "type": "quantitative", "scale": DIVERGING, "legend": None}
    tips = tips_of(("feature", "feature"), ("candidate", "candidate"), ("z", "z", "+.2f"))
    shared = {"x": x, "y": y}
    layers = [
        {"mark": {"type": "rect", "style": "cell"}, "encoding": {**shared, "color": color, "tooltip": tips}},
        {"mark": {"type": "text", "style": "number"},
         "encoding": {**shared, "text": {"field": "said", "type": "nominal"}}},
    ]  # fmt: skip
    alt = f"Map of z, {len(features)} features by {len(candidates)} candidates; the table below has the numbers"
    least = FEATURE + CELL * len(candidates)
    return Chart(drawing(rows, layers, 22 * len(features)) | {"padding": SLANTED}, alt, least=least)


def coverage(curves: Mapping[str, Mapping[str, Any]], palette: Palette) -> Chart:
    r"""Draws coverage minus level against the level, with bands."""

    rows: Rows = [
        {"candidate": name, "level": level, "value": value, "low": low, "high": high}
        for name, own in curves.items()
        for level, value, low, high in zip(
            own["levels"], own["difference"], own["lower"], own["upper"], strict=True
        )
    ]  # fmt: skip
    x = across("level", "credibility level")
    y = {"field": "value", "type": "quantitative", "axis": {"title": "coverage minus level", "tickCount": 5}}
    color, names = palette.color(list(curves)), list(curves)
    tips = tips_of(("candidate", "candidate"), ("level", "level", ".2f"), ("value", "coverage minus level", "+.3f"))
    layers = [
        {"mark": {"type": "area", "style": "around"},
         "encoding": {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}, "color": color}},
        {"mark": {"type": "line", "style": "line"},
         "encoding": {"x": x, "y": y, "color": color, "strokeDash": palette.stroke(names)}},
        {"mark": HOVER, "encoding": {"x": x, "y": y, "color": color, "tooltip": tips}},
        _level(0.0),
    ]  # fmt: skip
    alt = "TARP, coverage minus level: " + "; ".join(
        f"{name} {min(own['difference']):+.3f} to {max(own['difference']):+.3f}" for name, own in curves.items()
    )
    return Chart(drawing(rows, layers, 280), alt)


def _level(at: float) -> Spec:
    encoding = {"y": {"field": "at", "type": "quantitative"}}
    return {"data": {"values": [{"at": at}]}, "mark": {"type": "rule", "style": "zero"}, "encoding": encoding}


def ecdf(parameter: str, curves: Mapping[str, Mapping[str, Any]], palette: Palette) -> Chart:
    r"""Draws the distribution functions of one parameter's ranks minus the uniform one, with the band of SBC."""

    own = {name: one for name, one in curves.items() if parameter in one["difference"]}
    rows: Rows = [
        {"candidate": name, "level": level, "value": value}
        for name, one in own.items()
        for level, value in zip(one["levels"], one["difference"][parameter], strict=True)
    ]
    x = across("level", "rank / (S + 1)")
    y = {"field": "value", "type": "quantitative", "axis": {"title": "ECDF minus uniform", "tickCount": 4}}
    color = palette.color(list(own))
    tips = tips_of(("candidate", "candidate"), ("level", "rank / (S + 1)", ".2f"), ("value", "difference", "+.3f"))
    layers: list[Spec] = []
    first = next(iter(own.values()))
    if first["band"] is not None:
        band = [
            {"level": level, "low": low, "high": high}
            for level, low, high in zip(first["levels"], *first["band"], strict=True)
        ]
        layers.append(
            {"data": {"values": band}, "mark": {"type": "area", "style": "exact"},
             "encoding": {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}}}
        )  # fmt: skip
    layers += [
        {"mark": {"type": "line", "style": "line"},
         "encoding": {"x": x, "y": y, "color": color, "strokeDash": palette.stroke(list(own))}},
        {"mark": HOVER, "encoding": {"x": x, "y": y, "color": color, "tooltip": tips}},
        _level(0.0),
    ]  # fmt: skip
    alt = f"SBC of {parameter}, largest difference: " + "; ".join(
        f"{name} {max(one['difference'][parameter], key=abs):+.3f}" for name, one in own.items()
    )
    return Chart(drawing(rows, layers, 170), alt, parameter)


def rank_trend(candidate: str, told: Mapping[str, Any], palette: Palette) -> Chart:
    r"""Draws the rank of the truth against the posterior mean, for the parameter that is most to blame."""

    mean, rank = np.asarray(told["mean"], float), np.asarray(told["rank"], float)
    rows: Rows = [
        {"candidate": candidate, "mean": m, "rank": r, "fiducial": f}
        for m, r, f in zip(told["mean"], told["rank"], told["fiducial"], strict=True)
    ]
    parts = np.array_split(np.argsort(mean, kind="stable"), max(1, min(BINS, len(mean) // 8)))
    bins: Rows = []
    for part in parts:
        spread = math.sqrt(1 / 12 / len(part))
        bins.append(
            {"candidate": candidate, "mean": float(mean[part].mean()), "rank": float(rank[part].mean()),
             "low": 0.5 - 2 * spread, "high": 0.5 + 2 * spread, "count": len(part)}
        )  # fmt: skip
    x = across("mean", f"posterior mean of {told['parameter']}")
    y = {"field": "rank", "type": "quantitative", "scale": {"domain": [0, 1]},
         "axis": {"title": "rank of the truth", "tickCount": 5}}  # fmt: skip
    color = palette.color([candidate])
    one = tips_of(("fiducial", "fiducial"), ("mean", "posterior mean", ".4g"), ("rank", "rank", ".3f"))
    many = tips_of(("count", "fiducials"), ("mean", "posterior mean", ".4g"), ("rank", "mean rank", ".3f"))
    layers = [
        {"data": {"values": bins}, "mark": {"type": "area", "style": "exact"},
         "encoding": {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}}},
        {"mark": {"type": "point", "style": "many"}, "encoding": {"x": x, "y": y, "color": color, "tooltip": one}},
        {"data": {"values": bins}, "mark": {"type": "line", "style": "mean"}, "encoding": {"x": x, "y": y}},
        {"data": {"values": bins}, "mark": {"type": "point", "style": "bin"},
         "encoding": {"x": x, "y": y, "tooltip": many}},
    ]  # fmt: skip
    alt = f"{candidate}: rank of the truth against the posterior mean of {told['parameter']}; means of bins from " + (
        f"{min(one['rank'] for one in bins):.2f} to {max(one['rank'] for one in bins):.2f}, 0.5 if it were right"
    )
    return Chart(drawing(rows, layers, 220), alt, f"{candidate}: {told['parameter']}", pick="fiducial")


def fiducials(rows: Rows, palette: Palette, names: Sequence[str], what: str) -> Chart:
    r"""Draws the score of each fiducial; a click on one shows it.

    Arguments:
        rows: `candidate`, `fiducial`, `value`.
        palette: The colors.
        names: The candidates that are shown.
        what: What the score is called.
    """

    x = across("fiducial", "fiducial")
    y = {"field": "value", "type": "quantitative", "axis": {"title": what, "tickCount": 5}, "scale": {"zero": False}}
    tips = tips_of(("candidate", "candidate"), ("fiducial", "fiducial"), ("value", what, ".4g"))
    mark = {"type": "point", "style": "many", "cursor": "pointer"}
    layers = [{"mark": mark, "encoding": {"x": x, "y": y, "color": palette.color(names), "tooltip": tips}}]
    return Chart(
        drawing(rows, layers, 260), f"{what} of every fiducial; the table below has the worst", pick="fiducial"
    )


def matrix(pairs: Mapping[str, Any]) -> Chart:
    r"""Draws how all pairs compare: by how many standard errors the row is worse than the column, and the p-value."""

    names = pairs["candidates"]
    rows: Rows = []
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            d, error, p = (pairs[key][i][j] for key in ("difference", "stderr", "pvalue"))
            if i != j and d is not None and error:
                seen = "" if p is None else "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0")
                rows.append(
                    {"row": a, "column": b, "difference": d, "error": error, "t": d / error, "p": p, "said": seen}
                )
    x = {"field": "column", "type": "nominal", "sort": names, "scale": {"domain": names},
         "axis": HEADS}  # fmt: skip
    y = {"field": "row", "type": "nominal", "sort": names, "scale": {"domain": names},
         "axis": {"title": None, "labelLimit": 150, "domain": False, "ticks": False}}  # fmt: skip
    tips = tips_of(
        ("row", "row"), ("column", "column"), ("difference", "row minus column", "+.4g"),
        ("error", "± standard error", ".2g"), ("p", "p, for all pairs together", ".3g"),
    )  # fmt: skip
    color = {"field": "t", "type": "quantitative", "scale": DIVERGING, "legend": None}
    layers = [
        {"mark": {"type": "rect", "style": "cell"}, "encoding": {"x": x, "y": y, "color": color, "tooltip": tips}},
        {"mark": {"type": "text", "style": "number"},
         "encoding": {"x": x, "y": y, "text": {"field": "said", "type": "nominal"}}},
    ]  # fmt: skip
    return Chart(
        drawing(rows, layers, 30 * len(names)) | {"padding": SLANTED},
        f"Comparison of all pairs of {len(names)} candidates",
        least=FEATURE + CELL * len(names),
    )


def training(candidate: str, curves: Mapping[str, Mapping[str, Any]]) -> Chart:
    r"""Draws the curves of one training over its epochs."""

    rows: Rows = [
        {"curve": key.replace("_", " "), "epoch": epoch, "value": value}
        for key, own in curves.items()
        for epoch, value in zip(own["epochs"], own["values"], strict=True)
        if value is not None
    ]
    names = [key.replace("_", " ") for key in curves]
    positive = all(row["value"] > 0 for row in rows)
    scale = {"domain": names, "range": [f"c{i % HUES}" for i in range(len(names))]}
    color = {"field": "curve", "type": "nominal", "scale": scale, "legend": {"title": None, "orient": "top"}}
    x = across("epoch", "epoch")
    y = {"field": "value", "type": "quantitative", "axis": {"title": None, "tickCount": 5},
         "scale": {"zero": False, "type": "log" if positive else "linear"}}  # fmt: skip
    tips = tips_of(("curve", "curve"), ("epoch", "epoch", ".4g"), ("value", "value", ".4g"))
    layers = [
        {"mark": {"type": "line", "style": "line"}, "encoding": {"x": x, "y": y, "color": color}},
        {"mark": HOVER, "encoding": {"x": x, "y": y, "color": color, "tooltip": tips}},
    ]
    ends = "; ".join(f"{key} ends at {own['values'][-1]}" for key, own in curves.items() if own["values"])
    return Chart(drawing(rows, layers, 190), f"Training of {candidate}: {ends}", candidate)


def strip(what: str, rows: Rows, palette: Palette, names: Sequence[str], limit: float | None = None) -> Chart:
    r"""Draws a diagnostic of every posterior: a row of points per candidate, and the limit if there is one.

    Arguments:
        what: The name of the diagnostic.
        rows: `candidate`, `fiducial`, `value`.
        palette: The colors.
        names: The candidates that are shown.
        limit: What should not be exceeded.
    """

    x = across("value", what)
    x["scale"]["domain"] = room([limit, *(row["value"] for row in rows)])
    y = rows_of(names)
    tips = tips_of(("candidate", "candidate"), ("fiducial", "fiducial"), ("value", what, ".4g"))
    layers: list[Spec] = [
        {"mark": {"type": "tick", "style": "one"},
         "encoding": {"x": x, "y": y, "color": palette.color(names), "tooltip": tips}},
    ]  # fmt: skip
    if limit is not None:
        encoding = {"x": {"field": "at", "type": "quantitative"}}
        layers.append(
            {"data": {"values": [{"at": limit}]}, "mark": {"type": "rule", "style": "zero"}, "encoding": encoding}
        )
    worst = {name: max(row["value"] for row in rows if row["candidate"] == name) for name in names}
    alt = f"{what}, the largest of each: " + "; ".join(f"{name} {value:.4g}" for name, value in worst.items())
    return Chart(drawing(rows, layers, 28 * len(names)), alt, what, pick="fiducial")
