r"""MRI: the transform against a plain sum, the sampled lines, the coils, and the basis."""

import numpy as np
import pytest
import torch
from mira_bench.tasks.inverse import Mri, brains
from operator_checks import has_basis, has_white_noise, images, is_adjoint

import mira_bench as mb


@pytest.mark.parametrize("problem", [Mri(), Mri(size=15, coils=3, acceleration=2.0, seed=3)])
def test_the_operator_is_linear_algebra(problem):
    is_adjoint(problem.operator())
    has_basis(problem.operator())


@pytest.mark.parametrize("size", [12, 13])
def test_data_are_a_plain_fourier_sum(size):
    problem = Mri(size=size, acceleration=3.0)
    y = images(problem.operator(), 1)[0].numpy()
    place = np.arange(size) - size // 2
    expected = np.empty(problem.data)
    for j, coil in enumerate(problem.sensitivities):
        seen = coil * (y[0] + 1j * y[1])
        for l, line in enumerate(problem.lines):
            for k in range(size):
                wave = np.exp(-2j * np.pi * ((line - size // 2) * place[:, None] + (k - size // 2) * place) / size)
                value = (wave * seen).sum() / size
                expected[j, l, k] = value.real, value.imag
    np.testing.assert_allclose(problem.operator().forward(torch.tensor(y[None]))[0], expected, atol=1e-12)


def test_all_lines_of_all_coils_keep_the_image():
    operator = Mri(acceleration=1.0).operator()
    y = images(operator)
    assert (operator.gram(y) - y).abs().max() < 1e-12


def test_lines():
    problem = Mri(size=320)
    assert problem.data == (4, 80, 320, 2)
    assert {*range(147, 173)} <= set(problem.lines)  # 8 percent, around line 160
    assert len(set(problem.lines)) == 80
    counts = np.zeros(64)
    for seed in range(300):
        counts[Mri(size=64, seed=seed).lines] += 1
    assert (counts == 300).sum() == 5
    others = counts[counts < 300] / 300
    p = 11 / 59
    assert np.abs(others - p).max() < 4 * np.sqrt(p * (1 - p) / 300)
    assert np.array_equal(problem.lines, Mri(size=320, noise=0.1).lines)


def test_coils_surround_the_head():
    maps = Mri().sensitivities
    np.testing.assert_allclose(np.square(np.abs(maps)).sum(axis=0), 1)
    rows, columns = np.unravel_index(np.abs(maps).reshape(4, -1).argmax(axis=1), (32, 32))
    assert columns[0] == 31  # right, up, left, down
    assert rows[1] == 31
    assert columns[2] == 0
    assert rows[3] == 0
    # A quarter of a turn makes one coil of another.
    np.testing.assert_allclose(np.abs(np.rot90(maps[0], -1)), np.abs(maps[1]), atol=1e-12)
    steps = np.abs(np.diff(maps, axis=1)).max(), np.abs(np.diff(maps, axis=2)).max()
    assert max(steps) < 0.1


def test_noise():
    has_white_noise(Mri(), brains(1, np.random.default_rng(0))[0], 200)


@pytest.mark.parametrize(
    "keys",
    [{"acceleration": 16.0}, {"noise": 0.0}, {"coils": 0}, {"size": 32.5}, {"center": 2.0}],
)
def test_what_cannot_be_is_refused(keys):
    with pytest.raises(mb.UsageError, match=next(iter(keys))):
        Mri(**keys)


def test_other_layouts_are_refused():
    with pytest.raises(mb.UsageError, match=r"images of shape \(3, 32, 32, 2\)"):
        Mri().measure(np.zeros((3, 32, 32, 2)), np.random.default_rng(0))
