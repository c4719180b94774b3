r"""Studies: the same run, repeated over seeds and settings, and summarized in one table."""

__all__ = ["Run", "distinct", "study"]

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray

from ..config import Asked
from ..errors import RunError, UsageError
from ..metric import Metric, Scores
from ..metrics import choose_metrics
from ..ranking.tiers import TIE_LEVEL, order
from ..report.figures import power_figure, save
from ..report.outputs import announce, finish
from ..report.provenance import provenance
from ..report.tables import markdown
from ..result import Result
from ..runner.progress import Progress
from ..runner.run import perform
from ..statistics import separations
from ..streams import generator

if TYPE_CHECKING:
    from omegaconf import DictConfig

log = logging.getLogger("mira_bench")

MEASURES = ("winners", "power", "scores")
RULES = ("mira", "energy", "tiers_first", "tiers")  # whose winners are compared


@dataclass(frozen=True)
class Run:
    r"""What a study keeps of one run: numbers per fiducial, but no ranks, of which a study would fill the memory.

    Arguments:
        setting: What the study varied: the keys of its grid, its `case` if it has any, and `seed`.
        scores: The scores by candidate and metric, without the metrics' own results.
        metrics: The metrics that were computed, by name.
        samples: The number of samples per fiducial $S$.
        coverage: TARP's levels, the expected coverage there and its standard error by candidate, if it was computed.
    """

    setting: dict[str, Any]
    scores: dict[str, dict[str, Scores]]
    metrics: Mapping[str, Metric]
    samples: int
    coverage: Mapping[str, tuple[NDArray, NDArray, NDArray]] = field(default_factory=dict)

    @classmethod
    def keep(cls, setting: dict[str, Any], result: Result, metrics: Mapping[str, Metric], samples: int) -> "Run":
        r"""Takes from a result what is kept."""
        scores = {s.name: {m: replace(one, result=None) for m, one in s.scores.items()} for s in result.standings}
        tarp = {s.name: s.scores["tarp"].result for s in result.standings if "tarp" in s.scores}
        coverage = {name: (one.levels, one.coverage, one.stderr) for name, one in tarp.items() if one is not None}
        return cls(setting, scores, metrics, samples, coverage)


def _load_task(name: str) -> "DictConfig":
    r"""Reads the config of a task: a study may go from one task to the next."""
    from importlib import resources

    from omegaconf import DictConfig, OmegaConf

    file = resources.files("mira_bench.configs") / "task" / f"{name}.yaml"
    if not file.is_file():
        raise UsageError(f"study cannot vary the task: there is no task {name!r}")
    config = OmegaConf.create(file.read_text(encoding="utf-8"))
    assert isinstance(config, DictConfig)
    return config


def _settings(
    cfg: "DictConfig", task_name: str, repeats: int | None = None
) -> Iterator[tuple[dict[str, Any], "DictConfig", str]]:
    r"""Yields what varies, the config that it makes and its task: every case, every point of the grid, every seed."""
    from omegaconf import OmegaConf

    grid = {str(key): list(values) for key, values in (cfg.study.get("grid") or {}).items()}
    cases = OmegaConf.to_container(cfg.study.get("cases") or OmegaConf.create({}))
    assert isinstance(cases, dict)
    absent = object()
    keys = [str(key) for part in (grid, *cases.values()) for key in part or ()]
    unknown = [key for key in keys if OmegaConf.select(cfg, key, default=absent) is absent]
    if unknown:
        raise UsageError(f"study cannot vary {unknown[0]!r}: the config has no such key")
    for case, overrides in cases.items() or [(None, None)]:
        for values in product(*grid.values()):
            varied = dict(zip(grid, values, strict=True))
            for repeat in range(int(cfg.study.repeats) if repeats is None else repeats):
                seed = {"seed": int(cfg.seed) + repeat}
                one = cfg.copy()
                changes = {**(overrides or {}), **varied, **seed}
                name = str(changes.pop("task", task_name))
                if name != task_name:
                    OmegaConf.update(one, "task", _load_task(name), merge=False, force_add=True)
                for key, value in changes.items():
                    OmegaConf.update(one, str(key), value, merge=False)
                yield ({"case": case} if cases else {}) | varied | seed, one, name


