r"""Fiducials: the truths and observations that all candidates are scored on."""

__all__ = ["Fiducials"]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, as_array, flat
from .errors import UsageError


@dataclass(frozen=True)
class Fiducials:
    r"""$L$ joint draws $(x^*, y^*)$ of the true model.

    Arguments:
        y: The truths, with shape $(L, *event)$.
        x: The observations, with shape $(L, *data)$, or none.
        group: Labels with shape $(L,)$ of fiducials that share one sample set, or none.
    """

    y: Array
    x: Array | None = None
    group: NDArray | None = None

    def __post_init__(self) -> None:
        for name in ("x", "group"):
            value = getattr(self, name)
            if value is not None and len(value) != len(self.y):
                raise UsageError(f"fiducials have {len(self.y)} truths y but {len(value)} entries of {name}")

    def __len__(self) -> int:
        return len(self.y)

    @property
    def event(self) -> tuple[int, ...]:
        r"""The shape of one truth."""
        return tuple(self.y.shape[1:])

    @property
    def truths(self) -> NDArray[np.float64]:
        r"""The truths flattened to $(L, d)$."""
        return np.ascontiguousarray(flat(as_array(self.y, "y"), 1), dtype=np.float64)

    def __getitem__(self, rows: slice) -> "Fiducials":
        parts = (None if v is None else v[rows] for v in (self.y, self.x, self.group))
        return Fiducials(*parts)

    @staticmethod
    def concatenate(parts: Sequence["Fiducials"]) -> "Fiducials":
        r"""Joins blocks in their order."""

        def join(name: str) -> Array | None:
            values = [getattr(p, name) for p in parts]
            return None if values[0] is None else np.concatenate(values)

        return Fiducials(join("y"), join("x"), join("group"))
