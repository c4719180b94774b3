r"""The printed values beside ours, cell by cell, with verdicts that are computed.

Both sides of a cell are estimates from finitely many fiducials. The bars that the paper prints are about four times
too wide and would pass anything, so the error of the printed value is taken to be ours, at the paper's number of
fiducials. Where a study has repeats (fresh fiducials, samples, and whatever else follows the seed), the error of one
run is its standard deviation over them, if that is larger than what the run says itself.

Of models that were trained here at another size than the paper's, no number is *reproduced*. The printed ones stand
beside ours, and what is compared is the order of the models.
"""

__all__ = ["OPEN", "Printed", "compare", "ranking_agreement", "status"]

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from ..errors import UsageError
from ..metric import Scores
from ..metrics import Mira
from ..sweeps.study import Run
from ..views import innermost

REPRODUCED, DIFFERS, OPEN, OURS = "reproduced", "differs", "open", "not printed"
LAPTOP = "laptop scale"  # of a model that was trained here, which is not the paper's
LIMIT = 3.0  # standard deviations


@dataclass(frozen=True)
class Printed:
    r"""One number of the paper.

    Arguments:
        value: The number that is printed.
        error: The printed error, if there is one.
        below: Whether it stands for anything smaller (a number that was rounded to zero).
    """

    value: float
    error: float = math.nan
    below: bool = False

    @classmethod
    def read(cls, cell: Any) -> "Printed":
        r"""Reads `0.6638`, `[0.6638, 0.0152]`, `{below: 0.0005}`, or `null` for what only we have."""
        if cell is None:
            return cls(math.nan)
        if isinstance(cell, Mapping):
            return cls(float(cell["below"]), below=True)
        if isinstance(cell, Sequence) and not isinstance(cell, str):
            return cls(float(cell[0]), float(cell[1]))
        return cls(float(cell))


@dataclass(frozen=True)
class Measured:
    r"""What we get for a cell.

    Arguments:
        value: The value, averaged over repeats.
        error: The standard error of the value.
        single: The standard error of a single run.
        expected: What a perfect candidate would get.
        fiducials: The number of fiducials of a run.
        samples: The number of samples of a run.
        is_mira: Whether it is a MIRA score, by which candidates are ranked.
    """

    value: float
    error: float
    single: float
    expected: float
    fiducials: int
    samples: int
    is_mira: bool


def _scores(run: Run, candidate: str, metric: str) -> Scores:
    if metric not in run.scores.get(candidate, {}):
        raise UsageError(f"the paper's table needs metric {metric!r} of candidate {candidate!r}, which was not run")
    return run.scores[candidate][metric]


def _statistic(name: str, run: Run, cell: Mapping[str, Any], metric: str) -> tuple[float, float]:
    r"""Returns the number that the paper prints, and its standard error."""
    scores = _scores(run, cell["candidate"], metric)
    if name == "score":
        return scores.score, scores.stderr
    if name == "pvalue":
        return scores.pvalue, math.nan
    values = scores.per_fiducial
    if values is None:
        raise UsageError(f"metric {metric!r} has no values per fiducial, which statistic={name} needs")
    if "relative_to" in cell:
        other = _scores(run, cell["relative_to"], metric).per_fiducial
        assert other is not None
        values = values - other
    error = float(values.std(ddof=1) / math.sqrt(len(values)))
    if name == "mean":
        return float(values.mean()), error
    if name == "exp_mean":
        mean = math.exp(values.mean())
        return mean, mean * error
    if name == "log10_of_mean_exp":
        return float(logsumexp(values) - math.log(len(values))) / math.log(10), math.nan
    raise UsageError(f"statistic={name!r} is not one of score, pvalue, mean, exp_mean, log10_of_mean_exp")


def _measure(runs: Sequence[Run], cell: Mapping[str, Any], metric: str, statistic: str) -> Measured:
    pairs = np.array([_statistic(statistic, run, cell, metric) for run in runs])
    scores = _scores(runs[0], cell["candidate"], metric)
    fiducials = len(scores.per_fiducial) if scores.per_fiducial is not None else 0
    values, errors = pairs.T
    single = float(errors.mean())
    if len(values) > 1:  # what varies with the seed adds to what a run knows about itself, and never takes away
        single = float(np.fmax(values.std(ddof=1), single))
    return Measured(
        value=float(values.mean()),
        error=single / math.sqrt(len(values)),
        single=single,
        expected=scores.expected if statistic == "score" else math.nan,
        fiducials=fiducials,
        samples=runs[0].samples,
        is_mira=isinstance(innermost(runs[0].metrics[metric]), Mira),
    )


def _matching(runs: Iterable[Run], cell: Mapping[str, Any]) -> list[Run]:
    found = [r for r in runs if all(str(cell[k]) == str(v) for k, v in r.setting.items() if k in cell)]
    if not found:
        raise UsageError(f"the paper's table needs a run that was not made: {dict(cell)}")
    return found


def _z(ours: Measured, printed: Printed, fiducials: float, digits: int) -> float:
    other = ours.single * math.sqrt(ours.fiducials / fiducials) if ours.fiducials and fiducials else ours.single
    rounding = 10.0**-digits / math.sqrt(12)
    return (ours.value - printed.value) / math.sqrt(ours.error**2 + other**2 + rounding**2)


def _verdict(ours: Measured, printed: Printed, z: float) -> str:
    if math.isnan(printed.value):
        return OURS
    if printed.below:
        return REPRODUCED if ours.value <= printed.value else DIFFERS
    return REPRODUCED if abs(z) < LIMIT else DIFFERS


