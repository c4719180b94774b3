r"""The first two moments against a reference posterior: brute force, the null, known errors, and what a run says."""

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.gaussian import Conjugate, ConjugateCandidate

import mira_bench as mb
from mira_bench.streams import fiducial_keys, generator

FEW = np.array([[2.0, 0.0, 0.0], [1.0, 0.5, 0.0]])  # three dimensions, of which two vary


def draw(rng, fiducials, count, scale=1.0):
    r"""Samples of posteriors whose widths differ by a factor of ten, and whose parameters differ too."""
    widths = np.geomspace(0.3, 3, fiducials)[:, None, None]
    return scale * widths * (rng.normal(size=(fiducials, count, 2)) @ FEW) + 7.0


def statistics(own, reference):
    v, w = (side.var(axis=0, ddof=1).sum() for side in (own, reference))
    off = np.sum((own.mean(axis=0) - reference.mean(axis=0)) ** 2)
    return 0.5 * np.log(v / w), (off - v / len(own) - w / len(reference)) / w


@pytest.mark.parametrize("dim", [2, 40])
def test_it_is_its_definition(rng, dim):
    samples, reference = rng.normal(size=(5, 9, dim)), 0.1 + 1.1 * rng.normal(size=(5, 12, dim))
    found = mb.moments(samples, reference, permutations=99, seed=4)
    pool = np.empty((5, 100, 2))
    keys = fiducial_keys(4, "moments", np.arange(5))
    for l in range(5):
        points = np.concatenate([samples[l], reference[l]])
        own = np.broadcast_to(np.arange(21) < 9, (99, 21)).astype(float)
        sides = [np.arange(21) < 9, *(generator(int(keys[l]), "permutations").permuted(own, axis=1) > 0)]
        pool[l] = [statistics(points[side], points[~side]) for side in sides]
    logs, squares = pool[:, 0].T
    assert found.per_fiducial == pytest.approx(np.exp(logs))
    assert found.square_errors == pytest.approx(squares)
    assert found.sd_ratio == pytest.approx(np.exp(logs.mean()))
    assert found.sd_ratio_stderr == pytest.approx(found.sd_ratio * logs.std(ddof=1) / np.sqrt(5))
    assert found.mean_error == pytest.approx(np.sqrt(max(squares.mean(), 0)))
    ratio, error = np.abs(pool[..., 0].mean(axis=0)), pool[..., 1].mean(axis=0)
    each = [[np.mean(one >= value) for value in one] for one in (ratio, error)]
    assert (found.sd_ratio_pvalue, found.mean_error_pvalue) == (each[0][0], each[1][0])
    both = np.minimum(*each)
    assert found.pvalue == np.mean(both <= both[0])


@pytest.mark.parametrize("counts", [(64, 64), (40, 60)])
def test_a_right_candidate_has_one_and_zero(rng, counts):
    samples, reference = (draw(rng, 500, count) for count in counts)
    found = mb.moments(samples, reference, permutations=0)
    assert abs(found.sd_ratio - 1) < 4 * found.sd_ratio_stderr
    squares = found.square_errors
    assert abs(squares.mean()) < 4 * squares.std(ddof=1) / np.sqrt(len(squares))
    assert found.mean_error < 4 * found.mean_error_stderr
    assert np.isnan([found.pvalue, found.sd_ratio_pvalue, found.mean_error_pvalue]).all()


@pytest.mark.parametrize(("counts", "dims"), [((12, 12), 3), ((6, 10), 3), ((5, 5), 40)])
def test_false_alarms(rng, counts, dims):
    pvalues = []
    for seed in range(200):
        samples, reference = (draw(rng, 4, count) for count in counts)
        if dims > 3:
            samples, reference = (np.repeat(one, dims, axis=2) for one in (samples, reference))
        found = mb.moments(samples, reference, permutations=99, seed=seed)
        pvalues.append([found.pvalue, found.sd_ratio_pvalue, found.mean_error_pvalue])
    for level in (0.05, 0.2):
        shares = np.mean(np.array(pvalues) <= level, axis=0)
        assert (np.abs(shares - level) < 4 * np.sqrt(level * (1 - level) / 200)).all()


