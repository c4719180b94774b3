r"""From networks to methods: a score has two errors, that of the fiducials and that of the luck of a training.

Network $k$ of a method scores $v_{kl} = \mu + f_l + a_k + e_{kl}$ on fiducial $l$: some fiducials are hard for all
networks, some networks came out well for all fiducials. The mean over both has the variance

$$ \frac{\sigma_f^2 + \sigma_e^2 / K}{L} + \frac{\sigma_a^2}{K}. $$

The first term is what "this network" would have too; $\sigma_a$ is the spread between trainings, and what it adds is
needed to say something of "this method". Methods are compared by the same components of their difference, network by
network and fiducial by fiducial, because all of them see the same fiducials, centers and training simulations.
"""

__all__ = ["Components", "components", "method_table"]

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from ..statistics import all_pairs, farther_pvalue
from .standing import TRUST, Standing
from .tiers import order, succession, tie_words
from .verdicts import verdict

METRIC = {"mira": "mira", "log": "log_score"}  # what orders, if it is not the energy score
COLUMNS = [
    "method", "networks", "failed", "tiers", "mira", "mira_stderr", "mira_spread", "mira_total", "energy",
    "energy_stderr", "energy_spread", "energy_total", "log_score", "log_score_stderr", "log_score_spread",
    "log_score_total", "tied", "tied_p", "best", "best_score", "worst", "worst_score",
    "verdicts",
]  # fmt: skip


@dataclass(frozen=True)
class Components:
    r"""The mean of the scores of several networks, and what it varies with.

    Arguments:
        mean: The mean over networks and fiducials.
        stderr: Its standard error over fiducials, for these networks.
        spread: The standard deviation between trainings, without the noise of the fiducials; NaN for one network.
        between: The variance of the mean that the networks show, noise of the fiducials included; NaN for one network.
        noise: The part of it that is noise.
        networks: The number of networks that were averaged over.
        fiducials: The number of fiducials that were averaged over.
    """

    mean: float
    stderr: float
    spread: float
    between: float
    noise: float
    networks: int
    fiducials: int

    @property
    def total(self) -> float:
        r"""The standard error as to the method: over fiducials and trainings. NaN if one network was trained."""
        return math.hypot(self.stderr, self.spread / math.sqrt(self.networks))

    @property
    def pvalue(self) -> float:
        r"""The p-value of a mean of zero.

        The few trainings have few degrees of freedom, and their spread may look small by luck: quantiles of Student's
        law for networks and for fiducials are weighted by their variances (Cochran and Cox), which keeps the level for
        two and more networks. Satterthwaite's single number of degrees of freedom does not: it has 11 % for 5 %.
        """
        over_networks = 0.0 if math.isnan(self.between) else self.between
        over_fiducials = self.stderr**2
        if over_networks + over_fiducials == 0:
            return 1.0 if self.mean == 0 else 0.0
        variance = max(over_networks + over_fiducials - self.noise, over_networks, over_fiducials)
        t = abs(self.mean) / math.sqrt(variance)
        share = over_networks / (over_networks + over_fiducials)

        def excess(log_p: float) -> float:
            tail = 1 - math.exp(log_p) / 2
            few, many = (scipy.special.stdtrit(max(n - 1, 1), tail) for n in (self.networks, self.fiducials))
            return float(share * few + (1 - share) * many) - t

        least, most = -30.0, math.log(1 - 1e-9)
        if excess(least) < 0 or excess(most) > 0:
            return math.exp(least) if excess(least) < 0 else 1.0
        return math.exp(scipy.optimize.brentq(excess, least, most))


def components(values: NDArray[np.float64]) -> Components:
    r"""Returns the components of scores $(K, L)$ of networks on fiducials: a two-way analysis of variance.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> lucky, hard = rng.normal(size=(200, 1)), rng.normal(size=(1, 1000))
        >>> round(components(0.3 * lucky + hard + rng.normal(size=(200, 1000))).spread, 1)
        0.3
    """

    networks, fiducials = values.shape
    by_fiducial, by_network, mean = values.mean(axis=0), values.mean(axis=1), values.mean()
    stderr = by_fiducial.std(ddof=1) / math.sqrt(fiducials) if fiducials > 1 else math.nan
    spread = between = math.nan
    noise = 0.0
    if networks > 1 and fiducials > 1:
        rest = values - by_fiducial - by_network[:, None] + mean
        noise = float((rest**2).sum()) / ((networks - 1) * (fiducials - 1)) / (networks * fiducials)
        between = float(by_network.var(ddof=1)) / networks
        spread = math.sqrt(max(between - noise, 0.0) * networks)
    return Components(float(mean), float(stderr), spread, between, noise, networks, fiducials)


