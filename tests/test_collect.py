r"""Collecting runs: nothing is counted twice, nothing is mixed, and the errors are what they say."""

import json
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hydra.core.global_hydra import GlobalHydra

from mira_bench.cli.command import main
from mira_bench.report.outputs import clear_collected, write_json
from mira_bench.statistics import mean_stderr, paired_pvalue
from mira_bench.sweeps.boards import leaderboard_figure
from mira_bench.sweeps.collect import collect_jobs, collect_runs, gaps, group_runs, tidy
from mira_bench.sweeps.jobs import Job
from mira_bench.sweeps.leaderboard import interval, leaderboard, pooled

pytestmark = pytest.mark.usefixtures("elsewhere")

SMALL = ["fiducials=64", "samples=20", "regions=5", "metrics=[mira,calibration,energy]", "progress=false"]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    r"""Two candidates in separate jobs, two seeds; made once, copied by tests that change it."""
    folder = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["mira_bench"])
        command = ["-m", "seed=0,1", "candidates=[correct],[biased]", "sweep=mine", "store=null", *SMALL]
        assert main(command) == 0
        GlobalHydra.instance().clear()
    return folder / "results" / "sweeps" / "mine"


def made_up(folder, name, seed, scores, *, task="toy", candidates=None, tier="A", more=None):
    r"""Writes a run whose energy scores per fiducial are given, as the runner would."""
    path = Path(folder) / f"{name}-{seed}"
    path.mkdir(parents=True)
    config = {"fiducials": len(scores), "samples": 10, "seed": seed, "candidates": [name]} | (more or {})
    config["task"] = {"model": {"_target_": "Toy"}, "candidates": candidates or {name: {"_target_": "Candidate"}}}
    (path / "config.yaml").write_text(json.dumps(config))
    facts = {"task": task, "seed": seed, "versions": {"mira_bench": "1"}}
    (path / "provenance.json").write_text(json.dumps(facts))
    row = {"task": task, "candidate": name, "metric": "energy", "view": "all"}
    mean, stderr = mean_stderr(scores)
    pd.DataFrame([row | {"score": mean, "stderr": stderr, "expected": np.nan}]).to_csv(
        path / "summary.csv", index=False
    )
    ranking = {"candidate": name, "role": "candidate", "tier": tier, "verdict": "no miscalibration found"}
    ranking |= {"mira": np.nan, "mira_stderr": np.nan, "calibration_p": 0.5, "energy": mean, "energy_stderr": stderr}
    pd.DataFrame([ranking | {"skill": 0.5, "skill_stderr": 0.01}]).to_csv(path / "ranking.csv", index=False)
    pd.DataFrame([row | {"fiducial": i, "value": v} for i, v in enumerate(scores)]).to_parquet(path / "scores.parquet")
    return path


def boards(folder, by=(), rank_by="tiers"):
    groups = group_runs(collect_runs([Path(folder)])[0], by)
    return {group.label: leaderboard(group, rank_by) for group in groups}


def test_beside_the_page_of_a_run_the_leaderboards_have_another_name(elsewhere, capsys):
    folder = made_up("runs", "npe", 0, np.random.default_rng(0).normal(size=30))
    (folder / "report.html").write_text("the page of the run")
    assert main(["collect", str(folder)]) == 0
    assert f"look at {folder / 'leaderboard.html'}" in capsys.readouterr().out
    assert (folder / "report.html").read_text() == "the page of the run"
    assert "<title>Leaderboard</title>" in (folder / "leaderboard.html").read_text()
    clear_collected(folder)
    assert not (folder / "leaderboard.html").exists()
    (folder / "leaderboard.csv").write_text("leaderboard,task,rank,candidate,\n")
    (folder / "leaderboard.html").write_text("somebody's own")
    clear_collected(folder)
    assert (folder / "leaderboard.html").exists()
    assert main(["collect", str(folder), "--out", "elsewhere"]) == 0
    assert "look at elsewhere/report.html" in capsys.readouterr().out


