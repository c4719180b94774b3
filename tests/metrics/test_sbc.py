import numpy as np
import pytest
from scipy import stats

import mira_bench as mb
from mira_bench.metrics.sbc import SbcResult


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


def test_projections_are_ranks_along_directions(rng):
    from mira_bench.ranks.players import random_axes
    from mira_bench.ranks.tables import marginal_axes

    truths, samples = rng.normal(size=(80, 3)), rng.normal(size=(80, 25, 3))
    truths[:40], samples[:40, :5] = 0.5, 0.5  # ties along every direction
    result = mb.sbc(truths, samples, projections=4, seed=3, normalize="none")
    axes = random_axes(4, 3, 3)
    assert np.allclose(np.linalg.norm(axes, axis=1), 1)
    below = ((samples - truths[:, None]) @ axes.T < 0).sum(1)
    assert np.array_equal(result.ranks[:, :3], mb.sbc(truths, samples, seed=3).ranks)
    assert np.array_equal(result.ranks[40:, 3:], below[40:])
    extra = result.ranks[:40, 3:] - below[:40]
    assert extra.min() == 0
    assert extra.max() == 5
    alone = mb.sbc(truths, samples, marginals=False, projections=4, seed=3, normalize="none")
    assert np.array_equal(alone.ranks, result.ranks[:, 3:])
    assert result.labels(["a", "b", "c"]) == ["a", "b", "c", *(f"projection {i}" for i in range(4))]
    # The calibration test takes the same directions where it cannot take all dimensions.
    assert np.array_equal(marginal_axes(40, 3), random_axes(16, 40, 3))
    with pytest.raises(mb.UsageError, match="nothing to rank"):
        mb.Sbc(marginals=False)
    with pytest.raises(mb.UsageError, match="projections=-1"):
        mb.sbc(truths, samples, projections=-1)


def test_projections_see_a_wrong_correlation_and_marginals_do_not(rng):
    noise = rng.normal(size=(500, 101, 2))
    points = noise @ np.linalg.cholesky([[1, 0.9], [0.9, 1]]).T
    truths, samples = points[:, 0], noise[:, 1:]  # the candidate has the right marginals and no correlation
    result = mb.sbc(truths, samples, projections=8)
    assert result.pvalues[:2].min() > 1e-3
    assert result.pvalue < 1e-6
    assert result.pvalue == pytest.approx(result.adjusted.min()) == pytest.approx(10 * result.pvalues.min())
    assert result.statistics[2:].max() > result.pooled


def test_the_pooled_distance_is_that_of_all_projections(rng):
    truths, samples = rng.normal(size=(400, 5)), 0.8 * rng.normal(size=(400, 999, 5))
    result = mb.sbc(truths, samples, projections=6)
    u = (result.ranks[:, 5:].ravel() + 0.5) / 1000
    assert result.pooled == pytest.approx(stats.kstest(u, "uniform").statistic, abs=2e-3)
    metric = mb.score(truths, {"a": samples}, metrics={"sbc": mb.Sbc(projections=6)}).summary.iloc[0]
    assert f"not independent: {result.pooled:.4f}" in metric.note
    assert "5 dimensions and 6 projections" in metric.note
    assert metric.pvalue == result.pvalue


@pytest.mark.parametrize("bins", [None, 7, 500])
def test_histograms_and_their_bands(rng, bins):
    repeats, fiducials, samples = 300, 200, 24
    outside, any_outside = [], []
    for seed in range(repeats):
        ranks = rng.integers(0, samples + 1, size=(fiducials, 2)).astype(np.int32)
        result = SbcResult(ranks, samples, seed)
        one, all_ = (result.histogram(bins, simultaneous=s) for s in (False, True))
        assert one.counts.sum(axis=0).tolist() == [fiducials, fiducials]
        outside.append((one.counts[:, 0] < one.lower) | (one.counts[:, 0] > one.upper))
        any_outside.append(((all_.counts[:, 0] < all_.lower) | (all_.counts[:, 0] > all_.upper)).any())
    assert len(one.lower) == {None: 10, 7: 7, 500: 25}[bins]
    assert one.expected.sum() == pytest.approx(fiducials)
    assert [np.sum((ranks[:, 1] >= a) & (ranks[:, 1] < b)) for a, b in zip(one.edges, one.edges[1:], strict=False)] == (
        one.counts[:, 1].tolist()
    )
    # Counts are integers, so that a band of 95 % covers at least that much.
    assert np.mean(outside) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / repeats / len(one.lower))
    assert np.mean(any_outside) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / repeats)
    assert np.mean(outside) > 0.01
    with pytest.raises(mb.UsageError, match="bins=0"):
        result.histogram(0)


def test_the_figure_has_a_panel_per_candidate_and_dimension(rng):
    from mira_bench.report.figures import sbc_histograms

    truths = rng.normal(size=(60, 3))
    candidates = {"good": rng.normal(size=(60, 30, 3)), "narrow": 0.4 * rng.normal(size=(60, 30, 3))}
    figure = sbc_histograms(mb.score(truths, candidates, metrics={"sbc": mb.Sbc()}, names=["a", "b", "c"]))
    assert len(figure.axes) == 6
    assert [axes.get_title() for axes in figure.axes[:3]] == ["a", "b", "c"]
    assert [figure.axes[i].get_ylabel() for i in (0, 3)] == ["good", "narrow"]
    many = sbc_histograms(mb.score(truths, candidates, metrics={"sbc": mb.Sbc(projections=9)}))
    assert len(many.axes) == 12
    assert "6 with the smallest p of 12" in many.get_suptitle()


@pytest.mark.parametrize(("fiducials", "samples"), [(40, 19), (300, 100)])
def test_the_band_of_ecdfs_holds_whole_curves(rng, fiducials, samples):
    repeats = 400
    ranks = rng.integers(0, samples + 1, size=(fiducials, repeats)).astype(np.int32)
    curves = SbcResult(ranks, samples).ecdf()
    inside = (curves.difference >= curves.lower[:, None] - 1e-12) & (curves.difference <= curves.upper[:, None] + 1e-12)
    share = inside.all(axis=0).mean()
    # Counts are whole, so the band holds a little more than it must.
    assert 0.95 - 4 * np.sqrt(0.05 * 0.95 / repeats) < share < 0.995
    assert np.allclose(curves.difference[[0, -1]], 0)


def test_ecdfs_of_narrow_samples_leave_the_band(rng):
    truths = rng.normal(size=(300, 1))
    curves = mb.sbc(truths, 0.6 * rng.normal(size=(300, 99, 1))).ecdf()
    low, high = curves.levels < 0.3, curves.levels > 0.7
    assert (curves.difference[low, 0] > curves.upper[low]).any()
    assert (curves.difference[high, 0] < curves.lower[high]).any()
