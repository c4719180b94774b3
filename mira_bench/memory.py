r"""How much memory there is left to use, as far as the system says so, and how to give some back."""

__all__ = ["available_memory", "release"]

import contextlib
import mmap
from pathlib import Path
from typing import Any

import numpy as np

LIMITS = (  # of a container, and what is used of it
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available_memory() -> int | None:
    r"""Returns the bytes that this process may still take: of the machine, its container, and its own limit."""

    found = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    for limit, used in LIMITS:
        with contextlib.suppress(OSError, ValueError):
            found.append(int(Path(limit).read_text(encoding="utf-8")) - int(Path(used).read_text(encoding="utf-8")))
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        limit_of_process = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit_of_process != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
            found.append(limit_of_process - pages * resource.getpagesize())
    return max(min(found), 0) if found else None


def release(values: Any) -> None:
    r"""Lets the system take back the pages of a mapped file, which count as this process's; they can be read again."""

    while values is not None and not isinstance(values, np.memmap):
        values = getattr(values, "base", None)
    # Pages that somebody may have written to would be lost.
    if values is not None and values.mode == "r" and hasattr(mmap, "MADV_DONTNEED"):
        with contextlib.suppress(OSError, ValueError):
            values._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
