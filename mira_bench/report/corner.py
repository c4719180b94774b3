r"""Corner plots: the marginals of one posterior, one by one and in pairs, with the truth."""

__all__ = ["corner"]

from collections.abc import Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from .figures import COLORS

BINS = 24
LEVELS = (0.95, 0.68)  # the credible regions that are shaded
TRUTH = "#D55E00"


def _thresholds(density: NDArray[np.float64]) -> list[float]:
    r"""The heights above which the given shares of a histogram lie."""
    heights = np.sort(density, axis=None)[::-1]
    share = np.cumsum(heights) / heights.sum()
    return [float(heights[np.searchsorted(share, level)]) for level in LEVELS]


def corner(samples: NDArray, truth: NDArray, names: Sequence[str], title: str) -> Figure:
    r"""Draws the marginals of a posterior: histograms on the diagonal, 68 and 95 % regions of all pairs below.

    Parameters that do not vary are left out.

    Arguments:
        samples: The samples, with shape $(S, d)$.
        truth: The truth, with shape $(d,)$.
        names: The names of the parameters.
        title: The title above the figure.
    """

    free = np.flatnonzero(np.ptp(samples, axis=0) > 0)
    values, point = samples[:, free], truth[free]
    count = len(free)
    low, high = np.minimum(values.min(axis=0), point), np.maximum(values.max(axis=0), point)
    margin = 0.05 * (high - low)
    edges = [np.linspace(a, b, BINS + 1) for a, b in zip(low - margin, high + margin, strict=True)]
    size = 1.0 + 0.95 * count
    figure = Figure(figsize=(size, size))
    FigureCanvasAgg(figure)
    edge = {"left": 0.75 / size, "bottom": 0.65 / size, "right": 1 - 0.1 / size, "top": 1 - 0.4 / size}
    grid = figure.subplots(
        count, count, squeeze=False, sharex="col", gridspec_kw={**edge, "wspace": 0.08, "hspace": 0.08}
    )
    for i in range(count):
        for j in range(count):
            axes = grid[i, j]
            if j > i:
                axes.set_axis_off()
                continue
            axes.set_xlim(edges[j][0], edges[j][-1])
            axes.axvline(point[j], color=TRUTH, lw=1)
            if i == j:
                axes.hist(values[:, i], bins=edges[i].tolist(), color=COLORS[0], histtype="stepfilled", alpha=0.7)
                axes.set_yticks([])
            else:
                density = np.histogram2d(values[:, j], values[:, i], bins=[edges[j], edges[i]])[0]
                smooth = gaussian_filter(density, 1.0).T
                middle = [(e[1:] + e[:-1]) / 2 for e in (edges[j], edges[i])]
                heights = [*_thresholds(smooth), smooth.max() * 1.01]
                if np.all(np.diff(heights) > 0):
                    axes.contourf(*middle, smooth, levels=heights, colors=["#9FC5E8", COLORS[0]])
                axes.axhline(point[i], color=TRUTH, lw=1)
                axes.set_ylim(edges[i][0], edges[i][-1])
                axes.yaxis.set_major_locator(MaxNLocator(3, prune="both"))
                if j:
                    axes.set_yticklabels([])
            axes.xaxis.set_major_locator(MaxNLocator(3, prune="both"))
            axes.tick_params(labelsize=6, direction="in")
            if i == count - 1:
                axes.set_xlabel(names[free[j]])
                axes.tick_params(axis="x", labelrotation=45)
        if i:
            grid[i, 0].set_ylabel(names[free[i]])
    figure.align_labels()
    figure.suptitle(title, y=1 - 0.1 / size, va="top")
    return figure
