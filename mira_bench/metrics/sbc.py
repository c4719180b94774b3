r"""Simulation-based calibration: the ranks of the truth in every dimension (Talts et al. 2018)."""

__all__ = ["Sbc", "SbcResult", "sbc"]

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import as_pair
from ..metric import Block, Record, Scores
from ..ranks import marginal_ranks
from ..scaling import Scaling
from ..statistics import uniform_pvalue
from ..streams import generator


@dataclass(frozen=True)
class SbcResult:
    r"""The marginal ranks of one candidate.

    Arguments:
        ranks: The number of samples below the truth, with shape $(L, d)$.
        samples: The number of samples $S$.
        seed: The seed of the randomized test.
    """

    ranks: NDArray[np.int32]
    samples: int
    seed: int = 0

    @cached_property
    def _tests(self) -> NDArray[np.float64]:
        rng = generator(self.seed, "sbc test")
        return np.array([uniform_pvalue(column, self.samples, rng) for column in self.ranks.T])

    @property
    def statistics(self) -> NDArray[np.float64]:
        r"""Kolmogorov-Smirnov's D of every dimension, with shape $(d,)$."""
        return self._tests[:, 0]

    @property
    def pvalues(self) -> NDArray[np.float64]:
        r"""The p-value of every dimension, with shape $(d,)$."""
        return self._tests[:, 1]

    @property
    def pvalue(self) -> float:
        r"""The smallest p-value, corrected for the number of dimensions."""
        return float(min(1.0, self.pvalues.min() * len(self.pvalues)))


def sbc(truths: ArrayLike, samples: ArrayLike, *, seed: int = 0) -> SbcResult:
    r"""Returns the rank of each truth among its samples, dimension by dimension.

    The rank is uniform on $\{0, \dots, S\}$ if the candidate is right. Ties are broken at random.

    Arguments:
        truths: The truths, with shape $(L, *event)$.
        samples: The samples of the candidate, with shape $(L, S, *event)$.
        seed: The seed of ties and test.

    References:
        | Validating Bayesian Inference Algorithms with Simulation-Based Calibration (Talts et al. 2018)
        | https://arxiv.org/abs/1804.06788
    """

    y, values = as_pair(truths, samples)
    return SbcResult(marginal_ranks(y, values, seed=seed), values.shape[1], seed)


@dataclass(frozen=True)
class Sbc:
    r"""SBC as a metric of the runner; its score is the worst dimension's D. See `sbc`."""

    name = "sbc"
    version = 1

    def observe(self, block: Block) -> Record:
        ranks = marginal_ranks(block.truths, block.samples, seed=block.seed, index=block.index)
        return {"ranks": ranks, "samples": np.array(block.samples.shape[1]), "seed": np.array(block.seed)}

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        ranks = np.concatenate([r["ranks"] for r in records])
        result = SbcResult(ranks, int(records[0]["samples"]), int(records[0]["seed"]))
        worst = int(result.statistics.argmax())
        dims = f"{ranks.shape[1]} dimensions" if ranks.shape[1] > 1 else "1 dimension"
        return Scores(
            score=float(result.statistics[worst]),
            stderr=_stderr(ranks[:, worst], result.samples),
            pvalue=result.pvalue,
            note=f"Kolmogorov-Smirnov D of the worst of {dims} (number {worst}); p corrected for all",
            result=result,
        )


def _stderr(ranks: NDArray[np.int32], samples: int) -> float:
    # D is the distribution function's error where it is largest: a binomial proportion over fiducials.
    u = np.sort((ranks + 0.5) / (samples + 1))
    steps = np.arange(1, len(u) + 1) / len(u)
    p = float(steps[np.abs(steps - u).argmax()])
    return float(np.sqrt(max(p * (1 - p), 0.0) / len(u)))
