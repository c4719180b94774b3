r"""Have the chains converged? Rank-normalized split R-hat, bulk and tail effective sample size."""

__all__ = ["ChainDiagnosis", "diagnose", "ess_bulk", "ess_tail", "rhat"]

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..diagnostics import FEWEST_DRAWS, effective_size, halves, normal_scores, rank_rhat, sort_groups
from ..errors import UsageError
from .target import Target, UnitCube, unrolled

TAILS = (0.05, 0.95)


class ChainDiagnosis(NamedTuple):
    r"""The diagnostics of each parameter, all with shape $(d,)$.

    Arguments:
        rhat: The rank-normalized split $\hat R$; below 1.01 the chains agree, above 1.05 they do not. Chains of $n$
            draws that agree have about $1 + \tau / n$, for $n / \tau$ effective draws each: it takes length.
        ess_bulk: The effective number of draws as to location.
        ess_tail: The effective number of draws as to the 5 % and 95 % quantiles, the smaller of the two.
    """

    rhat: NDArray[np.float64]
    ess_bulk: NDArray[np.float64]
    ess_tail: NDArray[np.float64]

    def __str__(self) -> str:
        return (
            f"R-hat up to {self.rhat.max():.3f}, effective draws from {self.ess_bulk.min():.0f} (bulk) "
            f"and {self.ess_tail.min():.0f} (tail)"
        )


def _as_chains(samples: ArrayLike) -> NDArray[np.float64]:
    chains = np.asarray(samples, np.float64)
    if chains.ndim != 3:
        raise UsageError(f"samples have shape {chains.shape}; chains have shape (chains, draws, parameters)")
    if chains.shape[1] < FEWEST_DRAWS:
        raise UsageError(
            f"{chains.shape[1]} draws per chain are too few to diagnose; {FEWEST_DRAWS} or more are needed"
        )
    if not np.isfinite(chains).all():
        raise UsageError("samples contain values that are not finite")
    return chains


def rhat(samples: ArrayLike) -> NDArray[np.float64]:
    r"""Returns the rank-normalized split $\hat R$ of each parameter, with shape $(d,)$.

    The larger of two: that of the values (location), and that of their distances from the median (scale).

    Arguments:
        samples: The chains, with shape $(C, n, d)$, $n \geq 4$.

    References:
        | Rank-Normalization, Folding, and Localization: An Improved R-hat (Vehtari et al. 2021)
        | https://arxiv.org/abs/1903.08008
    """

    return rank_rhat(_as_chains(samples))


def ess_bulk(samples: ArrayLike) -> NDArray[np.float64]:
    r"""Returns the effective number of draws as to location, of rank-normalized chains $(C, n, d)$: $(d,)$."""

    return effective_size(normal_scores(halves(_as_chains(samples))))


def ess_tail(samples: ArrayLike) -> NDArray[np.float64]:
    r"""Returns the effective number of draws as to the tails, of chains $(C, n, d)$: $(d,)$.

    The smaller of those of the 5 % and the 95 % quantile.
    """

    chains = _as_chains(samples)
    below = [chains <= np.quantile(chains, level, axis=(0, 1)) for level in TAILS]
    return np.min([effective_size(halves(b.astype(np.float64))) for b in below], axis=0)


def diagnose(samples: ArrayLike, target: Target | None = None, by: int = 0) -> ChainDiagnosis:
    r"""Returns the diagnostics of chains.

    With a target, exchangeable groups are sorted first and periodic parameters counted from their circular mean.

    Arguments:
        samples: The chains, with shape $(C, n, d)$, $n \geq 4$.
        target: What was sampled, if its groups and periods are to be taken into account.
        by: The coordinate of a group that gives the order of the groups.

    Example:
        >>> chains = np.random.default_rng(0).normal(size=(4, 500, 2))
        >>> print(diagnose(chains))
        R-hat up to 1.001, effective draws from 1712 (bulk) and 1820 (tail)
    """

    chains = _as_chains(samples)
    if target is not None:
        cube = UnitCube(target)
        if cube.groups is not None:
            chains = sort_groups(chains, cube.groups, by)
        chains = unrolled(cube.from_physical(chains), cube.periodic)
    return ChainDiagnosis(rhat(chains), ess_bulk(chains), ess_tail(chains))
