import numpy as np
import pytest
from toy_targets import Gaussian, Sources, agrees

from mira_bench import UsageError
from mira_bench.inference import mala
from mira_bench.inference.mala import _evaluated
from mira_bench.inference.target import UnitCube


def test_a_gaussian_against_the_walls(rng):
    target = Gaussian()
    points, weights = target.grid()
    moments = np.stack([points[:, 0], points[:, 1], points[:, 0] ** 2, points[:, 1] ** 2, points.prod(axis=1)])
    runs = [mala(target, rng, walkers=40, warmup=150, draws=150) for _ in range(20)]
    samples = np.stack([r.samples.reshape(-1, 2) for r in runs])
    estimates = np.concatenate([samples, samples**2, samples.prod(axis=2, keepdims=True)], axis=2).mean(axis=1)
    assert agrees(estimates, moments @ weights).all()
    assert 0.4 < np.mean([r.acceptance for r in runs]) < 0.75


def test_the_drift_follows_the_density_in_logit_coordinates(rng):
    cube, shift = UnitCube(Gaussian()), 1e-6
    x = 3 * rng.standard_normal((10, 2))
    for i in range(2):
        e = shift * np.eye(2)[i]
        slope = (_evaluated(cube, x + e).log_density - _evaluated(cube, x - e).log_density) / (2 * shift)
        assert np.allclose(_evaluated(cube, x).gradient[:, i], slope, rtol=1e-5, atol=1e-5)


def test_what_the_result_says(rng):
    target, _ = Sources.observed(rng)
    result = mala(target, rng, walkers=10, warmup=20, draws=30)
    assert result.samples.shape == (10, 30, 7)
    assert ((result.samples >= target.low) & (result.samples <= target.high)).all()
    assert np.allclose(result.log_likelihood.ravel(), target.log_likelihood(result.samples.reshape(-1, 7)), rtol=1e-10)
    assert result.evaluations.gradient == 10 * 51
    assert result.evaluations.likelihood == 0


def test_same_seed_same_bits():
    first, second, other = (mala(Gaussian(), np.random.default_rng(seed), draws=20) for seed in (3, 3, 4))
    assert first.samples.tobytes() == second.samples.tobytes()
    assert first.samples.tobytes() != other.samples.tobytes()


def test_bad_input_is_told_in_a_sentence(rng):
    class Nowhere(Gaussian):
        def log_likelihood_gradient(self, theta):
            return np.full(len(theta), np.nan), theta

    with pytest.raises(UsageError, match="walkers=1: at least two"):
        mala(Gaussian(), rng, walkers=1)
    with pytest.raises(UsageError, match="draws=0"):
        mala(Gaussian(), rng, draws=0)
    with pytest.raises(UsageError, match="step=0: a positive length"):
        mala(Gaussian(), rng, step=0)
    with pytest.raises(UsageError, match="Nowhere: log_likelihood is not finite at any of 100 points"):
        mala(Nowhere(), rng)
