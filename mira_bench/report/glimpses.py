r"""Some samples of a few fiducials, few enough to be kept beside the tables: what corner plots are drawn of."""

__all__ = ["Samples", "choose_fiducials", "glimpses"]

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ranking.standing import Standing
from ..ranking.tiers import order
from .details import COMPARED, worst_parameters

FIDUCIALS = 6  # the worst ones, and one that is typical
PARAMETERS = 6
SAMPLES = 200  # of a candidate for a fiducial
FEWEST = 50  # where there are many candidates
NUMBERS = 60_000  # of all candidates together: about half a megabyte

Samples = Callable[[int], NDArray | None]  # those of a fiducial, (S, d), if there are any


def choose_fiducials(standings: Sequence[Standing], rank_by: str, seed: int, count: int) -> dict[int, str]:
    r"""Returns the fiducials that are worth a look, with the reason: the worst of each candidate, and a typical one.

    Arguments:
        standings: All candidates.
        rank_by: The rule of the ranking, which says what bad is.
        seed: The seed of the run.
        count: The number of fiducials.
    """

    ranked = order([s for s in standings if s.failure is None and s.role == "candidate"], rank_by, seed)
    metrics = (COMPARED.get(rank_by, ("", "energy"))[1], "energy", "mira")
    metric = next((m for m in metrics if any(_known(s, m) for s in ranked)), None)
    if metric is None:
        return dict.fromkeys(range(min(count, FIDUCIALS)), "one of the first")
    # A log score and MIRA are good if they are large, the energy score if it is small.
    sign = 1.0 if metric == "energy" else -1.0
    bad = {s.name: sign * np.asarray(s.scores[metric].per_fiducial) for s in ranked if _known(s, metric)}
    worst = {name: np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable") for name, values in bad.items()}
    first, values = next(iter(bad.items()))
    typical = int(np.argsort(values, kind="stable")[len(values) // 2])
    found: dict[int, str] = {}
    for place in range(min(count, FIDUCIALS)):
        for name, places in worst.items():
            if len(found) < FIDUCIALS - 1:
                found.setdefault(int(places[place]), f"{'' if place == 0 else f'{place + 1}. '}worst of {name}")
    return found | ({} if typical in found else {typical: f"typical: the median of {first}"})


def _known(standing: Standing, metric: str) -> bool:
    return metric in standing.scores and standing.scores[metric].per_fiducial is not None


def _labels(names: Sequence[str] | None, dim: int) -> list[str]:
    return [f"dim {i}" for i in range(dim)] if names is None or len(names) != dim else list(names)


def _parameters(standings: Sequence[Standing], dim: int) -> list[int]:
    r"""The parameters that are shown, in their order: all, or those with the smallest p-values of SBC."""
    scored = [s for s in standings if "sbc" in s.scores and s.scores["sbc"].result is not None]
    every = [s for s in scored if s.role == "candidate"] or scored  # a control is wrong on purpose
    worst = worst_parameters([s.scores["sbc"].result for s in every]).tolist() if every else range(dim)
    return sorted([i for i in worst if i < dim][:PARAMETERS])  # SBC has projections behind the parameters


def _short(values: NDArray) -> list[float]:
    return [float(f"{value:.4g}") for value in values.tolist()]


def glimpses(
    standings: Sequence[Standing],
    rank_by: str,
    seed: int,
    names: Sequence[str] | None,
    truths: NDArray[np.float64],
    samples: Mapping[str, Samples],
) -> dict[str, Any]:
    r"""Returns evenly spaced samples of the fiducials that are worth a look, as JSON has them.

    Arguments:
        standings: All candidates.
        rank_by: The rule of the ranking.
        seed: The seed of the run.
        names: The names of the parameters, if they have any.
        truths: The truths, with shape $(L, d)$.
        samples: What gives the samples of each candidate.
    """

    dim = truths.shape[1]
    shown, labels = _parameters(standings, dim), _labels(names, dim)
    chosen = choose_fiducials(standings, rank_by, seed, len(truths))
    share = NUMBERS // max(1, len(samples) * len(chosen) * len(shown))
    most = min(SAMPLES, max(FEWEST, share))
    found: dict[str, Any] = {}
    for i, why in chosen.items():
        own = {}
        for name, draws in samples.items():
            values = draws(i)
            if values is not None and np.isfinite(values[:, shown]).all():
                rows = np.arange(min(most, len(values))) * len(values) // min(most, len(values))
                own[name] = [_short(values[rows, j]) for j in shown]
        if own:
            found[str(i)] = {"why": why, "truth": _short(truths[i, shown]), "samples": own}
    return {"parameters": [labels[j] for j in shown], "of": dim, "fiducials": found} if found else {}
