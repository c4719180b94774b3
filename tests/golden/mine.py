import numpy as np


def build(task, rng):
    def sample(x, count):
        center = np.stack([0.75 * x.mean(axis=1), np.full(len(x), 1.2)], axis=1)
        return center[:, None] + [0.5, 0.3] * np.random.normal(size=(len(x), count, 2))

    return sample
