r"""Views: maps that are applied alike to truths and samples before they are scored.

A view answers another question on the same samples: how good is the posterior of the parameters that all candidates
share? Of sources without names? Truth and samples are mapped alike, so a perfect candidate stays perfect.
"""

__all__ = ["Columns", "SortedGroups", "View", "Viewed"]

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .arrays import as_host
from .diagnostics import sort_groups
from .errors import UsageError
from .metric import Block, Context, Metric, Record, Scores
from .ranks.scaling import Scaling
from .sharing import members, spread


class View(Protocol):
    r"""A map of points. A frozen dataclass is the natural way to write one."""

    def points(self, values: NDArray) -> NDArray:
        r"""Maps points $(*, d)$ to $(*, d')$."""

    def bounds(self, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray]:
        r"""Maps the task's range, each with shape $(d,)$."""


@dataclass(frozen=True)
class Columns:
    r"""Some of the parameters.

    Arguments:
        indices: The indices of the parameters that are looked at.
    """

    indices: Sequence[int]

    version = 1

    def points(self, values: NDArray) -> NDArray:
        return values[..., list(self.indices)]

    def bounds(self, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray]:
        return low[list(self.indices)], high[list(self.indices)]


@dataclass(frozen=True)
class SortedGroups:
    r"""Exchangeable groups of parameters in the order of one of their coordinates.

    Arguments:
        groups: The indices of each group, $(G, k)$.
        by: Which of the $k$ coordinates gives the order.
    """

    groups: Sequence[Sequence[int]]
    by: int = 0

    version = 1

    def points(self, values: NDArray) -> NDArray:
        return sort_groups(values, np.asarray(self.groups), self.by)

    def bounds(self, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray]:
        return low, high


@dataclass(frozen=True)
class Viewed(Metric):
    r"""A metric that looks at a view.

    Arguments:
        metric: The metric that looks.
        view: The map of truths and samples through which it looks.
    """

    metric: Metric
    view: Any

    def __post_init__(self) -> None:
        if self.metric.normalize == "pooled":
            raise UsageError("normalize='pooled' is not possible on a view: the pooled range is that of all parameters")
        # To the runner it is the metric itself.
        for key in ("name", "version", "needs", "packages", "normalize", "independent"):
            object.__setattr__(self, key, getattr(self.metric, key))

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        return self.metric.depends_on(context)

    def _scaling(self, scaling: Scaling) -> Scaling:
        task = None if scaling.task is None else self.view.bounds(*scaling.task)
        return Scaling(self.view.points(scaling.truths), task=task)

    def observe(self, block: Block) -> Record:
        draw: Callable[[], NDArray] | None = block.reference
        view: View = self.view
        seen = dataclasses.replace(
            block,
            truths=view.points(block.truths),
            samples=_mapped(view, block),
            scaling=self._scaling(block.scaling),
            reference=None if draw is None else lambda: view.points(draw()),
            log_prob=None,  # the density of a view is another one
            log_prob_truth=None,
            in_support=None,
            log_likelihood=None,  # and the likelihood looks at all parameters
        )
        record: Record = self.metric.observe(seen)
        return record

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        scores: Scores = self.metric.reduce(records, self._scaling(scaling))
        return scores


def _mapped(view: View, block: Block) -> NDArray:
    r"""The samples of a block through a view; a set that fiducials share is mapped once."""
    if block.groups is None:
        return np.ascontiguousarray(view.points(as_host(block.samples)))
    first, own = members(block.groups)
    kind = block.samples.dtype if isinstance(block.samples, np.ndarray) else np.float64
    return spread(view.points(as_host(block.samples[first])).astype(kind), own)


def with_views(metrics: dict[str, Metric], views: Sequence[str], task: Any) -> dict[str, Metric]:
    r"""Returns the metrics on each of the views: `mira` on `all`, `mira@shared` on `shared`.

    Arguments:
        metrics: The metrics that are asked for, by name.
        views: The names of the views; `"all"` is the one that changes nothing.
        task: The task, whose `views` holds them by name.
    """

    known: dict[str, View] = dict(getattr(task, "views", {}))
    out: dict[str, Metric] = {}
    for name in views:
        if name != "all" and name not in known:
            raise UsageError(f"the task has no view {name!r}; it has: {', '.join(['all', *known])}")
        for key, metric in metrics.items():
            if name == "all":
                out[key] = metric
            elif not {"log_evidence", "diagnostics", "log_prob", "log_prob_truth"} & set(metric.needs):
                out[f"{key}@{name}"] = Viewed(metric, known[name])
    return out
