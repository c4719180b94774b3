r"""Nothing that the store has may stand for something else: what a user brings is known by all that decides it.

Each test runs, changes one thing, runs again with the same store, and compares with a run that has no store.
"""

import dataclasses
import types
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import mira_bench as mb
from mira_bench.adapters.identity import describe
from mira_bench.adapters.simulator import task_from_file
from mira_bench.inference.given import FileCandidate
from mira_bench.runner import setup, units
from mira_bench.runner.store import Store

SIZE = {"fiducials": 40, "samples": 10, "metrics": ["mira", "energy"]}

SIMULATOR = """\
import os
import numpy as np
from physics import NOISE

def prior(count, rng):
    return rng.normal(size=(count, 2))

def simulator(y, rng):
    return y + NOISE * rng.normal(size=y.shape)
"""

CANDIDATE = """\
import numpy as np

def build(task, rng):
    return lambda x, count: 0.8 * x[:, None] + 0.4 * np.random.normal(size=(len(x), count, 2))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sim.py").write_text(SIMULATOR)
    (tmp_path / "physics.py").write_text("NOISE = 0.5\n")
    (tmp_path / "mine.py").write_text(CANDIDATE)
    return tmp_path


def same(a, b):
    pd.testing.assert_frame_equal(a.scores, b.scores, check_exact=True)
    pd.testing.assert_frame_equal(a.ranking, b.ranking, check_exact=True)


def differ(a, b):
    return not a.scores["value"].equals(b.scores["value"])


def from_files(store, batched=None, **settings):
    task, mine = task_from_file("sim.py", batched=batched), FileCandidate("mine.py", "build")
    return mb.run(task, {"mine": mine}, store=store, **(SIZE | settings))


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def check_after(change, run=from_files, told=None):
    r"""Runs, changes something that matters, and asserts that the second run is what a fresh one is."""
    first = run("store")
    same(first, run(None))
    change()
    second, fresh = run("store"), run(None)
    assert differ(first, fresh)
    same(second, fresh)
    if told is not None:
        assert told in " ".join(second.reuse)
    same(run("store"), fresh)


def test_a_helper_of_the_simulator_is_edited(folder):
    check_after(lambda: edit(folder / "physics.py", "0.5", "0.6"))


def test_a_helper_that_is_imported_inside_a_function_is_edited(folder):
    edit(folder / "sim.py", "from physics import NOISE\n", "")
    edit(folder / "sim.py", "    return y +", "    from physics import NOISE\n    return y +")
    check_after(lambda: edit(folder / "physics.py", "0.5", "0.6"))


def test_data_that_is_read_when_the_file_is_loaded(folder):
    np.save("noise.npy", 0.5)
    edit(folder / "physics.py", "NOISE = 0.5", "import numpy as np\nNOISE = np.load('noise.npy')")
    check_after(lambda: np.save("noise.npy", 0.6))


def test_two_data_files_that_change_places(folder):
    np.save("a.npy", 0.5)
    np.save("b.npy", 0.9)
    edit(folder / "physics.py", "NOISE = 0.5", "import numpy as np\nNOISE = np.load('a.npy') - np.load('b.npy') / 9")

    def swap():
        np.save("a.npy", 0.9)
        np.save("b.npy", 0.5)

    check_after(swap)


def test_data_that_is_read_while_the_simulator_runs(folder):
    np.save("noise.npy", 0.5)
    edit(folder / "sim.py", "NOISE *", "np.load('noise.npy') *")
    check_after(lambda: np.save("noise.npy", 0.6), told="noise.npy, which it reads, has changed")


@pytest.mark.parametrize("row", [0, 1])
def test_data_that_matters_for_one_block_only(folder, row):
    # A block that is made anew may be one that the change does not touch: so the files of all blocks are compared.
    np.save("table.npy", [0.8, 0.8])
    edit(folder / "mine.py", "0.8 *", "np.load('table.npy')[int(x[0, 0] > 0)] *")
    table = [0.8, 0.8]
    table[row] = 0.7
    parts = lambda store: from_files(store, fiducials=256)  # noqa: E731
    check_after(lambda: np.save("table.npy", table), parts, "table.npy, which it reads, has changed")


def test_weights_that_build_loads_are_trained_anew(folder):
    np.save("weights.npy", 0.8)
    edit(folder / "mine.py", "    return", "    w = np.load('weights.npy')\n    return")
    edit(folder / "mine.py", "0.8 *", "w *")
    check_after(lambda: np.save("weights.npy", 0.7), told="weights.npy, which it reads, has changed")


def test_an_environment_variable(folder, monkeypatch):
    monkeypatch.setenv("NOISE", "0.5")
    edit(folder / "sim.py", "NOISE *", "float(os.environ['NOISE']) *")
    check_after(lambda: monkeypatch.setenv("NOISE", "0.6"), told="comes out differently")


def test_an_environment_variable_of_a_candidate(folder, monkeypatch):
    monkeypatch.setenv("WIDTH", "0.4")
    edit(folder / "mine.py", "0.4 *", "float(__import__('os').environ['WIDTH']) *")
    check_after(lambda: monkeypatch.setenv("WIDTH", "0.5"), told="store is not believed for candidate 'mine'")


def test_an_environment_variable_with_workers(folder, monkeypatch):
    monkeypatch.setenv("WIDTH", "0.4")
    edit(folder / "mine.py", "0.4 *", "float(__import__('os').environ['WIDTH']) *")
    parallel = lambda store: from_files(store, workers=2)  # noqa: E731
    check_after(lambda: monkeypatch.setenv("WIDTH", "0.5"), parallel, "store is not believed for candidate 'mine'")


def test_the_check_can_be_turned_off(folder, monkeypatch):
    monkeypatch.setenv("NOISE", "0.5")
    edit(folder / "sim.py", "NOISE *", "float(os.environ['NOISE']) *")
    first = from_files("store")
    monkeypatch.setenv("NOISE", "0.6")
    same(from_files("store", check=False), first)


def test_a_run_says_what_came_from_the_store(folder):
    assert from_files("store").reuse == []
    (told,) = from_files("store").reuse
    assert told.startswith("from the store: fiducials, scores of mine, prior (40 fiducials, made just now)")
    assert told.endswith("a block of each was made anew and is the same to the bit")
    grown = mb.run(
        task_from_file("sim.py"),
        {"mine": FileCandidate("mine.py", "build")},
        store="store",
        **(SIZE | {"fiducials": 99}),
    )
    assert "fiducials (64 fiducials" in " ".join(grown.reuse)
    (told,) = from_files("store", check=False).reuse
    assert told.endswith("not checked")


def test_another_block_is_made_anew_each_time(folder, monkeypatch):
    run = lambda: mb.run(  # noqa: E731
        task_from_file("sim.py"),
        {"mine": FileCandidate("mine.py", "build")},
        store="store",
        **(SIZE | {"fiducials": 256}),
    )
    run()
    made = []
    draw = units._draw
    monkeypatch.setattr(
        units, "_draw", lambda setup, name, block, *rest: made.append(block) or draw(setup, name, block, *rest)
    )
    for _ in range(12):
        run()
    assert len(made) == 24  # one block of each of two candidates, each time
    assert len(set(made)) > 2  # the probability of fewer is 1e-9


def test_a_simulator_that_was_taken_for_batched(folder):
    (folder / "physics.py").write_text("NOISE = 0.5\n")
    edit(folder / "sim.py", "return y + NOISE", "y = np.asarray(y)\n    return y + 0.1 * y.mean() + NOISE")
    first = from_files("store", batched=True)
    second = from_files("store", batched=False)
    same(second, from_files(None, batched=False))
    assert differ(first, second)


@pytest.mark.parametrize(
    "simulator",
    [
        lambda y, rng: y / np.linalg.norm(y),
        lambda y, rng: np.sort(y, axis=0) + 0.1 * rng.normal(size=y.shape),
        lambda y, rng: y + y.mean() + 0.1 * rng.normal(size=y.shape),
        lambda y, rng: y + y.std() * rng.normal(size=y.shape),
        lambda y, rng: y + rng.normal(size=2),
        lambda y, rng: np.cumsum(y, axis=0) + 0.1 * rng.normal(size=y.shape),
    ],
)
def test_a_simulator_for_single_vectors_is_not_called_with_batches(simulator):
    def prior(count, rng):
        return rng.normal(size=(count, 2))

    assert not mb.Task.from_simulator(prior, simulator).style.batched


@pytest.mark.parametrize(
    "simulator",
    [
        lambda y, rng: y + 0.5 * rng.normal(size=y.shape),
        lambda y, rng: rng.poisson(np.exp(y)),  # how much noise it draws depends on parameters
        lambda y, rng: y[:, :1] + np.stack([rng.normal(size=len(y)) for _ in range(3)], axis=1),
        lambda y: np.random.normal(y),
    ],
)
def test_a_simulator_for_batches_is_called_with_batches(simulator):
    assert mb.Task.from_simulator(lambda count, rng: rng.normal(size=(count, 2)), simulator).style.batched


# What is defined in a script, a notebook or a heredoc has no file that could be read.


def script(text, **given):
    r"""Runs a text as Python runs a script: in a module called `__main__` that is no module of anybody."""
    module = types.ModuleType("__main__")
    vars(module).update({"np": np, "mb": mb, "dataclass": dataclass, "dataclasses": dataclasses} | given)
    exec(compile(text, "<stdin>", "exec"), vars(module))
    return module


def scripted(text):
    def run(store):
        made = script(text)
        return mb.run(made.task, {"mine": made.candidate}, store=store, name="script", **SIZE)

    return run


BASE = """
NOISE = 0.5

