r"""Figures in the paper's look, drawn without any global state of matplotlib."""

__all__ = [
    "STYLES", "as_they_are", "convergence", "drawn_in", "in_legend", "notebooks_show_figures", "overview",
    "power_figure", "save", "sbc_histograms",
]  # fmt: skip

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import ScalarFormatter
from matplotlib.transforms import ScaledTranslation

from ..ranking.verdicts import objections
from .outputs import MARK

if TYPE_CHECKING:
    from ..ranking.tiers import Standing
    from ..result import Result

# Okabe & Ito's palette: distinct for color-blind readers too.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C510A", "#000000"]
QUIET = "#777777"
BAD = "#B00020"  # what failed
LINES = {"oracle": "--", "control": ":"}
# The look of figures: in a paper the fonts of journals, at the size that they have in a column.
PAPER: dict[Any, Any] = {
    "figure.figsize": (3.35, 3.35), "font.family": "STIXGeneral", "mathtext.fontset": "stix", "font.size": 8,
    "legend.fontsize": 7, "axes.titlesize": 9, "axes.linewidth": 0.6, "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}  # fmt: skip
STYLES: dict[str, dict[Any, Any]] = {"paper": PAPER, "screen": {"figure.figsize": (5.6, 5.6), "font.size": 9}}
SHARP = 300  # dots per inch of a figure that is small
PANELS = 6  # dimensions side by side; more are too small to read


def save(figure: Figure, stem: Path) -> None:
    r"""Writes a figure as png and pdf, with our name in it: see `mira_bench.report.outputs`."""

    stem.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(f"{stem}.png", dpi=max(150, figure.dpi), metadata={"Software": MARK})
    figure.set_layout_engine("none")  # everything has its place now, and to find it takes as long as to draw
    # Without a date the same result gives the same bytes.
    figure.savefig(f"{stem}.pdf", metadata={"Creator": MARK, "CreationDate": None})


def _colors(standings: "list[Standing]") -> dict[str, str]:
    ranked = [s.name for s in standings if s.role == "candidate"]
    colors = {name: COLORS[i % len(COLORS)] for i, name in enumerate(ranked)}
    return {s.name: colors.get(s.name, QUIET) for s in standings}


def notebooks_show_figures() -> None:
    r"""Has a notebook show figures that are the value of a cell: it does so by itself only after a call of pyplot."""

    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return
    from IPython.core.pylabtools import select_figure_formats

    formats = shell.display_formatter.formatters
    if not any(Figure in formats[kind].type_printers for kind in ("image/png", "image/svg+xml", "application/pdf")):
        select_figure_formats(shell, {"png"})  # type: ignore[no-untyped-call]


def drawn_in(style: str) -> Any:
    r"""Returns the context in which a figure has a style: `"paper"`, a column of a journal, or `"screen"`."""

    return matplotlib.rc_context(STYLES[style])


def _ranked(result: "Result") -> "list[Standing]":
    r"""Everybody in the order of the ranking, controls last."""
    place = {name: i for i, name in enumerate(result.ranking["candidate"])}
    return sorted(result.standings, key=lambda s: place[s.name])


def overview(result: "Result") -> Figure:
    r"""Draws the MIRA scores with their null band above, TARP's expected coverage minus its level below.

    Candidates stand in the order of the ranking, a row each, those that failed with their reason.
    """

    standings = _ranked(result)
    colors = _colors(standings)
    covered = [s for s in standings if s.failure is None and "tarp" in s.scores]
    shown = [s for s in standings if s.mira is not None or s.failure is not None]
    width = matplotlib.rcParams["figure.figsize"][0]
    heights = [0.5 + 0.2 * len(shown)] + ([1.0 + 0.3 * width] if covered else [])
    size = (width + _beyond(shown, 16), sum(heights) + 0.9 + 0.14 * len(covered) / _columns_of_names(covered))
    figure = Figure(figsize=size, layout="constrained", dpi=SHARP)
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    _scores(panels[0], shown, colors)
    if covered:
        _coverage(panels[1], covered, colors)
    panels[0].set_title(result.task, parse_math=False)
    return figure


def _mark(standing: "Standing") -> str:
    r"""The tier behind a candidate's name, with a mark if there are objections."""
    if standing.role != "candidate" or standing.failure is not None or standing.tier == "-":
        return ""
    return f" ({standing.tier}{'!' if standing.tier == 'A' and objections(standing) else ''})"


def _scores(axes: Axes, shown: "list[Standing]", colors: dict[str, str]) -> None:
    scored = [s.mira for s in shown if s.mira is not None]
    if not scored:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "MIRA was not computed", ha="center", transform=axes.transAxes)
        return
    null, e = scored[0], scored[0].expected
    axes.axvspan(e - null.paper_band, e + null.paper_band, color="#E2E2E2", lw=0, label="paper's band")
    if not np.isnan(null.null_stderr):
        label = "exact null, ± 1 σ"
        axes.axvspan(e - null.null_stderr, e + null.null_stderr, color="#AAAAAA", lw=0, label=label)
    axes.axvline(e, color="black", ls="--", lw=0.8, label=f"perfect candidate, {e:.4f}")
    for i, s in enumerate(shown):
        if s.mira is None:
            why = f"failed: {textwrap.shorten(s.failure or '', 44, placeholder=' ...')}"
            axes.text(0.02, i, why, transform=axes.get_yaxis_transform(), va="center", fontsize="small", color=BAD)
            continue
        if s.mira.samples != null.samples:
            axes.vlines(s.mira.expected, i - 0.35, i + 0.35, color="black", ls="--", lw=0.8)
        marker = "o" if s.role == "candidate" else "D"
        axes.errorbar(
            s.mira.score, i, xerr=s.mira.stderr, fmt=marker, color=colors[s.name], capsize=2, ms=4, lw=1.2, zorder=3
        )
        if s.by_construction:
            axes.annotate(
                "by construction", (s.mira.score, i), (6, 0), textcoords="offset points", va="center", fontsize="small"
            )
    axes.set_yticks(range(len(shown)), [f"{s.name}{_mark(s)}" for s in shown], parse_math=False)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    ends = [mira.score + side * mira.stderr for mira in scored for side in (-1, 1) if not np.isnan(mira.stderr)]
    ends += [mira.score for mira in scored] + [e - null.paper_band, e + null.paper_band]
    margin = 0.04 * (max(ends) - min(ends))
    axes.set_xlim(min(ends) - margin, max(ends) + margin)
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel("MIRA score")
    _legend_below(axes, 2)


