r"""Figures in the paper's look, drawn without any global state of matplotlib."""

__all__ = ["convergence", "overview", "power_figure", "save", "sbc_histograms"]

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from ..ranking.verdicts import objections
from .outputs import MARK

if TYPE_CHECKING:
    from ..ranking.tiers import Standing
    from ..result import Result

# Okabe & Ito's palette: distinct for color-blind readers too.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C510A", "#000000"]
QUIET = "#777777"
BAD = "#B00020"  # what failed
STYLES = {"oracle": "--", "control": ":"}
PANELS = 6  # dimensions side by side; more are too small to read


def save(figure: Figure, stem: Path) -> None:
    r"""Writes a figure as png and pdf, with our name in it: see `mira_bench.report.outputs`."""

    stem.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(f"{stem}.png", dpi=150, metadata={"Software": MARK})
    figure.set_layout_engine("none")  # everything has its place now, and to find it takes as long as to draw
    # Without a date the same result gives the same bytes.
    figure.savefig(f"{stem}.pdf", metadata={"Creator": MARK, "CreationDate": None})


def _colors(standings: "list[Standing]") -> dict[str, str]:
    ranked = [s.name for s in standings if s.role == "candidate"]
    colors = {name: COLORS[i % len(COLORS)] for i, name in enumerate(ranked)}
    return {s.name: colors.get(s.name, QUIET) for s in standings}


def overview(result: "Result") -> Figure:
    r"""Draws the MIRA scores with their null band above, TARP's expected coverage below.

    Candidates stand in the order of the ranking, those that failed with their reason.
    """

    everyone = [s for s in result.standings if s.failure is None]
    colors = _colors(everyone)  # the same as in the other figures
    place = {name: i for i, name in enumerate(result.ranking["candidate"])}
    failed = [s for s in result.standings if s.failure is not None]
    standings = sorted([*everyone, *failed], key=lambda s: place[s.name])
    names = [s.name for s in standings]
    wide = max(6.0, 1.5 + sum(0.3 + 0.075 * max(map(len, names), default=0) for _ in names))
    covered = any("tarp" in s.scores for s in standings)
    figure = Figure(figsize=(wide, 6.6 if covered else 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2 if covered else 1, 1, squeeze=False)[:, 0]
    _scores(panels[0], standings, colors, columns=4 if wide > 8 else 2)
    if covered:
        _coverage(panels[1], [s for s in standings if s.failure is None], colors)
    panels[0].set_title(result.task)
    return figure


def _mark(standing: "Standing") -> str:
    r"""The tier under a candidate's name, with a mark if there are objections."""
    if standing.role != "candidate" or standing.failure is not None or standing.tier == "-":
        return ""
    return f"\ntier {standing.tier}{'!' if standing.tier == 'A' and objections(standing) else ''}"


def _scores(axes: Axes, standings: "list[Standing]", colors: dict[str, str], columns: int) -> None:
    scored = [s for s in standings if s.mira is not None]
    if not scored:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "MIRA was not computed", ha="center", transform=axes.transAxes)
        return
    null = next(s.mira for s in scored if s.mira is not None)
    e = null.expected
    axes.axhspan(e - null.paper_band, e + null.paper_band, color="#DDDDDD", lw=0, label=r"paper's band")
    if not np.isnan(null.null_stderr):
        label = "exact null, ± 1 σ"
        axes.axhspan(e - null.null_stderr, e + null.null_stderr, color="#AAAAAA", lw=0, label=label)
    axes.axhline(e, color="black", ls="--", lw=1, label=f"perfect candidate, {e:.4f}")
    axes.axhline(0.5, color="gray", ls="--", lw=1, label="lower bound, 1/2")
    shown = [s for s in standings if s.mira is not None or s.failure is not None]
    for i, s in enumerate(shown):
        if s.mira is None:
            why = textwrap.fill(f"failed: {textwrap.shorten(s.failure or '', 60, placeholder=' ...')}", 24)
            axes.text(
                i, 0.97, why, transform=axes.get_xaxis_transform(), rotation=90, ha="center", va="top", fontsize=7,
                color=BAD, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )  # fmt: skip
            continue
        marker = "o" if s.role == "candidate" else "D"
        if s.mira.samples != null.samples:
            axes.hlines(s.mira.expected, i - 0.3, i + 0.3, color="black", ls="--", lw=1)
        axes.errorbar(i, s.mira.score, s.mira.stderr, fmt=marker, color=colors[s.name], capsize=4, ms=6, zorder=3)
    axes.set_xticks(range(len(shown)), [f"{s.name}{_mark(s)}" for s in shown])
    axes.set_xlim(-0.5, len(shown) - 0.5)
    low = min(0.5, *(s.mira.score for s in scored if s.mira))
    high = max(e, *(s.mira.score for s in scored if s.mira))
    axes.set_ylim(low - (0.045 if columns == 4 else 0.07), max(high + 0.03, e + 1.3 * null.paper_band))
    axes.set_ylabel("MIRA score")
    axes.legend(loc="lower right", fontsize=8, frameon=False, ncols=columns)


