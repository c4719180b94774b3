r"""Speed of the lensing simulator against caustics, side by side: an EPL lens, 3 sources, 100 x 100 pixels, one thread.

    python benchmarks/lensing.py                  # about two minutes
    python benchmarks/lensing.py --walkers 100    # more time, and 5 GB

Times are per walker. Ours has 100 of them; caustics has `--walkers`, and slows down as its arrays leave the cache. All
take turns, and the fastest turn of each counts: in processor time, which other programs disturb less than the clock.
caustics runs as it comes, and with `EPL(chunk_size=1)`, which sums the series of the deflection term by term and has a
far cheaper backward pass.
"""

import argparse
import time

import numpy as np
import torch
from mira_bench.tasks.lensing import LensModel
from mira_bench.tasks.lensing.reference import caustics_parameters, caustics_simulator
from threadpoolctl import threadpool_limits

WALKERS, TURNS = 100, 4
TARGETS = {"gradient": "300x, 20x"}


def of_caustics(model, data, chunk_size):
    r"""The functions that a sampler would build on caustics, for a batch of walkers."""
    simulator = caustics_simulator(model, chunk_size)

    def log_likelihood(v):
        return -0.5 * ((data - simulator(v)) ** 2).sum() / model.noise**2

    def fisher(v):
        jacobian = torch.func.jacfwd(simulator)(v).flatten(0, 1)
        return jacobian.T @ (data - simulator(v)).flatten(), jacobian.T @ jacobian

    return {
        "log-likelihood": torch.vmap(log_likelihood),
        "gradient": torch.vmap(torch.func.grad_and_value(log_likelihood)),
        "gradient and Fisher": torch.vmap(fisher, chunk_size=8),  # 13 images per walker: never all at a time
    }


def milliseconds(call, walkers):
    start = time.process_time()
    call(walkers)
    return 1e3 * (time.process_time() - start) / len(walkers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--walkers", type=int, default=8, help="the walkers of caustics")
    walkers = parser.parse_args().walkers
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    model = LensModel()
    theta = rng.uniform(*model.bounds, size=(WALKERS, len(model.names)))
    data = model.images(theta[:1])[0] + rng.normal(0, model.noise, (model.pixels, model.pixels))
    values = caustics_parameters(model, theta[:walkers])
    observed = torch.as_tensor(data, dtype=torch.float32)
    default, one = of_caustics(model, observed, None), of_caustics(model, observed, 1)
    ours = {
        "log-likelihood": lambda theta: model.log_likelihood(theta, data),
        "gradient": lambda theta: model.log_likelihood_gradient(theta, data),
        "gradient and Fisher": lambda theta: model.log_likelihood_fisher(theta, data),
    }
    print(f"milliseconds per walker, with {walkers} walkers for caustics\n")
    print("| | caustics | caustics, chunk_size=1 | ours | ratios | targets |")
    print("|---|---|---|---|---|---|")
    with threadpool_limits(1):
        for name in ours:
            cases = [(default[name], values), (one[name], values), (ours[name], theta)]
            for call, several in cases:
                call(several[:2])  # compiles, or warms up
            times = np.min([[milliseconds(*case) for case in cases] for _ in range(TURNS)], axis=0)
            ratios = times / times[-1]
            print(
                f"| {name} | {times[0]:.1f} | {times[1]:.2f} | {times[2]:.4f} | {ratios[0]:.0f}x, {ratios[1]:.0f}x "
                f"| {TARGETS.get(name, '')} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
