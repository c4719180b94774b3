r"""The figure of leaderboards: who is where, how sure that is, and what is not there."""

__all__ = ["leaderboard_figure"]

import textwrap
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..report.figures import BAD, COLORS, QUIET
from .leaderboard import CONFIDENCE, FEW, MARK, few_seeds

LONGEST = 62  # characters of a reason that fit into a panel
SCORES = {"mira": "MIRA", "energy": "energy score (smaller is better)"}
TIERS = (
    "Tiers: A no miscalibration found (! with objections), B informative but miscalibrated, C no better than the "
    "prior, ? not resolved."
)


def leaderboard_figure(
    boards: Sequence[tuple[str, pd.DataFrame]], gaps: Mapping[str, Sequence[tuple[str, str]]] | None = None
) -> Figure:
    r"""Draws leaderboards: a row of panels each, MIRA and the energy score of the candidates in their order.

    Those that are tied with the best are full and blue; controls are gray. Candidates that failed, and jobs that are
    not done, have a line of their own with the reason.

    Arguments:
        boards: The label of each leaderboard, and its table.
        gaps: For labels, what is not done and why.
    """

    missing = gaps or {}
    lost = {label: list(missing.get(label, [])) for label in [*(label for label, _ in boards), *missing]}
    known = dict(boards)
    empty = pd.DataFrame(columns=boards[0][1].columns)
    heights = [0.75 + 0.24 * (len(known.get(label, empty)) + len(rows)) for label, rows in lost.items()]
    figure = Figure(figsize=(9.0, sum(heights) + 1.0), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(lost), 2, squeeze=False, sharey="row", height_ratios=heights)
    for (label, rows), panels in zip(lost.items(), grid, strict=True):
        board = known.get(label, empty)
        _names(panels[0], label, board, rows)
        for axes, (score, title) in zip(panels, SCORES.items(), strict=True):
            axes.tick_params(labelsize=8)
            axes.tick_params(axis="y", length=0)
            if board[score].notna().any():
                _points(axes, board, score)
                axes.set_xlabel(f"{title}, with {CONFIDENCE:.0%} interval", fontsize=8.5)
            else:
                axes.set_xticks([])
                axes.spines[:].set_visible(False)
    figure.legend(handles=_handles(), loc="outside upper center", ncols=4, fontsize=8, frameon=False)
    whole = pd.concat([board for _, board in boards])
    figure.supxlabel(_footer(whole), fontsize=7.5, color="#444444", x=0.01, ha="left")
    return figure


def _names(axes: Axes, label: str, board: pd.DataFrame, gaps: Sequence[tuple[str, str]]) -> None:
    r"""Writes who a row is, its tier, and in place of points why there are none."""
    names = []
    for r in board.itertuples():
        rank = "" if pd.isna(r.rank) else f"{r.rank}. "
        mark = MARK if few_seeds(r.seeds) else ""
        names.append(f"{rank}{r.candidate}{f' ({r.settings})' if r.settings else ''}{mark}")
    names += [name for name, _ in gaps]
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, pad=20)
    beside = axes.get_yaxis_transform()
    ranked = [(i, r) for i, r in enumerate(board.itertuples()) if r.role == "candidate"]
    for i, r in ranked:
        tier = f"{r.tier}{'!' if r.objections else ''}" if r.verdict != "failed" else "-"
        axes.text(-0.035, i, tier, transform=beside, ha="center", va="center", fontsize=8, weight="bold")
    if ranked:
        axes.text(-0.035, -0.6, "tier", transform=beside, ha="center", va="bottom", fontsize=7, color="#444444")
    reasons = [(i, f"failed: {r.reason}" if r.reason else "failed") for i, r in ranked if r.verdict == "failed"]
    reasons += [(len(board) + i, why) for i, (_, why) in enumerate(gaps)]
    for i, why in reasons:
        text = axes.text(
            0.02, i, textwrap.shorten(why, LONGEST, placeholder=" ..."), transform=beside, va="center", fontsize=7.5,
            color=BAD, zorder=5, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )  # fmt: skip
        text.set_in_layout(False)
        axes.get_yticklabels()[i].set_color(BAD)
    axes.set_title(label, fontsize=10, loc="left", pad=12)


