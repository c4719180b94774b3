r"""One plot of a result at a time, for a notebook or into axes of the user's own."""

__all__ = ["KINDS", "draw"]

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UsageError
from . import figures
from .trainings import training_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..ranking.standing import Standing
    from ..result import Result


def _scored(result: "Result", metric: str) -> "list[Standing]":
    r"""Those that have a result of a metric, in the order of the ranking."""
    place = {name: i for i, name in enumerate(result.ranking["candidate"])}
    found = [s for s in result.standings if metric in s.scores and s.scores[metric].result is not None]
    if not found:
        raise UsageError(f"there is nothing to plot: the metric {metric!r} was not computed")
    return sorted(found, key=lambda s: place[s.name])


def _bars(axes: "Axes", standings: "list[Standing]", values: list[float], errors: list[float]) -> None:
    at = np.arange(len(standings))[::-1]
    axes.errorbar(values, at, xerr=errors, fmt="o", color="C0", capsize=3)
    axes.set_yticks(at, [s.name for s in standings], parse_math=False)
    axes.set_ylim(-0.5, len(standings) - 0.5)


def _mira(result: "Result", axes: "Axes") -> None:
    standings = _scored(result, "mira")
    scores = [s.scores["mira"] for s in standings]
    _bars(axes, standings, [one.score for one in scores], [one.stderr for one in scores])
    expected = {one.expected for one in scores}
    for value in sorted(expected):
        axes.axvline(
            value, color="black", ls="--", lw=1, label="a perfect candidate" if value == min(expected) else None
        )
    axes.set_xlabel("MIRA")
    axes.legend(frameon=False, fontsize=8)


def _skill(result: "Result", axes: "Axes") -> None:
    standings = [s for s in _scored(result, "energy") if s.information is not None]
    if not standings:
        raise UsageError("there is nothing to plot: the prior's energy is not known")
    found = [one for s in standings if (one := s.energy) is not None]
    _bars(axes, standings, [one.skill for one in found], [one.skill_stderr for one in found])
    axes.axvline(0, color="black", ls="--", lw=1, label="the prior")
    axes.set_xlabel("skill of the energy score")
    axes.legend(frameon=False, fontsize=8)


def _coverage(result: "Result", axes: "Axes") -> None:
    axes.axhline(0, color="black", ls="--", lw=1)
    for i, s in enumerate(_scored(result, "tarp")):
        tarp = s.scores["tarp"].result
        off, low, high = (values - tarp.expected for values in (tarp.coverage, tarp.lower, tarp.upper))
        axes.plot(tarp.levels, off, color=f"C{i % 10}", label=figures.in_legend(s.name))
        axes.fill_between(tarp.levels, low, high, color=f"C{i % 10}", alpha=0.25, lw=0)
    axes.fill_between([], [], [], color=figures.QUIET, alpha=0.3, lw=0, label="95 % of resampled fiducials")
    axes.set(xlim=(0, 1), xlabel="credibility level", ylabel="coverage (TARP) minus level")
    figures.as_they_are(axes.legend(frameon=False, fontsize=8))


AXES: dict[str, "Callable[[Result, Axes], None]"] = {"mira": _mira, "skill": _skill, "coverage": _coverage}
WHOLE: dict[str, "Callable[[Result], Figure]"] = {
    "overview": figures.overview,
    "sbc": figures.sbc_histograms,
    "convergence": figures.convergence,
    "training": lambda result: training_figure(result.curves),
}
NEEDS = {"sbc": "sbc", "convergence": "convergence"}
KINDS = (*WHOLE, *AXES)


def draw(result: "Result", kind: str, axes: "Axes | None" = None) -> "Figure | Axes":
    r"""Draws a plot of a result.

    Arguments:
        result: The result.
        kind: One of `KINDS`.
        axes: What it is drawn into, for those that have one panel.

    Returns:
        The figure; or the axes, if they were given.
    """

    if kind not in KINDS:
        raise UsageError(f"there is no plot {kind!r}; there are: {', '.join(KINDS)}")
    if kind in WHOLE:
        if axes is not None:
            raise UsageError(
                f"the plot {kind!r} makes a figure of its own, which may have several panels: leave ax= out; those "
                f"that take it are: {', '.join(AXES)}"
            )
        if kind in NEEDS:
            _scored(result, NEEDS[kind])
        if kind == "training" and not any(result.curves.values()):
            raise UsageError("there is nothing to plot: nothing was trained")
        return WHOLE[kind](result)
    if axes is not None:
        AXES[kind](result, axes)
        return axes
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 3.5), layout="constrained")
    AXES[kind](result, figure.subplots())
    return figure
