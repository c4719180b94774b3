r"""The classic tasks whose posterior has a formula, and what all nine have in common."""

import math

import numpy as np
import pytest
from mira_bench.tasks import classic
from scipy import stats

import mira_bench as mb

EXACT = [
    classic.TwoMoons(),
    classic.GaussianLinear(),
    classic.GaussianLinearUniform(),
    classic.GaussianMixture(),
]
TASKS = {
    classic.TwoMoons(): (2, 2),
    classic.GaussianLinear(): (10, 10),
    classic.GaussianLinearUniform(): (10, 10),
    classic.GaussianMixture(): (2, 2),
    classic.Slcp(): (5, 8),
    classic.SlcpDistractors(): (5, 100),
    classic.BernoulliGlm(): (10, 10),
    classic.Sir(): (2, 10),
    classic.LotkaVolterra(): (4, 20),
}


def name(task):
    return type(task).__name__


@pytest.mark.parametrize("task", TASKS, ids=name)
def test_the_shapes_are_the_published_ones(task, rng):
    fiducials = task.simulate(7, rng)
    assert (fiducials.y.shape, fiducials.x.shape) == ((7, TASKS[task][0]), (7, TASKS[task][1]))
    assert len(task.names) == TASKS[task][0]
    assert task.simulator(fiducials.y[:3], rng).shape == (3, TASKS[task][1])
    assert np.isfinite(task.log_likelihood(fiducials.y, fiducials.x)).all()
    assert np.isfinite(task.prior_log_prob(fiducials.y)).all()
    if hasattr(task, "bounds"):
        low, high = map(np.array, task.bounds)
        assert ((low <= fiducials.y) & (fiducials.y <= high)).all()
        assert task.prior_log_prob(high[None] + 1e-9)[0] == -np.inf


@pytest.mark.parametrize("task", TASKS, ids=name)
def test_the_prior_density_is_that_of_the_draws(task, rng):
    # The mean log-density of the prior's own draws is minus its entropy.
    y = task.prior_sample(4000, rng)
    if hasattr(task, "bounds"):
        assert np.allclose(task.prior_log_prob(y), -np.log(np.subtract(*task.bounds[::-1])).sum())
        return
    logs = task.prior_log_prob(y)
    flat = np.log(y) if hasattr(task, "location") else y
    jacobian = flat.sum(axis=1) if hasattr(task, "location") else 0.0
    normal = stats.multivariate_normal(flat.mean(axis=0), np.cov(flat, rowvar=False))
    excess = logs + jacobian - normal.logpdf(flat)
    # A Gaussian with fitted moments has more likelihood than the true one, by half the number of moments over n.
    dim = y.shape[1]
    assert abs(excess.mean() + (dim + dim * (dim + 1) / 2) / 2 / len(y)) < 4 * excess.std() / math.sqrt(len(y)) + 2e-3


@pytest.mark.parametrize("task", EXACT, ids=name)
def test_the_exact_posterior_is_calibrated(task, rng):
    fiducials = task.simulate(400, rng)
    samples = task.exact_posterior().sample(fiducials.x, 99, rng)
    result = mb.mira(fiducials.y, samples)
    assert abs(result.score - result.expected) < 4 * result.stderr
    assert mb.sbc(fiducials.y, samples).pvalues.min() > 1e-4 / samples.shape[2]


@pytest.mark.parametrize("task", [classic.TwoMoons(), classic.GaussianMixture()], ids=name)
def test_evidence_and_density_equal_a_grid(task, rng):
    x = task.simulate(4, rng).x
    x[0] = [0.2, 0.1] if name(task) == "TwoMoons" else [9.95, -3.0]  # where the fold, or the edge, cuts the posterior
    exact = task.exact_posterior()
    for one in x:
        # Only where there is any density: an even grid over the prior would have to be too fine.
        draws = exact.sample(one[None], 5000, rng)[0]
        pad = 0.02 if name(task) == "TwoMoons" else 0.5
        halves = [draws[draws.sum(axis=1) > 0], draws[draws.sum(axis=1) <= 0]] if name(task) == "TwoMoons" else [draws]
        total = 0.0
        for part in halves:
            axes = []
            for i in range(2):
                low = max(part[:, i].min() - pad, task.bounds[0][i])
                high = min(part[:, i].max() + pad, task.bounds[1][i])
                axes.append(low + (high - low) * (np.arange(800) + 0.5) / 800)
            points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
            sums = points.sum(axis=1) > 0
            mine = sums == (part.sum(axis=1)[0] > 0) if len(halves) == 2 else np.ones(len(points), bool)
            cell = np.prod([a[1] - a[0] for a in axes])
            joint = task.log_likelihood(points, one) + task.prior_log_prob(points)
            total += np.exp(joint[mine]).sum() * cell
            density = exact.log_prob(points[None, ::997], one[None])[0]
            expected = joint[::997] - exact.log_evidence(one[None])
            assert np.allclose(np.exp(density), np.exp(expected), rtol=1e-9, atol=1e-12)
        assert math.log(total) == pytest.approx(exact.log_evidence(one[None])[0], abs=0.01)


def test_the_evidence_of_linear_models(rng):
    for task in (classic.GaussianLinear(dim=1), classic.GaussianLinearUniform(dim=1)):
        x = np.array([[-1.4], [0.1], [0.9]])
        y = np.linspace(-3, 3, 60001)[:, None]
        joint = np.exp(task.log_likelihood(y, x[:, None]) + task.prior_log_prob(y))
        assert np.allclose(np.trapezoid(joint, y[:, 0]), np.exp(task.exact_posterior().log_evidence(x)), rtol=1e-3)
        density = np.exp(task.exact_posterior().log_prob(np.tile(y, (3, 1, 1)), x))
        assert np.allclose(np.trapezoid(density, y[:, 0]), 1, rtol=1e-3)


def test_both_moons_weigh_the_same(rng):
    x = classic.TwoMoons().simulate(50, rng).x
    samples = classic.TwoMoons().exact_posterior().sample(x, 400, rng)
    share = (samples.sum(axis=2) > 0).mean()
    assert abs(share - 0.5) < 4 * 0.5 / math.sqrt(samples.shape[0] * samples.shape[1])
    assert (np.abs(samples) <= 1).all()
    assert np.isfinite(classic.TwoMoons().log_likelihood(samples, x[:, None])).all()


def test_spoiled_posteriors(rng):
    task = classic.GaussianLinear()
    x = task.simulate(50, rng).x
    samples = classic.Spoiled(width=0.5, shift=0.3).build(task, rng).sample(x, 500, rng)
    sd = math.sqrt(0.05)
    assert samples.std() / sd == pytest.approx(
        math.sqrt(0.25 + (x[:, None] / 2).var() / 0.05), rel=4 / math.sqrt(2 * 500)
    )
    assert (samples - x[:, None] / 2).mean() == pytest.approx(0.3 * sd, abs=4 * sd / math.sqrt(samples.size) + 0.002)
