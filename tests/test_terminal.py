r"""What a person sees on a terminal: widths, words for what is shown, and how a run ends that was stopped."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mira_bench as mb
import mira_bench.runner.progress as progress_module
from mira_bench.cli import main
from mira_bench.cli.command import VERBS
from mira_bench.cli.listing import configs
from mira_bench.ranking.tiers import Standing
from mira_bench.report.tables import console, display, explanation
from mira_bench.runner.progress import Progress
from mira_bench.sweeps.boards import _range

pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def printed(capsys, *words):
    with contextlib.suppress(SystemExit):  # argparse ends so after its help
        main(list(words))
    return capsys.readouterr().out.rstrip("\n").split("\n")


@pytest.mark.usefixtures("narrow")
def test_help_fits_a_terminal(capsys):
    assert len(printed(capsys, "--help")) <= 24
    for verb in ("run", *VERBS):
        lines = printed(capsys, verb, "--help")
        assert max(map(len, lines)) <= 80, verb
        assert len(lines) <= 40


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("kind", ["task", "metric", "experiment"])
def test_a_line_for_each_thing_that_exists(capsys, kind):
    title, *lines = printed(capsys, "list", f"{kind}s")
    assert title == f"{kind.capitalize()}s"
    assert [line.split()[0] for line in lines] == configs(kind)
    assert all(len(line.split()) > 3 and len(line) <= 80 for line in lines)


def test_candidates_of_a_task_that_extends_another(capsys):
    text = " ".join(" ".join(printed(capsys, "list", "candidates")).split())
    for task in ("mnist", "mnist/paper"):
        assert re.search(rf" {task}: real, label_ignored, wrong_label, cvae, ", text)
    assert re.search(r" galaxy/trained: spiral_2, .*spiral_2_trained", text)


@pytest.mark.usefixtures("narrow")
def test_ids_of_the_paper_are_not_broken(capsys):
    lines = printed(capsys, "paper")
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for name in ("center_distribution_support", "illustration", "num_ground_truths"):
        assert re.search(rf"^ *{name} ", text, re.M)


@pytest.mark.usefixtures("quick_plan", "plain_figures")
def test_configs_of_ones_own_for_every_verb(capsys):
    for group, text in {
        "task/mean": "# My own mean.\nmodel: {}\ncandidates: {one: {}}\n",
        "metric/lean": "# My own lean.\n_target_: mira_bench.metrics.Mira\nregions: ${regions}\n",
    }.items():
        file = Path("conf", f"{group}.yaml")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for words in (("--config-dir", "conf", "list", "tasks"), ("list", "tasks", "--config-dir=conf")):
        assert any(re.match(r"  mean +My own mean\.", line) for line in printed(capsys, *words))
    assert "    mean: one" in printed(capsys, "list", "candidates", "--config-dir", "conf")
    for verb in (["store"], ["plan", "--shift", "3"]):
        assert main(["--config-dir", "conf", *verb]) == 0
        assert f"--config-dir conf has no effect on {verb[0]}" in capsys.readouterr().err
    for verb in ("collect", "export", "report", "referee"):
        assert main(["--config-dir", "conf", verb, "nowhere", *(["npe"] if verb == "export" else [])]) == 2
        assert f"--config-dir conf has no effect on {verb}" in capsys.readouterr().err
    rng = np.random.default_rng(0)
    np.save("y.npy", rng.normal(size=(30, 2)))
    np.save("s.npy", rng.normal(size=(30, 20, 2)))
    words = ["score", "y.npy", "a=s.npy", "--metrics", "lean,sbc", "--regions", "7", "--out", "here"]
    assert main([*words, "--config-dir", "conf"]) == 0
    assert pd.read_csv("here/summary.csv").metric.tolist() == ["mira", "sbc"]
    assert main(words) == 2
    assert main(["list", "--config-dir", "nowhere"]) == 2


@pytest.fixture
def result(rng):
    x = rng.normal(size=(60, 2))
    truths = x + 0.3 * rng.normal(size=(60, 2))
    wide = x[:, None] + 0.6 * rng.normal(size=(60, 50, 2))
    return mb.score(truths, {"wide": wide}, metrics=["mira", "calibration", "energy"])


def test_only_what_is_there_is_shown_and_explained(result):
    shown = display(result.ranking, result.columns)
    assert {"TARP", "SBC p", "C2ST", "MMD", "R-hat", "Δ"}.isdisjoint(shown.columns)
    assert {"MIRA", "σ", "tier", "energy", "skill"} <= set(shown.columns)
    full, some = explanation(result, shown.columns), explanation(result, ["", "candidate", "MIRA", "verdict"])
    assert "σ:" in full
    assert "Tiers: B miscalibrated. " in full
    assert "σ:" not in some
    assert "Tiers" not in some
    untested = mb.Result("t", [Standing("-")], [])
    assert display(untested.ranking).columns.tolist() == ["", "candidate", "verdict", "evidence"]
    titles = [str(column.header) for column in console(result, 80).columns]
    assert titles == ["", "candidate", "MIRA", "tier", "verdict"]


@pytest.mark.usefixtures("plain_figures")
def test_the_width_is_that_of_columns_also_in_a_pipe(capsys, monkeypatch, rng):
    np.save("y.npy", rng.normal(size=(30, 2)))
    np.save("s.npy", rng.normal(size=(30, 20, 2)))
    for width in (80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        table = [line for line in printed(capsys, "score", "y.npy", "a=s.npy", "--out", "o") if "─" in line]
        assert {width - 10 < len(line) <= width for line in table} == {True}


def test_a_failed_candidate_has_no_tier():
    failed = Standing("gone", failure="no file")
    assert failed.tier == "-"
    row = mb.rank([failed]).iloc[0]
    assert (row.tier, row.verdict, row.evidence) == ("-", "failed", "no file")


def test_the_time_left_is_not_told_while_a_network_trains(monkeypatch, capsys):
    clock = iter(range(0, 1_000_000, 100))
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(clock))
    with Progress(True) as bars:
        bars.add_trainings(["npe"])
        bars.add("exact", 10)
        bars.advance("exact", 9, 9.0)
        bars.trained("npe")
        bars.advance("exact", 0, 1.0)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "exact: 9 of 10"
    assert second == "exact: 9 of 10; about 0:01 left for all"


@pytest.fixture
def quick_plan(monkeypatch):
    asked = []
    table = pd.DataFrame({"test": ["mira"], "fiducials": [100], "narrow": [90], "wide": [110]})
    monkeypatch.setattr("mira_bench.cli.plan.plan", lambda **settings: asked.append(settings) or table)
    return asked


def test_plan_of_a_shift_alone(capsys, quick_plan):
    text = "\n".join(printed(capsys, "plan", "--shift", "0.5"))
    assert "shifted by 0.5" in text
    assert "width" not in text
    assert "if narrow" not in text
    assert "width wrong by 0.1" in "\n".join(printed(capsys, "plan"))
    both = "\n".join(printed(capsys, "plan", "--shift", "0.5", "--width", "0.2"))
    assert "width wrong by 0.2 and shifted by 0.5" in both
    assert [(one["width"], one["shift"]) for one in quick_plan] == [(0.0, 0.5), (0.1, 0.0), (0.2, 0.5)]


def test_dry_knows_the_start_of_workers():
    from mira_bench.tasks.gaussian import Conjugate, ConjugateCandidate

    from mira_bench.runner.cost import estimate
    from mira_bench.runner.setup import Settings

    sizes = {"fiducials": 20, "samples": 10, "metrics": ["mira"], "controls": False}
    here, there = (
        estimate(Conjugate(), {"a": ConjugateCandidate()}, Settings(workers=workers, **sizes)) for workers in (1, 2)
    )
    assert here.starting == 0
    assert there.starting > 0  # little where workers of an earlier call are still there
    assert there.total == pytest.approx(
        there.starting + there.simulating + sum(there.seconds.values()) / there.parallel
    )


def test_rough_intervals_do_not_decide_the_axis():
    rows = {"role": "candidate", "mira_expected": np.nan}
    board = pd.DataFrame(
        [
            rows | {"energy": 1.0, "energy_low": 0.9, "energy_high": 1.1, "seeds": "5/5"},
            rows | {"energy": 1.5, "energy_low": -20.0, "energy_high": 23.0, "seeds": "2/5"},
        ]
    )
    low, high = _range(board, "energy")
    assert low > 0
    assert high < 2.5
    sure = board.assign(seeds="5/5")
    assert _range(sure, "energy")[0] < -20


SLOW = """
import time, numpy as np, mira_bench as mb
from dataclasses import dataclass

