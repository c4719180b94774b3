r"""The command line: exit codes, sentences, and the folder that explains a run."""

import json
import os
import subprocess
import sys
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hydra import compose, initialize_config_module
from hydra.utils import instantiate
from omegaconf import OmegaConf

import mira_bench as mb
from mira_bench.cli.command import main
from mira_bench.cli.listing import configs as _configs

pytestmark = pytest.mark.usefixtures("elsewhere")

SMALL = ["fiducials=120", "samples=20", "regions=10", "metric.c2st.trees=2", "progress=false"]


def test_a_run_leaves_a_folder_that_explains_it(elsewhere, capsys):
    assert main([*SMALL, "out=here", "seed=3"]) == 0
    text = capsys.readouterr().out
    assert "underconfident" in text
    assert "no miscalibration found" in text
    folder = elsewhere / "here"
    names = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert names == {
        "scores.parquet", "summary.csv", "ranking.csv", "ranking.md", "ranking.tex", "config.yaml",
        "details.json", "report.html",
        "provenance.json", "log.txt", "figures/overview.png", "figures/overview.pdf", "figures/sbc.png",
        "figures/sbc.pdf",
    }  # fmt: skip
    facts = json.loads((elsewhere / "here" / "provenance.json").read_text())
    assert facts["seed"] == 3
    assert set(facts["candidate_seconds"]) >= {"correct", "prior"}
    assert "seed: 3" in (elsewhere / "here" / "config.yaml").read_text()
    assert "done in" in (elsewhere / "here" / "log.txt").read_text()
    assert len(list((elsewhere / "results" / "store").rglob("*.block"))) > 0


@pytest.mark.usefixtures("plain_figures")
def test_the_default_folder(elsewhere):
    assert main([*SMALL, "metrics=[mira]", "candidates=[correct]", "controls=false", "store=null"]) == 0
    (folder,) = (elsewhere / "results" / "runs" / "gaussian").iterdir()
    summary = pd.read_csv(folder / "summary.csv")
    assert summary.candidate.tolist() == ["correct"]
    assert not (elsewhere / "results" / "store").exists()


@pytest.mark.usefixtures("plain_figures")
def test_settings_reach_the_metric(elsewhere):
    base = [*SMALL, "candidates=[correct]", "controls=false", "metrics=[mira]"]
    main([*base, "out=a"])
    main([*base, "out=b", "metric.mira.normalize=none", "metric.mira.regions=7"])
    notes = [pd.read_csv(elsewhere / name / "summary.csv").note.iloc[0] for name in "ab"]
    assert notes == ["normalize=task", "normalize=none"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["task=nope"], "gaussian"),
        (["nonsense=1"], "there is no key 'nonsense'"),
        (["+nonsense=1"], "there is no key 'nonsense'"),
        (["fiducial=3"], "did you mean 'fiducials'"),
        (["metric.mira.regons=3"], "there is no key 'metric.mira.regons'; did you mean 'metric.mira.regions'"),
        (["metric.nonsense.regions=3"], "there are: c2st, calibration"),
        (["candidates.correct.bias=1"], "'candidates' has no keys of its own"),
        (["task=gausian"], "there is no task 'gausian'; did you mean 'gaussian'"),
        (["task=lensing/smal"], "there is no task 'lensing/smal'; did you mean 'lensing'"),
        (["hydra/launcher=joblb", "-m", "seed=0,1"], "did you mean 'joblib'"),
        (["-m", "metric.mira.regons=1,2"], "did you mean 'metric.mira.regions'"),
        (["fiducials=abc"], "whole number"),
        (["fiducials=2.5"], "whole number"),
        (["workers=two"], "whole number"),
        (["candidates=[nobody]"], "there are: correct"),
        (["metrics=[vibes]"], "there are: mira"),
        (["candidates=[]"], "no candidates"),
        (["metrics=[]"], "no metrics"),
        (["fiducials=0"], "fiducials=0"),
        (["samples=0"], "samples=0"),
        (["regions=0"], "regions=0"),
        (["rank_by=vibes"], "rank_by"),
        (["normalize=vibes"], "not one of"),
        (["device=warp"], "device='warp'"),
        (["metric.mira.reference=some"], "reference='some'"),
        (["conquer"], "no verb 'conquer'"),
        (["out=/dev/null/x"], "/dev/null/x"),
        (["store=/dev/null/x"], "/dev/null/x"),
    ],
)
def test_bad_usage_exits_with_2(arguments, words, capsys):
    key = arguments[0].split("=")[0]
    assert main([*arguments, *(a for a in SMALL if not a.startswith(f"{key}="))]) == 2
    captured = capsys.readouterr()
    assert words in captured.err + captured.out
    assert "Traceback" not in captured.err


