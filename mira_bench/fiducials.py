r"""Fiducials: the truths and observations that all candidates are scored on."""

__all__ = ["Fiducials", "name_vector", "refuse_bad_data"]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, as_array, flat
from .errors import SimulationError, UsageError

SHOWN = 6  # parameters of a vector that an error shows
CURE = (
    "bound the prior, or give one that rejects such vectors (a function of count and rng may): "
    "a simulator may neither raise nor return nan or inf"
)


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


def name_vector(y: NDArray, names: Sequence[str] | None = None) -> str:
    r"""Returns one parameter vector in words, cut if it is long: `a = 0.12, b = 3.4`.

    Example:
        >>> name_vector(np.array([0.125, 3.0]), ["a", "b"]), name_vector(np.arange(8.0))
        ('a = 0.125, b = 3', 'y = (0, 1, 2, 3, 4, 5, ...)')
    """

    values = [f"{value:.4g}" for value in np.ravel(y)[:SHOWN]]
    rest = [] if np.size(y) <= SHOWN else ["..."]
    if names is None or len(names) != np.size(y):
        return f"y = ({', '.join([*values, *rest])})"
    return ", ".join([*(f"{name} = {value}" for name, value in zip(names, values, strict=False)), *rest])


def refuse_bad_data(y: NDArray, x: NDArray, names: Sequence[str] | None = None, lead: str = "") -> None:
    r"""Raises a sentence that names the first parameters whose data are not finite.

    Arguments:
        y: The parameters, with shape $(L, *event)$.
        x: Their data, with shape $(L, *data)$.
        names: The names of the parameters.
        lead: The first words of the sentence.
    """

    values = flat(x, 1)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        first = values[bad[0]]
        raise SimulationError(
            f"{lead}the simulated data are {first[~np.isfinite(first)][0]} at {name_vector(y[bad[0]], names)} "
            f"({len(bad)} of {len(values)} parameter vectors in this batch); {CURE}"
        )
