r"""What this package writes into a folder, so that it can be told from what others keep there, and removed.

A run that begins in the folder of an earlier one removes what that one wrote, and nothing else: no figure stays beside
tables of another run, and no table beside the log of a run that failed. While a run is under way, the files that it
writes are listed in `.outputs`; at its end the list goes to `provenance.json`. Figures and copies of code show by
themselves whose they are.
"""

__all__ = [
    "FACTS", "LOOKS", "MARK", "announce", "check_folder", "check_style", "claim", "clear", "clear_collected",
    "copy_code", "finish", "open_folder", "read_facts", "resolved", "write_json",
]  # fmt: skip

import contextlib
import hashlib
import itertools
import json
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..writing import appearing

if TYPE_CHECKING:
    from omegaconf import DictConfig

JOURNAL = ".outputs"
FACTS = "provenance.json"
CODE = "code"  # the folder of the user's files as they ran
LARGEST = 2**20  # bytes of a file of code that is copied; a larger one holds data
LOOKS = ("paper", "screen")  # of figures; see `mira_bench.report.figures`
MARK = "made by mira_bench"  # is in our figures
_COLLECTION = b'<meta name="subject" content="collection">'  # is in the page of what was collected

COLLECTED = (
    "leaderboard.csv", "leaderboard.md", "leaderboard.tex", "leaderboard.png", "leaderboard.pdf", "table.csv",
    "table.parquet", "jobs.csv",
)  # fmt: skip
# What folders hold whose `provenance.json` has no list yet.
_EARLIER = (
    "scores.parquet", "summary.csv", "ranking.csv", "ranking.md", "ranking.tex", "methods.csv", "config.yaml",
    "log.txt", FACTS, "study.csv", "study.md", "runs.csv",
    *(f"figures/{name}.{kind}" for name in ("overview", "sbc", "convergence", "power") for kind in ("png", "pdf")),
)  # fmt: skip
_EARLIER_PAPER = ("table.csv", "table.md", "table.tex", "notes.md", "figure.png", "figure.pdf")


def read_facts(folder: Path) -> dict[str, Any]:
    r"""Returns the `provenance.json` of a folder, which is written last; empty if the folder is not complete."""

    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def claim(folder: Path) -> Path:
    r"""Makes a new folder, of this name or with a number behind it: two runs never share one that nobody named."""

    folder.parent.mkdir(parents=True, exist_ok=True)
    for path in itertools.chain([folder], (folder.with_name(f"{folder.name}_{i}") for i in itertools.count(2))):
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path
    raise AssertionError


def check_folder(folder: Path) -> None:
    r"""Raises if a folder cannot be written, before work is spent on what would go there."""

    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UsageError(f"the folder {folder} cannot be written: {there} is no folder that can be")


def check_style(style: str) -> None:
    r"""Raises if figures have no such look, before work is spent on what they would show."""

    if style not in LOOKS:
        raise UsageError(f"style={style!r} is not one of {', '.join(LOOKS)}")


def open_folder(folder: Path, besides: Container[str] = ()) -> None:
    r"""Removes what an earlier run left in a folder, and begins the list of what this one writes.

    Arguments:
        folder: The folder of the run.
        besides: The names of files that stay.
    """

    clear(folder, besides)
    (folder / JOURNAL).touch()


def announce(folder: Path, *names: str) -> None:
    r"""Puts files on the list of a folder that is open, before they are written.

    Arguments:
        folder: The folder of the run.
        names: The files that will be written, by their path in the folder.
    """

    if (folder / JOURNAL).exists():
        with (folder / JOURNAL).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(name) + "\n" for name in names)


def finish(folder: Path, facts: Mapping[str, Any]) -> None:
    r"""Writes `provenance.json`, which says that all the rest is there."""

    listed = [*_journal(folder), FACTS]
    write_json(folder / FACTS, {**facts, "outputs": sorted({*facts.get("outputs", ()), *listed})})
    (folder / JOURNAL).unlink(missing_ok=True)


def clear(folder: Path, besides: Container[str] = ()) -> None:
    r"""Removes what runs wrote into a folder, and the folders in it that are empty then.

    Arguments:
        folder: The folder of the run.
        besides: The names of files that stay.
    """

    facts = read_facts(folder)
    listed = facts.get("outputs")
    if listed is None and "mira_bench" in (facts.get("versions") or {}):
        listed = [*_EARLIER, *(_EARLIER_PAPER if "paper" in facts else ())]
    names = [*_journal(folder), *_signed(folder), *(listed or ()), JOURNAL]
    _remove(folder, (str(name) for name in names if name not in besides))
    clear_collected(folder)