@dataclass(frozen=True)
class Slow:
    version = 1
    def simulate(self, count, rng):
        print("begun", flush=True)
        time.sleep(60)
"""


def test_an_interrupt_is_no_failure():
    Path("slow.py").write_text(SLOW)
    Path("conf/task").mkdir(parents=True)
    Path("conf/task/slow.yaml").write_text(
        "fiducials: 10\nsamples: 10\nmodel: {_target_: slow.Slow}\n"
        "candidates: {a: {_target_: mira_bench.tasks.gaussian.ConjugateCandidate}}\n"
    )
    root = str(Path(mb.__file__).parents[1])
    words = [sys.executable, "-m", "mira_bench", "--config-dir", "conf", "task=slow", "out=here", "store=null"]
    environment = os.environ | {"PYTHONPATH": root}
    run = subprocess.Popen(
        words,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "begun\n"
    time.sleep(0.2)
    run.send_signal(signal.SIGINT)
    _, error = run.communicate(timeout=60)
    assert run.returncode == 130, error
    assert "interrupted; the same command goes on" in error
    assert "Traceback" not in error


def test_a_run_whose_reader_has_seen_enough_goes_on(rng):
    np.save("y.npy", rng.normal(size=(30, 2)))
    np.save("s.npy", rng.normal(size=(30, 20, 2)))
    there, here = os.pipe()
    os.close(there)  # as `head` does
    words = [sys.executable, "-m", "mira_bench", "score", "y.npy", "a=s.npy", "--metrics", "mira", "--out", "o"]
    environment = os.environ | {"PYTHONPATH": str(Path(mb.__file__).parents[1])}
    done = subprocess.run(words, stdout=here, stderr=subprocess.PIPE, text=True, env=environment)
    os.close(here)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "done in" in Path("o/log.txt").read_text()


def test_a_task_says_that_no_candidate_is_exact():
    from mira_bench.tasks.galaxy import Galaxy

    assert Galaxy().remarks == []
    (sentence,) = Galaxy(truths="images").remarks
    assert "no candidate is exact" in sentence
    told = mb.score(np.arange(4.0)[:, None], {"a": np.random.default_rng(0).normal(size=(4, 5, 1))})
    object.__setattr__(told, "remarks", [sentence])
    assert sentence in told.notices
