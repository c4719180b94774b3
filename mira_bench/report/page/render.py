r"""From the content of a page to one file of HTML: text is escaped, and data are JSON in which no tag is."""

__all__ = ["REPORT", "render", "run_page", "several_page", "try_report", "write_page", "write_report"]

import dataclasses
import logging
import shlex
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ...writing import appearing
from ..outputs import MARK
from .content import Page, Section
from .reading import Kept, read_run
from .sections import sections_of

if TYPE_CHECKING:
    from jinja2 import Template

log = logging.getLogger("mira_bench")

REPORT = "report.html"
SCRIPTS = ("vega.min.js", "vega-lite.min.js", "page.js")


def _file(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _script(name: str) -> str:
    # The map of a script is not beside the page.
    lines = [line for line in _file(name).splitlines() if not line.startswith("//# sourceMappingURL")]
    text = "\n".join(lines)
    if "</script" in text.lower():
        raise AssertionError(f"{name} would end the element that it is in")
    return text


@lru_cache(maxsize=1)
def _template() -> "Template":
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_file("page.html"))


def render(page: Page) -> str:
    r"""Returns a page as HTML."""

    scripts = [_script(name) for name in SCRIPTS]
    return _template().render(page=page, style=_file("page.css"), scripts=scripts, mark=MARK)


def _about(run: Kept) -> str:
    sizes: dict[str, Any] = next(iter((run.details.get("mira") or run.details.get("calibration") or {}).values()), {})
    parts = [f"{sizes[key]} {key}" for key in ("fiducials", "samples", "regions") if key in sizes]
    parts += [f"seed {run.facts['seed']}"] if "seed" in run.facts else []
    parts += [str(run.facts["date"])] if "date" in run.facts else []
    return ", ".join(parts)


def run_page(run: Kept) -> Page:
    r"""Returns the page of one run."""

    return Page(f"{run.task}: which posterior can be trusted", _about(run), sections_of(run))


def several_page(runs: Sequence[Kept]) -> Page:
    r"""Returns one page of several runs, one after the other."""

    sections: list[Section] = []
    for i, run in enumerate(runs, 1):
        tag = f"-{i}"
        own = sections_of(dataclasses.replace(run, tag=tag))
        for section in own:
            first = section is own[0]
            title = f"{run.task} ({run.folder.name})" if first else section.title
            sections.append(dataclasses.replace(section, id=section.id + tag, title=title, tag=tag, begins=first))
    return Page(f"{len(runs)} runs", ", ".join(dict.fromkeys(run.task for run in runs)), sections, "several")


def write_page(page: Page, path: Path) -> Path:
    r"""Writes a page, which appears complete or not at all."""

    try:
        with appearing(path) as file:
            file.write(render(page).encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}") from error
    return path


def write_report(folder: Path) -> Path:
    r"""Writes the page of the run in a folder."""

    return write_page(run_page(read_run(folder)), folder / REPORT)


def try_report(folder: Path) -> str:
    r"""Writes the page of a run that is over: a bug in it must not cost the run. Returns what went wrong, if it did."""

    try:
        write_report(folder)
    except Exception as error:
        told = (
            f"the page {folder / REPORT} could not be made ({type(error).__name__}: {error}); all else is there, "
            f"and the error is seen by: mira-bench report {shlex.quote(str(folder))}"
        )
        log.error("%s", told)
        return told
    return ""
