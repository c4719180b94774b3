r"""The appendix's variant: its law, its test, and what it does not prove."""

import numpy as np
import pytest
from scipy import stats

import mira_bench as mb


def test_the_law_is_exact_for_uniform_ranks(rng):
    # One center per fiducial and many fiducials: q has the appendix's law, m (m + 1) / (S (S + 1)).
    result = mb.mira_sufficient(rng.normal(size=(20000, 2)), rng.normal(size=(20000, 9, 2)), regions=1, replicates=9)
    assert abs(result.score - result.expected) < 4 * result.stderr
    assert result.deviation < 4 * 0.5 / np.sqrt(10000)
    limit = mb.mira_sufficient(np.zeros((1, 1)), np.zeros((1, 2000, 1)), regions=1, replicates=1)
    assert np.allclose(limit.expected_cdf, stats.beta(2, 1).cdf(limit.values), atol=1e-3)


def test_it_is_algorithm_one_given_that_the_truth_is_inside(rng):
    truths, samples = rng.normal(size=(4000, 2)), 0.6 * rng.normal(size=(4000, 20, 2))
    result = mb.mira_sufficient(truths, samples, regions=4, replicates=1)
    ranks = mb.mira(truths, samples, regions=4).ranks
    n = rng.integers(20, size=ranks.shape)
    q = ((n + 1) / 21)[n >= ranks]
    empirical = np.searchsorted(np.sort(q), result.values + 1e-9) / len(q)
    assert np.abs(empirical - result.cdf).max() < 4 * 0.5 / np.sqrt(len(q) / 4)  # four regions a fiducial


def test_pvalues_are_uniform_although_regions_are_correlated(rng):
    pvalues = [
        mb.mira_sufficient(
            rng.normal(size=(25, 2)), rng.normal(size=(25, 20, 2)), regions=16, seed=s, normalize="none", replicates=99
        ).pvalue
        for s in range(200)
    ]
    assert stats.kstest(pvalues, "uniform").pvalue > 6e-5


def test_power_and_what_it_does_not_prove(rng):
    truths = rng.normal(size=(300, 1))
    x = truths + 0.1 * rng.normal(size=(300, 1))
    narrow = x[:, None] / 1.01 + 0.06 * rng.normal(size=(300, 100, 1))
    assert mb.mira_sufficient(truths, narrow).pvalue == pytest.approx(1 / 200)
    prior = rng.normal(size=(300, 100, 1))  # knows nothing, and passes
    assert mb.mira_sufficient(truths, prior).pvalue > 0.01
    assert mb.mira_sufficient(truths, prior, centers="x(0.05)", x=x, normalize="none").pvalue == pytest.approx(1 / 200)


def test_as_a_metric(rng):
    truths, samples = rng.normal(size=(80, 2)), rng.normal(size=(80, 30, 2))
    row = mb.score(truths, {"a": samples}, metrics={"sufficient": mb.Sufficient()}).summary.iloc[0]
    direct = mb.mira_sufficient(truths, samples)
    assert row.score == pytest.approx(direct.score)
    assert row.pvalue == direct.pvalue