def _values(networks: Sequence[Standing], metric: str) -> NDArray[np.float64] | None:
    results = [getattr(s, metric) for s in networks]
    if not results or any(r is None for r in results):
        return None
    return np.stack([r.per_fiducial for r in results])


def _trust(networks: Sequence[Standing]) -> int:
    r"""How much the middle network is trusted."""
    places = sorted(s.trust for s in networks) or [len(TRUST)]
    return places[len(places) // 2]


def _extremes(networks: Sequence[Standing], rank_by: str) -> dict[str, object]:
    r"""The best and the worst network, with the score that orders them (tiers come first)."""
    if len(networks) < 2:
        return {}
    found: dict[str, object] = {}
    ordered = order(networks, rank_by)
    for key, one in (("best", ordered[0]), ("worst", ordered[-1])):
        result = getattr(one, METRIC.get(rank_by, "energy")) or one.mira
        found |= {key: one.name, f"{key}_score": math.nan if result is None else result.score}
    return found


def method_table(standings: Sequence[Standing], *, rank_by: str = "tiers") -> pd.DataFrame:
    r"""Returns one row per method, best first: its mean, the two errors, and whether it is tied with the best.

    Candidates that were not trained stand beside them as methods without a spread. The order is that of the ranking
    (the tier of the middle network, then energy; or the distance of MIRA from its expectation), and what orders is
    compared. Networks that failed are counted and left out; tiers and verdicts are in the order of the others. A spread
    of zero is one that is not resolved: the networks differ no more than the error over fiducials explains.
    """

    groups: dict[str, list[Standing]] = {}
    for s in standings:
        if s.role == "candidate":
            groups.setdefault(s.method or s.name, []).append(s)
    rows: list[dict[str, object]] = []
    trust: list[int] = []
    compared: dict[str, NDArray[np.float64]] = {}
    for name, group in groups.items():
        good = [s for s in group if s.failure is None]
        row: dict[str, object] = {"method": name, "networks": len(good) if group[0].method else 0}
        row |= {"failed": len(group) - len(good), "tiers": "".join(s.tier for s in good)}
        row |= {"verdicts": "; ".join(verdict(s)[0] for s in good)} | _extremes(good, rank_by)
        for metric in ("mira", "energy", "log_score"):
            values = _values(good, metric)
            if values is None:
                continue
            found = components(values)
            # What is written down has no luck to average over; one training has, and does not show it.
            spread = found.spread if group[0].method else 0.0
            row |= {metric: found.mean, f"{metric}_stderr": found.stderr, f"{metric}_spread": spread}
            row[f"{metric}_total"] = math.hypot(found.stderr, spread / math.sqrt(found.networks))
            if metric == METRIC.get(rank_by, "energy"):
                # MIRA's expectation depends on the number of samples, which may differ.
                expected = [s.mira.expected for s in good if s.mira is not None] if metric == "mira" else [0.0]
                compared[name] = (-1 if metric == "log_score" else 1) * (values - np.asarray(expected)[:, None])
        rows.append(row)
        trust.append(_trust(good))
    return pd.DataFrame(_in_order(rows, trust, compared, rank_by), columns=COLUMNS)


def _in_order(
    rows: list[dict[str, object]], trust: list[int], compared: dict[str, NDArray[np.float64]], rank_by: str
) -> list[dict[str, object]]:
    r"""The rows, best first, with what tells each from the first one."""
    values = [compared.get(str(row["method"])) for row in rows]

    def compare(i: int, j: int) -> float:
        mine, other = values[i], values[j]
        if mine is None or other is None:
            return math.nan
        several = 1 not in (len(mine), len(other))
        common = min(len(mine), len(other)) if several else max(len(mine), len(other))

        def differ(sign: int) -> float:
            return components(mine[:common] - sign * other[:common]).pvalue

        return farther_pvalue(differ) if rank_by == "mira" else differ(1)

    pvalues = all_pairs(len(rows), compare)
    scores = [math.inf if v is None else float(v.mean()) for v in values]
    if rank_by == "mira":
        scores = [abs(score) for score in scores]
    by_tier = rank_by in ("tiers", "tiers_first")
    trusted = trust if by_tier else [0] * len(rows)
    ordered = succession(trusted, scores, pvalues if rank_by == "tiers" else None)
    ordered.sort(key=lambda i: values[i] is None)
    if not ordered or values[ordered[0]] is None:
        return [rows[i] | {"tied": "-"} for i in ordered]
    first = ordered[0]
    against = np.array([math.nan, *(pvalues[first, i] for i in ordered[1:])])
    same = [trusted[i] == trusted[first] for i in ordered]
    best = values[first]
    assert best is not None
    words = tie_words(against, same, best.shape[1])
    return [rows[i] | {"tied": word, "tied_p": p} for i, word, p in zip(ordered, words, against, strict=True)]
