r"""Two-sample metrics between the truths that share a sample set and the set."""

import numpy as np
import pytest

import mira_bench as mb
from mira_bench.metrics.two_sample import MANY

GROUPS, EACH, SAMPLES = 8, 20, 30
LABELS = np.tile(np.arange(GROUPS), EACH)


def row(result, name="a"):
    return result.summary.set_index("candidate").loc[name]


def test_the_score_is_the_mean_over_sets(rng):
    centers = 10 * rng.normal(size=(GROUPS, 2))
    truths = centers[LABELS] + rng.normal(size=(len(LABELS), 2))
    sets = centers[:, None] + 2 * rng.normal(size=(GROUPS, SAMPLES, 2))
    metrics = {"mmd": mb.Mmd(against="group", normalize="none", bandwidth=1.0)}
    found = row(mb.score(truths, {"a": sets[LABELS]}, metrics=metrics, groups=LABELS))
    each = [mb.mmd(sets[g], truths[g == LABELS], bandwidth=1.0, permutations=0).score for g in range(GROUPS)]
    assert found.score == pytest.approx(np.mean(each))
    assert found.stderr == pytest.approx(np.std(each, ddof=1) / np.sqrt(GROUPS))
    assert found.expected == 0
    assert found.pvalue < 0.01
    assert f"{GROUPS} sets of {SAMPLES}, {EACH} truths each" in found.note


def test_one_set_has_the_error_of_the_comparison(rng):
    truths, one = rng.normal(size=(60, 2)), rng.normal(size=(1, 50, 2))
    found = row(mb.score(truths, {"a": one}, metrics={"mmd": mb.Mmd(normalize="none")}))
    alone = mb.mmd(one[0], truths, permutations=0)
    assert found.score == pytest.approx(alone.score)
    assert found.stderr == pytest.approx(alone.stderr)


def test_sets_are_compared_only_where_many_share_them(rng):
    for each, word in ((MANY, "truths that share a set"), (MANY - 1, "joint")):
        labels = np.repeat(np.arange(6), each)
        truths, sets = rng.normal(size=(len(labels), 2)), rng.normal(size=(6, 12, 2))
        result = mb.score(truths, {"a": sets[labels]}, metrics={"mmd": mb.Mmd()}, groups=labels)
        assert row(result).note.startswith(word)
    alone = mb.score(
        rng.normal(size=(20, 2)), {"a": rng.normal(size=(20, 9, 2))}, metrics={"m": mb.Mmd(against="group")}
    )
    assert "no groups that share one" in row(alone).note


@pytest.mark.parametrize("metric", ["mmd", "wasserstein", "sliced_wasserstein", "c2st"])
def test_a_right_set_is_not_rejected_and_a_wrong_one_is(metric, rng):
    kind = {"mmd": mb.Mmd, "wasserstein": mb.Wasserstein, "sliced_wasserstein": mb.SlicedWasserstein, "c2st": mb.C2st}
    settings = {"trees": 10} if metric == "c2st" else {}
    truths = rng.normal(size=(len(LABELS), 2))
    candidates = {"right": rng.normal(size=(GROUPS, SAMPLES, 2)), "wrong": 1.5 + rng.normal(size=(GROUPS, SAMPLES, 2))}
    chosen = {metric: kind[metric](against="group", normalize="none", **settings)}
    result = mb.score(truths, {n: s[LABELS] for n, s in candidates.items()}, metrics=chosen, groups=LABELS)
    right, wrong = row(result, "right"), row(result, "wrong")
    assert wrong.score > right.score + 4 * np.hypot(right.stderr, wrong.stderr)
    if metric != "wasserstein":
        assert right.pvalue > 0.001
        assert wrong.pvalue < 1e-4
