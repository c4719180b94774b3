r"""Expected coverage of highest-posterior-density regions, for candidates that have a density."""

__all__ = ["Hpd", "HpdResult", "hpd_coverage"]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import as_array, as_host
from ..errors import UsageError
from ..metric import Block, Context, Metric, Record, Scores
from ..ranks.kernel import break_ties
from ..ranks.scaling import Scaling
from ..streams import fiducial_keys
from .coverage import Coverage
from .records import rank_record, ranks_of


@dataclass(frozen=True)
class HpdResult(Coverage):
    r"""The expected coverage of one candidate's highest-density regions, with one rank per fiducial, $(L, 1)$.

    A curve above the diagonal means that truths lie deeper inside than they should: the candidate is underconfident.
    See `Coverage`.
    """

    purpose = "hpd"


def _ranks(
    truth: NDArray[np.float64], samples: NDArray[np.float64], seed: int, index: NDArray[np.integer], name: str
) -> NDArray[np.int32]:
    r"""The number of samples with a larger log-density than the truth, (L, 1)."""
    # A density of zero is an answer (the truth is outside the support); NaN or an infinite density is not.
    for points, values in (("at the truth", truth[:, None]), ("at a sample", samples)):
        bad = np.isnan(values) | np.isposinf(values)
        if bad.any():
            where = np.argwhere(bad)[0]
            raise UsageError(
                f"the log-density of {name} {points} of fiducial {index[where[0]]} is {values[tuple(where)]}"
            )
    higher = np.count_nonzero(samples > truth[:, None], axis=1).astype(np.int32)
    equal = np.count_nonzero(samples == truth[:, None], axis=1).astype(np.int32)
    return break_ties(higher[:, None], equal[:, None], fiducial_keys(seed, "density ties", index))


def hpd_coverage(
    truth_log_prob: ArrayLike, sample_log_prob: ArrayLike, *, seed: int = 0, confidence: float = 0.95
) -> HpdResult:
    r"""Returns the expected coverage of a candidate's highest-posterior-density regions.

    The smallest highest-density region that holds the truth has, under the candidate $q$ itself, the credibility
    $\alpha = P_{y \sim q(\cdot | x)}[q(y | x) > q(y^* | x)]$. The candidate's own samples estimate it by $J / S$,

    $$ J = \#\{j : q(y_j | x) > q(y^* | x)\} , $$

    which is uniform on $\{0, \dots, S\}$ if the candidate is right; ties are broken at random. The converse does not
    hold: like MIRA and TARP this curve is blind to some errors, and the prior passes it.

    Arguments:
        truth_log_prob: The candidate's log-density at the truths, with shape $(L,)$.
        sample_log_prob: Its log-density at its own samples, with shape $(L, S)$. Neither needs to be normalized.
        seed: The seed of ties, bootstrap and test.
        confidence: The level of the band.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truths, samples = rng.normal(size=300), 0.5 * rng.normal(size=(300, 100))
        >>> result = hpd_coverage(-(truths**2), -(samples**2))
        >>> bool(result.coverage[50] < 0.4), result.pvalue < 0.01
        (True, True)

    References:
        | A Trust Crisis In Simulation-Based Inference? (Hermans et al. 2022)
        | https://arxiv.org/abs/2110.06581
    """

    truth = as_host(as_array(truth_log_prob, "truth_log_prob"))
    samples = as_host(as_array(sample_log_prob, "sample_log_prob"))
    if truth.ndim != 1 or samples.ndim != 2 or len(truth) != len(samples) or samples.size == 0:
        raise UsageError(
            f"truth_log_prob has shape {truth.shape} and sample_log_prob {samples.shape}; (L,) and (L, S) are needed"
        )
    ranks = _ranks(truth, samples, seed, np.arange(len(truth)), "the candidate")
    return HpdResult(ranks, samples.shape[1], seed, confidence)


@dataclass(frozen=True)
class Hpd(Metric):
    r"""The coverage of highest-density regions as a metric of the runner. See `hpd_coverage`.

    Its score is the largest deviation of the coverage.
    """

    name = "hpd"
    needs = ("log_prob",)

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        return ()

    def observe(self, block: Block) -> Record:
        assert block.log_prob is not None
        count = block.samples.shape[1]
        density = block.log_prob()
        wanted = (len(block.truths), count + 1)
        if density.shape != wanted:
            raise UsageError(f"the log-density of {block.name} has shape {density.shape}; {wanted} is needed")
        ranks = _ranks(density[:, 0], density[:, 1:], block.seed, block.index, block.name)
        return rank_record(ranks, block)

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        return HpdResult(*ranks_of(records)).scores("largest deviation of the coverage of highest-density regions")
