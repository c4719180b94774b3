r"""Networks of sbi as candidates: what they learn is right, and the same whenever it is learned."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.gaussian import Conjugate, Toy

import mira_bench as mb
from mira_bench.inference import Neural
from mira_bench.inference.coordinates import Coordinates, support
from mira_bench.runner.store import Store

TASK = Conjugate()
FAST = {"learning_rate": 5e-3, "training_batch_size": 100, "max_num_epochs": 30}
NPE = Neural("npe", "mdn", budget=2000, network={"num_components": 2}, training=FAST)
TINY = replace(NPE, budget=60, training={"max_num_epochs": 1})


def silent(what, done, total):
    pass


@pytest.fixture(scope="module")
def npe():
    return NPE.build(TASK, np.random.default_rng(0))


@pytest.fixture(scope="module")
def fiducials():
    return TASK.simulate(300, np.random.default_rng(1))


def test_npe_scores_its_expectation_and_a_narrow_one_does_not(npe, fiducials):
    samples = npe.sample(fiducials.x, 60, np.random.default_rng(2)).values
    center = samples.mean(axis=1, keepdims=True)
    assert abs(mb.mira(fiducials.y, samples).sigmas) < 4
    assert mb.mira(fiducials.y, center + 0.5 * (samples - center)).sigmas < -4


def test_npe_density_is_that_of_the_posterior(npe, fiducials):
    # The mean log-ratio to the exact density is minus the Kullback-Leibler divergence, a few hundredths at this budget.
    ours = npe.log_prob(fiducials.y[:, None], fiducials.x)[:, 0]
    exact = TASK.exact_posterior().log_prob(fiducials.y[:, None], fiducials.x)[:, 0]
    ratio = ours - exact
    stderr = ratio.std() / np.sqrt(len(ratio))
    assert -0.1 - 4 * stderr < ratio.mean() < 4 * stderr


def test_batches_equal_loops_in_law(npe, fiducials):
    x = fiducials.x[:6]
    batch = npe.sample(x, 2000, np.random.default_rng(3)).values
    loop = np.concatenate([npe.sample(one[None], 2000, np.random.default_rng(4 + i)).values for i, one in enumerate(x)])
    stderr = np.hypot(batch.std(axis=1), loop.std(axis=1)) / np.sqrt(2000)
    assert (np.abs(batch.mean(axis=1) - loop.mean(axis=1)) < 4 * stderr).all()
    assert np.abs(np.log(batch.std(axis=1) / loop.std(axis=1))).max() < 4 / np.sqrt(2000)


# The mean of 100 samples has an error of a tenth of the posterior's width, autocorrelated ones up to a fifth; the rest
# is the network. The prior's mean is 2 widths away.
@pytest.mark.parametrize(
    "candidate",
    [
        Neural("nle", "mdn", budget=1500, network={"num_components": 1}, training=FAST),
        Neural("nre", "mlp", budget=1500, training=FAST),
        Neural("fmpe", budget=1500, network={"hidden_features": 40, "num_layers": 2}, training=FAST),
        Neural("npse", budget=1500, network={"hidden_features": 40, "num_layers": 2}, training=FAST),
    ],
    ids=lambda c: c.method,
)
def test_other_methods_find_the_posterior(candidate, fiducials):
    posterior = candidate.build(TASK, np.random.default_rng(0))
    x = fiducials.x[:40]
    draws = posterior.sample(x, 100, np.random.default_rng(1))
    error = (draws.values.mean(axis=1) - x / (1 + TASK.noise**2)) / TASK.width
    assert np.sqrt(np.mean(error**2)) < 0.5
    assert 0.7 < draws.values.std(axis=1).mean() / TASK.width < 1.4
    if candidate.method in ("nle", "nre"):
        assert np.median(draws.diagnostics["rhat"]) < 1.2


def test_an_ensemble_is_the_mixture_of_its_networks():
    two = replace(TINY, ensemble=2)
    state = two.fit(TASK, np.random.default_rng(0), silent)
    x = np.array([[1.0, -1.0], [0.0, 2.0]])
    points = np.random.default_rng(1).normal(size=(2, 5, 2))
    alone = []
    for i in range(2):
        own = {k.replace(f"network {i} ", "network 0 "): v for k, v in state.items() if f"network {1 - i} " not in k}
        alone.append(TINY.load(TASK, own))
    mixed = two.load(TASK, state)
    logs = np.logaddexp(*(one.log_prob(points, x) for one in alone)) - np.log(2)
    assert np.allclose(mixed.log_prob(points, x), logs)
    drawn = mixed.sample(x, 4000, np.random.default_rng(2)).values
    means = np.mean([one.sample(x, 4000, np.random.default_rng(3)).values.mean(axis=1) for one in alone], axis=0)
    assert (np.abs(drawn.mean(axis=1) - means) < 4 * drawn.std(axis=1) * np.sqrt(1.5 / 4000)).all()


@pytest.mark.parametrize("coordinates", ["unbounded", "plain"])
def test_a_bounded_prior_does_not_leak(coordinates):
    task = Toy()
    posterior = replace(TINY, budget=200, coordinates=coordinates).build(task, np.random.default_rng(0))
    x = task.simulate(3, np.random.default_rng(1)).x
    assert np.abs(posterior.sample(x, 500, np.random.default_rng(2)).values).max() <= 5
    # The density is normalized in the box: the integral over a grid of cell middles.
    side = np.linspace(-5, 5, 401)
    side = (side[1:] + side[:-1]) / 2
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(1, -1, 2)
    mass = np.exp(posterior.log_prob(grid, x[:1])).sum() * (10 / 400) ** 2
    # In plain coordinates, 1000 samples tell what is outside: up to half of a density that was hardly trained.
    assert mass == pytest.approx(1, abs=0.02 if coordinates == "unbounded" else 4 / np.sqrt(1000))
    assert posterior.log_prob(grid[:, :1] * 1.01, x[:1]) == -np.inf


def test_rejection_keeps_the_law_inside_and_gives_up_in_the_end():
    task = Toy()
    plain = replace(TINY, budget=200, coordinates="plain")
    posterior = plain.build(task, np.random.default_rng(0))
    x = task.simulate(3, np.random.default_rng(1)).x
    kept = posterior.sample(x, 2000, np.random.default_rng(2)).values
    free = replace(posterior, support=(np.full(2, -np.inf), np.full(2, np.inf)))
    drawn = free.sample(x, 8000, np.random.default_rng(3)).values
    inside = (np.abs(drawn) <= 5).all(axis=2)
    assert inside.mean() < 0.95  # there is something to reject
    for ours, all_of_them, good in zip(kept, drawn, inside, strict=True):
        expected = all_of_them[good]
        stderr = np.hypot(ours.std(axis=0) / np.sqrt(2000), expected.std(axis=0) / np.sqrt(len(expected)))
        assert (np.abs(ours.mean(axis=0) - expected.mean(axis=0)) < 4 * stderr).all()
    nowhere = replace(posterior, support=(np.full(2, 98.0), np.full(2, 99.0)))
    with pytest.raises(mb.errors.RunError, match=r"only 0.00% of a posterior's samples .* coordinates=unbounded"):
        nowhere.sample(x, 10, np.random.default_rng(4))


def test_coordinates_of_every_kind(rng):
    low, high = np.array([0.0, -np.inf, 1.0, -np.inf]), np.array([2.0, np.inf, np.inf, 3.0])
    y = np.stack(
        [rng.uniform(0, 2, 500), rng.normal(size=500), 1 + rng.lognormal(size=500), 3 - rng.lognormal(size=500)], 1
    )
    coordinates = Coordinates.of(y, low, high)
    u = coordinates.forward(y)
    assert np.allclose(u.mean(axis=0), 0)
    assert np.allclose(u.std(axis=0), 1)
    assert np.allclose(coordinates.inverse(u), y)
    step = 1e-5
    slopes = [
        (coordinates.inverse(u + step * e) - coordinates.inverse(u - step * e)) @ e / (2 * step) for e in np.eye(4)
    ]
    assert np.allclose(coordinates.log_slope(u), np.log(slopes).sum(axis=0), atol=1e-4)


def test_bounds_are_the_support_only_if_the_prior_keeps_to_them(rng):
    @dataclass
    class Scaled:
        bounds = ([-1.0, -1.0], [1.0, 1.0])

    y = np.stack([rng.normal(size=100), rng.uniform(-1, 1, size=100)], axis=1)
    assert np.array_equal(support(Scaled(), y), [[-np.inf, -1], [np.inf, 1]])
    Scaled.support = Scaled.bounds
    with pytest.raises(mb.UsageError, match="parameter 0 outside"):
        support(Scaled(), y)


def test_a_resumed_run_and_other_workers_give_the_same_bits(tmp_path, monkeypatch):
    both = {
        "npe": replace(TINY, estimator="zuko_maf", network={}),
        "nre": replace(TINY, method="nre", estimator="mlp", network={}),
    }
    settings = {"fiducials": 120, "samples": 10, "metrics": {"mira": mb.Mira(regions=5)}, "controls": False}
    first = mb.run(TASK, both, store=tmp_path, **settings)
    assert not first.failures
    pd.testing.assert_frame_equal(mb.run(TASK, both, workers=2, **settings).scores, first.scores, check_exact=True)
    for entry in Store(tmp_path).entries():
        if entry.spec["kind"] != "fit":
            entry.path.unlink()
    monkeypatch.setattr(Neural, "fit", lambda *_: pytest.fail("trained again"))
    pd.testing.assert_frame_equal(mb.run(TASK, both, store=tmp_path, **settings).scores, first.scores, check_exact=True)


def test_a_state_is_plain_and_training_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = []
    state = replace(TINY, budget=600).fit(TASK, np.random.default_rng(0), lambda *words: said.append(words))
    assert all(value.dtype.kind in "fiub" for value in state.values())
    assert said[:2] == [("simulations", 500, 600), ("simulations", 600, 600)]
    assert said[-1][0] == "epochs"
    assert len(state["curve 0 validation_loss"]) >= 1
    assert list(tmp_path.iterdir()) == []  # no logs where the user stands


@dataclass(frozen=True)
class Images:
    r"""Spots of light: the parameters are their places."""

    version = 1
    bounds = ([2.0, 2.0], [9.0, 9.0])

    def simulate(self, count, rng):
        y = rng.uniform(2, 9, size=(count, 2))
        pixels = np.arange(12)
        rows, columns = (np.exp(-0.5 * (pixels - y[:, i, None]) ** 2) for i in range(2))
        return mb.Fiducials(y, 5 * rows[:, :, None] * columns[:, None] + rng.normal(size=(count, 12, 12)))


def test_images_are_embedded():
    candidate = replace(NPE, budget=1500, training=FAST | {"max_num_epochs": 10, "learning_rate": 2e-3})
    posterior = candidate.build(Images(), np.random.default_rng(0))
    drawn = Images().simulate(50, np.random.default_rng(1))
    means = posterior.sample(drawn.x, 50, np.random.default_rng(2)).values.mean(axis=1)
    # The mean of the prior is off by 2 pixels; the light is spread over one.
    assert np.sqrt(np.mean((means - drawn.y) ** 2)) < 1


def test_what_does_not_apply_says_why():
    assert "prior_log_prob" in Neural("nle").skip(Toy())
    assert Neural("npe").skip(Toy()) is None
    assert "too many" in Neural("nle").skip(Large())
    assert "no observations" in Neural("npe").skip(Blind())
    result = mb.run(Toy(), {"nle": Neural("nle")}, fiducials=5, samples=5, metrics=["mira"])
    assert "skipped: nle needs the prior's density" in result.failures["nle"]


class Large(Conjugate):
    def simulate(self, count, rng):
        return mb.Fiducials(np.zeros((count, 2)), np.zeros((count, 20, 20)))


class Blind(Conjugate):
    def simulate(self, count, rng):
        return mb.Fiducials(np.zeros((count, 2)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "vibes"}, "method='vibes'"),
        ({"estimator": "vibes"}, "estimator='vibes'"),
        ({"embedding": "vibes"}, "embedding='vibes'"),
        ({"coordinates": "vibes"}, "coordinates='vibes'"),
        ({"method": "nle", "coordinates": "plain"}, "nle is sampled by MCMC"),
        ({"budget": 1}, "budget=1"),
        ({"ensemble": 0}, "ensemble=0"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(mb.UsageError, match=words):
        Neural(**settings)


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (replace(TINY, training={"vibes": 1}), "training: .*vibes"),
        (replace(TINY, embedding="cnn"), "no image"),
        (replace(TINY, sampling={"vibes": 1}), "sampling: .*vibes"),
    ],
)
def test_bad_arguments_of_sbi(candidate, words):
    with pytest.raises(mb.UsageError, match=words):
        candidate.build(TASK, np.random.default_rng(0)).sample(np.zeros((1, 2)), 1, np.random.default_rng(0))
