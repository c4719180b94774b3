import numpy as np
import pytest
from scipy import special
from toy_targets import Blind, Circle, Gaussian, Mixture, Pressed, Sources, agrees

from mira_bench import UsageError
from mira_bench.inference import diagnose, smc
from mira_bench.statistics import uniform_pvalue

SMALL = {"particles": 100, "chains": 20, "warmup": 5, "draws": 40, "leapfrogs": 5}


def features(samples, edges):
    r"""First and second moments and the mass below some edges $(levels, d)$, of samples $(n, d)$: $(n, features)$."""
    products = (samples[:, :, None] * samples[:, None]).reshape(len(samples), -1)
    below = (samples[:, None] < edges).reshape(len(samples), -1)
    return np.concatenate([samples, products, below], axis=1)


@pytest.mark.parametrize("target", [Gaussian(), Blind()], ids=["fisher", "covariance"])
def test_a_gaussian_against_the_walls(rng, target):
    points, weights = target.grid()
    edges = np.array([[-0.8, 0.3], [0.0, 0.9], [0.9, 2.4]])  # between cells of the grid
    exact = weights @ features(points, edges)
    runs = [smc(target, rng, **SMALL) for _ in range(20)]
    estimates = [features(r.samples.reshape(-1, 2), edges).mean(axis=0) for r in runs]
    assert agrees(estimates, exact).all()
    assert agrees(np.exp([r.log_evidence - target.log_evidence for r in runs]), 1.0)


def test_a_circle(rng):
    target = Circle()
    runs = [smc(target, rng, **SMALL) for _ in range(20)]
    angles = np.stack([2 * (r.samples[..., 0] - target.mode).ravel() for r in runs])
    resultant = special.i1(target.concentration) / special.i0(target.concentration)
    assert agrees(np.cos(angles).mean(axis=1), resultant)
    assert agrees(np.sin(angles).mean(axis=1), 0.0)
    heights = [r.samples[..., 1].mean() for r in runs]
    assert agrees(heights, 1 / target.rate - 1 / np.expm1(target.rate))
    assert agrees(np.exp([r.log_evidence - target.log_evidence for r in runs]), 1.0)


def test_two_modes_have_their_weights(rng):
    target = Mixture()
    runs = [smc(target, rng, particles=200, chains=100, warmup=0, draws=2, leapfrogs=5) for _ in range(30)]
    assert agrees([(r.samples[..., 0] > 0.95).mean() for r in runs], target.weights[1])
    assert agrees(np.exp([r.log_evidence - target.log_evidence for r in runs]), 1.0)


def symmetric_features(theta):
    r"""Functions of three sources that do not depend on their labels."""
    x, intensity = theta[..., 1::2], theta[..., 2::2]
    parts = [theta[..., 0], x.min(axis=-1), x.max(axis=-1), np.median(x, axis=-1), intensity.sum(axis=-1)]
    parts += [(x * intensity).sum(axis=-1), intensity.max(axis=-1)]
    return np.stack(parts, axis=-1)


def test_exchangeable_sources(rng):
    # Against importance sampling from the prior, whose standard errors are those of a ratio of means.
    target, _ = Sources.observed(rng)
    theta = rng.uniform(target.low, target.high, (200_000, 7))
    log_likelihood = target.log_likelihood(theta)
    scale = log_likelihood.max()
    weights = np.exp(log_likelihood - scale)
    assert weights.sum() ** 2 / (weights**2).sum() > 1500
    values = symmetric_features(theta)
    exact = weights @ values / weights.sum()
    error = np.sqrt((weights**2) @ (values - exact) ** 2) / weights.sum()

    runs = [smc(target, rng, **SMALL) for _ in range(20)]
    assert agrees([symmetric_features(r.samples).mean(axis=(0, 1)) for r in runs], exact, error).all()
    ratios = np.exp([r.log_evidence - scale for r in runs])
    assert agrees(ratios, weights.mean(), weights.std() / np.sqrt(len(weights)))
    # Every label sees the same posterior.
    labels = np.stack([r.samples[..., target.groups].mean(axis=(0, 1)) for r in runs])
    assert agrees(labels[:, 1:] - labels[:, :1], 0.0).all()


def test_simulation_based_calibration(rng):
    fiducials, chains = 120, 19
    ranks = np.empty((fiducials, 4), int)
    for l in range(fiducials):
        target, truth = Sources.observed(rng, count=1)
        result = smc(target, rng, particles=60, chains=chains, warmup=5, draws=5, leapfrogs=5)
        last = np.column_stack([result.samples[:, -1], result.log_likelihood[:, -1]])
        ranks[l] = (last < np.append(truth, target.log_likelihood(truth[None]))).sum(axis=0)
    assert min(uniform_pvalue(column, chains, rng)[1] for column in ranks.T) > 1e-4


