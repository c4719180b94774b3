r"""A trainer that is small enough to follow: a line through points, by stochastic gradients. Also a run to kill."""

import os
import time
from dataclasses import dataclass

import numpy as np

import mira_bench as mb
from mira_bench.runner import stages as stages


@dataclass(frozen=True)
class Points:
    r"""$y = 2 x + $ noise; the training points are the task's own, the same for every seed."""

    noise: float = 0.5
    version = 1

    @property
    def training(self):
        rng = np.random.default_rng(7)
        x = rng.normal(size=400)
        return x, 2 * x + 0.5 * rng.normal(size=400)

    def simulate(self, count, rng):
        x = rng.normal(size=(count, 1))
        return mb.Fiducials(2 * x + self.noise * rng.normal(size=(count, 1)), x)


@dataclass(frozen=True)
class Gradients:
    r"""Twenty epochs of ten noisy steps, which can be interrupted anywhere."""

    epochs: int = 20
    rate: float = 0.05
    spoil: float = 0.0  # the epoch after which the loss is nan
    version = 1

    def learns_from(self, task):
        x, y = task.training
        return {"x": x, "y": y}

    def stages(self, data, rng, memory):
        root = int(rng.integers(2**62))
        slope = 0.0 if memory is None else float(memory["slope"])
        begin = 0 if memory is None else int(memory["step"])
        for step in range(begin, 10 * self.epochs):
            order = np.random.default_rng([root, 0, step // 10]).permutation(len(data["x"]))
            batch = order[step % 10 * 40 :][:40]
            x, y = data["x"][batch], data["y"][batch]
            noise = np.random.default_rng([root, 1, step]).normal(scale=0.1)
            off = y - slope * x
            slope += self.rate * (np.mean(off * x) + noise)
            if (step + 1) % 5 == 0:
                epoch = (step + 1) / 10
                loss = np.nan if self.spoil and epoch > self.spoil else float(np.mean(off**2))
                time.sleep(float(os.environ.get("TOY_NAP", "0")))
                yield mb.Stage(
                    epoch, self.epochs, {"loss": loss}, lambda s=slope: {"slope": np.array(s)},
                    lambda s=slope, at=step + 1: {"slope": np.array(s), "step": np.array(at)},
                )  # fmt: skip

    def rehearse(self, data, rng):
        return mb.Rehearsal(0.0, 12.5, 0, {"slope": np.array(0.0)}, "ten steps")


@dataclass(frozen=True)
class Line:
    r"""What was learned, as a posterior of the given width."""

    trainer: Gradients = Gradients()
    at: int | None = None
    width: float = 0.5
    version = 1

    def load(self, task, state):
        return Slope(float(state["slope"]), self.width)


@dataclass(frozen=True)
class Slope:
    slope: float
    width: float

    def sample(self, x, count, rng):
        return self.slope * x[:, None] + self.width * rng.standard_normal((len(x), count, 1))


@dataclass(frozen=True)
class Mean:
    r"""A trainer that is done at once: the mean of the training points."""

    version = 1

    def learns_from(self, task):
        return {"y": task.training[1]}

    def fit(self, data, rng, report):
        return {"mean": np.array(data["y"].mean())}


@dataclass(frozen=True)
class Centered:
    r"""A view that is learned: the distance from the mean of the training points, with its sign."""

    trainer: Mean = Mean()
    version = 1

    def load(self, state):
        return Moved(float(state["mean"]))


@dataclass(frozen=True)
class Moved:
    by: float

    def points(self, values):
        return np.concatenate([values - self.by, (values - self.by) ** 3], axis=-1)

    def bounds(self, low, high):
        return None


SMALL = {"fiducials": 60, "samples": 20, "controls": False, "metrics": {"mira": mb.Mira(regions=10, test=False)}}


def train(store):
    mb.run(Points(), {"line": Line()}, store=store, **SMALL)
