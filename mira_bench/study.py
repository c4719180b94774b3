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
from .report.figures import power_figure, save
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


def _winners(arguments: dict[str, Any], setting: dict[str, Any]) -> list[dict[str, Any]]:
    r"""Who is ranked first by each rule."""
    result: Result = run(**(arguments | setting))
    winner = {
        by: rank(list(result.standings), rank_by=by, seed=setting["seed"]).candidate.iloc[0] for by in ("mira", "tiers")
    }
    energies = {s.name: s.energy.score for s in result.standings if s.energy is not None}
    return [setting | winner | {"energy": min(energies, key=lambda name: energies[name])}]


def _pvalues(arguments: dict[str, Any], setting: dict[str, Any]) -> list[dict[str, Any]]:
    r"""The p-value of every metric for every candidate."""
    summary = run(**(arguments | setting)).summary
    rows = summary[["candidate", "metric", "pvalue"]].itertuples(index=False)
    return [setting | {"candidate": r.candidate, "metric": r.metric, "pvalue": r.pvalue} for r in rows]


def _share(counts: pd.DataFrame) -> pd.DataFrame:
    counts["stderr"] = (counts["share"] * (1 - counts["share"]) / counts["runs"]) ** 0.5
    return counts


def _count_winners(runs: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    r"""How often each candidate wins, per setting and rule, with the binomial standard error."""
    long = runs.melt(id_vars=[*keys, "seed"], value_vars=["mira", "energy", "tiers"], var_name="rule")
    counts = long.groupby([*keys, "rule", "value"], sort=False).size().rename("wins").reset_index()
    counts = counts.rename(columns={"value": "winner"})
    counts["runs"] = counts.groupby([*keys, "rule"])["wins"].transform("sum")
    counts["share"] = counts["wins"] / counts["runs"]
    return _share(counts)


def _count_rejections(runs: pd.DataFrame, keys: list[str], level: float) -> pd.DataFrame:
    r"""How often each metric rejects each candidate, per setting, with the binomial standard error."""
    runs = runs.assign(rejected=runs["pvalue"] < level)
    groups = runs.groupby([*keys, "candidate", "metric"], sort=False)["rejected"]
    return _share(groups.agg(runs="size", share="mean").reset_index())


def _show_winners(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
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


def _show_rejections(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    r"""One row per candidate and metric, one column per setting."""
    wide = table.pivot_table(index=["candidate", "metric"], columns=keys, values="share", sort=False)
    wide.columns = [" ".join(map(str, c)) if isinstance(c, tuple) else str(c) for c in wide.columns]
    return wide.map(lambda share: f"{share:.0%}").reset_index()


def study(cfg: "DictConfig", out: Path, task_name: str, arguments: dict[str, Any]) -> None:
    r"""Repeats a run over the grid and the seeds of `cfg.study`, and writes one table (and for power a figure).

    Arguments:
        cfg: The config of the experiment. `cfg.study` has a `grid` (setting to values), `repeats`, and what to
            `measure`: `winners`, who is ranked first by each rule, or `power`, how often each metric rejects each
            candidate at `level`.
        out: The folder for `study.csv`, `study.md` and `runs.csv`.
        task_name: The name of the task.
        arguments: The arguments of `run` that the grid does not change.
    """

    grid = {str(key): list(values) for key, values in cfg.study.grid.items()}
    unknown = set(grid) - {"fiducials", "samples"}
    if unknown:
        raise UsageError(f"study.grid cannot vary {sorted(unknown)[0]!r}; it can vary fiducials and samples")
    if cfg.study.measure not in ("winners", "power"):
        raise UsageError(f"study.measure={cfg.study.measure!r} is not one of winners, power")
    power = cfg.study.measure == "power"
    settings = list(_settings(grid, int(cfg.study.repeats), int(cfg.seed)))
    shared = arguments | {"workers": 1, "keep_samples": False}
    start = time.perf_counter()
    pool = Parallel(n_jobs=cfg.workers, backend=cfg.parallel.backend, return_as="generator")
    rows = []
    with Progress(cfg.progress) as bars:
        bars.add("runs", len(settings))
        for part in pool(delayed(_pvalues if power else _winners)(shared, setting) for setting in settings):
            rows += part
            bars.advance("runs", 1)
    runs, keys = pd.DataFrame(rows), list(grid)
    if power:
        table = _count_rejections(runs, keys, cfg.study.level)
        shown = markdown(_show_rejections(table, keys))
        note = f"Share of {cfg.study.repeats} repeats in which a metric rejects at the {cfg.study.level:.0%} level, by "
        note += f"{' and '.join(keys)}. The rows of a perfect candidate are false alarms."
        save(power_figure(table, float(cfg.study.level)), out / "figures" / "power")
    else:
        table = _count_winners(runs, keys)
        shown = markdown(_show_winners(table, keys))
        note = f"Who is ranked first, in {cfg.study.repeats} repeats of each row (winners of at least 5 % are shown)."
    runs.to_csv(out / "runs.csv", index=False)
    table.to_csv(out / "study.csv", index=False)
    (out / "study.md").write_text(f"# {task_name}\n\n{shown}\n{note}\n", encoding="utf-8")
    seconds = time.perf_counter() - start
    facts = provenance(task=task_name, seed=cfg.seed, seconds=seconds)
    (out / "provenance.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(shown + "\n" + note)
    print(f"{seconds:.0f} s. Tables: {out}")
    log.info("done in %.1f s", seconds)