def clear_collected(folder: Path) -> None:
    r"""Removes what `collect` wrote into a folder."""

    if _header(folder / "leaderboard.csv").startswith("leaderboard,task,rank,candidate,"):
        _remove(folder, COLLECTED)
        pages = ("report.html", "leaderboard.html")
        _remove(folder, [name for name in pages if _COLLECTION in _beginning(folder / name)])


def _remove(folder: Path, names: Iterable[str]) -> None:
    around: set[Path] = set()
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            continue  # somebody else wrote the list
        with contextlib.suppress(IsADirectoryError, NotADirectoryError):
            (folder / path).unlink(missing_ok=True)
        around |= {folder / parent for parent in path.parents if parent.parts}
    for inner in sorted(around, key=lambda one: -len(one.parts)):
        with contextlib.suppress(OSError):
            inner.rmdir()


def _journal(folder: Path) -> list[str]:
    r"""What a run that did not come to its end wrote, or may have written."""
    names = []
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for line in (folder / JOURNAL).read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):  # the last line of a process that was killed
                names.append(str(json.loads(line)))
    return names


def _signed(folder: Path) -> Iterator[str]:
    r"""The files that show by themselves that they are ours."""
    if _header(folder / "methods.csv").startswith("method,networks,failed,"):
        yield "methods.csv"
    if _header(folder / "details.json").startswith('{"format": '):
        yield "details.json"
    if MARK.encode() in _beginning(folder / "report.html"):
        yield "report.html"
    for path in (folder / "figures").glob("*.p[nd][gf]"):
        with contextlib.suppress(OSError):
            if MARK.encode() in path.read_bytes():
                yield f"figures/{path.name}"
    for path in (folder / CODE).glob("*.py"):
        told = re.search(r"-([0-9a-f]{8})\.py$", path.name)
        with contextlib.suppress(OSError):
            if told and hashlib.sha256(path.read_bytes()).hexdigest().startswith(told[1]):
                yield f"{CODE}/{path.name}"


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(2**12)
    except OSError:
        return b""


def _header(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline()
    except (OSError, UnicodeDecodeError):
        return ""


def copy_code(folder: Path, texts: Mapping[str, bytes]) -> dict[str, str]:
    r"""Keeps copies of the user's files in `code/`; returns the copies by path.

    A copy is called after its file and its content: files of one name do not meet.
    """

    copies = {}
    for path, text in sorted(texts.items()):
        if len(text) > LARGEST:
            continue
        name = f"{CODE}/{Path(path).stem}-{hashlib.sha256(text).hexdigest()[:8]}.py"
        announce(folder, name)
        (folder / CODE).mkdir(exist_ok=True)
        (folder / name).write_bytes(text)
        copies[path] = name
    return copies


def write_json(path: Path, facts: Mapping[str, Any]) -> None:
    r"""Writes a file of JSON, which appears complete or not at all."""

    text = json.dumps(facts, indent=2) + "\n"
    try:
        with appearing(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}") from error


def resolved(cfg: "DictConfig", besides: Iterable[str] = ()) -> dict[str, Any]:
    r"""Returns a config as plain data in which what is interpolated has its value, an environment variable for example.

    What nobody can resolve, in a key that nobody uses perhaps, stays as it is written.

    Arguments:
        cfg: The config of the run.
        besides: Keys of the top level that are left out.
    """

    from omegaconf import DictConfig, ListConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    def plain(node: Any) -> Any:
        if isinstance(node, DictConfig) and not (node._is_none() or node._is_missing() or node._is_interpolation()):
            return {str(key): value(node, key) for key in node}
        if isinstance(node, ListConfig) and not (node._is_none() or node._is_missing() or node._is_interpolation()):
            return [value(node, i) for i in range(len(node))]
        return OmegaConf.to_container(node) if OmegaConf.is_config(node) else node

    def value(parent: Any, key: Any) -> Any:
        if OmegaConf.is_missing(parent, key):
            return "???"
        try:
            return plain(parent[key])
        except OmegaConfBaseException:
            return str(parent._get_node(key)._value())

    skipped = set(besides)
    return {str(key): value(cfg, key) for key in cfg if key not in skipped}
