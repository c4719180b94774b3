r"""Collecting: content identifies a run, a job's status decides whether it counts, and the newest one does."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf
from user_code import CANDIDATE, SIMULATOR

from mira_bench.cli.command import main
from mira_bench.config import job_fingerprint
from mira_bench.report.outputs import write_json
from mira_bench.sweeps.collect import collect_jobs, collect_runs, group_runs
from mira_bench.sweeps.leaderboard import leaderboard

pytestmark = pytest.mark.usefixtures("elsewhere", "plain_figures")

SIZES = ["fiducials=40", "samples=10", "regions=5", "progress=false", "store=null"]
SMALL = [*SIZES, "metrics=[mira,energy]", "controls=false"]


@pytest.fixture
def mine(elsewhere):
    Path("sim.py").write_text(SIMULATOR.format(noise=0.5))
    Path("mine.py").write_text(CANDIDATE.format(width=0.5))
    return ["task=mine", "task.file=sim.py", "candidates=[mine.py:build]", *SMALL]


def boards(*folders):
    runs, _ = collect_runs([Path(folder) for folder in folders])
    return {group.label: leaderboard(group) for group in group_runs(runs)}


def energy(folder, name):
    table = pd.read_csv(Path(folder) / "summary.csv")
    return table[(table.candidate == name) & (table.metric == "energy")].score.item()


def test_a_crashed_rerun_does_not_count(mine, capsys):
    sweep = ["-m", *mine, "seed=0,1", "sweep=x"]
    assert main(sweep) == 0
    Path("mine.py").write_text("def build(task, rng):\n    raise KeyboardInterrupt\n")
    assert main(sweep) == 130
    assert [job.status for job in collect_jobs([Path("results/sweeps/x")])] == ["interrupted", "missing"]
    assert main(["collect", "results/sweeps/x"]) == 1
    captured = capsys.readouterr()
    assert "there are no finished runs" in captured.err
    assert "2/2" not in captured.out
    assert collect_runs([Path("results/sweeps/x")])[0] == []
    assert not list(Path("results/sweeps/x").rglob("summary.csv"))


def test_a_leaderboard_of_before_goes_with_its_runs(mine):
    sweep = ["-m", *mine, "seed=0,1", "sweep=x"]
    assert main(sweep) == 0
    assert main(["collect", "results/sweeps/x"]) == 0
    assert Path("results/sweeps/x/leaderboard.csv").exists()
    Path("results/sweeps/x/mine.txt").write_text("a note")
    Path("mine.py").write_text("raise ValueError\n")
    assert main(sweep) == 2  # before anything is touched
    assert Path("results/sweeps/x/leaderboard.csv").exists()
    for seed in (0, 1):
        write_json(Path(f"results/sweeps/x/seed={seed}/job.json"), {"name": "", "status": "failed", "code": 2})
    assert main(["collect", "results/sweeps/x"]) == 1
    left = {path.name for path in Path("results/sweeps/x").iterdir()}
    assert left == {"seed=0", "seed=1", "sweep.json", "mine.txt"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"status": "failed", "code": 2, "reason": "no luck"}, "its job failed"),
        ({"status": "interrupted"}, "its job is interrupted"),
        ({"status": "running", "host": "elsewhere"}, "its job is running"),
        ({"fingerprint": "other"}, "what it holds was not made by its job"),
    ],
)
def test_the_status_of_a_job_decides(mine, change, why, capsys):
    assert main(["-m", *mine, "seed=0,1", "sweep=x"]) == 0
    job = Path("results/sweeps/x/seed=1/job.json")
    write_json(job, json.loads(job.read_text()) | change)
    main(["collect", "results/sweeps/x"])
    captured = capsys.readouterr()
    assert f"seed=1 is left out: {why}" in captured.err
    assert pd.read_csv("results/sweeps/x/leaderboard.csv").seeds.tolist() == ["1/1"]


def test_a_candidate_that_failed_is_told_and_the_others_count(elsewhere):
    Path("broken.py").write_text('def build(task, rng):\n    raise RuntimeError("out of luck")\n')
    assert main(["-m", "candidates=[correct,broken.py:build]", "seed=0,1", "sweep=x", *SMALL]) == 1
    assert main(["collect", "results/sweeps/x"]) == 1
    board = pd.read_csv("results/sweeps/x/leaderboard.csv").set_index("candidate")
    assert board.seeds.to_dict() == {"correct": "2/2", "broken.py:build": "0/2"}
    assert "out of luck" in board.reason["broken.py:build"]


def test_results_that_are_gone_are_missing(mine, capsys):
    assert main(["-m", *mine, "seed=0,1", "sweep=x"]) == 0
    for file in Path("results/sweeps/x/seed=1").iterdir():
        if file.is_file() and file.name != "job.json":
            file.unlink()
    assert main(["collect", "results/sweeps/x"]) == 1
    assert "missing: seed=1: it was done, and its results are gone" in capsys.readouterr().err


def test_different_simulators_are_not_merged(mine):
    # Two paths, two contents; and one path whose content was edited.
    Path("other.py").write_text(SIMULATOR.format(noise=5.0))
    assert main([*mine, "out=a"]) == 0
    assert main([*mine, "out=b", "task.file=other.py", "seed=1"]) == 0
    found = boards("a", "b")
    assert set(found) == {"mine (task.file=sim.py)", "mine (task.file=other.py)"}
    assert found["mine (task.file=sim.py)"].energy.item() == energy("a", "mine.py:build")
    Path("sim.py").write_text(SIMULATOR.format(noise=5.0))
    assert main([*mine, "out=c", "seed=1"]) == 0
    found = boards("a", "c")
    hashes = [json.loads(Path(f, "provenance.json").read_text())["identity"]["task"][:8] for f in "ac"]
    assert set(found) == {f"mine (content={one})" for one in hashes}
    assert [board.seeds.item() for board in found.values()] == ["1/1", "1/1"]
    assert sorted(board.energy.item() for board in found.values()) == sorted(energy(f, "mine.py:build") for f in "ac")


def test_a_copy_of_a_simulator_is_the_same(mine):
    Path("copies").mkdir()
    shutil.copy("sim.py", "copies/sim.py")
    shutil.copy("mine.py", "copies/mine.py")
    assert main([*mine, "out=a"]) == 0
    assert main([*mine, "out=b", "task.file=copies/sim.py", "seed=1"]) == 0
    (board,) = boards("a", "b").values()
    assert board.seeds.tolist() == ["2/2"]
    assert board.energy.item() == np.mean([energy(f, "mine.py:build") for f in "ab"])
    # Also the same run counts once, wherever its files are.
    assert main([*mine, "out=c", "task.file=copies/sim.py"]) == 0
    assert len(collect_runs([Path("a"), Path("c")])[0]) == 1


def test_an_edited_candidate_is_another_one(mine):
    assert main([*mine, "out=a"]) == 0
    Path("mine.py").write_text(CANDIDATE.format(width=0.1))
    assert main([*mine, "out=b", "seed=1"]) == 0
    (board,) = boards("a", "b").values()
    assert board.candidate.tolist() == ["mine.py:build"] * 2
    assert board.seeds.tolist() == ["1/2", "1/2"]
    hashes = {
        f"content={json.loads(Path(f, 'provenance.json').read_text())['identity']['candidate:mine.py:build'][:8]}": f
        for f in "ab"
    }
    assert len(hashes) == 2
    for row in board.itertuples():
        assert row.energy == energy(hashes[row.settings], "mine.py:build")


def test_settings_of_others_do_not_tell_a_candidate_apart(elsewhere):
    base = ["task=two_moons", *SMALL, "candidates=[exact]", "controls=false"]
    listing = OmegaConf.load(Path(__file__).parents[2] / "configs" / "task" / "two_moons.yaml")
    name = next(iter(listing.candidates))
    base[-2] = f"candidates=[{name}]"
    assert main([*base, "out=a", "candidate.npe.network.hidden_features=10"]) == 0
    assert main([*base, "out=b", "candidate.npe.network.hidden_features=20", "seed=1"]) == 0
    (board,) = boards("a", "b").values()
    assert board.seeds.tolist() == ["2/2"]


def test_a_setting_that_candidates_take_up_is_told_once(elsewhere):
    Path("conf/candidate").mkdir(parents=True)
    Path("conf/candidate/mine.yaml").write_text("_target_: mira_bench.tasks.gaussian.ToyCandidate\nbias: ${budget}\n")
    words = ["--config-dir", "conf", "+candidate@candidate.mine=mine", "candidates=[mine,correct]", *SMALL]
    assert main(["-m", *words, "budget=1,2", "seed=0,1", "sweep=x"]) == 0
    assert main(["collect", "results/sweeps/x"]) == 0
    board = pd.read_csv("results/sweeps/x/leaderboard.csv", keep_default_na=False)
    assert list(zip(board.candidate, board.settings, board.seeds, strict=True)) == [
        ("correct", "", "2/2"), ("mine", "bias=1, budget=1", "2/2"), ("mine", "bias=2, budget=2", "2/2"),
    ]  # fmt: skip
    table = pd.read_csv("results/sweeps/x/table.csv")
    assert not [name for name in table.columns if name.startswith("candidate.")]
    assert set(table.budget) == {1, 2}


def test_what_cannot_be_identified_is_like_nothing_else(elsewhere):
    for out, seed in (("a", 0), ("b", 1)):
        assert main(["candidates=[correct]", *SMALL, f"out={out}", f"seed={seed}"]) == 0
    assert len(boards("a", "b")) == 1
    for folder in ("a", "b"):
        path = Path(folder, "provenance.json")
        path.write_text(json.dumps(json.loads(path.read_text()) | {"identity": {}}))
    shutil.copytree("a", "copy")
    assert len(boards("a", "b", "copy")) == 2
    assert job_fingerprint("settings", {}) == ""


def test_a_control_and_a_candidate_of_one_name_are_two(elsewhere):
    Path("conf/task").mkdir(parents=True)
    one = "{_target_: mira_bench.tasks.gaussian.ToyCandidate, bias: "
    Path("conf/task/odd.yaml").write_text(
        "model: {_target_: mira_bench.tasks.gaussian.Toy}\nfiducials: 40\nsamples: 10\n"
        f"candidates:\n  correct: {one}0}}\n  prior: {one}9}}\n"
    )
    base = ["--config-dir", "conf", "task=odd", *SIZES, "metrics=[mira,energy]"]
    assert main([*base, "candidates=[correct]", "out=a"]) == 0
    assert main([*base, "candidates=[correct,prior]", "controls=false", "out=b", "seed=1"]) == 0
    (board,) = boards("a", "b").values()
    rows = board[board.candidate == "prior"]
    assert sorted(rows.role) == ["candidate", "control"]
    assert rows.seeds.tolist() == ["1/2", "1/2"]
    assert rows.set_index("role").energy.to_dict() == {
        "control": energy("a", "prior"),
        "candidate": energy("b", "prior"),
    }


METRIC = """
from mira_bench import Energy, Scores
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Mine(Energy):
    def reduce(self, records, scaling):
        return replace(super().reduce(records, scaling), score=FACTOR)


