r"""Speed of the ranks under other distances against a straightforward torch.cdist, one thread, d = 13.

python benchmarks/distances.py
"""

import time

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from mira_bench import mira

FIDUCIALS, SAMPLES, DIM, REGIONS = 50, 2000, 13, 100
POWERS = {"l1": 1.0, "chebyshev": float("inf"), "minkowski(3)": 3.0, "cosine": None}


def straightforward(truths, samples, power):
    r"""Distances of all points to all centers, then a comparison, fiducial by fiducial."""
    ranks = []
    for y, s in zip(truths, samples, strict=True):
        c = torch.rand(REGIONS, DIM)
        if power is None:
            unit = torch.nn.functional.normalize
            mine, theirs = 1 - unit(c) @ unit(y[None]).T, 1 - unit(c) @ unit(s).T
        else:
            mine, theirs = torch.cdist(c, y[None], p=power), torch.cdist(c, s, p=power)
        ranks.append((theirs < mine).sum(1))
    return torch.stack(ranks)


def fastest(call):
    times = []
    for _ in range(4):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times[1:])  # the first one warms up


def main():
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    truths = rng.standard_normal((FIDUCIALS, DIM), dtype=np.float32)
    samples = rng.standard_normal((FIDUCIALS, SAMPLES, DIM), dtype=np.float32)
    y, s = torch.from_numpy(truths), torch.from_numpy(samples)
    print(f"L = {FIDUCIALS}, S = {SAMPLES}, d = {DIM}, {REGIONS} regions, one thread\n")
    print("| distance | torch.cdist (s) | mira_bench (s) | ratio |")
    print("|---|---|---|---|")
    with threadpool_limits(1):
        for name, power in POWERS.items():
            theirs = fastest(lambda: straightforward(y, s, power))  # noqa: B023
            ours = fastest(lambda: mira(truths, samples, distance=name, threads=1))  # noqa: B023
            print(f"| {name} | {theirs:.3f} | {ours:.3f} | {theirs / ours:.1f}x |", flush=True)


if __name__ == "__main__":
    main()
