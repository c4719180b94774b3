r"""Sweeps: Hydra's multirun, with folders that are named by their settings, skipped when done, and watched.

The same command always means the same folder, so an interrupted sweep goes on with the command that started it. Jobs
are launched by whatever `hydra/launcher=` says; all that is known about them comes from their `job.json`.
"""

__all__ = ["ENGINES", "Command", "Sweeper", "do_job", "hydra_words", "is_sweep"]

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shlex
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from omegaconf import open_dict
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from ..adapters.reads import changed, hash_file, listening
from ..config import hash_settings, job_fingerprint, prepare
from ..errors import UsageError, refuse_to_hide_an_interrupt
from ..report.outputs import clear, clear_collected, read_facts, write_json
from ..runner.progress import watched
from .composing import BasicSweeper
from .dry import dry_sweep
from .jobs import JOB, SWEEP, Job, Kind, commands, expected_contents, expected_jobs, key_of, lasting, read_job
from .watch import Watch

if TYPE_CHECKING:
    from omegaconf import DictConfig

OK, FAILED, USAGE = 0, 1, 2
ROOT = Path("results", "sweeps")
NAME = "hydra_plugins.mira_bench.Sweeper"  # Hydra takes plugins from no other package
LONGEST = 100  # characters of a folder's name
ENGINES = {
    "slurm": "submitit", "local": "submitit", "submitit_slurm": "submitit", "submitit_local": "submitit",
    "joblib": "joblib",
}  # fmt: skip


def is_sweep(arguments: Sequence[str]) -> bool:
    r"""Whether a command asks for a sweep."""
    return any(word in ("-m", "--multirun", "hydra.mode=MULTIRUN") for word in arguments)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _safe(text: str) -> str:
    r"""Turns settings into the name of a folder: `candidates=[a,b]` into `candidates=a+b`."""
    return re.sub(r"[^\w.+=-]", "", re.sub(r",\s*", "+", text).replace("/", "-"))


def _sweep_name(words: Sequence[str]) -> str:
    r"""Names a sweep by its task and what is swept, and by the hash of all that changes its result."""
    given = lasting(word for word in words if "=" in word and not word.startswith("-"))
    flags = [word for word in words if "=" not in word or word.startswith("-")]  # such as --config-dir conf
    flags = [word for word in flags if word not in ("-m", "--multirun")]
    parsed = OverridesParser.create().parse_overrides(given)
    swept = sorted(o.get_key_element() for o in parsed if o.is_sweep_override() and o.key_or_group != "task")
    tasks = next((word.partition("=")[2] for word in given if word.startswith("task=")), "gaussian")
    name = _safe("_".join([tasks, *swept]))[:60]
    return f"{name}_{_short(json.dumps([*given, flags] if flags else given))}"


@dataclass(frozen=True)
class Command:
    r"""What the command line hands to a sweep.

    Arguments:
        words: The words of the command.
        codes: Gets the exit code when the sweep has ended: Hydra returns nothing.
    """

    words: list[str]
    codes: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        return shlex.join(["python", "-m", "mira_bench", *self.words])


def hydra_words(command: Command, words: Sequence[str]) -> list[str]:
    r"""Returns the words of a sweep for Hydra, with its folder and our sweeper in them."""

    for word in words:
        key, _, value = word.partition("=")
        plugin = ENGINES.get(value) if key == "hydra/launcher" else None
        if plugin and importlib.util.find_spec(f"hydra_plugins.hydra_{plugin}_launcher") is None:
            raise UsageError(f"{word} needs the extra 'cluster': pip install 'mira_bench[cluster]'")
        if key == "hydra.sweep.subdir":
            raise UsageError("hydra.sweep.subdir= cannot be set: the folders of jobs are named by what is swept")
        if key == "sweep" and Path(value.strip("'\"")).is_absolute():
            raise UsageError(f"{word}: a sweep has a name below {ROOT}; a folder is named by hydra.sweep.dir=")
    keys = [word.partition("=")[0] for word in words]
    more = []
    if "hydra.sweep.dir" not in keys and "sweep" not in keys:
        more.append(f"hydra.sweep.dir='{(ROOT / _sweep_name(words)).as_posix()}'")
    if "hydra/sweeper" not in keys:
        Sweeper.command = command
        Plugins.instance().class_name_to_class[NAME] = Sweeper
        more.append(f"hydra.sweeper._target_={NAME}")
    return [*words, *more]


