r"""Whether products of 16 bits can be had here: some virtual machines announce instructions that end the process."""

__all__ = ["runs_bfloat16"]

import functools
import logging
import subprocess
import sys
from pathlib import Path

log = logging.getLogger("mira_bench")

PROCESSOR = Path("/proc/cpuinfo")
TRIAL = (
    "import torch; torch.set_num_threads(1); half = torch.bfloat16; "
    "torch.nn.Linear(64, 64, dtype=half)(torch.ones(64, 64, dtype=half)); "
    "torch.nn.Conv2d(32, 32, 3, dtype=half)(torch.ones(2, 32, 16, 16, dtype=half))"
)
SECONDS = 120.0  # for a start of torch on a busy machine


@functools.cache
def runs_bfloat16() -> bool:
    r"""Whether this processor multiplies in 16 bits. Where it has tiles (AMX), another process tries it first.

    An instruction that is announced and not there ends a process without a word, hours of training with it.
    """

    if not announces_tiles(PROCESSOR):
        return True
    try:
        done = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return True  # nothing is known against it
    if done.returncode >= 0:  # a signal has a negative one
        return True
    log.warning(
        "this machine announces AMX and cannot run it (signal %d): training in 32 bits, which takes up to twice as "
        "long. With the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 16 bits are used without AMX",
        -done.returncode,
    )
    return False


def announces_tiles(described: Path) -> bool:
    r"""Whether a description of processors, as Linux has it, names AMX."""
    try:
        return "amx_tile" in described.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return False