def _beyond(standings: "list[Standing]", room: int) -> float:
    r"""The inches that the longest name needs beyond a room of so many characters."""
    return 0.07 * max(0, max((len(s.name) for s in standings), default=0) - room)


def _columns_of_names(standings: "list[Standing]") -> int:
    return 2 if max((len(s.name) for s in standings), default=0) < 20 else 1


def _legend_below(axes: Axes, columns: int) -> None:
    r"""Puts the legend below the axes and their label, where it hides nothing."""
    below = axes.transAxes + ScaledTranslation(0, -30 / 72, axes.figure.dpi_scale_trans)
    legend = axes.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below, frameon=False, ncols=columns,
        borderaxespad=0, columnspacing=1.2,
    )  # fmt: skip
    as_they_are(legend)


def in_legend(name: str) -> str:
    r"""A name as the label of a curve: legends leave out those that begin with an underscore."""
    return f" {name}" if name.startswith("_") else name


def as_they_are(legend: Legend) -> None:
    r"""Shows the names in a legend as they are, and not as formulas."""
    for text in legend.get_texts():
        text.set_parse_math(False)


def _coverage(axes: Axes, standings: "list[Standing]", colors: dict[str, str]) -> None:
    axes.axhline(0, color="black", ls="--", lw=0.8)
    for s in (s for s in standings if s.scores["tarp"].result is not None):
        tarp = s.scores["tarp"].result
        style = LINES.get(s.role, "-")
        axes.plot(
            tarp.levels, tarp.coverage - tarp.expected, style, color=colors[s.name], lw=1.2, label=in_legend(s.name)
        )
        low, high = (edge - tarp.expected for edge in (tarp.lower, tarp.upper))
        axes.fill_between(tarp.levels, low, high, color=colors[s.name], alpha=0.2, lw=0)
    axes.fill_between([], [], [], color=QUIET, alpha=0.3, lw=0, label="95 % of resampled fiducials")
    axes.set(xlim=(0, 1), xlabel="credibility level", ylabel="coverage minus level (TARP)")
    axes.locator_params(axis="y", nbins=6)
    _legend_below(axes, _columns_of_names(standings))


