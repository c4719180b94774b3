r"""One thing is changed at a time, on small runs with one store: a line of code, a data file, a variable, a setting.

After each change the run must equal one that has no store, to the bit, or refuse. Changes pile up and are taken back,
so that the store holds blocks of many states, and states come again.
"""

import copy
import os
import re
import types
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import mira_bench as mb
from mira_bench.adapters.simulator import task_from_file
from mira_bench.inference import Given
from mira_bench.inference.given import FileCandidate

TEXTS = {
    "physics.py": """\
import numpy as np

NOISE = 0.5
SHIFT = np.load("shift.npy")

def gain(y, *, power=1.0):
    return 1.0 * y ** power if power == 1.0 else np.sign(y) * np.abs(y) ** power
""",
    "sim.py": """\
import os
import numpy as np
from physics import NOISE, SHIFT, gain

WIDTH = 1.0

def prior(count, rng):
    return WIDTH * rng.normal(size=(count, 2)).astype(np.load("shift.npy").dtype)

def simulator(y, rng):
    return gain(y) + SHIFT.mean() + NOISE * float(os.environ["WORLD"]) * rng.normal(size=y.shape)
""",
    "mine.py": """\
import os
import numpy as np

class Posterior:
    width = 0.45

    def __init__(self, table):
        self.table = table

    def center(self, x):
        return 0.8 * x + self.table[(x[:, 0] > 0.5).astype(int) + (x[:, 0] > 1.5)]

    def sample(self, x, count, rng):
        scale = self.width * float(os.environ["SCALE"])
        return self.center(x)[:, None] + scale * rng.normal(size=(len(x), count, 2))

def build(task, rng):
    return Posterior(np.load("table.npy"))
""",
}
NUMBER = re.compile(r"(?<![\w.])(\d+\.\d+)(?![\w.])")


@dataclass
class World:
    r"""All that a run depends on, and can be changed."""

    texts: dict = field(default_factory=lambda: dict(TEXTS))
    data: dict = field(default_factory=lambda: {"shift.npy": np.zeros(4), "table.npy": np.zeros((3, 2))})
    variables: dict = field(default_factory=lambda: {"WORLD": "1.0", "SCALE": "1.0"})
    settings: dict = field(default_factory=lambda: {"fiducials": 24, "samples": 6, "seed": 0})
    metrics: dict = field(default_factory=lambda: {"mira": {"regions": 8}, "energy": {}})
    candidate: str = "mine"
    block: int = 8
    names: tuple | None = None
    batched: bool | None = None

    def write(self):
        for name, text in self.texts.items():
            Path(name).write_text(text)
        for name, values in self.data.items():
            np.save(name, values)
        os.environ.update(self.variables)


# Changes: each takes a world and a generator, and says what it did.


def change_number(world, rng):
    name = rng.choice(list(world.texts))
    found = list(NUMBER.finditer(world.texts[name]))
    one = found[rng.integers(len(found))]
    value = f"{float(one[1]) + rng.choice([0.1, 0.25]):.4f}"
    world.texts[name] = world.texts[name][: one.start()] + value + world.texts[name][one.end() :]
    return f"{name}: {one[1]} -> {value}"


def add_line(world, rng):
    name = rng.choice(list(world.texts))
    lines = world.texts[name].splitlines()
    lines.insert(int(rng.integers(len(lines))), f"# {rng.integers(10**6)}")
    world.texts[name] = "\n".join(lines) + "\n"
    return f"{name}: a comment"


def rename_helper(world, rng):
    for name in ("physics.py", "sim.py"):
        world.texts[name] = re.sub(r"\bgain\w*\b", "gain_" + "abc"[world.settings["seed"] % 3], world.texts[name])
    return "a helper has another name"


def change_entry(world, rng):
    name = rng.choice(list(world.data))
    values = world.data[name] = world.data[name].copy()
    values[tuple(rng.integers(n) for n in values.shape)] += 0.25
    return f"{name}: an entry"


def change_rows(world, rng):
    name = rng.choice(list(world.data))
    world.data[name] = world.data[name][::-1].copy()
    return f"{name}: the order of its rows"


def change_dtype(world, rng):
    name = rng.choice(list(world.data))
    other = np.float32 if world.data[name].dtype == np.float64 else np.float64
    world.data[name] = world.data[name].astype(other)
    return f"{name}: {other.__name__}"


def change_variable(world, rng):
    name = rng.choice(list(world.variables))
    world.variables[name] = f"{float(world.variables[name]) + 0.125:.3f}"
    return f"{name}={world.variables[name]}"


