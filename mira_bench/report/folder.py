r"""The folder that explains a run, and what its end looks like on a terminal. All that scores share it."""

__all__ = ["conclude", "held_log", "logging_to", "save_config"]

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging.handlers import MemoryHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ..errors import UsageError
from .methods import console_methods, explain_methods
from .outputs import announce, claim, finish, open_folder, resolved
from .page import REPORT, try_report
from .provenance import provenance
from .screen import screen
from .tables import console

if TYPE_CHECKING:
    from ..result import Result

log = logging.getLogger("mira_bench")


@contextmanager
def logging_to(folder: Path, *, fresh: bool = False, held: Sequence[logging.LogRecord] = ()) -> Iterator[Path]:
    r"""Opens the folder of a run, without what an earlier one left there, and keeps the log in its `log.txt`.

    Arguments:
        folder: The folder of the run.
        fresh: Whether it must be a new one; it gets another name if there is one of this name.
        held: The records of what was logged before there was a folder.

    Yields:
        The folder.
    """

    try:
        folder = claim(folder) if fresh else folder
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "log.txt").open("a", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the folder {folder} cannot be written: {error}") from error
    with file:
        _lock(file, folder)
        open_folder(folder, besides=["log.txt"])
        file.truncate(0)
        announce(folder, "log.txt")
        handler = logging.StreamHandler(file)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        for record in held:
            handler.handle(record)
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        try:
            yield folder
        except Exception as error:
            log.error("%s", error)
            raise
        finally:
            log.removeHandler(handler)


def _lock(file: TextIO, folder: Path) -> None:
    r"""Refuses a folder that another run writes into. The lock goes with the process; not all disks know locks."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UsageError(f"another run is writing into {folder}: wait for its end, or give another out=") from error
    except OSError:
        return


@contextmanager
def held_log() -> Iterator[list[logging.LogRecord]]:
    r"""Keeps what is logged in memory, until it is known whether there will be a folder for it."""

    handler = MemoryHandler(2**20, flushLevel=logging.CRITICAL + 1)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield handler.buffer
    finally:
        log.removeHandler(handler)


def save_config(settings: Any, folder: Path) -> None:
    r"""Writes settings as `config.yaml`, with the values of what is interpolated."""

    from omegaconf import OmegaConf

    plain = resolved(settings) if OmegaConf.is_config(settings) else dict(settings)
    announce(folder, "config.yaml")
    OmegaConf.save(OmegaConf.create(plain), folder / "config.yaml")


def conclude(result: "Result", folder: Path, task: str, seconds: float, facts: Mapping[str, Any] | None = None) -> None:
    r"""Writes tables, figures, `provenance.json` and the page, and prints the ranking, warnings and failures.

    Arguments:
        result: What the run gave.
        folder: The folder of the run, which is open.
        task: The name of the task.
        seconds: The time that the run took.
        facts: What else `provenance.json` is to say.
    """

    result.write(folder)
    told = {"task": task, "seed": result.seed, "seconds": seconds, "candidate_seconds": result.seconds}
    told |= {"failures": result.failures, "identity": dict(result.identity), "files": dict(result.files)}
    told |= dict(facts or {})
    told["files"] = dict(result.files) | dict((facts or {}).get("files", {}))
    announce(folder, REPORT)
    finish(folder, provenance(**told))
    failure = try_report(folder)
    page = screen()
    page.print(console(result, page.width))
    if result.methods is not None:
        page.print(console_methods(result.methods, page.width))
        page.print(explain_methods(result.methods, result.rank_by, page.width), highlight=False)
    for notice in (*result.reuse, *result.notices):
        log.info("%s", notice)
        print(f"note: {notice}", file=sys.stderr)
    for warning in result.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for name, reason in result.failures.items():
        print(f"{name} failed: {reason}", file=sys.stderr)
    if failure:
        print(failure, file=sys.stderr)
    look = "" if failure else f"; look at {folder / REPORT}"
    print(f"{seconds:.1f} s. Tables, figures and log: {folder}{look}")
    log.info("done in %.1f s", seconds)
