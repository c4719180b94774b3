r"""The exact posterior of a mixture: against a grid, chains that know only the density, and simulations."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from mira_bench.errors import UsageError
from mira_bench.inference.diffusion import MatrixOperator, Mixture, Subspace
from mira_bench.inference.diffusion.exact import MixturePosterior
from mira_bench.inference.diffusion.operators import ChannelOperator
from mira_bench.inference.mala import mala

EVENT, DATA = (2, 2, 3), (2, 1, 4)
RANK, NOISE = 2, 1.5
COUNT = 20_000


def make():
    r"""Three Gaussians of images in a plane, of which data leave two or three likely; and data."""
    rng = np.random.default_rng(0)
    components = np.linalg.qr(rng.standard_normal((12, RANK)))[0].T
    roots = 0.5 * rng.standard_normal((3, RANK, RANK))
    covariances = roots @ roots.swapaxes(1, 2) + 0.1 * np.eye(RANK)
    subspace = Subspace(rng.random(12), components, 0.0)
    prior = Mixture(subspace, EVENT, np.array([0.2, 0.5, 0.3]), rng.standard_normal((3, RANK)), covariances)
    matrix = sparse.csr_array(rng.standard_normal((4, 6)) * (rng.random((4, 6)) < 0.5))
    operator = ChannelOperator(matrix, NOISE, EVENT, DATA)
    x = operator.forward(prior.sample(3, rng)) + NOISE * rng.standard_normal((3, *DATA))
    return MixturePosterior(prior, operator), x


def prior_logs(prior, codes):
    r"""The log of weight times density of each component at codes."""
    parts = zip(prior.weights, prior.means, prior.covariances, strict=True)
    return np.stack([math.log(w) + multivariate_normal(m, c).logpdf(codes) for w, m, c in parts], axis=-1)


def likelihood(posterior, codes, x):
    r"""The log-likelihood of codes, by images in double precision."""
    subspace = posterior.prior.subspace
    images = (subspace.mean + codes @ subspace.components).reshape(-1, *EVENT)
    return posterior.operator.log_likelihood(images, np.repeat(x[None], len(codes), axis=0))


@pytest.fixture(scope="module")
def grid():
    r"""By brute force, for each observation: mean and covariance of codes, shares of components, log-evidence."""
    posterior, x = make()
    side = np.linspace(-6, 6, 301)
    codes = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, RANK)
    prior = prior_logs(posterior.prior, codes)
    found = []
    for one in x:
        logs = prior + likelihood(posterior, codes, one)[:, None]
        evidence = logsumexp(logs) + 2 * math.log(side[1] - side[0])
        weights = np.exp(logs - logsumexp(logs))
        each = weights.sum(axis=1)
        mean = each @ codes
        covariance = (each[:, None] * (codes - mean)).T @ (codes - mean)
        found.append((mean, covariance, weights.sum(axis=0), evidence))
    return found


def moments_of(posterior, x):
    r"""Mean and covariance of codes by the components of the posterior."""
    logs, means = posterior.components(x)
    weights = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    roots = posterior._factors[0]
    mean = np.einsum("lk,lkr->lr", weights, means)
    away = means - mean[:, None]
    within = np.einsum("krt,kst->krs", roots, roots)
    return weights, mean, np.einsum("lk,lkrs->lrs", weights, within + away[..., None] * away[..., None, :])


def test_it_is_the_posterior_on_a_grid(grid):
    posterior, x = make()
    weights, means, covariances = moments_of(posterior, x)
    for l, (mean, covariance, shares, evidence) in enumerate(grid):
        # Sums of smooth functions over a fine grid are exact up to rounding.
        assert np.allclose(means[l], mean, atol=1e-9)
        assert np.allclose(covariances[l], covariance, atol=1e-9)
        assert np.allclose(weights[l], shares, atol=1e-9)
        assert posterior.log_evidence(x)[l] == pytest.approx(evidence, abs=1e-9)
    assert np.sort(weights, axis=1)[:, -2].max() > 0.05  # it matters that there are several


def test_samples_have_its_moments_and_shares(grid):
    posterior, x = make()
    found = posterior.sample(x, COUNT, np.random.default_rng(1))
    assert found.dtype == np.float32
    for drawn, (mean, covariance, *_) in zip(found, grid, strict=True):
        codes = posterior.prior.subspace.encode(drawn)
        # Nothing is outside of the subspace.
        assert np.allclose(posterior.prior.subspace.decode(codes), drawn.reshape(COUNT, -1), atol=1e-5)
        assert np.all(np.abs(codes.mean(axis=0) - mean) < 4 * np.sqrt(np.diag(covariance) / COUNT))
        products = (codes - mean)[:, :, None] * (codes - mean)[:, None]
        assert np.all(np.abs(products.mean(axis=0) - covariance) < 4 * products.std(axis=0) / math.sqrt(COUNT))


class Codes:
    r"""The posterior of codes as chains see it: a density without its constant, in a box that holds all of it."""

    low, high = np.full(RANK, -6.0), np.full(RANK, 6.0)

    def __init__(self, posterior, x):
        self.posterior, self.x = posterior, x

    def log_likelihood(self, theta):
        return logsumexp(prior_logs(self.posterior.prior, theta), axis=1) + likelihood(self.posterior, theta, self.x)

    def log_likelihood_gradient(self, theta):
        step = 1e-5 * np.eye(RANK)
        slopes = [self.log_likelihood(theta + d) - self.log_likelihood(theta - d) for d in step]
        return self.log_likelihood(theta), np.stack(slopes, axis=1) / 2e-5


def test_it_is_what_chains_find():
    posterior, x = make()
    _, means, covariances = moments_of(posterior, x)
    chains = mala(Codes(posterior, x[0]), np.random.default_rng(2), walkers=100, warmup=400, draws=200).samples
    # Chains are independent: the scatter of their means tells the error.
    for values, expected in ((chains, means[0]), ((chains - means[0]) ** 2, np.diag(covariances[0]))):
        each = values.mean(axis=1)
        assert np.all(np.abs(each.mean(axis=0) - expected) < 4 * each.std(axis=0) / math.sqrt(len(each)))


def test_the_truth_is_a_draw_of_it():
    # Ranks of random projections of the truth among samples are uniform, and the evidence normalizes the data.
    posterior, _ = make()
    rng, count = np.random.default_rng(3), 800
    y = posterior.prior.sample(count, rng)
    x = posterior.operator.forward(y) + NOISE * rng.standard_normal((count, *DATA))
    samples = posterior.sample(x, 49, rng).reshape(count, 49, -1)
    direction = rng.standard_normal(12)
    ranks = (samples @ direction < (y.reshape(count, -1) @ direction)[:, None]).sum(axis=1)
    assert abs(ranks.mean() - 24.5) < 4 * math.sqrt((50**2 - 1) / 12 / count)
    squares = (ranks - 24.5) ** 2
    assert abs(squares.mean() - (50**2 - 1) / 12) < 4 * squares.std() / math.sqrt(count)
    # The mean of q(x) / p(x) over data of p is one, for the evidence q of any other model.
    shifted = replace(posterior, prior=replace(posterior.prior, weights=np.array([0.3, 0.5, 0.2])))
    ratios = np.exp(shifted.log_evidence(x) - posterior.log_evidence(x))
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / math.sqrt(count)
    assert shifted.log_evidence(x).mean() < posterior.log_evidence(x).mean()


def test_without_a_word_of_the_data_it_is_the_prior():
    posterior, x = make()
    blind = replace(posterior, operator=replace(posterior.operator, noise=1e6))
    weights, means, _ = moments_of(blind, x)
    assert np.allclose(weights, posterior.prior.weights, atol=1e-6)
    assert np.allclose(means, posterior.prior.weights @ posterior.prior.means, atol=1e-6)


def test_samples_of_an_observation_do_not_depend_on_those_that_follow():
    posterior, x = make()
    one, all_three = (posterior.sample(some, 50, np.random.default_rng(4)) for some in (x[:1], x))
    assert np.array_equal(one[0], all_three[0])
    twice = posterior.sample(x[[0, 0]], 50, np.random.default_rng(4))
    assert not np.array_equal(twice[0], twice[1])  # the stream goes on


def test_images_that_vary_everywhere():
    r"""With noise outside of the subspace: evidence and moments of Gaussians in pixels, written down at once."""
    posterior, _ = make()
    inner = posterior.prior
    prior = replace(inner, subspace=replace(inner.subspace, rest=0.4))
    rng = np.random.default_rng(5)
    matrix = rng.standard_normal((8, 12))
    operator = MatrixOperator(matrix, NOISE, EVENT, (8,))
    exact = MixturePosterior(prior, operator)
    x = prior.sample(1, rng).reshape(1, 12) @ matrix.T + NOISE * rng.standard_normal((1, 8))
    components, mean = prior.subspace.components, prior.subspace.mean
    logs, centers, spreads = [], [], []
    for weight, code, covariance in zip(prior.weights, prior.means, prior.covariances, strict=True):
        full = components.T @ covariance @ components + 0.16 * (np.eye(12) - components.T @ components)
        seen, gain = matrix @ full @ matrix.T + NOISE**2 * np.eye(8), full @ matrix.T
        middle = mean + code @ components
        logs.append(math.log(weight) + multivariate_normal(matrix @ middle, seen).logpdf(x[0]))
        centers.append(middle + gain @ np.linalg.solve(seen, x[0] - matrix @ middle))
        spreads.append(full - gain @ np.linalg.solve(seen, gain.T))
    assert exact.log_evidence(x) == pytest.approx(logsumexp(logs))
    weights = np.exp(np.array(logs) - logsumexp(logs))
    expected = weights @ centers
    away = np.array(centers) - expected
    covariance = np.einsum("k,kij->ij", weights, np.array(spreads) + away[:, :, None] * away[:, None])
    assert exact.mean(x).ravel() == pytest.approx(expected, abs=1e-5)
    drawn = exact.sample(x, COUNT, rng).reshape(COUNT, 12) - expected
    assert np.all(np.abs(drawn.mean(axis=0)) < 4 * np.sqrt(np.diag(covariance) / COUNT))
    products = drawn[:, :, None] * drawn[:, None]
    assert np.all(np.abs(products.mean(axis=0) - covariance) < 4 * products.std(axis=0) / math.sqrt(COUNT))


def test_what_is_not_exact_is_refused():
    posterior, x = make()
    with pytest.raises(UsageError, match="the prior has images"):
        MixturePosterior(replace(posterior.prior, event=(2, 3, 2)), posterior.operator)
    with pytest.raises(UsageError, match="has the shape"):  # as many numbers, channels last
        posterior.log_evidence(np.moveaxis(x, 1, -1))


def test_too_many_pixels_are_refused():
    plane = Subspace(np.zeros(5000), np.eye(5000)[:2], 0.1)
    prior = Mixture(plane, (1, 50, 100), np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    with pytest.raises(UsageError, match="takes too much memory"):
        MixturePosterior(prior, MatrixOperator(np.ones((1, 5000)), 1.0, (1, 50, 100), (1,)))
