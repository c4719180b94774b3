import numpy as np
import pytest
from scipy import stats

import mira_bench as mb


def test_ranks_are_counts(rng):
    truths, samples = rng.normal(size=(300, 4)), rng.normal(size=(300, 25, 4))
    result = mb.sbc(truths, samples)
    assert np.array_equal(result.ranks, (samples < truths[:, None]).sum(1))


def test_pvalues_are_uniform_and_corrected(rng):
    results = [mb.sbc(rng.normal(size=(50, 5)), rng.normal(size=(50, 19, 5)), seed=s) for s in range(200)]
    pvalues = np.concatenate([r.pvalues for r in results])
    assert stats.kstest(pvalues, "uniform").pvalue > 6e-5
    alarms = np.mean([r.pvalue < 0.05 for r in results])
    assert alarms < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 200)


def test_agrees_with_sbi(rng):
    sbc = pytest.importorskip("sbi.diagnostics.sbc")
    import torch

    truths, samples = rng.normal(size=(400, 3)), 0.6 * rng.normal(size=(400, 200, 3))
    ours = mb.sbc(truths, samples)
    theirs = sbc.check_uniformity_frequentist(torch.tensor(ours.ranks), 200)
    assert (ours.pvalues < 1e-3).all()
    assert (theirs.numpy() < 1e-3).all()


def test_shifted_and_narrow_are_seen_in_the_right_dimension(rng):
    truths, samples = rng.normal(size=(300, 3)), rng.normal(size=(300, 100, 3))
    samples[:, :, 1] += 1
    result = mb.sbc(truths, samples)
    assert result.statistics.argmax() == 1
    assert result.pvalues[1] < 1e-6 < min(result.pvalues[[0, 2]])
