r"""Reading many runs at once: which folders hold one, which are the same, and which can be compared.

Runs are *comparable*, and share a leaderboard, if all is equal but their candidates and their seed: the content of the
task, the numbers of fiducials, samples and regions, the scale, the metrics' settings, the version of this package. A
candidate on a leaderboard is a name with its content, so the same name trained with two budgets is two of them. Content
is known by hashes, of code and files, not by paths: an edited simulator is another one, a copy of it is not.

A run that belongs to a job of a sweep counts if the job went to its end. Of runs with the same identity, the newest one
counts.
"""

__all__ = ["Collected", "Comparable", "collect_jobs", "collect_runs", "gaps", "group_runs", "reruns", "tidy"]

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ..config import EXECUTION
from ..errors import UsageError
from ..report.outputs import FACTS, read_facts
from ..report.tables import read_table
from .jobs import JOB, SWEEP, Job, commands, expected_contents, expected_jobs, key_of, lasting, read_job

FAILED = 1  # the exit code of a run in which a candidate failed

log = logging.getLogger("mira_bench")

# What must be equal for a comparison: of a run, and of samples in files.
COMPARED = ("fiducials", "samples", "regions", "normalize", "views", "metric")
COMPARED_FILES = ("truths", "x", "names", "layout", "fiducial", "bounds", "thin")
# What neither makes runs incomparable nor belongs to a candidate.
NEUTRAL = ("task", "seed", "candidates", "metrics", "rank_by", "controls", "device", "study", "paper")


def flatten(node: Any, prefix: str = "") -> dict[str, Any]:
    r"""Returns the leaves of nested mappings by their dotted keys."""

    if isinstance(node, Mapping) and node:
        parts = [flatten(value, f"{prefix}.{key}" if prefix else str(key)) for key, value in node.items()]
        return {key: value for part in parts for key, value in part.items()}
    return {prefix: node}


def _varying(parts: Iterable[Mapping[str, Any]]) -> list[str]:
    r"""Returns the keys on which flat mappings differ, in their order."""
    seen: dict[str, set[str]] = {}
    count = 0
    for part in parts:
        count += 1
        for key, value in part.items():
            seen.setdefault(key, set()).add(json.dumps(value, sort_keys=True, default=str))
    present = {key: sum(key in part for part in parts) for key in seen}
    return [key for key, values in seen.items() if len(values) > 1 or present[key] < count]


def _words(settings: Mapping[str, Any]) -> str:
    def one(value: Any) -> str:
        return "[" + ",".join(map(str, value)) + "]" if isinstance(value, list) else str(value)

    return ", ".join(f"{key}={one(value)}" for key, value in settings.items())


