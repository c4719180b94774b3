r"""How long one waits before something happens: the best of several starts, beside that of Python itself.

    python benchmarks/start.py               # about a minute

A start that compiles kernels is not counted: the first of each is left out.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

TINY = ["fiducials=10", "metrics=[mira]", "store=null", "progress=false"]
CASES = {
    "python -c pass": (["-c", "pass"], None),
    "import mira_bench": (["-c", "import mira_bench"], 0.5),
    "--help": (["-m", "mira_bench", "--help"], 0.5),
    "list": (["-m", "mira_bench", "list"], 0.5),
    "fiducials=10 'metrics=[mira]'": (["-m", "mira_bench", *TINY], 2.0),
}


def seconds(words, folder):
    r"""Returns the time on the clock, and that of the processor: a busy machine changes the second less."""
    start, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, *words], check=True, cwd=folder, capture_output=True)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, spent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    print("| start | seconds | of a core | times python | target (s) |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        base = None
        for name, (words, target) in CASES.items():
            found = [seconds(words, folder) for _ in range(times + 1)][1:]
            best, spent = (min(column) for column in zip(*found, strict=True))
            base = base or best
            print(f"| `{name}` | {best:.2f} | {spent:.2f} | {best / base:.0f}x | {target or '-'} |")


if __name__ == "__main__":
    main()
