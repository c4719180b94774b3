r"""What explains a run: versions, the state of the code, the machine, the command, the times."""

__all__ = ["provenance"]

import os
import platform
import shlex
import subprocess
import sys
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("mira_bench", "numpy", "scipy", "numba", "torch", "pandas", "joblib", "hydra-core", "sbi", "caustics")


def _versions() -> dict[str, str]:
    from .._version import __version__

    found = {"mira_bench": __version__}
    for name in PACKAGES[1:]:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _git() -> dict[str, str | bool] | None:
    def ask(*words: str) -> str:
        here = Path(__file__).parent
        done = subprocess.run(("git", *words), cwd=here, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        # A package installed below somebody else's repository must not carry that repository's commit.
        if not (Path(ask("rev-parse", "--show-toplevel")) / "mira_bench").samefile(Path(__file__).parents[1]):
            return None
        # Results that are written into the checkout do not change the code.
        changed = bool(ask("status", "--porcelain", "--", ":/mira_bench", ":/tasks", ":/configs"))
        return {"commit": ask("rev-parse", "HEAD"), "changed": changed}
    except (OSError, subprocess.CalledProcessError):
        return None


def _command() -> str:
    r"""The command as it is typed, with quotes where a shell needs them."""
    name = Path(sys.argv[0]).name
    words = ["python", "-m", "mira_bench"] if name == "__main__.py" else [name]
    return shlex.join([*words, *sys.argv[1:]])


def provenance(**more: Any) -> dict[str, Any]:
    r"""Returns the circumstances of this process, with what the caller adds."""

    now = datetime.now(timezone.utc)
    return {
        "command": _command(),
        "date": now.date().isoformat(),
        "finished": now.isoformat(timespec="milliseconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "versions": _versions(),
        "git": _git(),
        **more,
    }