@dataclass(frozen=True)
class Collected:
    r"""A run that was found on disk.

    Arguments:
        folder: The folder of the run.
        config: The config of the run, with the values of what is interpolated.
        facts: The content of its `provenance.json`.
        summary: The table `summary.csv`.
        ranking: The table `ranking.csv`.
        job: The content of its `job.json`, if it belongs to a sweep.
    """

    folder: Path
    config: dict[str, Any]
    facts: dict[str, Any]
    summary: pd.DataFrame
    ranking: pd.DataFrame
    job: Job | None = None

    @property
    def task(self) -> str:
        return str(self.facts["task"])

    @property
    def seed(self) -> int:
        return int(self.facts["seed"])

    @property
    def version(self) -> str:
        return str(self.facts["versions"]["mira_bench"])

    @cached_property
    def finished(self) -> float:
        r"""When it ended, in seconds; for runs that do not say it, when the file was written."""
        try:
            return datetime.fromisoformat(self.facts["finished"]).timestamp()
        except (KeyError, TypeError, ValueError):
            return (self.folder / FACTS).stat().st_mtime

    @cached_property
    def hashes(self) -> dict[str, str]:
        r"""The hashes of its task, candidates and metrics, if it has them: content identifies, not where it lies.

        A run that says that nothing is known of its content is like no other, but for its copies.
        """
        told = self.facts.get("identity")
        if told is None:
            return {}
        return {str(key): str(one) for key, one in told.items()} or {"task": self._short(self.facts)}

    @staticmethod
    def _short(thing: Any) -> str:
        return hashlib.sha256(json.dumps(thing, sort_keys=True, default=str).encode()).hexdigest()[:16]

    @cached_property
    def identity(self) -> str:
        r"""What determines the result: two folders with the same one are the same run."""
        named = ("task", "candidates", "candidate", *COMPARED_FILES) if self.hashes else ()
        kept = {key: value for key, value in self.config.items() if key not in (*EXECUTION, *named)}
        return json.dumps([self.task, self.seed, self.version, self.hashes, kept], sort_keys=True, default=str)

    @cached_property
    def told(self) -> dict[str, Any]:
        r"""The settings by which people tell runs apart that cannot be compared, flat."""
        config = self.config
        kept = {key: config[key] for key in (*COMPARED, *COMPARED_FILES) if key in config}
        task = config.get("task") or {}
        kept["task"] = task["model"] if "model" in task else {k: v for k, v in task.items() if k != "candidates"}
        return flatten(kept | {"version": self.version})

    @cached_property
    def compared(self) -> dict[str, Any]:
        r"""What must be equal for a comparison, flat."""
        config = self.config
        pooled = "pooled" in flatten({key: config.get(key) for key in ("normalize", "metric")}).values()
        if not self.hashes:
            # Their samples make the common scale.
            return self.told | ({"candidates": config.get("candidates")} if pooled else {})
        kept = {key: config[key] for key in COMPARED if key in config}
        kept |= {"content": self.hashes["task"], "version": self.version}
        if pooled:
            kept["candidates"] = {name: self.content(name) for name in self._ranked}
        return flatten(kept)

    @cached_property
    def _ranked(self) -> list[str]:
        return self.ranking.loc[self.ranking["role"] == "candidate", "candidate"].tolist()

    def content(self, candidate: str) -> str:
        r"""Returns what tells a candidate from another one of the same name."""
        if not self.hashes:
            return self._short(self.settings(candidate))
        return self.hashes.get(f"candidate:{candidate}", self.hashes["task"])

    @cached_property
    def extra(self) -> dict[str, Any]:
        r"""Root keys that this module does not know, such as a budget: they belong to the candidates."""
        known = (*COMPARED, *COMPARED_FILES, *NEUTRAL, *EXECUTION, *(["candidate"] if self.hashes else []))
        return flatten({key: value for key, value in self.config.items() if key not in known})

    def settings(self, candidate: str) -> dict[str, Any]:
        r"""Returns the settings of a candidate, flat."""
        nodes = (self.config.get("task") or {}).get("candidates") or self.config.get("candidates")
        node = nodes.get(candidate) if isinstance(nodes, Mapping) else None
        if self.hashes and node is None:  # a candidate of every task; npe/0 is a network of npe
            everywhere = self.config.get("candidate") or {}
            node = everywhere.get(candidate, everywhere.get(candidate.rpartition("/")[0]))
            nodes = {candidate: node} if node is not None else nodes
        own = flatten(node, "file" if isinstance(node, str) else "") if node else {}
        # A root key that a candidate's config takes up acts through it; otherwise all candidates may depend on it.
        everyone = nodes.values() if isinstance(nodes, Mapping) else ()
        taken = {key.split(".")[-1] for one in everyone for key in flatten(one)}
        return own | {key: value for key, value in self.extra.items() if key.split(".")[-1] not in taken}

    def per_fiducial(self, candidate: str, metric: str) -> pd.Series:
        r"""Returns the score of each fiducial; empty if the metric has none."""
        s = self._scores
        rows = s[(s["candidate"] == candidate) & (s["metric"] == metric) & (s["view"] == "all")]
        return rows.set_index("fiducial")["value"].sort_index()

    @cached_property
    def _scores(self) -> pd.DataFrame:
        try:
            scores = pd.read_parquet(self.folder / "scores.parquet")
        except OSError:
            scores = pd.DataFrame(columns=["candidate", "metric", "view", "fiducial", "value"])
        return scores[scores["metric"].isin(["mira", "energy"])]


