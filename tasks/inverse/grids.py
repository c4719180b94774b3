r"""Pictures of reconstructions: truth, and mean, standard deviation and a sample of every posterior."""

__all__ = ["moments_grid"]

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mira_bench.fiducials import Fiducials

if TYPE_CHECKING:
    from .task import Inverse

LAST = ("oracle", "collapsed", "inflated", "prior")  # shown after the candidates, in this order


def shown(image: NDArray) -> NDArray:
    r"""Returns an image $(C, H, W)$ as $(H, W)$: a complex one by its magnitude."""
    return np.asarray(np.hypot(image[0], image[1]) if len(image) == 2 else image.mean(axis=0))


def _draw(axes: Axes, image: NDArray, title: str, largest: float, cmap: str = "gray") -> None:
    axes.imshow(image, cmap=cmap, vmin=0.0, vmax=largest, origin="lower", interpolation="nearest")
    axes.set_title(title, fontsize=8)
    axes.set(xticks=[], yticks=[])


def moments_grid(task: "Inverse", fiducials: Fiducials, samples: Mapping[str, NDArray]) -> Figure:
    r"""Draws mean, standard deviation, error of the mean and one sample of every posterior, for the first fiducial.

    Complex images are shown by their magnitude. All means and samples have one scale, all deviations and
    errors another.

    Arguments:
        task: The task.
        fiducials: The fiducials.
        samples: The samples of each candidate, with shape $(L, S, *event)$.
    """

    truth = np.asarray(fiducials.y)[0]
    names = sorted(samples, key=lambda name: LAST.index(name) if name in LAST else -1)
    means = {name: samples[name][0].mean(axis=0, dtype=np.float64) for name in names}
    widths = {name: np.sqrt(samples[name][0].var(axis=0, ddof=1, dtype=np.float64).sum(axis=0)) for name in names}
    # The prior is so much wider than all others that they would be black on its scale.
    wide = max([float(widths[name].max()) for name in names if name != "prior"], default=1.0)
    bright = float(shown(truth).max())
    figure = Figure(figsize=(1.25 * (1 + len(names)), 5.4), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(4, 1 + len(names), squeeze=False)
    _draw(grid[0, 0], shown(truth), "truth", bright)
    for axes in grid[1:, 0]:
        axes.axis("off")
    rows = ("mean", "standard deviation", "error of the mean", "one sample")
    for axes, word in zip(grid[:, 1], rows, strict=True):
        axes.set_ylabel(word, fontsize=8)
    for column, name in zip(grid[:, 1:].T, names, strict=True):
        error = np.sqrt(np.square(means[name] - truth).sum(axis=0))
        _draw(column[0], shown(means[name]), name, bright)
        _draw(column[1], widths[name], "", wide, "magma")
        _draw(column[2], error, "", wide, "magma")
        _draw(column[3], shown(samples[name][0, 0]), "", bright)
    figure.suptitle("Fiducial 0", fontsize=10)
    return figure
