import math

import numpy as np
import pytest

import mira_bench as mb


def brute_force(truths, samples):
    first = np.linalg.norm(samples - truths[:, None], axis=2).mean(1)
    pairs = np.linalg.norm(samples[:, :, None] - samples[:, None], axis=3)
    count = samples.shape[1]
    return first - pairs.sum((1, 2)) / (2 * count * (count - 1))


@pytest.mark.parametrize("dim", [1, 3, 40])
@pytest.mark.parametrize("samples", [2, 3, 60])
def test_equals_brute_force(rng, dim, samples):
    truths, values = rng.normal(size=(10, dim)), rng.normal(size=(10, samples, dim))
    ours = mb.energy_score(truths, values, normalize="none").per_fiducial
    assert np.allclose(ours, brute_force(truths, values), rtol=1e-12)


def test_random_pairs_are_unbiased(rng):
    truths, values = rng.normal(size=(100, 2)), rng.normal(size=(100, 300, 2))
    difference = mb.energy_score(truths, values, normalize="none").per_fiducial - brute_force(truths, values)
    assert abs(difference.mean()) < 4 * difference.std() / np.sqrt(100)
    assert difference.std() < 0.01


@pytest.mark.parametrize("samples", [2, 50])
def test_fair_for_every_number_of_samples(rng, samples):
    # N(0, 1) against N(0, 1) in one dimension: E|X - X'| / 2 = 1 / sqrt(pi).
    result = mb.energy_score(rng.normal(size=(20000, 1)), rng.normal(size=(20000, samples, 1)), normalize="none")
    assert abs(result.score - 1 / math.sqrt(math.pi)) < 4 * result.stderr


def test_the_truth_wins(rng):
    truths, samples = rng.normal(size=(4000, 2)), rng.normal(size=(4000, 50, 2))
    right = mb.energy_score(truths, samples).per_fiducial
    for wrong in (0.7 * samples, 1.4 * samples, samples + 0.4):
        difference = mb.energy_score(truths, wrong).per_fiducial - right
        assert difference.mean() > 4 * difference.std() / np.sqrt(4000)


def test_skill(rng):
    x = rng.normal(size=(400, 2))
    truths = x + 0.3 * rng.normal(size=(400, 2))
    good = x[:, None] + 0.3 * rng.normal(size=(400, 60, 2))
    prior = math.sqrt(1.09) * rng.normal(size=(400, 60, 2))
    skilled, blind = mb.energy_score(truths, good), mb.energy_score(truths, prior)
    # Both terms scale with the width, so the skill is 1 - .3 / sqrt(1.09).
    assert abs(skilled.skill - (1 - 0.3 / math.sqrt(1.09))) < 4 * skilled.skill_stderr
    assert abs(blind.skill) < 4 * blind.skill_stderr
    assert skilled.informative
    assert not blind.informative


def test_one_sample_is_refused(rng):
    with pytest.raises(mb.UsageError, match="needs two"):
        mb.energy_score(rng.normal(size=(5, 2)), rng.normal(size=(5, 1, 2)))
