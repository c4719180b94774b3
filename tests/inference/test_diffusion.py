r"""Diffusion models: known answers of Gaussian data, and small models that are trained on real digits."""

import math

import numpy as np
import pytest
import torch
from small_digits import small_digits, told_apart, typical_distance

from mira_bench.errors import UsageError
from mira_bench.inference.diffusion import (
    DiffusionPrior,
    DiffusionTrainer,
    LatentPrior,
    LatentTrainer,
    Subspace,
    heun,
    noise_levels,
)
from mira_bench.inference.diffusion.denoisers import Folded, Preconditioned, VarianceExploding
from mira_bench.inference.gradient_training import train

MEAN = np.array([0.3, -0.2, 0.1])
COVARIANCE = np.array([[0.3, 0.1, 0.0], [0.1, 0.2, -0.05], [0.0, -0.05, 0.05]])
LARGEST = 40.0
TINY = {"nf": 16, "ch_mult": (1, 2), "num_res_blocks": 1, "attention": False, "fir": False}
TINY |= {"progressive": "none", "progressive_input": "none", "fourier_scale": 1.0}


def gaussian_denoiser(x, sigma):
    noisy = torch.from_numpy(COVARIANCE) + sigma[0] ** 2 * torch.eye(3, dtype=torch.float64)
    gain = torch.from_numpy(COVARIANCE) @ torch.linalg.inv(noisy)
    return torch.from_numpy(MEAN) + (x - torch.from_numpy(MEAN)) @ gain.T


def flow(x):
    r"""Where the exact probability flow takes points: each principal axis shrinks to its own length."""
    variances, axes = np.linalg.eigh(COVARIANCE)
    return MEAN + ((x - MEAN) @ axes * np.sqrt(variances / (variances + LARGEST**2))) @ axes.T


def test_heun_on_a_gaussian_gives_its_moments():
    count = 20_000
    start = LARGEST * np.random.default_rng(0).standard_normal((count, 3))
    found = heun(gaussian_denoiser, torch.from_numpy(start), noise_levels(100, 1e-3, LARGEST)).numpy()
    assert np.all(np.abs(found.mean(axis=0) - MEAN) < 4 * np.sqrt(np.diag(COVARIANCE) / count) + np.abs(MEAN) / LARGEST)
    # The variance of an entry of a covariance is (C_ij^2 + C_ii C_jj) / N.
    error = np.sqrt((COVARIANCE**2 + np.outer(np.diag(COVARIANCE), np.diag(COVARIANCE))) / count)
    assert np.all(np.abs(np.cov(found.T) - COVARIANCE) < 4 * error)


def test_heun_is_of_second_order():
    start = LARGEST * np.random.default_rng(1).standard_normal((50, 3))

    def error(steps):
        found = heun(gaussian_denoiser, torch.from_numpy(start), noise_levels(steps, 1e-4, LARGEST)).numpy()
        return np.abs(found - flow(start)).max()

    assert error(80) < 0.01
    assert error(40) / error(80) > 3  # four in the limit, two of a method of first order


def test_noise_levels_fall_to_zero():
    levels = noise_levels(40, 0.01, 40.0)
    assert levels[[0, -2, -1]] == pytest.approx([40, 0.01, 0])
    assert np.all(np.diff(levels) < 0)
    assert len(levels) == 41


class Zero(torch.nn.Module):
    def forward(self, t, x, *condition):
        return torch.zeros_like(x)


def test_the_network_of_a_gaussian_has_nothing_to_do():
    # With F = 0 the denoiser is that of N(0, s^2), whose weighted error is 1 at every noise level.
    denoiser = Preconditioned(Zero(), spread=0.5)
    noise = torch.Generator().manual_seed(0)
    y = 0.5 * torch.randn(20_000, 3, generator=noise)
    losses = torch.stack([denoiser.loss(part, noise) for part in y.split(100)])
    assert abs(losses.mean() - 1) < 4 * losses.std() / math.sqrt(len(losses))
    sigma = torch.tensor([0.1, 1.0, 10.0])
    assert torch.allclose(denoiser.denoise(torch.ones(3, 2), sigma)[:, 0], 0.25 / (0.25 + sigma**2))


class GaussianScore(torch.nn.Module):
    r"""What score-models wants of a network, for data N(0, 1): the score times the noise."""

    def forward(self, t, x):
        sigma = (0.01 * 5000**t).reshape(-1, 1)
        return -sigma * x / (1 + sigma**2)


def test_variance_exploding_is_that_of_score_models():
    denoiser = VarianceExploding(GaussianScore(), 0.01, 50.0)
    t = torch.linspace(0, 1, 5, dtype=torch.float64)
    x = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    sigma = denoiser.network.sde.sigma(t)
    found = denoiser.denoise(x, sigma)
    assert torch.allclose(found, x / (1 + sigma**2)[:, None])
    assert torch.allclose((found - x) / sigma[:, None] ** 2, denoiser.network.score(t, x))
    # The loss of the exact score is the mean of 1 / (1 + sigma^2) over log-uniform noise.
    noise = torch.Generator().manual_seed(1)
    y = torch.randn(40_000, 2, generator=noise)
    before = torch.random.get_rng_state()
    losses = []
    for part in y.split(100):
        noise.manual_seed(int(torch.randint(2**31, (1,), generator=noise)))
        losses.append(denoiser.loss(part, noise))
    losses = torch.stack(losses)
    assert torch.equal(torch.random.get_rng_state(), before)

    def primitive(s):
        return math.log(s) - 0.5 * math.log(1 + s**2)

    exact = (primitive(50.0) - primitive(0.01)) / math.log(5000)
    assert abs(losses.mean() - exact) < 4 * losses.std() / math.sqrt(len(losses))


class Doubling(torch.nn.Module):
    def forward(self, t, x, *condition):
        assert x.shape[1:] == (12, 8, 8)
        return 2 * x


def test_folding_changes_nothing_but_the_shape():
    x = torch.randn(4, 3, 14, 12, generator=torch.Generator().manual_seed(0))
    with pytest.raises(AssertionError):
        Folded(Doubling(), 2)(torch.zeros(4), x)
    x = x[:, :, :12]
    assert torch.equal(Folded(Doubling(), 2, pad=2)(torch.zeros(4), x), 2 * x)


def test_what_does_not_fit_is_refused():
    with pytest.raises(UsageError, match="pad=0, fold=1: 28 x 28 pixels with padding cannot be divided by 8"):
        DiffusionTrainer(architecture={}, fold=1).network({"event": np.array([28, 28]), "classes": np.array(10)})
    with pytest.raises(UsageError, match="kind='vp'"):
        DiffusionTrainer(kind="vp")


@pytest.fixture(scope="module")
def trained():
    data = small_digits()
    trainer = DiffusionTrainer(
        epochs=12, batch=64, rate=3e-3, warmup=50, schedule="cosine", clip=1.0, ema=0.99, architecture=TINY
    )
    *_, last = stages = list(trainer.stages(data, np.random.default_rng(0), None))
    return DiffusionPrior.of(trainer, last.weights()), [stage.curves["loss"] for stage in stages]


def test_a_small_diffusion_learns_digits(trained):
    prior, losses = trained
    assert losses[-1] < 0.7 * losses[0]
    labels = np.arange(10).repeat(20)
    images = prior.sample(len(labels), np.random.default_rng(1), labels, steps=12)
    # A classifier of real digits finds the label that was asked for more often than by chance, by ten standard errors.
    chance, error = 0.1, math.sqrt(0.1 * 0.9 / len(labels))
    assert told_apart(images, labels).mean() > chance + 10 * error
    noise = np.random.default_rng(2).uniform(size=images.shape).astype(np.float32)
    near, far = typical_distance(images, labels), typical_distance(noise, labels)
    assert near.mean() + 4 * near.std() / math.sqrt(len(near)) < 0.7 * far.mean()