class Sweeper(BasicSweeper):
    r"""Hydra's grid of jobs without those that are done."""

    command: ClassVar[Command]  # Hydra makes the object, and knows nothing of it

    def sweep(self, arguments: list[str]) -> None:
        r"""Launches the jobs that are not done, and says how the sweep ended."""

        assert self.config is not None
        assert self.launcher is not None
        command = self.command
        folder = Path(str(self.config.hydra.sweep.dir))
        jobs, kinds, outs = self._jobs([*self._parse_config(), *arguments], expected_jobs(folder))
        problems = _shared(outs) or _problems(kinds)
        jobs = jobs if problems else _identified(jobs, kinds)
        todo = {name: job for name, job in jobs.items() if not _done(folder / name, outs.get(name), job)}
        dry = any(kind.cfg.dry for kind in kinds)
        problems = problems or ([] if dry else _running(folder, todo))
        if problems:
            for problem in problems:
                print(f"mira_bench: {problem}", file=sys.stderr)
            command.codes.append(USAGE)
            return
        if dry:
            command.codes.append(dry_sweep([_only(kind, todo) for kind in kinds], len(jobs)))
            return
        told = {name: job.overrides for name, job in jobs.items()}
        earlier = {text: [name for name in names if name not in told] for text, names in commands(folder).items()}
        made = {text: names for text, names in earlier.items() if names} | {str(command): list(told)}
        known = expected_contents(folder) | {name: job.fingerprint for name, job in jobs.items()}
        write_json(folder / SWEEP, {"commands": made, "jobs": expected_jobs(folder) | told, "fingerprints": known})
        if todo:
            clear_collected(folder)  # it is of an earlier state
        for name in todo:  # what is there is of an earlier attempt, and must not be taken for this one's
            clear(folder / name)
            (folder / name / JOB).unlink(missing_ok=True)
        launched = [[*job.overrides, f"hydra.sweep.subdir='{name}'"] for name, job in todo.items()]
        step = self.max_batch_size or max(1, len(launched))
        problem = ""
        with Watch(folder, list(todo), len(jobs) - len(todo)):
            for i in range(0, len(launched), step):
                try:
                    self.launcher.launch(launched[i : i + step], initial_job_idx=i)
                except Exception as error:  # a launcher gives up when a job was killed; the others go on without it
                    problem = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        command.codes.append(_say_end(folder, list(jobs), len(jobs) - len(todo), problem))

    def _jobs(
        self, arguments: list[str], before: dict[str, list[str]]
    ) -> tuple[dict[str, Job], list[Kind], dict[str, Path]]:
        r"""Returns the jobs by name, their kinds, and the folders of results that were given by `out=`."""
        assert self.config is not None
        assert self.hydra_context is not None
        loader = self.hydra_context.config_loader
        parsed = OverridesParser.create(config_loader=loader).parse_overrides(arguments)
        swept = {o.get_key_element() for o in parsed if o.is_sweep_override()}
        jobs: dict[str, Job] = {}
        kinds: dict[str, Kind] = {}
        outs: dict[str, Path] = {}
        grid = self.split_arguments(parsed, None)[0]
        with Console(stderr=True).status("") as status:
            for i, overrides in enumerate(grid):
                status.update(f"reading the settings of {len(grid)} jobs: {i}")
                # Composing each job here refuses a bad value before any job runs.
                cfg = loader.load_sweep_config(self.config, list(overrides))
                own = [o for o in overrides if o.partition("=")[0] in swept]
                name = ",".join(map(_safe, own)) or "job"
                other = name in before and lasting(before[name]) != lasting(overrides)  # another command, same sweep=
                if other or name in jobs or len(name) > LONGEST:
                    name = f"{name[: LONGEST - 9]}-{_short(json.dumps(lasting(overrides)))}"
                with _as_job(cfg, i):
                    jobs[name] = Job(name, list(overrides), fingerprint=hash_settings(cfg))
                    same = hash_settings(cfg, besides=["seed"] if isinstance(cfg.seed, int) else [])
                    if any(key_of(o) == "out" for o in overrides):
                        outs |= _resolved_out(name, cfg)
                task = str(cfg.hydra.runtime.choices.task)
                label = " ".join([task, *(o for o in own if o.partition("=")[0] not in ("task", "seed"))])
                kind = kinds.setdefault(same, Kind(label, task, cfg))
                kind.jobs.append(jobs[name])
                kind.seeds.append(cfg.seed)
        return jobs, list(kinds.values()), outs


