r"""The command line: no verb is a Hydra run, verbs are for the rest."""

__all__ = ["main"]

import argparse
import dataclasses
import difflib
import logging
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .errors import RunError, UsageError

if TYPE_CHECKING:
    from omegaconf import DictConfig

log = logging.getLogger("mira_bench")

OK, FAILED, USAGE = 0, 1, 2
DEFAULT_CANDIDATE = "npe"  # of a task that has no candidates of its own

# What decides how candidates are sampled; samples in files are past that.
SAMPLING = (
    "fiducials",
    "samples",
    "controls",
    "workers",
    "parallel.backend",
    "parallel.address",
    "device",
    "store",
    "keep_samples",
    "dry",
    "views",
    "budget",
    "seeds",
)

HELP = """\
mira_bench: which of these posteriors can I trust, and by how much is it better than the next one?

  python -m mira_bench [run] [key=value ...]   simulate, sample, score and rank (a Hydra run)
  python -m mira_bench score truths.npy npe=npe.npy mcmc=chains.nc ...   samples that exist already (score --help)
  python -m mira_bench -m key=a,b ...          a sweep: every combination is a job (a comma separates values)
  python -m mira_bench collect DIR ...         runs of sweeps and machines in one table, leaderboard and figure
  python -m mira_bench list [tasks|candidates|metrics|experiments]
  python -m mira_bench store [list|prune] ...  what the store holds, and how to empty it
  python -m mira_bench plan --width 0.1 ...    how many fiducials are needed to see an error of this size
  python -m mira_bench reference task=slcp ... reference samples of a task's posterior, made ahead and kept
  python -m mira_bench paper [ID ...|all] [--quick]   the paper's tables and figures: their status, or made again

Examples
  python -m mira_bench                                         the Gaussian toy of the paper
  python -m mira_bench task=gaussian fiducials=200 'candidates=[correct,biased]' workers=2
  python -m mira_bench task=conjugate metric.mira.normalize=none out=results/mine seed=1
  python -m mira_bench task=mine task.file=sim.py 'candidates=[npe,nle,mine.py:build]' budget=10000 dry=true

Keys that every task takes
  fiducials= samples= regions= seed= candidates=[..] metrics=[..] normalize= rank_by=tiers|mira workers= device=
  budget= (simulations to train on) seeds= (trainings of each network)
  out= sweep= store= keep_samples= progress= dry=true (print the cost first), experiment=, and metric.<name>.<setting>=
"""


