r"""Views: maps that are applied alike to truths and samples before they are scored.

A view answers another question on the same samples: how good is the posterior of the parameters that all candidates
share? Of sources without names? Truth and samples are mapped alike, so a perfect candidate stays perfect.

A view may be learned (principal components, the features of a classifier): it then has a `trainer` and `load(state)`,
which returns the view, like a candidate that learns; see `mira_bench.trainer`. It must not learn from the truths.
"""

__all__ = ["Columns", "Learned", "SortedGroups", "View", "Viewed", "path", "views_of", "with_inner", "with_states"]

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .arrays import as_host
from .diagnostics import sort_groups
from .errors import UsageError
from .metric import Block, Context, Metric, Record, Scores
from .ranks.scaling import Scaling
from .sharing import members, spread
from .trainer import State

AFTER = " > "  # between the names of views that follow each other


class View(Protocol):
    r"""A map of points. A frozen dataclass is the natural way to write one."""

    def points(self, values: NDArray) -> NDArray:
        r"""Maps points $(*, d)$ to $(*, d')$."""

    def bounds(self, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray] | None:
        r"""Maps the task's range, each with shape $(d,)$; none if there is no range on the view."""


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
class Learned:
    r"""A view that has been learned.

    Arguments:
        view: The view with its trainer.
        state: What the trainer learned.
    """

    view: Any
    state: State

    def __repr__(self) -> str:
        return repr(self.view)

    @cached_property
    def _loaded(self) -> View:
        loaded: View = self.view.load(self.state)
        return loaded

    def points(self, values: NDArray) -> NDArray:
        return self._loaded.points(values)

    def bounds(self, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray] | None:
        return self._loaded.bounds(low, high)


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
        # To the runner it is the metric itself.
        for key in ("name", "version", "needs", "packages", "normalize", "independent"):
            object.__setattr__(self, key, getattr(self.metric, key))

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        if self.metric.normalize == "pooled":
            context = Context(self._scaling(context.scaling), context.x)
        learned = self.view.state if isinstance(self.view, Learned) else {}
        return [*self.metric.depends_on(context), *(np.asarray(learned[key]) for key in sorted(learned))]

    def _scaling(self, scaling: Scaling) -> Scaling:
        task = None if scaling.task is None else self.view.bounds(*scaling.task)
        points = np.asarray(self.view.points(scaling.truths), np.float64)
        # The ranges of views that come after this one go by its name and theirs.
        own = path([self.view])
        later = {key.removeprefix(own + AFTER): one for key, one in scaling.pooled_views.items() if key.startswith(own)}
        return Scaling(points, task=task, pooled=scaling.pooled_views.get(own), pooled_views=later)

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
            event=None,  # and what is seen may be no image
            misfit=None,
        )
        record: Record = self.metric.observe(seen)
        return record

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        scores: Scores = self.metric.reduce(records, self._scaling(scaling))
        return scores


def views_of(metric: Metric) -> list[Any]:
    r"""Returns the views that a metric looks through, the first one first."""

    return [metric.view, *views_of(metric.metric)] if isinstance(metric, Viewed) else []


def innermost(metric: Metric) -> Metric:
    r"""Returns the metric itself, without the views that it looks through."""

    return innermost(metric.metric) if isinstance(metric, Viewed) else metric


def path(views: Sequence[Any]) -> str:
    r"""Returns what views that follow each other are called."""

    return AFTER.join(map(repr, views))


def with_inner(metric: Metric, inner: Metric) -> Metric:
    r"""Returns another metric that looks through the views of a metric."""

    return dataclasses.replace(metric, metric=with_inner(metric.metric, inner)) if isinstance(metric, Viewed) else inner


def with_states(metric: Metric, states: Mapping[str, State]) -> Metric:
    r"""Returns a metric whose views have been learned.

    Arguments:
        metric: The metric.
        states: What the trainer of each view learned, by what the view is called.
    """

    if not isinstance(metric, Viewed):
        return metric
    view = Learned(metric.view, states[repr(metric.view)]) if repr(metric.view) in states else metric.view
    return dataclasses.replace(metric, view=view, metric=with_states(metric.metric, states))


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
