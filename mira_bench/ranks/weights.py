r"""Data as weights: a few numbers per fiducial that tell where in data space it lies.

A block keeps the observations' entries, or random projections if they are many; when all blocks are there, columns are
made of them: the entries themselves or their principal components, one column for each label, all of them as normal
scores, which no outlier moves.
"""

__all__ = ["columns_of", "normal_scores", "sketch"]

from collections.abc import Mapping, Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from ..arrays import Array, as_host, flat
from ..streams import generator

KEPT = 256  # entries of an observation that are kept as they are
SKETCHED = 64  # random projections of one that has more
COLUMNS = 16  # entries that are tested one by one
COMPONENTS = 8  # principal components that stand for more
LABELS = 16  # integers of so few values have a column for each

Floats = NDArray[np.float64]


def normal_scores(values: Floats) -> Floats:
    r"""Returns normal quantiles of the ranks in each column $(L, J)$, centered; zero where a column is constant."""

    if len(values) == 0 or values.shape[1] == 0:
        return np.zeros(values.shape)
    ranks = scipy.stats.rankdata(values, axis=0)
    scores = scipy.special.ndtri((ranks - 0.5) / len(values))
    return np.asarray(np.where(np.ptp(values, axis=0) > 0, scores - scores.mean(axis=0), 0.0))


def sketch(x: Array) -> dict[str, NDArray]:
    r"""Returns what a block keeps of its observations $(L, *data)$.

    Products with random vectors know the principal components of the data all but exactly (randomized SVD), and can be
    found before the other blocks are there.
    """

    rows = flat(as_host(x), 1)
    integer = np.array(rows.dtype.kind in "biu")
    values = np.asarray(rows, np.float64)
    entries = values.shape[1]
    if entries > KEPT:
        directions = generator(0, "sketch of the data", entries).standard_normal((entries, SKETCHED), np.float32)
        values = np.where(np.isfinite(values), values, 0.0) @ directions
    return {"x": values, "x_entries": np.array(entries), "x_integer": integer}


def columns_of(records: Sequence[Mapping[str, NDArray]]) -> tuple[Floats, list[str]]:
    r"""Returns the columns of the data $(L, J)$ and what each stands for; none if a block kept no data."""

    total = sum(len(r["truths"]) for r in records)
    if not all("x" in r for r in records) or total < 3:
        return np.zeros((total, 0)), []
    values = np.concatenate([r["x"] for r in records])
    entries = int(records[0]["x_entries"])
    finite = np.isfinite(values).all(axis=0)
    moving = np.flatnonzero(finite & (np.ptp(np.where(finite, values, 0.0), axis=0) > 0))
    values = values[:, moving]
    if entries == 1 and len(moving) and all(bool(r["x_integer"]) for r in records):
        labels = np.unique(values)
        if 2 < len(labels) <= LABELS:
            each = (values == labels).astype(np.float64)
            names = ["x", *(f"x = {label:g}" for label in labels)]
            return np.concatenate([normal_scores(values), each - each.mean(axis=0)], axis=1), names
    if len(moving) == 0 or (len(moving) <= COLUMNS and entries <= KEPT):
        return normal_scores(values), ["x" if entries == 1 else f"x[{i}]" for i in moving]
    values = values - values.mean(axis=0)
    if entries <= KEPT:
        values = values / values.std(axis=0)
    left, weight, _ = np.linalg.svd(values, full_matrices=False)
    count = min(COMPONENTS, int(np.count_nonzero(weight > 1e-9 * weight[0])))
    return normal_scores(left[:, :count] * weight[:count]), [f"component {i + 1} of x" for i in range(count)]
