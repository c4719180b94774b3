r"""The first two moments of a candidate's samples against those of a reference posterior: how wide, and how far off."""

__all__ = ["Moments", "MomentsResult", "moments"]

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import as_array, as_host, flat, in_one_unit, refuse_non_finite
from ..errors import UsageError
from ..metric import Block, Context, Metric, Record, Scores
from ..ranks.kernel import one_blas_thread
from ..ranks.scaling import Scaling
from ..statistics import mean_stderr
from ..streams import fiducial_keys, generator
from .two_sample import compared_with_reference, of_sets, reference_pairs, what_was_compared

Floats = NDArray[np.float64]

LEAST = 2  # samples that have a variance
# Scales that know nothing of the samples of a fiducial. Those that are made of the candidate's samples would tell them
# from the reference's, and make them look narrower.
APART = ("task", "others", "none", "truths", "scalar")


@dataclass(frozen=True)
class MomentsResult:
    r"""How the mean and the spread of a candidate's samples differ from those of a reference posterior.

    Arguments:
        sd_ratio: The ratio of standard deviations, candidate over reference; 1 is right.
        sd_ratio_stderr: Its standard error over fiducials.
        mean_error: The distance of the means in standard deviations of the reference; 0 is right.
        mean_error_stderr: Its standard error over fiducials, upward.
        pvalue: The p-value of both being right.
        sd_ratio_pvalue: That of the ratio alone, on either side.
        mean_error_pvalue: That of the means alone.
        per_fiducial: The ratio of each fiducial, with shape $(L,)$.
        square_errors: The square of the error of the mean of each, without its noise, with shape $(L,)$: it may be
            negative.
    """

    sd_ratio: float
    sd_ratio_stderr: float
    mean_error: float
    mean_error_stderr: float
    pvalue: float
    sd_ratio_pvalue: float
    mean_error_pvalue: float
    per_fiducial: Floats = field(repr=False)
    square_errors: Floats = field(repr=False)

    @classmethod
    def of(cls, logs: Floats, squares: Floats) -> "MomentsResult":
        r"""Puts fiducials together.

        Arguments:
            logs: The logarithm of the ratio of each fiducial, and behind it that of its permutations,
                with shape $(L, 1 + B)$.
            squares: The same for the square of the error of the mean.
        """
        with np.errstate(invalid="ignore"):  # a set without spread has an infinite logarithm
            log, log_stderr = mean_stderr(logs[:, 0])
            square, square_stderr = mean_stderr(squares[:, 0])
            ratio = float(np.exp(log))
            error = math.sqrt(max(square, 0.0))
            apart = _pvalues(np.abs(logs.mean(axis=0)))
            off = _pvalues(squares.mean(axis=0))
        both = _pvalues(-np.minimum(apart, off))
        return cls(
            sd_ratio=ratio,
            sd_ratio_stderr=ratio * log_stderr,
            mean_error=error,
            # The usual one where the error is far above the noise, and still a number at zero, where a root is steep.
            mean_error_stderr=math.sqrt(error**2 + square_stderr) - error,
            pvalue=float(both[0]),
            sd_ratio_pvalue=float(apart[0]),
            mean_error_pvalue=float(off[0]),
            per_fiducial=np.exp(logs[:, 0]),
            square_errors=squares[:, 0],
        )

    @property
    def score(self) -> float:
        r"""The ratio of standard deviations."""
        return self.sd_ratio

    @property
    def stderr(self) -> float:
        r"""The standard error of the ratio."""
        return self.sd_ratio_stderr

    @property
    def expected(self) -> float:
        r"""The ratio of a right candidate."""
        return 1.0


def _pvalues(statistic: Floats) -> Floats:
    r"""The p-value of each of a pool, itself included, against values that are too large; NaN if it is alone."""
    if len(statistic) == 1:
        return np.full(1, np.nan)
    values = np.nan_to_num(statistic, nan=np.finfo(np.float64).max)  # what cannot be told is as bad as the worst
    below = np.searchsorted(np.sort(values), values - 1e-9 * np.abs(values))  # sums in another order decide no ties
    return np.asarray((len(values) - below) / len(values))