def test_known_errors_are_measured(rng):
    reference = draw(rng, 50, 64)
    wide = mb.moments(draw(rng, 50, 64, 1.2), reference)
    assert abs(wide.sd_ratio - 1.2) < 4 * wide.sd_ratio_stderr
    assert wide.sd_ratio_stderr < 0.03
    assert max(wide.pvalue, wide.sd_ratio_pvalue) <= 0.002  # of two, the smaller one
    assert wide.mean_error < 4 * wide.mean_error_stderr
    assert wide.mean_error_pvalue > 0.01
    sd = np.geomspace(0.3, 3, 50)[:, None, None] * np.sqrt((FEW**2).sum(axis=0))
    shifted = mb.moments(draw(rng, 50, 64) + 0.5 * sd, reference)
    assert abs(shifted.mean_error - 0.5) < 4 * shifted.mean_error_stderr
    assert shifted.mean_error_stderr < 0.05
    assert max(shifted.pvalue, shifted.mean_error_pvalue) <= 0.002
    assert abs(shifted.sd_ratio - 1) < 4 * shifted.sd_ratio_stderr


def test_what_does_not_vary(rng):
    free, fixed = rng.normal(size=(2, 6, 20, 2)), np.full((6, 20, 1), 0.1)
    alone = mb.moments(*free)
    with_fixed = mb.moments(*(np.concatenate([one, fixed], axis=2) for one in free))
    assert with_fixed.sd_ratio == pytest.approx(alone.sd_ratio)
    assert with_fixed.pvalue == alone.pvalue
    same = mb.moments(fixed, fixed)
    assert (same.sd_ratio, same.mean_error, same.pvalue) == (1.0, 0.0, 1.0)
    collapsed = mb.moments(fixed, free[0][..., :1])
    assert (collapsed.sd_ratio, collapsed.sd_ratio_pvalue) == (0.0, 0.001)
    assert mb.moments(free[0][..., :1], fixed).sd_ratio == np.inf
    apart = mb.moments(fixed + 0.3, fixed)
    assert (apart.sd_ratio, apart.mean_error, apart.mean_error_pvalue) == (1.0, np.inf, 0.001)


def test_images_and_what_users_do(rng):
    samples, reference = rng.normal(size=(2, 3, 6, 3, 64, 64)).astype(np.float32)
    state = np.random.get_state()[1].copy()
    found = mb.moments(samples, reference)
    assert abs(found.sd_ratio - 1) < 4 * found.sd_ratio_stderr
    assert np.array_equal(state, np.random.get_state()[1])
    good = rng.normal(size=(3, 6, 2))
    bad = good.copy()
    bad[1, 2, 0] = np.nan
    for call, words in [
        (lambda: mb.moments(good, good[:2]), r"samples has shape \(3, 6, 2\) and reference \(2, 6, 2\)"),
        (lambda: mb.moments(good, good[..., :1]), "are needed"),
        (lambda: mb.moments(1.0, good), "are needed"),
        (lambda: mb.moments(good[:0], good[:0]), "nothing to compare"),
        (lambda: mb.moments(good[:, :1], good), "samples has 1 samples per fiducial; moments needs at least 2"),
        (lambda: mb.moments(good, bad), "reference is nan at fiducial 1, sample 2"),
        (lambda: mb.moments(good, good, permutations=-1), "permutations=-1"),
        (lambda: mb.Moments(fiducials=0), "fiducials=0"),
        (lambda: mb.Moments(most_samples=1), "most_samples=1"),
    ]:
        with pytest.raises(mb.UsageError, match=words):
            call()


def rows(result, candidate):
    return result.summary[result.summary.candidate == candidate].set_index("metric")


