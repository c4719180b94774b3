r"""Python files of the user: each runs with its own helpers, and is known by all that it loaded.

A file may import what stands next to it, or, in a checkout, at its root. Two files, each with a `utils.py` beside it,
must not meet each other's: so the modules of a file live in a room of their own, under names that nobody else has, and
`import utils` means the `utils.py` of that room, when the file is run and later. Python's own modules and installed
packages are shared as ever.

What identifies a file is its text, the texts of its helpers, and the content of the data files that it read while it
was run, all as they were then. Workers run these texts, not the files, which may have been edited since.
"""

__all__ = ["Source", "load_source"]

import ast
import builtins
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import UsageError
from .reads import changed, listening

ROOM = "mira_bench_room_"  # the first letters of the packages that rooms are
KEPT = 16  # sources that a worker keeps, so that it runs a file once and not for every unit


@dataclass(frozen=True)
class Source:
    r"""A file of the user that was run.

    Arguments:
        path: The path of the file.
        module: The module that running the file made.
        texts: The texts of the file and its helpers as they ran, by their path in the folder.
        reads: The hashes of the data files that were read meanwhile, by path.
        token: Tells this run of the file from others.
        folder: The folder in which its imports start, if it is not the file's own.
    """

    path: str
    module: ModuleType = field(compare=False)
    texts: Mapping[str, bytes] = field(compare=False)
    reads: Mapping[str, str] = field(compare=False)
    token: str = field(default_factory=lambda: secrets.token_hex(8), compare=False)
    folder: str | None = None

    @property
    def content(self) -> str:
        r"""The hash of all that was loaded."""
        sha = hashlib.sha256()
        for name, text in sorted(self.texts.items()):
            sha.update(f"{name} {len(text)} ".encode() + text)
        folder = _root(self.path, self.folder)
        for name, content in sorted(self.reads.items()):
            sha.update(f"{os.path.relpath(name, folder)} {content} ".encode())
        return sha.hexdigest()

    @property
    def files(self) -> dict[str, str]:
        r"""The hashes of all files by path."""
        folder = Path(self.path).parent if self.folder is None else Path(self.folder)
        hashes = {str(folder / name): hashlib.sha256(text).hexdigest() for name, text in self.texts.items()}
        return hashes | dict(self.reads)

    def find(self, name: str) -> Any:
        r"""Returns what the file defines under a name."""
        if not hasattr(self.module, name):
            there = ", ".join(sorted(k for k in vars(self.module) if not k.startswith("_"))) or "nothing"
            raise UsageError(f"{self.path} defines no {name}; it has {there}")
        return getattr(self.module, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.path, dict(self.texts), dict(self.reads), self.token, self.folder)


def load_source(path: str, what: str, folder: str | None = None) -> Source:
    r"""Runs a Python file of the user.

    Arguments:
        path: The path of the file.
        what: What asks for it, for errors.
        folder: The folder in which its imports start, for a file further down; by default the file's own.
    """

    if not Path(path).is_file():
        raise UsageError(f"{what}: there is no file {path}")
    return _run(path, what, {}, folder)


def _root(path: str, folder: str | None) -> Path:
    return Path(path).resolve().parent if folder is None else Path(folder).resolve()


_RESTORED: dict[str, Source] = {}


def _restore(path: str, texts: Mapping[str, bytes], reads: Mapping[str, str], token: str, folder: str | None) -> Source:
    r"""Runs in a worker what was run where the run was started."""
    if token not in _RESTORED:
        made = _run(path, path, texts, folder)
        other = changed(reads)
        if other is not None:
            raise UsageError(f"{other}, which {path} reads, was edited while the run was under way: start it again")
        if len(_RESTORED) >= KEPT:
            del _RESTORED[next(iter(_RESTORED))]
        _RESTORED[token] = Source(path, made.module, made.texts, made.reads, token, folder)
    return _RESTORED[token]


