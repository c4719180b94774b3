r"""What a run is made of, put together and checked before anything is sampled: its settings, identities and keys."""

__all__ = ["Identity", "Settings", "Setup", "short_hash"]

import dataclasses
import functools
import hashlib
import inspect
import json
import math
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import numpy as np

from .._version import __version__
from ..adapters.identity import describe, digest, hash_arrays, take_fingerprint
from ..adapters.reads import hash_file
from ..adapters.source import Source
from ..candidate import Candidate, Oracle, Prior
from ..errors import UsageError
from ..metric import Context, Metric
from ..metrics import LogScore, choose_metrics
from ..preprocessing import preprocessed
from ..ranking.tiers import RANKINGS
from ..task import BLOCK, Task
from ..trainer import State
from .store import Store
from .training import Training, expand, is_trainer, learns

PACKAGES = ("mira_bench", "numpy", "scipy", "numba", "torch")  # whose versions are a part of every identity


@dataclass(frozen=True)
class Settings:
    r"""How a run is done: what `run` and `estimate` take beside the task and its candidates.

    Arguments:
        fiducials: The number of fiducials $L$.
        samples: The number of samples per fiducial $S$.
        seed: The seed: the same seed gives the same result for any number of workers.
        metrics: Names of metrics and metrics of your own in a list, or metrics by name; by default those of
            `mira_bench.metrics.DEFAULT`.
        rank_by: `"tiers"`, `"energy"`, `"log"` (which adds the metric `log_score`), `"mira"` or `"tiers_first"`, see
            `mira_bench.ranking.tiers`.
        workers: The number of processes that work at a time.
        backend: What runs them: `"loky"`, another backend of joblib, or `"dask"`; see `mira_bench.runner.engines`.
        address: The address of a Dask scheduler.
        device: Where ranks are computed, e.g. `"cuda"`; by default on the CPU.
        store: The folder in which finished blocks are kept; without one, nothing is.
        keep_samples: Whether samples are kept in the store, so that a new metric needs no new sampling.
        controls: Whether to add the prior and, where the task has one, the exact posterior.
        progress: Whether to show progress on a terminal.
        name: The name of the task.
        seeds: How often candidates that learn are trained. With several, `Result.methods` has a row per method.
        check: Whether a block of all that would be taken from the store is made anew, to see that it is still the
            same; see `mira_bench.runner.canary`.
        fit_minutes: How long a training may take in this run. One that is not done by then is kept, its candidates are
            not scored, and the same run goes on with it.
    """

    fiducials: int = 1000
    samples: int = 500
    seed: int = 0
    metrics: Mapping[str, Metric] | Sequence[str | Metric] | None = None
    rank_by: str = "tiers"
    workers: int = 1
    backend: str = "loky"
    address: str | None = None
    device: str | None = None
    store: str | os.PathLike[str] | None = None
    keep_samples: bool = False
    controls: bool = True
    progress: bool = False
    name: str | None = None
    seeds: int = 1
    check: bool = True
    fit_minutes: float | None = None

    def __post_init__(self) -> None:
        for key in ("fiducials", "samples", "seed", "workers"):
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise UsageError(f"{key}={value!r}: a whole number is needed")
            if key != "seed" and value < 1:
                raise UsageError(f"{key}={value}: at least one is needed")
        if self.rank_by not in RANKINGS:
            raise UsageError(f"rank_by={self.rank_by!r} is not one of {', '.join(RANKINGS)}")
        limit = self.fit_minutes
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0):
            raise UsageError(f"fit.minutes={limit!r}: a positive number is needed")

    @classmethod
    def of(cls, **settings: Any) -> "Settings":
        r"""Puts settings together that a user gave by name."""
        known = [one.name for one in dataclasses.fields(cls)]
        unknown = next((key for key in settings if key not in known), None)
        if unknown is not None:
            raise UsageError(f"there is no setting {unknown!r}; there are: {', '.join(known)}")
        return cls(**settings)

    @classmethod
    def signature(cls, function: Callable[..., Any]) -> inspect.Signature:
        r"""The signature of a function that takes settings by name, with all of them in it: for help and editors."""
        given = inspect.signature(function)
        fixed = [p for p in given.parameters.values() if p.kind != p.VAR_KEYWORD]
        ours = [p.replace(kind=p.KEYWORD_ONLY) for p in inspect.signature(cls).parameters.values()]
        return given.replace(parameters=[*fixed, *ours])

    def check_device(self) -> None:
        r"""Raises if the device cannot be used here."""
        if self.device not in (None, "cpu"):
            import torch

            try:
                torch.empty(1, device=self.device)
            except (RuntimeError, AssertionError) as error:
                reason = str(error).splitlines()[0]
                raise UsageError(f"device={self.device!r} cannot be used: {reason}") from error


