r"""The figures of the paper, with the printed values beside ours."""

__all__ = ["comparison", "over_training"]

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from ..report.figures import COLORS, QUIET
from ..sweeps.study import Run

MARKERS = "os^vDPX"


def _reference_lines(axes: Axes, part: pd.DataFrame) -> None:
    r"""The expectation of a perfect candidate with the paper's band, and the lower bound."""
    expected = part["expected"].median()
    band = math.sqrt(1 / (18 * part["fiducials"].max()))
    axes.axhspan(expected - band, expected + band, color="#DDDDDD", lw=0, label="paper's band")
    axes.axhline(expected, color="black", ls="--", lw=1)
    axes.axhline(0.5, color="gray", ls="--", lw=1)


def _panel(axes: Axes, part: pd.DataFrame, x: str, series: str) -> None:
    ticks, names = list(part[x].unique()), list(part[series].unique())
    for i, name in enumerate(names):
        rows = part[part[series] == name]
        # Side by side, so that neither series nor the printed values hide each other.
        offset = 0.0 if len(names) == 1 else 0.5 * (i / (len(names) - 1) - 0.5)
        at = [ticks.index(tick) + offset for tick in rows[x]]
        color = COLORS[i % len(COLORS)]
        axes.errorbar(
            at, rows["ours"], rows["ours_error"], fmt=MARKERS[i % len(MARKERS)], color=color, ms=5, capsize=3, zorder=3,
            label=str(name),
        )  # fmt: skip
        printed = [a + 0.05 for a in at]
        axes.plot(printed, rows["paper"], "_", color=color, ms=11, mew=2, alpha=0.75)
    axes.set_xticks(range(len(ticks)), [str(tick) for tick in ticks])
    if max(map(len, map(str, ticks))) > 14:
        axes.tick_params(axis="x", labelrotation=30)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
    axes.set_xlim(-0.6, len(ticks) - 0.4)


def comparison(table: pd.DataFrame, look: Mapping[str, Any]) -> Figure:
    r"""Draws ours (markers with one standard error) and the printed values (bars), one panel per kind of number.

    The kind of a column is what is before the first comma of its name: variants of a number share a panel.

    Arguments:
        table: The table that `mira_bench.paper.compare.compare` returns.
        look: `x`, which of `rows` and `columns` is on the horizontal axis; `label` and `series`, what they are called;
            `title`; `without`, the kinds of columns that are not drawn.
    """

    x = "row" if look.get("x", "rows") == "rows" else "column"
    series = "column" if x == "row" else "row"
    scores = table[table["is_mira"]]
    kinds = table["column"].str.partition(", ")[0]
    hidden = look.get("without", ())
    others = [] if x == "column" else [kind for kind in kinds[~table["is_mira"]].unique() if kind not in hidden]
    panels = 1 + len(others)
    size = (max(6.5, 3.0 + 0.95 * scores[x].nunique()), 4.2) if panels == 1 else (3.0 * panels + 1.8, 3.4)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(1, panels, squeeze=False)[0]
    _reference_lines(grid[0], scores)
    _panel(grid[0], scores, x, series)
    grid[0].set_ylabel("MIRA score")
    for axes, name in zip(grid[1:], others, strict=True):
        part = table[(kinds == name) & ~table["is_mira"] & ~table["below"]]
        _panel(axes, part, x, series)
        axes.set_title(name, fontsize=10)
    for axes in grid:
        axes.set_xlabel(look.get("label", ""))
        if panels > 1:
            axes.tick_params(axis="x", labelsize=8)
    grid[0].plot([], [], "_", color=QUIET, ms=11, mew=2, label="printed")
    handles, labels = grid[0].get_legend_handles_labels()
    if scores[series].nunique() == 1:
        labels = ["ours ± standard error" if label == str(scores[series].iloc[0]) else label for label in labels]
    elif all(", " in str(name) for name in scores[series]):
        labels = [label.partition(", ")[2] or label for label in labels]
    figure.legend(
        handles, labels, title=look.get("series"), fontsize=8, frameon=False, loc="outside right center"
    )  # fmt: skip
    figure.suptitle(look.get("title", ""), fontsize=11)
    return figure


def over_training(table: pd.DataFrame, runs: Sequence[Run], paper: Mapping[str, Any]) -> Figure:
    r"""Draws MIRA over the epochs of several models, and below it TARP's coverage in the end.

    Arguments:
        table: The table that `mira_bench.paper.compare.compare` returns.
        runs: The runs of the study; the last one has the ends of the trainings.
        paper: The section `paper` of the experiment. A row that is a checkpoint says its `model` and its `epoch`, and
            `printed_epoch` if the printed value is of another one.
    """

    figure = Figure(figsize=(6.0, 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1)
    scores = table[table["is_mira"] & (table["column"] == table["column"].iloc[0])].set_index("row")
    _reference_lines(above, scores)
    models: dict[str, list[str]] = {}
    for row, told in paper["rows"].items():
        if "model" in told:
            models.setdefault(told["model"], []).append(row)
    colors = dict(zip(models, COLORS, strict=False))
    for model, rows in models.items():
        part, at = scores.loc[rows], [paper["rows"][row]["epoch"] for row in rows]
        above.errorbar(
            at, part["ours"], part["ours_error"], fmt="o-", color=colors[model], ms=5, capsize=3, label=model
        )
        theirs = [paper["rows"][row].get("printed_epoch", epoch) for row, epoch in zip(rows, at, strict=True)]
        above.plot(theirs, part["paper"], "_", color=colors[model], ms=11, mew=2, alpha=0.75)
    above.plot([], [], "_", color=QUIET, ms=11, mew=2, label="printed")
    above.set(xscale="log", xlabel="epoch", ylabel="MIRA score")
    above.xaxis.set_major_formatter(ScalarFormatter())
    above.legend(fontsize=8, frameon=False)
    below.plot([0, 1], [0, 1], color="black", ls="--", lw=1)
    for i, (name, (levels, coverage, stderr)) in enumerate(runs[-1].coverage.items()):
        rows = [row for row in scores.index[scores["candidate"] == name] if "model" in paper["rows"].get(row, {})]
        model = paper["rows"][rows[0]]["model"] if rows else name
        color = colors.get(model, QUIET if i == 0 else COLORS[-1 - i])
        below.plot(levels, coverage, "-" if model in colors else "--", color=color, lw=1.5, label=model)
        below.fill_between(levels, coverage - stderr, coverage + stderr, color=color, alpha=0.25, lw=0)
    below.set(xlim=(0, 1), ylim=(0, 1), xlabel="credibility level", ylabel="expected coverage (TARP)")
    below.legend(fontsize=8, frameon=False)
    figure.suptitle(paper["title"], fontsize=11)
    return figure