def test_what_the_result_says(rng):
    target, _ = Sources.observed(rng)
    result = smc(target, rng, particles=50, chains=10, warmup=3, draws=7, leapfrogs=4, relocations=2)
    assert result.samples.shape == (10, 7, 7)
    assert ((result.samples >= target.low) & (result.samples <= target.high)).all()
    again = target.log_likelihood(result.samples.reshape(-1, 7)).reshape(10, 7)
    assert np.allclose(result.log_likelihood, again, rtol=1e-10)
    stages = len(result.temperatures)
    assert result.temperatures[-1] == 1
    assert (np.diff(result.temperatures) > 0).all()
    assert result.stage_acceptance.shape == (stages, 2)
    sweeps = 50 * stages + 10 * 10
    assert result.evaluations.gradient == 5 * sweeps + 50 * stages
    assert result.evaluations.linear_terms == sweeps
    assert result.evaluations.fisher == 50 * stages
    assert result.stage_acceptance[-1, 1] > 0.01
    assert result.evaluations.likelihood == 50 + 2 * sweeps


def test_a_posterior_that_is_pressed_against_a_wall(rng):
    target = Pressed()
    runs = [smc(target, rng, particles=100, chains=20, warmup=20, draws=100, extend=2) for _ in range(20)]
    assert agrees([r.samples.mean(axis=(0, 1)) for r in runs], target.exact_mean).all()
    assert max(diagnose(r.samples, target).rhat.max() for r in runs) <= 1.05
    # The Fisher information alone takes the first coordinate for a hundred times wider than it is: its step falls to
    # a few hundredths, and the other coordinates stand still.
    assert min(r.step for r in runs) > 0.25


def test_chains_are_extended_until_they_agree(rng):
    target, short = Gaussian(), {"particles": 50, "chains": 10, "warmup": 2, "draws": 20, "leapfrogs": 1}
    agreed = False
    for _ in range(5):
        result = smc(target, rng, **short, extend=3)
        length = result.samples.shape[1]
        assert length in (20, 40, 80, 160)
        assert length == 160 or diagnose(result.samples, target).rhat.max() <= 1.05
        # They were not extended without need.
        assert length == 20 or diagnose(result.samples[:, : length // 2], target).rhat.max() > 1.05
        agreed |= length > 20
    assert agreed
    assert smc(target, rng, **short).samples.shape[1] == 20


def test_same_seed_same_bits():
    target, _ = Sources.observed(np.random.default_rng(1))
    first, second, other = (smc(target, np.random.default_rng(seed), **SMALL) for seed in (3, 3, 4))
    assert first.samples.tobytes() == second.samples.tobytes()
    assert first.log_evidence == second.log_evidence
    assert first.samples.tobytes() != other.samples.tobytes()


def test_a_region_without_likelihood(rng):
    class Half(Gaussian):
        def log_likelihood_gradient(self, theta):
            value, gradient = super().log_likelihood_gradient(theta)
            return np.where(theta[:, 0] > 0.4, value, np.nan), gradient

    target = Half()
    points, _ = target.grid()
    density = np.nan_to_num(np.exp(target.log_likelihood(points)))
    runs = [smc(target, rng, **SMALL) for _ in range(20)]
    assert min(r.samples[..., 0].min() for r in runs) > 0.4
    assert agrees([r.samples.mean(axis=(0, 1)) for r in runs], density @ points / density.sum()).all()
    assert agrees(np.exp([r.log_evidence for r in runs]), density.mean())


def test_a_likelihood_of_any_scale(rng):
    class Spike(Gaussian):
        covariance = 1e-12 * Gaussian.covariance

    target = Spike()
    result = smc(target, rng)
    assert abs(result.log_evidence - target.log_evidence) < 3
    assert diagnose(result.samples, target).rhat.max() < 1.1


@pytest.mark.parametrize(
    ("changes", "arguments", "sentence"),
    [
        ({}, {"particles": 1}, "particles=1: at least two"),
        ({}, {"particles": 10, "chains": 11}, "chains=11: between 1 and the number of particles, 10"),
        ({}, {"draws": 0}, "draws=0: at least 1"),
        ({}, {"ess": 1.0}, "ess=1.0: a fraction"),
        ({"low": np.array([2.0, 0.0])}, {}, "low must be below high; parameter 0 has 2.0 and 1.0"),
        ({"low": np.array([-1.0, np.nan])}, {}, "parameter 1 has nan"),
        ({"high": np.ones(3)}, {}, "both need"),
        ({"periodic": np.array([True])}, {}, "periodic has shape"),
        ({"groups": np.array([[0], [2]])}, {}, "groups must be different indices below 2"),
        ({"groups": np.array([[0], [1]])}, {}, "different boxes"),
        ({"linear": np.array([0.5])}, {}, "linear must be different indices"),
        ({"linear": [0], "periodic": [True, False]}, {}, "cannot be both"),
        ({"log_likelihood": lambda theta: np.full(len(theta), np.nan)}, {}, "not finite at any of 200 points"),
        ({"fisher": lambda theta: np.full((len(theta), 2, 2), np.nan)}, {}, "fisher is not finite at any of 200"),
        ({"fisher": lambda theta: np.repeat(-99 * np.eye(2)[None], len(theta), 0)}, {}, "fisher has a negative"),
        ({"log_likelihood": lambda theta: np.zeros((len(theta), 1))}, {}, r"log_likelihood returned shape \(200, 1\)"),
    ],
)
def test_bad_input_is_told_in_a_sentence(rng, changes, arguments, sentence):
    target = Gaussian()
    vars(target).update(changes)
    with pytest.raises(UsageError, match=sentence):
        smc(target, rng, **arguments)
