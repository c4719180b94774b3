r"""Closures: independent, free of gains, and with errors as their likelihood has them."""

from itertools import combinations

import numpy as np
import pytest
import torch
from mira_bench.tasks.inverse import Closures, TelescopeArray, black_holes
from mira_bench.tasks.inverse.closures import amplitude_closures, phase_closures, wrapped
from scipy.stats import chi2, kstest, multivariate_normal

import mira_bench as mb
from mira_bench.inference.diffusion.observed import Observed

PROBLEM = Closures()
OPERATOR = PROBLEM.operator()
P, Q = len(OPERATOR.phases), len(OPERATOR.amplitudes)


def image(seed, count=1):
    return torch.tensor(black_holes(count, np.random.default_rng(seed)), dtype=torch.float64)


def measured(y, seed):
    return torch.tensor(PROBLEM.measure(y.numpy(), np.random.default_rng(seed)), dtype=torch.float64)


def visibilities(y):
    real, imaginary = OPERATOR.visibilities(y)
    return (real + 1j * imaginary).numpy()


def test_as_many_closures_as_are_independent():
    coverage = TelescopeArray().coverage()
    variance = np.random.default_rng(0).uniform(1, 2, len(coverage))
    phases, amplitudes = phase_closures(coverage, variance), amplitude_closures(coverage, variance)
    for scan in range(16):
        here = coverage.scan == scan
        n = len({*coverage.first[here], *coverage.second[here]})
        assert here.sum() == n * (n - 1) // 2
        mine = [matrix[:, here][matrix[:, here].any(axis=1)] for matrix in (phases, amplitudes)]
        assert [len(m) for m in mine] == [(n - 1) * (n - 2) // 2, n * (n - 3) // 2]
        assert [np.linalg.matrix_rank(m) for m in mine] == [len(m) for m in mine]
    assert {tuple(np.unique(row[row != 0], return_counts=True)[1]) for row in phases} == {(1, 2)}
    assert {tuple(np.unique(row[row != 0], return_counts=True)[1]) for row in amplitudes} == {(2, 2)}


def test_closures_of_what_is_left():
    # Without one pair of stations, one triangle less is independent, and no loop goes through it.
    full = TelescopeArray(scans=1).coverage()
    n = len({*full.first, *full.second})
    kept = np.ones(len(full), bool)
    kept[2] = False
    coverage = full.only(kept)
    assert len(phase_closures(coverage, np.ones(len(coverage)))) == (n - 1) * (n - 2) // 2 - 1
    assert len(amplitude_closures(coverage, np.ones(len(coverage)))) == n * (n - 3) // 2 - 1


def test_the_curvature_is_that_of_the_likelihood():
    images = black_holes(6, np.random.default_rng(3)).reshape(6, -1).astype(np.float64)
    operator = OPERATOR.restricted(images)
    x = measured(image(4), 5)
    for middle in (torch.full((1, 6), 1 / 6, dtype=torch.float64), torch.eye(6, dtype=torch.float64)[:1]):
        seen = Observed(operator, x, middle)
        hessian = torch.autograd.functional.hessian(lambda z, one=seen: one.log_likelihood(z[None]).sum(), middle[0])
        values = torch.linalg.eigvalsh(hessian).abs().sort().values
        # Thirty products leave the second largest, to its ratio to the power of sixty.
        assert seen.curvature == pytest.approx(float(values[-1]), rel=6 * float(values[-2] / values[-1]) ** 58 + 1e-9)


def test_closures_are_what_they_are_called():
    y, coverage = image(0), PROBLEM.coverage
    v, closures = visibilities(y)[0], OPERATOR.forward(y)[0].numpy()
    where = {key: m for m, key in enumerate(zip(coverage.scan, coverage.first, coverage.second, strict=True))}
    for row, phase in zip(OPERATOR.phases.numpy(), closures[:P], strict=True):
        used = np.flatnonzero(row)
        a, b, c = sorted({*coverage.first[used], *coverage.second[used]})
        scan = coverage.scan[used[0]]
        one, two, three = (where[(scan, *pair)] for pair in ((a, b), (b, c), (a, c)))
        assert abs(np.exp(1j * phase) - np.exp(1j * np.angle(v[one] * v[two] * v[three].conj()))) < 1e-9
    for row, value in zip(OPERATOR.amplitudes.numpy(), closures[P:-1], strict=True):
        assert abs(value - np.log(np.abs(v[row > 0]).prod() / np.abs(v[row < 0]).prod())) < 1e-9
        stations = [sorted([*coverage.first[row == sign], *coverage.second[row == sign]]) for sign in (1, -1)]
        assert stations[0] == stations[1]
    assert abs(closures[-1] - y.mean().item() / 0.1) < 1e-12  # the flux, in Jy
    assert np.abs(closures[:P]).max() <= np.pi


def test_gains_and_phases_cancel():
    rng, coverage = np.random.default_rng(1), PROBLEM.coverage
    v = visibilities(image(1, 5))
    stations = np.exp(rng.normal(size=(5, 16, 8)) + 1j * rng.uniform(0, 2 * np.pi, (5, 16, 8)))
    spoiled = v * stations[:, coverage.scan, coverage.first] * stations[:, coverage.scan, coverage.second].conj()
    before, after = (OPERATOR.closures(torch.tensor(w.real), torch.tensor(w.imag)) for w in (v, spoiled))
    away = before - after
    assert wrapped(away[:, :P]).abs().max() < 1e-10
    assert away[:, P:].abs().max() < 1e-10
    x = [Closures(gain_spread=spread, noise=1e-6, limit=1e3).measure(image(1).numpy(), rng)[0] for spread in (0, 1.0)]
    used = len(Closures(noise=1e-6, limit=1e3).operator().phases)
    assert wrapped(torch.tensor(x[0] - x[1]))[:used].abs().max() < 1e-3


def test_signal_to_noise_is_above_the_limit():
    y = image(2, 500)
    x = measured(y, 3)
    snr = x[:, OPERATOR.measurements :].numpy()
    np.testing.assert_allclose(
        np.median(snr), np.median(np.abs(visibilities(y)) / (0.25 * PROBLEM.coverage.sigma)), rtol=0.1
    )
    # Of each visibility, one in a hundred black holes may be below, within four standard errors of both sets.
    below = (np.abs(visibilities(y)) / (0.25 * PROBLEM.coverage.sigma) < 10).mean(axis=0)
    assert below.max() < 0.01 + 4 * np.sqrt(0.01 * (1 / 500 + 1 / 200))


def test_residuals_of_the_truth_are_standard_normal():
    repeats = 400
    y = image(4)
    given = OPERATOR.given(measured(y.expand(repeats, -1, -1, -1), 5))
    white = given.residuals(y).numpy()
    assert np.abs(white.mean(axis=0)).max() < 4.5 / np.sqrt(repeats)  # the largest of many
    assert abs(white.mean()) < 4 / np.sqrt(white.size)
    assert abs(np.square(white).mean() - 1) < 4 * np.sqrt(2 / white.size)
    covariance = np.cov(white.T)
    off = covariance[~np.eye(len(covariance), dtype=bool)]
    assert abs(np.square(off).mean() * repeats - 1) < 0.05  # no correlation is left
    count = OPERATOR.measurements
    misfit = given.misfit(y).numpy()
    assert kstest(count * misfit, chi2(count).cdf).pvalue > 1e-4
    assert abs(misfit.mean() - 1) < 4 * np.sqrt(2 / count / repeats)


def test_residuals_of_many_images():
    y = image(6, 300)
    misfit = OPERATOR.misfit(y, measured(y, 7))
    assert abs(misfit.mean() - 1) < 4 * np.sqrt(2 / OPERATOR.measurements / 300)
    assert OPERATOR.misfit(y, measured(y, 7).roll(1, 0)).min() > 5  # of other images


def test_the_likelihood_is_a_gaussian_of_correlated_errors():
    y = image(8)
    x = measured(y, 9)
    away = (x[:, : OPERATOR.measurements] - OPERATOR.forward(y))[0].numpy()
    away[:P] = np.angle(np.exp(1j * away[:P]))
    variance = np.diag(x[0, OPERATOR.measurements :].numpy() ** -2)
    total = 0.0
    for loops, part in ((OPERATOR.phases.numpy(), away[:P]), (OPERATOR.amplitudes.numpy(), away[P:-1])):
        total += multivariate_normal(cov=loops @ variance @ loops.T).logpdf(part)
    total += multivariate_normal(cov=0.05**2).logpdf(away[-1])
    assert abs(OPERATOR.log_likelihood(y, x).item() - total) < 1e-6


def test_gradients_are_finite_differences():
    y, x = image(10) + 0.01, measured(image(10), 11)
    y.requires_grad_()
    (gradient,) = torch.autograd.grad(OPERATOR.log_likelihood(y, x).sum(), y)
    rng = np.random.default_rng(12)
    for _ in range(5):
        step = torch.tensor(rng.standard_normal(y.shape)) * 1e-6
        with torch.no_grad():
            slope = (OPERATOR.log_likelihood(y + step, x) - OPERATOR.log_likelihood(y - step, x)) / 2
        assert abs(slope.item() - (gradient * step).sum().item()) < 1e-4 * (gradient.norm() * step.norm()).item()


@pytest.mark.parametrize("rows", [1, 3])
def test_the_gradient_by_hand_is_that_of_the_likelihood(rows):
    y = (0.9 * image(10, 3) + 0.1 * image(12, 3)).requires_grad_()
    given = OPERATOR.given(measured(image(10, rows), 11))
    (expected,) = torch.autograd.grad(given.log_likelihood(y).sum(), y)
    found = given.gradient(y.detach())
    assert found.shape == y.shape
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10 * float(expected.abs().max()))


