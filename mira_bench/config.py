r"""From a config to the objects that it describes, with a sentence for what cannot be."""

__all__ = [
    "EXECUTION", "Asked", "Prepared", "asked", "check_files", "files", "hash_settings", "identify_files",
    "job_fingerprint",
    "make", "prepare", "settle",
]  # fmt: skip

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ._version import __version__
from .errors import UsageError
from .moved import new_path
from .report.outputs import resolved

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from .adapters.files import Files
    from .metric import Metric
    from .runner.setup import Settings, Setup

# How a run is carried out: these keys do not change its result.
FEW_POINTS = 200_000  # samples of all candidates that are scored in less time than processes need to start
EXECUTION = (
    "workers",
    "parallel",
    "out",
    "store",
    "check_store",
    "keep_samples",
    "progress",
    "style",
    "dry",
    "fit",
    "sweep",
    "hydra",
)

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


def settle(cfg: "DictConfig", sweeping: bool = False) -> None:
    r"""Puts values in place of what stands for them: the number of processes, the default metrics.

    Arguments:
        cfg: The config, which is changed.
        sweeping: Whether it is one of many jobs, which share the cores already.
    """
    from .metrics import DEFAULT

    if cfg.metrics is None:
        cfg.metrics = list(DEFAULT)
    if cfg.workers is None and (sweeping or _is_small(cfg)):
        cfg.workers = 1
    if cfg.workers in (None, "auto"):
        from .ranks.kernel import available_threads

        cfg.workers = available_threads()


def _is_small(cfg: "DictConfig") -> bool:
    r"""Whether a run is done before further processes have started: few points, of candidates that do not learn."""
    sizes = (cfg.fiducials, cfg.samples)
    if not all(isinstance(size, int) for size in sizes) or cfg.study is not None:
        return False
    asked = cfg.candidates if cfg.candidates is not None else cfg.task.get("candidates")
    names = list(asked) if isinstance(asked, Sequence | Mapping) else []
    learns = any(name in (cfg.get("candidate") or {}) for name in names)
    return cfg.fiducials * cfg.samples * max(1, len(names)) < FEW_POINTS and not learns


def make(node: "DictConfig") -> Any:
    r"""Makes the object that a config describes."""
    from hydra.errors import InstantiationException
    from hydra.utils import instantiate

    try:
        return instantiate(_with_new_paths(node))
    except InstantiationException as error:
        raise UsageError(str(error.__cause__ or error)) from error


def _with_new_paths(node: "DictConfig") -> "DictConfig":
    r"""A config whose `_target_` lead to where things are now."""
    from omegaconf import DictConfig, ListConfig, OmegaConf

    def update(part: Any) -> None:
        if isinstance(part, DictConfig) and not part._is_none() and not part._is_missing():
            if isinstance(part.get("_target_"), str):
                part["_target_"] = new_path(part["_target_"])
            for key in (key for key in part if isinstance(key, str)):
                if not OmegaConf.is_missing(part, key) and not OmegaConf.is_interpolation(part, key):
                    update(part[key])
        elif isinstance(part, ListConfig) and not part._is_none() and not part._is_missing():
            for one in part:
                update(one)

    update(node)
    return node


def _choose(kind: str, asked: Any, existing: Sequence[str]) -> list[str]:
    if asked is None:
        return list(existing)
    names = _as_names(kind.split()[-1] + "s", asked, existing)
    unknown = [name for name in names if name not in existing]
    if unknown:
        raise UsageError(f"{kind} {unknown[0]!r} does not exist; there are: {', '.join(existing)}")
    return names


def _as_names(key: str, asked: Any, existing: Sequence[str]) -> list[str]:
    r"""Returns names that were asked for. YAML takes some for something else: null, true, 1e5."""
    from omegaconf import ListConfig

    names = []
    for name in asked if isinstance(asked, ListConfig | list | tuple) else [asked]:
        if isinstance(name, int) and not isinstance(name, bool) and str(name) in existing:
            names.append(str(name))
        elif isinstance(name, str):
            names.append(name)
        else:
            word = "null" if name is None else str(name).lower() if isinstance(name, bool) else str(name)
            raise UsageError(f"{key}: {word} is no name but a value; put the name in quotes: '{key}=[\"...\"]'")
    return names


def _by_name(where: str, things: Mapping[Any, Any]) -> dict[str, Any]:
    r"""Returns things by their names, which YAML may have taken for something else."""
    for key in things:
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise UsageError(
                f"{where}: {key} is no name but a value; put the name in quotes in a YAML file, or use another "
                '(samples in files: mira-bench score truths.npy "NAME=file")'
            )
    return {str(key): value for key, value in things.items()}


