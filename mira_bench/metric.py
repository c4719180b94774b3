r"""The contract of a metric: observe blocks of fiducials one by one, then reduce what was seen to scores."""

__all__ = ["MISSING", "Block", "Context", "Metric", "Record", "Scores", "check_metric", "whole_block"]

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Array, as_array, as_observations, as_pair, in_one_unit, is_one_set, meet_ties, precision_of
from .errors import UsageError
from .layouts import refuse_swapped
from .ranks.centers import Centers, make_centers
from .ranks.scaling import Scale, Scaling, as_bounds
from .sharing import equal_sets, refuse_groups, refuse_repeats, tell_shared

log = logging.getLogger("mira_bench")

Record: TypeAlias = dict[str, NDArray]  # what a metric keeps of a block: named arrays, a few numbers a fiducial


@dataclass(frozen=True)
class Block:
    r"""A block of fiducials with the samples of one candidate: all that a metric may look at.

    Arguments:
        truths: The truths of the block, with shape $(L, d)$.
        samples: The samples of the candidate, with shape $(L, S, d)$.
        index: The indices of the fiducials in the whole run, with shape $(L,)$.
        scaling: Finds the scale of distances.
        seed: The seed of the run: centers and ties are the same for all candidates.
        name: What to call the candidate in an error.
        groups: Labels of fiducials that share one sample set, or none.
        x: The observations, with shape $(L, *data)$, or none.
        reference: Draws samples of a reference posterior, with shape $(L, S', d)$, if there is one. It is called
            only by metrics that use it.
        log_prob: Computes the candidate's log-density at the truth (first) and at its samples, with shape
            $(L, S + 1)$, if it has a density.
        log_prob_truth: Computes the candidate's log-density at the truths, with shape $(L,)$, if it is normalized.
        in_support: Computes which samples are in the support of the prior, with shape $(L, S)$, if that is known.
        log_likelihood: Computes the task's log-likelihood of the truth (first) and of the samples with given indices,
            with shape $(L, 1 + S')$, if the task has one.
        conditional: Whether the samples are given `x`, so that tests may use it; else it is something else.
        log_evidence: Computes the log-evidence of the candidate's model and of the true one, with shape $(L, 2)$, or
            $(L, 1)$ if nobody knows the latter, if the candidate has one.
        diagnostics: What the candidate's sampler says about each posterior, by name, with shape $(L,)$, or none.
        precision: The precision that the samples had before they became an array, by default that of the array.
        event: The shape of a truth before it became a row of numbers, or none if it is not known.
        misfit: Computes the misfit of the samples to the data, with shape $(L, S)$, if the task has one.
    """

    truths: NDArray[np.float64]
    samples: Array
    index: NDArray[np.integer]
    scaling: Scaling
    seed: int
    name: str = "samples"
    groups: NDArray | None = None
    x: Array | None = None
    reference: Callable[[], NDArray] | None = None
    log_prob: Callable[[], NDArray] | None = None
    log_prob_truth: Callable[[], NDArray] | None = None
    in_support: Callable[[], NDArray] | None = None
    log_likelihood: Callable[[NDArray], NDArray] | None = None
    conditional: bool = True
    log_evidence: Callable[[], NDArray] | None = None
    diagnostics: Mapping[str, NDArray[np.float64]] | None = None
    precision: str | None = None
    event: tuple[int, ...] | None = None
    misfit: Callable[[], NDArray] | None = None

    def __post_init__(self) -> None:
        truths, samples = meet_ties(self.truths, self.samples, self.precision)
        object.__setattr__(self, "truths", truths)
        object.__setattr__(self, "samples", samples)

    def scale(self, normalize: str) -> Scale:
        r"""Returns the scale of this block under a normalization."""
        return self.scaling.scale(normalize, self.samples, self.index)

    def centers(self, centers: Any, regions: int) -> Centers:
        r"""Returns the centers of this block's regions; see `make_centers`."""
        dim = self.truths.shape[1]
        truths = self.scaling.truths
        return make_centers(centers, self.seed, regions, dim, x=self.x, index=self.index, truths=truths)

    def first(self, limit: int) -> "Block":
        r"""Returns the fiducials whose index is below a limit: a view, for metrics that look at a few."""
        rows = slice(int(np.count_nonzero(self.index < limit)))
        return Block(
            self.truths[rows], self.samples[rows], self.index[rows], self.scaling, self.seed, self.name,
            x=None if self.x is None else self.x[rows],
        )  # fmt: skip


