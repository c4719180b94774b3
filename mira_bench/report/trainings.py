r"""What was trained for a run: how long, how far, and how the losses fell."""

__all__ = ["training_figure", "training_table"]

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curves = Mapping[str, Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]]


def training_table(curves: Curves, seconds: Mapping[str, float]) -> pd.DataFrame:
    r"""Returns one row per trained candidate: its epochs, the minutes they took, and where each curve ended.

    Arguments:
        curves: By candidate, the curves by name: epochs, and the values there.
        seconds: The time that each training took, whenever it was made.
    """

    rows = []
    for name, own in curves.items():
        ends = {f"final {key}": float(values[-1]) for key, (_, values) in own.items() if len(values)}
        epochs = max((float(at[-1]) for at, _ in own.values() if len(at)), default=np.nan)
        rows.append({"candidate": name, "epochs": epochs, "minutes": seconds.get(name, 0.0) / 60} | ends)
    return pd.DataFrame(rows, columns=list(dict.fromkeys(key for row in rows for key in row)))


def training_figure(curves: Curves) -> "Figure":
    r"""Draws a panel per trained candidate, with all its curves over epochs."""

    import matplotlib
    from matplotlib.figure import Figure

    from .figures import COLORS, SHARP

    drawn = {name: own for name, own in curves.items() if own}
    columns = min(2, len(drawn))
    rows = -(-len(drawn) // columns)
    width = matplotlib.rcParams["figure.figsize"][0]
    figure = Figure(figsize=(width, (0.75 if columns == 1 else 0.5) * width * rows), layout="constrained", dpi=SHARP)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[len(drawn) :]:
        axis.set_axis_off()
    for axis, (name, own) in zip(axes, drawn.items(), strict=False):
        for i, (key, (epochs, values)) in enumerate(own.items()):
            axis.plot(epochs, values, color=COLORS[i % len(COLORS)], lw=1.2, label=key.replace("_", " "))
        if all((values > 0).all() for _, values in own.values()):
            axis.set_yscale("log")
        axis.set_title(name, fontsize="medium", parse_math=False)
        axis.set_xlabel("epoch")
        axis.legend(fontsize="small", frameon=False)
    return figure