BROKEN = """
model:
  _target_: mira_bench.tasks.gaussian.Toy
fiducials: 100
samples: 10
candidates:
  good: {_target_: mira_bench.tasks.gaussian.ToyCandidate}
  bad: {_target_: mira_bench.tasks.gaussian.ToyCandidate, variance: -1.0}
"""


@pytest.mark.usefixtures("plain_figures")
def test_a_failed_candidate_exits_with_1(elsewhere, capsys):
    (elsewhere / "conf" / "task").mkdir(parents=True)
    (elsewhere / "conf" / "task" / "broken.yaml").write_text(BROKEN)
    with pytest.warns(RuntimeWarning):
        code = main(["--config-dir", "conf", "task=broken", "out=here", "metric.c2st.trees=2", "progress=false"])
    assert code == 1
    assert "bad failed: candidate 'bad' is nan at fiducial 0, sample 0" in capsys.readouterr().err
    ranking = pd.read_csv(elsewhere / "here" / "ranking.csv").set_index("candidate")
    assert ranking.verdict["bad"] == "failed"
    assert ranking.verdict["good"] == "no miscalibration found"
    assert "bad" in json.loads((elsewhere / "here" / "provenance.json").read_text())["failures"]


@pytest.mark.usefixtures("plain_figures")
def test_laws_and_distances_need_no_quotes(elsewhere):
    base = [*SMALL, "candidates=[correct]", "controls=false", "metrics=[mira]", "store=null"]
    for setting in ("metric.mira.centers=normal(-5,1)", "metric.mira.distance=minkowski(3)", "metric.mira.distance=l1"):
        assert main([*base, "out=here", setting]) == 0
        assert setting.split("=")[1] in (elsewhere / "here" / "config.yaml").read_text()


@pytest.mark.usefixtures("plain_figures")
def test_a_failed_score_leaves_an_old_folder_alone(elsewhere):
    rng = np.random.default_rng(0)
    np.save("y.npy", rng.normal(size=(30, 2)))
    np.save("good.npy", rng.normal(size=(30, 20, 2)))
    np.save("short.npy", rng.normal(size=(10, 20, 2)))
    assert main(["score", "y.npy", "g=good.npy", "--metrics", "mira", "--out", "here"]) == 0
    before = {path: path.read_bytes() for path in (elsewhere / "here").rglob("*") if path.is_file()}
    assert main(["score", "y.npy", "g=short.npy", "--metrics", "mira", "--out", "here"]) == 2
    assert main(["score", "y.npy", "g=good.npy", "--metrics", ",", "--out", "here"]) == 2
    assert {path: path.read_bytes() for path in (elsewhere / "here").rglob("*") if path.is_file()} == before


def test_dry(elsewhere, capsys):
    assert main([*SMALL, "dry=true"]) == 0
    text = capsys.readouterr().out
    assert "whole run" in text
    assert "MB" in text
    assert list(elsewhere.iterdir()) == []


