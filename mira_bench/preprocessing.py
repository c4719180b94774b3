r"""What is done to truths and samples alike before any metric looks at them: one step, named in every row.

Truths are what they are, but models of images give pixels below black and above white, gray ones where the data are
black or white, and each model others. What a metric says about them depends on what is done about it. So it is done in
one place, for all candidates, and said. The step belongs to the scoring and not to the sampling: the same samples are
scored under another one without being drawn again.
"""

__all__ = ["Binarize", "Clip", "Preprocessed", "Raw", "Rescale", "preprocessed"]

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import UsageError
from .metric import Block, Metric, Record, Scores
from .ranks.scaling import Scaling
from .views import Viewed


@dataclass(frozen=True)
class Raw:
    r"""Nothing is done."""

    version = 1

    def points(self, values: NDArray) -> NDArray:
        return values

    def bounds(self, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray]:
        return low, high


@dataclass(frozen=True)
class Clip:
    r"""What is beyond a range is moved to its edge.

    Arguments:
        low: The lower edge.
        high: The upper edge.
    """

    low: float = 0.0
    high: float = 1.0

    version = 1

    def points(self, values: NDArray) -> NDArray:
        return np.clip(values, self.low, self.high)

    def bounds(self, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray]:
        return self.points(low), self.points(high)


@dataclass(frozen=True)
class Rescale:
    r"""A fixed range becomes $[0, 1]$, one range for all dimensions, and what is beyond stays beyond.

    The range is declared and not measured. One of the truths and a candidate's own samples would give every candidate
    regions of its own, and one of all candidates would change with the wildest pixel of any of them.

    Arguments:
        low: What becomes 0.
        high: What becomes 1.
    """

    low: float = 0.0
    high: float = 1.0

    version = 1

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise UsageError(f"a range from {self.low} to {self.high} is none: the first must be smaller")

    def points(self, values: NDArray) -> NDArray:
        return (values - self.low) / (self.high - self.low)

    def bounds(self, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray]:
        return np.zeros_like(low), np.ones_like(high)


@dataclass(frozen=True)
class Binarize:
    r"""What is above a threshold becomes 1, all else 0.

    Arguments:
        threshold: The threshold.
    """

    threshold: float = 0.5

    version = 1

    def points(self, values: NDArray) -> NDArray:
        return (values > self.threshold).astype(values.dtype)

    def bounds(self, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray]:
        return np.zeros_like(low), np.ones_like(high)


@dataclass(frozen=True)
class Preprocessed(Viewed):
    r"""A metric that looks at what a step makes of truths and samples, and says so.

    Arguments:
        label: The name of the step.
    """

    label: str = dataclasses.field(default="", compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("column", "remarks"):
            object.__setattr__(self, key, getattr(self.metric, key))

    # Where nothing is done nothing is copied, and nothing that is known is lost.
    def _scaling(self, scaling: Scaling) -> Scaling:
        return scaling if isinstance(self.view, Raw) else super()._scaling(scaling)

    def observe(self, block: Block) -> Record:
        record: Record = self.metric.observe(block) if isinstance(self.view, Raw) else super().observe(block)
        return record

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        scores = super().reduce(records, scaling)
        said = f"preprocess={self.label}"
        return dataclasses.replace(scores, note=f"{scores.note}; {said}" if scores.note else said)


def preprocessed(metrics: Mapping[str, Metric], task: Any) -> dict[str, Metric]:
    r"""Returns metrics that look at what the task's step leaves of truths and samples.

    Arguments:
        metrics: The metrics by name; views come after the step.
        task: The task. If it has `preprocessing`, that is the name of the step and the step, a `View`.
    """

    step = getattr(task, "preprocessing", None)
    if step is None:
        return dict(metrics)
    label, view = step
    return {key: Preprocessed(metric, view, label) for key, metric in metrics.items()}
