r"""Sweeps: what was edited runs again, and no two jobs share a folder."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from user_code import CANDIDATE, SIMULATOR

import mira_bench as mb
from mira_bench.cli.command import main
from mira_bench.sweeps.jobs import Job, read_job
from mira_bench.sweeps.sweeper import _sweep_name

pytestmark = pytest.mark.usefixtures("elsewhere", "plain_figures")

ROOT = Path(mb.__file__).parents[1]
SMALL = ["fiducials=40", "samples=10", "regions=5", "metrics=[mira]", "controls=false", "store=null", "progress=false"]
FEW = ["metrics=[mira]", "regions=5", "progress=false"]


@pytest.fixture
def mine(elsewhere):
    Path("sim.py").write_text(SIMULATOR.format(noise=0.5))
    Path("mine.py").write_text(CANDIDATE.format(width=0.5))
    return ["-m", "task=mine", "task.file=sim.py", "candidates=[mine.py:build]", "seed=0,1", "sweep=x", *SMALL]


def summaries(folder="results/sweeps/x"):
    return {path.parent.name: path.read_bytes() for path in Path(folder).glob("*/summary.csv")}


def fresh(words, folder="y"):
    r"""The tables of the same sweep in a folder where nothing was done before."""
    renamed = [f"sweep={folder}" if word == "sweep=x" else word for word in words]
    assert main(renamed) == 0
    return summaries(f"results/sweeps/{folder}")


@pytest.mark.parametrize("file", ["sim.py", "mine.py", "helper.py", "data.npy"])
def test_an_edited_file_runs_again(mine, file, capsys):
    Path("helper.py").write_text("WIDTH = 0.5\n")
    np.save("data.npy", np.array(0.5))
    text = CANDIDATE.replace("import numpy as np", "import numpy as np\nimport helper\nDATA = np.load('data.npy')")
    Path("mine.py").write_text(text.format(width="helper.WIDTH * DATA / 0.5"))
    assert main(mine) == 0
    before = summaries()
    assert main(mine) == 0
    assert "2 done, 2 of them before" in capsys.readouterr().out
    if file == "data.npy":
        np.save(file, np.array(0.1))
    else:
        Path(file).write_text(Path(file).read_text().replace("0.5", "0.1", 1))
    assert main(mine) == 0
    assert "of them before" not in capsys.readouterr().out
    now = summaries()
    assert now.keys() == before.keys()
    assert all(now[name] != before[name] for name in now)
    assert now == fresh(mine)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_that_is_read_on_the_way_runs_again(mine, capsys, workers):
    mine = [*mine, f"workers={workers}"]
    np.save("data.npy", np.array(0.5))
    Path("mine.py").write_text(CANDIDATE.format(width="np.load('data.npy')"))
    assert main(mine) == 0
    before = summaries()
    assert main(mine) == 0
    assert "2 of them before" in capsys.readouterr().out
    reads = read_job(Path("results/sweeps/x/seed=0")).reads
    assert [Path(path).name for path in reads] == ["data.npy"]
    np.save("data.npy", np.array(0.1))
    assert main(mine) == 0
    assert "of them before" not in capsys.readouterr().out
    assert all(text != before[name] for name, text in summaries().items())
    assert summaries() == fresh(mine)


def test_an_environment_variable_runs_again(mine, monkeypatch):
    Path("other.py").write_text(SIMULATOR.format(noise=3.0))
    sweep = ["task.file=${oc.env:SIMULATOR}" if word.startswith("task.file=") else word for word in mine]
    monkeypatch.setenv("SIMULATOR", "sim.py")
    assert main(sweep) == 0
    before = summaries()
    monkeypatch.setenv("SIMULATOR", "other.py")
    assert main(sweep) == 0
    now = summaries()
    assert all(now[name] != before[name] for name in before)
    assert now == fresh(sweep)
    monkeypatch.setenv("SIMULATOR", "sim.py")
    assert main(sweep) == 0
    assert summaries() == before


def test_edited_files_of_samples_run_again(elsewhere, capsys):
    rng = np.random.default_rng(0)
    np.save("y.npy", rng.normal(size=(40, 1)))
    np.save("a.npy", rng.normal(size=(40, 20, 1)))
    sweep = ["-m", "task=files", "task.truths=y.npy", "task.candidates={a: a.npy}", "seed=0,1", "sweep=x", *FEW]
    assert main(sweep) == 0
    before = summaries()
    for file, size in (("a.npy", (40, 20, 1)), ("y.npy", (40, 1))):
        assert main(sweep) == 0
        assert "2 of them before" in capsys.readouterr().out
        np.save(file, rng.normal(size=size))
        assert main(sweep) == 0
        assert "of them before" not in capsys.readouterr().out
        now = summaries()
        assert now == fresh(sweep, file)
        assert all(now[name] != before[name] for name in now)
        before = now


MODULE = """
from dataclasses import dataclass