def _points(axes: Axes, board: pd.DataFrame, score: str) -> None:
    expected = board["mira_expected"].dropna().unique()
    if score == "mira" and len(expected):
        axes.axvline(expected[0], color="black", ls="--", lw=1, zorder=1)
    left, right = _range(board, score)
    for i, r in enumerate(board.itertuples()):
        value, low, high = (getattr(r, f"{score}{end}") for end in ("", "_low", "_high"))
        if pd.isna(value):
            continue
        together = r.tied in ("best", "tied", "not resolved")
        color = QUIET if r.role != "candidate" else COLORS[0] if together else COLORS[1]
        if not left <= value <= right:
            far = value > right
            beside = axes.get_yaxis_transform()
            axes.plot(float(far), i, ">" if far else "<", color=color, ms=5, transform=beside, clip_on=False)
            axes.text(
                0.97 if far else 0.03, i, f"{value:.3g}", ha="right" if far else "left", va="center", fontsize=7.5,
                color=color, transform=beside,
            )  # fmt: skip
            continue
        error = [[value - low], [high - value]] if not pd.isna(low) else None
        axes.errorbar(
            value, i, xerr=error, fmt="o" if r.role == "candidate" else "D", color=color, ms=5, capsize=3,
            mfc=color if together else "white",
        )  # fmt: skip
    axes.set_xlim(left, right)
    axes.locator_params(axis="x", nbins=6)
    axes.grid(axis="y", color="#EEEEEE")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _range(board: pd.DataFrame, score: str) -> tuple[float, float]:
    r"""The range of the candidates. A control far away is an arrow at the edge: it would press all others together."""
    ends = [score, f"{score}_low", f"{score}_high"]
    ranked = board[(board["role"] == "candidate") & board[score].notna()]
    values = (ranked if len(ranked) else board)[ends].astype(float)
    # An interval of two seeds may be tens of times as wide as the others: it goes on beyond the edge.
    sure = ~(ranked if len(ranked) else board)["seeds"].map(few_seeds).to_numpy(bool)
    points = values[score]
    spread = (points.max() - points.min()) or abs(points.max()) or 1.0
    rough = values.clip(points.min() - spread, points.max() + spread)
    values = values.where(pd.Series(sure, index=values.index), rough, axis=0) if len(points) > 1 else values
    low, high = values.min(axis=None), values.max(axis=None)
    span = (high - low) or abs(high) or 1.0
    expected = board["mira_expected"].dropna() if score == "mira" else pd.Series(dtype=float)
    others = board[board["role"] != "candidate"]
    near = others[others[score].astype(float).between(low - span, high + span)]
    low = min([low, *expected, *near[ends].astype(float).min()])
    high = max([high, *expected, *near[ends].astype(float).max()])
    return low - 0.08 * (high - low), high + 0.08 * (high - low)


def _handles() -> list[Line2D]:
    marks: list[tuple[str, str, str, str]] = [
        ("best, or tied with it", COLORS[0], COLORS[0], "o"),
        ("separated from the best", COLORS[1], "white", "o"),
        ("control", QUIET, "white", "D"),
    ]
    handles = [Line2D([], [], ls="", marker=m, color=color, mfc=fill, label=text) for text, color, fill, m in marks]
    return [*handles, Line2D([], [], color="black", ls="--", lw=1, label="a perfect candidate's MIRA")]


def _footer(board: pd.DataFrame) -> str:
    lines = [TIERS] if (board["tier"] != "-").any() else []
    lines += [FEW] if any(map(few_seeds, board["seeds"])) else []
    return "\n".join(lines)
