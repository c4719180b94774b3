r"""Grayness: what the expected distance to a center of the cube depends on."""

import numpy as np
from mira_bench.tasks.mnist import Mnist
from mira_bench.tasks.mnist.grayness import Grayness, agreement


def test_the_expected_distance_is_a_constant_minus_the_grayness(rng):
    images = rng.random((5, 40))
    centers = rng.random((20000, 40))
    distances = np.sum((images[:, None] - centers) ** 2, axis=-1)
    error = distances.std(axis=1) / np.sqrt(len(centers))
    expected = 40 / 3 - Grayness().points(images)[:, 0]
    assert np.all(np.abs(distances.mean(axis=1) - expected) < 4 * error)
    low, high = Grayness().bounds(np.zeros(40), np.ones(40))
    assert (low[0], high[0]) == (0, 10)


def test_the_grayer_image_is_closer_to_most_centers(digits_folder, rng):
    images = Mnist(folder=str(digits_folder), per_digit=20).simulate(200, rng).truths
    pairs = np.array([(i, j) for i in range(60) for j in range(60, 120)])
    centers = rng.random((50, 784))
    found = agreement(images, centers, pairs)
    gray = Grayness().points(images)[:, 0]
    distances = np.linalg.norm(images[:, None] - centers, axis=-1)
    by_hand = np.mean([(distances[i] < distances[j]) == (gray[i] > gray[j]) for i, j in pairs])
    assert found == by_hand
    assert found > 0.6