def _metrics(cfg: "DictConfig") -> dict[str, Any]:
    return {name: make(cfg.metric[name]) for name in _choose("metric", cfg.metrics, list(cfg.metric))}


def _candidates(cfg: "DictConfig", task_name: str) -> dict[str, Any]:
    r"""Makes the candidates that are asked for: the task's own, those of every task, and `file.py:name`."""
    from .inference.given import FileCandidate

    own = _by_name("task.candidates", cfg.task.get("candidates") or {})
    existing = [*own, *(str(name) for name in cfg.candidate if name not in own)]
    if cfg.candidates is None:
        asked = list(own) or [DEFAULT_CANDIDATE]
    else:
        asked = _as_names("candidates", cfg.candidates, existing)
    files = {name: name.rpartition(":")[::2] for name in asked if ".py:" in name}
    epochs = {name: _epoch(name) for name in asked if name not in files and name not in existing}
    whole = [name.rpartition("@")[0] if epochs.get(name) else name for name in asked if name not in files]
    _choose(f"task {task_name!r}: candidate", whole, existing)

    def candidate(name: str, at: int | None = None) -> Any:
        made = make(own[name] if name in own else cfg.candidate[name])
        if at is None:
            return made
        if not any(one.name == "at" for one in dataclasses.fields(made)):
            raise UsageError(f"candidate '{name}@{at}': the training of {name} keeps its end alone")
        return dataclasses.replace(made, at=at)

    return {
        name: FileCandidate(*files[name])
        if name in files
        else candidate(name.rpartition("@")[0], epochs[name])
        if epochs.get(name)
        else candidate(name)
        for name in asked
    }


def _epoch(name: str) -> int | None:
    r"""The epoch of a checkpoint: 10 of `cvae@10`."""
    epoch = name.rpartition("@")[2]
    return int(epoch) if "@" in name and epoch.isdigit() else None


class Asked(NamedTuple):
    r"""What a config asks for, made: a task, its candidates, and how to run them."""

    task: Any
    candidates: dict[str, Any]
    settings: "Settings"


def asked(cfg: "DictConfig", task_name: str) -> Asked:
    r"""Makes what a config describes."""
    from omegaconf import OmegaConf

    from .runner.setup import Settings
    from .views import with_views

    missing = [f"task.{key}=" for key in cfg.task if OmegaConf.is_missing(cfg.task, key)]
    if missing:
        raise UsageError(f"task={task_name} needs {' and '.join(missing)}; see configs/task/{task_name}.yaml")
    task = make(cfg.task.model)
    candidates = _candidates(cfg, task_name)
    metrics = with_views(_metrics(cfg), [cfg.views] if isinstance(cfg.views, str) else list(cfg.views), task)
    same = (
        "fiducials", "samples", "seed", "workers", "keep_samples", "controls", "device", "seeds", "rank_by", "store",
        "progress",
    )  # fmt: skip
    taken = {key: cfg[key] for key in same}
    return Asked(
        task,
        candidates,
        Settings(
            **taken, metrics=metrics, name=task_name, check=cfg.check_store, fit_minutes=cfg.fit.minutes, **cfg.parallel
        ),
    )


def files(cfg: "DictConfig", task_name: str) -> tuple[Any, dict[str, Any]]:
    r"""Returns the files of a task that has files in place of a model, and the metrics."""
    found = make(cfg.task)
    found = dataclasses.replace(found, candidates=_by_name("task.candidates", found.candidates))
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


@dataclass(frozen=True)
class Prepared:
    r"""What a config describes, made and checked, before anything is sampled, trained or written.

    Arguments:
        fingerprint: What identifies the run; see `mira_bench.sweeps.jobs`.
        content: The hashes of its task, candidates and metrics.
        hashes: The hashes of the user's files, by path.
        code: The texts of the user's code as it runs, by path.
        asked: What it asks for, of a task that has a model.
        files: The files, for a task that has none.
        metrics: The metrics that look at the files.
    """

    fingerprint: str
    content: Mapping[str, str]
    hashes: Mapping[str, str]
    code: Mapping[str, bytes] = field(default_factory=dict)
    asked: Asked | None = None
    files: "Files | None" = None
    metrics: "Mapping[str, Metric]" = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        r"""What the folder of the run keeps of this."""
        return {"fingerprint": self.fingerprint, "identity": dict(self.content), "files": dict(self.hashes)}


