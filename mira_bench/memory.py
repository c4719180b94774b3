r"""How much memory there is left to use, as far as the system says so, and how to give some back."""

__all__ = ["available_memory", "release"]

import contextlib
import mmap
from pathlib import Path
from typing import Any

import numpy as np

CGROUPS = Path("/sys/fs/cgroup")
# Of a container or a job: the limit, what is used, and which of that are pages of files that the system takes back.
UNIFIED = ("memory.max", "memory.current", "inactive_file")
LEGACY = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def available_memory() -> int | None:
    r"""Returns the bytes that this process may still take: of the machine, its container or job, and its own limit."""

    found = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    with contextlib.suppress(OSError):
        found += left_in_groups(Path("/proc/self/cgroup").read_text(encoding="utf-8"), CGROUPS)
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        limit_of_process = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit_of_process != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
            found.append(limit_of_process - pages * resource.getpagesize())
    return max(min(found), 0) if found else None


def left_in_groups(described: str, root: Path) -> list[int]:
    r"""Returns the bytes that are left in each control group of a process that has a limit.

    Arguments:
        described: The groups of the process, as `/proc/self/cgroup` has them: a line `number:controllers:path` each.
        root: Where groups are.
    """

    found = []
    for line in described.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top, names = (root / "memory", LEGACY) if controllers else (root, UNIFIED)
        inside = top / path.strip("/")
        for group in (inside, *inside.parents):
            with contextlib.suppress(OSError, ValueError):
                limit, used = (int((group / name).read_text(encoding="utf-8")) for name in names[:2])
                found.append(limit - used + _files(group, names[2]))
            if group == top:
                break
    return found


def _files(group: Path, name: str) -> int:
    r"""The bytes of a group that are pages of files nobody looked at lately."""
    with contextlib.suppress(OSError, ValueError):
        counted = (line.split() for line in (group / "memory.stat").read_text(encoding="utf-8").splitlines())
        return next((int(words[1]) for words in counted if words[0] == name), 0)
    return 0


def release(values: Any) -> None:
    r"""Lets the system take back the pages of a mapped file, which count as this process's; they can be read again."""

    while values is not None and not isinstance(values, np.memmap):
        values = getattr(values, "base", None)
    # Pages that somebody may have written to would be lost.
    if values is not None and values.mode == "r" and hasattr(mmap, "MADV_DONTNEED"):
        with contextlib.suppress(OSError, ValueError):
            values._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
