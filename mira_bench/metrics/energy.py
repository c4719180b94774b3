r"""The fair energy score: strictly proper, needs no reference posterior, and tells information from calibration."""

__all__ = ["Box", "Energy", "EnergyResult", "energy_score", "prior_energy"]

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..arrays import Array, as_host, refuse_non_finite
from ..compiling import compiled
from ..errors import UsageError
from ..metric import Block, Context, Metric, Record, Scores, whole_block
from ..ranks.scaling import Scale, Scaling
from ..sharing import members
from ..statistics import FEW_FIDUCIALS, mean_stderr
from ..streams import generator
from .means import MeanScore
from .records import joined
from .shared_energy import shared_terms, shared_variance

LAGS = 128  # with more samples than this, the pair term uses S times so many pairs: its noise is far below 1/sqrt(S)
BULK = 2.5  # interquartile ranges on either side of the quartiles: four standard deviations of a normal law
NO_SKILL = 0.1  # a skill that is surely less than this is none
DRAWS = 128  # other truths that stand for the prior of a fiducial
KEPT = 16  # scores of priors that a process remembers

_PRIORS: dict[str, NDArray[np.float64]] = {}


@dataclass(frozen=True)
class Box:
    r"""Where parameters usually are; its widths are units. All that is beyond is squeezed into a margin around it.

    The mean of a score under a heavy-tailed prior is decided by a few fiducials, and so would be the question whether a
    candidate knows more than the prior. The map is one to one, so a score of mapped points is as proper as before.

    Arguments:
        low: The lower bounds, with shape $(d,)$.
        width: The widths, with shape $(d,)$.
    """

    low: NDArray[np.float64]
    width: NDArray[np.float64]

    @classmethod
    def of(cls, scaling: Scaling) -> "Box":
        r"""Returns the range of the task; without one, the bulk of the truths."""
        if scaling.task is not None:
            low, high = scaling.task
        else:
            low, high = np.quantile(scaling.truths, (0.25, 0.75), axis=0)
            flat = high <= low  # most truths are the same there
            reach = np.where(flat, 0.0, BULK * (high - low))
            low = np.where(flat, scaling.truths.min(axis=0), low - reach)
            high = np.where(flat, scaling.truths.max(axis=0), high + reach)
        return cls(low, np.where(high > low, high - low, 1.0))

    def holds(self, values: NDArray[np.float64]) -> bool:
        r"""Whether all points $(*, d)$ are inside."""
        return bool(((values >= self.low) & (values <= self.low + self.width)).all())

    def squeeze(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        r"""Maps points $(*, d)$ into $(-1, 2)$; the box itself is $[0, 1]$."""
        u = (values - self.low) / self.width
        above, below = np.maximum(u - 1, 0.0), np.maximum(-u, 0.0)
        return np.asarray(np.clip(u, 0.0, 1.0) + above / (1 + above) - below / (1 + below))


@dataclass(frozen=True)
class EnergyResult(MeanScore):
    r"""The energy score of one candidate; smaller is better.

    Arguments:
        per_fiducial: The score of each fiducial, with shape $(L,)$.
        normalize: The normalization that was used.
        bounded: The score of each fiducial in a `Box`: what the skill is made of.
        prior: The same for the prior (NaN where it cannot be had).
        shared_variance: The variance of the score that comes from sample sets which fiducials share.
    """

    per_fiducial: NDArray[np.float64]
    normalize: str
    bounded: NDArray[np.float64]
    prior: NDArray[np.float64]
    shared_variance: float | None = None

    def __repr__(self) -> str:
        return f"EnergyResult(score={self.score:.4f}, stderr={self.stderr:.4f}, normalize={self.normalize!r})"

    @property
    def stderr(self) -> float:
        r"""The standard error over fiducials, with the variance of shared sample sets added."""
        return self._with_sets(super().stderr)

    def _with_sets(self, error: float, unit: float = 1.0) -> float:
        r"""Adds the error of shared sets to one over fiducials, in a unit in which the score is another number."""
        return error if self.shared_variance is None else math.hypot(error, unit * self.shared_variance**0.5)

    @property
    def _in_box(self) -> float:
        r"""How much smaller differences are in the box, roughly."""
        return float(self.bounded.mean() / self.per_fiducial.mean()) if self.per_fiducial.mean() > 0 else 1.0

    @property
    def skill(self) -> float:
        r"""$1 - ES / ES_\text{prior}$: 0 for the prior, 1 for a point mass at the truth.

        It is found in a `Box`: a few far points must not decide whether a candidate is informative.
        """
        prior = self.prior.mean()
        return float(1 - self.bounded.mean() / prior) if prior > 0 else np.nan

    @property
    def skill_stderr(self) -> float:
        r"""The standard error of the skill (a ratio of paired means, by the delta method)."""
        if not self.prior.mean() > 0:
            return np.nan
        ratio = self.bounded.mean() / self.prior.mean()
        error = mean_stderr((self.bounded - ratio * self.prior) / self.prior.mean())[1]
        return self._with_sets(error, self._in_box / self.prior.mean())

    @property
    def information(self) -> str | None:
        r"""`"some"` if the candidate is shown to beat the prior, `"none"` if it is shown not to, else `"unresolved"`.

        Shown is what Student's interval of two standard errors (of 95 %, with few fiducials) says. Not to beat the
        prior means that the skill is below .1. None if the prior's score is not known, or if it is perfect because all
        truths are the same.
        """
        if not self.prior.mean() > 0:
            return None
        mean, stderr = mean_stderr(self.prior - self.bounded)
        stderr = self._with_sets(stderr, self._in_box)
        reach = max(2.0, float(scipy.special.stdtrit(len(self.prior) - 1, 0.975)))
        if mean > reach * stderr:
            return "some"
        return "none" if self.skill + reach * self.skill_stderr < NO_SKILL else "unresolved"

    @property
    def informative(self) -> bool:
        r"""Whether the candidate is shown to beat the prior."""
        return self.information == "some"

    @property
    def harmful(self) -> bool:
        r"""Whether the candidate is worse than the prior by four standard errors."""
        mean, stderr = mean_stderr(self.prior - self.bounded)
        return bool(mean < -4 * self._with_sets(stderr, self._in_box))


# The innermost loops run over samples and add into a buffer: SIMD without reassociation, so the bits are the same
# whether the code was just compiled or comes from the cache.
@compiled(fastmath={"contract"})
def _pair_distances(values: NDArray, lags: NDArray, square: NDArray, total: NDArray) -> None:
    dim, twice = values.shape
    count = twice // 2
    for lag in lags:
        for j in range(count):
            square[j] = 0.0
        for i in range(dim):
            row = values[i]
            for j in range(count):
                step = row[j] - row[j + lag]
                square[j] += step * step
        for j in range(count):
            total[j] += np.sqrt(square[j])


def _energy(values: NDArray[np.float64], lags: NDArray[np.int64]) -> float:
    r"""The fair energy score of samples $(S, d)$ around a truth at the origin."""
    count = len(values)
    around = np.ascontiguousarray(np.concatenate([values, values]).T)  # y_{j + lag} without a modulo
    total = np.zeros(count)
    _pair_distances(around, lags, np.empty(count), total)
    return float(np.sqrt(np.einsum("ij,ij->i", values, values)).mean() - 0.5 * total.mean() / len(lags))


def _among(values: NDArray[np.float64], lags: NDArray[np.int64]) -> float:
    r"""Half the mean distance of samples $(S, d)$ to each other."""
    total = np.zeros(len(values))
    around = np.ascontiguousarray(np.concatenate([values, values]).T)
    _pair_distances(around, lags, np.empty(len(values)), total)
    return float(0.5 * total.mean() / len(lags))


def _lags(count: int, seed: int) -> NDArray[np.int64]:
    # The lags l and S - l pair the same points. All pairs if they are few, else random lags without replacement.
    lags = np.arange(1, count)
    if len(lags) <= LAGS:
        return lags
    return np.sort(generator(seed, "energy lags").choice(lags, size=LAGS, replace=False))


def _energies_of_sets(
    truths: NDArray[np.float64], samples: Array, groups: NDArray, scale: Scale, box: Box, lags: NDArray, name: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""The same as `_energies` where fiducials share sets and a scale: the samples of a set are compared once."""
    distances = scipy.spatial.distance.cdist
    first, own = members(groups)
    width = scale.width[0]
    out = np.empty((2, len(truths)))
    for g, l in enumerate(first):
        points, mine = as_host(samples[int(l)]), np.flatnonzero(own == g)
        refuse_non_finite(points[None], name, int(l))
        out[:, mine] = distances(points / width, truths[mine] / width).mean(axis=0) - _among(points / width, lags)
        inside = np.array_equal(width, box.width) and box.holds(points)
        outside = mine if not inside else mine[[not box.holds(truth) for truth in truths[mine]]]
        if len(outside):
            squeezed = box.squeeze(points)
            toward = distances(squeezed, box.squeeze(truths[outside])).mean(axis=0)
            out[1, outside] = toward - _among(squeezed, lags)
    return out[0], out[1]


def _energies(
    truths: NDArray[np.float64],
    samples: Array,
    scale: Scale,
    box: Box,
    seed: int,
    name: str,
    groups: NDArray | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""The energy score of each fiducial, on the scale and in the box."""
    count = samples.shape[1]
    if count < 2:
        raise UsageError(f"{name} has a single sample per fiducial; the fair energy score needs two")
    lags = _lags(count, seed)
    if groups is not None and len(scale.width) == 1 and 1 < len(np.unique(groups)) < len(groups):
        return _energies_of_sets(truths, samples, groups, scale, box, lags, name)
    out = np.empty((2, len(truths)))
    for l, truth in enumerate(truths):
        width = scale.rows(slice(l, l + 1))[1][0]
        points = as_host(samples[l])
        values = (points - truth) / width
        refuse_non_finite(values[None], name, l)
        out[:, l] = _energy(values, lags)
        if not (np.array_equal(width, box.width) and box.holds(points) and box.holds(truth)):
            out[1, l] = _energy(box.squeeze(points) - box.squeeze(truth), lags)
    return out[0], out[1]


def prior_energy(truths: NDArray[np.float64], box: Box) -> NDArray[np.float64]:
    r"""Returns the energy score of the prior for each fiducial, in a box.

    The other truths are free draws from the prior; with many fiducials, each is compared with some of them.
    """

    count = len(truths)
    if count < 3:
        return np.full(count, np.nan)
    # All candidates and many runs ask the same, and of images it is the most expensive question.
    key = hashlib.sha256(b"".join(array.tobytes() for array in (truths, box.low, box.width))).hexdigest()
    if key not in _PRIORS:
        while len(_PRIORS) >= KEPT:
            _PRIORS.pop(next(iter(_PRIORS)))
        _PRIORS[key] = _prior_energy(truths, box)
    return _PRIORS[key].copy()


def _prior_energy(truths: NDArray[np.float64], box: Box) -> NDArray[np.float64]:
    count = len(truths)
    # In a random order: in the one that they came in, truths may repeat with the period of the strides.
    order = generator(0, "draws of the prior").permutation(count)
    strides = np.unique(np.linspace(1, count - 1, min(DRAWS, count - 1)).astype(int))
    points = box.squeeze(truths)[order]
    lags = _lags(len(strides), 0)
    out = np.empty(count)
    for i, l in enumerate(order):
        out[l] = _energy(points[(i + strides) % count] - points[i], lags)
    return out


def _decided_by_one(values: NDArray[np.float64]) -> bool:
    r"""Whether a single fiducial has more than half of the variance of all."""
    square = np.square(values - np.median(values))
    return len(values) >= FEW_FIDUCIALS and bool(square.max() > 0.5 * square.sum())


def energy_score(
    truths: ArrayLike,
    samples: ArrayLike,
    *,
    seed: int = 0,
    normalize: str = "auto",
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
) -> EnergyResult:
    r"""Returns the fair energy score of a candidate's samples,

    $$ ES = \frac{1}{S} \sum_j |y_j - y^*| - \frac{1}{2 S (S - 1)} \sum_{j \neq k} |y_j - y_k| . $$

    Its expectation is smallest for the true posterior, and the difference between two candidates is the difference of
    their energy distances to it. Nothing but the joint samples is needed.

    Arguments:
        truths: The truths, with shape $(L, *event)$.
        samples: The samples of the candidate, with shape $(L, S, *event)$, $S \geq 2$, or $(1, S, *event)$ if all
            truths share one set, which widens the standard error.
        seed: The seed of the pairs that are used when there are more than 128 samples.
        normalize: The scale of the distances, see `mira_bench.ranks.scaling`.
        bounds: The range `(low, high)` that `normalize="task"` uses.

    References:
        | Strictly Proper Scoring Rules, Prediction, and Estimation (Gneiting & Raftery 2007)
        | Fair scores for ensemble forecasts (Ferro 2014)
    """

    block = whole_block(truths, samples, seed=seed, bounds=bounds)
    ruler, box = block.scale(normalize), Box.of(block.scaling)
    energies, bounded = _energies(block.truths, block.samples, ruler, box, seed, block.name, block.groups)
    shared = None if block.groups is None else shared_variance([shared_terms(block, ruler)])
    return EnergyResult(energies, ruler.name, bounded, prior_energy(block.truths, box), shared)


@dataclass(frozen=True)
class Energy(Metric):
    r"""The energy score as a metric of the runner; see `energy_score`."""

    normalize: str = "auto"

    name = "energy"
    version = 2

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        # Without a range of the task, the box is made of all truths.
        return context.everything if context.bounds is None else context.behind(self.normalize)

    def observe(self, block: Block) -> Record:
        box = Box.of(block.scaling)
        ruler = block.scale(self.normalize)
        energies, bounded = _energies(block.truths, block.samples, ruler, box, block.seed, block.name, block.groups)
        record = {"per_fiducial": energies, "bounded": bounded}
        return record if block.groups is None else record | shared_terms(block, ruler)

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        prior = prior_energy(scaling.truths, Box.of(scaling))
        result = EnergyResult(
            joined(records, "per_fiducial"), scaling.resolve(self.normalize), joined(records, "bounded"), prior,
            shared_variance(records) if "shared_group" in records[0] else None,
        )  # fmt: skip
        note = f"smaller is better; normalize={result.normalize}"
        if np.isnan(result.skill) and len(result.per_fiducial) >= 3:
            note += "; there is no skill where all truths are the same"
        elif len(result.per_fiducial) < 3:
            note += "; the skill needs at least 3 fiducials"
        else:
            note += f"; skill {result.skill:.4f} +- {result.skill_stderr:.4f}"
        if _decided_by_one(result.per_fiducial):
            note += "; one fiducial decides it: heavy tails, which may have no energy score; see rank_by=log"
        return Scores.of(result, note)
