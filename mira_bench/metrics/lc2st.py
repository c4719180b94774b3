r"""L-C2ST: is the candidate right at this very observation? A classifier tells (Linhart et al. 2023)."""

__all__ = ["Lc2st", "Lc2stResult", "lc2st"]

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from ..arrays import Array, as_array, as_host, flat, refuse_non_finite
from ..errors import UsageError
from ..metric import Block, Context, Metric, Record, Scores, whole_block
from ..ranks.scaling import Scaling
from ..statistics import mean_stderr
from ..streams import generator, seeded
from .records import joined

CLASSIFIERS = ("mlp", "random_forest")
SHARED = "fiducials share a sample set, and L-C2ST trains on one draw for each"
FEW_PAIRS = 20  # with fewer, the classifier cannot set any aside to know when to stop


@dataclass(frozen=True)
class Lc2stResult:
    r"""L-C2ST of one candidate at some observations.

    Arguments:
        statistics: The mean squared deviation of the classifier's probability from 1/2, over the candidate's samples
            at each observation, with shape $(O,)$.
        null: The same for classifiers that were trained on permuted labels, with shape $(B, O)$.
    """

    statistics: NDArray[np.float64]
    null: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"Lc2stResult(score={self.score:.4g}, stderr={self.stderr:.2g}, observations={len(self.statistics)})"

    @property
    def score(self) -> float:
        r"""The mean statistic over the observations."""
        return float(self.statistics.mean())

    @property
    def stderr(self) -> float:
        r"""The standard error over the observations. They share one classifier, whose own noise is not in it."""
        return mean_stderr(self.statistics)[1]

    @property
    def expected(self) -> float:
        r"""The mean score of a perfect candidate: that of the permuted labels."""
        return float(self.null.mean())

    @property
    def pvalues(self) -> NDArray[np.float64]:
        r"""The p-value of every observation, with shape $(O,)$; the smallest possible one is $1 / (B + 1)$."""
        return np.asarray((1 + (self.null >= self.statistics).sum(axis=0)) / (1 + len(self.null)))

    @property
    def bonferroni(self) -> float:
        r"""The smallest of the p-values, corrected for their number: is any of the observations wrong?"""
        return float(min(1.0, self.pvalues.min() * len(self.pvalues)))

    @property
    def pvalue(self) -> float:
        r"""The p-value of the mean statistic.

        A permutation trains one classifier for all observations, so their mean has a null of its own. Bonferroni's
        p-value could not fall below $O / (B + 1)$: with the few trials that one can afford, it could never reject.
        """
        return float((1 + np.count_nonzero(self.null.mean(axis=1) >= self.score)) / (1 + len(self.null)))


def _check(fiducials: int, trials: int, most_samples: int, classifier: str) -> None:
    for key, value in (("fiducials", fiducials), ("trials", trials), ("most_samples", most_samples)):
        if value < 1:
            raise UsageError(f"{key}={value}: at least one is needed")
    if classifier not in CLASSIFIERS:
        raise UsageError(f"classifier={classifier!r} is not one of {', '.join(CLASSIFIERS)}")


def _observations(x: Array) -> NDArray[np.float64]:
    data = flat(as_host(x), 1)
    refuse_non_finite(data, "x")
    return np.asarray(data)


def _test(
    truths: NDArray[np.float64],
    draws: NDArray[np.float64],
    x: NDArray[np.float64],
    points: NDArray[np.float64],
    trials: int,
    classifier: str,
    seed: int,
) -> Lc2stResult:
    r"""Trains on the pairs (truths, x) against (draws, x), each (L, d); evaluates at the first x and their points."""
    import torch
    from sbi.diagnostics import LC2ST

    number = int(generator(seed, "lc2st").integers(2**31))
    y, q, data, at = (torch.as_tensor(v, dtype=torch.float32) for v in (truths, draws, x, points))
    with seeded(number, number, number), warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # a classifier that did not converge: the null's did not either
        test = LC2ST(
            prior_samples=y, xs=data, posterior_samples=q, seed=number, classifier=classifier, z_score=True,
            num_trials_null=trials, classifier_kwargs={"random_state": number},
        )  # fmt: skip
        test.train_on_observed_data(verbosity=0)
        test.train_under_null_hypothesis(verbosity=0)
        pairs = list(zip(at, data, strict=False))
        statistics = [test.get_statistic_on_observed_data(p, o) for p, o in pairs]
        null = [test.get_statistics_under_null_hypothesis(p, o).scores for p, o in pairs]
    return Lc2stResult(np.array(statistics), np.stack(null, axis=1))