FACTOR = 1.0
"""


def test_an_edited_metric_makes_another_leaderboard(elsewhere, monkeypatch):
    monkeypatch.syspath_prepend(str(elsewhere))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    Path("conf/metric").mkdir(parents=True)
    Path("conf/metric/mine.yaml").write_text("_target_: edited_metric.Mine\n")
    base = ["--config-dir", "conf", "+metric@metric.mine=mine", "candidates=[correct]", "controls=false", *SIZES]
    for out, factor, seed in (("a", 1.0, 0), ("b", 2.0, 1)):
        Path("edited_metric.py").write_text(METRIC.replace("1.0", str(factor)))
        sys.modules.pop("edited_metric", None)
        assert main([*base, "metrics=[mira,mine]", f"out={out}", f"seed={seed}"]) == 0
        assert main([*base, "metrics=[mira]", f"out={out}{out}", f"seed={seed}"]) == 0
    sys.modules.pop("edited_metric", None)
    assert len(boards("a", "b")) == 2
    assert len(boards("aa", "bb")) == 1


@pytest.fixture
def samples(elsewhere):
    r"""Truths of one name in two folders, and candidates for each."""
    rng = np.random.default_rng(0)
    for folder, shift in (("a", 0.0), ("b", 5.0)):
        Path(folder).mkdir()
        truths = shift + rng.normal(size=(60, 1))
        np.save(f"{folder}/truths.npy", truths)
        for name in ("npe", "mcmc"):
            np.save(f"{folder}/{name}.npy", truths[:, None] + rng.normal(size=(60, 20, 1)))
    return rng


@pytest.mark.parametrize("how", ["score", "hydra"])
def test_files_of_one_name_are_not_paired(samples, how, monkeypatch, elsewhere):
    for folder, name in (("a", "npe"), ("b", "mcmc")):
        monkeypatch.chdir(elsewhere / folder)
        if how == "score":
            assert main(["score", "truths.npy", f"{name}={name}.npy", "--out", "../run_" + folder]) == 0
        else:
            files = ["task=files", "task.truths=truths.npy", f"task.candidates={{{name}: {name}.npy}}"]
            assert main([*files, f"out=../run_{folder}", "regions=10"]) == 0
    monkeypatch.chdir(elsewhere)
    found = boards("run_a", "run_b")
    assert len(found) == 2
    assert all(" (content=" in label for label in found)
    for board in found.values():
        assert board.tied.tolist() == ["best"]


def test_the_same_truths_elsewhere_are_paired(samples):
    Path("c").mkdir()
    shutil.copy("a/truths.npy", "c/other.npy")
    assert main(["score", "a/truths.npy", "npe=a/npe.npy", "--out", "one"]) == 0
    assert main(["score", "c/other.npy", "mcmc=a/mcmc.npy", "--out", "two"]) == 0
    (apart,) = boards("one", "two").values()
    assert main(["score", "a/truths.npy", "npe=a/npe.npy", "mcmc=a/mcmc.npy", "--out", "both"]) == 0
    (both,) = boards("both").values()
    columns = ["candidate", "mira", "energy", "tied", "tied_p"]
    pd.testing.assert_frame_equal(apart[columns], both[columns], check_exact=True)


def test_a_candidate_of_one_name_and_other_samples_is_another(samples):
    np.save("npe.npy", np.load("a/npe.npy"))
    assert main(["score", "a/truths.npy", "npe=npe.npy", "--out", "one"]) == 0
    np.save("npe.npy", np.load("a/mcmc.npy"))
    assert main(["score", "a/truths.npy", "npe=npe.npy", "--seed", "1", "--out", "two"]) == 0
    (board,) = boards("one", "two").values()
    assert board.candidate.tolist() == ["npe", "npe"]
    assert board.seeds.tolist() == ["1/2", "1/2"]
    assert all(settings.startswith("content=") for settings in board.settings)
    assert set(board.energy) == {energy("one", "npe"), energy("two", "npe")}


@pytest.mark.parametrize("newer", ["a", "b"])
def test_the_newer_of_two_runs_counts(elsewhere, newer):
    base = ["candidates=[correct]", *SMALL]
    for folder in ("a", "b"):
        assert main([*base, f"out={folder}"]) == 0
    # The canary may tell that something hidden was edited: the results differ then, and nothing else does.
    summary = pd.read_csv(f"{newer}/summary.csv").assign(score=7.0)
    summary.to_csv(f"{newer}/summary.csv", index=False)
    facts = json.loads(Path(newer, "provenance.json").read_text())
    Path(newer, "provenance.json").write_text(json.dumps(facts | {"finished": "2999-01-01T00:00:00+00:00"}))
    runs, notes = collect_runs([Path("a"), Path("b")])
    assert [run.folder.name for run in runs] == [newer]
    assert runs[0].summary.score.tolist() == [7.0, 7.0]
    assert any("each run counts once, the newest" in note for note in notes)


def test_runs_without_a_time_are_as_old_as_their_files(elsewhere):
    for folder, age in (("a", 1_000_000_000), ("b", 2_000_000_000)):
        assert main(["candidates=[correct]", *SMALL, f"out={folder}"]) == 0
        path = Path(folder, "provenance.json")
        facts = json.loads(path.read_text())
        facts.pop("finished", None)
        path.write_text(json.dumps(facts))
        os.utime(path, (age, age))
    assert [run.folder.name for run in collect_runs([Path("a"), Path("b")])[0]] == ["b"]


def test_the_config_is_resolved(mine, monkeypatch):
    monkeypatch.setenv("SIMULATOR", "sim.py")
    words = ["task.file=${oc.env:SIMULATOR}" if word.startswith("task.file=") else word for word in mine]
    assert main([*words, "out=here"]) == 0
    text = Path("here/config.yaml").read_text()
    assert "${" not in text
    config = OmegaConf.load("here/config.yaml")
    assert config.task.model.file == config.task.file == "sim.py"
    assert config.out == "here"


def test_jobs_of_one_setting_and_other_content_are_told_apart(mine):
    for folder, noise in (("x", 0.5), ("y", 3.0)):
        Path("sim.py").write_text(SIMULATOR.format(noise=noise))
        assert main(["-m", *mine, "seed=0,1", f"sweep={folder}"]) == 0
    shutil.rmtree("results/sweeps/x/seed=0")
    jobs = collect_jobs([Path("results/sweeps/x"), Path("results/sweeps/y")])
    assert sorted(job.status for job in jobs) == ["done", "done", "done", "missing"]


def test_a_run_that_was_killed_does_not_count(elsewhere):
    r"""A run into the folder of an earlier one is killed on the way: what it leaves is no result."""
    assert main(["candidates=[correct]", *SMALL, "out=here"]) == 0
    Path("deadly.py").write_text(
        "import os, signal\n\n\ndef build(task, rng):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "mira_bench", "candidates=[deadly.py:build]", *SMALL, "out=here"],
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"}, capture_output=True,
    )  # fmt: skip
    assert done.returncode < 0
    assert collect_runs([Path("here")])[0] == []
    assert not list(Path("here").glob("*.csv"))
    # And the next one cleans up behind both.
    assert main(["candidates=[biased]", *SMALL, "out=here"]) == 0
    (run,) = collect_runs([Path("here")])[0]
    assert run.ranking.candidate.tolist() == ["biased"]
    assert not Path("here/code").exists()