def test_a_sweep_becomes_a_table_a_leaderboard_and_a_figure(sweep, elsewhere, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "180")
    assert main(["collect", str(sweep), "--out", "here"]) == 0
    text = capsys.readouterr().out
    assert "4 jobs: 4 done" in text
    assert "2 seeds" in text
    assert "2/2†" in text
    assert "† Fewer than three seeds" in " ".join(text.split())
    assert "To run again" not in text
    out = elsewhere / "here"
    names = {"table.csv", "table.parquet", "leaderboard.csv", "leaderboard.md", "leaderboard.tex", "jobs.csv"}
    assert {p.name for p in out.iterdir()} == names | {"leaderboard.png", "leaderboard.pdf", "report.html"}
    table = pd.read_csv(out / "table.csv")
    assert len(table) == 4 * 3 * 3  # runs; a candidate and two controls; metrics
    assert not table.duplicated(["folder", "candidate", "metric", "view"]).any()
    board = pd.read_csv(out / "leaderboard.csv").set_index("candidate")
    assert board.index.tolist() == ["correct", "biased", "oracle", "prior"]
    assert board["tied"].tolist() == ["best", "no", "-", "-"]
    assert board["rank"].dropna().tolist() == [1, 2]
    assert set(board["seeds"]) == {"2/2"}
    for name in ("correct", "biased"):
        rows = table[(table.candidate == name) & (table.metric == "energy")]
        mean, stderr, dof = pooled(rows.score.tolist(), rows.stderr.tolist(), 64)
        assert board.energy[name] == pytest.approx(mean)
        assert (board.energy_low[name], board.energy_high[name]) == pytest.approx(interval(mean, stderr, dof))


def test_copies_of_two_machines_count_once(sweep, elsewhere):
    shutil.copytree(sweep, "a")
    shutil.copytree(sweep, "b")
    # Each machine lacks a part of the other's.
    shutil.rmtree("a/seed=0,candidates=biased")
    shutil.rmtree("b/seed=1,candidates=correct")
    runs, notes = collect_runs([Path("a"), Path("b")])
    assert len(runs) == 4
    assert any("2 folder(s)" in note for note in notes)
    assert {job.status for job in collect_jobs([Path("a"), Path("b")])} == {"done"}
    assert [job.name for job in collect_jobs([Path("a")]) if job.status == "missing"] == ["seed=0,candidates=biased"]
    (merged,), (whole,) = boards(".").values(), boards(sweep).values()
    order = ["candidate", "settings"]
    pd.testing.assert_frame_equal(
        merged.sort_values(order, ignore_index=True), whole.sort_values(order, ignore_index=True), check_exact=True
    )


def test_missing_failed_and_damaged_are_said(sweep, elsewhere, capsys):
    shutil.copytree(sweep, "a")
    shutil.rmtree("a/seed=0,candidates=biased")
    failed = json.loads(Path("a/seed=1,candidates=biased/job.json").read_text())
    write_json(Path("a/seed=1,candidates=biased/job.json"), failed | {"status": "failed", "reason": "out of luck"})
    Path("a/seed=0,candidates=correct/ranking.csv").unlink()
    assert main(["collect", "a"]) == 1
    captured = capsys.readouterr()
    assert "missing: seed=0,candidates=biased" in captured.err
    assert "failed: seed=1,candidates=biased: out of luck" in captured.err
    assert "seed=0,candidates=correct is left out" in captured.err
    assert "One seed (1)" in captured.out
    (line,) = [line for line in captured.out.splitlines() if line.startswith("To run again")]
    names, command = line.removeprefix("To run again ").split(": ", 1)
    assert names.split("; ") == ["seed=0,candidates=biased", "seed=1,candidates=biased"]
    assert shlex.split(command)[:6] == ["python", "-m", "mira_bench", "-m", "seed=0,1", "candidates=[correct],[biased]"]
    assert "- biased, seed 0: missing" in Path("a/leaderboard.md").read_text()
    assert main(["collect", "nowhere"]) == 2
    Path("empty").mkdir()
    assert main(["collect", "empty"]) == 2


