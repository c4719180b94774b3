r"""The table of methods on a terminal: what remains if they are trained again, and what its columns say."""

__all__ = ["console_methods", "display_methods", "explain_methods"]

import textwrap
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd

from .tables import DASH, known, number, plus_minus

if TYPE_CHECKING:
    from rich.table import Table

UNRESOLVED = "not resolved"

# The columns that fit a terminal narrower than so many characters; methods.csv always has them all.
FITTING = {
    100: ("method", "MIRA", "spread", "trained", "verdicts"),
    150: ("method", "MIRA", "spread", "trained", "tied", "best network", "worst network", "verdicts"),
}


def _spread(row: Any, metric: str) -> str:
    value = getattr(row, f"{metric}_spread")
    if not row.networks or not known(value):
        return DASH
    return number(value) if value > 0 else UNRESOLVED


def _network(row: Any, which: str) -> str:
    name = getattr(row, which)
    return f"{name}: {number(getattr(row, which + '_score'))}" if known(name) else DASH


def _verdicts(row: Any) -> str:
    words = Counter(row.verdicts.split("; ") if row.verdicts else [])
    if not row.networks or set(words) <= {DASH}:
        return next(iter(words), DASH)
    return "\n".join(f"{count} {word}" for word, count in words.most_common())


def display_methods(methods: pd.DataFrame) -> pd.DataFrame:
    r"""Returns the table of methods as people read it: numbers with their errors, as text."""

    columns: dict[str, Callable[[Any], str]] = {
        "method": lambda r: r.method,
        "MIRA": lambda r: plus_minus(r.mira, r.mira_total),
        "spread": lambda r: _spread(r, "mira"),
        "energy": lambda r: plus_minus(r.energy, r.energy_total),
        "energy spread": lambda r: _spread(r, "energy"),
        "best network": lambda r: _network(r, "best"),
        "worst network": lambda r: _network(r, "worst"),
        "trained": lambda r: (str(r.networks) if r.networks else DASH) + (f" ({r.failed} failed)" if r.failed else ""),
        "tied": lambda r: r.tied,
        "verdicts": _verdicts,
    }
    rows = list(methods.itertuples(index=False))
    return pd.DataFrame({title: [cell(r) for r in rows] for title, cell in columns.items()})


def _fitting(table: pd.DataFrame, width: int) -> pd.DataFrame:
    narrow = next((columns for limit, columns in FITTING.items() if width < limit), None)
    return table if narrow is None else table[list(narrow)]


def console_methods(methods: pd.DataFrame, width: int) -> "Table":
    r"""Returns the table of methods for a terminal of a given width."""

    from rich import box
    from rich.markup import escape
    from rich.table import Table

    shown = _fitting(display_methods(methods), width)
    table = Table(title="Methods: what remains if they are trained again", box=box.SIMPLE_HEAD)
    for title in shown.columns:
        right = title in ("MIRA", "spread", "energy", "energy spread", "trained")
        table.add_column(title, justify="right" if right else "left", no_wrap=title != "verdicts")
    for row in shown.itertuples(index=False):
        table.add_row(*map(escape, row))
    return table


def explain_methods(methods: pd.DataFrame, rank_by: str, width: int) -> str:
    r"""Returns a line about every column that is shown."""

    by_log, by_energy = rank_by == "log", rank_by != "mira" and methods["energy"].notna().any()
    score = "log score" if by_log else "energy score" if by_energy else "distance of MIRA from its expectation"
    by = {"tiers": "the ranking's rule", "tiers_first": "tier, then energy"} if by_energy else {}
    ordered = f"{by.get(rank_by, score)}; the number is its {score if by_log or by_energy else 'score'}"
    lines = {
        "method": "what was trained; beside it, the candidates that need no training",
        "MIRA": "mean over the trained networks ± its standard error over fiducials and trainings",
        "spread": f"standard deviation of MIRA between trainings; {UNRESOLVED}: no larger than fiducials alone explain",
        "energy": "the energy score, likewise (smaller is better)",
        "energy spread": "standard deviation of the energy score between trainings",
        "best network": f"the best training by {ordered}",
        "worst network": "the worst one, likewise",
        "trained": f"networks that were trained and scored; {DASH} is not trained at all",
        "tied": "whether the method can be told from the best one, over fiducials and trainings",
        "verdicts": "how many of its networks have which verdict",
    }
    columns = _fitting(display_methods(methods), width).columns
    return "\n".join(
        textwrap.fill(lines[title], width, initial_indent=f"  {title:<14} ", subsequent_indent=" " * 17)
        for title in columns
    )
