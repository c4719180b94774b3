r"""The section of the fiducials: which observations are the worst, and what every candidate makes of one."""

__all__ = ["fiducials"]

from collections.abc import Iterator

import numpy as np
import pandas as pd

from . import charts
from .content import Key, Section, Table
from .reading import Kept

WORST = 8  # fiducials of each candidate in the table
SHOWN = 600  # fiducials that are drawn, the worst among them


def fiducials(run: Kept, what: str, metric: str) -> Iterator[Section]:
    r"""Yields the section, if there is a score for every fiducial.

    Arguments:
        run: The run.
        what: What the score is called.
        metric: The metric that has it.
    """

    scores = run.scores
    names = [name for name in run.ranked["candidate"] if name in set(scores["candidate"])]
    table = scores[scores["metric"] == metric].pivot(index="fiducial", columns="candidate", values="value")
    names = [name for name in names if name in table]
    table = table[names].dropna(how="all") if names else table
    if not names or len(table) < 2:
        return
    # A log score and MIRA are good if they are large, the energy score if it is small.
    badness = table if metric == "energy" else -table
    worst = _worst(badness, names)
    drawn = _drawn(badness, worst)
    rows = [
        {"candidate": name, "fiducial": int(i), "value": float(table.at[i, name])}
        for name in names
        for i in drawn
        if np.isfinite(table.at[i, name])
    ]
    cells = pd.DataFrame({"fiducial": [str(i) for i in worst]})
    for name in names:
        cells[name if name not in cells else f"{name} "] = [f"{table.at[i, name]:.4g}" for i in worst]
    links = {"fiducial": [f"#fiducial-{i}{run.tag}" for i in worst]}
    some = f" {len(drawn)} of {len(table)} are drawn, the worst among them." if len(drawn) < len(table) else ""
    lead = [f"The {what} of each fiducial.{some} Click a point, or follow a link in the table, to see one of them."]
    yield Section(
        "fiducials", "Fiducials", lead, keys=Key.of(names, run.palette),
        charts=[charts.fiducials(rows, run.palette, names, what)],
        tables=[Table(f"The worst fiducials of each candidate, by {what}", cells, links)],
        data=_lookup(run, names, sorted({*drawn, *_linked(run, table.index)})),
    )  # fmt: skip


def _worst(badness: pd.DataFrame, names: list[str]) -> list[int]:
    r"""The worst fiducials of each candidate, those of the first candidate first."""
    found = [int(i) for name in names for i in badness[name].nlargest(WORST).index]
    return list(dict.fromkeys(found))


def _drawn(badness: pd.DataFrame, worst: list[int]) -> list[int]:
    r"""The fiducials that are drawn: all if they are few, else some, evenly spaced, and the worst."""
    everyone = badness.index.to_numpy()
    if len(everyone) <= SHOWN:
        return [int(i) for i in everyone]
    some = everyone[np.linspace(0, len(everyone) - 1, SHOWN).astype(int)]
    return sorted({*map(int, some), *worst})


def _linked(run: Kept, index: pd.Index) -> set[int]:
    r"""The fiducials that other charts lead to."""
    ticks = [told["fiducial"] for one in run.of("convergence").values() for told in one["values"].values()]
    points = [one["guilty"]["fiducial"] for one in run.of("calibration").values() if "guilty" in one]
    return {int(i) for some in (*ticks, *points) for i in some}.intersection(int(i) for i in index)


def _lookup(run: Kept, names: list[str], drawn: list[int]) -> dict[str, object]:
    r"""The scores of some fiducials, and how many are worse, by metric and candidate; MIRA is right in the middle."""
    metrics = [m for m in ("energy", "mira", "log_score", "convergence") if m in set(run.scores["metric"])]
    found = {}
    for metric in metrics:
        part = run.scores[run.scores["metric"] == metric].pivot(index="fiducial", columns="candidate", values="value")
        own = {}
        for name in (name for name in names if name in part):
            column = part[name]
            badness = column if metric in ("energy", "convergence") else -column
            place = badness.rank(ascending=False, method="min")
            own[name] = [
                None
                if i not in column.index or not np.isfinite(column[i])
                else [float(f"{column[i]:.5g}"), None if metric == "mira" else int(place[i])]
                for i in drawn
            ]
        found[metric] = own
    total = int(run.scores["fiducial"].nunique())
    return {"fiducials": drawn, "scores": found, "total": total}