def test_samples_do_not_depend_on_the_batch(trained):
    prior, _ = trained
    labels = np.array([3, 1, 4, 1, 5, 9, 2])
    one, other = (prior.sample(7, np.random.default_rng(1), labels, steps=5, batch=b) for b in (7, 3))
    assert np.allclose(one, other, atol=1e-4)
    assert not np.allclose(one[1], one[3], atol=0.1)


@pytest.mark.parametrize("kind", ["preconditioned", "ve"])
def test_an_interrupted_diffusion_ends_as_another(kind):
    data = {key: value[:100] for key, value in small_digits().items()}
    trainer = DiffusionTrainer(
        epochs=2, batch=32, kind=kind, architecture=TINY, fold=1, ema=0.9, clip=1.0, precision="bfloat16"
    )
    stages = trainer.stages(data, np.random.default_rng(0), None)
    memory = next(stages).memory()
    (second,) = stages
    (again,) = trainer.stages(data, np.random.default_rng(0), memory)
    assert second.curves == again.curves
    ours, theirs = second.weights(), again.weights()
    assert all(np.array_equal(ours[key], theirs[key]) for key in ours)


def test_an_unconditional_model_of_colors():
    images = small_digits()["images"][:64].reshape(64, 1, 8, 8).repeat(3, axis=1)
    trainer = DiffusionTrainer(epochs=1, batch=32, architecture=TINY, fold=2)
    prior = DiffusionPrior.of(trainer, train(trainer, {"images": images}, np.random.default_rng(0)))
    assert prior.sample(2, np.random.default_rng(0), steps=2).shape == (2, 3, 8, 8)


def test_a_latent_diffusion_learns_digits():
    data = small_digits()
    trainer = LatentTrainer(epochs=40, batch=128, rate=2e-3, schedule="cosine", ema=0.99, rank=20, width=128, blocks=2)
    prior = LatentPrior.of(trainer, train(trainer, data, np.random.default_rng(0)))
    labels = np.arange(10).repeat(20)
    images = prior.sample(len(labels), np.random.default_rng(1), labels, steps=15)
    assert images.shape == (200, 8, 8)
    assert told_apart(images, labels).mean() > 0.1 + 10 * math.sqrt(0.1 * 0.9 / len(labels))
    # Denoising an image is denoising its code, and at little noise gives back what is in the subspace.
    subspace = Subspace.of(data["images"], 20)
    real = torch.from_numpy(subspace.decode(subspace.encode(data["images"][:5])).reshape(5, 8, 8))
    outside = torch.from_numpy(data["images"][:5] / np.float32(255))
    for noisy in (real, outside):
        clean = prior.denoise(noisy, torch.full((5,), 1e-3), torch.from_numpy(data["labels"][:5]).long())
        assert torch.allclose(clean, real, atol=0.01)


def test_a_subspace_is_that_of_the_covariance():
    images = small_digits()["images"][:500]
    subspace = Subspace.of(images, 12)
    values = images.reshape(500, -1) / 255
    assert np.allclose(subspace.components @ subspace.components.T, np.eye(12), atol=1e-5)
    left = values - subspace.decode(subspace.encode(images))
    singular = np.linalg.svd(values - values.mean(axis=0), compute_uv=False)
    assert np.square(left).sum() == pytest.approx(np.square(singular[12:]).sum(), rel=1e-4)
    assert subspace.rest == pytest.approx(math.sqrt(np.square(left).sum() / 500 / (64 - 12)), rel=1e-4)
    few = Subspace.of(images[:30], 12)  # fewer images than pixels
    again = Subspace.of(np.concatenate([images[:30]] * 3), 12)
    assert np.allclose(few.components, again.components, atol=1e-4)
    assert few.rest == pytest.approx(again.rest, rel=1e-4)
    with pytest.raises(UsageError, match="rank=64"):
        Subspace.of(images, 64)
