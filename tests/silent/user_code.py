r"""A simulator and a candidate as users write them, for tests that edit them between runs."""

SIMULATOR = """
import numpy as np
from scipy import stats

prior = {{"mean": stats.norm(0, 1)}}


def simulator(y, rng):
    return y + {noise} * rng.normal(size=(len(y), 1))
"""

CANDIDATE = """
import numpy as np


def build(task, rng):
    return lambda x, count: x[:, None] + {width} * np.random.normal(size=(len(x), count, 1))
"""