def prepare(cfg: "DictConfig", task_name: str, overrides: Sequence[str], *, elsewhere: bool = False) -> Prepared:
    r"""Makes what a config describes; raises what a run would say before it begins. Nothing is sampled or trained.

    Arguments:
        cfg: The config of the run.
        task_name: The name of the task.
        overrides: What was given on the command line.
        elsewhere: Whether the run is for another machine, which knows by itself what devices it has.
    """

    settle(cfg)
    check_files(cfg, task_name, overrides)
    settings = hash_settings(cfg)
    if "_target_" in cfg.task:
        found, metrics = files(cfg, task_name)
        content, hashes = identify_files(found, metrics)
        return Prepared(job_fingerprint(settings, content), content, hashes, files=found, metrics=metrics)
    given, setup = _checked(cfg, task_name, elsewhere)
    setups = {"": setup}
    if cfg.study is not None:
        from .sweeps.study import distinct

        setups |= {label: _checked(one, name, elsewhere)[1] for label, one, name in distinct(cfg, task_name)}
    content = {f"{key} {label}".strip(): one for label, p in setups.items() for key, one in p.identity.hashes.items()}
    hashes = {path: one for p in setups.values() for path, one in p.identity.files.items()}
    known = all(p.identity.hashes for p in setups.values())
    return Prepared(
        job_fingerprint(settings, content if known else {}), content, hashes, _texts(setups.values(), hashes), given
    )


def _checked(cfg: "DictConfig", task_name: str, elsewhere: bool) -> "tuple[Asked, Setup]":
    from .runner.setup import Setup

    given = asked(cfg, task_name)
    if not elsewhere:
        given.settings.check_device()
    setup = Setup.of(*given)
    if not setup.candidates:
        raise UsageError("there are no candidates to score: the list is empty")
    return given, setup


def _texts(setups: "Iterable[Setup]", hashes: Mapping[str, str]) -> dict[str, bytes]:
    r"""The texts of the user's code: of a file that was run as it was then, else as it is if nobody edited it since."""
    from .adapters.source import Source

    texts: dict[str, bytes] = {}
    for setup in setups:
        for thing in (setup.task, *setup.candidates.values(), *setup.metrics.values()):
            source = getattr(thing, "source", None)
            if isinstance(source, Source):
                folder = Path(source.path).parent
                texts |= {str(folder / name): text for name, text in source.texts.items()}
    for path, content in hashes.items():
        if path not in texts and path.endswith(".py"):
            try:
                text = Path(path).read_bytes()
            except OSError:
                continue
            if hashlib.sha256(text).hexdigest() == content:
                texts[path] = text
    return texts


def identify_files(found: "Files", metrics: "Mapping[str, Metric]") -> tuple[dict[str, str], dict[str, str]]:
    r"""Returns what identifies samples in files, by their content, and the hashes of the files by path.

    A file that is not there is for the run to complain about.
    """

    from .adapters.formats import split_source
    from .adapters.identity import describe
    from .adapters.reads import hash_file
    from .runner.setup import short_hash

    hashes: dict[str, str] = {}

    def read(source: Any) -> Any:
        if not isinstance(source, str):
            return describe(source)
        try:
            path, key = split_source(source)
        except UsageError:
            return ["missing", source]
        if str(path) not in hashes:
            hashes[str(path)] = hash_file(str(path)) or "unreadable"
        return [hashes[str(path)], key]

    names = None if found.names is None else list(found.names)
    task = [read(found.truths), read(found.x), read(found.bounds), names, found.layout, found.fiducial, found.thin]
    content = {"task": short_hash(task)}
    content |= {f"candidate:{name}": short_hash(read(source)) for name, source in found.candidates.items()}
    described = {name: describe(one) | {"version": one.version} for name, one in metrics.items()}
    return content | {f"metric:{name}": short_hash(one) for name, one in described.items()}, hashes


def hash_settings(cfg: "DictConfig", *, besides: Iterable[str] = ()) -> str:
    r"""Returns the hash of all in a config that changes its result, and of the version of this package.

    Arguments:
        cfg: The config of the run.
        besides: Further keys that are left out.
    """

    text = json.dumps([__version__, resolved(cfg, (*EXECUTION, *besides))], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def job_fingerprint(settings: str, content: Mapping[str, str]) -> str:
    r"""Returns what identifies a job: its settings, and the content of all that they name.

    Arguments:
        settings: The hash of its settings.
        content: The hashes of its task, candidates and metrics. Without any, nothing is known about the job, and what
            was done before is not relied on: the fingerprint is empty.
    """

    text = json.dumps([settings, dict(content)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16] if content else ""