@contextmanager
def _as_job(cfg: "DictConfig", number: int) -> Iterator[None]:
    r"""Lets settings that ask Hydra about their job find it, as they will in the job."""
    config = HydraConfig.instance()
    before = config.cfg
    with open_dict(cfg):
        cfg.hydra.job.num, cfg.hydra.job.id = number, str(number)
    config.set_config(cfg)
    try:
        yield
    finally:
        config.cfg = before


def _resolved_out(name: str, cfg: "DictConfig") -> dict[str, Path]:
    try:
        return {name: Path(str(cfg.out))}
    except OmegaConfBaseException:  # only the job knows
        return {}


def _shared(outs: Mapping[str, Path]) -> list[str]:
    r"""Says which jobs would write into one folder, where the last one would be left."""
    seen: dict[Path, str] = {}
    for name, out in outs.items():
        if out in seen:
            return [
                f"out={out}: {seen[out]} and {name} would share this folder; each job has its own in the sweep's, "
                "which sweep=NAME names"
            ]
        seen[out] = name
    return []


def _identified(jobs: Mapping[str, Job], kinds: Sequence[Kind]) -> dict[str, Job]:
    r"""The jobs, known by their settings and by what these stand for: code and files may have been edited."""
    content = {job.name: kind.content for kind in kinds for job in kind.jobs}
    return {
        name: replace(job, fingerprint=job_fingerprint(job.fingerprint, content[name])) for name, job in jobs.items()
    }


def _running(folder: Path, todo: Iterable[str]) -> list[str]:
    r"""Says which jobs another process of this machine is working on."""
    found = []
    for name in todo:
        job = read_job(folder / name)
        if job is not None and job.status == "running" and job.host == socket.gethostname() and job.pid != os.getpid():
            found.append(
                f"{name} is running already, in process {job.pid}: wait for its end, or end it and start again"
            )
    return found


def _only(kind: Kind, todo: Mapping[str, Job]) -> Kind:
    r"""A kind without the jobs that are done."""
    left = [(job, seed) for job, seed in zip(kind.jobs, kind.seeds, strict=True) if job.name in todo]
    return replace(kind, jobs=[job for job, _ in left], seeds=[seed for _, seed in left])


def _problems(kinds: Sequence[Kind]) -> list[str]:
    r"""Returns what makes jobs of a sweep impossible: a sentence each, after the overrides that it is about."""
    good: set[str] = set()
    bad: dict[str, list[set[str]]] = {}
    for kind in kinds:
        overrides = [job.overrides for job in kind.jobs]
        try:
            kind.content.update(prepare(kind.cfg, kind.task, overrides[0], elsewhere=True).content)
            good.update(*overrides)
        except (UsageError, OmegaConfBaseException) as error:
            bad.setdefault(" ".join(str(error).split()), []).extend(map(set, overrides))
    found = []
    for sentence, jobs in bad.items():
        # To blame is what all of these jobs have, and if possible no good one; best if the sentence speaks of it.
        common = set.intersection(*jobs)
        blamed = common - good or common
        words = {*re.findall(r"'([^']+)'", sentence), *re.findall(r"^\w+(?=:)", sentence)}
        named = {o for o in blamed if any(word in o for word in words)}
        told = " ".join(sorted(named or blamed, reverse=True))
        found.append(f"{told}: {sentence}".replace("\\", ""))  # Hydra escapes the colon of file.py:name
    return found


def _done(folder: Path, out: Path | None, job: Job) -> bool:
    r"""Whether the very job is done, and its results are where they should be."""
    before = read_job(folder)
    if before is None or before.status != "done" or not job.fingerprint or before.fingerprint != job.fingerprint:
        return False
    if changed(before.reads) is not None:
        return False
    return read_facts(out or folder).get("fingerprint") == job.fingerprint


def _read_by_user(opened: Iterable[str], since: float, besides: Iterable[Path]) -> dict[str, str]:
    r"""The hashes of the files that were read, but for ours and for those that were written meanwhile.

    Arguments:
        opened: The paths of the files that were opened.
        since: The time at which the job began, in seconds since 1970.
        besides: Folders whose files are the package's own.
    """
    ours = [path.resolve() for path in besides] + [Path(__file__).parents[1].resolve()]
    ours += [ours[-1].parent / part for part in ("configs", "tasks")]  # of a checkout
    found: dict[str, str] = {}
    for name in sorted(opened):
        path = Path(name).resolve()
        if not path.is_file() or path.stat().st_mtime >= since or any(path.is_relative_to(one) for one in ours):
            continue
        content = hash_file(name)
        found |= {name: content} if content is not None else {}
    return found


