r"""Sweeps: every combination is a job, the same command goes on, and a failure stops nobody."""

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from hydra import compose, initialize_config_dir, initialize_config_module
from hydra.errors import HydraException
from mira_bench.tasks.gaussian import Conjugate
from omegaconf import OmegaConf
from rich.console import Console

import mira_bench as mb
from mira_bench.cli.command import main
from mira_bench.config import Asked
from mira_bench.errors import refuse_to_hide_an_interrupt
from mira_bench.runner.cost import Estimate
from mira_bench.runner.setup import Settings
from mira_bench.sweeps.composing import composed_once
from mira_bench.sweeps.dry import dry_sweep
from mira_bench.sweeps.jobs import Job, Kind, commands, read_job
from mira_bench.sweeps.sweeper import _problems, _safe, _sweep_name
from mira_bench.sweeps.watch import Watch
from mira_bench.trainer import Rehearsal

pytestmark = pytest.mark.usefixtures("elsewhere", "plain_figures")

ROOT = Path(mb.__file__).parents[1]
SMALL = ["fiducials=64", "samples=10", "regions=5", "metrics=[mira]", "controls=false", "progress=false"]


@pytest.fixture
def broken(elsewhere):
    r"""A candidate that exists, and fails when it is built."""
    (elsewhere / "broken.py").write_text('def build(task, rng):\n    raise RuntimeError("out of luck")\n')
    return "broken.py:build"


def sweep(folder):
    (found,) = (folder / "results" / "sweeps").iterdir()
    return found


def test_jobs_are_named_recorded_and_skipped(elsewhere, capsys):
    command = ["-m", "task=gaussian", "candidates=[correct],[biased,correct]", "seed=0,1", *SMALL]
    assert main(command) == 0
    captured = capsys.readouterr()
    assert captured.err.count("done ") == 4  # a line per job, and nothing that the jobs print
    assert "which posterior can be trusted" not in captured.out
    folder = sweep(elsewhere)
    names = {f"candidates={c},seed={s}" for c in ("correct", "biased+correct") for s in (0, 1)}
    assert {p.name for p in folder.iterdir() if p.is_dir()} == names
    expected = json.loads((folder / "sweep.json").read_text())
    assert set(expected["jobs"]) == names
    job = read_job(folder / "candidates=correct,seed=1")
    assert (job.status, job.code, job.task, job.progress) == ("done", 0, "gaussian", 1.0)
    assert {"seed=1", "candidates=[correct]"} <= set(job.overrides)
    assert "which posterior can be trusted" in (folder / job.name / "output.txt").read_text()
    # The same command with another number of workers is the same sweep.
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("summary.csv")}
    (folder / "candidates=correct,seed=0" / "job.json").unlink()
    assert main([*command, "workers=1", "progress=true"]) == 0
    assert "3 job(s) are done already" in capsys.readouterr().err
    changed = [p for p in before if p.stat().st_mtime_ns != before[p]]
    assert [p.parent.name for p in changed] == ["candidates=correct,seed=0"]


def test_a_named_sweep_can_grow(elsewhere, capsys):
    base = ["candidates=[correct]", "sweep=mine", *SMALL]
    assert main(["-m", "seed=0,1", *base]) == 0
    assert main(["-m", "seed=0,1,2", *base]) == 0
    assert "3 jobs: 3 done, 2 of them before" in capsys.readouterr().out
    # Another command in the same folder does not write over what is there.
    assert main(["-m", "seed=0,1", *base, "samples=9"]) == 0
    names = set(json.loads((elsewhere / "results/sweeps/mine/sweep.json").read_text())["jobs"])
    assert len(names) == 5
    assert {"seed=0", "seed=1", "seed=2"} < names
    made = commands(elsewhere / "results/sweeps/mine")
    assert [len(jobs) for jobs in made.values()] == [3, 2]  # the first command's jobs are those of the second too
    assert not any("hydra" in command for command in made)


def test_a_failing_job_stops_nobody(elsewhere, broken, capsys):
    assert main(["-m", f"candidates=[{broken}],[correct]", *SMALL]) == 1
    captured = capsys.readouterr()
    assert "1 done, 1 not" in captured.out
    assert "RuntimeError: out of luck" in captured.err
    jobs = [read_job(p.parent) for p in sweep(elsewhere).rglob("job.json")]
    assert {(job.status, job.code) for job in jobs} == {("failed", 1), ("done", 0)}


@pytest.mark.parametrize(
    ("words", "blamed", "exists"),
    [
        (["task=gaussian", "candidates=[corect],[biased]"], "candidates=[corect]: ", "correct, overconfident"),
        (["candidates=[lost.py:build]", "rank_by=tiers"], "candidates=[lost.py:build]: ", "no file lost.py"),
        (["task=files", "task.truths=t.npy", "task.candidates={a: a.npy}", "candidates=[a],[b]"], "=[b]: ", "are: a"),
    ],
)
def test_a_misspelled_name_is_refused_before_the_first_job(words, blamed, exists, elsewhere, capsys):
    assert main(["-m", *words, "seed=0,1", "progress=false"]) == 2
    text = capsys.readouterr().err
    assert text.count("mira_bench: ") == 1  # not once a job
    assert blamed in text
    assert exists in text
    assert not list(elsewhere.iterdir())


