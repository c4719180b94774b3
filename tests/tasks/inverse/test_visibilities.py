r"""Visibilities: against a direct sum, their gains, units and noise."""

import numpy as np
import pytest
import torch
from mira_bench.tasks.inverse import TelescopeArray, Visibilities, black_holes
from mira_bench.tasks.inverse.black_hole import MICROARCSECOND, fourier
from mira_bench.tasks.inverse.phantoms import BRIGHTNESS
from operator_checks import has_basis, has_white_noise, is_adjoint

import mira_bench as mb

SMALL = Visibilities(TelescopeArray(scans=4), size=16)


def seen(problem, image):
    x = problem.operator().forward(torch.tensor(image[None], dtype=torch.float64))[0].numpy()
    return x[:, 0] + 1j * x[:, 1]


@pytest.mark.parametrize("problem", [SMALL, Visibilities(size=12)])
def test_the_operator_is_linear_algebra(problem):
    is_adjoint(problem.operator())
    has_basis(problem.operator())


def test_without_gains_data_are_a_direct_sum():
    problem = Visibilities(TelescopeArray(scans=4), size=16, gain_spread=0.0, flux=0.7)
    image = black_holes(1, np.random.default_rng(0), 16)[0].astype(float)
    coverage = problem.array.coverage()
    step = 120 / 16 * MICROARCSECOND
    data = seen(problem, image) * coverage.sigma
    for m in range(0, len(coverage), 7):
        total = 0
        for row in range(16):
            for column in range(16):
                east, north = -(column - 7.5) * step, (row - 7.5) * step
                wave = np.exp(-2j * np.pi * (coverage.u[m] * east + coverage.v[m] * north))
                total += 0.7 / (BRIGHTNESS * 256) * image[0, row, column] * wave
        assert abs(abs(data[m]) - abs(total)) < 1e-12
    # Stations have phases, whatever the spread of the gains.
    assert not np.allclose(np.angle(data), np.angle(fourier(coverage.u, coverage.v, 16, 120) @ image.ravel()))


def test_the_flux_is_at_the_origin():
    image = black_holes(1, np.random.default_rng(1))[0].astype(float)
    zero = np.zeros(1)
    np.testing.assert_allclose(fourier(zero, zero, 32, 120) @ image.ravel(), image.sum())
    # ALMA and APEX are so close that they see the total flux.
    problem = Visibilities(gain_spread=0.0)
    coverage = problem.array.coverage()
    near = (coverage.first == 0) & (coverage.second == 1)
    flux = image.mean() / BRIGHTNESS
    np.testing.assert_allclose(np.abs(seen(problem, image) * coverage.sigma)[near], flux, rtol=1e-5)


def test_visibilities_of_a_point_to_the_east():
    image = np.zeros((1, 8, 8))
    image[0, 3:5, 2] = 0.5  # a column left of the middle, by one and a half pixels
    east = 1.5 * 120 / 8 * MICROARCSECOND
    u = np.array([1e9, 2e9])
    np.testing.assert_allclose(fourier(u, 0 * u, 8, 120) @ image.ravel(), np.exp(-2j * np.pi * u * east), atol=1e-12)


def test_gains_are_those_of_the_stations():
    plain, gained = (Visibilities(gain_spread=spread) for spread in (0.0, 0.3))
    image = black_holes(1, np.random.default_rng(2))[0]
    coverage = plain.array.coverage()
    logarithm = np.log(np.abs(seen(gained, image) / seen(plain, image)))
    stations = np.zeros((len(coverage), 16 * 8))
    rows = np.arange(len(coverage))
    stations[rows, coverage.scan * 8 + coverage.first] = stations[rows, coverage.scan * 8 + coverage.second] = 1
    gains, *_ = np.linalg.lstsq(stations, logarithm, rcond=None)
    np.testing.assert_allclose(stations @ gains, logarithm, atol=1e-10)
    used = gains[stations.any(axis=0)]
    assert abs(used.std() - 0.3) < 4 * 0.3 / np.sqrt(2 * len(used))
    # The phases are uniform, and known: those of another seed are other ones.
    matrix = fourier(coverage.u, coverage.v, 32, 120)
    turns = seen(plain, image) / (matrix @ image.ravel().astype(float))
    turns /= np.abs(turns)
    assert abs(turns.mean()) < 4 / np.sqrt(len(used))
    assert not np.allclose(seen(plain, image), seen(Visibilities(gain_spread=0.0, seed=1), image))


def test_noise():
    has_white_noise(Visibilities(noise=2.0), black_holes(1, np.random.default_rng(3))[0], 100)


@pytest.mark.parametrize(
    "keys", [{"gain_spread": -0.1}, {"flux": 0.0}, {"field_of_view": 0.0}, {"size": 1}, {"noise": 0}]
)
def test_what_cannot_be_is_refused(keys):
    with pytest.raises(mb.UsageError, match=next(iter(keys))):
        Visibilities(**keys)
