from itertools import permutations

import numpy as np
import pytest
from scipy import special, stats
from toy_targets import Sources

from mira_bench.inference import moves
from mira_bench.inference.target import UnitCube


@pytest.mark.parametrize(
    ("mean", "deviation"), [(0.3, 0.2), (0.9, 5.0), (-3.0, 0.4), (40.0, 0.5), (-1e4, 2.0), (0.5, 1e-4)]
)
def test_truncated_normal(rng, mean, deviation):
    draws = moves.truncated_normal(np.full(20000, mean), np.full(20000, deviation), rng)
    assert ((draws >= 0) & (draws <= 1)).all()
    exact = stats.truncnorm(-mean / deviation, (1 - mean) / deviation, mean, deviation)
    assert stats.kstest(draws, exact.cdf).pvalue > 1e-4


@pytest.mark.parametrize("beta", [0.2, 1.0])
def test_gibbs_draws_from_the_posterior_of_the_linear_coordinates(rng, beta):
    # With positions and width fixed, the posterior of the intensities is a normal law cut to a cube: on a grid.
    target, truth = Sources.observed(rng)
    side = 60
    axis = 0.5 + 1.5 * (np.arange(side) + 0.5) / side
    grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    points = np.repeat(truth[None], len(grid), axis=0)
    points[:, target.linear] = grid
    weights = special.softmax(beta * target.log_likelihood(points))
    exact = weights @ grid
    square = (weights * grid.T) @ grid

    cube = UnitCube(target)
    u = np.repeat(cube.from_physical(truth)[None], 4000, axis=0)
    for _ in range(20):
        u = moves.gibbs(cube, u, rng, beta)
    draws = cube.to_physical(u)
    rest = np.setdiff1d(np.arange(7), target.linear)
    assert np.allclose(draws[:, rest], truth[rest], rtol=1e-12)
    draws = draws[:, target.linear]
    assert (np.abs(draws.mean(axis=0) - exact) < 4 * draws.std(axis=0) / np.sqrt(4000)).all()
    products = draws[:, :, None] * draws[:, None]
    # The grid of midpoints knows second moments to the square of its spacing.
    tolerance = 4 * products.std(axis=0) / np.sqrt(4000) + (1.5 / side) ** 2
    assert (np.abs(products.mean(axis=0) - square) < tolerance).all()


def test_gibbs_where_the_likelihood_does_not_depend_on_an_intensity(rng):
    class Dark(Sources):
        def linear_terms(self, theta):
            return np.zeros((len(theta), 3, 3)), np.zeros((len(theta), 3))

    cube = UnitCube(Dark(np.zeros(24)))
    u = moves.gibbs(cube, rng.random((5000, 7)), rng)
    assert min(stats.kstest(u[:, i], "uniform").pvalue for i in cube.linear) > 1e-4


class Ring:
    r"""A shared coordinate, then independent groups (angle, height): a periodic coordinate and one with walls."""

    def __init__(self, count):
        self.low, self.high = np.zeros(1 + 2 * count), np.ones(1 + 2 * count)
        self.periodic = np.array([False] + [True, False] * count)
        self.groups = 1 + np.arange(2 * count).reshape(count, 2)

    def log_likelihood(self, theta):
        angle, height = theta[:, self.groups[:, 0]], theta[:, self.groups[:, 1]]
        return (2 * np.cos(2 * np.pi * (angle - 0.1)) - 3 * height).sum(axis=1)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("beta", [0.01, 1.0])
def test_relocation_leaves_the_law_invariant(rng, count, beta):
    walkers = 20000
    cube = UnitCube(Ring(count))
    angles, heights = cube.groups.T
    height = stats.truncexpon(3 * beta, scale=1 / (3 * beta))
    angle = stats.vonmises(2 * beta, scale=1 / (2 * np.pi))
    before = rng.random((walkers, cube.dim))
    before[:, heights] = height.rvs((walkers, count), random_state=rng)
    before[:, angles] = (0.1 + angle.rvs((walkers, count), random_state=rng)) % 1
    u, log_likelihood = before, cube.log_likelihood(before)
    for _ in range(8):
        u, log_likelihood, acceptance = moves.relocate(cube, u, log_likelihood, rng, beta)
        assert 0.05 < acceptance < 1
    assert np.allclose(log_likelihood, cube.log_likelihood(u), rtol=1e-12)
    assert np.array_equal(u[:, 0], before[:, 0])
    assert (u != before).any(axis=1).mean() > 0.5
    for i in range(count):
        assert stats.kstest(u[:, heights[i]], height.cdf).pvalue > 1e-4
        assert stats.kstest((u[:, angles[i]] + 0.4) % 1 - 0.5, angle.cdf).pvalue > 1e-4
    # The groups stay independent, though each is drawn beside the others.
    waves = np.exp(2j * np.pi * u[:, angles])
    waves -= waves.mean(axis=0)
    for i in range(count):
        for j in range(i):
            assert abs(np.mean(waves[:, i] * waves[:, j].conj())) < 4 / np.sqrt(walkers)


def test_the_proposal_density_is_normalized(rng):
    periodic = np.array([True, False])
    centers = np.array([[[0.02, 0.99], [0.6, 0.3]]])
    points = rng.random((400_000, 2))
    density = np.exp(moves._log_density(points, centers, periodic))
    assert abs(density.mean() - 1) < 4 * density.std() / np.sqrt(len(points))
    # And it is that of the draws: the mass of a small box beside the first center, around the seam and the corner.
    drawn = moves._near(np.repeat(centers[0, :1], 100_000, axis=0), periodic, rng)

    def beside(p):
        return (np.abs((p[:, 0] - 0.02 + 0.5) % 1 - 0.5) < 0.05) & (p[:, 1] > 0.9)

    mass = (2 * np.exp(moves._log_density(points, centers[:, :1], periodic)) - 1) * beside(points)
    inside = beside(drawn)
    error = np.hypot(mass.std() / np.sqrt(len(points)), inside.std() / np.sqrt(len(drawn)))
    assert abs(mass.mean() - inside.mean()) < 4 * error


def test_permutations_are_uniform_and_keep_the_likelihood(rng):
    target, _ = Sources.observed(rng)
    cube = UnitCube(target)
    u = np.repeat(rng.random((1, 7)), 6000, axis=0)
    shuffled = moves.permute(u, cube.groups, rng)
    assert np.allclose(cube.log_likelihood(shuffled), cube.log_likelihood(u), rtol=1e-12)
    counts = [
        (shuffled[:, cube.groups] == u[0, cube.groups[list(order)]]).all(axis=(1, 2)).sum()
        for order in permutations(range(3))
    ]
    assert sum(counts) == 6000
    assert stats.chisquare(counts).pvalue > 1e-4


def test_symmetrized_is_the_mean_over_permutations(rng):
    groups = np.array([[5, 1], [0, 7], [3, 4]])
    root = rng.standard_normal((8, 8))
    matrix = root @ root.T
    mean = np.zeros((8, 8))
    for order in permutations(range(3)):
        index = np.arange(8)
        index[groups] = groups[list(order)]
        mean += matrix[np.ix_(index, index)] / 6
    assert np.allclose(moves.symmetrized(matrix, groups), mean, rtol=1e-12)
    assert np.array_equal(moves.symmetrized(matrix, None), matrix)
    assert np.allclose(moves.symmetrized(matrix, groups[:1]), matrix, rtol=1e-12)
