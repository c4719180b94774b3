r"""How often two candidates of one law are called different at 5 % where fiducials share sample sets.

    python benchmarks/shared_sets.py [repeats]

Both draw a set of 80 samples for each group of truths. The paired test of the energy score is done with the variance of
the sets, and as if fiducials were independent.
"""

import sys

import numpy as np

from mira_bench.metric import Block
from mira_bench.metrics import Energy
from mira_bench.metrics.shared_energy import shared_variance
from mira_bench.ranks.scaling import Scaling
from mira_bench.statistics import mean_stderr, paired_pvalue

DIM, SAMPLES = 3, 80
LAWS = {
    "that of the truths": lambda rng, shape: rng.normal(size=shape),
    "half as wide again": lambda rng, shape: 1.5 * rng.normal(size=shape),
    "shifted by one sd": lambda rng, shape: 1 + rng.normal(size=shape),
}


def observed(truths, sets, labels):
    block = Block(truths, sets[labels], np.arange(len(truths)), Scaling(truths), 0, groups=labels)
    found = Energy(normalize="none").observe(block)
    return found["per_fiducial"], shared_variance([found])


def main(repeats):
    print(
        "| groups x truths | law of both candidates | with the sets | without | variance of the difference / estimate |"
    )
    print("|---|---|---|---|---|")
    for groups, each in ((10, 10), (10, 100)):
        labels = np.tile(np.arange(groups), each)
        for name, law in LAWS.items():
            rng = np.random.default_rng(0)
            told, naive, differences, variances = [], [], [], []
            for _ in range(repeats):
                truths = rng.normal(size=(groups * each, DIM))
                (a, va), (b, vb) = (observed(truths, law(rng, (groups, SAMPLES, DIM)), labels) for _ in range(2))
                told.append(paired_pvalue(a - b, rng, va + vb) < 0.05)
                naive.append(paired_pvalue(a - b, rng) < 0.05)
                differences.append(np.mean(a - b))
                variances.append(mean_stderr(a - b)[1] ** 2 + va + vb)
            ratio = np.var(differences) / np.mean(variances)
            print(
                f"| {groups} x {each} | {name} | {np.mean(told):.3f} | {np.mean(naive):.3f} | {ratio:.2f} |", flush=True
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
