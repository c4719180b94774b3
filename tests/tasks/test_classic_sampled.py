r"""The classic tasks whose posterior is sampled: against brute force and identities."""

import math

import numpy as np
import pytest
from mira_bench.tasks import classic
from mira_bench.tasks.classic import lotka_volterra, sir
from mira_bench.tasks.classic.glm import _design, _prior_root
from scipy import integrate

WIDE = np.array([[0.8, -1.4, 2.0, -1.8, 0.9]])  # an SLCP truth whose posterior the prior's draws can find


def effective(draws, l=0):
    r"""The number of independent samples that the chains are worth, at most the number that is kept."""
    return min(draws.diagnostics["ess_bulk"][l], draws.values.shape[1])


@pytest.mark.parametrize(
    ("solve", "start", "times", "rate", "task", "tolerance"),
    [
        (
            lambda y: np.log(classic.Sir().infected(y)),
            [1 - 1e-6, -math.log(1e6)],
            sir.TIMES,
            lambda t, u, y: [-y[0] * u[0] * math.exp(u[1]), y[0] * u[0] - y[1]],
            classic.Sir(),
            1e-6,
        ),
        (
            lambda y: classic.LotkaVolterra().log_counts(y),
            np.log(lotka_volterra.START),
            lotka_volterra.TIMES,
            lambda t, u, y: [y[0] - y[1] * math.exp(u[1]), -y[2] + y[3] * math.exp(u[0])],
            classic.LotkaVolterra(),
            2e-4,
        ),
    ],
    ids=["sir", "lotka_volterra"],
)
def test_the_solver_equals_that_of_scipy(solve, start, times, rate, task, tolerance, rng):
    y = task.prior_sample(10, rng)
    mine = solve(y)
    for l in range(len(y)):
        found = integrate.solve_ivp(
            rate, (0, times[-1] * (1 + 1e-12)), start, "DOP853", t_eval=times, args=(y[l],), rtol=1e-10, atol=1e-12
        )
        states = found.y[1] if len(mine[l]) == 10 else np.clip(found.y.ravel(), *np.log([1e-10, 1e4]))
        assert np.abs(mine[l] - states).max() < tolerance


def test_slcp_equals_importance_sampling_from_the_prior(rng):
    task = classic.Slcp()
    x = task.simulator(WIDE, rng)
    draws = task.exact_posterior().sample(x, 1000, rng)
    y = task.prior_sample(400_000, rng)
    logs = task.log_likelihood(y, x)
    weights = np.exp(logs - logs.max())
    evidence = weights.mean()
    error = weights.std() / evidence / math.sqrt(len(y))
    assert abs(draws.log_evidence[0] - logs.max() - math.log(evidence)) < 4 * math.hypot(error, 0.02)
    weights /= weights.sum()
    for function in (lambda v: v[..., 0], lambda v: v[..., 1], lambda v: np.abs(v[..., 2]), lambda v: v[..., 4]):
        theirs, mine = function(y), function(draws.values[0])
        mean = weights @ theirs
        error = math.sqrt((weights**2) @ (theirs - mean) ** 2 + mine.var() / effective(draws))
        assert abs(mine.mean() - mean) < 4 * error


def test_the_signs_of_slcp_are_even(rng):
    task = classic.Slcp()
    samples = task.exact_posterior().sample(task.simulate(5, rng).x, 400, rng).values
    signs = np.sign(samples[..., 2:4])
    for part in (signs[..., 0], signs[..., 1], signs[..., 0] * signs[..., 1]):
        # Chains repeat some of their states, so the samples are worth a little less than their number.
        assert abs(part.mean()) < 4 / math.sqrt(0.5 * part.size)


def test_distractors_change_no_posterior():
    task, plain = classic.SlcpDistractors(), classic.Slcp()
    y = plain.prior_sample(40, np.random.default_rng(0))
    x = task.simulator(y, np.random.default_rng(1))
    data = plain.simulator(y, np.random.default_rng(1))
    assert np.array_equal(task.informative(x), data)
    one = task.exact_posterior().sample(x[:1], 20, np.random.default_rng(2)).values
    assert np.array_equal(one, plain.exact_posterior().sample(data[:1], 20, np.random.default_rng(2)).values)
    # The rest has the heavy tails of two degrees of freedom, around 20 places.
    rest = np.sort(np.abs(np.delete(x, [np.flatnonzero(x[0] == v)[0] for v in data[0]], axis=1)).max(axis=1))
    assert rest[-1] > 2 * rest[20]


