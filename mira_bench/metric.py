r"""The contract of a metric: observe blocks of fiducials one by one, then reduce what was seen to scores."""

__all__ = ["MISSING", "Block", "Metric", "Record", "Scores", "whole_block"]

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Array, as_array, as_pair, in_one_unit, is_one_set, meet_ties, precision_of
from .centers import Centers, make_centers
from .errors import UsageError
from .layouts import refuse_swapped
from .scaling import Scale, Scaling, as_bounds
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
        log_evidence: Computes the log-evidence of the candidate's model and of the true one, with shape $(L, 2)$, or
            $(L, 1)$ if nobody knows the latter, if the candidate has one.
        diagnostics: What the candidate's sampler says about each posterior, by name, with shape $(L,)$, or none.
        precision: The precision that the samples had before they became an array, by default that of the array.
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
    log_evidence: Callable[[], NDArray] | None = None
    diagnostics: Mapping[str, NDArray[np.float64]] | None = None
    precision: str | None = None

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
    observations = None if x is None else as_array(x, "x")
    if observations is not None and len(observations) != len(y):
        raise UsageError(f"x has {len(observations)} observations, the truths have {len(y)} fiducials")
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
        score: The aggregate.
        stderr: Its standard error over fiducials.
        expected: What a perfect candidate would get, where theory says so.
        pvalue: The p-value of the candidate being perfect.
        note: What a reader must know: the settings that were used, or why there is no number.
        per_fiducial: The score of each fiducial, if the metric has one.
        result: The metric's own result, with all that figures and the ranking need.
    """

    score: float = np.nan
    stderr: float = np.nan
    expected: float = np.nan
    pvalue: float = np.nan
    note: str = ""
    per_fiducial: NDArray[np.float64] | None = field(default=None, repr=False)
    result: Any = field(default=None, repr=False)


# What a block may lack, and how that is said in the table.
MISSING = {
    "x": "there are no observations",
    "reference": "there is no reference posterior",
    "log_prob": "the candidate has no density",
    "log_evidence": "the candidate has no evidence",
    "diagnostics": "the candidate's samples come without diagnostics",
}


class Metric(Protocol):
    r"""A metric of the runner. `version` is raised when its records change, so that old ones are not reused.

    A metric that cannot do without `x`, `reference`, `log_prob`, `log_evidence` or `diagnostics` names them in `needs`.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    def observe(self, block: Block) -> Record: ...

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores: ...