def test_every_name_is_checked_and_the_override_blamed(capsys):
    def problems(**lists):
        grid = [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]
        kinds = []
        for given in grid:
            overrides = [f"{key}={value}" for key, value in given.items()]
            cfg = compose("config", overrides=[*overrides, "out=x"])
            kinds.append(Kind("", given["task"], cfg, [Job("", overrides)], [0]))
        return _problems(kinds)

    with initialize_config_module("mira_bench.configs", version_base="1.3"):
        (found,) = problems(task=["gaussian", "conjugate"], candidates=["[biased]", "[npe]"])
        assert found.startswith("task=conjugate candidates=[biased]: ")
        (found,) = problems(task=["gaussian"], metrics=["[mirra]"], workers=["auto"])
        assert found.startswith("metrics=[mirra]: metric 'mirra' does not exist; there are: mira, published, ")
        (found,) = problems(task=["gaussian"], views=["[all]", "[al]"])
        assert found == "views=[al]: the task has no view 'al'; it has: all"
        found = problems(task=["gaussian"], rank_by=["tiers", "size"], samples=["10", "0"])
        assert {text.split(":")[0] for text in found} == {"rank_by=size", "samples=0"}
        assert problems(task=["gaussian", "two_moons", "lensing/small"], device=["cuda"]) == []