def _say_end(folder: Path, names: Sequence[str], before: int, problem: str) -> int:
    r"""Prints how a sweep ended, and returns its exit code."""
    jobs = [read_job(folder / name) or Job(name) for name in names]
    bad = [job for job in jobs if job.status != "done"]
    if problem:
        print(f"mira_bench: the launcher gave up ({problem}); jobs under way elsewhere go on", file=sys.stderr)
    for job in bad[:10]:
        print(f"{job.status}: {job.name}{': ' * bool(job.reason)}{job.reason}", file=sys.stderr)
    if len(bad) > 10:
        print(f"and {len(bad) - 10} more", file=sys.stderr)
    skipped = f", {before} of them before" if before else ""
    print(f"{len(jobs)} jobs: {len(jobs) - len(bad)} done{skipped}, {len(bad)} not. Folder: {folder}")
    if bad:
        print("The same command runs those again that are not done.")
    print(f"One table of all: python -m mira_bench collect {shlex.quote(str(folder))}")
    if bad and all(job.code == USAGE for job in jobs):
        return USAGE
    return FAILED if bad else OK


def do_job(
    work: Callable[[Callable[[str], None]], int],
    folder: Path,
    out: Path,
    store: Path | None,
    task: str,
    overrides: Sequence[str],
) -> int:
    r"""Does a job of a sweep, records it in `job.json`, and keeps what it prints in `output.txt`.

    A job that fails, for whatever reason, is a record and an exit code: the others go on.

    Arguments:
        work: A function that does the job, tells the fingerprint of what it does as soon as that is known, and returns
            the exit code.
        folder: The folder of the job.
        out: The folder of the job's results.
        store: The folder of the store, if there is one.
        task: The name of the task.
        overrides: The settings that make the job, as on the command line.
    """

    start, since = time.monotonic(), time.time()
    job = Job(folder.name, list(overrides), task, "", "running", host=socket.gethostname(), pid=os.getpid())
    clear(folder)  # a scheduler may have started it before
    job.save(folder)
    last = start

    def tell(progress: float) -> None:
        nonlocal last
        if time.monotonic() - last > 1 or progress >= 1:
            last = time.monotonic()
            replace(job, progress=round(progress, 3), seconds=round(last - start, 1)).save(folder)

    def identify(content: str) -> None:
        nonlocal job
        job = replace(job, fingerprint=content)
        job.save(folder)

    with (
        (folder / "output.txt").open("w", encoding="utf-8") as output,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        watched(tell),
        listening() as heard,
    ):
        try:
            code, reason = _do(work, identify, out)
        except BaseException:
            replace(job, status="interrupted", seconds=round(time.monotonic() - start, 1)).save(folder)
            raise
    status = "done" if code == OK else "failed"
    seconds = round(time.monotonic() - start, 1)
    reads = _read_by_user(heard.files, since, [folder.parent, out, *([] if store is None else [store])])
    # Its workers read files too; code is in the fingerprint.
    files = read_facts(out).get("files") or {}
    reads |= {path: content for path, content in files.items() if not path.endswith(".py")}
    replace(job, status=status, progress=1.0, seconds=seconds, code=code, reason=reason, reads=reads).save(folder)
    return code


def _do(work: Callable[[Callable[[str], None]], int], identify: Callable[[str], None], out: Path) -> tuple[int, str]:
    r"""Does the work of a job; returns its exit code, and the reason if it failed."""
    try:
        code = int(work(identify))
    except Exception as error:
        refuse_to_hide_an_interrupt(error)
        if isinstance(error, UsageError | OmegaConfBaseException):
            return USAGE, " ".join(str(error).split())
        traceback.print_exc()
        return FAILED, f"{type(error).__name__}: {' '.join(str(error).split())}"
    return code, _failures(out) if code else ""


def _failures(folder: Path) -> str:
    r"""Returns the reasons of the candidates that failed in a run that went to its end."""
    return "; ".join(f"{name}: {reason}" for name, reason in (read_facts(folder).get("failures") or {}).items())
