r"""Pictures of inverse problems: the images, the instruments, and one measurement."""

__all__ = ["draw", "phantom_grid"]

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.streams import generator

from .black_hole import Closures, Visibilities
from .mri import Mri
from .phantoms import black_holes, brains, cells
from .scattering import Scattering
from .telescopes import Coverage

COLORS = {"brains": "gray", "black_holes": "afmhot", "cells": "viridis"}


def _figure(rows: int, columns: int, side: float = 2.2) -> tuple[Figure, NDArray]:
    figure = Figure(figsize=(side * columns, (side + 0.25) * rows + 0.2), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def _show(axes: Axes, image: NDArray, title: str = "", color: str = "gray", **keys: float) -> None:
    axes.imshow(image, origin="lower", interpolation="nearest", cmap=color, **keys)  # type: ignore[arg-type]
    axes.set_title(title, fontsize=9)
    axes.set(xticks=[], yticks=[])


def _adjoint(problem: Mri | Scattering | Visibilities, x: NDArray) -> NDArray:
    import torch

    return problem.operator().adjoint(torch.tensor(x[None], dtype=torch.float64))[0].numpy()


def _absolute(z: NDArray) -> NDArray:
    r"""The absolute values of complex numbers in two channels, the first axis."""
    return np.hypot(z[0], z[1])


def phantom_grid(each: int = 12, size: int = 32) -> Figure:
    r"""Draws the first brains (their absolute values), black holes and cells of a seed."""

    figure, grid = _figure(3, each, 0.9)
    for row, make in zip(grid, (brains, black_holes, cells), strict=True):
        images = make(each, generator(0, "phantoms", make.__name__), size)
        for axes, image in zip(row, images, strict=True):
            shown = _absolute(image) if len(image) == 2 else image[0]
            _show(axes, shown, color=COLORS[make.__name__], vmin=0.0)
    figure.set_size_inches(0.9 * each, 2.8)
    return figure


def draw(problem: Mri | Scattering | Visibilities | Closures, y: NDArray, x: NDArray) -> Figure:
    r"""Draws a problem and one measurement.

    Arguments:
        problem: The problem.
        y: An image, with shape $(*event)$.
        x: Its data, with shape $(*data)$.
    """

    if np.shape(y) != problem.event or np.shape(x) != problem.data:
        raise UsageError(
            f"an image {np.shape(y)} and data {np.shape(x)}, where {problem.event} and {problem.data} are needed"
        )
    y, x = np.asarray(y, np.float64), np.asarray(x, np.float64)
    if isinstance(problem, Mri):
        return _mri(problem, y, x)
    if isinstance(problem, Scattering):
        return _scattering(problem, y, x)
    return _visibilities(problem, y, x) if isinstance(problem, Visibilities) else _closures(problem, y, x)


def _mri(problem: Mri, y: NDArray, x: NDArray) -> Figure:
    figure, grid = _figure(2, max(4, min(problem.coils, 6)))
    for axes in grid.ravel():
        axes.set_axis_off()
    mask = np.zeros(problem.event[1:])
    mask[problem.lines] = 1
    waves = np.full(mask.shape, np.nan)
    waves[problem.lines] = np.log10(_absolute(np.moveaxis(x[0], -1, 0)) + 0.1 * problem.noise)
    panels: tuple[tuple[NDArray, str, dict[str, float]], ...] = (
        (_absolute(y), "image", {"vmin": 0.0}),
        (mask, f"sampled lines: {len(problem.lines)} of {problem.size}", {}),
        (waves, "data of coil 0, log", {}),
        (_absolute(_adjoint(problem, x)), "adjoint of the data", {"vmin": 0.0}),
    )
    for axes, (image, title, keys) in zip(grid[0], panels, strict=False):
        axes.set_axis_on()
        _show(axes, image, title, "gray", **keys)
    for j, (axes, coil) in enumerate(zip(grid[1], problem.sensitivities, strict=False)):
        axes.set_axis_on()
        _show(axes, np.abs(coil), f"coil {j}", vmin=0.0, vmax=1.0)
        axes.contour(np.angle(coil * np.exp(2j * np.pi * j / problem.coils)), 5, colors="tab:orange", linewidths=0.6)
    return figure


def _scattering(problem: Scattering, y: NDArray, x: NDArray) -> Figure:
    figure, (axes,) = _figure(1, 4, 2.6)
    sent, received = problem.circle(problem.transmitters), problem.circle(problem.receivers)
    axes[0].imshow(y[0], origin="lower", extent=(-0.5, 0.5, -0.5, 0.5), cmap=COLORS["cells"])
    axes[0].plot(*received.T, ".", color="tab:gray", markersize=2, label="receivers")
    axes[0].plot(*(1.06 * sent.T), "v", color="tab:red", markersize=4, label="transmitters")
    reach = 1.25 * problem.radius
    axes[0].set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
    axes[0].legend(fontsize=6, loc=(0.27, 0.17))  # within the circle
    axes[0].set_title(f"wavelength {problem.wavelength:g} of the side", fontsize=9)
    _show(axes[1], y[0], "contrast", COLORS["cells"], vmin=0.0)
    largest = float(np.abs(x).max())
    axes[2].imshow(x[..., 0], origin="lower", aspect="auto", cmap="RdBu_r", vmin=-largest, vmax=largest)
    axes[2].set(xlabel="receiver", ylabel="transmitter")
    axes[2].set_title("scattered wave, real part", fontsize=9)
    _show(axes[3], _adjoint(problem, x)[0], "adjoint of the data", COLORS["cells"])
    return figure


def _tracks(axes: Axes, coverage: Coverage) -> None:
    for sign in (1, -1):
        u, v = sign * coverage.u / 1e9, sign * coverage.v / 1e9
        axes.scatter(u, v, c=coverage.scan, s=4, cmap="viridis")
    reach = 1.1 * float(np.hypot(coverage.u, coverage.v).max()) / 1e9
    axes.set(xlim=(reach, -reach), ylim=(-reach, reach), aspect="equal", xlabel="u / Gλ", ylabel="v / Gλ")
    axes.set_title("(u, v) points, by scan", fontsize=9)


def _visibilities(problem: Visibilities, y: NDArray, x: NDArray) -> Figure:
    figure, (axes,) = _figure(1, 4, 2.6)
    coverage = problem.array.coverage()
    _show(axes[0], y[0], "image", COLORS["black_holes"], vmin=0.0)
    _tracks(axes[1], coverage)
    length = np.hypot(coverage.u, coverage.v) / 1e9
    amplitude = np.hypot(*x.T) * coverage.sigma
    error = problem.noise * coverage.sigma
    axes[2].errorbar(length, amplitude, error, fmt=".", markersize=3, linewidth=0.7, color="tab:blue")
    axes[2].set(yscale="log", xlabel="baseline / Gλ", ylabel="|V| / Jy")
    axes[2].set_title("visibilities, with gains", fontsize=9)
    equal = x * coverage.sigma[:, None] ** 2  # or the few best telescopes would make all of it
    _show(axes[3], _adjoint(problem, equal)[0], "adjoint, equal weights", COLORS["black_holes"])
    return figure


def _closures(problem: Closures, y: NDArray, x: NDArray) -> Figure:
    import torch

    figure, (axes,) = _figure(1, 4, 2.6)
    operator = problem.operator()
    true = operator.forward(torch.tensor(y[None]))[0].numpy()
    inverse, split = x[operator.measurements :] ** -2.0, len(operator.phases)
    _show(axes[0], y[0], "image", COLORS["black_holes"], vmin=0.0)
    _tracks(axes[1], problem.coverage)
    parts = (
        (operator.phases, slice(0, split), "closure phases", "rad"),
        (operator.amplitudes, slice(split, -1), "log closure amplitudes", ""),
    )
    for panel, (loops, part, title, unit) in zip(axes[2:], parts, strict=True):
        error = np.sqrt(loops.numpy() ** 2 @ inverse)
        panel.errorbar(true[part], x[: operator.measurements][part], error, fmt=".", markersize=3, linewidth=0.7)
        panel.axline((0, 0), slope=1, color="tab:gray", linewidth=0.7)
        panel.set(xlabel=f"of the image {unit}", ylabel=f"measured {unit}")
        panel.set_title(f"{len(error)} {title} ± {np.median(error):.2g}", fontsize=9)
    return figure