def _configs(group: str) -> list[str]:
    from importlib import resources

    folder = resources.files("mira_bench.configs") / group
    if not folder.is_dir():
        return []
    found = [f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")]
    for inner in folder.iterdir():
        if inner.is_dir() and not inner.name.startswith("_"):
            found += [f"{inner.name}/{name}" for name in _configs(f"{group}/{inner.name}")]
    return sorted(found)


def _task_candidates(task: str) -> list[str]:
    from importlib import resources

    from omegaconf import OmegaConf

    text = (resources.files("mira_bench.configs") / "task" / f"{task}.yaml").read_text(encoding="utf-8")
    config = OmegaConf.create(text)
    return [] if OmegaConf.is_missing(config, "candidates") else list(config.candidates)


def _listing(what: str | None = None) -> str:
    parts = {
        "tasks": [f"  {task}" for task in _configs("task")],
        "candidates": [
            f"  for every task: {', '.join(_configs('candidate'))}",
            *(f"  {task}: {', '.join(_task_candidates(task))}" for task in _configs("task")),
        ],
        "metrics": [f"  {metric}" for metric in _configs("metric")],
        "experiments": [f"  {experiment}" for experiment in _configs("experiment")],
    }
    chosen = parts if what is None else {what: parts[what]}
    return "\n".join("\n".join([title.capitalize(), *lines]) for title, lines in chosen.items())


def _list(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="mira-bench list", description="What exists.")
    parser.add_argument("what", nargs="?", choices=["tasks", "candidates", "metrics", "experiments"])
    print(_listing(parser.parse_args(arguments).what))
    return OK


def _store(arguments: Sequence[str]) -> int:
    from .cli_store import main as store_verb

    return store_verb(arguments)


def _plan(arguments: Sequence[str]) -> int:
    from .cli_plan import main as plan_verb

    return plan_verb(arguments)


def _score(arguments: Sequence[str]) -> int:
    from .cli_score import main as score_verb

    return score_verb(arguments)


def _collect(arguments: Sequence[str]) -> int:
    from .cli_collect import main as collect_verb

    return collect_verb(arguments)


def _paper(arguments: Sequence[str]) -> int:
    from .cli_paper import main as paper_verb

    return paper_verb(arguments, lambda words: _check_keys(words) or _hydra(words))


def _reference(arguments: Sequence[str]) -> int:
    from .cli_reference import main as reference_verb

    return reference_verb(arguments, _check_keys, _make)


def _choose(kind: str, asked: Any, existing: Sequence[str]) -> list[str]:
    if asked is None:
        return list(existing)
    if isinstance(asked, str):
        asked = [asked]
    unknown = [name for name in asked if name not in existing]
    if unknown:
        raise UsageError(f"{kind} {unknown[0]!r} does not exist; there are: {', '.join(existing)}")
    return list(asked)


def _make(node: "DictConfig") -> Any:
    from hydra.errors import InstantiationException
    from hydra.utils import instantiate

    try:
        return instantiate(node)
    except InstantiationException as error:
        raise UsageError(str(error.__cause__ or error)) from error


def _whole(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{key}={value!r}: a whole number is needed")
    return value


def _arguments(cfg: "DictConfig", task_name: str) -> dict[str, Any]:
    r"""Turns a config into the arguments that `run` and `estimate` share."""
    from omegaconf import OmegaConf

    from .views import with_views

    missing = [f"task.{key}=" for key in cfg.task if OmegaConf.is_missing(cfg.task, key)]
    if missing:
        raise UsageError(f"task={task_name} needs {' and '.join(missing)}; see configs/task/{task_name}.yaml")
    metrics = {name: _make(cfg.metric[name]) for name in _choose("metric", cfg.metrics, list(cfg.metric))}
    task = _make(cfg.task.model)
    return {
        "task": task,
        "candidates": _candidates(cfg, task_name),
        "metrics": with_views(metrics, [cfg.views] if isinstance(cfg.views, str) else list(cfg.views), task),
        "fiducials": cfg.fiducials,
        "samples": cfg.samples,
        "seed": cfg.seed,
        "workers": _whole("workers", cfg.workers),
        "keep_samples": cfg.keep_samples,
        "controls": cfg.controls,
        "device": cfg.device,
        "name": task_name,
        "seeds": cfg.seeds,
    }


def _candidates(cfg: "DictConfig", task_name: str) -> dict[str, Any]:
    r"""Makes the candidates that are asked for: the task's own, those of every task, and `file.py:name`."""
    from .inference.given import FileCandidate

    own = cfg.task.get("candidates") or {}
    asked = list(own) or [DEFAULT_CANDIDATE] if cfg.candidates is None else cfg.candidates
    asked = [asked] if isinstance(asked, str) else list(asked)
    files = {name: name.rsplit(":", 1) for name in asked if ".py:" in str(name)}
    existing = [*own, *(name for name in cfg.candidate if name not in own)]
    _choose(f"task {task_name!r}: candidate", [name for name in asked if name not in files], existing)
    return {
        name: FileCandidate(*files[name]) if name in files else _make(own[name] if name in own else cfg.candidate[name])
        for name in asked
    }


def _check(cfg: "DictConfig", task_name: str, overrides: Sequence[str]) -> None:
    r"""Raises what a run of this config would say before it begins; cheap, for nothing is sampled or trained."""
    from .run import check_plan, make_plan

    _settle(cfg)
    _check_files(cfg, task_name, overrides)
    if "_target_" in cfg.task:
        _files(cfg, task_name)
        return
    arguments = _arguments(cfg, task_name) | {"device": None}  # which devices there are is for the job's machine to say
    workers = arguments.pop("workers")
    check_plan(make_plan(**arguments, store=cfg.store), workers, cfg.rank_by)


def _dry(cfg: "DictConfig", task_name: str) -> int:
    from .cli_dry import dry_run

    return dry_run(cfg, task_name, _arguments)


def _cost(kinds: Any, expected: int) -> int:
    from .cli_dry import dry_sweep

    return dry_sweep(kinds, expected, _arguments)


def _settle(cfg: "DictConfig") -> None:
    if cfg.workers == "auto":
        from .ranks import available_threads

        cfg.workers = available_threads()


def _run(cfg: "DictConfig", out: Path, task_name: str) -> int:
    from .report.folder import conclude, logging_to, save_config
    from .run import run

    if "_target_" not in cfg.task:
        arguments = _arguments(cfg, task_name)  # before the folder: bad usage leaves nothing behind
    with logging_to(out):
        if "_target_" in cfg.task:
            return _score_files(cfg, out, task_name)
        save_config(cfg, out)
        log.info("task %s: %s fiducials, %s samples, seed %s", task_name, cfg.fiducials, cfg.samples, cfg.seed)
        if hasattr(arguments["task"], "style"):
            print(f"The simulator of {task_name} takes {arguments['task'].style}.")
        start = time.perf_counter()
        if cfg.task.get("note") and cfg.fiducials == cfg.task.fiducials:
            print(cfg.task.note)
        if cfg.study is not None:
            from hydra.core.hydra_config import HydraConfig

            from .study import study

            runs = study(cfg, out, task_name, _arguments)
            if cfg.paper is not None:
                from omegaconf import OmegaConf

                from .paper.folder import conclude as compare

                section: Any = OmegaConf.to_container(cfg.paper, resolve=True)
                compare(HydraConfig.get().runtime.choices["experiment"], section, runs, out)
            return OK
        result = run(
            **arguments,
            rank_by=cfg.rank_by,
            **cfg.parallel,
            store=cfg.store,
            progress=cfg.progress,
        )
        conclude(result, out, task_name, time.perf_counter() - start)
        return FAILED if result.failures else OK


def _files(cfg: "DictConfig", task_name: str) -> tuple[Any, dict[str, Any]]:
    files = _make(cfg.task)
    chosen = _choose(f"task {task_name!r}: candidate", cfg.candidates, list(files.candidates))
    files = dataclasses.replace(files, candidates={name: files.candidates[name] for name in chosen})
    return files, {name: _make(cfg.metric[name]) for name in _choose("metric", cfg.metrics, list(cfg.metric))}


def _score_files(cfg: "DictConfig", out: Path, task_name: str) -> int:
    r"""The Hydra form of the verb `score`: a task that has files in place of a model."""
    from .cli_score import score_files

    files, metrics = _files(cfg, task_name)
    score_files(files, metrics, out, cfg, task=task_name, seed=cfg.seed, rank_by=cfg.rank_by)
    return OK


def _check_files(cfg: "DictConfig", task_name: str, overrides: Sequence[str]) -> None:
    r"""Says which settings a task of files would ignore, and which it lacks."""
    from omegaconf import OmegaConf

    if "_target_" not in cfg.task:
        return
    given = [override.split("=")[0] for override in overrides]
    idle = next((key for key in given if key in SAMPLING), None)
    if idle is not None or cfg.study is not None:
        raise UsageError(f"{idle or 'study'}= has no meaning for task={task_name}: its samples are in files already")
    missing = [f"task.{key}=" for key in cfg.task if OmegaConf.is_missing(cfg.task, key)]
    if missing:
        raise UsageError(f"task={task_name} needs {' and '.join(missing)}; see configs/task/{task_name}.yaml")


def _hydra(arguments: Sequence[str]) -> int:
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from .sweep import Command, is_sweep, perform, prepare

    command = Command(list(arguments), _check, _cost)
    codes = command.codes

    @hydra.main(version_base="1.3", config_path="pkg://mira_bench.configs", config_name="config")
    def job(cfg: "DictConfig") -> int:
        _settle(cfg)
        settings = HydraConfig.get()
        task_name = settings.runtime.choices["task"]
        swept = settings.mode == RunMode.MULTIRUN and not any(o.startswith("out=") for o in settings.overrides.task)
        out = Path(settings.runtime.output_dir if swept else cfg.out)

        def work() -> int:
            _check_files(cfg, task_name, settings.overrides.task)
            return _dry(cfg, task_name) if cfg.dry else _run(cfg, out, task_name)

        if settings.mode == RunMode.MULTIRUN and not cfg.dry:
            return perform(work, cfg, Path(settings.runtime.output_dir), task_name, settings.overrides.task)
        codes.append(FAILED)  # stands if the job dies
        codes[-1] = _guard(work)
        return codes[-1]

    # Hydra would take normal(-5,1) for a function of its own.
    law = re.compile(r"(metric\.\w+\.(?:centers|distance))=(\w+\(.*\))")
    words = [law.sub(r'\1="\2"', a) if law.fullmatch(a) else a for a in arguments]
    sys.argv = [sys.argv[0], *(prepare(command, words) if is_sweep(words) else words)]
    try:
        job()
    except SystemExit as stop:
        if not codes and stop.code not in (0, None):
            return USAGE  # Hydra refused the config and said what exists
        return int(stop.code or 0) if not codes else max(codes)
    return max(codes, default=OK)


def _guard(work: Any) -> int:
    r"""Turns errors that name their culprit into a sentence and an exit code."""
    from omegaconf.errors import OmegaConfBaseException

    try:
        return int(work())
    except UsageError as error:
        print(f"mira_bench: {error}", file=sys.stderr)
        return USAGE
    except RunError as error:
        print(f"mira_bench: {error}", file=sys.stderr)
        return FAILED
    except OmegaConfBaseException as error:
        print(f"mira_bench: the config is not complete: {' '.join(str(error).split())}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("mira_bench: interrupted; the same command goes on where it stopped", file=sys.stderr)
        return FAILED


def _check_keys(arguments: Sequence[str]) -> int:
    r"""Refuses keys that nothing reads. Hydra would advise to add them with a plus, and then nothing happens."""
    from importlib import resources

    from omegaconf import OmegaConf

    text = (resources.files("mira_bench.configs") / "config.yaml").read_text(encoding="utf-8")
    known = [*map(str, OmegaConf.create(text)), "task", "metric", "candidate", "experiment"]
    for argument in arguments:
        key = re.match(r"[+~]*([A-Za-z_]\w*)[^=]*=", argument)
        if key and not argument.startswith("-") and key[1] not in known:
            close = difflib.get_close_matches(key[1], known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(sorted(known))}"
            raise UsageError(f"there is no key {key[1]!r}; {hint}")
    return OK


def main(arguments: Sequence[str] | None = None) -> int:
    r"""Runs the command line and returns the exit code: 0, 1 if something failed, 2 for bad usage."""

    arguments = sys.argv[1:] if arguments is None else list(arguments)
    verbs = {"list": _list, "store": _store, "score": _score, "plan": _plan, "paper": _paper}
    verbs |= {"reference": _reference, "collect": _collect, "run": _hydra}
    if arguments and arguments[0] in verbs:
        return _guard(lambda: verbs[arguments[0]](arguments[1:]))
    if any(a in ("-h", "--help", "help") for a in arguments):
        print(HELP)
        print(_listing())
        return OK
    if "--version" in arguments:
        print(f"mira_bench {__version__}")
        return OK
    word = next((a for a in arguments if not a.startswith("-") and "=" not in a), None)
    if word is not None and arguments[0] == word:
        print(f"mira_bench: there is no verb {word!r}; there are: {', '.join(verbs)}", file=sys.stderr)
        print("Settings are written key=value, for example task=gaussian. See --help.", file=sys.stderr)
        return USAGE
    return _guard(lambda: _check_keys(arguments) or _hydra(arguments))
