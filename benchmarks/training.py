r"""What a network costs per image: to train and to evaluate, in 32 and in 16 bits.

python benchmarks/training.py

Milliseconds of one core, the least of five batches. The images are noise, which costs as much as any other.
"""

import time

import numpy as np
import torch
from mira_bench.tasks.mnist.cvae import CvaeTrainer
from mira_bench.tasks.mnist.features import ClassifierTrainer

from mira_bench.inference.diffusion import DiffusionTrainer, LatentTrainer
from mira_bench.inference.gradient_training import _Run, one_thread

TRAINERS = {
    "cvae": lambda precision: CvaeTrainer(precision=precision),
    "diffusion": lambda precision: DiffusionTrainer(clip=1.0, ema=0.999, precision=precision),
    "latent": lambda precision: LatentTrainer(ema=0.999, precision=precision),
    "classifier": lambda precision: ClassifierTrainer(precision=precision),
}


def least(call, batch):
    spent = []
    for _ in range(5):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return 1e3 * min(spent) / batch


def main():
    rng = np.random.default_rng(0)
    data = {"images": rng.integers(256, size=(2000, 28, 28), dtype=np.uint8), "labels": np.arange(2000) % 10}
    print("| network | parameters | batch | training, float32 | bfloat16 | ratio |")
    print("|---|---|---|---|---|---|")
    with one_thread():
        for name, make in TRAINERS.items():
            costs = []
            for precision in ("float32", "bfloat16"):
                trainer = make(precision)
                run = _Run(trainer, data, 0)
                costs.append(least(lambda run=run, size=trainer.batch: run.try_out(size), trainer.batch))
            size = sum(weights.numel() for weights in run.network.parameters())
            print(
                f"| {name} | {size:,} | {trainer.batch} | {costs[0]:.2f} | {costs[1]:.2f} | {costs[0] / costs[1]:.2f} |"
            )
        run = _Run(TRAINERS["diffusion"]("float32"), data, 0)
        x, labels = torch.zeros(250, 1, 28, 28), torch.zeros(250, dtype=torch.long)
        with torch.inference_mode():
            cost = least(lambda: run.network.denoise(x, torch.ones(250), labels), 250)
    print(f"\nOne evaluation of the diffusion: {cost:.2f}; a sample takes twice as many as it has steps, less one.")


if __name__ == "__main__":
    main()