@dataclass(frozen=True)
class Identity:
    r"""What identifies the parts of a run in the store: taken once, when it begins, from the code that runs.

    Arguments:
        task: What identifies the task, as plain JSON.
        candidates: What identifies each candidate, by name.
        trainers: What identifies the training of each candidate, by name.
        metrics: What identifies each metric, by name.
        code: The hashes of the user's functions, which must be the same in workers.
        files: The hashes of the user's files by path.
    """

    task: Any = None
    candidates: Mapping[str, Any] = field(default_factory=dict)
    trainers: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, task: Task, candidates: Mapping[str, Any], metrics: Mapping[str, Metric]) -> "Identity":
        r"""Takes the identity of all that a run is made of."""
        things = (task, *candidates.values(), *metrics.values())
        code: dict[str, str] = {}
        files: dict[str, str] = {}
        for thing in things:
            found = take_fingerprint(thing, type(thing).__qualname__)
            code |= found.code
            files |= {path: content for path in sorted(found.files) if (content := hash_file(path)) is not None}
            source = getattr(thing, "source", None)
            files |= source.files if isinstance(source, Source) else {}
            files |= getattr(thing, "data_files", {})
        return cls(
            describe(task),
            {name: describe(one) for name, one in candidates.items()},
            {name: describe(getattr(one, "trainer", one)) for name, one in candidates.items()},
            {name: describe(one) | {"version": one.version} for name, one in metrics.items()},
            code,
            files,
        )

    @property
    def hashes(self) -> dict[str, str]:
        r"""Short hashes of the task, the candidates and the metrics, for the run's folder; none if nothing is known."""
        if self.task is None:
            return {}
        named = {"task": self.task} | {f"candidate:{name}": one for name, one in self.candidates.items()}
        named |= {f"metric:{name}": one for name, one in self.metrics.items()}
        return {key: short_hash(one) for key, one in named.items()}


def short_hash(identity: Any) -> str:
    r"""Returns a short hash of what was described."""

    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


@functools.cache
def _version(package: str) -> str:
    try:
        return __version__ if package == "mira_bench" else metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _versions(thing: Any) -> dict[str, str]:
    r"""The versions of what decides the numbers of a task, a candidate or a metric, which may name more packages."""
    return {package: _version(package) for package in (*PACKAGES, *getattr(thing, "packages", ()))}


