r"""Pictures of one fiducial: what each candidate makes of the image, and the posterior of the first one."""

__all__ = ["image_grid", "posterior_corner"]

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mira_bench.fiducials import Fiducials
from mira_bench.report.corner import corner

if TYPE_CHECKING:
    from .task import Lensing

SHOWN = 200  # samples whose images are averaged: the mean's error is 7 % of the posterior's width


def _show(figure: Figure, axes: Axes, image: NDArray, title: str, extent: float, **look: object) -> None:
    drawn = axes.imshow(image, origin="lower", extent=(-extent, extent, -extent, extent), **look)  # type: ignore[arg-type]
    axes.set_title(title, fontsize=9)
    axes.set(xticks=[], yticks=[])
    figure.colorbar(drawn, ax=axes, shrink=0.8, pad=0.02).ax.tick_params(labelsize=7)


def image_grid(task: "Lensing", fiducials: Fiducials, samples: Mapping[str, NDArray]) -> Figure:
    r"""Draws truth and observation, and for every candidate the posterior mean image above its residual.

    Arguments:
        task: The task. Its own model renders all candidates: an SIE is its lens with gamma = 2, a source that a
            candidate lacks has no intensity.
        fiducials: The fiducials, of which the first one is drawn.
        samples: The samples of each candidate, with shape $(L, S, 13)$.
    """

    model, data = task.model, np.asarray(fiducials.x)[0]
    truth = model.images(fiducials.truths[:1])[0]
    figure = Figure(figsize=(3.0 * (1 + len(samples)), 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, 1 + len(samples), squeeze=False)
    side = task.pixels * task.pixelscale / 2
    light = {"cmap": "inferno", "vmin": 0.0, "vmax": float(truth.max())}
    noise = {"cmap": "RdBu_r", "vmin": -5.0, "vmax": 5.0}
    _show(figure, grid[0, 0], truth, "truth, without noise", side, **light)
    _show(
        figure, grid[1, 0], data, "observation", side, **{**light, "vmin": float(data.min()), "vmax": float(data.max())}
    )
    for column, (name, drawn) in zip(grid[:, 1:].T, samples.items(), strict=True):
        mean = model.images(drawn[0][:SHOWN]).mean(axis=0, dtype=np.float64)
        residual = (data - mean) / task.noise
        _show(figure, column[0], mean, f"{name}\nposterior mean image", side, **light)
        chi = float(np.mean(residual**2))
        _show(figure, column[1], residual, f"residual / σ, mean square {chi:.3f}", side, **noise)
    figure.suptitle(f"Fiducial 0, {2 * side:g} x {2 * side:g} arcsec", fontsize=10)
    return figure


def posterior_corner(task: "Lensing", fiducials: Fiducials, samples: Mapping[str, NDArray]) -> Figure:
    r"""Draws the posterior of the first candidate with the truth, the sources of both in the order of their x."""

    name, drawn = next(iter(samples.items()))
    values, truth, order = drawn[0], fiducials.truths[0], ""
    if "sorted" in task.views:
        values, truth = task.views["sorted"].points(values), task.views["sorted"].points(truth)
        order = ", sources in the order of their x"
    title = f"Posterior of {name} for fiducial 0{order}: 68 and 95 % regions, truth in orange"
    return corner(values, truth, task.names, title)