def test_the_figure_shows_tiers_few_seeds_and_what_is_not_done(elsewhere, rng):
    base = rng.normal(1.0, 0.1, 50)
    for seed in range(3):
        made_up("runs", "good", seed, base + rng.normal(0, 0.01, 50))
    made_up("runs", "late", 0, base + 0.5, tier="B")
    lost = made_up("runs", "lost", 0, base)
    ranking = pd.read_csv(lost / "ranking.csv").assign(verdict="failed")
    ranking.to_csv(lost / "ranking.csv", index=False)
    facts = json.loads((lost / "provenance.json").read_text())
    (lost / "provenance.json").write_text(json.dumps(facts | {"failures": {"lost": "no luck"}}))
    Job("seed=1,candidates=late", ["task=toy", "seed=1", "candidates=[late]"], status="missing").save(Path("runs/x"))
    Job("seed=2,candidates=late", ["task=toy", "seed=2", "candidates=[late]"], status="missing").save(Path("runs/y"))
    Job("seed=0", ["seed=0", "task=other"], "other", status="failed", reason="too big").save(Path("runs/z"))
    missing = gaps(collect_jobs([Path("runs")]), collect_runs([Path("runs")])[0])
    assert missing == {"toy": [("late, seed 1, 2", "missing")], "other": [("job, seed 0", "failed: too big")]}
    figure = leaderboard_figure(list(boards("runs").items()), missing)
    left, right, other, _ = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["1. good", "2. late†", "lost", "late, seed 1, 2"]
    words = [text.get_text() for text in left.texts]
    assert words[:3] == ["A", "B", "-"]  # the tiers, in the order of the rows
    assert words[-2:] == ["failed: no luck", "missing"]
    assert [text.get_text() for text in other.texts] == ["failed: too big"]
    assert "95% interval" in right.get_xlabel()
    assert "† Fewer than three seeds" in figure.get_supxlabel()


def test_a_far_control_does_not_press_the_candidates_together(elsewhere, rng):
    base = rng.normal(1.0, 0.1, 50)
    made_up("runs", "good", 0, base)
    made_up("runs", "fair", 0, base + 0.1)
    prior = made_up("runs", "prior", 0, base + 99)
    pd.read_csv(prior / "ranking.csv").assign(role="control").to_csv(prior / "ranking.csv", index=False)
    right = leaderboard_figure(list(boards("runs").items())).axes[1]
    assert right.get_xlim()[1] < 2
    assert [text.get_text() for text in right.texts] == ["100"]  # an arrow with the number


def test_the_tie_of_one_seed_is_that_of_a_run(elsewhere, rng):
    base, step = rng.normal(1.0, 0.1, 50), rng.normal(0.02, 0.05, 50)
    made_up("runs", "a", 0, base)
    made_up("runs", "b", 0, base + step)
    (board,) = boards("runs").values()
    assert board.candidate.tolist() == ["a", "b"]
    assert board.tied_p[1] == pytest.approx(paired_pvalue(step, rng))


def test_seeds_are_what_separates(elsewhere, rng):
    # Per seed b is clearly better or clearly worse than a: over four seeds nothing is resolved, whatever L is.
    for seed, shift in enumerate((0.5, -0.4, 0.45, -0.5)):
        base = rng.normal(1.0, 0.1, 100)
        made_up("runs", "a", seed, base)
        made_up("runs", "b", seed, base + shift + rng.normal(0, 0.01, 100))
        made_up("runs", "c", seed, base + 1 + rng.normal(0, 0.01, 100))
    (board,) = boards("runs").values()
    assert board.set_index("candidate").tied.to_dict() == {"a": "best", "b": "tied", "c": "no"} or (
        board.set_index("candidate").tied.to_dict() == {"b": "best", "a": "tied", "c": "no"}
    )


def test_a_worse_tier_is_behind_unless_its_energy_is_better(elsewhere, rng):
    base = rng.normal(1.0, 0.1, 50)
    made_up("runs", "a", 0, base)
    made_up("runs", "b", 0, base + rng.normal(0.0, 0.1, 50), tier="B")
    (board,) = boards("runs").values()
    assert board.candidate.tolist() == ["a", "b"]
    assert board.tied.tolist() == ["best", "by tier"]
    made_up("sharp", "a", 0, base)
    made_up("sharp", "b", 0, base - 0.5, tier="B")
    (board,) = boards("sharp").values()
    assert board.candidate.tolist() == ["b", "a"]
    assert board.tied.tolist() == ["best", "no"]
    (first,) = boards("sharp", rank_by="tiers_first").values()
    assert first.candidate.tolist() == ["a", "b"]