def test_all_that_is_measured_of_an_image_is_in_the_basis():
    y, basis = image(19, 5), OPERATOR.basis
    inside = OPERATOR.restricted(basis.vectors.numpy())
    coordinates = basis.along(y)
    assert coordinates.shape[1] < y[0].numel() / 5
    x = measured(y, 20)
    torch.testing.assert_close(inside.forward(coordinates), OPERATOR.forward(y), rtol=0, atol=1e-4)
    torch.testing.assert_close(inside.misfit(coordinates, x), OPERATOR.misfit(y, x), rtol=1e-3, atol=1e-3)


def test_slopes_are_derivatives_of_the_residuals():
    y = image(16, 2)
    given = OPERATOR.given(measured(y, 17))
    near = (0.98 * y + 0.02 * image(18, 2)).requires_grad_()
    found = given.slopes(near.detach())
    residuals = given.residuals(near)
    for row in (0, 40, 90, -1):
        (slope,) = torch.autograd.grad(residuals[:, row].sum(), near, retain_graph=True)
        assert torch.allclose(found[:, row], slope.flatten(1), rtol=1e-8, atol=1e-10 * float(slope.abs().max()))


def test_one_row_of_data_stands_for_all_images():
    y, x = image(13, 4), measured(image(14), 15)
    alone = torch.cat([OPERATOR.log_likelihood(y[i : i + 1], x) for i in range(4)])
    together = OPERATOR.log_likelihood(y, x)
    torch.testing.assert_close(alone, together, rtol=1e-10, atol=0)
    torch.testing.assert_close(OPERATOR.log_likelihood(y, x.expand(4, -1)), together, rtol=1e-10, atol=0)
    single = OPERATOR.given(x.float()).log_likelihood(y.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), together, rtol=1e-4, atol=0.1)


