r"""Expected coverage: the curve that ranks of the truth make, with its band and its test."""

__all__ = ["Coverage"]

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..metric import Scores
from ..statistics import uniform_pvalue
from ..streams import generator

LEVELS = 101
BOOTSTRAPS = 200


@dataclass(frozen=True)
class Coverage:
    r"""The expected coverage of one candidate, whatever the regions are that give the ranks.

    Arguments:
        ranks: The ranks $J$ of the truth, with shape $(L, R)$: one column per region of a fiducial.
        samples: The number of samples $S$.
        seed: The seed of the bootstrap and of the randomized p-value.
        confidence: The level of the band between `lower` and `upper`.
        shared: Whether fiducials share sample sets. The test takes them for independent, so there is no p-value.
    """

    ranks: NDArray[np.int32] = field(repr=False)
    samples: int
    seed: int = 0
    confidence: float = 0.95
    shared: bool = False

    purpose: ClassVar[str] = "coverage"  # names the random streams

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
        rng = generator(self.seed, f"{self.purpose} bootstrap")
        weights = rng.multinomial(fiducials, [1 / fiducials] * fiducials, BOOTSTRAPS)
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
        r"""Kolmogorov-Smirnov test that $J$ is uniform, on one region per fiducial: those are independent."""
        if self.shared:
            return math.nan
        return uniform_pvalue(self.ranks[:, 0], self.samples, generator(self.seed, f"{self.purpose} test"))[1]

    def scores(self, note: str) -> Scores:
        r"""Returns the row of a metric whose score is the largest deviation of the coverage.

        Arguments:
            note: What a reader of the row must know.
        """
        return Scores(self.deviation, self.deviation_stderr, 0.0, self.pvalue, note, result=self)