def test_hydra_refuses_what_cannot_be_composed(elsewhere, capsys):
    assert main(["-m", "task=gaussian,nope", *SMALL]) == 2
    assert "there is no task 'nope'" in capsys.readouterr().err
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("launcher", ["joblib", "local"])
def test_launchers_give_the_same_tables(elsewhere, broken, launcher):
    base = ["-m", f"candidates=[correct],[{broken}]", "store=null", *SMALL]
    assert main([*base, "sweep=here"]) == 1
    few = ["hydra.launcher.n_jobs=2"] if launcher == "joblib" else []
    done = subprocess.run(
        [sys.executable, "-m", "mira_bench", *base, "sweep=there", f"hydra/launcher={launcher}", *few],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr[-2000:]
    assert "1 done, 1 not" in done.stdout
    assert "Warning" not in done.stderr
    tables = [pd.read_csv(f"results/sweeps/{name}/candidates=correct/summary.csv") for name in ("here", "there")]
    pd.testing.assert_frame_equal(*tables, check_exact=True)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_an_interrupted_sweep_goes_on(how, elsewhere):
    # Enough fiducials that the second job cannot be done when the first one is seen to be.
    base = ["-m", "seed=0,1", "candidates=[correct]", *SMALL, "fiducials=4000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "mira_bench", *base], env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    running = None
    while process.poll() is None and running is None:
        found = list(elsewhere.rglob("seed=1/job.json"))
        running = read_job(found[0].parent) if found else None
        time.sleep(0.02)
    process.send_signal(how)
    said = process.communicate()[1]
    assert ("the same command goes on" in said) == (how == signal.SIGTERM)
    folder = sweep(elsewhere)
    assert read_job(folder / "seed=1").status == "interrupted"
    assert main(["collect", str(folder)]) == 1
    assert main(base) == 0
    assert [read_job(folder / f"seed={s}").status for s in (0, 1)] == ["done", "done"]


def test_what_cannot_be(elsewhere, capsys, monkeypatch):
    assert main(["-m", "seed=0,1", "hydra.sweep.subdir=x", *SMALL]) == 2
    assert main(["-m", "seed=0,1", "sweep=/somewhere", *SMALL]) == 2
    assert "named by what is swept" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["-m", "seed=0,1", "hydra/launcher=slurm", *SMALL]) == 2
    assert "extra 'cluster'" in capsys.readouterr().err


def test_a_dry_sweep_is_summed_up(elsewhere, capsys):
    command = ["-m", "seed=0,1", "candidates=[correct],[biased]", "sweep=x", *SMALL]
    assert main([*command, "dry=true"]) == 0
    text = capsys.readouterr().out
    assert not list(elsewhere.iterdir())
    assert "4 jobs to run." in text
    rows = [line.split() for line in text.splitlines() if "gaussian candidates=" in line]
    assert [(row[0], row[-1]) for row in rows] == [("2", "candidates=[correct]"), ("2", "candidates=[biased]")]
    assert main(["-m", "seed=range(0,1)", "candidates=choice([correct])", "sweep=x", *SMALL]) == 0
    assert main([*command, "dry=true"]) == 0
    assert "3 jobs to run; 1 are done already" in capsys.readouterr().out


def test_what_jobs_share_is_counted_once(monkeypatch, capsys):
    @dataclass(frozen=True)
    class Learner:
        version = 1

        def build(self, task, rng): ...
        def fit(self, task, rng, report): ...
        def load(self, task, state): ...

    def cost(*given):
        return Estimate({"a": 2.0, "prior": 4.0}, 117.0, 0, {"a": Rehearsal(10.0, 100.0, 1, {}, "")}, 1.0)

    def asked(cfg, task):
        settings = Settings(fiducials=cfg.fiducials, samples=10, metrics=["mira"], name=task)
        return Asked(Conjugate(), {"a": Learner()}, settings)

    def total(store):
        sizes = [OmegaConf.create({"fiducials": size, "store": store}) for size in (10, 20)]
        kinds = [Kind(f"L={cfg.fiducials}", "toy", cfg, [Job("a"), Job("b")], [0, 1]) for cfg in sizes]
        assert dry_sweep(kinds, 4) == 0
        return next(line for line in capsys.readouterr().out.splitlines() if "in all" in line)

    monkeypatch.setattr("mira_bench.sweeps.dry.estimate", cost)
    monkeypatch.setattr("mira_bench.sweeps.dry.asked", asked)
    # Four jobs of 117 s; with a store, both sizes use the same two trainings of 110 s.
    assert "7.8 min" in total(None)
    assert "4.1 min" in total("x")


def test_names():
    a = _sweep_name(["task=gaussian,conjugate", "seed=0,1", "workers=4", "hydra/launcher=slurm"])
    assert a == _sweep_name(["seed=0,1", "task=gaussian,conjugate", "parallel.backend=dask"])
    assert a.startswith("gaussian+conjugate_seed_")
    assert a != _sweep_name(["task=gaussian,conjugate", "seed=0,2"])
    assert _safe("candidates=[a, b]") == "candidates=a+b"
    assert _safe("task=lensing/small") == "task=lensing-small"


def test_the_overview_of_a_terminal(tmp_path):
    Job("a", status="done", code=0, seconds=60).save(tmp_path / "a")
    for name in ("b", "e"):
        Job(name, status="running", progress=0.5, host="elsewhere", seconds=90).save(tmp_path / name)
    Job("c", status="failed", seconds=1, reason=f"too bad, {'for many reasons, ' * 9}").save(tmp_path / "c")
    view = Watch(tmp_path, ["a", "b", "c", "d", "e", "f"], skipped=2)
    view._look()
    screen = Console(file=io.StringIO(), width=120)
    screen.print(view.render())
    text = screen.file.getvalue()
    for words in ("1 done + 2 before", "2 running", "1 failed", "2 waiting", "50%", "too bad"):
        assert words in text
    # Two wait and two are half done: three jobs of a minute, two at a time. What failed at once is no measure.
    assert "about 1:30 left" in text
    assert len(text.splitlines()) == 5  # a long reason is cut, not wrapped


def test_a_config_is_composed_once_and_is_that_of_hydra(elsewhere):
    given = [
        [], ["fiducials=10"], ["task=conjugate"], ["task=conjugate", "seed=3", "metric.mira.regions=7"], ["seed=4"],
        ["experiment=power", "study.repeats=6"], ["+metric.mira.extra=1"], ["~metric.c2st"],
        ["task.candidates={a: {}}"],
        ["task=nobody"], ["seeds.x=1"], ["experiment=power", "seed=4"],
    ]  # fmt: skip

    def composed(words):
        try:
            return OmegaConf.to_yaml(compose("config", words, return_hydra_config=True))
        except HydraException as error:
            return f"{type(error).__name__}: {error}"

    read = []
    with initialize_config_module("mira_bench.configs", version_base="1.3"):
        plain = [composed(words) for words in given]
        assert len(set(plain)) == len(given)
        with composed_once([]):
            assert [composed(words) for words in given] == plain
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("mira_bench.sweeps.composing._compose", lambda *_: read.append("again"))
                assert [composed(words) for words in given] == plain
    assert read == []
    # A user's own file may have changed.
    folder = elsewhere / "conf" / "task"
    folder.mkdir(parents=True)
    with initialize_config_dir(str(folder.parent), version_base="1.3"), composed_once([]):
        for value in (1, 2):
            (folder.parent / "mine.yaml").write_text(f"value: {value}\n")
            assert compose("mine").value == value


def test_what_fails_while_it_is_interrupted_is_an_interrupt():
    def cleaning_up():
        try:
            raise KeyboardInterrupt
        finally:
            raise AttributeError("half copied")

    with pytest.raises(AttributeError) as hidden:
        cleaning_up()
    with pytest.raises(KeyboardInterrupt):
        refuse_to_hide_an_interrupt(hidden.value)
    refuse_to_hide_an_interrupt(ValueError("nothing of the kind"))
