r"""What a bounded prior costs a network: in logits, where nothing leaks, or in the parameters themselves.

python benchmarks/coordinates.py [BUDGET]

Prints the mean log-density of 500 truths (higher is better, in nats) and how much of the density is outside of the
prior and has to be rejected, on average and for the worst observation.
"""

import sys
from dataclasses import replace

import numpy as np
from hydra import compose, initialize_config_module
from hydra.utils import instantiate

from mira_bench.inference import Neural

TASKS = ("two_moons", "slcp", "gaussian_linear_uniform")
TRUTHS, SEEDS = 500, 3
EVERYWHERE = (-np.inf, np.inf)


def leak(posterior, x):
    r"""The share of samples outside of the prior, for each observation."""
    inside = posterior.support
    free = replace(posterior, support=EVERYWHERE)
    samples = free.sample(x, 200, np.random.default_rng(0)).values
    return 1 - ((samples >= inside[0]) & (samples <= inside[1])).all(axis=-1).mean(axis=1)


def main():
    budget = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"budget {budget}, {TRUTHS} truths, {SEEDS} trainings\n")
    print("| task | coordinates | log-density, each training | mean | outside | outside, worst |")
    print("|---|---|---|---|---|---|")
    for name in TASKS:
        with initialize_config_module("mira_bench.configs", version_base="1.3"):
            task = instantiate(compose("config", [f"task={name}"]).task.model)
        test = task.simulate(TRUTHS, np.random.default_rng(1))
        for kind in ("unbounded", "plain"):
            candidate = Neural("npe", "nsf", budget, kind, network={"hidden_features": 50})
            posteriors = [candidate.build(task, np.random.default_rng([2, seed])) for seed in range(SEEDS)]
            logs = [p.log_prob(test.y[:, None], test.x)[:, 0] for p in posteriors]
            outside = np.concatenate([leak(p, test.x) for p in posteriors])
            each = ", ".join(f"{log.mean():.2f} ± {log.std() / np.sqrt(TRUTHS):.2f}" for log in logs)
            shares = f"{outside.mean():.1%} | {outside.max():.0%}"
            print(f"| `{name}` | {kind} | {each} | {np.mean(logs):.2f} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
