import sys

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.linear_regression import LinearRegression, NoisyPosterior, ShiftedPosterior
from mira_bench.tasks.linear_regression.regression import LinePosterior
from scipy import stats

import mira_bench as mb
from mira_bench.cli.command import main

ETAS = (0.001, 0.01, 0.1, 0.15, 0.2, 0.25)
PRINTED = (0.999, 0.990, 0.906, 0.863, 0.821, 0.782)  # the paper's Bayes factors
MODELS = [
    LinePosterior((0.5, 2.0), 1.0),
    LinePosterior((0.5, 2.0), 0.001),
    LinePosterior((1.0, 1.0), 0.3, mean=0.5),
]


def full(model, z):
    r"""Mean and covariance of the data, and the gain of the posterior, without any shortcut."""
    design = np.stack([z, np.ones_like(z)], axis=1)
    prior = np.diag(np.square(model.widths))
    covariance = design @ prior @ design.T + model.noise**2 * np.eye(len(z))
    gain = np.linalg.solve(covariance, design @ prior).T
    return design @ [model.mean, model.mean], covariance, gain, prior - gain @ design @ prior


@pytest.fixture
def x(rng):
    return LinearRegression(points=12).simulate(4, rng).x


@pytest.mark.parametrize("model", MODELS)
def test_the_evidence_is_that_of_the_full_covariance(model, x):
    ours = model.log_evidence(x)
    for value, (z, data) in zip(ours, x, strict=True):
        mean, covariance, *_ = full(model, z)
        # Up to the rounding of the full solve: the condition number times the squares that cancel in it.
        assert value == pytest.approx(stats.multivariate_normal(mean, covariance).logpdf(data), rel=1e-7)


@pytest.mark.parametrize("model", MODELS[::2])
def test_the_posterior_is_that_of_the_full_covariance(model, x, rng):
    y = rng.normal(size=(len(x), 5, 2))
    ours = model.log_prob(y, x)
    for values, points, (z, data) in zip(ours, y, x, strict=True):
        mean, _, gain, covariance = full(model, z)
        location = model.mean + gain @ (data - mean)
        assert np.allclose(values, stats.multivariate_normal(location, covariance).logpdf(points), rtol=1e-8)


def test_the_posterior_is_prior_times_likelihood_on_a_grid(x):
    task = LinearRegression(points=12)
    axes = np.linspace(-3, 3, 601), np.linspace(-8, 8, 1601)
    m, b = np.meshgrid(*axes, indexing="ij")
    z, data = x[0]
    joint = stats.norm.logpdf(m, 0, task.slope) + stats.norm.logpdf(b, 0, task.intercept)
    for position, value in zip(z, data, strict=True):
        joint += stats.norm.logpdf(value, m * position + b, task.noise)
    cell = (axes[0][1] - axes[0][0]) * (axes[1][1] - axes[1][0])
    evidence = np.log(np.exp(joint).sum() * cell)
    exact = task.exact_posterior()
    assert exact.log_evidence(x[:1])[0] == pytest.approx(evidence, abs=1e-6)
    density = exact.log_prob(np.stack([m.ravel(), b.ravel()], axis=-1)[None], x[:1])[0]
    near = joint.ravel() > joint.max() - 20
    assert np.allclose(density[near], joint.ravel()[near] - evidence, atol=1e-6)


@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_samples_follow_the_density(shift, x, rng):
    posterior = ShiftedPosterior(shift).build(LinearRegression(points=12), rng)
    z, data = x[0]
    _, _, gain, covariance = full(LinePosterior((1.0, 1.0), 1.0), z)
    drawn = posterior.sample(x[:1], 20000, rng)[0] - gain @ data - np.sqrt(shift)
    white = drawn @ np.linalg.cholesky(np.linalg.inv(covariance))
    assert np.all(np.abs(white.mean(axis=0)) < 4 / np.sqrt(20000))
    assert np.all(np.abs(np.cov(white.T) - np.eye(2)) < 4 * np.sqrt([[2, 1], [1, 2]]) / np.sqrt(20000))
    # And the density moves with the samples.
    centered = ShiftedPosterior(0.0).build(LinearRegression(points=12), rng)
    y = rng.normal(size=(len(x), 3, 2))
    assert np.allclose(posterior.log_prob(y + np.sqrt(shift), x), centered.log_prob(y, x))


def test_the_simulator(rng):
    task = LinearRegression(points=50, noise=0.3)
    fiducials = task.simulate(4000, rng)
    z, data = np.asarray(fiducials.x)[:, 0], np.asarray(fiducials.x)[:, 1]
    spread = fiducials.y.std(axis=0) / [task.slope, task.intercept]
    assert np.all(np.abs(spread - 1) < 4 / np.sqrt(2 * 4000))
    residual = data - fiducials.y[:, :1] * z - fiducials.y[:, 1:]
    assert abs(residual.std() / task.noise - 1) < 4 / np.sqrt(2 * residual.size)
    assert np.abs(z).max() <= 1
    assert abs(z.var() - 1 / 3) < 4 * np.sqrt(4 / 45 / z.size)
    assert len(np.unique(z[:, 0])) == 4000  # drawn anew for each fiducial


def test_bayes_factors_are_the_printed_ones(rng):
    # log BF = d 1'A'C^-1 t - d^2/2 1'A'C^-1 A 1 with d^2 = eta and t of mean zero, so the mean is -eta/2 times the
    # mean of 1'(I + (A'A)^-1)^-1 1.
    task = LinearRegression()
    x = task.simulate(10000, rng).x
    z = rng.uniform(-1, 1, size=(10000, task.points))
    design = np.stack([z, np.ones_like(z)], axis=-1)
    inverse = np.linalg.inv(np.swapaxes(design, 1, 2) @ design)
    slope = np.linalg.inv(np.eye(2) + inverse).sum(axis=(1, 2)).mean() / 2
    assert slope == pytest.approx(0.98, abs=0.005)
    reference = ShiftedPosterior(0.0).build(task, rng).log_evidence(x)
    for eta, printed in zip(ETAS, PRINTED, strict=True):
        ratio = ShiftedPosterior(eta).build(task, rng).log_evidence(x) - reference
        assert abs(ratio.mean() + slope * eta) < 4 * ratio.std() / np.sqrt(len(ratio))
        error = printed * ratio.std() / np.sqrt(5000)  # of the paper's 5000 fiducials
        assert abs(np.exp(-slope * eta) - printed) < 4 * error + 0.0005


def test_the_run_gives_the_bayes_factors_by_a_difference(rng):
    candidates = {f"eta_{eta:g}": ShiftedPosterior(eta) for eta in (0.0, 0.25)}
    result = mb.run(LinearRegression(), candidates, fiducials=300, samples=2, metrics=["evidence"], controls=False)
    table = result.scores.pivot_table(index="fiducial", columns="candidate", values="value")
    ratio = table["eta_0.25"] - table["eta_0"]
    assert abs(ratio.mean() + 0.98 * 0.25) < 4 * ratio.std() / np.sqrt(300)
    # The exact posterior has another prior, and so another evidence.
    assert table["eta_0"].mean() < -4 * table["eta_0"].std() / np.sqrt(300)


def test_a_shift_lowers_the_score():
    candidates = {f"eta_{eta:g}": ShiftedPosterior(eta) for eta in (0.01, 0.25)}
    table = mb.run(LinearRegression(), candidates, fiducials=400, samples=200, metrics=["mira"]).summary
    table = table.set_index("candidate")
    excess = (table.score - table.expected) / table.stderr
    assert abs(excess["oracle"]) < 4
    assert abs(excess["prior"]) < 4
    assert excess["eta_0.01"] < -4
    assert table.score["eta_0.25"] < table.score["eta_0.01"] - 4 * table.stderr["eta_0.01"]


def test_a_noise_taken_for_more_raises_the_score():
    candidates = {f"sigma_{noise:g}": NoisyPosterior(noise) for noise in (0.001, 0.01, 0.25)}
    task = LinearRegression(noise=0.001)
    table = mb.run(task, candidates, fiducials=400, samples=200, metrics=["mira", "evidence"]).summary
    mira, evidence = (table[table.metric == metric].set_index("candidate") for metric in ("mira", "evidence"))
    excess = (mira.score - mira.expected) / mira.stderr
    assert abs(excess["sigma_0.001"]) < 4
    assert excess["sigma_0.01"] > 4
    assert excess["sigma_0.25"] > 4
    # Ten times the noise: the determinant of 98 residuals, and their squares, which shrink by a hundred.
    assert abs(evidence.score["sigma_0.01"] - 98 * (0.495 - np.log(10))) < 4 * evidence.stderr["sigma_0.01"]
    assert evidence.score["sigma_0.001"] == 0


def test_bad_settings():
    with pytest.raises(mb.UsageError, match="eta=-1"):
        ShiftedPosterior(-1)
    with pytest.raises(mb.UsageError, match="noise=0"):
        NoisyPosterior(0)


@pytest.mark.usefixtures("plain_figures")
@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("linear_regression", ["eta_0", *(f"eta_{eta}" for eta in ETAS)]),
        ("linear_regression/noise", [f"sigma_{noise}" for noise in ETAS]),
    ],
)
def test_configs_run(task, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["mira_bench"])
    tiny = ["fiducials=12", "samples=8", "regions=4", "progress=false", "metrics=[mira,hpd,evidence]"]
    assert main([f"task={task}", *tiny, "out=here"]) == 0
    assert pd.read_csv("here/summary.csv").candidate.unique().tolist() == [*names, "oracle", "prior"]
    assert main([f"task={task}", *tiny, "out=one", f"candidates=[{names[1]}]", "controls=false"]) == 0
    assert pd.read_csv("one/summary.csv").score.notna().all()
