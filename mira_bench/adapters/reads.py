r"""Files that code reads while it runs: heard, hashed, and compared later, as a build tool does with its inputs."""

__all__ = ["Heard", "changed", "hash_file", "listening"]

import hashlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# What libraries read for themselves is no data of the user.
SYSTEM = tuple({sys.prefix, sys.base_prefix, "/proc/", "/sys/", "/dev/", "/etc/", "/usr/"})
CACHES = ("/__pycache__/", "/.cache/", "/.config/", ".egg-info/", ".dist-info/")
PROGRAMS = (".py", ".pyc", ".so", ".block")  # code is known by its content, and the store looks after itself
EDITED = "edited while it was read"  # in place of a hash: equal to none

SETTLED = 2.0  # seconds after which an edit shows in the time of a file: clocks of file systems are coarse

_Signature = tuple[int, int, int]
_hashes: dict[str, tuple[_Signature, str]] = {}  # a file that did not change is not read again
_ears = threading.local()


@dataclass(frozen=True)
class Heard:
    r"""The files that were opened to be read, and how they looked then."""

    files: dict[str, _Signature] = field(default_factory=dict)

    def hashes(self) -> dict[str, str]:
        r"""Returns the hashes of those that are still there, by path."""
        found = {name: (hash_file(name), _signature(name)) for name in sorted(self.files)}
        return {
            name: content if signature == self.files[name] else EDITED
            for name, (content, signature) in found.items()
            if content is not None
        }


def _signature(path: str) -> _Signature | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def hash_file(path: str) -> str | None:
    r"""Returns the hash of a file's content; none if there is no such file, or it cannot be read."""

    signature = _signature(path)
    if signature is None or not os.path.isfile(path):
        return None
    known = _hashes.get(path)
    if known is not None and known[0] == signature:
        return known[1]
    sha = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while part := file.read(2**22):
                sha.update(part)
    except OSError:
        return None
    if time.time() - signature[0] / 1e9 > SETTLED:
        _hashes[path] = signature, sha.hexdigest()
    return sha.hexdigest()


def changed(reads: Mapping[str, str]) -> str | None:
    r"""Returns the first file whose content is not what the hash by its path says, or none."""

    return next((path for path, content in reads.items() if hash_file(path) != content), None)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open":  # first, and nothing else: Python tells of a great many events
        return
    heard: Heard | None = getattr(_ears, "heard", None)
    if heard is None:
        return
    path, mode = arguments[0], arguments[1]
    if isinstance(path, str | bytes | os.PathLike) and (mode is None or not set(str(mode)) & set("wax+")):
        name = os.path.abspath(os.fsdecode(path))
        if name in heard.files or name.startswith(SYSTEM) or name.endswith(PROGRAMS):
            return
        signature = _signature(name)
        if signature is not None and not any(part in Path(name).as_posix() for part in CACHES):
            heard.files[name] = signature


@contextmanager
def listening() -> Iterator[Heard]:
    r"""Collects the files that this thread opens to read. Libraries that open files below Python are not heard."""

    if not getattr(_hear, "installed", False):
        sys.addaudithook(_hear)
        _hear.installed = True  # type: ignore[attr-defined]
    before: Heard | None = getattr(_ears, "heard", None)
    heard = _ears.heard = Heard()
    try:
        yield heard
    finally:
        _ears.heard = before
        if before is not None:
            before.files.update(heard.files)