def whole_block(
    truths: ArrayLike,
    samples: ArrayLike,
    *,
    seed: int = 0,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    groups: ArrayLike | None = None,
    x: ArrayLike | None = None,
) -> Block:
    r"""Returns arrays that a user gives as one block, after a check.

    Arguments:
        truths: The truths, with shape $(L, *event)$.
        samples: The samples, with shape $(L, S, *event)$, or $(1, S, *event)$ if all truths share one set.
        seed: The seed of centers, ties and tests.
        bounds: The range `(low, high)` that `normalize="task"` uses.
        groups: Labels with shape $(L,)$ of fiducials that share one sample set.
        x: The observations, with shape $(L, *data)$.
    """

    inputs = in_one_unit({"truths": truths, "samples": samples, "bounds": bounds, "x": x})
    truths, samples, bounds, x = inputs.values()
    given = as_array(samples, "samples")
    y, values = as_pair(truths, given)
    scaling = Scaling(y, task=as_bounds(bounds, y.shape[1], y))
    labels = None if groups is None else np.asarray(groups)
    if labels is not None and labels.shape != (len(y),):
        raise UsageError(f"groups has shape {labels.shape}; one label per fiducial is needed: ({len(y)},)")
    refuse_swapped(
        y, tuple(given.shape), lambda rows: values[rows], "samples",
        "swap its axes if samples come first; if they do not, mb.score takes it with layout='LSd'", fitted=True,
    )  # fmt: skip
    labels = _sets(y, values, labels)
    observations = None if x is None else as_observations(x, len(y))
    return Block(
        y, values, np.arange(len(y)), scaling, seed, groups=labels, x=observations, precision=precision_of(samples)
    )


def _sets(truths: NDArray[np.float64], samples: Array, groups: NDArray | None) -> NDArray | None:
    r"""Which fiducials share a sample set, if any do; see `mira_bench.sharing`."""
    blocks = [slice(0, len(truths))]
    if groups is not None:
        if not is_one_set(samples):
            refuse_groups(groups, blocks, lambda rows: samples[rows], "samples")
        return groups
    if is_one_set(samples):
        labels = np.zeros(len(truths), np.int64)
    else:
        found = equal_sets(blocks, lambda rows: samples[rows, :1], lambda rows: samples[rows])
        if found is None:
            return None
        labels = found
    refuse_repeats(truths, [labels])
    if not is_one_set(samples):
        log.warning("%s", tell_shared(labels, "samples"))
    return labels


@dataclass(frozen=True)
class Scores:
    r"""What a metric says about one candidate.

    Arguments:
        score: The candidate's score: one number over all fiducials.
        stderr: The standard error of the score over fiducials.
        expected: What a perfect candidate would get, where theory says so.
        pvalue: The p-value of the candidate being perfect.
        note: What a reader must know: the settings that were used, or why there is no number.
        per_fiducial: The score of each fiducial, if the metric has one.
        result: The metric's own result, with all that figures and the ranking need.
        parts: Further numbers of the metric by name, each with a row of its own in the summary, as `metric.name`.
    """

    score: float = np.nan
    stderr: float = np.nan
    expected: float = np.nan
    pvalue: float = np.nan
    note: str = ""
    per_fiducial: NDArray[np.float64] | None = field(default=None, repr=False)
    result: Any = field(default=None, repr=False)
    parts: Mapping[str, "Scores"] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, result: Any, note: str) -> "Scores":
        r"""Takes the numbers from a result that has them under the same names; those that it lacks are not known.

        Arguments:
            result: The metric's own result.
            note: What a reader must know.
        """
        keys = ("score", "stderr", "expected", "pvalue", "per_fiducial")
        return cls(**{key: getattr(result, key, getattr(cls, key)) for key in keys}, note=note, result=result)


