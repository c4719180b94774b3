r"""The defects are what they say: laws of truths and samples, and what is right of them besides."""

import numpy as np
import pytest
from hydra.utils import instantiate
from mira_bench.configs import __path__ as configs
from mira_bench.tasks.defects import Defect, Modes, ModesDefect, Sound
from omegaconf import OmegaConf

import mira_bench as mb

COUNT = 40000
ERROR = 4 / np.sqrt(COUNT)  # of a mean in standard deviations
TEN = Sound(dim=10)


def residuals(task, candidate, rng):
    r"""Samples minus the posterior mean, in posterior standard deviations, and data: one sample an observation."""
    x = rng.normal(size=(COUNT, task.dim))
    y = candidate.build(task, rng).sample(x, 1, rng)[:, 0]
    return (y - task.gain * x) / task.width, x


@pytest.mark.parametrize("name", ["defects", "defects/ten", "defects/modes", "defects/missing_mode"])
def test_all_candidates(name, rng):
    config = OmegaConf.load(f"{configs[0]}/task/{name}.yaml")
    task = instantiate(config.model)
    candidates = {key: instantiate(value) for key, value in config.candidates.items()}
    assert candidates["exact"] in (Defect(), ModesDefect())
    assert len(set(candidates.values())) == len(candidates)
    fiducials = task.simulate(3, rng)
    for candidate in candidates.values():
        assert getattr(candidate, "skip", lambda task: None)(task) is None
        assert candidate.build(task, rng).sample(fiducials.x, 5, rng).shape == (3, 5, task.dim)


@pytest.mark.parametrize("task", [TEN, Sound(correlation=0.85), Modes(), Modes(weight=0.05, axes=1, width=1.0)])
def test_the_exact_posterior_is_calibrated_and_the_prior_has_no_skill(task):
    candidate = Defect() if isinstance(task, Sound) else ModesDefect()
    result = mb.run(task, {"exact": candidate}, fiducials=200, samples=50, metrics=["calibration", "energy"])
    table = result.ranking.set_index("candidate")
    assert "no miscalibration found" in table.verdict["exact"]
    pvalues = result.summary.query("metric == 'calibration'").set_index("candidate").pvalue
    assert pvalues["exact"] > 1e-3
    assert pvalues["oracle"] > 1e-3
    assert pvalues["prior"] < 1e-3


def test_correlations(rng):
    for candidate, pair, other in (
        (Defect(), 0.5, 0.0),
        (Defect(correlation=0.0), 0.0, 0.0),
        (Defect(correlation=-0.5), -0.5, 0.0),
        (Defect(correlation=0.5, pair=1), 0.5, 0.5),
    ):
        z, _ = residuals(TEN, candidate, rng)
        covariance = np.eye(10)
        covariance[[0, 1], [1, 0]] = pair
        covariance[[2, 3], [3, 2]] = other
        assert np.allclose(np.cov(z.T), covariance, atol=1.5 * ERROR)
    assert "needs 4 parameters" in Defect(correlation=0.5, pair=1).skip(Sound())


@pytest.mark.parametrize("parameters", [1, None])
def test_widths_and_shifts(parameters, rng):
    z, _ = residuals(TEN, Defect(width=0.8, shift=0.25, parameters=parameters), rng)
    spoiled = np.arange(10) < (parameters or 10)
    assert np.allclose(z.mean(axis=0), np.where(spoiled, 0.25, 0.0), atol=ERROR)
    assert np.allclose(z.std(axis=0), np.where(spoiled, 0.8, 1.0), atol=ERROR)


def test_errors_that_go_with_the_data(rng):
    z, x = residuals(TEN, Defect(width_by_datum=0.3), rng)
    assert np.allclose(z[x[:, 0] > 0].std(axis=0), 1.3, atol=1.5 * ERROR)
    assert np.allclose(z[x[:, 0] < 0].std(axis=0), 0.7, atol=1.5 * ERROR)
    z, x = residuals(TEN, Defect(shift_by_datum=0.5), rng)
    assert np.allclose((z * np.sign(x[:, 1:2])).mean(axis=0), 0.5 * (np.arange(10) == 0), atol=1.2 * ERROR)


def test_heavy_tails_have_the_right_covariance(rng):
    z, _ = residuals(TEN, Defect(degrees=6.0), rng)
    assert np.allclose(z.var(axis=0), 1, atol=4 * np.sqrt(5 / COUNT))  # the kurtosis of six degrees is 6
    assert (np.abs(z) > 4).mean() > 10 * 6.3e-5
    with pytest.raises(mb.UsageError, match="no variance"):
        Defect(degrees=2)


@pytest.mark.parametrize("trust", [0.0, 0.8])
def test_distrust_makes_up_in_width(trust, rng):
    r"""The errors of the means have the spread of the samples."""
    task, candidate = TEN, Defect(trust=trust)
    z, x = residuals(task, candidate, rng)
    slope = (z * x).mean(axis=0) * task.width / task.gain + 1
    assert np.allclose(slope, trust, atol=2 * ERROR)
    fiducials = task.simulate(COUNT, rng)
    mean = trust * task.gain * fiducials.x
    drawn = candidate.build(task, rng).sample(fiducials.x, 1, rng)[:, 0]
    assert np.allclose(np.cov((fiducials.y - mean).T), np.cov((drawn - mean).T), atol=4 * ERROR)
    if trust == 0:
        prior = task.prior_sample(COUNT, rng)
        assert np.allclose(np.cov(prior.T), np.cov(drawn.T), atol=4 * ERROR)


def test_modes(rng):
    task = Modes()
    x = rng.normal(size=(COUNT, 2))

    def offsets(**defect):
        return ModesDefect(**defect).build(task, rng).sample(x, 1, rng)[:, 0] - x

    exact, four, one = offsets(), offsets(shape="four"), offsets(shape="one")
    far = exact > 1
    assert far.mean(axis=0) == pytest.approx(0.5, abs=ERROR)
    assert (far[:, 0] == far[:, 1]).mean() > 0.995
    jumps = four > 1
    assert (jumps[:, 0] == jumps[:, 1]).mean() == pytest.approx(0.5, abs=ERROR)
    assert np.allclose(one.mean(axis=0), exact.mean(axis=0), atol=2 * ERROR)
    assert np.allclose(np.cov(one.T), np.cov(exact.T), atol=2 * ERROR)
    assert (offsets(weight=0.7) > 1).mean() == pytest.approx(0.7, abs=ERROR)
    chosen = offsets(weight=0.7, by_datum=True)[:, 0] > 1
    assert chosen[x[:, 0] > 0].mean() == pytest.approx(0.7, abs=1.5 * ERROR)
    assert chosen[x[:, 0] < 0].mean() == pytest.approx(0.3, abs=1.5 * ERROR)
    assert not (offsets(weight=0.0) > 2).any()
    with pytest.raises(mb.UsageError, match="shape='three'"):
        ModesDefect(shape="three")
