r"""Studies: the same run, repeated over seeds and settings, and summarized in one table."""

__all__ = ["study"]

import json
import logging
import time
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from joblib import Parallel, delayed

from .errors import UsageError
from .progress import Progress
from .ranking import rank
from .report.provenance import provenance
from .report.tables import markdown
from .result import Result
from .run import run

if TYPE_CHECKING:
    from omegaconf import DictConfig

log = logging.getLogger("mira_bench")


def _settings(grid: Mapping[str, list[Any]], repeats: int, first: int) -> Iterator[dict[str, Any]]:
    for values in product(*grid.values()):
        for repeat in range(repeats):
            yield dict(zip(grid, values, strict=True)) | {"seed": first + repeat}


def _winners(arguments: dict[str, Any], setting: dict[str, Any]) -> dict[str, Any]:
    result: Result = run(**(arguments | setting))
    winner = {
        by: rank(list(result.standings), rank_by=by, seed=setting["seed"]).candidate.iloc[0] for by in ("mira", "tiers")
    }
    energies = {s.name: s.energy.score for s in result.standings if s.energy is not None}
    return setting | winner | {"energy": min(energies, key=lambda name: energies[name])}


def _summarize(runs: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    r"""How often each candidate wins, per setting and rule, with the binomial standard error."""
    long = runs.melt(id_vars=[*keys, "seed"], value_vars=["mira", "energy", "tiers"], var_name="rule")
    counts = long.groupby([*keys, "rule", "value"], sort=False).size().rename("wins").reset_index()
    counts = counts.rename(columns={"value": "winner"})
    counts["runs"] = counts.groupby([*keys, "rule"])["wins"].transform("sum")
    counts["share"] = counts["wins"] / counts["runs"]
    counts["stderr"] = (counts["share"] * (1 - counts["share"]) / counts["runs"]) ** 0.5
    return counts


def _display(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    r"""One row per setting, one column per rule: who wins how often."""

    def cell(part: pd.DataFrame) -> str:
        ordered = part.sort_values("share", ascending=False)
        return ", ".join(f"{r.winner} {r.share:.0%}" for r in ordered.itertuples() if r.share >= 0.05)

    rows = []
    for values, part in table.groupby(keys, sort=True):
        row = dict(zip(keys, values if isinstance(values, tuple) else (values,), strict=True))
        for rule in ("mira", "energy", "tiers"):
            row[f"by {rule}"] = cell(part[part["rule"] == rule])
        rows.append({key: str(value) for key, value in row.items()})
    return pd.DataFrame(rows)


def study(cfg: "DictConfig", out: Path, task_name: str, arguments: dict[str, Any]) -> None:
    r"""Repeats a run over the grid and the seeds of `cfg.study`, and writes who wins by each rule.

    Arguments:
        cfg: The config of the experiment; `cfg.study` has a `grid` (setting to values) and `repeats`.
        out: The folder for `study.csv` (one row per setting, rule and winner), `study.md` and `runs.csv`.
        task_name: The name of the task.
        arguments: The arguments of `run` that the grid does not change.
    """

    grid = {str(key): list(values) for key, values in cfg.study.grid.items()}
    unknown = set(grid) - {"fiducials", "samples"}
    if unknown:
        raise UsageError(f"study.grid cannot vary {sorted(unknown)[0]!r}; it can vary fiducials and samples")
    settings = list(_settings(grid, int(cfg.study.repeats), int(cfg.seed)))
    shared = arguments | {"workers": 1, "keep_samples": False}
    start = time.perf_counter()
    pool = Parallel(n_jobs=cfg.workers, backend=cfg.parallel.backend, return_as="generator")
    rows = []
    with Progress(cfg.progress) as bars:
        bars.add("runs", len(settings))
        for row in pool(delayed(_winners)(shared, setting) for setting in settings):
            rows.append(row)
            bars.advance("runs", 1)
    runs = pd.DataFrame(rows)
    table = _summarize(runs, list(grid))
    shown = markdown(_display(table, list(grid)))
    runs.to_csv(out / "runs.csv", index=False)
    table.to_csv(out / "study.csv", index=False)
    note = f"Who is ranked first, in {cfg.study.repeats} repeats of each row (winners of at least 5 % are shown)."
    (out / "study.md").write_text(f"# {task_name}\n\n{shown}\n{note}\n", encoding="utf-8")
    seconds = time.perf_counter() - start
    facts = provenance(task=task_name, seed=cfg.seed, seconds=seconds)
    (out / "provenance.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(shown + "\n" + note)
    print(f"{seconds:.0f} s. Tables: {out}")
    log.info("done in %.1f s", seconds)
