import numpy as np
import pytest
from toy_targets import Circle, Gaussian, Mixture, Sources

from mira_bench.inference.target import UnitCube, unrolled


@pytest.mark.parametrize("target", [Gaussian(), Circle(), Mixture(), Sources.observed(np.random.default_rng(0))[0]])
def test_gradients_are_those_of_the_cube(rng, target):
    cube, shift = UnitCube(target), 1e-6
    u = rng.uniform(0.1, 0.9, (5, cube.dim))
    value, gradient = cube.gradient(u)
    assert np.allclose(value, cube.log_likelihood(u), rtol=1e-12)
    for i in range(cube.dim):
        e = shift * np.eye(cube.dim)[i]
        slope = (cube.log_likelihood(u + e) - cube.log_likelihood(u - e)) / (2 * shift)
        assert np.allclose(gradient[:, i], slope, rtol=1e-5, atol=1e-5)


def test_the_fisher_information_is_that_of_the_cube(rng):
    # For a normal likelihood it is minus the Hessian.
    cube, shift = UnitCube(Gaussian()), 1e-3
    u = rng.uniform(0.1, 0.9, (5, 2))
    for i in range(2):
        e = shift * np.eye(2)[i]
        slope = (cube.gradient(u + e)[1] - cube.gradient(u - e)[1]) / (2 * shift)
        assert np.allclose(cube.fisher(u)[:, i], -slope, rtol=1e-8)


def test_linear_terms_are_those_of_the_cube(rng):
    cube = UnitCube(Sources.observed(rng)[0])
    u = rng.random((5, 7))
    moved = u.copy()
    moved[:, cube.linear] = rng.random((5, 3))
    square, slope = cube.linear_terms(u)
    for_both = [
        np.einsum("wi,wi->w", slope, c) - 0.5 * np.einsum("wi,wij,wj->w", c, square, c)
        for c in (u[:, cube.linear], moved[:, cube.linear])
    ]
    assert np.allclose(for_both[1] - for_both[0], cube.log_likelihood(moved) - cube.log_likelihood(u), rtol=1e-9)


def test_units(rng):
    cube = UnitCube(Circle())
    u = rng.random((10, 2))
    theta = cube.to_physical(u)
    assert np.allclose(cube.from_physical(theta), u, rtol=1e-12)
    assert np.array_equal(cube.to_physical(np.ones((1, 2)))[0], Circle.high)


def test_unrolled(rng):
    u = np.column_stack([(0.97 + 0.02 * rng.standard_normal(1000)) % 1, rng.random(1000)])
    around = unrolled(u, np.array([True, False]))
    assert np.array_equal(around[:, 1], u[:, 1])
    assert abs(around[:, 0].mean()) < 1e-3
    assert around[:, 0].std() == pytest.approx(0.02, rel=4 / np.sqrt(2000))
