r"""Samples in the order of Markov chains: how many independent ones they are worth, and whether chains agree."""

__all__ = [
    "FEWEST_DRAWS", "FIDUCIALS", "autocorrelated", "chain_rhat", "effective_samples", "effective_size", "halves",
    "normal_scores", "rank_rhat", "sort_groups",
]  # fmt: skip

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import special

from .arrays import Array, as_array, as_host, flat
from .streams import generator

FIDUCIALS = 32  # the effective sample size is found on so many fiducials, evenly spaced
PARAMETERS = 64  # and on so many parameters
ENTRIES = 2**22  # samples of parameters that are looked at together: about a third of a gigabyte
FEWEST = 8  # with fewer samples there are no autocorrelations to speak of
ENOUGH = 0.5  # of the samples
FEWEST_DRAWS = 4  # per chain: two in each half


def _autocorrelations(z: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""The autocorrelations of chains $(m, n, p)$ at all lags, $(n, p)$, with the variance between chains."""
    count = z.shape[1]
    centered = z - z.mean(axis=1, keepdims=True)
    spectrum = scipy.fft.rfft(centered, scipy.fft.next_fast_len(2 * count, real=True), axis=1)
    covariance = scipy.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :count].mean(axis=0) / count
    within = covariance[0] * count / (count - 1)
    total = covariance[0] + z.mean(axis=1).var(axis=0, ddof=1)
    # A constant parameter has no variance.
    ratio = np.divide(within - covariance, total, out=np.ones_like(covariance), where=total > 1e-12)
    rho = 1 - ratio
    rho[0] = 1.0
    return np.asarray(rho)


def halves(chains: NDArray) -> NDArray:
    r"""Returns both halves of chains $(m, n, p)$ as chains of their own, $(2m, n / 2, p)$: a drift then shows."""

    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def normal_scores(chains: NDArray) -> NDArray[np.float64]:
    r"""Returns chains $(m, n, p)$ with normal quantiles of the ranks among all draws in place of the values.

    Heavy tails then do not matter, and the result does not depend on the parameterization.
    """

    ranks = scipy.stats.rankdata(chains.reshape(-1, chains.shape[2]), axis=0)
    return np.asarray(special.ndtri((ranks - 0.375) / (len(ranks) + 0.25)).reshape(chains.shape))


def effective_size(chains: NDArray) -> NDArray[np.float64]:
    r"""Returns the effective number of draws in chains $(m, n, p)$ with $m \geq 2$, as to their mean: $(p,)$."""

    rho = _autocorrelations(chains)
    draws, count = chains.shape[0] * chains.shape[1], max((chains.shape[1] - 1) // 2, 1)
    even, odd = rho[: 2 * count : 2], rho[1 : 2 * count : 2]
    pairs = even + odd
    # Geyer's initial sequence: sums of neighbors are positive and decrease for a reversible chain, so the first one
    # that is not positive ends the sum (or the last one there is), and one that increases is noise.
    positive = np.logical_and.accumulate(pairs > 0, axis=0)
    end = np.minimum(positive.sum(axis=0), count - 1)
    monotone = np.where(np.arange(count)[:, None] < end, np.minimum.accumulate(pairs, axis=0), 0.0)
    last = np.maximum(even[end, np.arange(even.shape[1])], 0.0)
    tau = 2 * monotone.sum(axis=0) - 1 + last
    constant = np.ptp(chains, axis=(0, 1)) == 0
    return np.asarray(np.where(constant, draws, draws / np.maximum(tau, 1 / np.log10(draws))))


def effective_samples(samples: Array) -> float:
    r"""Returns the effective number of samples per fiducial, if the samples are in the order of a chain.

    The median over fiducials (up to 32) of the smallest bulk effective sample size of a parameter (up to 64), by
    Geyer's initial monotone sequence on the rank-normalized halves of the chain. Independent samples give about $S$;
    chains that were joined one behind the other count as one.

    Arguments:
        samples: The samples, with shape $(L, S, *event)$: an array, a tensor, or what is on disk.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> effective_samples(np.repeat(rng.normal(size=(9, 250, 2)), 4, axis=1)) < 300
        True

    References:
        | Practical Markov Chain Monte Carlo (Geyer 1992)
        | Rank-Normalization, Folding, and Localization: An Improved R-hat (Vehtari et al. 2021)
        | https://arxiv.org/abs/1903.08008
    """

    return _median(samples)


def _median(samples: Array, shuffle: np.random.Generator | None = None) -> float:
    fiducials, count = samples.shape[:2]
    if count < FEWEST:
        return float(count)
    smallest = []
    for l in _chosen(fiducials, FIDUCIALS):
        values = flat(as_array(samples[l : l + 1], "samples"), 2)[0]
        order = slice(None) if shuffle is None else shuffle.permutation(count)
        some = _chosen(values.shape[1], PARAMETERS)
        parts = np.array_split(some, -(-len(some) * count // ENTRIES))
        chains = (as_host(values[:, part])[order][None] for part in parts if len(part))
        smallest.append(min(effective_size(normal_scores(halves(chain))).min() for chain in chains))
    return float(np.median(smallest))


def _chosen(count: int, most: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, count - 1, most).astype(np.intp))


def autocorrelated(samples: Array) -> float | None:
    r"""Returns the effective number of samples if it is less than half of $S$, and none otherwise.

    The smallest of many noisy estimates is too small even for independent samples: .5 S for 50 samples of 10
    parameters. So the same samples in a random order must give twice as much for the order to be the reason.
    """

    effective = effective_samples(samples)
    if effective >= ENOUGH * samples.shape[1]:
        return None
    # With few fiducials one order is as noisy as the estimate itself: several, and the smallest counts.
    orders = max(1, FIDUCIALS // samples.shape[0])
    shuffled = min(_median(samples, generator(0, "order", i)) for i in range(orders))
    return effective if effective < ENOUGH * shuffled else None


def _split_rhat(z: NDArray[np.float64]) -> NDArray[np.float64]:
    count = z.shape[1]
    between = z.mean(axis=1).var(axis=0, ddof=1)
    within = z.var(axis=1, ddof=1).mean(axis=0)
    # Chains that do not move have no variance within: at one place all of them agree, at several they never will.
    stuck = np.where(between > 0, np.inf, 1 / count)
    ratio = np.divide(between, within, out=stuck, where=within > 0)
    return np.asarray(np.sqrt(ratio + (count - 1) / count))


def rank_rhat(chains: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Returns the rank-normalized split $\hat R$ of chains $(m, n, p)$: $(p,)$; see `mira_bench.inference.rhat`."""

    split = halves(chains)
    folded = np.abs(split - np.median(split, axis=(0, 1)))
    return np.maximum(_split_rhat(normal_scores(split)), _split_rhat(normal_scores(folded)))


def chain_rhat(samples: Array, chains: int) -> NDArray[np.float64] | None:
    r"""Returns the largest $\hat R$ of a parameter (of up to 64) for each fiducial; none if chains are too short.

    Arguments:
        samples: The samples, with shape $(L, S, d)$, one chain behind the other.
        chains: The number of chains.
    """

    fiducials, count, dim = samples.shape
    if count // chains < FEWEST_DRAWS or count % chains:
        return None
    some = _chosen(dim, PARAMETERS)
    each = (as_host(samples[l][:, some]).reshape(chains, -1, len(some)) for l in range(fiducials))
    return np.array([rank_rhat(one).max() for one in each])


def sort_groups(samples: NDArray, groups: NDArray[np.integer], by: int = 0) -> NDArray:
    r"""Returns samples whose exchangeable groups are in the order of one of their coordinates.

    For diagnostics and views: labels that switch are no disagreement between chains. A sampler that sorted its state
    would not be exact.

    Arguments:
        samples: The samples, with shape $(*, d)$.
        groups: The indices of the coordinates of each group, with shape $(G, k)$.
        by: Which of the $k$ coordinates gives the order.
    """

    blocks = samples[..., groups]
    order = np.argsort(blocks[..., by], axis=-1)
    out = np.array(samples)
    out[..., groups] = np.take_along_axis(blocks, order[..., None], axis=-2)
    return out
