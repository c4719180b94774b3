r"""Pictures of reconstructions: the paper's grid, and what posteriors say of one galaxy."""

__all__ = ["galaxy_grid", "moments_grid", "sample_grid"]

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mira_bench.fiducials import Fiducials
from mira_bench.streams import generator

from . import procedural
from .priors import CLASSES

if TYPE_CHECKING:
    from .task import Galaxy

ROWS = 4  # galaxies in the grid


def _in_color(axes: Axes, image: NDArray, title: str = "") -> None:
    r"""Shows an image $(3, H, W)$ with values from 0 to 1; what is beyond is cut."""
    axes.imshow(np.clip(np.moveaxis(image, 0, -1), 0.0, 1.0), origin="lower", interpolation="nearest")
    axes.set_title(title, fontsize=9)
    axes.set(xticks=[], yticks=[])


def _figure(rows: int, columns: int, height: float = 0.0) -> tuple[Figure, NDArray]:
    figure = Figure(figsize=(1.6 * columns, 1.7 * rows + 0.4 + height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def galaxy_grid(each: int = 12) -> Figure:
    r"""Draws procedural galaxies, the first spirals and ellipticals that priors learn from."""

    figure, grid = _figure(2, each)
    for row, make, name in zip(grid, (procedural.spirals, procedural.ellipticals), CLASSES, strict=True):
        for axes, image in zip(row, make(each, generator(0, "galaxies", name)), strict=True):
            _in_color(axes, image)
    figure.set_size_inches(0.8 * each, 1.7)
    return figure


def sample_grid(task: "Galaxy", fiducials: Fiducials, samples: Mapping[str, NDArray]) -> Figure:
    r"""Draws observation, truth, and one sample of every candidate, for a few galaxies.

    Arguments:
        task: The task.
        fiducials: The fiducials, of which the first ones are drawn.
        samples: The samples of each candidate, with shape $(L, S, 3, H, W)$.
    """

    rows = min(ROWS, len(fiducials))
    figure, grid = _figure(rows, 2 + len(samples))
    for l in range(rows):
        data = np.asarray(fiducials.x)[l]
        _in_color(grid[l, 0], data / task.brightness, "" if l else "observation")
        _in_color(grid[l, 1], np.asarray(fiducials.y)[l], "" if l else "truth")
        for axes, (name, drawn) in zip(grid[l, 2:], samples.items(), strict=True):
            _in_color(axes, drawn[l, 0], "" if l else name)
    figure.suptitle("One sample of every posterior", fontsize=10)
    return figure


def moments_grid(task: "Galaxy", fiducials: Fiducials, samples: Mapping[str, NDArray]) -> Figure:
    r"""Draws mean, standard deviation and residual of every candidate for the first galaxy.

    Residuals are those of the true noise, mean over colors: a posterior that fits the data leaves a mean square of one.
    Standard deviations have one scale for all, mean over colors as well.
    """

    data, truth = np.asarray(fiducials.x)[0], np.asarray(fiducials.y)[0]
    means = {name: drawn[0].mean(axis=0, dtype=np.float64) for name, drawn in samples.items()}
    widths = {
        name: np.sqrt(drawn[0].var(axis=0, ddof=1, dtype=np.float64).mean(axis=0)) for name, drawn in samples.items()
    }
    largest = max(float(width.max()) for width in widths.values())
    figure, grid = _figure(3, 1 + len(samples), 0.5)
    _in_color(grid[0, 0], truth, "truth")
    _in_color(grid[1, 0], data / task.brightness, "observation")
    _in_color(grid[2, 0], task.operator().forward(truth[None])[0] / task.brightness, "without noise")
    for column, name in zip(grid[:, 1:].T, samples, strict=True):
        _in_color(column[0], means[name], f"{name}\nmean")
        width = column[1].imshow(widths[name], origin="lower", cmap="magma", vmin=0.0, vmax=largest)
        residual = (data - task.operator().forward(means[name][None])[0]) / task.noise
        away = column[2].imshow(residual.mean(axis=0) * 3**0.5, origin="lower", cmap="RdBu_r", vmin=-4.0, vmax=4.0)
        column[1].set_title("standard deviation", fontsize=8)
        column[2].set_title(f"residual / true σ,\nmean square {np.square(residual).mean():.2f}", fontsize=8)
        for axes in column[1:]:
            axes.set(xticks=[], yticks=[])
    for row, drawn in ((1, width), (2, away)):
        figure.colorbar(drawn, ax=list(grid[row, 1:]), shrink=0.8, pad=0.01).ax.tick_params(labelsize=7)
    figure.suptitle("Fiducial 0", fontsize=10)
    return figure
