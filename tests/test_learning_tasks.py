r"""Tasks that learn by a trainer of their own, before anything is simulated."""

import dataclasses
import os
from dataclasses import dataclass

import numpy as np
import pytest
from test_trainings import count_ends

import mira_bench as mb
from mira_bench.cli import main
from mira_bench.inference.neural import Neural
from mira_bench.runner.cost import estimate
from mira_bench.runner.setup import Settings
from mira_bench.runner.store import Store

SMALL = {"fiducials": 64, "samples": 20, "metrics": {"mira": mb.Mira(regions=10, test=False)}}


@dataclass(frozen=True)
class Center:
    r"""The mean of the task's data, which an environment variable may move: what a trainer cannot be known by."""

    version = 1

    def learns_from(self, task):
        return {"data": task.data}

    def fit(self, data, rng, report):
        report("means", 1, 1)
        return {"center": np.array(data["data"].mean() + float(os.environ.get("TOY_SHIFT", "0")))}


@dataclass(frozen=True)
class Around:
    r"""A prior around a number that is learned from data of the task's own: $y \sim N(c, 1)$ and $x \sim N(y, 1)$."""

    count: int = 100
    seed: int = 0
    trainer: Center = Center()
    learned: float | None = dataclasses.field(default=None, compare=False)
    version = 1

    @property
    def data(self):
        r"""What is learned from; of the task that has learned, its own prior: what candidates learn from it."""
        middle = 5.0 if self.learned is None else 100.0 + self.learned
        return np.random.default_rng(self.seed).normal(middle, 1.0, self.count)

    def load(self, state):
        return dataclasses.replace(self, learned=float(state["center"]))

    def simulate(self, count, rng):
        if self.learned is None:
            raise RuntimeError("nothing is learned yet")
        y = self.learned + rng.standard_normal((count, 1))
        return mb.Fiducials(y, y + rng.standard_normal((count, 1)))

    def exact_posterior(self):
        return Posterior(self.learned)


@dataclass(frozen=True)
class Posterior:
    center: float

    def sample(self, x, count, rng):
        return (0.5 * (x + self.center))[:, None] + np.sqrt(0.5) * rng.standard_normal((len(x), count, 1))


@dataclass(frozen=True)
class Right:
    r"""The posterior under what the task learned, or under another center."""

    away: float = 0.0
    version = 1

    def build(self, task, rng):
        return Posterior(task.learned + self.away)


@dataclass(frozen=True)
class Same:
    r"""A candidate that has the same trainer as the task, and so learns from the task that has learned."""

    trainer: Center = Center()
    version = 1

    def load(self, task, state):
        return Posterior(float(state["center"]))


def kept(store, kind):
    return [Store(store).get(entry.spec) for entry in Store(store).entries() if entry.spec["kind"] == kind]


def centers(store):
    return sorted(float(state["center"]) for state in kept(store, "fit"))


def test_a_task_is_simulated_as_it_has_learned(tmp_path):
    settings = SMALL | {"fiducials": 512, "metrics": {"mira": mb.Mira(regions=100)}, "store": tmp_path}
    result = mb.run(Around(), {"right": Right(), "away": Right(3.0)}, **settings)
    (center,) = centers(tmp_path)
    assert center == Around().data.mean()
    truths = np.concatenate([block["y"] for block in kept(tmp_path, "fiducials")])
    assert abs(truths.mean() - center) < 4 / np.sqrt(len(truths))
    table = result.summary[result.summary.metric == "mira"].set_index("candidate")
    sigmas = (table.score - table.expected) / table.stderr
    assert abs(sigmas["right"]) < 4
    assert abs(sigmas["oracle"]) < 4
    assert sigmas["away"] < -4


def test_what_was_learned_is_kept(tmp_path, monkeypatch):
    made = count_ends(monkeypatch)
    settings = SMALL | {"store": tmp_path}
    first = mb.run(Around(), {"right": Right()}, **settings)
    blocks = len(kept(tmp_path, "fiducials"))
    again = mb.run(Around(), {"right": Right()}, **settings)
    assert len(made) == 1
    assert len(kept(tmp_path, "fiducials")) == blocks
    assert first.scores.equals(again.scores)
    # A task with other data, and one whose data have another seed.
    for task in (Around(count=50), Around(seed=1)):
        mb.run(task, {"right": Right()}, **settings)
        assert centers(tmp_path).count(task.data.mean()) == 1
    assert len(made) == 3
    assert len(kept(tmp_path, "fiducials")) == 3 * blocks
    # Without a store it is learned all the same, and to the same bits.
    assert mb.run(Around(), {"right": Right()}, **SMALL).scores.equals(first.scores)


