r"""The error of the energy score where fiducials share sample sets, and the paired test that uses it."""

import numpy as np
import pytest

import mira_bench as mb
from mira_bench.metrics import Energy
from mira_bench.metrics.shared_energy import shared_terms, shared_variance
from mira_bench.ranks.scaling import Scaling
from mira_bench.statistics import mean_stderr, paired_pvalue, separations

GROUPS, EACH, SAMPLES, DIM = 10, 10, 80, 2
LABELS = np.tile(np.arange(GROUPS), EACH)


def block(truths, sets):
    return mb.metric.Block(truths, sets[LABELS], np.arange(len(truths)), Scaling(truths), 0, groups=LABELS)


def observed(truths, sets):
    r"""The scores of the fiducials, and the variance of their mean that comes from the sets."""
    seen = block(truths, sets)
    found = Energy(normalize="none").observe(seen)
    return found["per_fiducial"], shared_variance([found])


@pytest.mark.parametrize("shift", [0.0, 1.0], ids=["right", "shifted"])
def test_two_candidates_of_one_law_differ_as_often_as_the_level_says(shift):
    rng = np.random.default_rng(5)
    repeats = 500
    told, naive, differences, variances, scores, errors = [], [], [], [], [], []
    for _ in range(repeats):
        truths = rng.normal(size=(GROUPS * EACH, DIM))
        pair = [observed(truths, shift + rng.normal(size=(GROUPS, SAMPLES, DIM))) for _ in range(2)]
        d = pair[0][0] - pair[1][0]
        sets = pair[0][1] + pair[1][1]
        told.append(paired_pvalue(d, rng, sets) < 0.05)
        naive.append(paired_pvalue(d, rng) < 0.05)
        differences.append(d.mean())
        variances.append(mean_stderr(d)[1] ** 2 + sets)
        scores.append(pair[0][0].mean())
        errors.append(mean_stderr(pair[0][0])[1] ** 2 + pair[0][1])
    band = 4 * np.sqrt(0.05 * 0.95 / repeats)
    assert abs(np.mean(told) - 0.05) < band
    if shift:
        assert np.mean(naive) > 0.05 + 2 * band  # that is what it was without the variance of the sets
    # The variances are unbiased, up to the rare one that is cut at zero.
    spread = 4 * np.sqrt(2 / repeats)
    assert abs(np.var(differences) / np.mean(variances) - 1) < spread
    assert abs(np.var(scores) / np.mean(errors) - 1) < spread


def test_it_adds_up_over_blocks_and_is_what_the_function_says(rng):
    truths, sets = rng.normal(size=(100, DIM)), rng.normal(size=(GROUPS, SAMPLES, DIM))
    whole = block(truths, sets)
    ruler = whole.scale("none")
    at_once = shared_variance([shared_terms(whole, ruler)])
    parts = []
    for rows in (slice(0, 33), slice(33, 100)):
        part = mb.metric.Block(
            truths[rows], sets[LABELS[rows]], np.arange(100)[rows], Scaling(truths), 0, groups=LABELS[rows]
        )
        parts.append(shared_terms(part, ruler))
    assert shared_variance(parts) == pytest.approx(at_once, rel=1e-9)
    result = mb.energy_score(truths, sets[LABELS], normalize="none")  # copies of a set are found
    assert result.shared_variance == pytest.approx(at_once, rel=1e-9)
    assert result.stderr == pytest.approx(np.hypot(mean_stderr(result.per_fiducial)[1], at_once**0.5))
    own = mb.energy_score(truths, rng.normal(size=(100, SAMPLES, DIM)), normalize="none")
    assert own.shared_variance is None


@pytest.mark.parametrize("count", [20, 100])
def test_extra_variance_weakens_all_pairs_as_it_does_one(count, rng):
    values = rng.normal(size=(2, count))
    values[1] += 1.0
    before = separations(values, np.random.default_rng(0))[0, 1]
    d = values[0] - values[1]
    for extra in (1e-4, 0.05, 10.0):
        after = separations(values, np.random.default_rng(0), np.array([extra, 0.0]))[0, 1]
        assert after >= before
        alone = paired_pvalue(d, np.random.default_rng(0), extra)
        assert after == pytest.approx(alone, abs=0.02)
        # The unit of the scores does not matter.
        other = separations(7 * values, np.random.default_rng(0), 49 * np.array([extra, 0.0]))[0, 1]
        assert other == pytest.approx(after, abs=1e-12)
    assert after > 0.3
    assert separations(values, np.random.default_rng(0), np.zeros(2))[0, 1] == before


def test_the_ranking_does_not_take_fiducials_of_one_set_for_independent():
    # One set of a wrong law for all truths: two draws of it are the same candidate twice.
    ties = []
    for seed in range(20):
        truths = np.random.default_rng(seed).normal(size=(100, 2))
        draw = np.random.default_rng(1000 + seed)
        sets = {name: 1 + draw.normal(size=(1, 60, 2)) for name in ("one", "two")}
        table = mb.score(truths, sets, metrics=["energy", "mira"], rank_by="energy").ranking
        ties.append(table.tied.iloc[1])
    assert ties.count("no") <= 1 + 4 * np.sqrt(20 * 0.05 * 0.95)
