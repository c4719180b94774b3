r"""Evidence: the mean log Bayes factor of the candidate's model against the true one."""

__all__ = ["Evidence", "EvidenceResult", "log_bayes_factor"]

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import as_array, as_host, refuse_non_finite
from ..errors import UsageError
from ..metric import Block, Context, Metric, Record, Scores
from ..ranks.scaling import Scaling
from ..statistics import mean_stderr
from .means import MeanScore
from .records import joined


@dataclass(frozen=True)
class EvidenceResult(MeanScore):
    r"""The log Bayes factors of one candidate's model against the true one.

    Arguments:
        per_fiducial: The log Bayes factor of each observation, with shape $(L,)$.
    """

    per_fiducial: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"EvidenceResult(score={self.score:.4g}, stderr={self.stderr:.2g})"

    @property
    def score(self) -> float:
        r"""The mean log Bayes factor. Its expectation is $-KL(p \| q) \leq 0$, and 0 for the true model only."""
        return super().score

    @property
    def expected(self) -> float:
        r"""The score of the true model."""
        return 0.0

    @property
    def bayes_factor(self) -> float:
        r"""The geometric mean of the Bayes factors, $\exp$ of the score: what the paper's table prints."""
        return math.exp(self.score)

    @property
    def pvalue(self) -> float:
        r"""One-sided p-value of the candidate's model having made the data, $\min(1, \prod_l BF_l)$.

        If it had, the inverse of every Bayes factor would have expectation 1, and so would their product; by Markov's
        inequality it would exceed $1/p$ with probability $p$ at most. That holds for every number of fiducials and
        every law, as long as the evidences are exact. There is no other side: no model beats the true one on average.
        """
        return math.exp(min(0.0, float(self.per_fiducial.sum())))

    @property
    def largest_share(self) -> float:
        r"""The part of the sum of all ratios that is the largest one: why their arithmetic mean says nothing."""
        ratios = np.exp(self.per_fiducial - self.per_fiducial.max())
        return float(1 / ratios.sum())


def log_bayes_factor(candidate: ArrayLike, true: ArrayLike) -> EvidenceResult:
    r"""Returns the mean log Bayes factor of a candidate's model $q$ against the true model $p$,

    $$ \frac{1}{L} \sum_l \log \frac{q(x_l)}{p(x_l)}, \qquad x_l \sim p , $$

    an estimate of $-KL(p \| q)$. The mean of the logarithms is reported and not the mean of the ratios: under the true
    model the expectation of the ratio is 1 whatever $q$ is, and an average over fiducials is just its largest draw.

    Arguments:
        candidate: The log-evidence of the candidate's model for each observation, with shape $(L,)$.
        true: The log-evidence of the true model, with shape $(L,)$.

    References:
        | Bayes Factors (Kass & Raftery 1995)
        | Testing by Betting (Shafer 2021), for the p-value
    """

    rows = [as_host(as_array(values, name)) for values, name in ((candidate, "candidate"), (true, "true"))]
    if rows[0].ndim != 1 or rows[0].shape != rows[1].shape or rows[0].size == 0:
        raise UsageError(f"the log-evidences have shapes {rows[0].shape} and {rows[1].shape}; (L,) is needed twice")
    for values, name in zip(rows, ("the log-evidence of the candidate", "the log-evidence of the truth"), strict=True):
        refuse_non_finite(values, name)
    return EvidenceResult(rows[0] - rows[1])


@dataclass(frozen=True)
class Evidence(Metric):
    r"""The mean log Bayes factor as a metric of the runner. See `log_bayes_factor`."""

    name = "evidence"
    needs = ("log_evidence",)

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        return ()

    def observe(self, block: Block) -> Record:
        assert block.log_evidence is not None
        evidence = block.log_evidence()
        if evidence.shape not in ((len(block.truths), 1), (len(block.truths), 2)):
            raise UsageError(f"the log-evidences of {block.name} have shape {evidence.shape}; one row each is needed")
        if evidence.shape[1] == 1:
            refuse_non_finite(evidence[:, 0], f"the log-evidence of {block.name}")
            return {"log_evidence": evidence[:, 0]}
        return {"per_fiducial": log_bayes_factor(evidence[:, 0], evidence[:, 1]).per_fiducial}

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        if "log_evidence" in records[0]:
            values = joined(records, "log_evidence")
            note = "mean log-evidence: only its differences between candidates have a meaning"
            return Scores(*mean_stderr(values), note=note, per_fiducial=values)
        result = EvidenceResult(joined(records, "per_fiducial"))
        return Scores.of(
            result,
            f"mean log Bayes factor, geometric mean {result.bayes_factor:.3g}; one-sided p: the product of the ratios. "
            f"Their arithmetic mean is 1 in expectation; the largest of {len(result.per_fiducial)} is "
            f"{result.largest_share:.0%} of it here",
        )
