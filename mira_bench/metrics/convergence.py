r"""Convergence: what a candidate's sampler says about itself. It is no score, but scores are only as good as this."""

__all__ = ["Convergence", "ConvergenceResult"]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..metric import Block, Context, Metric, Record, Scores
from ..ranks.scaling import Scaling
from .records import joined

RHAT = 1.05  # above it, chains do not agree


@dataclass(frozen=True)
class ConvergenceResult:
    r"""The diagnostics of all posteriors of a candidate, by name, each with shape $(L,)$."""

    values: dict[str, NDArray[np.float64]]
    limit: float

    def __repr__(self) -> str:
        return f"ConvergenceResult({', '.join(self.values)}; limit={self.limit:g}, missed={len(self.missed)})"

    @property
    def of_chains(self) -> bool:
        r"""Whether the sampler told of chains; others have none, and count the calls of a denoiser."""
        return bool(self.values.keys() & {"rhat", "ess_bulk", "ess_tail"})

    @property
    def missed(self) -> NDArray[np.intp]:
        r"""The fiducials whose posterior misses the limit of R-hat."""
        return np.flatnonzero(~(self.values["rhat"] <= self.limit)) if "rhat" in self.values else np.empty(0, np.intp)

    @property
    def sentence(self) -> str:
        r"""How many posteriors miss the limit, and which."""
        rhat, missed = self.values["rhat"], self.missed
        which = f": fiducials {', '.join(map(str, missed[:8]))}{' ...' if len(missed) > 8 else ''}"
        return f"{len(missed)} of {len(rhat)} posteriors miss R-hat {self.limit:g}{which if len(missed) else ''}"


@dataclass(frozen=True)
class Convergence(Metric):
    r"""The largest R-hat of a candidate's posteriors, with the other diagnostics in the note.

    Arguments:
        limit: Posteriors whose R-hat is above it are marked. None is dropped.
    """

    limit: float = RHAT

    name = "convergence"
    needs = ("diagnostics",)

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        return ()

    def observe(self, block: Block) -> Record:
        assert block.diagnostics is not None
        return {key: np.asarray(values) for key, values in block.diagnostics.items()}

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        values = {key: joined(records, key) for key in records[0]}
        result = ConvergenceResult(values, self.limit)
        rest = ", ".join(f"{key} {_median_and_range(v)}" for key, v in values.items() if key != "rhat")
        if "rhat" not in values:
            return Scores(note=f"median (range): {rest}", result=result)
        rhat = values["rhat"]
        note = f"{result.sentence}; median (range): {rest}"
        return Scores(score=float(rhat.max()), expected=1.0, note=note, per_fiducial=rhat, result=result)


def _median_and_range(values: NDArray) -> str:
    if np.ptp(values) == 0:
        return _number(values[0])
    return f"{_number(np.median(values))} ({_number(values.min())} to {_number(values.max())})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
