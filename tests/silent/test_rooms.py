r"""Files of two users in one process: each runs with its own helpers, wherever it runs."""

import pickle

import pandas as pd
import pytest

import mira_bench as mb
from mira_bench.adapters.simulator import task_from_file
from mira_bench.adapters.source import load_source
from mira_bench.cli.command import main
from mira_bench.inference.given import FileCandidate

pytestmark = pytest.mark.usefixtures("plain_figures")

SIZE = {"fiducials": 40, "samples": 20, "metrics": ["mira", "energy"]}

SIMULATOR = """\
import numpy as np
from utils import NOISE

def prior(count, rng):
    return rng.normal(size=(count, 2))

def simulator(y, rng):
    return y + NOISE * rng.normal(size=y.shape)
"""

# The helper is imported at once, through a package, and inside a function.
CANDIDATE = """\
import numpy as np
from tools.gains import gain

def build(task, rng):
    def sample(x, count):
        import utils
        return gain() * x[:, None] + utils.WIDTH * np.random.normal(size=(len(x), count, 2))
    return sample
"""


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, noise, width, gain in (("a", 0.5, 0.4, 0.8), ("b", 1.0, 0.7, 0.5)):
        there = tmp_path / name
        (there / "tools").mkdir(parents=True)
        (there / "sim.py").write_text(SIMULATOR)
        (there / "mine.py").write_text(CANDIDATE)
        (there / "utils.py").write_text(f"NOISE = {noise}\nWIDTH = {width}\n")
        (there / "tools" / "__init__.py").write_text("")
        (there / "tools" / "gains.py").write_text(
            f"from . import numbers as own\n\ndef gain():\n    return own.GAIN * {gain}\n"
        )
        (there / "tools" / "numbers.py").write_text("GAIN = 1.0\n")
    return tmp_path


def scores(result, name):
    rows = result.scores[result.scores.candidate == name]
    return rows[["metric", "fiducial", "value"]].reset_index(drop=True)


def run(candidates, task="a/sim.py", **settings):
    made = {name: FileCandidate(file, "build") for name, file in candidates.items()}
    return mb.run(task_from_file(task), made, **SIZE, **settings)


BACKENDS = [{"workers": 1}, {"workers": 2}, {"workers": 2, "backend": "dask"}]


@pytest.mark.parametrize("settings", BACKENDS, ids=["here", "loky", "dask"])
def test_each_candidate_has_its_own_helpers(folders, settings):
    alone = {name: scores(run({name: f"{name}/mine.py"}), name) for name in ("a", "b")}
    assert not alone["a"]["value"].equals(alone["b"]["value"])
    together = run({"a": "a/mine.py", "b": "b/mine.py"}, **settings)
    for name, expected in alone.items():
        pd.testing.assert_frame_equal(scores(together, name), expected, check_exact=True)


@pytest.mark.parametrize("settings", BACKENDS[:2], ids=["here", "loky"])
def test_each_task_has_its_own_helpers(folders, settings):
    # One after the other in one process, and in workers that live on.
    first = [run({"a": "a/mine.py"}, task, **settings) for task in ("a/sim.py", "b/sim.py", "a/sim.py")]
    assert not first[0].scores["value"].equals(first[1].scores["value"])
    pd.testing.assert_frame_equal(first[0].scores, first[2].scores, check_exact=True)
    (folders / "c").mkdir()
    text = SIMULATOR.replace("from utils import NOISE", "NOISE = 1.0")
    (folders / "c" / "sim.py").write_text(text)
    pd.testing.assert_frame_equal(run({"a": "a/mine.py"}, "c/sim.py").scores, first[1].scores, check_exact=True)


def test_a_sweep_over_files(folders):
    words = ["task=mine", "candidates=[a/mine.py:build]", "fiducials=40", "samples=20", "metrics=[mira,energy]"]
    assert main(["-m", *words, "task.file=a/sim.py,b/sim.py", "hydra.sweep.dir=sweep", "store=store"]) == 0
    for name in ("a", "b"):
        assert main([*words, f"task.file={name}/sim.py", f"out=alone-{name}", "store=null"]) == 0
        alone = pd.read_csv(folders / f"alone-{name}" / "ranking.csv")
        swept = pd.read_csv(folders / "sweep" / f"task.file={name}-sim.py" / "ranking.csv")
        pd.testing.assert_frame_equal(swept, alone, check_exact=True)


def test_modules_of_others_are_left_alone(folders):
    import sys

    before = set(sys.modules)
    load_source("a/mine.py", "test").find("build")
    new = {name for name in set(sys.modules) - before if not name.startswith("mira_bench_room_")}
    assert not {"utils", "tools", "mine"} & new


def test_folders_without_init_are_packages_and_a_root_may_be_above(folders):
    (folders / "a/tools/__init__.py").unlink()
    (folders / "a/tools/inner").mkdir()
    (folders / "a/tools/inner/net.py").write_text(
        "import utils\nfrom tools.gains import gain\nfrom ..numbers import GAIN\n"
    )
    source = load_source("a/tools/inner/net.py", "test", "a")
    assert source.find("gain")() == 0.8
    assert source.find("GAIN") == 1.0
    assert source.find("utils").WIDTH == 0.4
    files = {"tools/inner/net.py", "tools/gains.py", "tools/numbers.py", "utils.py"}
    assert set(source.texts) == files
    assert set(source.files) == {f"a/{name}" for name in files}
    (folders / "a/utils.py").write_text("WIDTH = 9.0\n")
    assert pickle.loads(pickle.dumps(source)).find("utils").WIDTH == 0.4
    (folders / "a/pandas").mkdir()  # a folder of something else than modules hides no package
    (folders / "a/pandas/table.csv").write_text("1\n")
    (folders / "a/reader.py").write_text("from pandas import DataFrame\n")
    assert load_source("a/reader.py", "test").find("DataFrame") is pd.DataFrame
