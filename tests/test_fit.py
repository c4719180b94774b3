r"""Candidates that learn: fitted once, kept, resumed, repeated over seeds."""

import os
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.gaussian import Conjugate, ConjugateCandidate
from rich.console import Console

import mira_bench as mb
import mira_bench.runner.training as module
from mira_bench.ranking.tiers import Standing
from mira_bench.ranking.trainings import components, method_table
from mira_bench.report.methods import console_methods, display_methods, explain_methods
from mira_bench.runner.cost import estimate
from mira_bench.runner.progress import Progress
from mira_bench.runner.setup import Settings
from mira_bench.runner.store import Store

SMALL = {"fiducials": 250, "samples": 20, "controls": False}
SMALL |= {"metrics": {"mira": mb.Mira(regions=10), "energy": mb.Energy(), "calibration": mb.Calibration()}}


@dataclass(frozen=True)
class Learner:
    r"""Learns a linear Gaussian posterior, which is the right family, from a few simulations."""

    budget: int = 40
    width: float = 1.0  # of the samples, in the learned standard deviation
    how: str = "well"
    version = 1

    @property
    def trainer(self):
        return Learner(self.budget, how=self.how)

    def build(self, task, rng):
        raise AssertionError("a run fits and loads")

    def fit(self, task, rng, report):
        if self.how == "badly":
            raise ValueError("the loss is nan")
        if self.how == "not at all":
            os._exit(3)
        drawn = task.simulate(self.budget, rng)
        report("simulations", self.budget, self.budget)
        slope = (drawn.x * drawn.y).sum() / (drawn.x**2).sum()
        return {"slope": np.array(slope), "sd": np.std(drawn.y - slope * drawn.x)}

    def load(self, task, state):
        return Line(float(state["slope"]), self.width * float(state["sd"]))


@dataclass(frozen=True)
class Line:
    slope: float
    sd: float

    def sample(self, x, count, rng):
        return self.slope * x[:, None] + self.sd * rng.standard_normal((len(x), count, x.shape[1]))


def same(a, b):
    pd.testing.assert_frame_equal(a.scores, b.scores, check_exact=True)
    pd.testing.assert_frame_equal(a.ranking, b.ranking, check_exact=True)


@pytest.fixture(scope="module")
def reference():
    return mb.run(Conjugate(), {"line": Learner()}, seeds=2, **SMALL)


def test_networks_and_their_method(reference):
    assert set(reference.ranking.candidate) == {"line/0", "line/1"}
    table = reference.methods.set_index("method")
    assert table.networks["line"] == 2
    energies = reference.summary[reference.summary.metric == "energy"].score
    assert table.energy["line"] == pytest.approx(energies.mean())
    assert len(set(energies)) == 2  # each on simulations of its own


def test_workers_change_nothing(reference):
    same(mb.run(Conjugate(), {"line": Learner()}, seeds=2, workers=2, **SMALL), reference)