def _judged(chosen: Mapping[str, Any], printed: bool, verdict: str) -> str:
    if not printed:
        return verdict
    if chosen.get("scale", "paper") not in ("laptop", "paper"):
        raise UsageError(f"scale={chosen['scale']!r} is not one of laptop, paper")
    return OPEN if chosen.get("open") else LAPTOP if chosen.get("scale") == "laptop" else verdict


def compare(paper: Mapping[str, Any], runs: Sequence[Run]) -> pd.DataFrame:
    r"""Returns one row per printed cell.

    Arguments:
        paper: The section `paper` of an experiment. `printed` holds the values by row and column; `rows` and `columns`
            say which `candidate`, `metric` and setting of the study a label stands for (a row without an entry is a
            candidate of that name), and may carry `default` (the metric with our defaults), `statistic`, `digits`,
            `fiducials` (the paper's number, if it is not ours), `open` (why the value cannot be judged) and `scale`
            (`laptop`: the candidate is a model at another size than the paper's); `cells`, by row and column, has the
            last word.
        runs: The runs of the study.
    """

    rows = []
    for row, cells in paper["printed"].items():
        for column, given in cells.items():
            chosen = {"candidate": row, "metric": "published"}
            for part in (paper.get("columns", {}).get(column), paper.get("rows", {}).get(row)):
                chosen |= part or {}
            chosen |= paper.get("cells", {}).get(row, {}).get(column, {})
            statistic = chosen.get("statistic", "score")
            matching = _matching(runs, chosen)
            ours = _measure(matching, chosen, chosen["metric"], statistic)
            printed = Printed.read(given)
            fiducials = chosen.get("fiducials", paper.get("fiducials", ours.fiducials))
            z = _z(ours, printed, fiducials, int(chosen.get("digits", 4)))
            default = None
            if "default" in chosen:
                default = _measure(matching, chosen, chosen["default"], chosen.get("default_statistic", "score"))
            rows.append(
                {
                    "row": row,
                    "column": column,
                    "paper": printed.value,
                    "paper_error": printed.error,
                    "ours": ours.value,
                    "ours_error": ours.error,
                    "z": math.nan if printed.below else z,
                    "z_printed_bar": (ours.value - printed.value) / printed.error,
                    "verdict": _judged(chosen, given is not None, _verdict(ours, printed, z)),
                    "default": default.value if default else math.nan,
                    "default_error": default.error if default else math.nan,
                    "expected": ours.expected,
                    "default_expected": default.expected if default else math.nan,
                    "candidate": chosen["candidate"],
                    "is_mira": ours.is_mira,
                    "fiducials": ours.fiducials,
                    "samples": ours.samples,
                    "repeats": len(matching),
                    "below": printed.below,
                }
            )
    return pd.DataFrame(rows)


def ranking_agreement(table: pd.DataFrame) -> tuple[str, list[str]]:
    r"""Says whether candidates are in the same order by the printed scores and by ours.

    The order is that of the distance to the expected score. A pair that is in another order counts only if both we
    and the printed values (with our errors) keep it apart.

    Returns:
        `"same"`, `"same within errors"` or `"differs"`, or `"-"` if nothing can be ranked; and the pairs that differ.
    """

    judged = table[table["is_mira"] & table["verdict"].isin([REPRODUCED, DIFFERS, LAPTOP])]
    # The candidates are along the rows or along the columns; what is fixed is the other label.
    by_columns = judged.groupby("row", sort=False)["candidate"].nunique().gt(1).any()
    fixed, along = ("row", "column") if by_columns else ("column", "row")
    swapped, clashes, pairs = False, [], 0
    for label, group in judged.groupby(fixed, sort=False):
        for a, b in combinations(group.to_dict("records"), 2):
            if a["candidate"] == b["candidate"]:
                continue
            pairs += 1
            theirs, ours = (abs(b[k] - b["expected"]) - abs(a[k] - a["expected"]) for k in ("paper", "ours"))
            if theirs * ours < 0:
                error = math.hypot(a["ours_error"], b["ours_error"])
                if min(abs(theirs), abs(ours)) > LIMIT * error:
                    clashes.append(f"{label}: {a[along]} and {b[along]}")
                else:
                    swapped = True
    if not pairs:
        return "-", []
    return ("differs" if clashes else "same within errors" if swapped else "same"), clashes


def status(table: pd.DataFrame, ranking: str) -> str:
    r"""Returns the status of an item: that of its printed MIRA scores, and which other columns differ.

    Where no MIRA score is printed, it is that of all columns. It is `differs` if one does or the ranking does, else
    `open` if one cannot be judged, else `reproduced`. With models that are not the paper's, it says so, and whether
    they are in the printed order.
    """

    scores, others = table[table["is_mira"]], table[~table["is_mira"]]
    if set(scores["verdict"]) <= {OURS}:
        scores = table
    verdicts = set(scores["verdict"])
    main = DIFFERS if DIFFERS in verdicts or ranking == "differs" else OPEN if OPEN in verdicts else REPRODUCED
    if LAPTOP in verdicts:
        orders = {"differs": "other order", "same within errors": "same order within errors", "-": "no order"}
        main = f"{LAPTOP}, {orders.get(ranking, 'same order')}"
    wrong = others.loc[others["verdict"] == DIFFERS, "column"].unique()
    return main if len(wrong) == 0 else f"{main}; {', '.join(wrong)} {'differs' if len(wrong) == 1 else 'differ'}"