def distinct(cfg: "DictConfig", task_name: str) -> "list[tuple[str, DictConfig, str]]":
    r"""Returns what a study varies besides the seed: a label, the config and the task of each; or raises why not."""

    if cfg.study.measure not in MEASURES:
        raise UsageError(f"study.measure={cfg.study.measure!r} is not one of {', '.join(MEASURES)}")
    if cfg.study.measure != "scores" and cfg.parallel.backend == "dask":
        raise UsageError(f"study.measure={cfg.study.measure} runs on this machine: use parallel.backend=loky")
    found = []
    for setting, one, name in _settings(cfg, task_name, repeats=1):
        label = ", ".join(f"{key}={value}" for key, value in setting.items() if key != "seed")
        found.append((label, one, name))
    return found


def _winners(asked: Asked, setting: dict[str, Any]) -> list[dict[str, Any]]:
    r"""The rank of each candidate by each rule, its energy score, and whether another is significantly better."""
    result = perform(*asked)
    for name, reason in result.failures.items():
        raise RunError(f"who wins cannot be said where {_whose(name)} failed, with {setting}: {reason}")
    ranked = [s for s in result.standings if s.role == "candidate"]
    places = {by: {s.name: i for i, s in enumerate(order(ranked, by, setting["seed"]), 1)} for by in RULES}
    energies = [s.energy.per_fiducial for s in ranked if s.energy is not None]
    beaten = [False] * len(ranked)
    if len(energies) == len(ranked) > 0:
        pvalues = separations(np.stack(energies), generator(setting["seed"], "sign flips"))
        means = np.array([s.mean() for s in energies])
        beaten = [bool(((p < TIE_LEVEL) & (means < mean)).any()) for p, mean in zip(pvalues, means, strict=True)]
    rows = []
    for s, worse in zip(ranked, beaten, strict=True):
        row = setting | {"candidate": s.name, "tier": s.tier, "score": np.nan if s.energy is None else s.energy.score}
        rows.append(row | {"beaten": int(worse)} | {by: places[by][s.name] for by in RULES})
    return rows


def _pvalues(asked: Asked, setting: dict[str, Any]) -> list[dict[str, Any]]:
    r"""The p-value of every metric for every candidate; where there is none, the note says why."""
    rows = []
    for r in perform(*asked).summary.itertuples(index=False):
        metric = r.metric if r.view == "all" else f"{r.metric}@{r.view}"
        why = {"note": r.note if pd.isna(r.pvalue) else ""}
        rows.append(setting | {"candidate": r.candidate, "metric": metric, "pvalue": r.pvalue} | why)
    return rows


def _whose(failure: str) -> str:
    r"""What failed: `Result.failures` has candidates by their name, and metrics as `metric NAME`."""
    return failure if failure.startswith("metric ") else f"candidate {failure!r}"


def _share(counts: pd.DataFrame) -> pd.DataFrame:
    counts["stderr"] = (counts["share"] * (1 - counts["share"]) / counts["runs"]) ** 0.5
    return counts


