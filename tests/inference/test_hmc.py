import numpy as np
import pytest
from scipy import stats
from toy_targets import Circle, Gaussian

from mira_bench.inference.hmc import hmc, mass, trajectory
from mira_bench.inference.target import UnitCube

OBLIQUE = mass(np.array([[20.0, 14.0], [14.0, 15.0]]))


class Flat:
    def __init__(self, dim):
        self.low, self.high = np.zeros(dim), np.ones(dim)

    def log_likelihood(self, theta):
        return np.zeros(len(theta))

    def log_likelihood_gradient(self, theta):
        return np.zeros(len(theta)), np.zeros(theta.shape)


def energy(mass, v):
    return 0.5 * ((v @ mass.root) ** 2).sum(axis=1)


def phase(rng, walkers, mass):
    u = rng.random((walkers, len(mass.root)))
    return u, rng.standard_normal(u.shape) @ mass.inverse_root


def meets_walls(u, v, step, leapfrogs, periodic):
    straight = u + leapfrogs * step[:, None] * v
    return ((straight < 0) | (straight > 1))[:, ~periodic].any(axis=1)


@pytest.mark.parametrize("target", [Gaussian(), Circle()])
def test_a_trajectory_runs_backward_to_its_start(rng, target):
    cube = UnitCube(target)
    u, v = phase(rng, 200, OBLIQUE)
    step = rng.uniform(0.1, 0.5, 200)
    end, w, _, _, valid = trajectory(cube, u, v, step, OBLIQUE, 1.0, 8)
    start, back, _, _, _ = trajectory(cube, end, -w, step, OBLIQUE, 1.0, 8)
    assert valid.all()
    assert meets_walls(u, v, step, 8, cube.periodic).mean() > 0.5
    assert ((end >= 0) & (end <= 1)).all()
    assert np.allclose(start, u, atol=1e-9)
    assert np.allclose(back, -v, atol=1e-9)


def test_a_trajectory_keeps_volume(rng):
    # All the neighbors of a point in phase space go in one batch; the determinant is that of their differences.
    cube, shift = UnitCube(Gaussian()), 1e-6
    step = np.full(8, 0.4)
    for _ in range(20):
        u, v = phase(rng, 1, OBLIQUE)
        around = np.concatenate([u, v], axis=1) + shift * np.concatenate([np.eye(4), -np.eye(4)])
        end = np.concatenate(trajectory(cube, around[:, :2], around[:, 2:], step, OBLIQUE, 1.0, 5)[:2], axis=1)
        jacobian = (end[:4] - end[4:]) / (2 * shift)
        assert abs(abs(np.linalg.det(jacobian)) - 1) < 1e-6


def test_reflections_keep_the_energy_and_folding_does_not(rng):
    u, v = phase(rng, 500, OBLIQUE)
    step = np.full(500, 3.0)
    _, w, _, _, valid = trajectory(UnitCube(Flat(2)), u, v, step, OBLIQUE, 1.0, 1)
    assert valid.all()
    assert np.allclose(energy(OBLIQUE, w), energy(OBLIQUE, v), rtol=1e-12)
    # A coordinate that is folded back turns its own velocity around and no other.
    folded = np.where(np.floor(u + step[:, None] * v) % 2 == 0, v, -v)
    assert np.abs(energy(OBLIQUE, folded) - energy(OBLIQUE, v)).mean() > 0.1


def test_the_energy_error_falls_with_the_square_of_the_step(rng):
    cube = UnitCube(Gaussian())
    u, v = phase(rng, 300, OBLIQUE)
    inside = np.abs(u - 0.5).max(axis=1) < 0.2
    u, v = u[inside], 0.2 * v[inside]  # no walls: there the gradient jumps, and the order is lower
    errors = []
    for leapfrogs in (4, 8):
        step = np.full(len(u), 0.8 / leapfrogs)
        assert not meets_walls(u, v, step, leapfrogs, cube.periodic).any()
        _, w, first, last, _ = trajectory(cube, u, v, step, OBLIQUE, 1.0, leapfrogs)
        errors.append(np.abs(energy(OBLIQUE, w) - energy(OBLIQUE, v) - last + first).mean())
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize("dim", [2, 5])
def test_a_flat_likelihood_stays_uniform(rng, dim):
    root = rng.standard_normal((dim, dim))
    oblique = mass(12 * np.eye(dim) + 40 * root @ root.T)
    cube, u = UnitCube(Flat(dim)), rng.random((2000, dim)) ** 3
    for _ in range(20):
        u, _, acceptance = hmc(cube, u, oblique, 0.8, rng, leapfrogs=5)
        assert acceptance == pytest.approx(1, abs=1e-9)
    assert min(stats.kstest(column, "uniform").pvalue for column in u.T) > 1e-4
    pairs = np.corrcoef(u.T)[np.triu_indices(dim, 1)]
    assert np.abs(pairs).max() < 4 / np.sqrt(2000)


def test_walkers_out_of_control_stay_where_they_were(rng):
    class Steep(Flat):
        def log_likelihood_gradient(self, theta):
            return np.zeros(len(theta)), np.where(theta > 0.5, 1e300, np.nan)

    u = rng.random((50, 2))
    moved = hmc(UnitCube(Steep(2)), u, OBLIQUE, 0.5, rng)
    assert np.isfinite(moved.u).all()
    assert ((moved.u >= 0) & (moved.u <= 1)).all()
    away = (u > 0.5).any(axis=1)
    assert np.array_equal(moved.u[away], u[away])
