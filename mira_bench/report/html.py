r"""A ranking in a notebook: a table and the verdict in a sentence, nothing else."""

__all__ = ["ranking_html", "sentence"]

from collections.abc import Mapping
from html import escape

import pandas as pd

from ..ranking.verdicts import advice
from .tables import display

# In the colors of the notebook, light or dark.
CELL = "text-align:left;vertical-align:top;padding:0.2em 0.8em 0.2em 0"


def sentence(ranking: pd.DataFrame) -> str:
    r"""Returns the verdict on the first candidate, and how many others cannot be told from it."""

    ranked = ranking[(ranking["role"] == "candidate") & ranking["rank"].notna()]
    if ranked.empty:
        return "no candidate has a rank"
    first = ranked.iloc[0]
    tied = ranked["candidate"][ranked["tied"].isin(["tied", "not resolved"])].tolist()
    beside = f", not separated from {', '.join(tied)}" if tied else ""
    verdict = f": {first['verdict']}" if first["verdict"] != "-" else ""
    return f"{first['candidate']} is first{beside}{verdict}"


def ranking_html(task: str, ranking: pd.DataFrame, more: Mapping[str, str]) -> str:
    r"""Returns the ranking as a fragment of HTML; names are text, whatever they look like.

    Arguments:
        task: The name of the task.
        ranking: The ranking, as `Result.ranking` has it.
        more: The titles of further columns, by name.
    """

    table = display(ranking, more)
    shown = table.drop(columns=[title for title in ("by MIRA", "evidence") if title in table])
    head = "".join(f'<th style="{CELL}">{escape(str(title))}</th>' for title in shown.columns)
    rows = []
    for cells, evidence in zip(shown.itertuples(index=False), table["evidence"], strict=True):
        inner = [escape(str(cell)) for cell in cells]
        inner[-1] += f"<br><small>{escape(str(evidence))}</small>"
        rows.append("<tr>" + "".join(f'<td style="{CELL}">{cell}</td>' for cell in inner) + "</tr>")
    first = ranking[(ranking["role"] == "candidate") & ranking["rank"].notna()]
    word = first["verdict"].iloc[0] if len(first) else "-"
    todo = f" To do: {escape(advice(word))}." if word != "-" else ""
    return (
        f"<p><b>{escape(task)}</b>: {escape(sentence(ranking))}.{todo}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )
