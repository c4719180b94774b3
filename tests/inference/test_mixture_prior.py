r"""Mixtures of Gaussians in a subspace: all that is known in closed form, against autograd, samples and quadrature."""

import math

import numpy as np
import pytest
import torch
from small_digits import small_digits, told_apart

from mira_bench.errors import UsageError
from mira_bench.inference.diffusion import Mixture, MixtureTrainer, Subspace, heun, noise_levels

EVENT = (2, 3)
RANK = 3


def make(rest=0.0, seed=0):
    rng = np.random.default_rng(seed)
    components = np.linalg.qr(rng.standard_normal((6, RANK)))[0].T
    subspace = Subspace(rng.random(6), components, rest)
    roots = 0.5 * rng.standard_normal((2, RANK, RANK))
    covariances = roots @ roots.swapaxes(1, 2) + 0.05 * np.eye(RANK)
    return Mixture(subspace, EVENT, np.array([0.3, 0.7]), rng.standard_normal((2, RANK)), covariances)


def dense(mixture, sigma):
    r"""The same mixture written down in all dimensions: weights, means, covariances."""
    basis = mixture.subspace.components
    outside = np.eye(6) - basis.T @ basis
    means = mixture.subspace.mean + mixture.means @ basis
    covariances = basis.T @ mixture.covariances @ basis + mixture.subspace.rest**2 * outside + sigma**2 * np.eye(6)
    return mixture.weights, means, covariances


@pytest.mark.parametrize(("rest", "sigma"), [(0.0, 0.3), (0.2, 0.0), (0.2, 1.5)])
def test_the_density_is_that_of_all_dimensions(rest, sigma):
    from scipy.stats import multivariate_normal

    mixture = make(rest)
    x = mixture.sample(20, np.random.default_rng(1)).astype(np.float64)
    x += sigma * np.random.default_rng(2).standard_normal(x.shape)
    parts = [
        weight * multivariate_normal(mean, covariance).pdf(x.reshape(20, 6))
        for weight, mean, covariance in zip(*dense(mixture, sigma), strict=True)
    ]
    found = mixture.log_prob(torch.from_numpy(x), sigma)
    assert np.allclose(found.numpy(), np.log(np.sum(parts, axis=0)), rtol=1e-9)


@pytest.mark.parametrize(("rest", "sigma"), [(0.0, 0.05), (0.0, 2.0), (0.2, 0.0), (0.2, 0.5)])
def test_score_and_denoiser_follow_from_the_density(rest, sigma):
    mixture = make(rest)
    x = torch.from_numpy(mixture.sample(10, np.random.default_rng(1)).astype(np.float64)).requires_grad_()
    (gradient,) = torch.autograd.grad(mixture.log_prob(x, sigma).sum(), x)
    x = x.detach()
    assert torch.allclose(mixture.score(x, sigma), gradient)
    levels = torch.full((10,), sigma, dtype=torch.float64)
    assert torch.allclose(mixture.denoise(x, levels), x + sigma**2 * gradient)


@pytest.mark.parametrize("sigma", [0.1, 10.0, 100.0])
def test_single_precision_is_enough_at_any_noise(sigma):
    r"""Also of the derivative times the variance of the noise, which MMPS weighs against that of the data."""
    mixture = make(0.2)
    rng = np.random.default_rng(1)
    x = torch.from_numpy(mixture.sample(10, rng) + sigma * rng.standard_normal((10, *EVENT)))

    def found(x):
        x = x.detach().requires_grad_()
        clean = mixture.denoise(x, sigma)
        return clean, torch.autograd.grad(clean[:, 0, 0].sum(), x)[0] * sigma**2

    for single, double in zip(found(x.float()), found(x), strict=True):
        assert (single - double).abs().max() < 1e-4 * double.abs().max()


def test_the_denoiser_is_the_mean_of_what_may_have_been():
    # E[y | x] by weighting draws of y with their likelihood.
    mixture, sigma = make(), 0.5
    y = mixture.sample(200_000, np.random.default_rng(1)).reshape(-1, 6).astype(np.float64)
    x = y[0] + sigma * np.random.default_rng(2).standard_normal(6)
    weights = np.exp(-0.5 * np.square(x - y).sum(axis=1) / sigma**2)
    weights /= weights.sum()
    mean = weights @ y
    error = np.sqrt(np.square(weights) @ np.square(y - mean))
    found = mixture.denoise(torch.from_numpy(x.reshape(1, *EVENT)), sigma).numpy().reshape(6)
    assert np.all(np.abs(found - mean) < 4 * error + 1e-6)


@pytest.mark.parametrize("rest", [0.0, 0.3])
def test_samples_have_the_moments(rest):
    mixture, count = make(rest), 40_000
    weights, means, covariances = dense(mixture, 0.0)
    mean = weights @ means
    centered = means - mean
    covariance = np.einsum("k,kij->ij", weights, covariances + centered[:, :, None] * centered[:, None])
    y = mixture.sample(count, np.random.default_rng(3)).reshape(count, 6).astype(np.float64)
    assert np.all(np.abs(y.mean(axis=0) - mean) < 4 * np.sqrt(np.diag(covariance) / count) + 1e-6)
    products = (y - mean)[:, :, None] * (y - mean)[:, None]
    assert np.all(np.abs(products.mean(axis=0) - covariance) < 4 * products.std(axis=0) / math.sqrt(count) + 1e-6)


def test_its_probability_flow_ends_at_the_mixture():
    # From noisy images on, it makes images: of each of two far components as many as the weights say.
    mixture, count = make(), 4000
    mixture = Mixture(mixture.subspace, EVENT, mixture.weights, 4 * mixture.means, 0.1 * mixture.covariances)
    rng = np.random.default_rng(4)
    start = torch.from_numpy(mixture.sample(count, rng) + 40.0 * rng.standard_normal((count, *EVENT)))
    found = heun(mixture.denoise, start, noise_levels(150, 0.002, 40.0)).numpy()
    codes = mixture.subspace.encode(found)
    nearest = np.linalg.norm(codes[:, None] - mixture.means, axis=2).argmin(axis=1)
    share = (nearest == 0).mean()
    assert abs(share - 0.3) < 4 * math.sqrt(0.3 * 0.7 / count)
    for k in range(2):
        mine = codes[nearest == k]
        assert np.all(np.abs(mine.mean(axis=0) - mixture.means[k]) < 4 * mine.std(axis=0) / math.sqrt(len(mine)))


def test_em_finds_the_mixture_it_was_shown():
    truth = make()
    truth = Mixture(truth.subspace, EVENT, truth.weights, 4 * truth.means, truth.covariances)
    count = 4000
    images = truth.sample(count, np.random.default_rng(5))
    trainer = MixtureTrainer(rank=RANK, components=2)
    state = trainer.fit({"images": images}, np.random.default_rng(0), lambda *_: None)
    (found,) = trainer.load(state).mixtures
    order = np.argsort(found.weights)
    weights, means, covariances = dense(truth, 0.0)
    ours = dense(found, 0.0)
    assert np.all(np.abs(ours[0][order] - weights) < 4 * np.sqrt(weights * (1 - weights) / count))
    for k, mine in enumerate(order):
        spread = np.sqrt(np.diag(covariances[k]))
        size = weights[k] * count
        assert np.all(np.abs(ours[1][mine] - means[k]) < 4 * spread / math.sqrt(size) + 1e-3)
        error = np.sqrt((covariances[k] ** 2 + np.outer(spread, spread) ** 2) / size)
        assert np.all(np.abs(ours[2][mine] - covariances[k]) < 4 * error + 1e-3)
    # EM raises the likelihood: above that of one Gaussian, and not far below the truth's on the same images.
    x = torch.from_numpy(images.astype(np.float64))
    single = MixtureTrainer(rank=RANK, components=1)
    (one,) = single.load(single.fit({"images": images}, np.random.default_rng(0), lambda *_: None)).mixtures
    likelihoods = [float(m.log_prob(x, 0.1).mean()) for m in (one, truth, found)]
    assert likelihoods[0] < likelihoods[1] < likelihoods[2] + 1e-3


def test_a_mixture_for_each_digit():
    data = small_digits()
    told = []
    trainer = MixtureTrainer(rank=15, components=3)
    state = trainer.fit(data, np.random.default_rng(0), lambda *words: told.append(words))
    assert told[-1] == ("classes", 10, 10)
    again = trainer.fit(data, np.random.default_rng(0), lambda *_: None)
    assert all(np.array_equal(state[key], again[key]) for key in state)
    mixtures = trainer.load(state)
    labels = np.arange(10).repeat(30)
    images = mixtures.sample(300, np.random.default_rng(1), labels)
    # As often as real digits are told apart by their neighbors, up to a tenth: they are of the right class.
    assert told_apart(images, labels).mean() > 0.9
    noisy = torch.from_numpy(images[::30].astype(np.float64))
    clean = mixtures.denoise(noisy, torch.full((10,), 0.01, dtype=torch.float64), torch.arange(10))
    assert torch.allclose(clean, noisy, atol=0.05)


def test_errors_name_the_culprit():
    x = torch.zeros(1, *EVENT, dtype=torch.float64)
    with pytest.raises(UsageError, match="no density without noise"):
        make().log_prob(x)
    trainer = MixtureTrainer(rank=2, components=1)
    images = make().sample(50, np.random.default_rng(0))
    mixtures = trainer.load(trainer.fit({"images": images}, np.random.default_rng(0), lambda *_: None))
    with pytest.raises(UsageError, match="needs to know the class"):
        mixtures.sample(1, np.random.default_rng(0))
    data = small_digits()
    without = {key: value[data["labels"] != 3] for key, value in data.items()}
    with pytest.raises(UsageError, match="no image has the label 3"):
        trainer.fit(without, np.random.default_rng(0), lambda *_: None)