def convergence(result: "Result") -> Figure:
    r"""Draws the R-hat and the effective sample sizes of every posterior, a column of points per candidate."""

    shown = [(s.name, c) for s in _ranked(result) if (c := s.convergence) is not None and c.of_chains]
    colors = _colors(_ranked(result))
    panels = [
        (keys, label)
        for keys, label in ((["rhat"], "R-hat"), (["ess_bulk", "ess_tail"], "effective sample size"))
        if any(key in c.values for _, c in shown for key in keys)
    ]
    width = matplotlib.rcParams["figure.figsize"][0]
    size = (max(width, 0.6 * len(shown) + 0.6), 0.5 + 0.55 * width * len(panels))  # many candidates need more
    figure = Figure(figsize=size, layout="constrained", dpi=SHARP)
    FigureCanvasAgg(figure)
    for axes, (keys, label) in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        for i, (name, told) in enumerate(shown):
            for k, key in enumerate(k for k in keys if k in told.values):
                values = told.values[key]
                # Spread by the order of fiducials, which is random: no noise of our own.
                width = 0.7 / len(keys)
                at = i - 0.35 + width * (k + (np.arange(len(values)) + 0.5) / len(values))
                axes.plot(at, values, "os"[k], color=colors[name], ms=2, alpha=0.6, mfc="none" if k else colors[name])
        if keys == ["rhat"]:
            limit = shown[0][1].limit
            axes.axhline(limit, color="black", ls="--", lw=0.8)
            above = [f"{len(told.missed)} of {len(told.values['rhat'])}\nabove {limit:g}" for _, told in shown]
            labels = [f"{name}\n{count}" for (name, _), count in zip(shown, above, strict=True)]
            axes.set_xticks(range(len(shown)), labels, parse_math=False)
        else:
            axes.plot([], [], "o", color=QUIET, ms=4, label="bulk")
            axes.plot([], [], "s", color=QUIET, ms=4, mfc="none", label="tail")
            axes.legend(frameon=False)
            axes.set_xticks(range(len(shown)), [name for name, _ in shown], parse_math=False)
        low, high = axes.get_ylim()
        if high > 4 * low:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.set_ylabel(f"{label}, worst parameter")
        axes.set_xlim(-0.5, len(shown) - 0.5)
    figure.suptitle(f"{result.task}: convergence, a point per posterior", fontsize="large", parse_math=False)
    return figure