def test_chi2_of_inversebench():
    y, x = image(16, 200), measured(image(16, 200), 17)
    found = OPERATOR.chi2(y, x)
    v, closures, snr = visibilities(y[:1])[0], x[0].numpy(), x[0, OPERATOR.measurements :].numpy()
    sums = [0.0, 0.0]
    for k, row in enumerate(OPERATOR.phases.numpy()):
        error = np.sqrt((snr[row != 0] ** -2).sum())
        phase = np.angle(v[row > 0].prod() * v[row < 0].conj().prod())
        sums[0] += 2 * (1 - np.cos(closures[k] - phase)) / error**2 / P
    for k, row in enumerate(OPERATOR.amplitudes.numpy()):
        error = np.sqrt((snr[row != 0] ** -2).sum())
        sums[1] += ((closures[P + k] - row @ np.log(np.abs(v))) / error) ** 2 / Q
    np.testing.assert_allclose([values[0].item() for values in found.values()], sums, rtol=1e-6)
    for values in found.values():
        assert abs(values.mean() - 1) < 4 * values.std() / np.sqrt(200)


def test_every_closure_phase_follows_from_the_independent_ones():
    coverage = TelescopeArray(scans=1).coverage()
    phases = phase_closures(coverage, np.ones(len(coverage)))
    column = {pair: m for m, pair in enumerate(zip(coverage.first, coverage.second, strict=True))}
    for a, b, c in combinations(sorted({*coverage.first, *coverage.second}), 3):
        row = np.zeros(len(coverage))
        row[[column[a, b], column[b, c], column[a, c]]] = 1, 1, -1
        assert np.linalg.matrix_rank(np.vstack([phases, row])) == len(phases)


def test_what_cannot_be_is_refused():
    with pytest.raises(mb.UsageError, match="limit=1000"):
        Closures(limit=1000).operator()
    for keys in ({"flux_error": 0.0}, {"gain_spread": -1.0}, {"noise": 0.0}, {"limit": 0}):
        with pytest.raises(mb.UsageError, match=next(iter(keys))):
            Closures(**keys)
    with pytest.raises(mb.UsageError, match=r"data of shape \(2, 3\)"):
        OPERATOR.given(torch.zeros(2, 3))
    with pytest.raises(mb.UsageError, match=r"images of shape \(1, 32, 32\)"):
        PROBLEM.measure(np.zeros((1, 32, 32)), np.random.default_rng(0))
