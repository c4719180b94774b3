r"""Speed of MIRA against mira-score 0.1.7, side by side on the same arrays.

    python benchmarks/kernel.py              # one thread each; about two minutes
    python benchmarks/kernel.py --threads 2

Both compute the score from 100 regions per fiducial, from float32 arrays. Every case has a process of its own, so that
none inherits the memory of another; the two take turns, twice, and the faster turn of each counts.
"""

import argparse
import subprocess
import sys
import time

import numpy as np

CASES = [(1000, 500, 2, 50), (1000, 5000, 2, 50), (200, 2000, 13, 15), (100, 20000, 13, 25), (16, 64, 12288, 15)]
REGIONS = 100


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(fiducials, samples, dim, threads):
    r"""Returns the times of mira-score, of ours, and of our first call."""
    import torch
    from mira_score import mira as mira_score
    from threadpoolctl import threadpool_limits

    from mira_bench import mira

    rng = np.random.default_rng(0)
    truths = rng.standard_normal((fiducials, dim), dtype=np.float32)
    values = rng.standard_normal((fiducials, samples, dim), dtype=np.float32)
    y, s = torch.from_numpy(truths), torch.from_numpy(values)[None]
    torch.set_num_threads(threads)
    theirs, ours = [], []
    with threadpool_limits(threads):
        first = seconds(lambda: mira(truths[:2], values[:2], threads=threads))
        for _ in range(2):
            theirs.append(seconds(lambda: mira_score(y, s, num_runs=REGIONS, disable_tqdm=True)))
            ours.append(seconds(lambda: mira(truths, values, threads=threads, regions=REGIONS)))
    return min(theirs), min(ours), first


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case is not None:
        print(*compare(*CASES[arguments.case][:3], arguments.threads))
        return
    print(f"{arguments.threads} thread(s), {REGIONS} regions\n")
    print("| L, S, d | mira-score (s) | mira_bench (s) | ratio | target | first call (s) |")
    print("|---|---|---|---|---|---|")
    for i, (fiducials, samples, dim, target) in enumerate(CASES):
        command = [sys.executable, __file__, "--threads", str(arguments.threads), "--case", str(i)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        theirs, ours, first = map(float, answer.split())
        print(
            f"| {fiducials}, {samples}, {dim} | {theirs:.2f} | {ours:.4f} | {theirs / ours:.0f}x | {target}x "
            f"| {first:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
