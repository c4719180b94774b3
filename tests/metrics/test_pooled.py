r"""Pooled Kolmogorov-Smirnov distances: what is compared, and that a perfect candidate passes in spite of ties."""

import numpy as np
import pytest
from scipy import stats

import mira_bench as mb
from mira_bench.metrics import PooledSbc, SlicedDistances
from mira_bench.metrics.pooled import _compared
from mira_bench.ranks.scaling import Scaling

LIMIT = 1.36 * np.sqrt(2)  # D at 5 %, times the root of the size of a pool


def block(truths, samples, reference=None, seed=0):
    draw = None if reference is None else lambda: reference
    return mb.metric.Block(truths, samples, np.arange(len(truths)), Scaling(truths), seed, reference=draw)


def test_the_printed_pvalues_are_those_of_two_pools():
    # 10, 50 and 100 projections of 300 fiducials: what the paper prints for D is what this test gives.
    for size, d, p in ((3000, 0.0227, 0.4240), (15000, 0.0062, 0.9336), (30000, 0.0047, 0.8980)):
        assert stats.kstwobign.sf(d * np.sqrt(size / 2)) == pytest.approx(p, abs=0.006)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=500), rng.normal(size=500)
    d, p = _compared(a, b)
    assert d == pytest.approx(max(abs(np.mean(a <= t) - np.mean(b <= t)) for t in np.concatenate([a, b])))
    assert p == pytest.approx(stats.kstwobign.sf(d * np.sqrt(250)), abs=0.02)


@pytest.mark.parametrize("metric", [PooledSbc(8, normalize="none"), PooledSbc(projections=8, normalize="none")])
def test_ranks_of_a_perfect_candidate_are_uniform_though_most_are_ties(metric, rng):
    def law(*shape):
        return np.maximum(rng.normal(size=(*shape, 12)), 0.0)  # half of all values are zero

    truths, exact, noisy = law(400), law(400, 20), 3 * law(400, 20)
    scores = [metric.reduce([metric.observe(block(truths, s))], Scaling(truths)) for s in (exact, noisy)]
    # Ranks of one fiducial are dependent: at the worst, as few are independent as there are fiducials.
    assert scores[0].score < 1.63 * np.sqrt(2 / 400)
    assert scores[1].score > 2 * scores[0].score
    assert scores[1].pvalue < 1e-6
    assert "400 x 8 ranks" in scores[0].note


def test_sliced_distances_are_what_they_say(rng):
    truths, samples, reference = rng.normal(size=(50, 6)), rng.normal(size=(50, 9, 6)), rng.normal(size=(50, 7, 6))
    metric = SlicedDistances(5, normalize="none")
    seen = block(truths, samples, reference)
    record = metric.observe(seen)
    from mira_bench.ranks.players import random_axes

    axes = random_axes(5, 6, 0)
    assert np.allclose(np.linalg.norm(axes, axis=1), 1)
    by_hand = [[np.mean([abs(a @ y - a @ t) for y in s]) for a in axes] for s, t in zip(samples, truths, strict=True)]
    assert np.allclose(record["own"], by_hand)
    wide = metric.observe(block(truths, 2 * samples, reference))
    close, far = (metric.reduce([one], seen.scaling) for one in (record, wide))
    assert far.score > close.score + 0.2
    assert close.score < 1.63 * np.sqrt(2 / 50)


def test_blocks_and_the_whole_agree(rng):
    truths, samples = rng.normal(size=(40, 6)), rng.normal(size=(40, 9, 6))
    metric = PooledSbc(projections=4, normalize="none")
    whole = metric.reduce([metric.observe(block(truths, samples))], Scaling(truths))
    parts = []
    for rows in (slice(0, 15), slice(15, 40)):
        part = mb.metric.Block(truths[rows], samples[rows], np.arange(40)[rows], Scaling(truths), 0)
        parts.append(metric.observe(part))
    assert metric.reduce(parts, Scaling(truths)).score == whole.score


def test_without_a_reference_it_says_so(rng):
    result = mb.score(rng.normal(size=(20, 3)), {"a": rng.normal(size=(20, 9, 3))}, metrics=["sliced_distances"])
    assert "no reference posterior" in result.summary.note[0]
    for wrong in (lambda: PooledSbc(0), lambda: PooledSbc(projections=-1), lambda: SlicedDistances(0)):
        with pytest.raises(mb.UsageError, match="needed"):
            wrong()
