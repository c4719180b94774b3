r"""MIRA's laws: what the paper proves, what theory adds, and that the error bars are right."""

import sys

import numpy as np
import pytest
from scipy import stats

import mira_bench as mb
from mira_bench.ranks.players import region_score


def perfect(rng, fiducials, samples, dim):
    return rng.normal(size=(fiducials, dim)), rng.normal(size=(fiducials, samples, dim))


@pytest.mark.parametrize("samples", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("dim", [1, 2, 20])
@pytest.mark.parametrize("reference", ["all", "drawn"])
def test_a_perfect_candidate_scores_its_expectation(rng, samples, dim, reference):
    result = mb.mira(*perfect(rng, 2000, samples, dim), regions=5, reference=reference)
    assert result.expected == pytest.approx((2 * samples + 1) / (3 * (samples + 1)), abs=1e-15)
    assert abs(result.score - result.expected) <= 4 * result.stderr


@pytest.mark.parametrize("samples", [1, 4, 9])
def test_ranks_are_uniform(rng, samples):
    ranks = mb.mira(*perfect(rng, 5000, samples, 3), regions=1).ranks[:, 0]
    observed = np.bincount(ranks, minlength=samples + 1)
    assert stats.chisquare(observed).pvalue > 6e-5  # 4 sigma


def test_the_average_over_references_is_exact():
    # P(J) must equal the mean of Algorithm 1's statistic over all S references.
    for samples in (1, 2, 7, 50):
        for j in range(samples + 1):
            n = np.arange(samples)  # samples before the reference
            inside = n >= j
            algorithm = np.where(inside, n + 1, samples - n) / (samples + 1)
            assert region_score(np.array([j]), samples)[0] == pytest.approx(algorithm.mean(), abs=1e-14)
    all_ranks = np.arange(101)
    assert region_score(all_ranks, 100).mean() == pytest.approx(201 / 303, abs=1e-14)


def algorithm_one(rng, fiducials, samples, dim, width=1.0):
    r"""Algorithm 1 of the paper, literally: returns n, k and P for one region per fiducial."""
    y = rng.normal(size=(fiducials, dim))
    s = width * rng.normal(size=(fiducials, samples, dim))
    c = rng.random((fiducials, dim))
    distance = np.linalg.norm(s - c[:, None], axis=2)
    r = distance[:, 0]
    n = (distance[:, 1:] <= r[:, None]).sum(1)
    k = np.linalg.norm(y - c, axis=1) <= r
    count = samples - 1
    return n, k, np.where(k, n + 1, count - n + 1) / (count + 2)


def test_the_laws_of_the_paper(rng):
    samples = 11
    count = samples - 1  # the paper's N
    n, k, p = algorithm_one(rng, 40000, samples, 2)
    assert stats.chisquare(np.bincount(n, minlength=count + 1)).pvalue > 6e-5  # n is uniform on 0..N
    # The exact law of P_N: m / (N + 2) with probability 2 m / ((N + 1)(N + 2)), for m = 1..N+1.
    m = np.arange(1, count + 2)
    law = 2 * m / ((count + 1) * (count + 2))
    observed = np.bincount(np.rint(p * (count + 2)).astype(int), minlength=count + 2)[1:]
    assert law.sum() == pytest.approx(1)
    assert stats.chisquare(observed, law * len(p)).pvalue > 6e-5
    mean, second = (law * m).sum() / (count + 2), (law * m**2).sum() / (count + 2) ** 2
    assert mean == pytest.approx((2 * count + 3) / (3 * (count + 2)))
    assert abs(p.mean() - mean) < 4 * p.std() / np.sqrt(len(p))
    assert abs(p.var() - (second - mean**2)) < 4 * np.std((p - mean) ** 2) / np.sqrt(len(p))
    assert abs(k.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(p))


def test_the_limit_is_beta(rng):
    samples = 4000
    ranks = rng.integers(0, samples + 1, size=20000)
    n = rng.integers(0, samples, size=20000)
    p = np.where(n >= ranks, n + 1, samples - n) / (samples + 1)
    assert stats.kstest(p, stats.beta(2, 1).cdf).pvalue > 6e-5
    assert stats.beta(2, 1).var() == pytest.approx(1 / 18)
    assert region_score(np.arange(samples + 1), samples).var() == pytest.approx(1 / 180, rel=1e-3)


@pytest.mark.parametrize("width", [0.5, 1.0, 2.0])
def test_score_is_a_covariance(rng, width):
    # 1/2 + 2 Cov(lambda_n, lambda_k) in the limit of many samples, with masses known in closed form (d = 1).
    count = 200000
    c = rng.random(count)
    r = np.abs(width * rng.normal(size=count) - c)

    def mass(scale):
        return stats.norm.cdf((c + r) / scale) - stats.norm.cdf((c - r) / scale)

    n, k = mass(width), mass(1.0)
    values = 2 * (n - 0.5) * (k - k.mean())
    truths, samples = rng.normal(size=(4000, 1)), width * rng.normal(size=(4000, 400, 1))
    result = mb.mira(truths, samples, regions=50, normalize="none")
    finite = 0.5 + 400 / 401 * values.mean()
    error = np.hypot(result.stderr, values.std() / np.sqrt(count))
    # N / (N + 2) with N = S - 1 against S / (S + 1): the same at this size to 1e-5.
    assert abs(result.score - finite) < 4 * error + 1e-5


def test_over_and_underconfidence(rng):
    truths, samples = perfect(rng, 500, 200, 2)
    narrow, right, wide = (mb.mira(truths, w * samples) for w in (0.6, 1.0, 1.6))
    assert narrow.score < right.score < wide.score
    assert narrow.sigmas < -4 < 4 < wide.sigmas
    assert max(narrow.pvalue, wide.pvalue) < 1e-3 < right.pvalue


def test_bounds(rng):
    far = mb.mira(rng.normal(size=(300, 3)), 50 + rng.normal(size=(300, 100, 3)), normalize="none")
    assert far.score == pytest.approx(0.5, abs=1e-3)
    assert far.per_fiducial.min() >= 0.5
    # Disjoint supports do not force 1/2: two modes around the truth, no sample near it.
    truths = 0.01 * rng.normal(size=(500, 1))
    sides = np.sign(rng.normal(size=(500, 100, 1)))
    split = mb.mira(truths, sides + 0.01 * rng.normal(size=(500, 100, 1)), normalize="none")
    # Centers above 1/2 are closer to one mode than to the truth: half of the samples, P = 3/4; the others 1/2.
    assert split.score == pytest.approx(0.625, abs=0.01)
    assert split.per_fiducial.max() <= 0.75 + 1e-3


def test_agrees_with_mira_score(rng):
    r"""With the drawn reference and its division, mira-score's score within Monte-Carlo error."""
    mira_score = pytest.importorskip("mira_score")
    import torch

    truths, samples = rng.normal(size=(150, 3)), 0.7 * rng.normal(size=(150, 60, 3))
    ours = mb.mira(truths, samples, regions=400, reference="drawn", scale="reference", normalize="truths")
    torch.manual_seed(0)
    y, s = torch.tensor(truths).float(), torch.tensor(samples).float()[None]
    theirs, spread = mira_score.mira(y, s, num_runs=400, norm=True, disable_tqdm=True)
    # The truths and samples are the same: only centers and references differ, a spread per run over sqrt(runs).
    error = float(spread) / np.sqrt(400) * np.sqrt(2)
    assert abs(ours.score - float(theirs)) < 4 * error
    assert ours.expected == pytest.approx((2 * 60 + 1) / (3 * 60))
    everything = mb.mira(truths, samples, regions=400, scale="reference", normalize="truths")
    assert abs(everything.score - float(theirs)) < 4 * error


def test_identical_samples_never_fall_below_the_bound():
    result = mb.mira(np.zeros((20, 2)), np.ones((20, 30, 2)))
    assert result.score >= 0.5


def covered(rng, repeats, fiducials, samples, dim, shared=False):
    hits, pvalues = 0, []
    for seed in range(repeats):
        truths = rng.normal(size=(fiducials, dim))
        draws = rng.normal(size=(1 if shared else fiducials, samples, dim))
        result = mb.mira(
            truths,
            np.broadcast_to(draws, (fiducials, samples, dim)),
            regions=20,
            seed=seed,
            normalize="none",
            groups=np.zeros(fiducials) if shared else None,
            threads=1,
        )
        low, high = result.interval(0.95)
        hits += low <= result.expected <= high
        pvalues.append(result.pvalue)
    return hits / repeats, np.array(pvalues)


@pytest.mark.parametrize(
    ("fiducials", "samples", "dim", "shared"),
    [(6, 50, 2, False), (60, 30, 5, False), (6, 50, 2, True), (40, 30, 2, True)],
)
def test_intervals_cover_and_pvalues_are_uniform(rng, fiducials, samples, dim, shared, monkeypatch):
    monkeypatch.setattr(sys.modules["mira_bench.metrics.mira"], "REPLICATES", 999)  # steps far below what 400 can tell
    repeats = 400
    coverage, pvalues = covered(rng, repeats, fiducials, samples, dim, shared)
    assert abs(coverage - 0.95) < 4 * np.sqrt(0.95 * 0.05 / repeats)
    assert stats.kstest(pvalues, "uniform").pvalue > 6e-5


def test_shared_sets_widen_the_error(rng):
    r"""Fiducials that share one sample set are not independent: the naive error is too small."""
    scores, naive, ours = [], [], []
    for seed in range(150):
        truths = rng.normal(size=(200, 2))
        samples = np.broadcast_to(rng.normal(size=(1, 60, 2)), (200, 60, 2))
        result = mb.mira(truths, samples, regions=10, seed=seed, normalize="none", groups=np.zeros(200))
        scores.append(result.score)
        naive.append(np.std(result.per_fiducial, ddof=1) / np.sqrt(200))
        ours.append(result.stderr)
    true = np.std(scores, ddof=1)
    relative = 1 / np.sqrt(2 * 149)  # the standard error of a standard deviation
    assert np.mean(naive) < true * 0.75
    assert abs(np.mean(ours) / true - 1) < 4 * relative


def test_the_error_of_a_shared_set_needs_a_few_regions_of_many_fiducials(rng, monkeypatch):
    truths, samples = rng.normal(size=(1000, 3)), rng.normal(size=(1, 200, 3))
    few = mb.mira(truths, samples, regions=200).stderr  # 100 of the 200 regions are used
    # What half of the regions change is below what 200 samples know of a standard deviation: 1 in 20.
    monkeypatch.setattr(sys.modules["mira_bench.metrics.mira"], "SHARED_REGIONS", 10**9)
    assert few == pytest.approx(mb.mira(truths, samples, regions=200).stderr, rel=0.05)


def test_null_band_is_exact_and_the_papers_is_too_wide(rng):
    results = [mb.mira(*perfect(rng, 50, 40, 2), regions=30, seed=s, normalize="none") for s in range(300)]
    true = np.std([r.score for r in results], ddof=1)
    band = np.mean([r.null_stderr for r in results[:40]])
    assert abs(band / true - 1) < 4 / np.sqrt(2 * 299)
    assert results[0].paper_band > 3 * band


def test_bootstrap_and_paired_differences(rng):
    truths, samples = perfect(rng, 400, 60, 2)
    a, b = mb.mira(truths, samples), mb.mira(truths, 0.9 * samples)
    assert a.bootstrap(2000).std() == pytest.approx(a.stderr, rel=4 / np.sqrt(2 * 2000))
    difference, error = a.difference(b)
    assert difference == pytest.approx(a.score - b.score)
    assert error < 0.5 * np.hypot(a.stderr, b.stderr)  # same truths, same balls: most of the noise is common
    assert difference > 4 * error


def test_shared_centers_make_candidates_comparable(rng):
    truths, samples = perfect(rng, 30, 20, 2)
    assert np.array_equal(mb.mira(truths, samples).ranks, mb.mira(truths, samples[:, ::-1]).ranks)
    assert not np.array_equal(mb.mira(truths, samples).ranks, mb.mira(truths, samples, seed=1).ranks)


def test_one_fiducial(rng):
    result = mb.mira(rng.normal(size=(1, 2)), rng.normal(size=(1, 50, 2)))
    assert 0.5 <= result.score <= 0.75
    assert np.isnan(result.stderr)
    assert 0 < result.pvalue <= 1
    assert np.isnan(result.interval()[0])


@pytest.mark.parametrize(
    ("truths", "samples", "words"),
    [
        (np.zeros((3, 2)), np.zeros((4, 5, 2)), "4 fiducials"),
        (np.zeros((3, 2)), np.zeros((3, 5, 3)), "the truths ask for"),
        (np.zeros((3, 2)), np.zeros((3, 0, 2)), "no samples"),
        (np.zeros((0, 2)), np.zeros((0, 5, 2)), "at least one fiducial"),
        (np.zeros((3, 0)), np.zeros((3, 5, 0)), "size zero"),
        (np.full((3, 2), np.nan), np.zeros((3, 5, 2)), "truths is nan at index"),
        (np.zeros((3, 2)), np.array([["a"]]), "real numbers"),
        ([[1.0], [2.0, 3.0]], np.zeros((2, 5, 1)), "rectangular"),
        (np.zeros((3, 2), complex), np.zeros((3, 5, 2)), "real numbers"),
    ],
)
def test_bad_input_is_one_sentence(truths, samples, words):
    with pytest.raises(mb.UsageError, match=words):
        mb.mira(truths, samples)


def test_bad_settings_are_named(rng):
    pair = perfect(rng, 12, 5, 2)
    for setting in ({"regions": 0}, {"reference": "one"}, {"scale": "x"}, {"groups": [1, 2]}):
        with pytest.raises(mb.UsageError, match=next(iter(setting))):
            mb.mira(*pair, **setting)


def test_all_metrics_refuse_what_is_not_finite(rng):
    truths, samples = perfect(rng, 12, 5, 2)
    samples[3, 1, 0] = np.nan
    for metric in (mb.mira, mb.tarp, mb.sbc, mb.energy_score):
        with pytest.raises(mb.UsageError, match="fiducial 3, sample 1"):
            metric(truths, samples)
    with pytest.raises(mb.UsageError, match="level=95"):
        mb.mira(truths, rng.normal(size=(12, 5, 2))).interval(95)


def test_integer_and_constant_input(rng):
    truths = rng.integers(0, 6, size=(2000, 2))
    samples = rng.integers(0, 6, size=(2000, 20, 2))
    result = mb.mira(truths, samples, regions=10)
    assert abs(result.score - result.expected) < 4 * result.stderr  # ties and all
    truths, samples = perfect(rng, 200, 50, 3)
    truths[:, 1] = samples[:, :, 1] = 7.0
    result = mb.mira(truths, samples)
    assert abs(result.score - result.expected) < 4 * result.stderr


def test_the_null_of_blocks_without_its_fiducials(rng):
    r"""The null is found on the first 256 fiducials; a rescaling by the samples must not stumble over later blocks."""
    truths, samples = rng.normal(size=(450, 2)), rng.normal(size=(450, 20, 2))
    for normalize in ("joint", "pooled", "samples"):
        blocks = mb.score(truths, {"a": samples}, metrics={"mira": mb.Mira(regions=5, normalize=normalize)})
        if normalize != "pooled":
            whole = mb.mira(truths, samples, regions=5, normalize=normalize)
            assert blocks.standings[0].mira.score == pytest.approx(whole.score)
            assert blocks.standings[0].mira.null_stderr == pytest.approx(whole.null_stderr)
        assert blocks.standings[0].mira.null.count == 256
