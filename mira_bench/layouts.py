r"""Which axis of an array of samples is that of the fiducials.

Arrays are $(L, S, *event)$, and sbi gives $(S, L, *event)$. With as many samples as fiducials the shape does not tell,
but the numbers do: samples of the same fiducial have something in common, and follow its truth; the first samples of
all fiducials have not. Where neither is seen, all posteriors are the same, and so are the scores of both readings.
"""

__all__ = ["LAYOUTS", "refuse_swapped", "swap"]

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from .arrays import Array, OnDisk, as_array, as_host, flat
from .errors import UsageError

LAYOUTS = ("LSd", "SLd")
LEVEL = 1e-4  # how often samples in the right layout, independent of each other, would be refused
BEYOND_DOUBT = 1e-6
FEW = 30  # with fewer fiducials and as many samples, the numbers do not tell enough
MOST = 128  # fiducials that are looked at, and as many of their samples
PARAMETERS = 16


def swap(values: Any, source: str) -> Any:
    r"""Returns samples $(S, L, *event)$ as $(L, S, *event)$, without a copy."""

    if len(values.shape) < 2:
        return values
    if hasattr(values, "swapaxes"):
        return values.swapaxes(0, 1)
    count, fiducials, *event = values.shape

    def read(rows: slice) -> Array:
        return as_array(values[:, rows], source).swapaxes(0, 1)

    def first(rows: slice) -> Array:
        return as_array(values[:1, rows], source).swapaxes(0, 1)

    return OnDisk(source, (fiducials, count, *event), values.dtype, read, first)


def _chosen(count: int, most: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, count - 1, most).astype(np.intp))


def _fit(means: NDArray[np.float64], truths: NDArray[np.float64]) -> tuple[float, float]:
    r"""How well means $(K, q)$ follow the truths: the largest rank correlation, and its p-value for all dimensions."""
    count, dim = truths.shape
    a, b = (scipy.stats.rankdata(v, axis=0) - (count + 1) / 2 for v in (means, truths))
    norm = np.sqrt((a * a).sum(axis=0) * (b * b).sum(axis=0))
    r = np.abs(np.divide((a * b).sum(axis=0), norm, out=np.zeros(dim), where=norm > 0)).max()
    if count < 3 or r == 0:
        return float(r), 1.0
    t = r * np.sqrt((count - 2) / max(1 - r * r, 1e-15))
    return float(r), float(min(1.0, 2 * dim * scipy.stats.t.sf(t, count - 2)))


def _structure(z: NDArray[np.float64]) -> float:
    r"""The largest F-statistic of the means of columns $(K, K, q)$ over the dimensions, rows being taken out."""
    count = len(z)
    z = z - z.mean(axis=1, keepdims=True)
    columns = z.mean(axis=0)
    between = count * np.sum(columns**2, axis=0) / (count - 1)
    rest = np.sum((z - columns) ** 2, axis=(0, 1)) / (count - 1) ** 2
    vary = between > 1e-12
    return float(np.divide(between, rest, out=np.where(vary, np.inf, 0.0), where=vary & (rest > 0)).max())


def _is_swapped(truths: NDArray[np.float64], z: NDArray[np.float64], level: float, fitted: bool) -> bool:
    r"""Whether columns of samples $(K, K, q)$ are the fiducials, and not rows."""
    # Ranks among all numbers: a heavy tail then does not decide, and neither does the unit.
    z = scipy.stats.rankdata(z.reshape(-1, z.shape[2]), axis=0).reshape(z.shape)
    (by_rows, p_rows), (by_columns, p_columns) = _fit(z.mean(axis=1), truths), _fit(z.mean(axis=0), truths)
    if min(p_rows, p_columns) < level:
        return by_columns > by_rows and p_columns < level
    if fitted:
        return False
    # Neither follows the truths. In the right layout the samples of a fiducial are exchangeable, so that columns have
    # equal means and widths. If they have not, they are fiducials, or the chains drift, or share their noise.
    width = np.abs(z - np.median(z, axis=1, keepdims=True))
    worst = max(_structure(z), _structure(width))
    count = len(z) - 1
    return bool(scipy.stats.f.sf(worst, count, count**2) * 2 * z.shape[2] < level)


def refuse_swapped(
    truths: NDArray[np.float64],
    shape: tuple[int, ...],
    read: Callable[[slice], Array],
    name: str,
    way_out: str,
    *,
    fitted: bool = False,
) -> None:
    r"""Raises a sentence if samples that could be $(S, L, *event)$ as well as $(L, S, *event)$ seem to be the former.

    Arguments:
        truths: The truths, with shape $(L, d)$.
        shape: The shape of the samples; one shared set $(1, S, *event)$ may be one sample each, $(1, L, *event)$.
        read: Reads the samples of some fiducials.
        name: What to call the samples.
        way_out: What to do about it.
        fitted: Whether to refuse only what follows the truths in the other layout, beyond doubt: where the user
            cannot say which layout it is.
    """

    fiducials = len(truths)
    if fiducials < 2 or shape[1] != fiducials or shape[0] not in (1, fiducials):
        return
    dims = _chosen(truths.shape[1], PARAMETERS)
    if shape[0] == 1:
        alone = as_host(flat(as_array(read(slice(0, 1)), name), 2))[0]
        if _fit(alone[:, dims], truths[:, dims])[1] < LEVEL:
            raise UsageError(
                f"{name} has shape {shape}, which is one set for all fiducials, but its samples follow the "
                f"{fiducials} truths one by one: {way_out}"
            )
        return
    if fiducials < FEW:
        if not fitted:
            raise UsageError(f"{name} has shape {shape}, and both axes could be the {fiducials} fiducials: {way_out}")
        return
    some = _chosen(fiducials, MOST)
    parts = [as_host(flat(as_array(read(slice(int(l), int(l) + 1)), name), 2)[0])[some][:, dims] for l in some]
    z = np.stack(parts)
    # What is not finite has an error of its own.
    if np.isfinite(z).all() and _is_swapped(truths[some][:, dims], z, BEYOND_DOUBT if fitted else LEVEL, fitted):
        raise UsageError(
            f"{name} has shape {shape}, and the numbers say that the second axis is that of the {fiducials} "
            f"fiducials, not the first: {way_out}"
        )