def test_the_glm_is_the_published_one(rng):
    precision = np.linalg.inv(_prior_root() @ _prior_root().T)
    assert precision[0, 0] == pytest.approx(0.5)
    assert np.allclose(precision[0, 1:], 0)
    # The first row of F has a one, the second a minus two and 1 + 1/3, the third a one at the lag before.
    assert precision[1, 1] == pytest.approx(1 + 4 + 1)
    assert precision[1, 2] == pytest.approx(-2 * (1 + 1 / 3) - 2)
    design = _design()
    assert np.allclose(design[8:, 9], design[:-8, 1])
    # The observation is the correlation of spikes and stimulus at every lag, and the number of spikes.
    x = classic.BernoulliGlm().simulator(np.zeros((2000, 10)), rng)
    assert abs(x[:, 0].mean() - 50) < 4 * 5 / math.sqrt(2000)
    assert np.allclose(x[:, 0] % 1, 0)
    spread = np.sqrt((design**2).sum(axis=0) / 4)
    assert (np.abs(x.mean(axis=0) - design.sum(axis=0) / 2) < 4 * spread / math.sqrt(2000)).all()


@pytest.mark.parametrize("task", [classic.BernoulliGlm(), classic.LotkaVolterra()], ids=lambda t: type(t).__name__)
def test_the_score_has_mean_zero(task, rng):
    # Under any density p, the mean of the gradient of log p is zero, and that of y times it is minus one.
    x = task.simulate(2, rng).x
    draws = task.exact_posterior().sample(x, 500, rng)
    positive = isinstance(task, classic.LotkaVolterra)
    for l in range(len(x)):
        z = np.log(draws.values[l]) if positive else draws.values[l]

        def log_density(z, l=l):
            y = np.exp(z) if positive else z
            return task.log_likelihood(y, x[l]) + task.prior_log_prob(y) + (z.sum(axis=1) if positive else 0.0)

        for i in range(z.shape[1]):
            step = np.zeros(z.shape[1])
            step[i] = 0.01 * z[:, i].std()
            score = (log_density(z + step) - log_density(z - step)) / (2 * step[i])
            for identity in (score, (z[:, i] - z[:, i].mean()) * score + 1):
                error = identity.std() / math.sqrt(0.7 * effective(draws, l))
                assert abs(identity.mean()) < 4 * error


def test_sir_equals_a_grid(rng):
    task = classic.Sir()
    # An epidemic that is seen well, and one that has not begun.
    x = task.simulator(np.array([[0.5, 0.15], [0.15, 0.13]]), rng)
    draws = task.exact_posterior().sample(x, 1000, rng)
    for l in range(2):
        found = (np.log(draws.values[l]) - task.location) / task.scale
        extent = np.ptp(found, axis=0)
        ends = zip(found.min(axis=0) - 0.5 * extent, found.max(axis=0) + 0.5 * extent, strict=True)
        axes = [low + (high - low) * (np.arange(120) + 0.5) / 120 for low, high in ends]
        z = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        logs = task.log_likelihood(task.from_normal(z), x[l]) - 0.5 * (z**2).sum(axis=1) - math.log(2 * math.pi)
        cell = np.prod([a[1] - a[0] for a in axes])
        evidence = np.log(np.exp(logs - logs.max()).sum() * cell) + logs.max()
        assert draws.log_evidence[l] == pytest.approx(evidence, abs=0.05)
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        for function in (lambda v: v[:, 0], lambda v: v[:, 1], lambda v: v[:, 0] * v[:, 1]):
            mean = weights @ function(z)
            error = function(found).std() / math.sqrt(0.7 * effective(draws, l))
            assert abs(function(found).mean() - mean) < 4 * error + 1e-3


def test_a_reference_does_not_depend_on_its_neighbors():
    task = classic.Sir()
    x = task.simulate(3, np.random.default_rng(0)).x
    both = task.exact_posterior().sample(x[:2], 10, np.random.default_rng(1))
    alone = task.exact_posterior().sample(x[:1], 10, np.random.default_rng(1))
    assert np.array_equal(both.values[:1], alone.values)
    assert both.values.shape == (2, 10, 2)
    assert both.diagnostics["rhat"].max() < 1.05
