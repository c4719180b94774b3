r"""What the two-sample metrics share: how two sets of samples are checked, and which sets the runner compares.

A two-sample metric compares two sets of samples. A benchmark has three ways to offer it such sets:

- `"posterior"`: for each of the first fiducials, the candidate's samples against those of a reference posterior. The
  score is the mean over these fiducials.
- `"group"`: where fiducials share sample sets, the truths that share a set against the set. The score is the mean over
  sets, its error that over sets.
- `"joint"`: without a reference, the rows $(x, y^*)$ against $(x, y)$, with one sample $y$ of the candidate for each
  fiducial. Both are draws of the same joint distribution if the candidate is right. The two rows of a fiducial share
  their $x$, so they are exchangeable as a pair, and tests swap them within the pair.

`"auto"` is the first where there is a reference, else the second where many share every set, else the third.
"""

__all__ = [
    "TwoSample",
    "TwoSampleResult",
    "as_sets",
    "compared_with_reference",
    "of_sets",
    "reference_pairs",
    "tail",
    "what_was_compared",
]

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from ..arrays import Array, as_array, as_host, flat, in_one_unit, is_device_tensor, refuse_non_finite
from ..errors import UsageError
from ..metric import MISSING, Block, Context, Metric, Record, Scores
from ..ranks.scaling import Scaling
from ..sharing import members
from ..statistics import mean_stderr
from ..streams import fiducial_keys, generator, uniforms
from .records import joined

AGAINST = ("auto", "posterior", "group", "joint")
MANY = 10  # truths that share a set: from so many on, they are compared with it unless something else is asked for
DIRECTIONS = 32  # an observation of more dimensions is seen through so many random projections


@dataclass(frozen=True)
class TwoSampleResult:
    r"""What a two-sample metric says about two sets of samples.

    Arguments:
        score: The statistic; larger is worse.
        stderr: The standard error of the score.
        expected: Its expectation if both sets are from one distribution, where it is known.
        pvalue: The p-value of that, against a score that is too large.
    """

    score: float
    stderr: float = math.nan
    expected: float = math.nan
    pvalue: float = math.nan


