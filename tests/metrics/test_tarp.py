import numpy as np
import pytest
from scipy import stats

import mira_bench as mb


def test_mira_is_a_functional_of_the_coverage(rng):
    # MIRA = 1/2 + S/(S+1) int (2a - 1) ECP(a) da, exactly: the curve is a step function of J / S.
    truths, samples = rng.normal(size=(80, 2)), 0.7 * rng.normal(size=(80, 40, 2))
    mira, tarp = mb.mira(truths, samples), mb.tarp(truths, samples)
    assert np.array_equal(mira.ranks, tarp.ranks)
    steps = np.arange(41) / 40
    coverage = np.array([(tarp.ranks / 40 <= a + 1e-12).mean() for a in steps])
    integral = sum(c * (b**2 - b - a**2 + a) for c, a, b in zip(coverage[:-1], steps[:-1], steps[1:], strict=True))
    assert mira.score == pytest.approx(0.5 + 40 / 41 * integral, abs=1e-12)


def test_a_perfect_candidate_is_covered(rng):
    inside, pvalues = [], []
    for seed in range(200):
        truths, samples = rng.normal(size=(60, 2)), rng.normal(size=(60, 50, 2))
        result = mb.tarp(truths, samples, seed=seed, regions=20, normalize="none")
        inside.append((result.lower[50] <= result.expected[50]) & (result.expected[50] <= result.upper[50]))
        pvalues.append(result.pvalue)
    assert abs(np.mean(inside) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 200)
    assert stats.kstest(pvalues, "uniform").pvalue > 6e-5


def test_an_overconfident_candidate_is_not(rng):
    x = 10 * rng.normal(size=(400, 2))
    truths, samples = x + rng.normal(size=(400, 2)), x[:, None] + 0.5 * rng.normal(size=(400, 100, 2))
    result = mb.tarp(truths, samples)
    assert result.pvalue < 1e-4
    assert (result.coverage[10:40] > result.levels[10:40]).all()  # too many truths in the inner
    assert (result.coverage[70:95] < result.levels[70:95]).all()  # and in the outer shells
    assert result.deviation > 4 * result.deviation_stderr


def test_curve_agrees_with_sbi(rng):
    r"""On the same references sbi's curve is ours."""
    torch = pytest.importorskip("torch")
    sbi_tarp = pytest.importorskip("sbi.diagnostics.tarp")
    from sbi.utils.metrics import l2

    truths, samples = rng.random((200, 3)), rng.random((200, 80, 3))
    ours = mb.tarp(truths, samples, regions=1, normalize="none")
    from mira_bench.ranks.centers import uniform_centers

    references = uniform_centers(0, 1, 3).draw(np.arange(200))[:, 0]
    coverage, levels = sbi_tarp._run_tarp(
        torch.tensor(samples).transpose(0, 1), torch.tensor(truths), torch.tensor(references),
        distance=l2, num_bins=40, z_score_theta=False,
    )  # fmt: skip
    mine = np.interp(levels.numpy(), ours.levels, ours.coverage)
    # Their grid has 40 bins and ours 100: the curves differ by at most what lies between two neighboring levels.
    assert np.abs(mine - coverage.numpy()).max() < 0.06