def _regrets(runs: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    r"""By how much the expected score of each candidate is worse than that of the best one, relative to the latter.

    The expected score is the mean over all repeats, in which all candidates see the same fiducials. It does not depend
    on the number of fiducials, so those settings speak that have the most of them.
    """
    fixed = [key for key in keys if key != "fiducials"]
    if "fiducials" in keys:
        most = runs.groupby(fixed)["fiducials"].transform("max") if fixed else runs["fiducials"].max()
        runs = runs[runs["fiducials"] == most]
    expected = runs.groupby([*fixed, "candidate"], sort=False)["score"].mean().rename("expected").reset_index()
    best = expected.groupby(fixed)["expected"].transform("min") if fixed else expected["expected"].min()
    return expected.assign(regret=expected["expected"] / best - 1)


def _count_winners(runs: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    r"""How often each candidate wins, per setting and rule, its regret, and how often it won though it was beaten."""
    long = runs.melt(id_vars=[*keys, "seed", "candidate", "beaten"], value_vars=list(RULES), var_name="rule")
    groups = long[long["value"] == 1].groupby([*keys, "rule", "candidate"], sort=False)["beaten"]
    counts = groups.agg(wins="size", beaten="mean").reset_index()
    counts["runs"] = counts.groupby([*keys, "rule"])["wins"].transform("sum")
    counts["share"] = counts["wins"] / counts["runs"]
    on = [key for key in keys if key != "fiducials"]
    counts = counts.merge(_regrets(runs, keys), on=[*on, "candidate"], how="left")
    return _share(counts.rename(columns={"candidate": "winner"}))


def _count_rejections(runs: pd.DataFrame, keys: list[str], level: float) -> pd.DataFrame:
    r"""How often each metric rejects each candidate, per setting, with the binomial standard error."""
    # A metric that gave no p-value has not accepted the candidate: such runs do not count.
    runs = runs.assign(rejected=(runs["pvalue"] < level).astype(float).where(runs["pvalue"].notna()))
    groups = runs.groupby([*keys, "candidate", "metric"], sort=False)["rejected"]
    return _share(groups.agg(runs="count", share="mean").reset_index())


def _show_winners(table: pd.DataFrame, keys: list[str]) -> dict[str, pd.DataFrame]:
    r"""Tables by their titles, one row per setting, one column per rule: who wins, and what is lost by it."""

    def names(part: pd.DataFrame) -> str:
        ordered = part.sort_values("share", ascending=False)
        return ", ".join(f"{r.winner} {r.share:.0%}" for r in ordered.itertuples() if r.share >= 0.05)

    def best(part: pd.DataFrame) -> str:
        return f"{part.loc[part['regret'] == 0, 'share'].sum():.0%}"

    def loss(part: pd.DataFrame) -> str:
        return f"{100 * (part['share'] * part['regret']).sum():.2f} ({(part['share'] * part['beaten']).sum():.0%})"

    shown: dict[str, Callable[[pd.DataFrame], str]] = {
        "Who wins (those with at least 5 %)": names,
        "How often the candidate with the best expected energy score wins (the exact one, if it is there)": best,
        "Regret: by how many percent the winner's expected energy score is worse than the best one's; in parentheses, "
        "how often another candidate is significantly better than the winner": loss,
    }
    tables = {}
    for title, cell in shown.items():
        rows = []
        for values, part in table.groupby(keys, sort=False):
            row = dict(zip(keys, values if isinstance(values, tuple) else (values,), strict=True))
            rows.append({key: str(value) for key, value in row.items()})
            rows[-1] |= {f"by {rule}": cell(part[part["rule"] == rule]) for rule in RULES}
        if title.startswith("Who") or table["regret"].notna().all():
            tables[title] = pd.DataFrame(rows)
    return tables


def _show_rejections(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    r"""One row per candidate and metric, one column per setting."""
    wide = table.set_index(["candidate", "metric", *keys])["share"].unstack(keys, sort=False)
    wide.columns = [" ".join(map(str, c)) if isinstance(c, tuple) else str(c) for c in wide.columns]
    return wide.map(lambda share: "-" if pd.isna(share) else f"{share:.0%}").reset_index()


def _many_runs(
    cfg: "DictConfig", task_name: str, make: Callable[["DictConfig", str], Asked]
) -> tuple[list[Any], list[str]]:
    r"""Small runs, many at a time: only what is counted is kept of them. Returns rows, and the names of what varies."""
    settings = list(_settings(cfg, task_name))
    measure = _pvalues if cfg.study.measure == "power" else _winners
    pool = Parallel(n_jobs=cfg.workers, backend=cfg.parallel.backend, return_as="generator")
    rows = []
    with Progress(cfg.progress) as bars:
        bars.add("runs", len(settings))
        calls = ((_alone(make(one, name)), setting) for setting, one, name in settings)
        for part in pool(delayed(measure)(*call) for call in calls):
            rows += part
            bars.advance("runs", 1)
    return rows, [key for key in settings[0][0] if key != "seed"]


def _alone(asked: Asked) -> Asked:
    r"""A small run that leaves nothing behind: it is one of many, and their processes are its workers."""
    how = replace(asked.settings, workers=1, backend="loky", address=None, store=None, keep_samples=False)
    return asked._replace(settings=replace(how, progress=False))


def _whole_runs(
    cfg: "DictConfig", task_name: str, make: Callable[["DictConfig", str], Asked], out: Path
) -> tuple[list[Run], pd.DataFrame, dict[str, str]]:
    r"""Large runs, one after the other, each with all workers; the store keeps what is finished.

    Returns the runs, their summaries, and the metrics that failed. Of a candidate that failed there is nothing to keep.
    """
    settings = list(_settings(cfg, task_name))
    runs, tables = [], []
    failures: dict[str, str] = {}
    with Progress(cfg.progress and len(settings) > 1) as bars:
        bars.add("runs", len(settings))
        for setting, one, name in settings:
            alone = cfg.progress and len(settings) == 1
            task, candidates, how = make(one, name)
            result = perform(task, candidates, replace(how, progress=alone)).in_style(cfg.style)
            for what, reason in result.failures.items():
                if cfg.paper is not None or not what.startswith("metric "):
                    raise RunError(f"{_whose(what)} failed with {setting}: {reason}")
                failures.setdefault(what, f"{reason}, with {setting}")
            log.info("%s", setting)
            runs.append(Run.keep(setting, result, choose_metrics(how.metrics), how.samples))
            tables.append(result.summary.assign(**{k: str(v) for k, v in setting.items()}))
            # The first run of repeats has figures, and with a single run of each case each has its own.
            repeats = set(setting) == {"seed"}
            single = not repeats and bool(cfg.study.get("cases")) and int(cfg.study.repeats) == 1
            if (single or (repeats and len(runs) == 1)) and any(s.mira is not None for s in result.standings):
                place = out / "figures"
                result.save_figures(place if repeats else place / str(setting["case"]).replace(" ", "_"))
            bars.advance("runs", 1)
    return runs, pd.concat(tables), failures


def _write_page(out: Path, title: str, shown: str, note: str) -> None:
    announce(out, "study.md")
    (out / "study.md").write_text(f"# {title}\n\n{shown}\n{note}\n", encoding="utf-8")
    print(shown + "\n" + note)


def _unknown(frame: pd.DataFrame) -> dict[str, str]:
    r"""What failed in a study of p-values, and why."""
    bad = frame[frame["note"].str.startswith("failed: ")]
    return {f"{r.metric} of {r.candidate}": r.note.removeprefix("failed: ") for r in bad.itertuples(index=False)}


def study(
    cfg: "DictConfig",
    out: Path,
    task_name: str,
    make: Callable[["DictConfig", str], Asked],
    facts: Mapping[str, Any] | None = None,
) -> tuple[list[Run], dict[str, str]]:
    r"""Repeats a run over what `cfg.study` varies, and writes one table (and for power over `fiducials` a figure).

    Arguments:
        cfg: The config of the experiment. `cfg.study` varies any keys of it, `task` among them: `grid` (key to values,
            all combinations), `cases` (name to key and value), `repeats` (seeds). It says what to `measure`: `winners`,
            who is ranked first by each rule, and what is lost by it; `power`, how often each metric rejects each
            candidate at `level`; `scores`, all scores.
        out: The folder for the tables.
        task_name: The name of the task.
        make: Makes what a config and the name of its task describe.
        facts: What else `provenance.json` is to say.

    Returns:
        The runs, if `scores` are measured (the other studies have too many to keep), and what failed, with the reason.
    """

    measure = cfg.study.measure
    distinct(cfg, task_name)
    start = time.perf_counter()
    runs: list[Run] = []
    if measure == "scores":
        runs, summary, failures = _whole_runs(cfg, task_name, make, out)
        announce(out, "study.csv")
        summary.to_csv(out / "study.csv", index=False)
    else:
        rows, keys = _many_runs(cfg, task_name, make)
        frame = pd.DataFrame(rows)
        failures = _unknown(frame) if measure == "power" else {}
        if measure == "power":
            table = _count_rejections(frame, keys, cfg.study.level)
            note = (
                f"Share of {cfg.study.repeats} repeats in which a metric rejects at the {cfg.study.level:.0%} level, "
            )
            note += f"by {' and '.join(keys)}. The rows of a perfect candidate are false alarms."
            _write_page(out, task_name, markdown(_show_rejections(table, keys)), note)
            if "fiducials" in keys:
                announce(out, "figures/power.png", "figures/power.pdf")
                save(power_figure(table, float(cfg.study.level)), out / "figures" / "power")
        else:
            table = _count_winners(frame, keys)
            pages = [f"{title}:\n\n{markdown(part)}" for title, part in _show_winners(table, keys).items()]
            _write_page(out, task_name, "\n".join(pages), f"{cfg.study.repeats} repeats of each row.")
        announce(out, "runs.csv", "study.csv")
        frame.to_csv(out / "runs.csv", index=False)
        table.to_csv(out / "study.csv", index=False)
    seconds = time.perf_counter() - start
    finish(out, provenance(task=task_name, seed=cfg.seed, seconds=seconds, failures=failures, **(facts or {})))
    for what, reason in failures.items():
        print(f"{what} failed: {reason}", file=sys.stderr)
    print(f"{seconds:.0f} s. Tables: {out}")
    log.info("done in %.1f s", seconds)
    return runs, failures