def _compare(own: Floats, reference: Floats, permutations: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    r"""The logarithm of the ratio and the square of the error for one fiducial, and for permutations of its samples."""
    n, m = len(own), len(reference)
    pooled = np.concatenate([own, reference])
    pooled -= pooled[0].copy()  # what is fixed is zero, exactly
    pooled -= pooled.mean(axis=0)
    sides = np.empty((1 + permutations, n + m))
    sides[0] = np.arange(n + m) < n
    sides[1:] = rng.permuted(np.broadcast_to(sides[0], (permutations, n + m)), axis=1)
    lengths = np.einsum("nd,nd->n", pooled, pooled)
    with one_blas_thread():
        # About the mean of all, the two sides have opposite sums: the square of one says all. Through the matrix of
        # inner products, its cost does not depend on the dimension.
        if pooled.shape[1] < len(pooled):
            sums = sides @ pooled
            square = np.einsum("bd,bd->b", sums, sums)
        else:
            square = np.einsum("bn,bn->b", sides @ (pooled @ pooled.T), sides)
        mine = sides @ lengths
    whole = lengths.sum()
    variances = np.stack([(mine - square / n) / (n - 1), (whole - mine - square / m) / (m - 1)])
    variances[variances < 1e-12 * whole] = 0.0  # rounding, of a set without spread
    variances[:, 0] = _variance(own), _variance(reference)
    first, second = variances
    off = square * (1 / n + 1 / m) ** 2 - first / n - second / m
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(first == second, 0.0, 0.5 * (np.log(first) - np.log(second)))
        squares = np.where(second > 0, off / second, np.where(off > 0, np.inf, 0.0))
    return logs, squares


def _variance(values: Floats) -> float:
    r"""The sum over dimensions of the variances of samples $(n, d)$."""
    around = values - values[0]
    around -= around.mean(axis=0)
    return float(np.einsum("nd,nd->", around, around) / (len(values) - 1))


def moments(samples: ArrayLike, reference: ArrayLike, *, permutations: int = 999, seed: int = 0) -> MomentsResult:
    r"""Compares the first two moments of a candidate's samples with those of a reference posterior's.

    With the means $m, m'$ and the total variances $v, v'$ (sums over dimensions) of the $S$ samples of a fiducial and
    of the $S'$ of its reference, the two numbers are

    $$ r = \exp \left\langle \tfrac{1}{2} \ln \frac{v}{v'} \right\rangle , \quad
       e^2 = \left\langle \frac{|m - m'|^2 - v / S - v' / S'}{v'} \right\rangle , $$

    with means over fiducials. Logarithms are averaged because both sides are then treated alike: with as many samples
    on each, $\ln r$ has the expectation 0 for a right candidate, and $\ln c$ for one $c$ times as wide, whatever
    their number (with different numbers it is off by the order of $1/S - 1/S'$). Every fiducial counts the same,
    however wide its posterior is. What is subtracted in $e^2$ is the expectation of the noise: for a right candidate it
    has the expectation 0, up to the part $1/S$ of the noise of one fiducial, which is not seen as long as
    $\sqrt{L} < S$. Where it is negative $e$ is 0. A shift of all dimensions by half a standard deviation is $e = .5$.

    The p-values are exact for independent samples: if the candidate is right, the samples of both sides are
    exchangeable, and are permuted within their fiducials. That of both numbers together is the smaller one of the two,
    ranked in the same pool.

    Dimensions must be in units that can be compared; the metric of the runner divides by the scale of each. A dimension
    that is fixed counts for nothing. A candidate without any spread at some fiducial has the ratio 0.

    Arguments:
        samples: The samples of the candidate, with shape $(L, S, *event)$, $S \geq 2$.
        reference: Those of the reference posterior, with shape $(L, S', *event)$.
        permutations: The number of permutations; without any, there is no p-value.
        seed: The seed of the permutations.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> reference, samples = rng.normal(size=(50, 64, 3)), 1.2 * rng.normal(size=(50, 64, 3))
        >>> result = moments(samples, reference)
        >>> abs(result.sd_ratio - 1.2) < 4 * result.sd_ratio_stderr, result.pvalue < 0.01
        (True, True)
    """

    _check_permutations(permutations)
    inputs = in_one_unit({"samples": samples, "reference": reference})
    a, b = (as_array(values, name) for name, values in inputs.items())
    if a.ndim < 2 or a.ndim != b.ndim or a.shape[0] != b.shape[0] or a.shape[2:] != b.shape[2:]:
        raise UsageError(
            f"samples has shape {tuple(a.shape)} and reference {tuple(b.shape)}; (L, S, *event) and (L, S', *event) "
            "are needed"
        )
    if 0 in (*a.shape, *b.shape):
        raise UsageError(f"samples has shape {tuple(a.shape)} and reference {tuple(b.shape)}: nothing to compare")
    for name, values in (("samples", a), ("reference", b)):
        if values.shape[1] < LEAST:
            raise UsageError(f"{name} has {values.shape[1]} samples per fiducial; moments needs at least {LEAST}")
    keys = fiducial_keys(seed, Moments.name, np.arange(len(a)))
    found = np.empty((2, len(a), 1 + permutations))
    for l, key in enumerate(keys.tolist()):
        own, other = (as_host(flat(values[l], 1)) for values in (a, b))
        for name, values in (("samples", own), ("reference", other)):
            refuse_non_finite(values[None], name, l)
        found[:, l] = _compare(own, other, permutations, generator(key, "permutations"))
    return MomentsResult.of(*found)


def _check_permutations(permutations: int) -> None:
    if permutations < 0:
        raise UsageError(f"permutations={permutations}: none (0) or more are needed")


@dataclass(frozen=True)
class Moments(Metric):
    r"""The first two moments against a reference posterior as a metric of the runner; see `moments`.

    Its score is the ratio of standard deviations; the error of the mean has a row of its own in the summary.

    Arguments:
        fiducials: How many fiducials are compared: the first ones, so that the score does not depend on the length of
            the run.
        most_samples: The most samples of a fiducial that are used on each side, drawn without replacement.
        permutations: The number of permutations for the p-values.
        normalize: The scale of each dimension. One that is made of samples is made of both sides together.
    """

    fiducials: int = 32
    most_samples: int = 500
    permutations: int = 999
    normalize: str = "auto"

    name = "moments"
    needs = ("reference",)
    column = "sd ratio"
    remarks = True

    def __post_init__(self) -> None:
        for key, least in (("fiducials", 1), ("most_samples", LEAST)):
            if getattr(self, key) < least:
                raise UsageError(f"{key}={getattr(self, key)}: at least {least} is needed")
        _check_permutations(self.permutations)

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        return context.behind(self.normalize)

    def observe(self, block: Block) -> Record:
        chosen = compared_with_reference(block, self.fiducials)
        apart = block.scaling.resolve(self.normalize) in APART
        ruler = block.scale(self.normalize) if apart else None
        found = np.empty((2, len(chosen), 1 + self.permutations))
        sizes = np.zeros(2, np.int64)
        for i, pair in enumerate(reference_pairs(block, chosen, self.name, self.most_samples, LEAST)):
            if ruler is None:
                width = _width(pair.own, pair.reference)
            else:
                width = ruler.rows(slice(pair.row, pair.row + 1))[1][0]
            rng = generator(pair.key, "permutations")
            found[:, i] = _compare(pair.own / width, pair.reference / width, self.permutations, rng)
            sizes[:] = len(pair.own), len(pair.reference)
        record = {"logs": found[0], "squares": found[1], "sizes": sizes}
        return record if block.groups is None else record | {"group": block.groups[chosen]}

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        result = MomentsResult.of(of_sets(records, "logs"), of_sets(records, "squares"))
        compared = what_was_compared(records, len(result.per_fiducial))
        scale = scaling.resolve(self.normalize)
        compared += f"; normalize={scale if scale in APART else 'joint, of both sides'}"
        note = f"sd of all dimensions, ratio; mean off by {result.mean_error:.4f} +- {result.mean_error_stderr:.4f} sd"
        part = Scores(
            result.mean_error, result.mean_error_stderr, 0.0, result.mean_error_pvalue,
            note=f"in sd of the reference; {compared}",
        )  # fmt: skip
        return replace(Scores.of(result, f"{note}; p of both; {compared}"), parts={"mean_error": part})


def _width(own: Floats, reference: Floats) -> Floats:
    r"""The range of each dimension over both sides, which does not know which is which."""
    low = np.minimum(own.min(axis=0), reference.min(axis=0))
    width = np.maximum(own.max(axis=0), reference.max(axis=0)) - low
    return np.where(width > 0, width, 1.0)