def _read(folder: Path) -> Collected | str:
    r"""Reads a run, or says why it cannot be read."""
    from omegaconf import OmegaConf

    try:
        config: Any = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"))
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        summary, ranking = read_table(folder / "summary.csv"), read_table(folder / "ranking.csv")
        run = Collected(folder, config, facts, summary, ranking, read_job(folder))
        _ = run.task, run.seed, run.version, run.identity, run.compared
        if run.job is not None and (why := _doubt(run.job, facts)):
            return why
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    except Exception as error:  # a damaged file must not hide the good ones
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return run


def _doubt(job: Job, facts: Mapping[str, Any]) -> str:
    r"""Why what is in the folder of a job is not its result; nothing if it is."""
    # A run in which a candidate failed went to its end: the others have their scores.
    if job.status != "done" and not (job.status == "failed" and job.code == FAILED):
        return f"its job is {job.status}" if job.status != "failed" else "its job failed"
    if "fingerprint" in facts and facts["fingerprint"] != job.fingerprint:
        return "what it holds was not made by its job"
    return ""


def collect_runs(folders: Sequence[Path]) -> tuple[list[Collected], list[str]]:
    r"""Finds all runs below folders; returns each run once, and sentences about what was left out."""

    runs: dict[str, Collected] = {}
    notes: list[str] = []
    twice = 0
    for root in folders:
        if not root.is_dir():
            raise UsageError(f"there is no folder {root}")
        for path in sorted(root.rglob("summary.csv")):
            run = _read(path.parent)
            if isinstance(run, str):
                notes.append(f"{path.parent} is left out: {run}")
            elif run.identity in runs:
                other = runs[run.identity]
                twice += other.folder.resolve() != run.folder.resolve()
                runs[run.identity] = run if run.finished > other.finished else other
            else:
                runs[run.identity] = run
    if twice:
        notes.append(f"{twice} folder(s) hold a run that another one holds too; each run counts once, the newest")
    commits = {str((run.facts.get("git") or {}).get("commit", ""))[:10] for run in runs.values()} - {""}
    if len(commits) > 1:
        notes.append(f"the runs were made by different commits of the code: {', '.join(sorted(commits))}")
    return list(runs.values()), notes


RANK = ("done", "running", "failed", "interrupted", "missing")


def _read_job(folder: Path) -> Job | None:
    r"""Reads a job, which is not done if its results are gone."""
    job = read_job(folder)
    elsewhere = job is not None and any(key_of(override) == "out" for override in job.overrides)
    if job is None or job.status != "done" or elsewhere or read_facts(folder):
        return job
    return replace(job, status="missing", reason="it was done, and its results are gone")


def collect_jobs(folders: Sequence[Path]) -> list[Job]:
    r"""Returns all jobs that the sweeps below folders expect or have, each once, at its best."""

    found: list[Job] = []
    for root in folders:
        for path in sorted(root.rglob(SWEEP)):
            contents = expected_contents(path.parent)
            for name, overrides in expected_jobs(path.parent).items():
                there = _read_job(path.parent / name)
                found.append(there or Job(name, overrides, fingerprint=contents.get(name, "")))
        for path in sorted(root.rglob(JOB)):
            job = _read_job(path.parent)
            if job is not None:
                found.append(job)
    best: dict[tuple[str, ...], Job] = {}
    for job in found:
        if job.key not in best or RANK.index(job.status) < RANK.index(best[job.key].status):
            best[job.key] = job
    return list(best.values())