@dataclass(frozen=True)
class Setup:
    r"""All that determines the results of a run, and where they are kept.

    Arguments:
        name: The name of the task.
        task: The task.
        candidates: The candidates by name, the controls and every network of a method among them.
        metrics: The metrics by name.
        fiducials: The number of fiducials $L$.
        samples: The number of samples per fiducial $S$.
        seed: The seed of the run.
        store: Where finished blocks are kept.
        keep_samples: Whether samples are kept in the store.
        device: Where ranks are computed, e.g. `"cuda"`; by default on the CPU.
        identity: What identifies task, candidates and metrics in the store.
        trainings: For candidates that learn, which method and which of its trainings they are.
        fits: The states of the networks that are trained, by candidate.
        behind: By metric, the hash of what its records depend on beyond their block.
        token: Tells this run from others in the same process.
        generations: Which blocks of each identity are believed; found in the store when they are first asked for.
        data: The hashes of what trainers learn from; found when they are first asked for.
    """

    name: str
    task: Task
    candidates: Mapping[str, Candidate]
    metrics: Mapping[str, Metric]
    fiducials: int
    samples: int
    seed: int
    store: Store
    keep_samples: bool = False
    device: str | None = None
    identity: Identity = field(default_factory=Identity)
    trainings: Mapping[str, Training] = field(default_factory=dict)
    fits: Mapping[str, State] = field(default_factory=dict)
    behind: Mapping[str, str | None] = field(default_factory=dict)
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    generations: dict[tuple[str, ...], str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, task: Task, candidates: Mapping[str, Candidate], settings: Settings) -> "Setup":
        r"""Puts a task, its candidates and the controls together, after a check."""
        if settings.keep_samples and settings.store is None:
            raise UsageError("keep_samples needs a store to keep them in: give one by store=, or keep_samples=false")
        if not isinstance(candidates, Mapping):
            raise UsageError("candidates must be a mapping from names to candidates, e.g. {'npe': Neural(budget=2000)}")
        for label, one in candidates.items():
            if not hasattr(one, "build") and not learns(one):
                raise UsageError(
                    f"candidate {label!r} is a {type(one).__name__} without build(task, rng); "
                    "mira_bench.inference has Neural and Given"
                )
        everyone, trainings = expand(candidates, settings.seeds)
        if settings.controls:
            for label, control in (("oracle", Oracle()), ("prior", Prior())):
                if label not in everyone and control.skip(task) is None:
                    everyone[label] = control
        chosen = choose_metrics(settings.metrics)
        if settings.rank_by == "log":
            chosen.setdefault("log_score", LogScore())
        chosen = preprocessed(chosen, task)
        most = getattr(task, "most_fiducials", math.inf)
        if settings.fiducials > most:
            raise UsageError(f"fiducials={settings.fiducials}: the task has {most} of them, and no more")
        try:
            identity = Identity.of(task, everyone, chosen)
        except UsageError:
            if settings.store is not None:
                raise
            identity = Identity()
        return cls(
            name=settings.name or type(task).__name__.lower(),
            task=task,
            candidates=everyone,
            metrics=chosen,
            fiducials=int(settings.fiducials),
            samples=int(settings.samples),
            seed=int(settings.seed),
            store=Store(settings.store),
            keep_samples=settings.keep_samples,
            device=settings.device,
            identity=identity,
            trainings=trainings,
        )

    @property
    def size(self) -> int:
        r"""The number of fiducials in a block."""
        return int(getattr(self.task, "block", BLOCK))

    @property
    def blocks(self) -> range:
        return range(math.ceil(self.fiducials / self.size))

    def count(self, block: int) -> int:
        r"""The number of fiducials of a block that belong to this run; the last block may be cut."""
        return min(self.size, self.fiducials - block * self.size)

    def _believed(self, spec: dict[str, Any], *label: str) -> dict[str, Any]:
        r"""Adds to a spec which generation of an identity is believed, if it is not the first."""
        if label not in self.generations:
            self.generations[label] = self.store.generation(spec)
        token = self.generations[label]
        return spec | ({f"{label[0]}_generation": token} if token else {})

    def renew(self, kind: str, *names: str) -> None:
        r"""Stops believing what the store has of an identity: task, fit and candidate NAME, record NAME and METRIC."""
        parts: dict[str, Callable[..., dict[str, Any]]] = {
            "task": self._task,
            "fit": self._fit,
            "candidate": self._candidate,
            "record": self._record,
        }
        label = self._training_label(*names) if kind == "fit" else (kind, *names)
        self.generations[label] = ""
        self.generations[label] = self.store.renew(parts[kind](*names))

    def _task(self) -> dict[str, Any]:
        spec = {"task_name": self.name, "task": self.identity.task, "versions": _versions(self.task)}
        return self._believed(spec, "task")

    def trainer(self, name: str) -> Any:
        r"""What determines the training of a candidate: its trainer, or the candidate itself."""
        return getattr(self.candidates[name], "trainer", self.candidates[name])

    def shared_training(self, name: str) -> str:
        r"""What candidates have in common that refer to the same training."""
        return short_hash(self._training(name)) if name in self.identity.trainers else name

    def _training(self, name: str) -> dict[str, Any]:
        trainer = self.trainer(name)
        spec = {"seed": self.seed, "training": self.trainings[name].seed, "versions": _versions(trainer)}
        spec |= {"candidate": self.identity.trainers.get(name)}
        return spec | {"data": self._data(name)} if is_trainer(trainer) else self._task() | spec

    def _data(self, name: str) -> str:
        trainer = self.trainer(name)
        key = short_hash(self.identity.trainers[name]) if name in self.identity.trainers else name
        if key not in self.data:
            self.data[key] = hash_arrays(trainer.learns_from(self.task))
        return self.data[key]

    def _training_label(self, name: str) -> tuple[str, ...]:
        return "fit", short_hash(self._training(name))

    def _fit(self, name: str) -> dict[str, Any]:
        return self._believed(self._training(name), *self._training_label(name))

    def _candidate(self, name: str) -> dict[str, Any]:
        spec = self._task() | (self._fit(name) if name in self.trainings else {})
        spec |= {"candidate_name": name, "candidate": self.identity.candidates.get(name)}
        spec |= {"versions": _versions(self.task) | _versions(self.candidates[name])}
        return self._believed(spec, "candidate", name)

    def _record(self, name: str, key: str) -> dict[str, Any]:
        metric = self.metrics[key]
        spec = self._candidate(name) | {"metric_name": metric.name, "metric": self.identity.metrics.get(key)}
        spec |= {"versions": spec["versions"] | _versions(metric)}
        return self._believed(spec, "record", name, key)

    def _place(self, kind: str, block: int) -> dict[str, Any]:
        return {"kind": kind, "seed": self.seed, "block": block, "size": self.size}

    def spec(self, kind: str, block: int, **more: Any) -> dict[str, Any]:
        r"""The identity of a block of the task in the store: all that determines its content."""
        return self._task() | self._place(kind, block) | more

    def samples_spec(self, name: str, block: int) -> dict[str, Any]:
        return self._candidate(name) | self._place("samples", block) | {"samples": self.samples}

    def fit_spec(self, name: str, epoch: int | None = None) -> dict[str, Any]:
        r"""The identity of a training in the store: of its end, or of what is kept after an epoch."""
        return self._fit(name) | {"kind": "fit"} | ({} if epoch is None else {"epoch": epoch})

    def memory_spec(self, name: str) -> dict[str, Any]:
        r"""The identity of what a training needs to go on."""
        return self._fit(name) | {"kind": "memory"}

    def record_spec(self, name: str, block: int, key: str) -> dict[str, Any]:
        spec = self._record(name, key) | self._place("record", block) | {"samples": self.samples}
        return spec | {"count": self.count(block), "ruler": self.behind[key]}

    def seen_in(self, context: Context) -> "Setup":
        r"""Returns the setup with the hashes of what records depend on beyond their blocks."""
        found = {key: metric.depends_on(context) for key, metric in self.metrics.items()}
        return dataclasses.replace(self, behind={key: digest(*some) if some else None for key, some in found.items()})