def _coverage(axes: Axes, standings: "list[Standing]", colors: dict[str, str]) -> None:
    axes.plot([0, 1], [0, 1], color="black", ls="--", lw=1)
    for s in standings:
        if "tarp" in s.scores and s.scores["tarp"].result is not None:
            tarp = s.scores["tarp"].result
            style = STYLES.get(s.role, "-")
            axes.plot(tarp.levels, tarp.coverage, style, color=colors[s.name], lw=1.5, label=s.name)
            low, high = tarp.coverage - tarp.stderr, tarp.coverage + tarp.stderr
            axes.fill_between(tarp.levels, low, high, color=colors[s.name], alpha=0.25, lw=0)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="credibility level", ylabel="expected coverage (TARP)")
    axes.set_xticks(np.linspace(0, 1, 6))
    if len(axes.lines) > 1:
        axes.legend(loc="upper left", fontsize=8, frameon=False)


def convergence(result: "Result") -> Figure:
    r"""Draws the R-hat and the effective sample sizes of every posterior, a column of points per candidate."""

    shown = [(s.name, c) for s in result.standings if (c := s.convergence) is not None and c.of_chains]
    colors = _colors(list(result.standings))
    panels = [
        (keys, label)
        for keys, label in ((["rhat"], "R-hat"), (["ess_bulk", "ess_tail"], "effective sample size"))
        if any(key in c.values for _, c in shown for key in keys)
    ]
    figure = Figure(figsize=(max(6.0, 1.5 + 1.1 * len(shown)), 1 + 2.7 * len(panels)), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (keys, label) in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        for i, (name, told) in enumerate(shown):
            for k, key in enumerate(k for k in keys if k in told.values):
                values = told.values[key]
                # Spread by the order of fiducials, which is random: no noise of our own.
                width = 0.7 / len(keys)
                at = i - 0.35 + width * (k + (np.arange(len(values)) + 0.5) / len(values))
                axes.plot(at, values, "os"[k], color=colors[name], ms=3, alpha=0.6, mfc="none" if k else colors[name])
        if keys == ["rhat"]:
            limit = shown[0][1].limit
            axes.axhline(limit, color="black", ls="--", lw=1)
            above = [f"{len(told.missed)} of {len(told.values['rhat'])}\nabove {limit:g}" for _, told in shown]
            labels = [f"{name}\n{count}" for (name, _), count in zip(shown, above, strict=True)]
            axes.set_xticks(range(len(shown)), labels)
        else:
            axes.plot([], [], "o", color=QUIET, ms=4, label="bulk")
            axes.plot([], [], "s", color=QUIET, ms=4, mfc="none", label="tail")
            axes.legend(fontsize=8, frameon=False)
            axes.set_xticks(range(len(shown)), [name for name, _ in shown])
        low, high = axes.get_ylim()
        if high > 4 * low:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.set_ylabel(f"{label}, worst parameter")
        axes.set_xlim(-0.5, len(shown) - 0.5)
    figure.suptitle(f"{result.task}: convergence, a point per posterior", fontsize=10)
    return figure


def sbc_histograms(result: "Result") -> Figure:
    r"""Draws the rank histograms of SBC: a row per candidate, a column per dimension.

    If there are more dimensions than columns, those with the smallest p-values of all candidates are shown.
    """

    standings = [s for s in result.standings if s.failure is None]
    colors = _colors(standings)
    shown = [(s, s.scores["sbc"].result) for s in standings if "sbc" in s.scores and s.scores["sbc"].result is not None]
    labels = shown[0][1].labels(result.names)
    columns = _columns([sbc.pvalues for _, sbc in shown])
    figure = Figure(figsize=(max(5.0, 1.6 + 1.9 * len(columns)), 1.0 + 1.35 * len(shown)), layout="constrained")
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
            axes.stairs(heights[:, column], edges, color=colors[standing.name], lw=1.5)
            axes.set(xlim=(0, 1), xticks=[0, 0.5, 1], xticklabels=["0", "0.5", "1"])
            axes.tick_params(labelsize=8)
            p = sbc.pvalues[column]
            said = f"p = {p:.3f}" if p >= 0.001 else f"p = {p:.0e}"
            axes.text(0.5, 0.96, said, ha="center", va="top", fontsize=7, transform=axes.transAxes)
        row[0].set_ylim(0, 1.25 * max(band.max(), heights[:, columns].max()))  # room for the p-value
        row[0].set_ylabel(standing.name, fontsize=9, rotation=0, ha="right", va="center")
    for axes, column in zip(grid[0], columns, strict=True):
        axes.set_title(labels[column], fontsize=9)
    some = f" (the {len(columns)} with the smallest p of {len(labels)})" if len(columns) < len(labels) else ""
    figure.suptitle(f"{result.task}: SBC ranks{some}", fontsize=10)
    figure.supxlabel("rank / (S + 1)\nfrequency relative to a perfect candidate, 95 % band of a panel", fontsize=8)
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
        panel.set_title(candidate)
        panel.set_xscale("log", base=2)
        panel.set_xticks(sorted(table["fiducials"].unique()), [str(f) for f in sorted(table["fiducials"].unique())])
    for panel in panels[len(candidates) :]:
        panel.set_axis_off()
    figure.supxlabel("fiducials L")
    figure.supylabel(f"share of rejections at {level:.0%}")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure
