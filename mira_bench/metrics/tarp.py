r"""TARP: expected coverage of balls around random points (Lemos et al. 2023), on the ball ranks."""

__all__ = ["Tarp", "TarpResult", "tarp"]

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..metric import Block, Record, Scores, whole_block
from ..ranks import available_threads
from ..scaling import Scaling
from ..statistics import uniform_pvalue
from ..streams import generator
from .mira import Mira

LEVELS = 101
BOOTSTRAPS = 200


@dataclass(frozen=True)
class TarpResult:
    r"""The expected coverage of one candidate.

    Arguments:
        ranks: The ball ranks $J$, with shape $(L, R)$.
        samples: The number of samples $S$.
        seed: The seed of the bootstrap and of the randomized p-value.
        confidence: The level of the band between `lower` and `upper`.
    """

    ranks: NDArray[np.int32] = field(repr=False)
    samples: int
    seed: int = 0
    confidence: float = 0.95

    @property
    def levels(self) -> NDArray[np.float64]:
        r"""The credibility levels $a$."""
        return np.linspace(0, 1, LEVELS)

    @cached_property
    def per_fiducial(self) -> NDArray[np.float64]:
        r"""The coverage of each fiducial, averaged over its regions, with shape $(L, A)$."""
        # Integer arithmetic: J / S <= a is J <= floor(a S), with a guard against the rounding of a S.
        floor = np.floor(self.levels * self.samples + 1e-9).astype(int)
        ordered = np.sort(self.ranks, axis=1)
        counts = np.stack([np.searchsorted(row, floor, side="right") for row in ordered])
        return np.asarray(counts / self.ranks.shape[1])

    @property
    def coverage(self) -> NDArray[np.float64]:
        r"""The expected coverage, $ECP(a) = P(J / S \leq a)$."""
        return np.asarray(self.per_fiducial.mean(axis=0))

    @property
    def expected(self) -> NDArray[np.float64]:
        r"""The coverage of a perfect candidate with $S$ samples: the diagonal, up to $1 / (S + 1)$."""
        return (np.floor(self.levels * self.samples + 1e-9) + 1) / (self.samples + 1)

    @cached_property
    def _bootstrap(self) -> NDArray[np.float64]:
        fiducials = len(self.ranks)
        weights = generator(self.seed, "tarp bootstrap").multinomial(fiducials, [1 / fiducials] * fiducials, BOOTSTRAPS)
        return weights @ self.per_fiducial / fiducials

    @property
    def lower(self) -> NDArray[np.float64]:
        r"""The lower edge of the band, from resampled fiducials."""
        return np.quantile(self._bootstrap, 0.5 - self.confidence / 2, axis=0)

    @property
    def upper(self) -> NDArray[np.float64]:
        r"""The upper edge of the band."""
        return np.quantile(self._bootstrap, 0.5 + self.confidence / 2, axis=0)

    @property
    def stderr(self) -> NDArray[np.float64]:
        r"""The standard error of the coverage at each level."""
        return np.asarray(self._bootstrap.std(axis=0, ddof=1))

    @property
    def deviation(self) -> float:
        r"""The largest distance between the coverage and its expectation."""
        return float(np.abs(self.coverage - self.expected).max())

    @property
    def area(self) -> float:
        r"""The area between the coverage and its expectation."""
        return float(np.abs(self.coverage - self.expected).mean())

    @property
    def deviation_stderr(self) -> float:
        r"""The standard error of the coverage where the deviation is largest."""
        return float(self.stderr[np.abs(self.coverage - self.expected).argmax()])

    @cached_property
    def pvalue(self) -> float:
        r"""Kolmogorov-Smirnov test that $J$ is uniform, on one center per fiducial: those are independent."""
        return uniform_pvalue(self.ranks[:, 0], self.samples, generator(self.seed, "tarp test"))[1]


def tarp(
    truths: ArrayLike,
    samples: ArrayLike,
    *,
    regions: int = 100,
    seed: int = 0,
    normalize: str = "auto",
    distance: Any = "l2",
    centers: Any = "uniform",
    x: ArrayLike | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    confidence: float = 0.95,
    threads: int | None = None,
) -> TarpResult:
    r"""Returns the expected coverage of a candidate's samples.

    The ball around a random point through the truth holds the fraction $J / S$ of the samples; over fiducials that
    fraction is uniform if the candidate is right. With the same centers, MIRA is a functional of this curve,

    .. math:: \text{MIRA} = \frac{1}{2} + \frac{S}{S + 1} \int_0^1 (2a - 1) \, ECP(a) \, da .

    Arguments:
        truths: The truths, with shape $(L, *event)$.
        samples: The samples of the candidate, with shape $(L, S, *event)$.
        regions: The number of centers per fiducial.
        seed: The seed of centers, ties, bootstrap and test.
        normalize: The scale of the distances, see `mira_bench.scaling`.
        distance: The distance, as in `mira`.
        centers: The reference points, as in `mira`: `"uniform"`, `"prior"`, `"x(w)"`, an array, ...
        x: The observations, with shape $(L, *data)$, for `centers="x(w)"`.
        bounds: The range `(low, high)` that `normalize="task"` uses.
        confidence: The level of the band.
        threads: The number of threads, by default all cores.

    References:
        | Sampling-Based Accuracy Testing of Posterior Estimators for General Inference (Lemos et al. 2023)
        | https://arxiv.org/abs/2302.03026
    """

    block = whole_block(truths, samples, seed=seed, bounds=bounds, x=x)
    ranks = Tarp(regions, normalize, distance, centers).ranks(block, threads or available_threads())
    return TarpResult(ranks, block.samples.shape[1], seed, confidence)


@dataclass(frozen=True)
class Tarp:
    r"""TARP as a metric of the runner; its score is the largest deviation of the coverage. See `tarp`."""

    regions: int = 100
    normalize: str = "auto"
    distance: Any = "l2"
    centers: Any = "uniform"

    name = "tarp"
    version = 1

    def __post_init__(self) -> None:
        self._mira  # noqa: B018 -- checks the settings

    @property
    def _mira(self) -> Mira:
        return Mira(self.regions, self.normalize, distance=self.distance, centers=self.centers)

    def ranks(self, block: Block, threads: int = 1) -> NDArray[np.int32]:
        r"""Returns the ball ranks of a block: those of MIRA with the same settings."""
        return self._mira.ranks(block, threads)

    def observe(self, block: Block) -> Record:
        ranks = self.ranks(block)
        return {"ranks": ranks, "samples": np.array(block.samples.shape[1]), "seed": np.array(block.seed)}

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        ranks = np.concatenate([r["ranks"] for r in records])
        result = TarpResult(ranks, int(records[0]["samples"]), int(records[0]["seed"]))
        return Scores(
            score=result.deviation,
            stderr=result.deviation_stderr,
            expected=0.0,
            pvalue=result.pvalue,
            note=f"largest deviation of the coverage; normalize={scaling.resolve(self.normalize)}",
            result=result,
        )
