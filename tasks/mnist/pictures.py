r"""Pictures of samples: two of each digit, for every candidate."""

__all__ = ["digit_grid"]

from collections.abc import Mapping

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mira_bench.fiducials import Fiducials
from mira_bench.sharing import members
from mira_bench.views import View

EACH = 2  # images of a digit


def _row(images: NDArray) -> NDArray:
    r"""Images $(10, k, h, w)$ side by side, as one of $k$ rows and ten columns with a line between them."""
    digits, each, height, width = images.shape
    framed = np.ones((digits, each, height + 1, width + 1))
    framed[:, :, :height, :width] = images
    return framed.transpose(1, 2, 0, 3).reshape(each * (height + 1), digits * (width + 1))


def digit_grid(fiducials: Fiducials, samples: Mapping[str, NDArray], step: tuple[str, View]) -> Figure:
    r"""Draws truths and the samples of every candidate, two of each digit, as they are scored.

    Arguments:
        fiducials: The fiducials, grouped by their label.
        samples: For each candidate one set for each label, in the order of their first fiducials.
        step: The name of what is done before scoring, and how it is done.
    """

    assert fiducials.group is not None
    label, view = step
    first, own = members(fiducials.group)
    order = np.argsort(np.asarray(fiducials.group)[first])
    truths = np.stack([np.asarray(fiducials.y)[np.flatnonzero(own == g)[:EACH]] for g in order])
    rows = {"truth": truths} | {name: np.asarray(drawn)[order][:, :EACH] for name, drawn in samples.items()}
    figure = Figure(figsize=(7.0, 1.5 * len(rows) + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (name, images) in zip(figure.subplots(len(rows), 1, squeeze=False)[:, 0], rows.items(), strict=True):
        shape = images.shape
        seen = view.points(images.reshape(*shape[:2], -1)).reshape(shape)
        axes.imshow(_row(seen), cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        axes.set_ylabel(name, fontsize=9)
    figure.suptitle(f"Two of each digit, preprocess={label}", fontsize=10)
    return figure
