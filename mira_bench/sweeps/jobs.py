r"""The jobs of a sweep on disk: what each one is, how far it is, how it ended.

Each job writes `job.json` into its own folder, and the sweep writes `sweep.json` with all jobs that are expected. So a
sweep can be watched, continued and collected from files alone, whoever ran the jobs and wherever.
"""

__all__ = ["Job", "Kind", "commands", "expected_contents", "expected_jobs", "key_of", "lasting", "read_job"]

import json
import os
import re
import socket
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import EXECUTION
from ..report.outputs import write_json

if TYPE_CHECKING:
    from omegaconf import DictConfig

JOB, SWEEP = "job.json", "sweep.json"


@dataclass(frozen=True)
class Job:
    r"""A job of a sweep.

    Arguments:
        name: The name of its folder in the sweep.
        overrides: The settings that make it, as on the command line.
        task: The name of the task.
        fingerprint: The hash of all that makes its result; see `mira_bench.config.job_fingerprint`.
        status: How far it is: `"missing"`, `"running"`, `"interrupted"`, `"done"` or `"failed"`.
        progress: The part that is done, between 0 and 1.
        seconds: The time that it took so far.
        host: The name of the machine that it runs on.
        pid: The number of its process on that machine.
        code: The exit code, once it has ended.
        reason: Why it failed, if it did.
        reads: The hashes of the user's files that its process read on the way, by path.
    """

    name: str
    overrides: list[str] = field(default_factory=list)
    task: str = ""
    fingerprint: str = ""
    status: str = "missing"
    progress: float = 0.0
    seconds: float = 0.0
    host: str = ""
    pid: int = 0
    code: int | None = None
    reason: str = ""
    reads: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, ...]:
        r"""What tells jobs apart, whatever folder they are in: their settings, and what these stood for."""
        return (*lasting(self.overrides), self.fingerprint)

    @property
    def ended(self) -> bool:
        return self.status in ("done", "failed", "interrupted")

    def save(self, folder: Path) -> None:
        r"""Writes `job.json` into the job's folder."""
        write_json(folder / JOB, asdict(self))


@dataclass(frozen=True)
class Kind:
    r"""The jobs of a sweep that differ in their seed alone: what holds for one of them holds for all.

    Arguments:
        label: The task, and what else is swept.
        task: The name of the task.
        cfg: The config of the first job.
        jobs: The jobs, which differ in their seed.
        seeds: The seed of each job.
        content: The hashes of what the config stands for, once they are known.
    """

    label: str
    task: str
    cfg: "DictConfig"
    jobs: list[Job] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    content: dict[str, str] = field(default_factory=dict)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # it is somebody else's
    return True


def read_job(folder: Path) -> Job | None:
    r"""Reads the `job.json` of a folder; none if there is none that can be read.

    A job that says it is running, but whose process on this machine is gone, was interrupted.
    """

    try:
        facts = json.loads((folder / JOB).read_text(encoding="utf-8"))
        known = {f.name for f in fields(Job)}
        job = Job(**{key: value for key, value in facts.items() if key in known})
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    if job.status == "running" and job.host == socket.gethostname() and not _alive(job.pid):
        return replace(job, status="interrupted")
    return job


def expected_jobs(folder: Path) -> dict[str, list[str]]:
    r"""Returns the overrides of all jobs that a sweep's folder should hold, by name."""

    return _lists(folder, "jobs")


def expected_contents(folder: Path) -> dict[str, str]:
    r"""Returns the fingerprints that the jobs of a sweep's folder were started with, by name."""

    try:
        found = json.loads((folder / SWEEP).read_text(encoding="utf-8"))["fingerprints"]
        return {str(name): str(one) for name, one in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def commands(folder: Path) -> dict[str, list[str]]:
    r"""Returns the commands that made a sweep's folder, each with the names of its jobs."""

    return _lists(folder, "commands")


def _lists(folder: Path, key: str) -> dict[str, list[str]]:
    r"""What `sweep.json` says under a key; nothing if it is not there or damaged."""
    try:
        found = json.loads((folder / SWEEP).read_text(encoding="utf-8"))[key]
        return {str(name): list(words) for name, words in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def key_of(override: str) -> str:
    r"""Returns the key of the top level that a setting of the command line belongs to."""

    return re.split(r"[=.@/]", override.lstrip("+~"), maxsplit=1)[0]


def lasting(overrides: Iterable[str]) -> list[str]:
    r"""Returns, sorted, the settings that change a result."""

    return sorted(o for o in overrides if key_of(o) not in EXECUTION)