from mira_bench.tasks.gaussian import ToyCandidate


@dataclass(frozen=True)
class Moved(ToyCandidate):
    def build(self, task, rng):
        return ToyCandidate(bias=BIAS).build(task, rng)


BIAS = 0.0
"""


@pytest.mark.parametrize("launcher", [["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"], ["hydra/launcher=local"]])
def test_an_edited_module_runs_again_under_any_launcher(elsewhere, launcher):
    Path("conf/candidate").mkdir(parents=True)
    Path("conf/candidate/moved.yaml").write_text("_target_: my_module.Moved\n")
    Path("my_module.py").write_text(MODULE)
    given = ["+candidate@candidate.moved=moved", "candidates=[moved]", "seed=0,1", "sweep=x"]
    command = [sys.executable, "-m", "mira_bench", "--config-dir", "conf", "-m", *given, *SMALL, *launcher]

    def run():
        done = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    run()
    before = summaries()
    assert "2 of them before" in run()  # both sides find the same fingerprint
    Path("my_module.py").write_text(MODULE.replace("BIAS = 0.0", "BIAS = 9.0"))
    assert "of them before" not in run()
    now = summaries()
    assert all(now[name] != before[name] for name in before)


def test_results_that_are_gone_or_of_another_run_are_made_again(mine, capsys):
    assert main(mine) == 0
    before = summaries()
    Path("results/sweeps/x/seed=0/provenance.json").unlink()
    # Somebody wrote another run into the folder of the second job.
    words = [word for word in mine if not word.startswith(("-m", "seed=", "sweep="))]
    assert main([*words, "seed=7", "out='results/sweeps/x/seed=1'"]) == 0
    capsys.readouterr()
    assert main(mine) == 0
    assert "of them before" not in capsys.readouterr().out
    assert summaries() == before


def test_jobs_of_one_folder_are_refused(elsewhere, capsys):
    assert main(["-m", "candidates=[correct]", "seed=0,1", "out=here", *SMALL]) == 2
    text = capsys.readouterr().err
    assert "out=here: seed=0 and seed=1 would share this folder" in text
    assert "sweep=NAME" in text
    assert main(["-m", "candidates=[correct]", "seed=0,1", "++out=here", *SMALL]) == 2
    assert not list(elsewhere.iterdir())


def test_jobs_with_folders_of_their_own_keep_them(elsewhere, capsys):
    sweep = ["-m", "candidates=[correct]", "seed=0,1", "out=here/${seed}", "sweep=x", *SMALL]
    assert main(sweep) == 0
    made = {path.parent.name: path.read_bytes() for path in Path("here").glob("*/summary.csv")}
    plain = fresh([word for word in sweep if not word.startswith("out=")])
    assert made == {name.removeprefix("seed="): text for name, text in plain.items()}
    capsys.readouterr()
    assert main(sweep) == 0
    assert "2 of them before" in capsys.readouterr().out
    # The same settings with results elsewhere have to be made there.
    assert main([word.replace("here/", "there/") for word in sweep]) == 0
    assert {path.parent.name: path.read_bytes() for path in Path("there").glob("*/summary.csv")} == made


def test_a_job_that_runs_is_not_started_twice(elsewhere, capsys):
    sweep = ["-m", "candidates=[correct]", "seed=0,1", "sweep=x", *SMALL]
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        Job("seed=0", ["seed=0"], status="running", host=socket.gethostname(), pid=sleeper.pid).save(
            Path("results/sweeps/x/seed=0")
        )
        assert main(sweep) == 2
        assert f"seed=0 is running already, in process {sleeper.pid}" in capsys.readouterr().err
        assert read_job(Path("results/sweeps/x/seed=0")).status == "running"
    finally:
        sleeper.communicate(b"\n")
    assert main(sweep) == 0


def test_sweeps_of_two_config_folders_are_two():
    words = ["-m", "task=mean", "seed=0,1"]
    names = [_sweep_name([*words, *more]) for more in ([], ["--config-dir", "a"], ["--config-dir", "b"])]
    assert len(set(names)) == 3
    assert names[0] == _sweep_name(words[1:])


def test_the_fingerprint_is_in_the_folder(mine):
    assert main(mine) == 0
    for seed in (0, 1):
        folder = Path(f"results/sweeps/x/seed={seed}")
        facts = json.loads((folder / "provenance.json").read_text())
        assert facts["fingerprint"] == read_job(folder).fingerprint != ""