def test_a_run_has_both_numbers(tmp_path):
    candidates = {"exact": ConjugateCandidate(), "wide": ConjugateCandidate(width=1.2)}
    candidates["shifted"] = ConjugateCandidate(shift=0.5)
    settings = {"samples": 64, "metrics": ["mira", "moments"], "controls": False}
    result = mb.run(Conjugate(), candidates, fiducials=120, **settings)
    exact, wide, shifted = (rows(result, name) for name in candidates)
    compared = "against the reference posterior: 32 fiducials, 64 samples per side; normalize=others"
    for table in (exact, wide, shifted):
        assert table.index.tolist() == ["mira", "moments", "moments.mean_error"]
        assert table.expected["moments"] == 1
        assert table.expected["moments.mean_error"] == 0
        assert table.note["moments"].endswith(compared)
        assert table.note["moments.mean_error"].endswith(compared)
        told = f"mean off by {table.score['moments.mean_error']:.4f} +- {table.stderr['moments.mean_error']:.4f} sd"
        assert told in table.note["moments"]
    for table, right in ((exact, 1), (wide, 1.2), (shifted, 1)):
        assert abs(table.score["moments"] - right) < 4 * table.stderr["moments"]
    assert exact.pvalue["moments"] > 0.01
    assert max(wide.pvalue["moments"], shifted.pvalue["moments"]) < 0.01
    assert wide.pvalue["moments.mean_error"] > 0.01
    assert shifted.pvalue["moments.mean_error"] < 0.01
    values = result.scores.query("metric == 'moments' and candidate == 'wide'")
    assert len(values) == 32
    assert wide.score["moments"] == pytest.approx(np.exp(np.log(values.value).mean()))
    assert (result.ranking.set_index("candidate").moments["wide"]) == wide.score["moments"]
    assert "sd ratio" in (result.save(tmp_path) / "ranking.md").read_text()
    short = mb.run(
        Conjugate(), candidates, fiducials=40, **settings | {"metrics": {"moments": mb.Moments(fiducials=9)}}
    )
    assert "9 fiducials" in rows(short, "wide").note["moments"]


def test_a_run_equals_the_function(rng):
    truths, samples, reference = (rng.normal(size=shape) for shape in ((40, 2), (40, 30, 2), (40, 25, 2)))
    direct = mb.moments(samples[:32], reference[:32], seed=3)
    metrics = {"m": mb.Moments(normalize="none")}
    table = rows(mb.score(truths, {"a": samples}, reference=reference, metrics=metrics, seed=3), "a")
    assert table.score["m"] == pytest.approx(direct.sd_ratio)
    assert table.stderr["m"] == pytest.approx(direct.sd_ratio_stderr)
    assert table.pvalue["m"] == direct.pvalue
    assert table.score["m.mean_error"] == pytest.approx(direct.mean_error)
    assert table.pvalue["m.mean_error"] == direct.mean_error_pvalue
    alone = mb.score(truths, {"a": samples}, metrics=metrics).summary
    assert alone.note.tolist() == ["not computed: there is no reference posterior"]


def test_a_scale_of_samples_is_one_of_both_sides(rng):
    truths, samples, reference = (rng.normal(size=shape) for shape in ((6, 2), (6, 10, 2), (6, 10, 2)))
    there = mb.score(truths, {"a": samples}, reference=reference, metrics=["moments"])
    back = mb.score(truths, {"a": reference}, reference=samples, metrics=["moments"])
    assert there.summary.note[0].endswith("normalize=joint, of both sides")
    assert there.summary.score[0] == pytest.approx(1 / back.summary.score[0])


def test_one_comparison_per_shared_set(rng):
    truths = rng.normal(size=(40, 2))
    sets, reference = rng.normal(size=(4, 30, 2)), rng.normal(size=(40, 30, 2))
    own = np.arange(40) % 4
    result = mb.score(truths, {"a": sets[own]}, reference=reference, groups=own, metrics={"m": mb.Moments()})
    assert "4 fiducials" in result.summary.note[0]
    assert len(result.scores) == 4


def test_blocks_and_workers_change_nothing(tmp_path):
    candidates = {"narrow": ConjugateCandidate(width=0.7)}
    settings = {"fiducials": 230, "samples": 30, "controls": False, "metrics": {"m": mb.Moments(fiducials=150)}}
    first = mb.run(Conjugate(), candidates, store=tmp_path, **settings)
    again = mb.run(Conjugate(), candidates, store=tmp_path, workers=2, **settings)
    fresh = mb.run(Conjugate(), candidates, **settings)
    for other in (again, fresh):
        pd.testing.assert_frame_equal(first.summary, other.summary, check_exact=True)