def sbc_histograms(result: "Result") -> Figure:
    r"""Draws the rank histograms of SBC: a row per candidate, a column per dimension.

    If there are more dimensions than columns, those with the smallest p-values of all candidates are shown.
    """

    standings = [s for s in _ranked(result) if s.failure is None]
    colors = _colors(standings)
    shown = [(s, s.scores["sbc"].result) for s in standings if "sbc" in s.scores and s.scores["sbc"].result is not None]
    labels = shown[0][1].labels(result.names)
    columns = _columns([sbc.pvalues for _, sbc in shown])
    unit = matplotlib.rcParams["figure.figsize"][0] / 3.35
    wide = unit * max(3.35, 0.9 + 1.0 * len(columns)) + _beyond([s for s, _ in shown], 12)
    size = (wide, unit * (0.7 + 0.68 * len(shown)))
    figure = Figure(figsize=size, layout="constrained", dpi=SHARP)
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(shown), len(columns), squeeze=False, sharex=True, sharey="row")
    for row, (standing, sbc) in zip(grid, shown, strict=True):
        histogram = sbc.histogram(simultaneous=True)
        # The ranks of a bin that holds one rank more are no more likely for that: heights are relative.
        edges = histogram.edges / (sbc.samples + 1)
        band = np.stack([histogram.lower, histogram.upper]) / histogram.expected
        heights = histogram.counts / histogram.expected[:, None]
        for axes, column in zip(row, columns, strict=True):
            axes.stairs(band[1], edges, baseline=band[0], fill=True, color="#CCCCCC", lw=0)
            axes.axhline(1, color="black", ls="--", lw=0.8)
            axes.stairs(heights[:, column], edges, color=colors[standing.name], lw=1.2)
            axes.set(xlim=(0, 1), xticks=[0, 0.5, 1], xticklabels=["0", "0.5", "1"])
            p = sbc.pvalues[column]
            said = f"p = {p:.3f}" if p >= 0.001 else f"p = {p:.0e}"
            axes.text(0.5, 0.96, said, ha="center", va="top", fontsize="x-small", transform=axes.transAxes)
        row[0].set_ylim(0, 1.25 * max(band.max(), heights[:, columns].max()))  # room for the p-value
        row[0].set_ylabel(standing.name, fontsize="medium", rotation=0, ha="right", va="center", parse_math=False)
    for axes, column in zip(grid[0], columns, strict=True):
        axes.set_title(labels[column], fontsize="medium", parse_math=False)
    some = f" (the {len(columns)} with the smallest p of {len(labels)})" if len(columns) < len(labels) else ""
    figure.suptitle(f"{result.task}: SBC ranks{some}", fontsize="large", parse_math=False)
    figure.supxlabel(
        "rank / (S + 1)\nfrequency relative to a perfect candidate, 95 % band of a panel", fontsize="small"
    )
    return figure


def _columns(pvalues: list[np.ndarray]) -> list[int]:
    smallest = np.min(pvalues, axis=0)
    return sorted(np.argsort(smallest, kind="stable")[:PANELS].tolist())


def power_figure(table: pd.DataFrame, level: float) -> Figure:
    r"""Draws how often each metric rejects each candidate, over the number of fiducials: one panel a candidate."""

    candidates, metrics = list(table["candidate"].unique()), list(table["metric"].unique())
    columns = min(3, len(candidates))
    rows = -(-len(candidates) // columns)
    figure = Figure(figsize=(3.4 * columns + 1.6, 2.9 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for panel, candidate in zip(panels, candidates, strict=False):
        panel.axhline(level, color="gray", ls=":", lw=1)
        for i, metric in enumerate(metrics):
            part = table[(table["candidate"] == candidate) & (table["metric"] == metric)]
            panel.errorbar(
                part["fiducials"], part["share"], part["stderr"], marker="os^vD*P"[i % 7], ms=4, lw=1.3, capsize=2,
                color=COLORS[i % len(COLORS)], label=metric,
            )  # fmt: skip
        panel.set_title(candidate, parse_math=False)
        panel.set_xscale("log", base=2)
        panel.set_xticks(sorted(table["fiducials"].unique()), [str(f) for f in sorted(table["fiducials"].unique())])
    for panel in panels[len(candidates) :]:
        panel.set_axis_off()
    figure.supxlabel("fiducials L")
    figure.supylabel(f"share of rejections at {level:.0%}")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure
