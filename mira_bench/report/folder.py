r"""The folder that explains a run, and what its end looks like on a terminal. All that scores share it."""

__all__ = ["conclude", "logging_to", "save_config"]

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .methods import console_methods, explain_methods
from .provenance import provenance
from .tables import console

if TYPE_CHECKING:
    from ..result import Result

log = logging.getLogger("mira_bench")


@contextmanager
def logging_to(folder: Path) -> Iterator[None]:
    r"""Makes the folder and keeps the log in its `log.txt`."""

    try:
        folder.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(folder / "log.txt", mode="w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the folder {folder} cannot be written: {error}") from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    except Exception as error:
        log.error("%s", error)
        raise
    finally:
        log.removeHandler(handler)
        handler.close()


def save_config(settings: Any, folder: Path) -> None:
    r"""Writes settings as `config.yaml`."""

    from omegaconf import OmegaConf

    plain = dict(settings) if isinstance(settings, Mapping) else OmegaConf.to_container(settings, resolve=True)
    OmegaConf.save(OmegaConf.create(plain), folder / "config.yaml")


def conclude(result: "Result", folder: Path, task: str, seconds: float) -> None:
    r"""Writes tables, figures and `provenance.json`, and prints the ranking, warnings and failures."""

    from rich.console import Console

    result.save(folder)
    facts = provenance(
        task=task, seed=result.seed, seconds=seconds, candidate_seconds=result.seconds, failures=result.failures
    )
    (folder / "provenance.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    screen = Console()
    screen = screen if screen.is_terminal else Console(width=180)
    screen.print(console(result, screen.width))
    if result.methods is not None:
        screen.print(console_methods(result.methods, screen.width))
        screen.print(explain_methods(result.methods, result.rank_by, screen.width), highlight=False)
    for notice in (*result.reuse, *result.notices):
        log.info("%s", notice)
        print(f"note: {notice}", file=sys.stderr)
    for warning in result.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for name, reason in result.failures.items():
        print(f"{name} failed: {reason}", file=sys.stderr)
    print(f"{seconds:.1f} s. Tables, figures and log: {folder}")
    log.info("done in %.1f s", seconds)