def as_sets(
    a: object, b: object, metric: str, least: int, paired: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Returns two sets of samples $(n, *event)$ and $(m, *event)$ as finite float64 arrays $(n, d)$ and $(m, d)$.

    Arguments:
        a: The first set of samples.
        b: The second set of samples.
        metric: The metric that needs them, for the error.
        least: The smallest number of samples that it can do with.
        paired: Whether row $i$ of one set belongs to row $i$ of the other.
    """

    sets, events = [], []
    for name, values in in_one_unit({"a": a, "b": b}).items():
        array = as_array(values, name)
        array = as_host(array.detach() if is_device_tensor(array) else array)
        if array.ndim == 0 or len(array) < least:
            count = 0 if array.ndim == 0 else len(array)
            raise UsageError(f"{name} has {count} samples; {metric} needs at least {least}")
        events.append(array.shape[1:])
        array = flat(array, 1)
        if array.shape[1] == 0:
            raise UsageError(f"{name} has an event of size zero: there is nothing to compare")
        refuse_non_finite(array, name)
        sets.append(array)
    if events[0] != events[1]:
        raise UsageError(f"the samples of a have the event shape {events[0]}, those of b {events[1]}")
    if paired and len(sets[0]) != len(sets[1]):
        raise UsageError(f"paired sets need the same size; a has {len(sets[0])} samples and b {len(sets[1])}")
    return sets[0], sets[1]


def tail(score: float, null: NDArray[np.float64]) -> float:
    r"""Returns the p-value of a score among null draws: the share that is at least as large, itself included."""

    if len(null) == 0:
        return math.nan
    # Sums in another order must not decide ties.
    return float((1 + np.count_nonzero(null >= score - 1e-12 * max(abs(score), 1.0))) / (1 + len(null)))


@dataclass(frozen=True)
class Pair:
    r"""The samples of a fiducial that are compared with those of its reference posterior.

    Arguments:
        row: The place of the fiducial in its block.
        key: The key of its random streams.
        own: The candidate's samples, with shape $(n, d)$.
        reference: Those of the reference posterior, with shape $(m, d)$.
    """

    row: int
    key: int
    own: NDArray[np.float64]
    reference: NDArray[np.float64]


def compared_with_reference(block: Block, fiducials: int) -> NDArray[np.intp]:
    r"""Returns which fiducials of a block are compared: the first ones of the run, and one of each sample set."""

    chosen = np.flatnonzero(block.index < fiducials)
    if block.groups is not None:  # one comparison per sample set: a second one would be the same again
        chosen = chosen[np.sort(np.unique(block.groups[chosen], return_index=True)[1])]
    return chosen


def reference_pairs(block: Block, chosen: NDArray[np.intp], metric: str, most: int, least: int) -> Iterator[Pair]:
    r"""Yields what is compared for each chosen fiducial, in the units of the parameters.

    Arguments:
        block: A block with a reference posterior, which is asked only if a fiducial is chosen.
        chosen: The places of the fiducials in the block.
        metric: The name of the metric: each has random streams of its own.
        most: The most samples of a side, drawn without replacement.
        least: The smallest number of samples that the metric can do with.
    """

    if block.reference is None:
        raise UsageError(MISSING["reference"])
    if len(chosen) == 0:
        return
    reference = block.reference()
    keys = fiducial_keys(block.seed, metric, block.index)
    for l in chosen.tolist():
        rng = generator(int(keys[l]), "subset")
        sides = []
        for values, name in ((block.samples[l], block.name), (reference[l], "the reference posterior")):
            values = as_host(values)
            refuse_non_finite(values, name)
            count = min(len(values), most)
            if count < least:
                raise UsageError(f"{name} has {count} samples per fiducial; {metric} needs at least {least}")
            sides.append(values[np.sort(rng.choice(len(values), count, replace=False))])
        yield Pair(l, int(keys[l]), *sides)


def of_sets(records: list[Record], key: str) -> NDArray:
    r"""Returns what was kept of every comparison, once for each sample set: blocks may share some."""

    values = joined(records, key)
    if "group" not in records[0]:
        return values
    return np.asarray(values[np.sort(np.unique(joined(records, "group"), return_index=True)[1])])


def what_was_compared(records: list[Record], count: int) -> str:
    r"""Says in the note of a metric what was compared with the reference posterior."""

    size = " and ".join(str(n) for n in sorted(set(records[0]["sizes"].tolist())))
    fiducials = f"{count} fiducials" if count > 1 else "1 fiducial"
    return f"against the reference posterior: {fiducials}, {size} samples per side"


@dataclass(frozen=True)
class TwoSample(Metric):
    r"""The base of the two-sample metrics of the runner: a subclass only compares two sets.

    All numbers are settings, and none is measured while it runs: a second run gives the same bits.

    Arguments:
        against: Which sets are compared: `"posterior"`, `"group"`, `"joint"` or `"auto"`; see the head of this module.
        fiducials: How many fiducials are compared with a reference posterior: the first ones, so that the score does
            not depend on the length of the run.
        most_samples: The most samples of a fiducial that are used on each side, drawn without replacement. Of a shared
            set, the first ones.
        pairs: How many fiducials are used in joint mode: the first ones again.
        normalize: The scale of $y$. In joint mode $x$ is z-scored, and weighted such that it has the total variance of
            a $y$ that is uniform over its scale.
    """

    against: str = "auto"
    fiducials: int = 32
    most_samples: int = 500
    pairs: int = 1000
    normalize: str = "auto"

    def __post_init__(self) -> None:
        if self.against not in AGAINST:
            raise UsageError(f"against={self.against!r} is not one of {', '.join(AGAINST)}")
        for key in ("fiducials", "most_samples", "pairs"):
            if getattr(self, key) < 1:
                raise UsageError(f"{key}={getattr(self, key)}: at least one is needed")

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        return context.behind(self.normalize)

    @property
    def least(self) -> int:
        r"""The smallest number of samples that can be compared."""
        return 2

    @abstractmethod
    def compare(self, a: NDArray[np.float64], b: NDArray[np.float64], seed: int, paired: bool) -> TwoSampleResult:
        r"""Compares the sets $a$ (the candidate's) and $b$."""

    def observe(self, block: Block) -> Record:
        against = self.against
        if against == "auto":
            shared = block.groups is not None and np.unique(block.groups, return_counts=True)[1].min() >= MANY
            against = "posterior" if block.reference is not None else "group" if shared else "joint"
        if against == "group":
            return self._observe_groups(block)
        if against == "joint":
            return self._observe_joint(block)
        return self._observe_posterior(block)

    def _observe_groups(self, block: Block) -> Record:
        r"""Keeps truths and sets: the truths of a group may be in several blocks."""
        if block.groups is None:
            raise UsageError("every fiducial has a sample set of its own: there are no groups that share one")
        first = members(block.groups)[0]
        ruler = block.scale(self.normalize)
        sets = [as_host(block.samples[int(l)])[: self.most_samples] for l in first]
        for values in sets:
            refuse_non_finite(values, block.name)
        scaled = [ruler.apply(values[None], slice(l, l + 1))[0] for values, l in zip(sets, first, strict=True)]
        return {
            "grouped": ruler.apply(block.truths, slice(None)),
            "group": np.asarray(block.groups),
            "sets": np.stack(scaled),
            "set_group": np.asarray(block.groups)[first],
            "seed": np.array(block.seed),
        }

    def _observe_posterior(self, block: Block) -> Record:
        chosen = compared_with_reference(block, self.fiducials)
        found = np.empty((len(chosen), 2))
        sizes = np.zeros(2, np.int64)
        ruler = block.scale(self.normalize)
        for row, pair in enumerate(reference_pairs(block, chosen, self.name, self.most_samples, self.least)):
            a, b = (ruler.apply(one[None], slice(pair.row, pair.row + 1))[0] for one in (pair.own, pair.reference))
            result = self.compare(a, b, pair.key, False)
            found[row] = result.score, result.expected
            sizes[:] = len(a), len(b)
        record = {"score": found[:, 0], "expected": found[:, 1], "sizes": sizes}
        return record if block.groups is None else record | {"group": block.groups[chosen]}

    def _observe_joint(self, block: Block) -> Record:
        rows = np.flatnonzero(block.index < self.pairs)
        index, size = block.index[rows], block.samples.shape[1]
        chosen = (uniforms(fiducial_keys(block.seed, "joint draw", index), 1)[:, 0] * np.float64(size)).astype(int)
        draws = [as_host(block.samples[l][j]) for l, j in zip(rows, chosen, strict=True)]
        drawn = np.stack(draws) if draws else np.empty((0, block.truths.shape[1]))
        refuse_non_finite(drawn, block.name)
        ruler = block.scale(self.normalize)
        low, width = (v if len(v) == 1 else v[rows] for v in (ruler.low, ruler.width))
        record = {
            "truth": (block.truths[rows] - low) / width,
            "draw": (drawn - low) / width,
            "seed": np.array(block.seed),
            "shared": np.array(block.groups is not None),
        }
        if block.x is not None:
            record |= _observations(block.x[: len(block.index)], block.seed, rows)
        return record

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        try:
            if len({frozenset(record) & {"truth", "grouped", "score"} for record in records}) > 1:
                raise UsageError("some fiducials share sets and others do not: choose with against=joint or group")
            if "grouped" in records[0]:
                return self._reduce_groups(records, scaling)
            if "truth" in records[0]:
                return self._reduce_joint(records, scaling)
            return self._reduce_posterior(records, scaling)
        except UsageError as error:
            return Scores(note=f"not computed: {error}")

    def _reduce_posterior(self, records: list[Record], scaling: Scaling) -> Scores:
        scores, expected = of_sets(records, "score"), of_sets(records, "expected")
        mean, stderr = mean_stderr(scores)
        return Scores(
            score=mean,
            stderr=stderr,
            expected=float(expected.mean()),
            pvalue=_excess_pvalue(scores - expected),
            note=f"{what_was_compared(records, len(scores))}; normalize={scaling.resolve(self.normalize)}",
            per_fiducial=scores,
        )

    def _reduce_groups(self, records: list[Record], scaling: Scaling) -> Scores:
        truths, labels = joined(records, "grouped"), joined(records, "group")
        sets, found = joined(records, "sets"), joined(records, "set_group")
        results, sizes = [], []
        # In the order of their first fiducials, whatever they are called.
        for place, at in enumerate(members(found)[0]):
            mine = truths[labels == found[at]]
            if len(mine) >= self.least:
                key = int(generator(int(records[0]["seed"]), self.name, "group", place).integers(2**63))
                results.append(self.compare(sets[at], mine, key, False))
                sizes.append(len(mine))
        if not results:
            raise UsageError(f"no set is shared by {self.least} fiducials or more, which {self.name} needs")
        scores, expected = (np.array([getattr(one, key) for one in results]) for key in ("score", "expected"))
        each = str(sizes[0]) if len(set(sizes)) == 1 else f"{min(sizes)} to {max(sizes)}"
        note = f"truths that share a set against it: {len(results)} sets of {sets.shape[1]}, {each} truths each; "
        note += f"normalize={scaling.resolve(self.normalize)}"
        if len(results) == 1:
            return Scores.of(results[0], note)
        mean, stderr = mean_stderr(scores)
        return Scores(mean, stderr, float(expected.mean()), _excess_pvalue(scores - expected), note)

    def _reduce_joint(self, records: list[Record], scaling: Scaling) -> Scores:
        truth, draw = joined(records, "truth"), joined(records, "draw")
        count, dim = truth.shape
        if count < self.least:
            raise UsageError(f"there are {count} fiducials; {self.name} without a reference needs {self.least}")
        what = "y* against a draw, without observations"
        if "x" in records[0]:
            x = joined(records, "x")
            spread = x.std(axis=0)
            x = (x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0) * math.sqrt(dim / 12 / x.shape[1])
            truth, draw = np.concatenate([x, truth], axis=1), np.concatenate([x, draw], axis=1)
            full = int(records[0]["x_size"])
            seen = f" ({x.shape[1]} projections of x)" if full > x.shape[1] else ""
            what = f"(x, y*) against (x, draw){seen}"
        result = self.compare(draw, truth, int(records[0]["seed"]), True)
        note = f"joint: {what}, {count} fiducials, one draw each; normalize={scaling.resolve(self.normalize)}"
        if records[0]["shared"]:
            note += "; fiducials share samples: p-value approximate"
        return Scores.of(result, note)


def _observations(x: Array, seed: int, rows: NDArray[np.integer]) -> Record:
    r"""The observations of some fiducials, projected if they are large: images would fill the store."""
    values = flat(as_host(x), 1)[rows]
    refuse_non_finite(values, "x")
    size = values.shape[1]
    if size > DIRECTIONS:
        directions = generator(seed, "joint projection").standard_normal((size, DIRECTIONS)) / math.sqrt(size)
        values = np.einsum("ld,dk->lk", values, directions)  # without BLAS, whose bits depend on its threads
    # No observation at all is the same for everyone, and says nothing.
    return {"x": values, "x_size": np.array(size)} if size else {}


def _excess_pvalue(excess: NDArray[np.float64]) -> float:
    r"""One-sided Student's t-test of the mean excess over the expectation."""
    if len(excess) < 2 or np.isnan(excess).any():
        return math.nan
    mean, stderr = mean_stderr(excess)
    if stderr <= 1e-12 * abs(mean) or stderr == 0:
        return 0.0 if mean > 0 else 1.0
    return float(scipy.stats.t.sf(mean / stderr, len(excess) - 1))
