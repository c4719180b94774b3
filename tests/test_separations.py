r"""Who is separated from whom, and in which order they stand: exact where it can be, and of the right level."""

from itertools import product

import numpy as np
import pytest

from mira_bench.ranking.tiers import succession
from mira_bench.ranking.trainings import components
from mira_bench.statistics import all_pairs, paired_pvalue, separations


def test_two_candidates_at_few_fiducials_are_compared_by_all_signs(rng):
    for count in (2, 5, 8):
        values = rng.normal(size=(2, count))
        d = values[0] - values[1]
        flips = [abs(np.dot(signs, d)) for signs in product((-1, 1), repeat=count)]
        brute = np.mean(np.array(flips) >= abs(d.sum()) * (1 - 1e-12))
        found = separations(values, rng)
        assert found[0, 1] == found[1, 0] == brute
        assert found[0, 0] == found[1, 1] == 1.0


def test_the_largest_of_all_pairs_is_compared_with_the_largest_of_all_pairs(rng):
    values = rng.normal(size=(3, 7)) + np.array([[0.0], [0.0], [1.5]])
    pairs = [(0, 1), (0, 2), (1, 2)]
    d = np.array([values[i] - values[j] for i, j in pairs])
    d /= np.sqrt(np.mean(d**2, axis=1, keepdims=True))
    largest = [np.abs(d @ np.array(signs)).max() for signs in product((-1, 1), repeat=7)]
    found = separations(values, rng)
    for (i, j), row in zip(pairs, d, strict=True):
        together = np.mean(np.array(largest) >= abs(row.sum()) * (1 - 1e-12))
        alone = paired_pvalue(row, rng)
        assert found[i, j] == pytest.approx(min(max(together, alone), 3 * alone, 1.0))


@pytest.mark.parametrize("fiducials", [8, 20, 32, 300, 5000])
def test_together_is_never_below_alone(rng, fiducials):
    shifts = np.linspace(0, 0.4, 6)[:, None]
    values = rng.normal(size=(1, fiducials)) + shifts + rng.normal(size=(6, fiducials))
    found = separations(values, rng)
    assert np.array_equal(found, found.T)
    for i in range(6):
        for j in range(i):
            flips = fiducials in range(14, 30)  # these are random signs, of another draw
            alone = paired_pvalue(values[i] - values[j], rng)
            assert found[i, j] >= alone - (4 * np.sqrt(alone / 9999) if flips else 1e-12)


@pytest.mark.parametrize("fiducials", [10, 32, 100])
def test_equals_are_seldom_separated_from_the_best_of_them(rng, fiducials):
    repeats, false = 200, 0
    for _ in range(repeats):
        # Skewed scores that share what is hard about a fiducial.
        values = rng.normal(size=(1, fiducials)) + rng.gamma(1, size=(10, fiducials))
        best = int(values.mean(axis=1).argmin())
        false += bool((separations(values, rng)[best] < 0.05).any())
    assert false / repeats < 0.05 + 4 * np.sqrt(0.05 * 0.95 / repeats)


def test_what_is_worse_is_separated(rng):
    values = rng.normal(size=(1, 100)) + np.array([[0.0], [0.0], [0.6]]) + 0.5 * rng.normal(size=(3, 100))
    found = separations(values, rng)
    assert max(found[0, 2], found[1, 2]) < 0.001
    assert found[0, 1] > 0.05


def test_many_fiducials_need_little_memory_and_say_the_same(rng, monkeypatch):
    values = rng.normal(size=(1, 1500)) + 0.02 * rng.normal(size=(6, 1)) + 0.5 * rng.normal(size=(6, 1500))
    signs = separations(values, rng)
    monkeypatch.setattr("mira_bench.statistics.MANY_FIDUCIALS", 1000)
    normal = separations(values, rng)
    assert np.abs(signs - normal).max() < 4 * np.sqrt(2 * 0.25 / 9999)
    assert np.isfinite(separations(rng.normal(size=(4, 50_000)), rng)).all()


def test_what_has_no_scores_is_not_compared(rng):
    values = rng.normal(size=(3, 40))
    values[1] = np.nan
    found = separations(values, rng)
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[0, 2])
    same = separations(np.stack([values[0], values[0]]), rng)
    assert (same == 1).all()
    tiny = separations(1e-200 * values[[0, 2]], rng)
    assert tiny[0, 1] == pytest.approx(found[0, 2], abs=0.03)
    assert separations(values[:, :1], rng)[0, 2] == 1.0
    assert all_pairs(0, lambda i, j: 0.0).shape == (0, 0)


@pytest.mark.parametrize("seed", range(100))
def test_nobody_stands_above_one_that_beats_it(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 9))
    trust = rng.integers(0, 4, size=count).tolist()
    scores = rng.normal(size=count)
    scores[rng.random(count) < 0.15] = np.inf
    pvalues = rng.uniform(0, 0.2, size=(count, count))
    pvalues = np.where(np.isfinite(scores)[:, None] & np.isfinite(scores), (pvalues + pvalues.T) / 2, np.nan)
    order = succession(trust, scores.tolist(), pvalues)
    assert sorted(order) == list(range(count))
    for place, i in enumerate(order):
        for j in order[place + 1 :]:
            assert not (pvalues[i, j] < 0.05 and scores[j] < scores[i])
            assert not (np.isinf(scores[i]) and np.isfinite(scores[j]))
    # The first is the most trusted of those that nobody beats.
    free = [i for i in range(count) if not ((pvalues[i] < 0.05) & (scores < scores[i])).any()]
    free = [i for i in free if np.isfinite(scores[i])] or list(range(count))
    assert trust[order[0]] == min(trust[i] for i in free)
    # Without p-values tiers come first, and scores decide within them.
    plain = succession(trust, scores.tolist(), None)
    known = [i for i in plain if np.isfinite(scores[i])]
    assert known == sorted(known, key=lambda i: (trust[i], scores[i]))


@pytest.mark.parametrize("networks", [2, 3, 5])
@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0])
def test_methods_that_are_equal_are_seldom_separated(rng, networks, spread):
    repeats, fiducials = 500, 100
    false = 0
    for _ in range(repeats):
        hard = rng.normal(size=(1, fiducials))
        lucky = spread / np.sqrt(fiducials) * rng.normal(size=(networks, 1))
        false += components(hard + lucky + rng.normal(size=(networks, fiducials))).pvalue < 0.05
    assert false / repeats < 0.06 + 4 * np.sqrt(0.06 * 0.94 / repeats)


def test_methods_that_differ_are_separated(rng):
    values = 0.5 + 0.05 * rng.normal(size=(3, 1)) + rng.normal(size=(3, 200))
    assert components(values).pvalue < 0.01
    assert components(np.zeros((3, 10))).pvalue == 1.0
    assert components(np.ones((3, 10))).pvalue == 0.0
