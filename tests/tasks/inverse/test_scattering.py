r"""Scattering: Helmholtz's equation, reciprocity, units, and what waves do not see."""

import numpy as np
import pytest
import torch
from mira_bench.tasks.inverse import Scattering, cells
from mira_bench.tasks.inverse.scattering import green
from operator_checks import has_basis, has_white_noise, is_adjoint

import mira_bench as mb

SMALL = Scattering(size=16, transmitters=6, receivers=10)
WIDE = Scattering(size=12, transmitters=8, receivers=40)  # more data than pixels


def seen(problem, image):
    x = problem.operator().forward(torch.tensor(image[None], dtype=torch.float64))[0].numpy()
    return x[..., 0] + 1j * x[..., 1]


@pytest.mark.parametrize("problem", [SMALL, WIDE])
def test_the_operator_is_linear_algebra(problem):
    is_adjoint(problem.operator())
    has_basis(problem.operator())


def test_waves_solve_the_equation_of_helmholtz():
    # The Laplacian by nine points of fourth order, away from the source.
    wavelength, h, center = 0.2, 0.002, np.array([0.31, 0.17])
    weights = np.array([-1, 16, -30, 16, -1]) / 12 / h**2
    steps = np.arange(-2, 3) * h
    laplacian = sum(
        (weights * green(np.hypot(*(center[:, None] + np.outer(axis, steps))), wavelength)).sum() for axis in np.eye(2)
    )
    value = green(np.hypot(*center), wavelength)
    assert abs(laplacian + (2 * np.pi / wavelength) ** 2 * value) < 1e-5 * abs(laplacian)


def test_the_source_is_one():
    # The flux of the gradient out of a small circle is minus one: the source of the equation.
    r, h = 1e-4, 1e-6
    slope = (green(np.array(r + h), 0.2) - green(np.array(r - h), 0.2)) / (2 * h)
    assert abs(2 * np.pi * r * slope + 1) < 1e-3


def test_waves_go_out():
    r = np.linspace(3.0, 3.01, 50)
    phase = np.unwrap(np.angle(green(r, 0.2)))
    np.testing.assert_allclose(np.gradient(phase, r), 2 * np.pi / 0.2, rtol=1e-3)  # with a time of exp(-i w t)


def test_transmitters_and_receivers_change_places():
    problem = Scattering(size=16, transmitters=8, receivers=8)
    data = seen(problem, cells(1, np.random.default_rng(0), 16)[0])
    np.testing.assert_allclose(data, data.T, rtol=1e-10)


def test_data_are_a_plain_sum():
    image = cells(1, np.random.default_rng(1), 16)[0]
    data = seen(SMALL, image)
    side = (np.arange(16) - 7.5) / 16
    expected = np.zeros((6, 10), complex)
    for t in range(6):
        for r in range(10):
            from_, to = (2 * np.exp(2j * np.pi * k / n) for k, n in ((t, 6), (r, 10)))
            for row, y in enumerate(side):
                for column, x in enumerate(side):
                    ways = green(np.abs(np.array([from_, to]) - (x + 1j * y)), 0.3)
                    expected[t, r] += ways.prod() * image[0, row, column]
    ratio = data / expected
    np.testing.assert_allclose(ratio, ratio[0, 0].real, rtol=1e-6)


def test_a_turned_object_gives_turned_data():
    image = cells(1, np.random.default_rng(2))[0]
    problem = Scattering()
    turned = np.rot90(image, -1, axes=(1, 2)).copy()  # rows go up: counterclockwise
    np.testing.assert_allclose(seen(problem, turned), np.roll(seen(problem, image), (5, 15), axis=(0, 1)), atol=1e-6)


def test_noise_is_relative_to_a_typical_measurement():
    problem = Scattering()
    images = cells(300, np.random.default_rng(3))
    data = problem.operator().forward(torch.tensor(images)).flatten(1).square().mean(dim=1)
    # The references are 64 cells: the error of a mean of squares of both.
    spread = (data.std() / data.mean()) * np.sqrt(1 / 300 + 1 / 64)
    assert abs(data.mean() - 1) < 4 * spread
    has_white_noise(problem, images[0], 20)


def test_fine_detail_is_not_seen():
    size, problem = 32, Scattering()
    stripes = np.cos(np.pi * np.arange(size))  # every other pixel
    window = np.hanning(size)
    fine = torch.tensor((window[:, None] * window * stripes)[None, None])
    coarse = torch.tensor((window[:, None] * window)[None, None])
    gains = [problem.operator().forward(image).square().sum() for image in (fine, coarse)]
    assert gains[0] < 1e-4 * gains[1]


def test_half_a_wavelength_is_the_finest_that_is_seen():
    # Directions that are seen are as many as waves of a frequency below 2 / wavelength fit into the image, and some at
    # its edge: N + b sqrt(N), of which two wavelengths tell the first.
    counts = []
    for wavelength in (0.4, 0.2):
        squares = Scattering(wavelength=wavelength).operator().basis.squares
        counts.append((squares > 1e-3 * squares.max()).sum().item())
    waves = np.pi * (2 / np.array([0.4, 0.2])) ** 2
    slope, edge = np.linalg.solve(np.stack([waves, np.sqrt(waves)], axis=1), counts)
    assert 0.85 < slope < 1.15
    assert edge > 0


@pytest.mark.parametrize("keys", [{"radius": 0.7}, {"wavelength": 0.0}, {"receivers": 0}, {"noise": -1.0}])
def test_what_cannot_be_is_refused(keys):
    with pytest.raises(mb.UsageError, match=next(iter(keys))):
        Scattering(**keys)
