r"""Where fiducials, samples and records live between runs: content-addressed, atomic, checked.

A file is one line of JSON (what it is, and the checksum of the rest) followed by an `.npz` archive. Its name is the
hash of all that determines its content, so a changed setting is another file, and two runs that need the same block
write the same one. Files appear by a rename, complete or not at all.
"""

__all__ = ["Entry", "Header", "Store"]

import dataclasses
import hashlib
import io
import json
import logging
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..writing import appearing

log = logging.getLogger("mira_bench")

SUFFIX = ".block"
STALE_SECONDS = 24 * 3600  # a temporary file older than this was left by a killed process


@dataclasses.dataclass(frozen=True)
class Header:
    r"""What a file of the store says of itself.

    Arguments:
        made: When it was made, in seconds since 1970.
        seconds: How long that took, if it is known.
        facts: What else was told of the block when it was written.
    """

    made: float
    seconds: float = 0.0
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Entry:
    r"""A file of the store."""

    path: Path
    size: int
    modified: float
    spec: dict[str, Any]


class Store:
    r"""A folder of blocks.

    Arguments:
        root: The folder; it is made when the first block is written. Without one, nothing is kept.
    """

    def __init__(self, root: str | os.PathLike[str] | None) -> None:
        self.root = None if root is None else Path(root)

    def _path(self, spec: Mapping[str, Any]) -> Path:
        assert self.root is not None
        text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
        key = hashlib.sha256(text.encode()).hexdigest()[:40]
        return self.root / key[:2] / f"{key}{SUFFIX}"

    def __contains__(self, spec: Mapping[str, Any]) -> bool:
        return self.root is not None and self._path(spec).exists()

    def look(self, spec: Mapping[str, Any]) -> Header | None:
        r"""Returns what a block says of itself, or none if it is not there or cannot be read."""

        if self.root is None:
            return None
        try:
            with self._path(spec).open("rb") as file:
                header = json.loads(file.readline())
            return Header(float(header["made"]), float(header["seconds"]), header["facts"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def generation(self, spec: Mapping[str, Any]) -> str:
        r"""Returns which blocks of an identity are good: none (empty) until `renew` was called for it."""

        found = self.get({"kind": "generation", **spec})
        return "" if found is None else str(found["token"])

    def renew(self, spec: Mapping[str, Any]) -> str:
        r"""Gives an identity a new generation, so that its blocks of before are not found again.

        The name is random: two runs that renew an identity at once, for two reasons, must not share blocks.
        """

        token = secrets.token_hex(4)
        self.put({"kind": "generation", **spec}, {"token": np.array(token)})
        return token

    def get(self, spec: Mapping[str, Any]) -> dict[str, NDArray] | None:
        r"""Returns the arrays of a block, or none if it is not there or is damaged."""

        if self.root is None:
            return None
        path = self._path(spec)
        try:
            with path.open("rb") as file:
                header = json.loads(file.readline())
                payload = file.read()
            if hashlib.sha256(payload).hexdigest() != header["sha256"]:
                raise ValueError("its checksum does not match")
            with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
                return dict(archive)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("store: %s is damaged (%s) and is made again", path, error)
            return None

    def put(self, spec: Mapping[str, Any], arrays: Mapping[str, NDArray], seconds: float = 0.0, **facts: Any) -> None:
        r"""Writes a block; nobody ever sees a part of it.

        Arguments:
            spec: All that determines the content.
            arrays: The arrays that the block holds, by name.
            seconds: How long it took to make it.
            facts: What else to keep about it, as plain JSON: `reads`, the hashes of the files that it depends on.
        """

        if self.root is None:
            return
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        payload = buffer.getvalue()
        header = {"format": 2, "sha256": hashlib.sha256(payload).hexdigest(), "spec": dict(spec)}
        header |= {"made": time.time(), "seconds": seconds, "facts": facts}
        path = self._path(spec)
        try:
            with appearing(path, lasting=True) as file:
                file.write(json.dumps(header).encode() + b"\n")
                file.write(payload)
        except OSError as error:
            raise UsageError(f"the store {self.root} cannot be written: {error}") from error

    def drop(self, spec: Mapping[str, Any]) -> None:
        r"""Removes a block, if it is there."""

        if self.root is not None:
            self._path(spec).unlink(missing_ok=True)

    def entries(self) -> Iterator[Entry]:
        r"""Lists the blocks, oldest first."""

        if self.root is None or not self.root.is_dir():
            return
        found = []
        for path in self.root.glob(f"*/*{SUFFIX}"):
            try:
                with path.open("rb") as file:
                    spec = json.loads(file.readline())["spec"]
                status = path.stat()
            except (OSError, ValueError, KeyError, TypeError):
                spec, status = {"kind": "damaged"}, path.stat()
            found.append(Entry(path, status.st_size, status.st_mtime, spec))
        yield from sorted(found, key=lambda entry: entry.modified)

    def prune(self, *, older_than: float = 0.0, kind: str | None = None, task: str | None = None) -> tuple[int, int]:
        r"""Removes blocks, and what killed processes left behind; returns their number and size.

        Arguments:
            older_than: Only blocks that were last written so many seconds ago.
            kind: Only blocks of this kind: fiducials, fit, memory (of a training that is not done), samples,
                reference or record.
            task: Only blocks of this task.
        """

        now = time.time()
        count = size = 0
        for entry in self.entries():
            wanted = kind in (None, entry.spec.get("kind")) and task in (None, entry.spec.get("task_name"))
            if wanted and now - entry.modified >= older_than:
                entry.path.unlink(missing_ok=True)
                count, size = count + 1, size + entry.size
        if self.root is not None and self.root.is_dir():
            for path in self.root.glob("*/.*"):
                if now - path.stat().st_mtime > STALE_SECONDS:
                    path.unlink(missing_ok=True)
            for folder in self.root.iterdir():
                if folder.is_dir() and not any(folder.iterdir()):
                    shutil.rmtree(folder, ignore_errors=True)
        return count, size