# What a block may lack, and how that is said in the table.
MISSING = {
    "x": "there are no observations",
    "reference": "there is no reference posterior",
    "log_prob": "the candidate has no density",
    "log_prob_truth": "the candidate has no normalized density",
    "log_evidence": "the candidate has no evidence",
    "diagnostics": "the candidate's samples come without diagnostics",
    "event": "truths are no images here",
}


@dataclass(frozen=True)
class Context:
    r"""The whole run, as far as what a metric sees in one block may depend on it.

    Arguments:
        scaling: The truths of all fiducials, the task's range, and the range of all candidates' samples if it is asked
            for.
        x: The observations of all fiducials, with shape $(L, *data)$, or none.
    """

    scaling: Scaling
    x: Array | None = None

    @property
    def truths(self) -> NDArray[np.float64]:
        r"""The truths of all fiducials, with shape $(L, d)$."""
        return self.scaling.truths

    @property
    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        r"""The task's range, if it declares one."""
        return self.scaling.task

    @property
    def everything(self) -> tuple[NDArray, ...]:
        r"""All that the scale of a block can be made of."""
        return (self.scaling.truths, *(self.scaling.pooled or ()))

    def behind(self, normalize: str, centers: Any = None) -> tuple[NDArray, ...]:
        r"""Returns what a scale and centers depend on beyond a block.

        Under a scale that the task fixes, or that the block finds by itself, that is nothing, and a larger run extends
        a smaller one.
        """
        by_truths = self.scaling.resolve(normalize) in ("others", "truths", "scalar", "pooled")
        by_truths |= not isinstance(centers, str | None) or centers == "prior"
        return self.everything if by_truths else ()


class Metric(ABC):
    r"""A metric: it looks at one block of fiducials after the other, and puts together what it saw.

    This is all that the runner knows of a metric. A frozen dataclass is the natural way to write one: its fields are
    its settings, and a part of its identity in the store, like its class and its `version`.

    Attributes:
        name: What it is called in tables and in the store.
        version: Raised when its records change, so that old ones are not reused.
        needs: What it cannot do without: `x`, `reference`, `log_prob`, `log_evidence`, ... of a block; see `MISSING`.
            Where that is missing, its row says so.
        packages: Further packages whose versions decide its numbers.
        normalize: The scale of distances that it asks a block for; see `mira_bench.ranks.scaling`.
        independent: Whether its p-value takes fiducials for independent. Where they share samples it is left out.
        column: The title of its score in the printed ranking, which has a column for it if there is one.
        remarks: Whether its row also says what is to be known about the candidate's samples: how many there are, where
            that differs between candidates, and whether they are autocorrelated.
    """

    name: str = ""
    version: int = 1
    needs: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    normalize: str = "auto"
    independent: bool = False
    column: str = ""
    remarks: bool = False

    @abstractmethod
    def observe(self, block: Block) -> Record:
        r"""Returns what is kept of a block: a few numbers for each fiducial, as arrays by name."""

    @abstractmethod
    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        r"""Puts the records of all blocks together, in their order."""

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        r"""Returns the arrays that a record depends on beyond its block, if any; the runner hashes them.

        The safe answer is the default: the truths of the whole run. A metric that looks at its block alone says so by
        returning nothing, and its records are then reused when a run grows.
        """
        return context.everything


def check_metric(metric: Any, label: str) -> Metric:
    r"""Returns a metric, or raises what is wrong with it."""

    if not isinstance(metric, Metric):
        raise UsageError(
            f"metric {label!r} is a {type(metric).__name__}; a metric is an object of a class that is derived from "
            "mira_bench.Metric, which says what it must have"
        )
    if not metric.name or not isinstance(metric.name, str):
        raise UsageError(f"metric {label!r} has no name: its class needs name = {label!r}")
    unknown = set(metric.needs) - set(MISSING)
    if unknown:
        raise UsageError(f"metric {label!r} needs {', '.join(sorted(unknown))}; blocks have {', '.join(MISSING)}")
    return metric