def lc2st(
    truths: ArrayLike,
    samples: ArrayLike,
    x: ArrayLike,
    *,
    fiducials: int = 4,
    most_samples: int = 200,
    trials: int = 50,
    classifier: str = "mlp",
    seed: int = 0,
) -> Lc2stResult:
    r"""Returns the local classifier two-sample test at the first observations.

    A classifier learns to tell the joint pairs $(y^*, x)$ from pairs $(y, x)$ with one draw $y \sim q(\cdot | x)$ of
    the candidate each. At an observation $x_o$ its probability $c$ of "candidate" should be 1/2 everywhere,

    $$ T(x_o) = \frac{1}{M} \sum_{m = 1}^{M} \left( c(y_m, x_o) - \tfrac{1}{2} \right)^2, \qquad
       y_m \sim q(\cdot | x_o) . $$

    The null comes from permuted labels. The work is done by `sbi.diagnostics.LC2ST`, one classifier per trial: tens
    of seconds for a thousand fiducials. The test sees what the classifier can learn from $L$ pairs and no more.

    Arguments:
        truths: The truths, with shape $(L, *event)$.
        samples: The samples of the candidate, with shape $(L, S, *event)$, $S \geq 2$: the first is trained on.
        x: The observations, with shape $(L, *data)$.
        fiducials: The number of observations at which the test is evaluated: the first ones.
        most_samples: The largest number of samples $M$ that are used at each of them.
        trials: The number of null trials $B$.
        classifier: What learns to tell the pairs apart: `"mlp"` (a perceptron) or `"random_forest"`.
        seed: The seed of the classifiers.

    References:
        | L-C2ST: Local Diagnostics for Posterior Approximations in Simulation-Based Inference (Linhart et al. 2023)
        | https://arxiv.org/abs/2306.03580
    """

    _check(fiducials, trials, most_samples, classifier)
    block = whole_block(truths, samples)
    y, values = block.truths, block.samples
    data = _observations(as_array(x, "x"))
    if len(data) != len(y):
        raise UsageError(f"x has {len(data)} observations, the truths have {len(y)} fiducials")
    if len(y) < FEW_PAIRS or values.shape[1] < 2:
        raise UsageError(f"L-C2ST needs at least {FEW_PAIRS} fiducials and 2 samples of each")
    if block.groups is not None:
        raise UsageError(SHARED)
    points = as_host(values[:fiducials, 1 : 1 + most_samples])
    return _test(y, as_host(values[:, 0]), data, points, trials, classifier, seed)


@dataclass(frozen=True)
class Lc2st(Metric):
    r"""L-C2ST as a metric of the runner; its score is the mean statistic. See `lc2st`."""

    fiducials: int = 4
    most_samples: int = 200
    trials: int = 50
    classifier: str = "mlp"

    name = "lc2st"
    packages = ("sbi", "scikit-learn")
    needs = ("x",)

    def __post_init__(self) -> None:
        _check(self.fiducials, self.trials, self.most_samples, self.classifier)

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        return ()

    def observe(self, block: Block) -> Record:
        if block.groups is not None:
            raise UsageError(SHARED)
        if block.samples.shape[1] < 2:
            raise UsageError(f"{block.name} has a single sample per fiducial; L-C2ST needs two")
        chosen = int(np.count_nonzero(block.index < self.fiducials))
        return {
            "truths": block.truths,
            "draws": as_host(block.samples[:, 0]),
            "x": _observations(block.x),
            "points": as_host(block.samples[:chosen, 1 : 1 + self.most_samples]),
            "seed": np.array(block.seed),
        }

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        truths, draws, x, points = (joined(records, key) for key in ("truths", "draws", "x", "points"))
        if len(truths) < FEW_PAIRS:
            return Scores(note=f"not computed: L-C2ST needs at least {FEW_PAIRS} fiducials, there are {len(truths)}")
        result = _test(truths, draws, x, points, self.trials, self.classifier, int(records[0]["seed"]))
        return Scores.of(
            result,
            f"mean statistic at {len(points)} observations; {self.classifier} trained on {len(truths)} pairs, "
            f"{self.trials} null trials; smallest p of one observation, Bonferroni: {result.bonferroni:.2g}",
        )