def reruns(folders: Sequence[Path], jobs: Sequence[Job]) -> dict[str, list[str]]:
    r"""Returns the commands that run again what has ended and is not done, each with the names of these jobs."""

    wanted = {tuple(lasting(job.overrides)) for job in jobs if job.status not in ("done", "running")}
    found: dict[str, list[str]] = {}
    for path in sorted({path for root in folders for path in root.rglob(SWEEP)}):
        expected = expected_jobs(path.parent)
        for command, names in commands(path.parent).items():
            again = [name for name in names if tuple(lasting(expected.get(name, []))) in wanted]
            if again:
                found[command] = list(dict.fromkeys([*found.get(command, []), *again]))
    return found


def gaps(jobs: Sequence[Job], runs: Sequence[Collected]) -> dict[str, list[tuple[str, str]]]:
    r"""Returns per task what is not done: jobs that have no run, with their status and reason; seeds are put together.

    A run in which a candidate failed is a run: the leaderboard has a row for the candidate.
    """

    have = {run.job.key for run in runs if run.job is not None}
    found: dict[str, dict[tuple[str, str], list[str]]] = {}
    for job in jobs:
        if job.status == "done" or job.key in have:
            continue
        given = dict(override.split("=", 1) for override in job.overrides if "=" in override)
        task = job.task or given.get("task", "gaussian")
        parts = [part for part in job.name.split(",") if not part.startswith(("task=", "seed="))]
        label = ", ".join(part.removeprefix("candidates=") for part in parts) or "job"
        why = f"{job.status}: {job.reason}" if job.reason else job.status
        found.setdefault(task, {}).setdefault((label, why), []).append(given.get("seed", "0"))
    return {
        task: [(f"{label}, seed {', '.join(seeds)}", why) for (label, why), seeds in rows.items()]
        for task, rows in found.items()
    }


@dataclass(frozen=True)
class Comparable:
    r"""Runs that share a leaderboard.

    Arguments:
        label: The task, and what tells this group from others of the same task.
        runs: The runs that share the leaderboard.
    """

    label: str
    runs: list[Collected]

    @property
    def task(self) -> str:
        return self.runs[0].task

    def entries(self) -> dict[tuple[str, str], list[Collected]]:
        r"""Returns the runs of each candidate and its settings that vary, e.g. `("npe", "budget=1000")`.

        The newest run of a seed comes first. What has the same name and another content is another candidate: where the
        settings do not tell them apart, a hash does.
        """
        whose: dict[str, dict[str, list[Collected]]] = {}
        for run in sorted(self.runs, key=lambda run: (run.seed, -run.finished)):
            for name, role in zip(run.ranking["candidate"], run.ranking["role"], strict=True):
                content = run.content(name) if role == "candidate" else role  # controls depend on the task alone
                whose.setdefault(name, {}).setdefault(content, []).append(run)
        entries: dict[tuple[str, str], list[Collected]] = {}
        for name, found in whose.items():
            shared = [_common([run.settings(name) for run in members]) for members in found.values()]
            labels = _labels(shared, list(found))
            entries |= {(name, label): members for label, members in zip(labels, found.values(), strict=True)}
        return entries


def _common(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    r"""What all of several flat mappings say."""
    return {key: value for key, value in parts[0].items() if all(p.get(key, ...) == value for p in parts)}


def _labels(parts: Sequence[Mapping[str, Any]], contents: Sequence[str], brief: bool = False) -> list[str]:
    r"""Names things by the settings in which they differ, and by their content where that is not enough.

    Arguments:
        parts: The settings of each, flat.
        contents: What each is known by.
        brief: Whether settings of metrics are left out if the others tell enough: they follow root keys.
    """
    if len(parts) == 1:
        return [""]
    keys = _varying(parts)
    plain = [key for key in keys if not key.startswith("metric.")]

    def words(chosen: Sequence[str]) -> list[str]:
        return [_words({key: part[key] for key in chosen if key in part}) for part in parts]

    labels = words(plain) if brief and len(set(words(plain))) == len(parts) else words(keys)
    if len(set(labels)) < len(parts):
        hashes = [f"content={content[:8]}" for content in contents]
        labels = [", ".join(filter(None, pair)) for pair in zip(labels, hashes, strict=True)]
    return labels


def _select(config: Mapping[str, Any], key: str) -> Any:
    node: Any = config
    for part in key.split("."):
        node = node.get(part) if isinstance(node, Mapping) else None
    return node


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value)


