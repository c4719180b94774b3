import sys

import numpy as np
import pandas as pd
import pytest
from hydra import compose, initialize_config_module
from hydra.utils import instantiate
from mira_bench.tasks.mixture import Mixture, ShiftedMixture
from scipy import special, stats

import mira_bench as mb
from mira_bench.cli.command import main

SHIFTS = ["shift_-6", "shift_-3", "shift_0", "shift_3", "shift_6"]


@pytest.mark.parametrize("task", [Mixture(dim=3), Mixture(dim=3, means="uniform", spread=10.0, seed=2)])
@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_the_evidence_is_the_density(task, shift, rng):
    y = task.simulate(20, rng).y
    means, widths = task.moments
    parts = [stats.multivariate_normal(m + shift, np.diag(w**2)).logpdf(y) for m, w in zip(means, widths, strict=True)]
    expected = special.logsumexp(parts, axis=0) - np.log(20)
    assert np.allclose(ShiftedMixture(shift).build(task, rng).log_evidence(y), expected, rtol=1e-12)


def test_the_laws_of_the_mixture():
    size = 20 * 100
    means, widths = Mixture().moments
    assert abs(means.std() / 4.5 - 1) < 4 / np.sqrt(2 * size)
    assert np.all(widths == 1)
    means, widths = Mixture(means="uniform", spread=10.0).moments
    assert means.min() >= 0
    assert abs(means.mean() - 5) < 4 * 10 / np.sqrt(12 * size)
    assert abs(np.square(widths).mean() - 0.501) < 4 / np.sqrt(12 * size)
    with pytest.raises(mb.UsageError, match="means='cauchy'"):
        Mixture(means="cauchy")


def test_the_seed_is_that_of_the_mixture(rng):
    assert np.array_equal(Mixture(seed=3).moments[0], Mixture(seed=3).moments[0])
    assert not np.array_equal(Mixture(seed=3).moments[0], Mixture(seed=4).moments[0])
    with initialize_config_module("mira_bench.configs", version_base="1.3"):
        cfg = compose("config", ["task=mixture/uniform", "seed=7"])
        assert instantiate(cfg.task.model) == Mixture(means="uniform", spread=10.0, seed=7)


def test_draws_follow_the_mixture(rng):
    task = Mixture(dim=2, components=3, seed=1)
    means, widths = task.moments
    y = task.draw(20000, rng)
    for i in range(2):
        for point in (-3.0, 0.5, 4.0):
            share = stats.norm.cdf(point, means[:, i], widths[:, i]).mean()
            assert abs((y[:, i] < point).mean() - share) < 4 * np.sqrt(share * (1 - share) / 20000)


def test_one_set_is_shared_by_all_blocks():
    task = Mixture(dim=4)
    fiducials = task.simulate(10, np.random.default_rng(0))
    assert np.array_equal(fiducials.group, np.zeros(10))
    builds = [ShiftedMixture(3.0).build(task, np.random.default_rng(1)) for _ in range(2)]
    first, second = (p.sample(fiducials.x, 50, np.random.default_rng(b)) for b, p in enumerate(builds))
    assert np.array_equal(first, second)
    assert first.shape == (10, 50, 4)
    assert first.strides[0] == 0  # one set in memory
    other = ShiftedMixture(0.0).build(task, np.random.default_rng(2)).sample(fiducials.x, 50, np.random.default_rng(0))
    assert not np.isclose(other[0] + 3.0, first[0]).any()
    # Those of the exact posterior are its own, and differ between the control and the reference.
    exact = [task.exact_posterior().sample(fiducials.x, 50, np.random.default_rng(b))[0] for b in (0, 1)]
    assert not np.isclose(exact[0], exact[1]).any()
    assert not np.isclose(exact[0], other[0]).any()


def test_scores_fall_with_the_shift_on_both_sides():
    # Three blocks: the set must be the same in all of them for the standard error to be right.
    task = Mixture(dim=5, means="uniform", spread=10.0)
    candidates = {f"shift_{shift:g}": ShiftedMixture(shift) for shift in (-6, -3, 0, 3, 6)}
    result = mb.run(task, candidates, fiducials=600, samples=200, metrics=["mira"])
    table = result.summary.set_index("candidate")
    excess = (table.score - table.expected) / table.stderr
    assert abs(excess["shift_0"]) < 4
    assert abs(excess["oracle"]) < 4
    assert excess[["shift_-3", "shift_3"]].max() < -4
    for side in "-", "":
        far, near = f"shift_{side}6", f"shift_{side}3"
        assert table.score[far] < table.score[near] - 4 * np.hypot(table.stderr[far], table.stderr[near])


def test_the_mean_log_bayes_factor():
    # The components are far apart in 100 dimensions: a shift s of unit Gaussians costs d s^2 / 2, with a deviation
    # of s d^1/2.
    table = mb.run(
        Mixture(), {"near": ShiftedMixture(3.0), "none": ShiftedMixture(0.0)},
        fiducials=500, samples=2, metrics=["evidence"], controls=False,
    ).summary.set_index("candidate")  # fmt: skip
    assert table.stderr["near"] == pytest.approx(3 * np.sqrt(100 / 500), rel=4 / np.sqrt(2 * 500))
    assert abs(table.score["near"] + 450) < 4 * table.stderr["near"]
    assert table.score["none"] == 0


@pytest.mark.usefixtures("plain_figures")
@pytest.mark.parametrize("task", ["mixture", "mixture/uniform"])
def test_configs_run(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["mira_bench"])
    tiny = ["fiducials=12", "samples=8", "regions=4", "progress=false", "metrics=[mira,energy,evidence]"]
    assert main([f"task={task}", *tiny, "out=here"]) == 0
    assert pd.read_csv("here/summary.csv").candidate.unique().tolist() == [*SHIFTS, "oracle"]
    assert main([f"task={task}", *tiny, "out=one", "candidates=[shift_-6]", "controls=false"]) == 0
    assert pd.read_csv("one/summary.csv").candidate.unique().tolist() == ["shift_-6"]


def test_two_sample_metrics_compare_a_shared_set_once():
    metrics = {"mmd": mb.Mmd(fiducials=8), "lc2st": mb.Lc2st(trials=1)}
    result = mb.run(
        Mixture(dim=3, components=3), {"right": ShiftedMixture(0.0)}, fiducials=300, samples=100, metrics=metrics,
        controls=False,
    )  # fmt: skip
    notes = result.summary.set_index("metric").note
    assert "1 fiducial, 100 samples" in notes["mmd"]
    assert result.summary.pvalue.isna().all()
    assert "share a sample set" in notes["lc2st"]
