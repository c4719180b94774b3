r"""The diffusion sampler of posteriors, where all that it should do is known: linear scores, and exact posteriors."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.integrate import quad

from mira_bench.errors import UsageError
from mira_bench.inference.diffusion import ClassMixtures, Mixture, Subspace
from mira_bench.inference.diffusion.exact import MixturePosterior
from mira_bench.inference.diffusion.operators import ChannelOperator, Spectrum
from mira_bench.inference.diffusion.posterior_sampling import PredictorCorrector

EVENT, DATA = (2, 2, 3), (2, 1, 4)
NOISE = 0.5
COUNT = 4000


def known(matrix, event, data):
    spectrum = Spectrum(matrix, **Spectrum.arrays(matrix))
    return ChannelOperator(matrix, NOISE, event, data, spectrum)


def gaussian(width, seed=0):
    r"""A prior of independent pixels around zero, an operator that sees four of six directions of each channel."""
    matrix = sparse.csr_array(np.random.default_rng(seed).standard_normal((4, 6)))
    prior = Mixture(
        Subspace(np.zeros(12), np.eye(12), 0.0), EVENT, np.ones(1), np.zeros((1, 12)), width**2 * np.eye(12)[None]
    )
    rng = np.random.default_rng(seed + 1)
    operator = known(matrix, EVENT, DATA)
    y = rng.standard_normal((1, *EVENT))
    return prior, operator, operator.forward(y) + NOISE * rng.standard_normal((1, *DATA))


def mixture(rank=3, seed=0):
    r"""Three Gaussians in a subspace of images of 48 pixels, and data of which each is informative."""
    rng = np.random.default_rng(seed)
    event, data = (3, 4, 4), (3, 3, 4)
    components = np.linalg.qr(rng.standard_normal((48, rank)))[0].T
    roots = 0.4 * rng.standard_normal((3, rank, rank))
    covariances = roots @ roots.swapaxes(1, 2) + 0.1 * np.eye(rank)
    subspace = Subspace(rng.random(48), components, 0.0)
    prior = Mixture(subspace, event, np.array([0.2, 0.5, 0.3]), rng.standard_normal((3, rank)), covariances)
    operator = known(sparse.csr_array(rng.standard_normal((12, 16)) * (rng.random((12, 16)) < 0.4)), event, data)
    x = operator.forward(prior.sample(2, rng)) + NOISE * rng.standard_normal((2, *data))
    return prior, operator, x


def recursion(sampler, width, values, data):
    r"""Mean and variance of what the sampler makes of a Gaussian prior, along each singular vector: all is linear.

    Arguments:
        sampler: The sampler.
        width: The standard deviation of the prior, around zero.
        values: The singular values $s$.
        data: The coordinates $s u$ of the data.
    """
    levels = np.geomspace(sampler.largest, sampler.smallest, sampler.steps)
    mean, variance = np.zeros(np.shape(data)), np.full(np.shape(data), sampler.largest**2)
    for here, there in zip(levels, [*levels[1:], 0.0], strict=True):
        gap, seen = here**2 - there**2, NOISE**2 + here**2 * values**2
        precision, step = 1 / (width**2 + here**2) + values**2 / seen, 2 * (sampler.snr * here) ** 2
        for _ in range(sampler.corrections):
            mean = (1 - step * precision) * mean + step * data / seen
            variance = (1 - step * precision) ** 2 * variance + 2 * step
        stay = 1 - gap * precision
        mean = stay * mean + gap * data / seen
        variance = stay**2 * variance + gap * (there / here) ** 2
    return mean, variance


def along(operator, images):
    r"""Coordinates along singular vectors, one row for each image."""
    return images.reshape(len(images), 2, 6).astype(np.float64) @ operator.spectrum.right.astype(np.float64)


def exact_gaussian(width, operator, x):
    r"""Mean and variance of the exact posterior along each singular vector."""
    values = operator.spectrum.values.astype(np.float64)
    precision = 1 / width**2 + values**2 / NOISE**2
    data = operator.spectrum.data(x.reshape(2, 4)).astype(np.float64)
    return data / NOISE**2 / precision, np.broadcast_to(1 / precision, data.shape), values, data


@pytest.mark.parametrize(("width", "steps", "corrections"), [(1.0, 30, 0), (1.0, 120, 1), (20.0, 60, 3), (20.0, 60, 0)])
def test_it_does_what_is_written(width, steps, corrections):
    # With a linear score the law of samples is known at every number of steps, errors and all.
    prior, operator, x = gaussian(width)
    sampler = PredictorCorrector(steps, corrections, largest=100.0)
    _, _, values, data = exact_gaussian(width, operator, x[0])
    mean, variance = recursion(sampler, width, values, data)
    z = along(operator, sampler.sample(prior, operator, x, COUNT, np.random.default_rng(1), batch=COUNT)[0])
    assert np.all(np.abs(z.mean(axis=0) - mean) < 4 * np.sqrt(variance / COUNT) + 1e-4)
    assert np.all(np.abs(z.var(axis=0) / variance - 1) < 4 * math.sqrt(2 / COUNT) + 1e-3)


@pytest.mark.parametrize("corrections", [0, 1])
def test_under_a_broad_prior_it_ends_at_the_exact_posterior(corrections):
    width, steps = 50.0, 400
    prior, operator, x = gaussian(width)
    mean, variance, values, data = exact_gaussian(width, operator, x[0])
    # The exact posterior of the package is the same.
    posterior = MixturePosterior(prior, operator)
    ours = along(operator, posterior.components(x)[1][:, 0])[0]
    assert np.all(np.abs(ours - mean) < 1e-4 * np.sqrt(variance))
    sampler, half = (PredictorCorrector(n, corrections, largest=500.0) for n in (steps, steps // 2))
    fine, coarse = (recursion(one, width, values, data) for one in (sampler, half))
    # The error falls as one over the steps: it is as large as what halving them changes.
    off = [np.abs(a - b) for a, b in zip(fine, coarse, strict=True)]
    assert np.all(off[1] < 0.05 * variance)
    z = along(operator, sampler.sample(prior, operator, x, COUNT, np.random.default_rng(2), batch=COUNT)[0])
    assert np.all(np.abs(z.mean(axis=0) - mean) < 4 * np.sqrt(variance / COUNT) + off[0])
    assert np.all(np.abs(z.var(axis=0) - variance) < 4 * math.sqrt(2 / COUNT) * variance + 1.2 * off[1])


@pytest.mark.parametrize("width", [0.5, 3.0, 50.0])
def test_the_error_of_steps_falls_and_leaves_that_of_the_convolved_likelihood(width):
    _, operator, x = gaussian(width)
    mean, _, values, data = exact_gaussian(width, operator, x[0])
    mean, values, data = mean[:, 2:], values[2:], data[:, 2:]  # what is seen
    # With infinitely many predictors the mean solves a linear equation: dm/dt = m / (w^2 + t) + (m - b) / (d + t).
    widths, ends = (NOISE / values) ** 2, data / values**2
    parts = [
        # In units of d, by the logarithm.
        quad(lambda u, e=d / width**2: np.exp(u) / ((1 + np.exp(u)) ** 2 * (1 + e * np.exp(u))), -40, 40)[0]
        for d in widths
    ]
    limit = ends * parts

    def error(steps, corrections, right):
        found, _ = recursion(PredictorCorrector(steps, corrections, largest=200 * width), width, values, data)
        return np.abs(found - right).max()

    errors = [error(steps, 0, limit) for steps in (100, 200, 400, 800)]
    assert all(later < 0.6 * earlier for earlier, later in pairwise(errors))
    # What is left is an error of the likelihood, not of steps: small only where the prior says little.
    ratio = widths.max() / width**2
    assert np.abs(limit - mean).max() < np.abs(ends).max() * ratio * (1 + abs(math.log(ratio)))
    if width == 0.5:
        assert np.abs(limit - mean).max() > 0.05
        # Corrections take it away, for at small noise the score is right: slowly, to a tenth as measured.
        assert error(400, 10, mean) < 0.12 * error(400, 0, mean)


def test_it_comes_near_the_posterior_of_a_mixture():
    prior, operator, x = mixture()
    codes = [prior.subspace.encode(one) for one in MixturePosterior(prior, operator).sample(
        x, 20_000, np.random.default_rng(4)
    )]  # fmt: skip

    def error(sampler):
        r"""The mean squared error of means and log standard deviations, along principal axes of the posterior."""
        found = sampler.sample(prior, operator, x, 400, np.random.default_rng(5), batch=400)
        total = 0.0
        for drawn, right in zip(found, codes, strict=True):
            variances, axes = np.linalg.eigh(np.cov(right.T))
            z = (prior.subspace.encode(drawn) - right.mean(axis=0)) @ axes / np.sqrt(variances)
            total += np.mean(z.mean(axis=0) ** 2 + np.log(z.std(axis=0)) ** 2) / len(x)
        return total

    few, more, corrected, best = (
        error(PredictorCorrector(*n, largest=20.0)) for n in ((20, 0), (80, 0), (80, 2), (80, 30))
    )
    assert few > more > corrected > best
    assert best < 0.1 < 0.5 < more  # as measured: predictors alone are off by about a standard deviation


def scores(prior, operator, x, condition=None):
    r"""The score that the sampler follows, as a function of coordinates or pixels and noise."""
    found = []

    class Spy(PredictorCorrector):
        def _solve(self, score, shape, noise, device, batch):
            found.append(score)
            return torch.zeros(shape)

    Spy().sample(prior, operator, x[:1], 3, np.random.default_rng(0), condition)
    return found[0]


class Plain:
    r"""A prior that has a denoiser, and nothing else."""

    def __init__(self, prior):
        self.prior = prior

    def denoise(self, y, sigma, condition=None):
        assert sigma.shape == (len(y),)
        return self.prior.denoise(y, sigma, condition)


@pytest.mark.parametrize("sigma", [0.01, 0.3, 5.0, 50.0])
def test_scores_in_pixels_and_in_coordinates_are_the_same(sigma):
    prior, operator, x = mixture()
    inside, outside = scores(prior, operator, x), scores(Plain(prior), operator, x)
    y = torch.from_numpy(prior.sample(5, np.random.default_rng(6)).reshape(5, 3, 16))
    y = y + sigma * torch.randn(y.shape, generator=torch.Generator().manual_seed(0))
    right = torch.from_numpy(operator.spectrum.right)
    ours, theirs = inside(y @ right, sigma) @ right.T, outside(y, sigma)
    scale = float(theirs.abs().max())
    assert torch.allclose(ours, theirs, atol=1e-3 * scale)
    # Both are the gradient of log p_sigma(y) + log N(x | A y, noise^2 + sigma^2 A A^T), by autograd.
    z = y.double().requires_grad_()
    matrix = torch.from_numpy(operator.matrix.toarray())
    covariance = NOISE**2 * torch.eye(12, dtype=torch.float64) + sigma**2 * matrix @ matrix.T
    data = torch.distributions.MultivariateNormal(z @ matrix.T, covariance)
    total = (
        prior.log_prob(z.reshape(5, 3, 4, 4), sigma).sum() + data.log_prob(torch.from_numpy(x[0]).reshape(3, 12)).sum()
    )
    (gradient,) = torch.autograd.grad(total, z)
    assert torch.allclose(theirs.double(), gradient, atol=1e-3 * scale)


def test_a_prior_with_a_denoiser_alone_gives_the_same_law():
    prior, operator, x = mixture()
    sampler = PredictorCorrector(40, corrections=0, largest=20.0)
    ours, theirs = (
        prior.subspace.encode(sampler.sample(one, operator, x[:1], 1500, np.random.default_rng(7), batch=1500)[0])
        for one in (prior, Plain(prior))
    )
    error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / 1500)
    assert np.all(np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) < 4 * error)
    assert np.all(np.abs(np.log(ours.std(axis=0) / theirs.std(axis=0))) < 4 / math.sqrt(1500))


def test_the_class_reaches_the_denoiser():
    prior, operator, x = mixture()
    other = replace(prior, means=prior.means + 1.0)
    both = ClassMixtures((prior, other))
    y = torch.from_numpy(prior.sample(4, np.random.default_rng(8)).reshape(4, 3, 16))
    for k, one in enumerate(both.mixtures):
        assert torch.allclose(scores(both, operator, x, k)(y, 0.5), scores(Plain(one), operator, x)(y, 0.5), atol=1e-4)
    with pytest.raises(UsageError, match="needs to know the class"):
        PredictorCorrector(5).sample(both, operator, x, 2, np.random.default_rng(0))


def test_samples_do_not_know_of_each_other():
    prior, operator, x = mixture()
    sampler = PredictorCorrector(30, largest=20.0)

    def draw(some, batch=64):
        return sampler.sample(prior, operator, some, 20, np.random.default_rng(9), batch=batch)

    both = draw(x)
    assert np.array_equal(both, draw(x))
    assert np.array_equal(draw(x[:1])[0], both[0])  # whatever follows
    assert np.allclose(draw(x, batch=7), both, atol=1e-4)  # sums of other shapes have other last digits
    twice = draw(x[[0, 0]])
    assert np.abs(twice[0] - twice[1]).min(axis=(1, 2, 3)).max() > 0  # the same data, other noise
    assert sampler.calls == 60
    # Global states are left alone.
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    draw(x)
    assert torch.equal(before, torch.random.get_rng_state())


def test_errors_name_the_culprit():
    prior, operator, x = mixture()
    with pytest.raises(UsageError, match="needs the spectrum of the operator"):
        PredictorCorrector(5).sample(prior, replace(operator, spectrum=None), x, 2, np.random.default_rng(0))
    with pytest.raises(UsageError, match="steps=1"):
        PredictorCorrector(1)
    with pytest.raises(UsageError, match="corrections=-1"):
        PredictorCorrector(corrections=-1)
    with pytest.raises(UsageError, match="noise must fall"):
        PredictorCorrector(smallest=2.0, largest=1.0)
    with pytest.raises(UsageError, match="has the shape"):
        PredictorCorrector(5).sample(prior, operator, np.moveaxis(x, 1, -1), 2, np.random.default_rng(0))