def test_help_and_lists(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for word in ("collect", "task=mine", "Examples"):
        assert word in text
    assert main(["list", "metrics"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["Metrics", *_configs("metric")]
    assert main(["list", "candidates"]) == 0
    text = capsys.readouterr().out
    for name in _configs("candidate"):
        (line,) = (line for line in text.splitlines() if line.split()[0] == name)
        assert 40 < len(line) <= 120
    text = " ".join(text.split())  # however long the lines are
    assert "gaussian: correct, " in text
    assert "files: samples that exist: task=files" in text
    assert "mine: those for every task, and what your files define" in text


def test_a_reader_that_has_seen_enough_is_no_error():
    there, here = os.pipe()
    os.close(there)  # as `head` does
    words = [sys.executable, "-m", "mira_bench", "--help"]
    environment = os.environ | {"PYTHONPATH": str(Path(mb.__file__).parents[1])}
    done = subprocess.run(words, stdout=here, stderr=subprocess.PIPE, text=True, env=environment)
    os.close(here)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.usefixtures("plain_figures")
def test_store_verb(elsewhere, capsys):
    main([*SMALL, "candidates=[correct]", "metrics=[mira]", "out=here"])
    capsys.readouterr()
    assert main(["store"]) == 0
    listing = capsys.readouterr().out
    assert "correct" in listing
    assert "mira" in listing
    assert main(["store", "prune", "--kind", "record", "--task", "gaussian"]) == 0
    assert "Removed 6 blocks" in capsys.readouterr().out
    assert main(["store", "list", "--store", "nowhere"]) == 0
    assert "no store" in capsys.readouterr().out


@pytest.mark.usefixtures("plain_figures")
def test_multirun(elsewhere):
    code = main(["--multirun", *SMALL, "candidates=[correct]", "metrics=[mira]", "seed=0,1"])
    assert code == 0
    folders = sorted((elsewhere / "results" / "sweeps").rglob("summary.csv"))
    assert [f.parent.name for f in folders] == ["seed=0", "seed=1"]
    scores = [pd.read_csv(f).score.iloc[0] for f in folders]
    assert scores[0] != scores[1]


def closure(task):
    r"""The words that make the samplers of a task that are not linear take a second."""
    config = OmegaConf.load(resources.files("mira_bench.configs") / "task" / f"{task}.yaml")
    quick = [f"task.candidates.{name}.sampler.steps=4" for name in config.candidates]
    few = [f"task.model.reference.{word}" for word in ("particles=20", "chains=4", "draws=6")]
    return [*quick, "task.model.problem.noise=0.02", *few]


@pytest.mark.usefixtures("plain_figures")
@pytest.mark.parametrize("task", [task for task in _configs("task") if task not in ("files", "mine")])
def test_every_task_config_composes_and_runs(task, request, monkeypatch):
    few = ["fiducials=12", "samples=8", "regions=4", "metric.c2st.trees=2"]
    if task.startswith("mnist"):  # on images that need no network
        monkeypatch.setenv("MIRA_BENCH_MNIST", str(request.getfixturevalue("digits_folder")))
        few += ["candidates=[real,wrong_label]"] if task != "mnist/proportions" else []  # the others are trained
    if task.startswith("lensing"):  # its samplers take seconds at their own size
        few += ["fiducials=3", "candidates=[epl_3]"]
        few += ["task.candidates.epl_3.smc={particles:20,chains:4,draws:6,warmup:1}"]
    if task.startswith("galaxy"):  # tests/tasks/test_galaxy.py trains one
        few += ["fiducials=3", "task.model.size=8", "task.model.lens.pixels=8", "task.model.count=10"]
        few += ["task.model.trainer.mixture.rank=4", "task.model.trainer.mixture.components=2"]
        few += ["candidates=[spiral_2,spiral_2_sampled]" if task == "galaxy/sampler" else "candidates=[spiral_2]"]
        few += ["task.candidates.spiral_2_sampled.sampler.steps=20"] if task == "galaxy/sampler" else []
    if task.startswith(("mri", "scattering", "black_hole")):  # tests/tasks/inverse has the samplers
        few += ["fiducials=3", "task.model.problem.size=8", "task.model.trainer.size=8", "task.model.trainer.count=40"]
        few += ["task.model.trainer.mixture.rank=4"]
        few += ["candidates=[collapsed]"] if "closure" not in task else closure(task)
    if task in ("defects", "defects/ten"):  # tests/tasks/test_defects.py has all of their candidates
        few += ["candidates=[exact,heavy_tails]"]
    if task in ("slcp", "slcp_distractors", "bernoulli_glm", "sir", "lotka_volterra"):  # so do their references
        few += ["fiducials=3", "candidates=[narrow]"]
    assert main([f"task={task}", *few, f"metrics=[{','.join(_configs('metric'))}]", "out=here", "progress=false"]) == 0


@pytest.mark.parametrize("experiment", _configs("experiment"))
def test_every_experiment_composes(experiment):
    with initialize_config_module("mira_bench.configs", version_base="1.3"):
        cfg = compose("config", [f"experiment={experiment}"], return_hydra_config=False)
    own = cfg.task.candidates
    for name in cfg.candidates or own:
        instantiate(own[name] if name in own else cfg.candidate[name])


def test_the_power_study_at_a_tiny_size(elsewhere):
    arguments = ["experiment=power", "study.repeats=6", "study.grid.fiducials=[128]", "out=here", "workers=1"]
    assert main([*arguments, "metrics=[mira,sbc]", "candidates=[exact,narrow,rotated]", "progress=false"]) == 0
    table = pd.read_csv(elsewhere / "here" / "study.csv").set_index(["candidate", "metric"]).share
    # At 128 fiducials MIRA sees nearly every narrow and rotated candidate; SBC cannot see the rotated one.
    assert table["narrow", "mira"] >= 0.5
    assert table["rotated", "mira"] >= 0.5
    assert max(table["exact", "mira"], table["exact", "sbc"], table["rotated", "sbc"]) <= 0.5
    assert (elsewhere / "here" / "figures" / "power.png").stat().st_size > 10000
    assert main([*arguments, "study.measure=vibes"]) == 2


@pytest.mark.usefixtures("plain_figures")
def test_the_ranking_rule_study_at_a_tiny_size(elsewhere, capsys):
    arguments = ["experiment=ranking_rule", "study.repeats=8", "study.grid.fiducials=[100]", "out=here", "workers=1"]
    arguments += ["study.cases=null", "candidates=[exact,prior,width_70]"]
    assert main([*arguments, "progress=false"]) == 0
    said = capsys.readouterr().out
    assert "by tiers_first" in said
    assert "Regret" in said
    runs = pd.read_csv(elsewhere / "here" / "runs.csv")
    assert len(runs) == 8 * 3
    exact = runs[runs.candidate == "exact"]
    assert (exact.tiers == 1).sum() >= 5
    assert (exact.mira == 1).sum() <= 7
    assert runs[runs.candidate == "prior"].beaten.all()  # the others are far better, and the rule by MIRA takes it
    table = pd.read_csv(elsewhere / "here" / "study.csv")
    assert table.groupby("rule").wins.sum().to_dict() == {"mira": 8, "energy": 8, "tiers_first": 8, "tiers": 8}
    expected = runs.groupby("candidate").score.mean()
    for row in table.itertuples():
        assert row.regret == pytest.approx(expected[row.winner] / expected.min() - 1)
        assert row.beaten == (row.winner == "prior")
    assert main([*arguments, "+study.grid.color=[1]"]) == 2


HYDRA = ["task=files", "task.truths=truths.npy", "task.candidates={npe: npe.npy}"]


@pytest.fixture
def files(elsewhere, rng):
    x = rng.normal(size=(60, 2))
    np.save("truths.npy", x + rng.normal(size=(60, 2)))
    np.save("npe.npy", x[:, None] + rng.normal(size=(60, 40, 2)))
    np.save("mcmc.npy", np.repeat(x[:, None] + rng.normal(size=(60, 20, 2)), 5, axis=1))
    return ["score", "truths.npy", "npe=npe.npy", "mcmc=mcmc.npy", "--regions", "10"]


def test_score_leaves_the_folder_of_a_run(elsewhere, files, capsys):
    assert main([*files, "--out", "here", "--seed", "3", "--names", "Om,s8", "--bounds", "-5,5", "--x", "npe.npy"]) == 0
    captured = capsys.readouterr()
    assert "which posterior can be trusted" in captured.out
    assert "40 to 100 samples" in captured.out
    assert "warning: candidate 'mcmc' (mcmc.npy) is autocorrelated" in captured.err
    folder = elsewhere / "here"
    names = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert names == {
        "scores.parquet", "summary.csv", "ranking.csv", "ranking.md", "ranking.tex", "config.yaml",
        "details.json", "report.html",
        "provenance.json", "log.txt", "figures/overview.png", "figures/overview.pdf",
        "figures/sbc.png", "figures/sbc.pdf",
    }  # fmt: skip
    facts = json.loads((folder / "provenance.json").read_text())
    assert (facts["task"], facts["seed"]) == ("score", 3)
    config = OmegaConf.load(folder / "config.yaml")
    assert config.candidates == {"npe": "npe.npy", "mcmc": "mcmc.npy"}
    assert config.bounds == [-5, 5]
    log = (folder / "log.txt").read_text()
    assert "autocorrelated" in log
    assert "done in" in log
    notes = pd.read_csv(folder / "summary.csv").query("metric == 'mira'").note.tolist()
    assert notes[0] == "normalize=task; S = 40"
    assert "S = 100; autocorrelated" in notes[1]


def test_score_by_hydra_is_the_same(elsewhere, files):
    assert main([*files, "--out", "a", "--metrics", "mira,tarp", "--normalize", "none", "--thin"]) == 0
    settings = ["task=files", "task.truths=truths.npy", "task.candidates={npe: npe.npy, mcmc: mcmc.npy}"]
    settings += ["metrics=[mira,tarp]", "normalize=none", "regions=10", "task.thin=true", "out=b"]
    assert main(settings) == 0
    for name in ("summary.csv", "scores.parquet", "ranking.csv", "figures/overview.png"):
        assert (elsewhere / "a" / name).read_bytes() == (elsewhere / "b" / name).read_bytes()
    assert pd.read_csv(elsewhere / "a" / "summary.csv").metric.tolist() == ["mira", "tarp"] * 2
    assert main([*settings, "candidates=[npe]"]) == 0
    assert pd.read_csv(elsewhere / "b" / "summary.csv").candidate.unique().tolist() == ["npe"]


@pytest.mark.usefixtures("plain_figures")
def test_score_has_a_default_folder(elsewhere, files):
    assert main([*files, "--metrics", "mira"]) == 0
    (folder,) = (elsewhere / "results" / "runs" / "score").iterdir()
    assert (folder / "ranking.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["score", "truths.npy", "npe.npy"], "name=file"),
        (["score", "truths.npy", "npe=npe.npy", "npe=mcmc.npy"], "given twice"),
        (["score", "truths.npy", "npe=gone.npy"], "gone.npy"),
        (["score", "truths.npy", "npe=npe.npy", "--metrics", "vibes"], "there are: mira, calibration"),
        (["score", "truths.npy", "npe=npe.npy", "--layout", "SLd"], "npe.npy has shape (60, 40, 2): 40 fiducials"),
        (["score", "truths.npy", "npe=npe.npy", "--regions", "0"], "regions=0"),
        (["score", "truths.npy", "npe=npe.npy", "--bounds", "5,-5"], "low < high"),
        (["score", "truths.npy", "npe=npe.npy", "--out", "/dev/null/x"], "/dev/null/x"),
        (["task=files"], "task.truths= and task.candidates="),
        ([*HYDRA, "fiducials=3"], "fiducials="),
        ([*HYDRA, "dry=true"], "dry="),
        ([*HYDRA, "candidates=[a]"], "there are: npe"),
        ([*HYDRA, "task.layout=x"], "layout='x'"),
        (["task=files", "task.truths=truths.npy", "task.candidates={}"], "no candidates"),
    ],
)
def test_bad_files_exit_with_2(files, arguments, words, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert "Traceback" not in captured.err


def test_bad_options_of_score_exit_with_2(files):
    for wrong in (["--layout", "dLS"], ["--nonsense"], ["--seed", "x"]):
        with pytest.raises(SystemExit) as stop:
            main([*files, *wrong])
        assert stop.value.code == 2