def test_a_worse_tier_is_behind_where_the_energy_does_not_separate(elsewhere, rng):
    base = rng.normal(1.0, 0.1, 50)
    made_up("runs", "a", 0, base)
    made_up("runs", "b", 0, base - 0.5, tier="B")
    made_up("runs", "c", 0, base + rng.normal(-0.001, 0.1, 50), tier="B")
    (group,) = group_runs(collect_runs([Path("runs")])[0])
    board = leaderboard(group)
    assert board.candidate.tolist() == ["b", "a", "c"]
    assert board.tied.tolist() == ["best", "no", "no"]
    board = leaderboard(group, "tiers_first")
    assert board.candidate.tolist() == ["a", "b", "c"]
    assert board.tied.tolist() == ["best", "no", "by tier"]


def test_settings_tell_candidates_apart_and_sizes_tell_leaderboards_apart(elsewhere, rng):
    def npe(budget):
        return {"npe": {"_target_": "Npe", "budget": budget}, "exact": {"_target_": "Exact"}}

    for budget in (100, 1000):
        for seed in (0, 1):
            scores = rng.normal(1000 / budget, 0.1, 40)
            more = {"budget": budget}
            made_up(f"runs/{budget}", "npe", seed, scores, candidates=npe(budget), more=more)
            made_up(f"runs/{budget}", "exact", seed, np.linspace(0, 1, 40), candidates=npe(budget), more=more)
    (board,) = boards("runs").values()
    assert list(zip(board.candidate, board.settings, strict=True)) == [
        ("exact", ""), ("npe", "budget=1000"), ("npe", "budget=100"),
    ]  # fmt: skip
    assert board.seeds.tolist() == ["2/2"] * 3
    assert set(boards("runs", ["budget"])) == {"toy (budget=100)", "toy (budget=1000)"}
    table = tidy(group_runs(collect_runs([Path("runs")])[0]))
    assert set(table.budget) == {100, 1000}
    # A root key that no candidate's config takes up may act on all of them.
    made_up("other", "exact", 0, rng.normal(1, 0.1, 40), more={"epochs": 3})
    made_up("other/b", "exact", 0, rng.normal(1, 0.1, 40), more={"epochs": 4})
    (board,) = boards("other").values()
    assert set(board.settings) == {"epochs=3", "epochs=4"}
    # Other numbers of samples are other leaderboards.
    made_up("sizes", "a", 0, rng.normal(1, 0.1, 40))
    made_up("sizes/b", "a", 0, rng.normal(1, 0.1, 40), more={"samples": 99})
    assert set(boards("sizes")) == {"toy (samples=10)", "toy (samples=99)"}


@pytest.mark.parametrize(("spread", "least"), [(0.0, 0.95), (1.0, 0.93), (20.0, 0.95)])
def test_the_interval_covers(spread, least, rng):
    repeats, seeds = 4000, 3
    hits = 0
    for scores in rng.normal(0, np.hypot(1.0, spread), (repeats, seeds)):
        low, high = interval(*pooled(scores.tolist(), [1.0] * seeds, 200))
        hits += low <= 0 <= high
    assert hits / repeats >= least - 4 * (least * (1 - least) / repeats) ** 0.5


def test_pooled_by_hand():
    # One seed: its own error. Seeds that agree too well: the errors over fiducials. Seeds that differ: their spread.
    assert pooled([0.5], [0.1], 50) == (0.5, pytest.approx(0.1), 49)
    assert pooled([0.5, 0.5], [0.1, 0.1], 50) == (0.5, pytest.approx(0.1 / 2**0.5), 98)
    assert pooled([0.0, 2.0], [0.1, 0.1], 50) == (1.0, pytest.approx(1.0), 1)


def test_a_job_that_was_killed_is_not_running(tmp_path):
    Job("x", status="running", host="elsewhere", pid=1).save(tmp_path / "x")
    assert [job.status for job in collect_jobs([tmp_path])] == ["running"]