def law(count, rng):
    return rng.normal(size=(count, 2))

def simulate(y, rng, *, gain=1.0):
    return gain * y + NOISE * rng.normal(size=y.shape) + 0.0

class Helper:
    offset = 0.0

    def shift(self, x):
        return 0.8 * x + self.offset

class MyPosterior:
    def __init__(self):
        self.helper = Helper()

    def sample(self, x, count, rng):
        return self.helper.shift(x)[:, None] + 0.4 * rng.normal(size=(len(x), count, 2))

@dataclass(frozen=True)
class Mean:
    n: int = 4
    version = 1
    bounds = (-5.0, 5.0)

    def simulate(self, count, rng):
        y = rng.normal(size=(count, 2))
        return mb.Fiducials(y=y, x=simulate(y, rng) / 1.0)

class Sub(Mean):
    extra = 1.0

    def simulate(self, count, rng):
        y = rng.normal(size=(count, 2))
        return mb.Fiducials(y=y, x=simulate(self.extra * y, rng))

task = mb.Task.from_simulator(law, simulate)
candidate = mb.inference.Given(MyPosterior())
"""


def edit_script(text, old, new):
    r"""An edited script gives what it gives without a store."""
    assert old in text
    first = scripted(text)("store")
    changed = scripted(text.replace(old, new))
    second, fresh = changed("store"), changed(None)
    assert differ(first, fresh)
    same(second, fresh)
    assert "not believed" not in " ".join(second.reuse)  # nothing of it had to be caught by the canary


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+ 0.0", "+ 0.3"),  # a constant in a function
        ("gain=1.0", "gain=1.2"),  # a keyword-only default
        ("NOISE = 0.5", "NOISE = 0.6"),  # a global
        ("0.4 * rng", "0.5 * rng"),  # a method of a posterior
        ("0.8 * x", "0.7 * x"),  # a method of what it holds
        ("offset = 0.0", "offset = 0.2"),  # a class attribute of what it holds
        ("rng.normal(size=(count, 2))\n\ndef simulate", "rng.uniform(size=(count, 2))\n\ndef simulate"),
    ],
)
def test_functions_and_objects_of_a_script(tmp_path, monkeypatch, old, new):
    monkeypatch.chdir(tmp_path)
    edit_script(BASE, old, new)


@pytest.mark.parametrize(
    ("made", "old", "new"),
    [
        ("Mean()", "/ 1.0", "/ 2.0"),  # two scripts, each with a class Mean
        ("Mean()", "bounds = (-5.0, 5.0)", "bounds = (-9.0, 9.0)"),
        ("Mean()", "+ 0.0", "+ 0.3"),  # a function that a method calls
        ("Sub()", "extra = 1.0", "extra = 2.0"),
        ("Sub()", "self.extra * y", "self.extra * y * 2"),  # an undecorated subclass of a dataclass
        ("Sub()", "+ 0.0", "+ 0.3"),
    ],
)
def test_classes_of_a_script(tmp_path, monkeypatch, made, old, new):
    monkeypatch.chdir(tmp_path)
    edit_script(BASE + f"task = {made}\n", old, new)


def test_an_instance_of_an_undecorated_subclass_with_its_own_state(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = BASE + "task = Sub()\nobject.__setattr__(task, 'extra', 1.5)\n"
    first = scripted(text)("store")
    changed = scripted(text.replace("'extra', 1.5", "'extra', 2.5"))
    second, fresh = changed("store"), changed(None)
    assert differ(first, fresh)
    same(second, fresh)


def test_bounds_of_more_than_a_thousand_parameters():
    low, high = np.zeros(2000), np.ones(2000)
    other = high.copy()
    other[1000] = 2.0

    def task(high):
        return mb.Task.from_simulator(
            lambda count, rng: rng.uniform(size=(count, 2000)),
            lambda y, rng: y + rng.normal(size=y.shape),
            bounds=(low, high),
        )

    assert describe(task(high)) == describe(task(high.copy()))
    assert describe(task(high)) != describe(task(other))


@dataclass(frozen=True)
class FarthestTruth(mb.Metric):
    r"""A metric without `normalize` that looks at the truths of the whole run."""

    name = "farthest"

    def observe(self, block):
        return {"value": np.full(len(block.truths), np.abs(block.scaling.truths).max())}

    def reduce(self, records, scaling):
        values = np.concatenate([r["value"] for r in records])
        return mb.Scores(score=float(values.mean()), per_fiducial=values)


def test_a_metric_of_the_user_when_fiducials_grow(folder):
    def run(store, fiducials):
        return from_files(store, fiducials=fiducials, metrics={"farthest": FarthestTruth()})

    first = run("store", 32)
    second, fresh = run("store", 500), run(None, 500)
    assert first.summary.score[0] < fresh.summary.score[0]
    same(second, fresh)


def test_a_file_that_is_edited_while_it_runs(folder):
    # The old behavior must not be written under the identity of the new text.
    text = (folder / "sim.py").read_text()
    task = task_from_file("sim.py")
    edit(folder / "sim.py", "NOISE *", "2 * NOISE *")
    edit(folder / "mine.py", "0.8 *", "0.8 *")
    old = mb.run(task, {"mine": FileCandidate("mine.py", "build")}, store="store", workers=2, **SIZE)
    new = from_files("store")
    same(new, from_files(None))
    assert differ(old, new)
    (folder / "sim.py").write_text(text)
    same(old, from_files(None))


def test_a_module_that_is_edited_while_it_runs(folder, monkeypatch):
    # A module that was imported before is what runs here, and what workers must run: or the run ends.
    monkeypatch.syspath_prepend(str(folder))
    (folder / "lately.py").write_text(
        "import numpy as np\nclass Late:\n    version = 1\n    def build(self, task, rng):\n        return self\n"
        "    def sample(self, x, count, rng):\n"
        "        return 0.8 * x[:, None] + 0.4 * rng.normal(size=(len(x), count, 2))\n"
    )
    import lately

    edit(folder / "lately.py", "0.4 *", "0.6 *")
    run = lambda store, **more: mb.run(task_from_file("sim.py"), {"late": lately.Late()}, store=store, **SIZE, **more)  # noqa: E731
    here = run(None)
    same(run("store"), here)
    elsewhere = run("store2", workers=2)
    assert "edited while the run was under way" in elsewhere.failures["late"]


def test_centers_that_are_an_array(folder):
    centers = np.random.default_rng(0).normal(size=(30, 2))

    def run(store, centers):
        return from_files(store, metrics={"mira": mb.Mira(centers=centers, regions=30)})

    first = run("store", centers)
    same(first, run(None, centers))
    same(run("store", centers.copy()), first)
    other = centers.copy()
    other[17, 1] += 1.0
    second = run("store", other)
    assert differ(first, second)
    same(second, run(None, other))


def test_versions_are_part_of_an_identity(folder, monkeypatch):
    from_files("store")
    monkeypatch.setattr(setup, "_version", lambda package: f"{package} 99")
    assert from_files("store").reuse == []


# Trainings


@dataclass(frozen=True)
class Line:
    r"""Learns the gain of an observation from simulations; a file says how many."""

    version = 1

    def build(self, task, rng):
        raise AssertionError("it is fitted")

    def fit(self, task, rng, report):
        drawn = task.simulate(int(np.load("budget.npy")), rng)
        return {"gain": (drawn.x * drawn.y).sum() / (drawn.x**2).sum()}

    def load(self, task, state):
        return Gain(float(state["gain"]))


@dataclass(frozen=True)
class Gain:
    gain: float

    def sample(self, x, count, rng):
        return self.gain * x[:, None] + 0.4 * rng.normal(size=(len(x), count, 2))


def trained(store):
    return mb.run(task_from_file("sim.py"), {"line": Line()}, store=store, **SIZE)


def test_a_training_on_other_data(folder):
    np.save("budget.npy", 100)
    check_after(
        lambda: np.save("budget.npy", 5), trained, "budget.npy, which it reads, has changed; it is trained anew"
    )


def test_a_training_on_other_simulations(folder, monkeypatch):
    np.save("budget.npy", 100)
    monkeypatch.setenv("NOISE", "0.5")
    edit(folder / "sim.py", "NOISE *", "float(os.environ['NOISE']) *")
    check_after(lambda: monkeypatch.setenv("NOISE", "1.5"), trained, "comes out differently")


def test_a_state_that_samples_differently(folder, monkeypatch):
    # The task and the training are as before; what is made of the state is not.
    np.save("budget.npy", 100)
    first = trained("store")
    store = Store("store")
    (entry,) = (entry for entry in store.entries() if entry.spec["kind"] == "fit")
    arrays = store.get(entry.spec)
    store.put(entry.spec, arrays | {"gain": arrays["gain"] + 0.3})
    for other in store.entries():
        if other.spec["kind"] == "record":
            other.path.unlink()
    again = trained("store")
    assert "not believed for the training of candidate 'line'" in " ".join(again.reuse)
    same(again, first)


def test_a_share_of_the_cost(folder, monkeypatch):
    # A block that takes longer than its share is not made anew each time, and the run says so.
    from_files("store")
    store = Store("store")
    for entry in list(store.entries()):
        header = store.look(entry.spec)
        store.put(entry.spec, store.get(entry.spec), 1e9, **header.facts)
    made = []
    monkeypatch.setattr("mira_bench.runner.canary.remake", lambda *a: made.append(a))
    monkeypatch.setattr("mira_bench.runner.canary._chance.random", lambda: 0.5)  # below the share it would be checked
    told = from_files("store").reuse
    assert made == []
    assert any("was not checked this time" in sentence for sentence in told)
