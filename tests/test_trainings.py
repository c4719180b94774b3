r"""Trainings as things of their own: shared, kept on the way, interrupted, and the same to the bit in the end."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from toy_trainer import SMALL, Centered, Gradients, Line, Points

import mira_bench as mb
from mira_bench.cli.command import main
from mira_bench.runner import stages
from mira_bench.runner.cost import estimate
from mira_bench.runner.setup import Settings
from mira_bench.runner.store import Store
from mira_bench.streams import generator
from mira_bench.trainer import is_kept
from mira_bench.views import Columns, with_views

HERE = Path(__file__).parent


def slopes(store):
    r"""The weights in a store: by epoch, the end as none."""
    found = {}
    for entry in Store(store).entries():
        if entry.spec["kind"] == "fit":
            found[entry.spec.get("epoch")] = Store(store).get(entry.spec)["slope"].tobytes()
    return found


def count_ends(monkeypatch):
    r"""Lists the trainings that end from now on. A changed class would be another identity."""
    seen = []
    put = Store.put

    def watch(self, spec, arrays, seconds=0.0, **facts):
        if spec["kind"] == "fit" and "epoch" not in spec:
            seen.append(spec)
        put(self, spec, arrays, seconds, **facts)

    monkeypatch.setattr(Store, "put", watch)
    return seen


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    r"""A training without interruption: its store, and its scores."""
    store = tmp_path_factory.mktemp("whole")
    return store, mb.run(Points(), {"line": Line()}, store=store, **SMALL)


def test_the_training_is_the_one_that_the_trainer_describes(whole):
    store, result = whole
    *_, last = Gradients().stages(Gradients().learns_from(Points()), generator(0, "fit", "training", 0), None)
    assert slopes(store)[None] == np.asarray(last.weights()["slope"]).tobytes()
    assert set(slopes(store)) == {None, *(epoch for epoch in range(1, 21) if is_kept(epoch))}
    row = result.trainings.set_index("candidate").loc["line"]
    assert row.epochs == 20
    assert row["final loss"] == last.curves["loss"]
    epochs, losses = result.curves["line"]["loss"]
    assert list(epochs) == [0.5 * i for i in range(1, 41)]
    assert losses[:4].mean() > 5 * losses[-4:].mean()  # the noise of the points is what is left
    assert not any(entry.spec["kind"] == "memory" for entry in Store(store).entries())


def test_candidates_and_tasks_share_a_training(whole, tmp_path, monkeypatch):
    made = count_ends(monkeypatch)
    several = {"line": Line(), "wide": Line(width=1.0), "line@3": Line(at=3)}
    result = mb.run(Points(), several, store=tmp_path, **SMALL)
    assert len(made) == 1
    assert slopes(tmp_path) == slopes(whole[0])
    # The third epoch is further from the truth than the last one, and what it samples differs.
    scores = result.summary.set_index("candidate").score
    assert scores["line"] == whole[1].summary.score[0]
    assert len(set(scores)) == 3
    assert dict(zip(result.trainings.candidate, result.trainings.epochs, strict=True))["line@3"] == 3
    # Another task with the same data, under another name; other data; another seed.
    mb.run(replace(Points(), noise=2.0), {"other": Line()}, name="noisy", store=tmp_path, **SMALL)
    assert len(made) == 1
    mb.run(Points(), {"line": Line()}, store=tmp_path, seeds=2, **SMALL)
    assert len(made) == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_a_time_limit_is_kept_and_the_training_goes_on(whole, tmp_path, monkeypatch, workers):
    monkeypatch.setenv("TOY_NAP", "0.02")
    settings = SMALL | {"store": tmp_path, "workers": workers}
    first = mb.run(Points(), {"line": Line(), "line@2": Line(at=2)}, fit_minutes=0.1 / 60, **settings)
    assert set(first.failures) == {"line", "line@2"}
    assert "of 20 epochs" in first.failures["line"]
    assert "the same command goes on" in first.failures["line"]
    monkeypatch.setenv("TOY_NAP", "0")
    second = mb.run(Points(), {"line": Line(), "line@2": Line(at=2)}, **settings)
    assert not second.failures
    assert slopes(tmp_path) == slopes(whole[0])
    pd.testing.assert_frame_equal(
        second.scores[second.scores.candidate == "line"].reset_index(drop=True), whole[1].scores, check_exact=True
    )


def test_a_kill_loses_a_minute_at_most(whole, tmp_path, monkeypatch):
    # A minute is nothing here, and a stage takes a while.
    code = (
        "import sys, toy_trainer; from mira_bench.runner import stages; stages.SAVE = 0; toy_trainer.train(sys.argv[1])"
    )
    environment = os.environ | {"TOY_NAP": "0.1", "PYTHONPATH": str(HERE)}
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=environment)
    memory = []
    until = time.monotonic() + 120
    while not memory and time.monotonic() < until:
        time.sleep(0.05)
        memory = [entry for entry in Store(tmp_path).entries() if entry.spec["kind"] == "memory"]
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert memory
    assert None not in slopes(tmp_path)
    remembered = []
    look = stages._memory
    monkeypatch.setattr(stages, "_memory", lambda *a: remembered.append(look(*a)) or remembered[-1])
    result = mb.run(Points(), {"line": Line()}, store=tmp_path, **SMALL)
    assert remembered[0] is not None
    assert slopes(tmp_path) == slopes(whole[0])
    assert result.trainings.minutes[0] > 0


def test_training_stops_where_nothing_more_is_wanted(whole, tmp_path):
    mb.run(Points(), {"line@4": Line(at=4)}, store=tmp_path, **SMALL)
    assert set(slopes(tmp_path)) == {1, 2, 3, 4}
    mb.run(Points(), {"line": Line()}, store=tmp_path, **SMALL)
    kept = slopes(tmp_path)
    assert {key: kept[key] for key in slopes(whole[0])} == slopes(whole[0])
    # A checkpoint that nobody kept is found again, at the price of its epochs.
    mb.run(Points(), {"line@7": Line(at=7)}, store=tmp_path, **SMALL)
    assert {key: slopes(tmp_path)[key] for key in slopes(whole[0])} == slopes(whole[0])
    assert 7 in slopes(tmp_path)


def test_bad_trainings_are_rows():
    candidates = {"line@50": Line(at=50), "spoiled": Line(Gradients(spoil=3)), "line": Line(Gradients(epochs=3))}
    result = mb.run(Points(), candidates, **SMALL)
    assert result.failures == {
        "line@50": "line@50: there are no weights after epoch 50; the training has 20 epochs",
        "spoiled": "FloatingPointError: the loss of spoiled is nan after 3.5 epochs",
    }
    with pytest.raises(mb.UsageError, match=r"fit\.minutes=-1"):
        mb.run(Points(), {"line": Line()}, fit_minutes=-1, **SMALL)


def test_the_cost_is_told_by_a_rehearsal():
    cost = estimate(Points(), {"line": Line(), "wide": Line(width=1.0)}, Settings(**SMALL))
    assert {name: one.training for name, one in cost.trainings.items()} == {"line": 12.5, "wide": 0.0}


def test_a_view_is_learned(tmp_path):
    task = Points()
    object.__setattr__(task, "views", {"centered": Centered()})
    metrics = with_views({"mira": mb.Mira(regions=50), "sbc": mb.Sbc()}, ["all", "centered"], task)
    settings = SMALL | {"metrics": metrics, "fiducials": 400, "store": tmp_path}
    summary = mb.run(task, {"right": Line(), "narrow": Line(width=0.2)}, **settings).summary
    mira = summary[(summary.metric == "mira") & (summary.view == "centered")].set_index("candidate")
    sigmas = (mira.score - mira.expected) / mira.stderr
    assert abs(sigmas["right"]) < 4
    assert sigmas["narrow"] < -4
    fits = [Store(tmp_path).get(entry.spec) for entry in Store(tmp_path).entries() if entry.spec["kind"] == "fit"]
    assert sum("mean" in state for state in fits) == 1
    again = mb.run(task, {"right": Line(), "narrow": Line(width=0.2)}, **settings)
    assert again.summary.equals(summary)


def test_a_pooled_range_on_a_view():
    task = Points()
    object.__setattr__(task, "views", {"centered": Centered()})
    metrics = with_views({"mira": mb.Mira(regions=30, normalize="pooled", test=False)}, ["all", "centered"], task)
    result = mb.run(task, {"right": Line(), "narrow": Line(width=0.2)}, **SMALL | {"metrics": metrics})
    # By hand: the points of the view, on the range of both candidates and the truth.
    shown = result.summary.set_index(["candidate", "view"]).score
    assert shown["right", "all"] != shown["right", "centered"]
    assert abs(shown["right", "centered"] - mb.theory(20).mean) < 0.05


def test_views_that_look_the_same_are_refused():
    task = Points()
    object.__setattr__(task, "views", {"first": Columns(np.arange(2000) % 1), "second": Columns(_other())})
    metrics = with_views({"mira": mb.Mira(regions=5, test=False)}, ["first", "second"], task)
    with pytest.raises(mb.UsageError, match="two views that differ are both called"):
        mb.run(task, {"right": Line()}, **SMALL | {"metrics": metrics})


def _other():
    # An array in words is cut in its middle.
    indices = np.zeros(2000, int)
    indices[1000] = -1
    return indices


def test_the_cost_leaves_out_views_that_are_to_be_learned():
    task, said = Points(), []
    object.__setattr__(task, "views", {"centered": Centered()})
    metrics = with_views({"mira": mb.Mira(regions=5, test=False)}, ["all", "centered"], task)
    estimate(task, {"line": Line()}, Settings(**SMALL | {"metrics": metrics}), said.append)
    assert "not timed, for its view has to be learned first: mira@centered" in said


def test_a_checkpoint_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(HERE))
    Path("conf/task").mkdir(parents=True)
    Path("conf/task/points.yaml").write_text(
        "fiducials: 40\nsamples: 10\nmodel: {_target_: toy_trainer.Points}\n"
        "candidates:\n  line: {_target_: toy_trainer.Line}\n",
        encoding="utf-8",
    )
    words = ["--config-dir", "conf", "task=points", "metrics=[mira]", "out=out", "store=store", "workers=1"]
    assert main([*words, "candidates=[line@5,line]", "controls=false"]) == 0
    table = pd.read_csv("out/trainings.csv").set_index("candidate")
    assert table.epochs.to_dict() == {"line@5": 5.0, "line": 20.0}
    assert Path("out/figures/training.png").stat().st_size > 1000
    assert main([*words, "candidates=[lime@5]"]) == 2
    assert "'lime' does not exist; there are: line" in capsys.readouterr().err
    assert main([*words, "candidates=[npe@5]"]) == 2
    assert "the training of npe keeps its end alone" in capsys.readouterr().err
    # The limit of time is in no key: what was trained without one is found.
    assert main([*words, "candidates=[line]", "fit.minutes=1e-9"]) == 0


def test_what_is_saved_in_between_is_a_minute():
    assert stages.SAVE <= 60
