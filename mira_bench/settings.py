r"""From a config to the objects that it describes, with a sentence for what cannot be."""

__all__ = ["arguments", "check", "check_files", "files", "make", "settle"]

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .errors import UsageError

if TYPE_CHECKING:
    from omegaconf import DictConfig

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


def settle(cfg: "DictConfig") -> None:
    r"""Puts the number of cores of this machine in place of `workers=auto`."""
    if cfg.workers == "auto":
        from .ranks import available_threads

        cfg.workers = available_threads()


def make(node: "DictConfig") -> Any:
    r"""Makes the object that a config describes."""
    from hydra.errors import InstantiationException
    from hydra.utils import instantiate

    try:
        return instantiate(node)
    except InstantiationException as error:
        raise UsageError(str(error.__cause__ or error)) from error


def _choose(kind: str, asked: Any, existing: Sequence[str]) -> list[str]:
    if asked is None:
        return list(existing)
    if isinstance(asked, str):
        asked = [asked]
    unknown = [name for name in asked if name not in existing]
    if unknown:
        raise UsageError(f"{kind} {unknown[0]!r} does not exist; there are: {', '.join(existing)}")
    return list(asked)


def _whole(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{key}={value!r}: a whole number is needed")
    return value


def _metrics(cfg: "DictConfig") -> dict[str, Any]:
    return {name: make(cfg.metric[name]) for name in _choose("metric", cfg.metrics, list(cfg.metric))}


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
        name: FileCandidate(*files[name]) if name in files else make(own[name] if name in own else cfg.candidate[name])
        for name in asked
    }


def arguments(cfg: "DictConfig", task_name: str) -> dict[str, Any]:
    r"""Turns a config into the arguments that `run` and `estimate` share."""
    from omegaconf import OmegaConf

    from .views import with_views

    missing = [f"task.{key}=" for key in cfg.task if OmegaConf.is_missing(cfg.task, key)]
    if missing:
        raise UsageError(f"task={task_name} needs {' and '.join(missing)}; see configs/task/{task_name}.yaml")
    task = make(cfg.task.model)
    return {
        "task": task,
        "candidates": _candidates(cfg, task_name),
        "metrics": with_views(_metrics(cfg), [cfg.views] if isinstance(cfg.views, str) else list(cfg.views), task),
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


def files(cfg: "DictConfig", task_name: str) -> tuple[Any, dict[str, Any]]:
    r"""Returns the files of a task that has files in place of a model, and the metrics."""
    found = make(cfg.task)
    chosen = _choose(f"task {task_name!r}: candidate", cfg.candidates, list(found.candidates))
    return dataclasses.replace(found, candidates={name: found.candidates[name] for name in chosen}), _metrics(cfg)


def check_files(cfg: "DictConfig", task_name: str, overrides: Sequence[str]) -> None:
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


def check(cfg: "DictConfig", task_name: str, overrides: Sequence[str]) -> None:
    r"""Raises what a run of this config would say before it begins; cheap, for nothing is sampled or trained."""
    from .run import check_plan, make_plan

    settle(cfg)
    check_files(cfg, task_name, overrides)
    if "_target_" in cfg.task:
        files(cfg, task_name)
        return
    given = arguments(cfg, task_name) | {"device": None}  # which devices there are is for the job's machine to say
    workers = given.pop("workers")
    check_plan(make_plan(**given, store=cfg.store), workers, cfg.rank_by)