def change_setting(world, rng):
    key, values = [
        ("fiducials", (5, 16, 17, 24, 40)),
        ("samples", (2, 5, 6, 9)),
        ("seed", (0, 1, 2)),
        ("controls", (True, False)),
        ("keep_samples", (True, False)),
    ][rng.integers(5)]
    world.settings[key] = values[rng.integers(len(values))]
    return f"{key}={world.settings[key]}"


def change_metric(world, rng):
    which = rng.integers(4)
    if which == 0:
        world.metrics["mira"] = {"regions": int(rng.choice([4, 8])), "normalize": str(rng.choice(["auto", "none"]))}
    elif which == 1:
        world.metrics["energy"] = {"normalize": str(rng.choice(["auto", "joint", "pooled"]))}
    elif which == 2 and "sbc" not in world.metrics:
        world.metrics["sbc"] = {}
    else:
        world.metrics.pop("sbc", None)
    return f"metrics {world.metrics}"


def change_name(world, rng):
    if rng.random() < 0.5:
        world.candidate = str(rng.choice(["mine", "null", "1e5", "a/b"]))
        return f"the candidate is called {world.candidate}"
    world.names = None if world.names else ("p", "q")
    return f"names={world.names}"


def change_block(world, rng):
    world.block = int(rng.choice([8, 12]))
    return f"block={world.block}"


def change_style(world, rng):
    world.batched = [None, True, False][rng.integers(3)]
    return f"batched={world.batched}"


CHANGES = (
    change_number, change_number, change_number, add_line, rename_helper, change_entry, change_entry, change_rows,
    change_dtype, change_variable, change_setting, change_setting, change_metric, change_name, change_block,
    change_style,
)  # fmt: skip
METRICS = {"mira": mb.Mira, "energy": mb.Energy, "sbc": mb.Sbc}


def from_files(world):
    task = task_from_file("sim.py", batched=world.batched, block=world.block)
    return task, FileCandidate("mine.py", "build")


def from_script(world):
    r"""The same as objects: functions and classes of one text that no file holds."""
    module = types.ModuleType("__main__")
    text = "\n".join(world.texts.values())
    exec(compile(re.sub(r"^from physics import .*$", "", text, flags=re.M), "<stdin>", "exec"), vars(module))
    settings = {"batched": world.batched, "block": world.block, "names": world.names}
    return mb.Task.from_simulator(module.prior, module.simulator, **settings), Given(module.build(None, None))


def outcome(world, door, store):
    r"""The tables of a run, or the sentence with which it is refused."""
    try:
        task, candidate = door(world)
        metrics = {name: METRICS[name](**given) for name, given in world.metrics.items()}
        settings = world.settings | ({} if store else {"keep_samples": False})
        result = mb.run(task, {world.candidate: candidate}, metrics=metrics, store=store, name="world", **settings)
    except mb.UsageError as error:
        return str(error)
    return result.scores, result.ranking, result.summary


def agree(stored, fresh):
    if isinstance(stored, str) or isinstance(fresh, str):
        return isinstance(stored, str)  # a run with a store may refuse; what a fresh one refuses, it must
    return all(a.equals(b) for a, b in zip(stored, fresh, strict=True))


def walk(door, seed, steps):
    rng = np.random.default_rng(seed)
    world, path = World(), []
    before = [copy.deepcopy(world)]
    changed = 0
    last = None
    for _ in range(steps):
        if rng.random() < 0.2:
            world = copy.deepcopy(before[rng.integers(len(before))])  # back to where it was once
            path.append("back")
        path.append(CHANGES[rng.integers(len(CHANGES))](world, rng))
        world.write()
        stored, fresh = outcome(world, door, "store"), outcome(world, door, None)
        assert agree(stored, fresh), f"after {path[-10:]}: {stored if isinstance(stored, str) else 'other numbers'}"
        changed += last is None or not agree(last, fresh)
        last = fresh
        before = [*before[-20:], copy.deepcopy(world)]
    return changed


def check(door, seed, steps, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(import_module("mira_bench.metrics.mira"), "REPLICATES", 99)  # what is stored is compared, not p
    for name, value in World().variables.items():
        monkeypatch.setenv(name, value)
    # The changes must matter, or nothing is tested.
    assert walk(door, seed, steps) > steps / 2


DOORS = pytest.mark.parametrize("door", [from_files, from_script])


@DOORS
@pytest.mark.parametrize("seed", range(3))
def test_one_thing_at_a_time(door, seed, tmp_path, monkeypatch):
    check(door, seed, 60, tmp_path, monkeypatch)


@pytest.mark.thorough
@DOORS
@pytest.mark.parametrize("seed", range(100, 110))
def test_thousands_of_things(door, seed, tmp_path, monkeypatch):
    check(door, seed, 200, tmp_path, monkeypatch)