def _run(path: str, what: str, texts: Mapping[str, bytes], folder: str | None) -> Source:
    room = _Room(_root(path, folder), texts)
    inside = Path(path).resolve().name if folder is None else os.path.relpath(path, folder)
    try:
        with listening() as heard:
            module = importlib.import_module(".".join((room.name, *Path(inside).with_suffix("").parts)))
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{what}: {path} fails with {type(error).__name__}: {error}") from error
    room.read_helpers()
    return Source(path, module, dict(room.ran), heard.hashes(), folder=folder)


class _Room:
    r"""A package of modules that only one file of the user, and its helpers, can see.

    Arguments:
        folder: The folder of the modules.
        texts: Their texts by path in the folder; those that are not given are read from there.
    """

    def __init__(self, folder: Path, texts: Mapping[str, bytes]) -> None:
        self.folder = folder
        self.texts = texts
        self.ran: dict[str, bytes] = {}
        self.name = f"{ROOM}{secrets.token_hex(6)}"
        package = ModuleType(self.name)
        package.__path__ = [str(folder)]
        sys.modules[self.name] = package
        self.builtins = {**vars(builtins), "__import__": self._import}
        _Finder.rooms[self.name] = self
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())

    def find(self, name: str) -> tuple[str, bool] | None:
        r"""Returns the file of a module, as a path in the folder, and whether it is a package; or none."""
        stem = name.replace(".", "/")
        for path, package in ((f"{stem}/__init__.py", True), (f"{stem}.py", False)):
            if path in self.texts or (self.folder / path).is_file():
                return path, package
        return None

    def is_folder(self, name: str) -> bool:
        r"""Whether a name is a folder of modules without an `__init__.py`, which is a package as well."""
        stem = name.replace(".", "/")
        return any(path.rpartition("/")[0] == stem for path in self.texts) or any((self.folder / stem).glob("*.py"))

    def folder_spec(self, fullname: str, name: str) -> importlib.machinery.ModuleSpec:
        r"""Returns what such a folder is to Python."""
        spec = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = [str(self.folder / name.replace(".", "/"))]
        return spec

    def has(self, name: str) -> bool:
        r"""Whether an import means a module of this room."""
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top == "mira_bench":
            return False
        return self.find(top) is not None or self.is_folder(top)

    def read(self, path: str) -> bytes:
        if path not in self.ran:
            self.ran[path] = self.texts[path] if path in self.texts else (self.folder / path).read_bytes()
        return self.ran[path]

    def read_helpers(self) -> None:
        r"""Reads the helpers that are imported later, inside functions: they belong to the file as the others do."""
        waiting = list(self.ran)
        while waiting:
            for name in _imports(self.read(waiting.pop())):
                found = self.find(name) if self.has(name) else None
                if found is not None and found[0] not in self.ran:
                    self.read(found[0])
                    waiting.append(found[0])

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if level > 0 or not self.has(name):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        found = builtins.__import__(f"{self.name}.{name}", globals, locals, fromlist or (), 0)
        return found if fromlist else sys.modules[f"{self.name}.{name.partition('.')[0]}"]


def _imports(text: bytes) -> Iterator[str]:
    r"""The modules that a text imports by their full name, anywhere."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


class _Finder(importlib.abc.MetaPathFinder):
    r"""Finds the modules of rooms."""

    rooms: dict[str, _Room] = {}  # noqa: RUF012  (all rooms of this process)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        root, _, name = fullname.partition(".")
        room = self.rooms.get(root)
        if room is None or not name:
            return None
        found = room.find(name)
        if found is None:
            return room.folder_spec(fullname, name) if room.is_folder(name) else None
        file, package = found
        spec = importlib.machinery.ModuleSpec(
            fullname, _Loader(room, file), origin=str(room.folder / file), is_package=package
        )
        spec.has_location = True
        if package:
            spec.submodule_search_locations = [str((room.folder / file).parent)]
        return spec


class _Loader(importlib.abc.Loader):
    r"""Runs a module of a room from its text: what Python has compiled before may be of an older one."""

    def __init__(self, room: _Room, file: str) -> None:
        self.room, self.file = room, file

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = self.room.builtins
        code = compile(self.room.read(self.file), str(self.room.folder / self.file), "exec", dont_inherit=True)
        exec(code, vars(module))