def group_runs(runs: Sequence[Collected], by: Sequence[str] = ()) -> list[Comparable]:
    r"""Sorts runs into groups that can be compared.

    Arguments:
        runs: The runs that were found.
        by: Further keys of the config that separate leaderboards, e.g. `budget`.
    """

    for key in by:
        if all(_select(run.config, key) is None for run in runs):
            raise UsageError(f"--by {key}: no run has such a key in its config")
    groups: dict[str, list[Collected]] = {}
    for run in runs:
        compared = run.compared | {key: _select(run.config, key) for key in by}
        groups.setdefault(json.dumps([run.task, compared], sort_keys=True, default=str), []).append(run)
    tasks: dict[str, list[list[Collected]]] = {}
    for members in (part for group in groups.values() for part in _by_metrics(group)):
        tasks.setdefault(members[0].task, []).append(members)
    found = []
    for task, siblings in tasks.items():
        shared = [
            _common([run.told | {key: _select(run.config, key) for key in by} for run in members])
            for members in siblings
        ]
        contents = [members[0].hashes.get("task", "") for members in siblings]
        if len(set(contents)) < len(siblings):
            contents = [Collected._short([run.hashes for run in members]) for members in siblings]
        for told, members in zip(_labels(shared, contents, brief=True), siblings, strict=True):
            found.append(Comparable(f"{task} ({told})" if told else task, members))
    return found


def _by_metrics(runs: Sequence[Collected]) -> list[list[Collected]]:
    r"""Separates runs that have a metric of one name and another content: somebody edited it."""
    seen: dict[str, set[str]] = {}
    for run in runs:
        for key, one in run.hashes.items():
            if key.startswith("metric:"):
                seen.setdefault(key, set()).add(one)
    edited = [key for key, contents in seen.items() if len(contents) > 1]
    parts: dict[tuple[str | None, ...], list[Collected]] = {}
    for run in runs:
        parts.setdefault(tuple(run.hashes.get(key) for key in edited), []).append(run)
    return list(parts.values())


def tidy(groups: Sequence[Comparable]) -> pd.DataFrame:
    r"""Returns one row per run, candidate, metric and view, with all swept keys as columns."""

    runs = [run for group in groups for run in group.runs]
    swept = {o.split("=")[0].lstrip("+~") for run in runs if run.job for o in run.job.overrides}
    swept |= set(_varying([run.extra for run in runs]))
    kept = ("fiducials", "samples", "seed", "task", "candidates", "metrics", "views", *EXECUTION)
    swept = {key for key in swept if key not in kept and key.split(".")[0] not in EXECUTION}
    parts = []
    for group in groups:
        labels = {(name, id(run)): label for (name, label), members in group.entries().items() for run in members}
        for run in group.runs:
            front = {"leaderboard": group.label, "task": run.task, "seed": run.seed}
            front |= {key: run.config.get(key) for key in ("fiducials", "samples")}
            front |= {key: _plain(_select(run.config, key)) for key in sorted(swept)}
            settings = [labels[name, id(run)] for name in run.summary["candidate"]]
            part = run.summary.drop(columns="task").assign(settings=settings)
            for i, (key, value) in enumerate(front.items()):
                part.insert(i, key, value)
            host = run.job.host if run.job else None
            parts.append(part.assign(host=host, seconds=run.facts.get("seconds"), folder=run.folder.as_posix()))
    return pd.concat(parts, ignore_index=True)
