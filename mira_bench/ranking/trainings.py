r"""From networks to methods: a score has two errors, that of the fiducials and that of the luck of a training.

Network $k$ of a method scores $v_{kl} = \mu + f_l + a_k + e_{kl}$ on fiducial $l$: some fiducials are hard for all
networks, some networks came out well for all fiducials. The mean over both has the variance

$$ \frac{\sigma_f^2 + \sigma_e^2 / K}{L} + \frac{\sigma_a^2}{K}. $$

The first term is what "this network" would have too; $\sigma_a$ is the spread between trainings, and what it adds is
needed to say something of "this method". Methods are compared by the same components of their difference, network by
network and fiducial by fiducial, because all of them see the same fiducials, centers and training simulations.
"""

__all__ = ["Components", "components", "methods"]

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from ..statistics import FEW_FIDUCIALS, farther_pvalue, holm
from .tiers import TIE_LEVEL, TIER_ORDER, Standing, order, verdict

COLUMNS = [
    "method", "networks", "failed", "tiers", "mira", "mira_stderr", "mira_spread", "mira_total", "energy",
    "energy_stderr", "energy_spread", "energy_total", "tied", "tied_p", "best", "best_score", "worst", "worst_score",
    "verdicts",
]  # fmt: skip


@dataclass(frozen=True)
class Components:
    r"""The mean of the scores of several networks, and what it varies with.

    Arguments:
        mean: The mean over networks and fiducials.
        stderr: Its standard error over fiducials, for these networks.
        spread: The standard deviation between trainings, without the noise of the fiducials; NaN for one network.
        networks: The number of networks.
        fiducials: The number of fiducials.
    """

    mean: float
    stderr: float
    spread: float
    networks: int
    fiducials: int

    @property
    def total(self) -> float:
        r"""The standard error as to the method: over fiducials and trainings. NaN if one network was trained."""
        return math.hypot(self.stderr, self.spread / math.sqrt(self.networks))

    @property
    def pvalue(self) -> float:
        r"""The p-value of a mean of zero, by Student's law with Satterthwaite's number of degrees of freedom."""
        over_fiducials = self.stderr**2
        over_networks = 0.0 if math.isnan(self.spread) else self.spread**2 / self.networks
        variance = over_fiducials + over_networks
        if variance == 0:
            return 1.0 if self.mean == 0 else 0.0
        weights = over_fiducials**2 / max(self.fiducials - 1, 1) + over_networks**2 / max(self.networks - 1, 1)
        return float(2 * scipy.stats.t.sf(abs(self.mean) / math.sqrt(variance), variance**2 / weights))


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
    spread = math.nan
    if networks > 1 and fiducials > 1:
        rest = values - by_fiducial - by_network[:, None] + mean
        noise = (rest**2).sum() / ((networks - 1) * (fiducials - 1))
        spread = math.sqrt(max(by_network.var(ddof=1) - noise / fiducials, 0.0))
    return Components(float(mean), float(stderr), float(spread), networks, fiducials)


def _values(networks: Sequence[Standing], metric: str) -> NDArray[np.float64] | None:
    results = [getattr(s, metric) for s in networks]
    if not results or any(r is None for r in results):
        return None
    return np.stack([r.per_fiducial for r in results])


def _tier(networks: Sequence[Standing]) -> str:
    tiers = sorted((s.tier for s in networks), key=TIER_ORDER.index)
    return tiers[len(tiers) // 2]


def _extremes(networks: Sequence[Standing], rank_by: str) -> dict[str, object]:
    r"""The best and the worst network, with the score that orders them (tiers come first)."""
    if len(networks) < 2:
        return {}
    found: dict[str, object] = {}
    ordered = order(networks, rank_by)
    for key, one in (("best", ordered[0]), ("worst", ordered[-1])):
        result = one.mira if rank_by == "mira" or one.energy is None else one.energy
        found |= {key: one.name, f"{key}_score": math.nan if result is None else result.score}
    return found


def methods(standings: Sequence[Standing], *, rank_by: str = "tiers") -> pd.DataFrame:
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
    rows = []
    compared: dict[str, NDArray[np.float64]] = {}
    for name, group in groups.items():
        good = [s for s in group if s.failure is None]
        row: dict[str, object] = {"method": name, "networks": len(good) if group[0].method else 0}
        row |= {"failed": len(group) - len(good), "tiers": "".join(s.tier for s in good)}
        row |= {"verdicts": "; ".join(verdict(s)[0] for s in good)} | _extremes(good, rank_by)
        key: tuple[object, ...] = (math.inf, 0)
        for metric in ("mira", "energy"):
            values = _values(good, metric)
            if values is None:
                continue
            found = components(values)
            # What is written down has no luck to average over; one training has, and does not show it.
            spread = found.spread if group[0].method else 0.0
            row |= {metric: found.mean, f"{metric}_stderr": found.stderr, f"{metric}_spread": spread}
            row[f"{metric}_total"] = math.hypot(found.stderr, spread / math.sqrt(found.networks))
            if metric == ("mira" if rank_by == "mira" else "energy"):
                # MIRA's expectation depends on the number of samples, which may differ.
                expected = [s.mira.expected for s in good if s.mira is not None] if metric == "mira" else [0.0]
                compared[name] = values - np.asarray(expected)[:, None]
        if good:
            distance = abs(np.mean([s.mira.score - s.mira.expected for s in good if s.mira is not None] or [math.inf]))
            energy = row.get("energy", math.inf)
            key = (distance, 0) if rank_by == "mira" else (TIER_ORDER.index(_tier(good)), energy)
        rows.append((not good, key, row))
    ordered = [row for _, _, row in sorted(rows, key=lambda r: (r[0], r[1] if not r[0] else ()))]
    return pd.DataFrame(_with_ties(ordered, compared, groups, rank_by), columns=COLUMNS)


def _with_ties(
    rows: list[dict[str, object]],
    compared: dict[str, NDArray[np.float64]],
    groups: dict[str, list[Standing]],
    rank_by: str,
) -> list[dict[str, object]]:
    first = compared.get(str(rows[0]["method"])) if rows else None
    pvalues = np.full(len(rows), np.nan)
    if first is None:
        return [row | {"tied": "-"} for row in rows]
    for i, row in enumerate(rows[1:], start=1):
        mine = compared.get(str(row["method"]))
        if mine is not None:
            common = max(len(mine), len(first)) if 1 in (len(mine), len(first)) else min(len(mine), len(first))

            def compare(sign: int, mine: NDArray = mine[:common], first: NDArray = first[:common]) -> float:
                return components(mine - sign * first).pvalue

            pvalues[i] = farther_pvalue(compare) if rank_by == "mira" else compare(1)
    known = ~np.isnan(pvalues)
    pvalues[known] = holm(pvalues[known])
    best_tier = _tier([s for s in groups[str(rows[0]["method"])] if s.failure is None])
    words = ["best"]
    for row, p in zip(rows[1:], pvalues[1:], strict=True):
        good = [s for s in groups[str(row["method"])] if s.failure is None]
        if math.isnan(p):
            words.append("-")
        elif p < TIE_LEVEL or (rank_by != "mira" and _tier(good) != best_tier):
            words.append("no")
        else:
            words.append("tied" if first.shape[1] >= FEW_FIDUCIALS else "not resolved")
    return [row | {"tied": w, "tied_p": p} for row, w, p in zip(rows, words, pvalues, strict=True)]
