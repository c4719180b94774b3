r"""Linear operators with white noise, and their spectra: against dense matrices, scipy and autograd."""

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.stats import multivariate_normal, norm

from mira_bench.errors import UsageError
from mira_bench.inference.diffusion.operators import ChannelOperator, Spectrum, SpectrumTrainer

EVENT, DATA = (2, 3, 4), (2, 5, 2)  # 12 pixels are seen by 10: two directions are unseen
NOISE = 0.7


def make(seed=0):
    matrix = sparse.random_array((10, 12), density=0.4, rng=np.random.default_rng(seed), format="csr")
    return ChannelOperator(matrix, NOISE, EVENT, DATA)


def dense(operator):
    r"""The matrix of all channels together."""
    return np.kron(np.eye(2), operator.matrix.toarray())


@pytest.fixture(scope="module")
def spectrum():
    operator = make()
    state = SpectrumTrainer().fit(SpectrumTrainer().learns_from(_Task()), None, None)
    return Spectrum(operator.matrix, state["values"], state["right"])


class _Task:
    def operator(self):
        return make()


def test_forward_is_the_matrix_of_each_channel_and_adjoint_its_transpose(rng):
    operator = make()
    y, x = rng.standard_normal((7, *EVENT)), rng.standard_normal((7, *DATA))
    whole = dense(operator)
    assert np.allclose(operator.forward(y).reshape(7, -1), y.reshape(7, -1) @ whole.T, rtol=1e-12)
    assert np.allclose(operator.adjoint(x).reshape(7, -1), x.reshape(7, -1) @ whole, rtol=1e-12)
    inner = (operator.forward(y) * x).sum(axis=(1, 2, 3)), (y * operator.adjoint(x)).sum(axis=(1, 2, 3))
    assert np.allclose(*inner, rtol=1e-12)
    # Channels do not see each other.
    y[:, 1] = 0.0
    assert np.all(operator.forward(y)[:, 1] == 0.0)


def test_the_likelihood_is_that_of_white_noise(rng):
    operator = make()
    y = rng.standard_normal((5, *EVENT))
    x = operator.forward(y) + NOISE * rng.standard_normal((5, *DATA))
    expected = norm(operator.forward(y), NOISE).logpdf(x).sum(axis=(1, 2, 3))
    assert np.allclose(operator.log_likelihood(y, x), expected, rtol=1e-12)
    whole = multivariate_normal(dense(operator) @ y[0].ravel(), NOISE**2 * np.eye(20))
    assert operator.log_likelihood(y, x)[0] == pytest.approx(whole.logpdf(x[0].ravel()), rel=1e-12)
    # Many data of one image: the mean of the likelihood is minus the entropy of the noise.
    many = operator.forward(y[:1]) + NOISE * rng.standard_normal((4000, *DATA))
    found = operator.log_likelihood(np.repeat(y[:1], 4000, axis=0), many)
    entropy = 20 * (0.5 + np.log(NOISE * np.sqrt(2 * np.pi)))
    assert abs(found.mean() + entropy) < 4 * np.sqrt(10 / 4000)  # half of a chi-squared of 20 has the variance 10


def test_the_spectrum_diagonalizes(spectrum, rng):
    matrix, right, values = spectrum.matrix.toarray(), spectrum.right.astype(np.float64), spectrum.values
    assert np.allclose(right.T @ right, np.eye(12), atol=1e-6)
    seen = matrix @ right
    assert np.allclose(seen.T @ seen, np.diag(values.astype(np.float64) ** 2), atol=1e-6)
    assert np.allclose(values[::-1][:10], np.linalg.svd(matrix, compute_uv=False), atol=1e-6)
    assert np.all(values[:2] < 1e-6)  # what the data do not see
    assert np.all(np.diff(values) >= 0)
    y, x = rng.standard_normal((3, 2, 12)), rng.standard_normal((3, 2, 10))
    assert np.allclose(spectrum.images(spectrum.along(y)), y, atol=1e-5)
    assert np.allclose(spectrum.along(spectrum.images(y)), y, atol=1e-5)
    assert np.allclose(spectrum.along(y), y @ right, atol=1e-5)
    assert np.allclose(spectrum.data(x), x @ matrix @ right, atol=1e-5)
    # Data without noise are the square of the values times the coordinates.
    assert np.allclose(spectrum.data(y @ matrix.T), values**2 * spectrum.along(y), atol=1e-5)


@pytest.mark.parametrize("sigma", [0.0, 0.01, 1.0, 50.0])
def test_the_pull_is_the_gradient_of_the_convolved_likelihood(spectrum, rng, sigma):
    matrix = torch.from_numpy(spectrum.matrix.toarray())
    x = torch.from_numpy(rng.standard_normal((2, 10)))
    y = torch.from_numpy(rng.standard_normal((4, 2, 12)) * max(sigma, 1.0)).requires_grad_()
    covariance = NOISE**2 * torch.eye(10, dtype=torch.float64) + sigma**2 * matrix @ matrix.T
    density = torch.distributions.MultivariateNormal(y @ matrix.T, covariance)
    (gradient,) = torch.autograd.grad(density.log_prob(x).sum(), y)
    right = torch.from_numpy(spectrum.right.astype(np.float64))
    data = torch.from_numpy(spectrum.data(x.numpy()).astype(np.float64))
    found = spectrum.pull(y.detach() @ right, data, sigma, NOISE) @ right.T
    assert torch.allclose(found, gradient, rtol=1e-4, atol=1e-5 * float(gradient.abs().max()))


def test_an_operator_is_diagonalized_once_for_every_noise():
    # Noise is no part of what is learned from, the matrix with all its numbers is.
    data = SpectrumTrainer().learns_from(_Task())
    again = sparse.csr_array((data["data"], data["indices"], data["indptr"]), shape=tuple(data["shape"]))
    assert np.array_equal(again.toarray(), make().matrix.toarray())
    spectrum = Spectrum(make().matrix, **Spectrum.arrays(make().matrix))
    assert make().with_spectrum(spectrum).spectrum is spectrum
    one, other = (SpectrumTrainer().fit(data, None, None) for _ in range(2))
    assert all(np.array_equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize(
    ("event", "data"), [((2, 3, 5), DATA), (EVENT, (2, 5, 3)), ((1, 3, 4), DATA), (EVENT, (1, 5, 2)), (DATA, EVENT)]
)
def test_shapes_that_do_not_fit_are_refused(event, data):
    with pytest.raises(UsageError, match=r"a matrix of shape \(10, 12\) does not map images"):
        ChannelOperator(make().matrix, NOISE, event, data)


@pytest.mark.parametrize("noise", [0.0, -1.0, float("nan")])
def test_noise_must_be_positive(noise):
    with pytest.raises(UsageError, match="it must be positive"):
        ChannelOperator(make().matrix, noise, EVENT, DATA)


def test_images_of_another_shape_are_refused(rng):
    # The numbers of three images of two channels would fill two of three.
    operator = make()
    wrong = ((operator.forward, (2, 3, 3, 4)), (operator.forward, (3, 2, 4, 3)), (operator.adjoint, (2, 20)))
    for call, shape in wrong:
        with pytest.raises(UsageError, match="has the shape"):
            call(rng.standard_normal(shape))
    with pytest.raises(UsageError, match="2 images and 1 data"):
        operator.log_likelihood(rng.standard_normal((2, *EVENT)), rng.standard_normal((1, *DATA)))