@pytest.mark.parametrize("workers", [1, 2])
def test_another_state_is_another_task(tmp_path, monkeypatch, workers):
    # Nothing that is known of the task or of its trainer has changed, but what was learned: a store of another machine.
    scores, truths = {}, {}
    for shift in ("0", "40"):
        monkeypatch.setenv("TOY_SHIFT", shift)
        store = tmp_path / shift
        scores[shift] = mb.run(Around(), {"right": Right()}, store=store, **SMALL, workers=workers)
        truths[shift] = np.concatenate([block["y"] for block in kept(store, "fiducials")])
    assert truths["40"].mean() - truths["0"].mean() == pytest.approx(40.0)
    assert scores["0"].identity["task"] != scores["40"].identity["task"]
    # One store has the fiducials of one state and the training of the other: they are not taken for each other.
    mixed = tmp_path / "40"
    for entry in Store(tmp_path / "0").entries():
        if entry.spec["kind"] != "fit":
            Store(mixed).put(entry.spec, Store(tmp_path / "0").get(entry.spec))
    again = mb.run(Around(), {"right": Right()}, store=mixed, **SMALL)
    assert again.scores.equals(scores["40"].scores)


def test_what_a_state_looks_like_is_a_part_of_it():
    from mira_bench.runner.engines import Engine
    from mira_bench.runner.progress import Progress
    from mira_bench.runner.setup import Setup
    from mira_bench.runner.training import learn_task

    def identity(state):
        setup = Setup.of(Shaped(trainer=Fixed(state)), {"right": Right()}, Settings(**SMALL))
        learned = learn_task(setup, Engine(), Progress(False))
        return learned.identity.task["learned"]

    values = np.arange(6.0)
    states = [{"a": values}, {"a": values.reshape(2, 3)}, {"b": values}, {"a": values[:2], "b": values[2:]}]
    assert len({identity(state) for state in states}) == len(states)


@dataclass(frozen=True)
class Fixed:
    state: dict
    version = 1

    def learns_from(self, task):
        return {}

    def fit(self, data, rng, report):
        return self.state


@dataclass(frozen=True)
class Shaped(Around):
    trainer: Fixed = Fixed({})

    def load(self, state):
        return self


def test_candidates_learn_from_the_task_that_has_learned(tmp_path, monkeypatch):
    # The same trainer has other data once the task knows what it learned; it must not get the task's own state.
    made = count_ends(monkeypatch)
    result = mb.run(Around(), {"same": Same()}, store=tmp_path, **SMALL)
    assert not result.failures
    learned = Around().load({"center": Around().data.mean()})
    assert centers(tmp_path) == sorted([Around().data.mean(), learned.data.mean()])
    mb.run(Around(), {"same": Same()}, store=tmp_path, **SMALL)
    assert len(made) == 2


def test_a_candidate_may_look_at_a_simulation_to_say_whether_it_applies(monkeypatch):
    # Neural candidates do; before the task has learned there is none.
    seen = []
    skip = Neural.skip
    monkeypatch.setattr(Neural, "skip", lambda self, task: seen.append(skip(self, task)) or "not here")
    result = mb.run(Around(), {"npe": Neural(), "right": Right()}, **SMALL)
    assert seen == [None]
    assert result.failures == {"npe": "skipped: not here"}


def test_the_cost_keeps_what_was_learned_and_no_fiducials(tmp_path, monkeypatch):
    made, said = count_ends(monkeypatch), []
    cost = estimate(Around(), {"right": Right()}, Settings(**SMALL, store=tmp_path), said.append)
    assert cost.total > 0
    assert "learning what the task itself learns first; that is kept" in said
    assert len(kept(tmp_path, "fit")) == len(list(Store(tmp_path).entries())) == 1
    mb.run(Around(), {"right": Right()}, store=tmp_path, **SMALL)
    assert len(made) == 1


@dataclass(frozen=True)
class Failing:
    version = 1

    def learns_from(self, task):
        return {}

    def fit(self, data, rng, report):
        raise ValueError("these data say nothing")


def test_a_task_that_cannot_learn_says_why():
    with pytest.raises(mb.RunError, match="task around was not learned: ValueError: these data say nothing"):
        mb.run(Around(trainer=Failing()), {"right": Right()}, **SMALL)


LEARNS = """
model: {_target_: test_learning_tasks.Around}
candidates: {right: {_target_: test_learning_tasks.Right}}
"""


@pytest.mark.usefixtures("plain_figures")
def test_what_a_run_learned_is_used_or_said_to_be_gone_and_never_made_again(elsewhere, monkeypatch):
    (elsewhere / "conf" / "task").mkdir(parents=True)
    (elsewhere / "conf" / "task" / "around.yaml").write_text(LEARNS)
    words = ["--config-dir", "conf", "task=around", "fiducials=20", "samples=20", "metrics=[mira]", "regions=10"]
    assert main([*words, "out=here", "store=store", "workers=1", "progress=false"]) == 0
    made = count_ends(monkeypatch)
    saved = mb.load("here")
    x, right = np.array([7.0]), 0.5 * (7.0 + Around().data.mean())
    found = saved.posterior("right").sample(x, 400)
    assert abs(found.mean() - right) < 4 * np.sqrt(0.5 / 400)
    assert main(["store", "prune", "--kind", "fit", "--store", "store"]) == 0
    with pytest.raises(mb.UsageError, match=r"store store has no training of the task around .* makes it again"):
        saved.posterior("right")
    assert made == []
    assert kept("store", "fit") == []