def test_workers_tell_how_far_they_are(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(module, "LOOK", 0.01)
    monkeypatch.setattr(Progress, "tell", lambda self, *what: told.append(what))
    monkeypatch.setattr(Progress, "trained", lambda self, name, failed=False: time.sleep(0.1))  # for a last look
    mb.run(Conjugate(), {"line": Learner()}, seeds=2, workers=2, **SMALL)
    assert set(told) == {("line/0", "simulations", 40, 40), ("line/1", "simulations", 40, 40)}


def count_fits(monkeypatch):
    r"""Lists the trainings that reach the store from now on. A changed class would be another identity."""
    seen = []
    put = Store.put

    def watch(self, spec, arrays, seconds=0.0, **facts):
        if spec["kind"] == "fit":
            seen.append(spec["training"])
        put(self, spec, arrays, seconds, **facts)

    monkeypatch.setattr(Store, "put", watch)
    return seen


def test_a_killed_run_keeps_its_fits(reference, tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "mira_bench")
    mb.run(Conjugate(), {"line": Learner()}, seeds=2, store=tmp_path, **SMALL)
    kinds = [e.spec["kind"] for e in Store(tmp_path).entries()]
    assert kinds.count("fit") == 2
    for entry in Store(tmp_path).entries():
        if entry.spec["kind"] != "fit":
            entry.path.unlink()
    assert "line/0: trained in" in caplog.text
    assert "from the store" not in caplog.text
    trained = count_fits(monkeypatch)
    same(mb.run(Conjugate(), {"line": Learner()}, seeds=2, store=tmp_path, **SMALL), reference)
    assert "line/1: training from the store" in caplog.text
    # Another way to sample needs no other training, but gives other scores.
    wide = mb.run(Conjugate(), {"line": Learner(width=2.0)}, seeds=2, store=tmp_path, **SMALL)
    assert (wide.ranking.mira > reference.ranking.mira.max()).all()
    assert trained == []


def test_one_seed_is_the_first_of_several(tmp_path, monkeypatch):
    mb.run(Conjugate(), {"line": Learner()}, store=tmp_path, **SMALL)
    trained = count_fits(monkeypatch)
    mb.run(Conjugate(), {"line": Learner()}, seeds=3, store=tmp_path, **SMALL)
    assert trained == [1, 2]


@pytest.mark.parametrize(("how", "workers"), [("badly", 1), ("badly", 2), ("not at all", 2)])
def test_a_failed_fit_is_a_row(reference, how, workers):
    both = {"line": Learner(), "bad": Learner(how=how)}
    result = mb.run(Conjugate(), both, seeds=2, workers=workers, **SMALL)
    words = "ValueError: the loss is nan" if how == "badly" else "its worker process died in training"
    assert {name: words in reason for name, reason in result.failures.items()} == {"bad/0": True, "bad/1": True}
    good = result.scores[result.scores.candidate.str.startswith("line")].reset_index(drop=True)
    pd.testing.assert_frame_equal(good, reference.scores, check_exact=True)
    assert result.methods.set_index("method").failed["bad"] == 2


def test_bad_seeds():
    with pytest.raises(mb.UsageError, match="seeds=0"):
        mb.run(Conjugate(), {"line": Learner()}, seeds=0, **SMALL)
    with pytest.raises(mb.UsageError, match="name of a network"):
        mb.run(Conjugate(), {"line": Learner(), "line/1": ConjugateCandidate()}, seeds=2, **SMALL)


def test_a_posterior_is_made_once(monkeypatch):
    calls = []
    build = ConjugateCandidate.build
    monkeypatch.setattr(ConjugateCandidate, "build", lambda *a: calls.append(1) or build(*a))
    mb.run(Conjugate(), {"exact": ConjugateCandidate()}, **SMALL)
    assert len(calls) == 1


def test_the_cost_includes_training():
    said = []
    cost = estimate(Conjugate(), {"line": Learner()}, Settings(seeds=2, **SMALL), said.append)
    assert "timing the training of line: all of it" in said
    assert any(line.startswith("timing line: samples and scores of") for line in said)
    assert list(cost.trainings) == ["line/0", "line/1"]
    assert cost.total > sum(one.training for one in cost.trainings.values())


def test_components_tell_trainings_from_fiducials(rng):
    # Fiducials vary by 2, networks by 0.3, the rest by 1: spread^2 is known to sqrt(2 / 99) (1 + .01 / .09).
    values = 0.3 * rng.normal(size=(100, 1)) + 2 * rng.normal(size=100) + rng.normal(size=(100, 100))
    found = components(values)
    assert abs(found.spread**2 / 0.09 - 1) < 4 * np.sqrt(2 / 99) * 1.11
    # The standard error over fiducials: sqrt((4 + 1/100) / 100), known to 1 / sqrt(198).
    assert abs(found.stderr / np.sqrt(4.01 / 100) - 1) < 4 / np.sqrt(198)
    assert np.isnan(components(values[:1]).spread)


def test_methods_that_are_the_same_are_rarely_separated(rng):
    # Three networks each, with a spread larger than the error over fiducials: a test over fiducials alone would
    # separate most of them.
    pvalues = []
    for _ in range(400):
        a, b = (0.3 * rng.normal(size=(3, 1)) + 0.5 * rng.normal(size=(3, 200)) for _ in range(2))
        pvalues.append(components(a - b).pvalue)
    share = np.mean(np.array(pvalues) < 0.05)
    assert share < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 400)


def test_methods_are_ordered_and_separated():
    both = {"small": Learner(budget=4), "large": Learner(budget=4000), "exact": ConjugateCandidate()}
    result = mb.run(Conjugate(), both, seeds=3, **SMALL)
    table = result.methods
    assert table.method.iloc[-1] == "small"
    rows = table.set_index("method")
    assert (rows.networks["exact"], rows.networks["large"]) == (0, 3)
    assert rows.energy_spread["small"] > rows.energy_spread["large"]
    assert {rows.tied["large"], rows.tied["exact"]} == {"best", "tied"}
    assert method_table([], rank_by="tiers").empty
    assert result.methods.columns[0] == "method"


def test_the_table_of_methods_on_a_terminal(capsys):
    def standings(energies, method):
        rows = []
        for i, per_fiducial in enumerate(energies):
            result = mb.metrics.energy.EnergyResult(per_fiducial, "none", per_fiducial, np.full(len(per_fiducial), 2.0))
            scores = {"energy": mb.Scores(score=result.score, per_fiducial=per_fiducial, result=result)}
            rows.append(Standing(f"{method}/{i}", scores=scores, method=method))
        return rows

    fiducials = np.linspace(-0.1, 0.1, 50)
    # Networks that differ by whole units, and networks whose differences average to nothing.
    apart = standings([k + fiducials for k in (2.0, 1.0, 3.0)], "apart")
    alike = standings([0.5 + fiducials, 0.5 - fiducials], "alike")
    table = method_table([*apart, *alike])
    rows = table.set_index("method")
    assert (rows.best["apart"], rows.worst["apart"]) == ("apart/1", "apart/2")
    assert rows.best_score["apart"] == pytest.approx(1.0)
    assert rows.energy_spread["alike"] == 0
    shown = display_methods(table).set_index("method")
    assert shown["energy spread"].to_dict() == {"alike": "not resolved", "apart": "1.0000"}
    assert shown["worst network"]["apart"] == "apart/2: 3.0000"
    assert shown.verdicts["apart"] == "-"
    for width in (80, 120, 180):
        Console(width=width).print(console_methods(table, width))
        lines = explain_methods(table, "tiers", width).splitlines()
        assert max(map(len, lines)) <= width
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= width
        titles = [line.split("  ")[1] for line in lines if line[2] != " "]
        assert titles[:3] == ["method", "MIRA", "spread"]
        assert all(title in text for title in titles)
