r"""The two-sample metrics: independent oracles, their null, their power, and what the runner does with them."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.gaussian import Conjugate, ConjugateCandidate, Toy, ToyCandidate
from scipy import optimize, stats
from scipy.spatial.distance import cdist

import mira_bench as mb
from mira_bench.runner.store import Store
from mira_bench.streams import generator

CHEAP = {
    "c2st": mb.C2st(fiducials=3, trees=10),
    "mmd": mb.Mmd(fiducials=20),
    "wasserstein": mb.Wasserstein(fiducials=20),
    "sliced_wasserstein": mb.SlicedWasserstein(fiducials=5, projections=10, permutations=49),
    "pqmass": mb.Pqmass(fiducials=20, regions=6),
}
FUNCTIONS = {
    "c2st": lambda a, b, **k: mb.c2st(a, b, trees=10, **k),
    "mmd": mb.mmd,
    "wasserstein": lambda a, b, seed=0, **k: mb.wasserstein(a, b, **k),
    "sliced_wasserstein": lambda a, b, **k: mb.sliced_wasserstein(a, b, projections=10, **k),
    "pqmass": lambda a, b, **k: mb.pqmass(a, b, regions=8, **k),
}


def rbf(u, v, h):
    return np.exp(-np.sum((u - v) ** 2) / (2 * h**2))


def test_mmd_is_its_double_loop(rng):
    a, b = rng.normal(size=(7, 3)), 0.5 + rng.normal(size=(11, 3))
    pooled = np.concatenate([a, b])
    h = np.median([np.linalg.norm(pooled[i] - pooled[j]) for i in range(18) for j in range(i)])
    aa = np.mean([rbf(a[i], a[j], h) for i in range(7) for j in range(7) if i != j])
    bb = np.mean([rbf(b[i], b[j], h) for i in range(11) for j in range(11) if i != j])
    ab = np.mean([rbf(u, v, h) for u in a for v in b])
    assert mb.mmd(a, b).score == pytest.approx(aa + bb - 2 * ab, rel=1e-12)
    c = b[:7]
    aa, cc, ac = (
        np.mean([rbf(u[i], v[j], 0.7) for i in range(7) for j in range(7) if i != j])
        for u, v in ((a, a), (c, c), (a, c))
    )
    assert mb.mmd(a, c, bandwidth=0.7, paired=True).score == pytest.approx(aa + cc - 2 * ac, rel=1e-12)


@pytest.fixture(scope="module")
def oracle():
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sbi.utils import metrics
    return lambda name, a, b, **k: float(getattr(metrics, name)(torch.as_tensor(a), torch.as_tensor(b), **k))


def test_mmd_is_that_of_sbi(rng, oracle):
    a, b = rng.normal(size=(40, 2)), 0.5 + rng.normal(size=(61, 2))
    theirs = oracle("unbiased_mmd_squared", a, b, scale=1.3)
    assert mb.mmd(a, b, bandwidth=1.3).score == pytest.approx(theirs, rel=1e-10)
    # torch's median of an even number is the lower one of two
    assert mb.mmd(a, b).score == pytest.approx(oracle("unbiased_mmd_squared", a, b), rel=1e-3)


def test_c2st_agrees_with_sbi(rng, oracle):
    differences = []
    for seed in range(8):
        a, b = rng.normal(size=(80, 2)), 1.0 + rng.normal(size=(80, 2))
        theirs = oracle("c2st", a, b, seed=seed, classifier_kwargs={"n_estimators": 20})
        differences.append(mb.c2st(a, b, trees=20, leaf=1, seed=seed).score - theirs)
    assert abs(np.mean(differences)) < 4 * np.std(differences, ddof=1) / np.sqrt(8)
    assert np.std(differences) < 0.1


def test_c2st_with_a_perceptron(rng):
    a, b = rng.normal(size=(60, 2)), rng.normal(size=(60, 2))
    assert mb.c2st(a, b + 4, classifier="mlp").score > 0.9
    same = mb.c2st(a, b, classifier="mlp")
    assert abs(same.score - 0.5) < 4 * same.stderr


def test_wasserstein_is_the_best_assignment(rng):
    a, b = rng.normal(size=(50, 3)), 0.3 + rng.normal(size=(50, 3))
    cost = cdist(a, b)
    assert mb.wasserstein(a, b).score == pytest.approx(cost[optimize.linear_sum_assignment(cost)].mean(), rel=1e-9)
    a, b = rng.normal(size=40), 2 * rng.normal(size=70)
    exact = stats.wasserstein_distance(a, b)
    assert mb.wasserstein(a, b).score == pytest.approx(exact, rel=1e-9)
    assert mb.sliced_wasserstein(a, b).score == pytest.approx(exact, rel=1e-9)


def test_sliced_wasserstein_is_that_of_pot(rng):
    import ot

    a, b = rng.normal(size=(30, 4)), 0.3 + rng.normal(size=(47, 4))
    directions = generator(5, "directions").standard_normal((20, 4))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    theirs = ot.sliced_wasserstein_distance(a, b, projections=directions.T, p=1)
    assert mb.sliced_wasserstein(a, b, projections=20, seed=5).score == pytest.approx(theirs, rel=1e-9)


def test_pqmass_is_a_contingency_table(rng):
    a, b = rng.normal(size=(60, 2)), 0.4 + rng.normal(size=(90, 2))
    pooled = np.concatenate([a, b])
    centers = pooled[generator(3, "pqmass").choice(150, 10, replace=False)]
    region = np.array([np.argmin([np.linalg.norm(p - c) for c in centers]) for p in pooled])
    table = np.array([np.bincount(part, minlength=10) for part in (region[:60], region[60:])])
    exact = stats.chi2_contingency(table, correction=False)
    result = mb.pqmass(a, b, regions=10, seed=3)
    assert result.score == pytest.approx(exact.statistic, rel=1e-12)
    assert result.pvalue == pytest.approx(exact.pvalue, rel=1e-10)
    assert result.expected == pytest.approx(9 * 150 / 149)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "wasserstein"])
def test_the_null(rng, name, paired):
    repeats = 40 if name == "c2st" else 300
    excess, pvalues = [], []
    for seed in range(repeats):
        x = rng.normal(size=(30, 1)) if paired else np.zeros((30, 1))
        a, b = (np.concatenate([x, x + rng.normal(size=(30, 1))], axis=1) for _ in range(2))
        if not paired and name != "c2st":
            b = b[:24]  # another size: nothing may depend on it
        result = FUNCTIONS[name](a, b, seed=seed, paired=paired)
        excess.append(result.score - result.expected)
        pvalues.append(result.pvalue)
    assert abs(np.mean(excess)) < 4 * np.std(excess, ddof=1) / np.sqrt(repeats)
    for level in (0.05, 0.2):
        assert np.mean(np.array(pvalues) <= level) <= level + 4 * np.sqrt(level * (1 - level) / repeats)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_standard_error(rng, name, paired):
    repeats = 30 if name == "c2st" else 100
    scores, stderrs = [], []
    for seed in range(repeats):
        a, b = rng.normal(size=(2, 60, 2))
        b[:, 1] += 1.5
        if paired:
            b[:, 0] = a[:, 0]
        result = FUNCTIONS[name](a, b, seed=0 if name == "sliced_wasserstein" else seed, paired=paired)
        scores.append(result.score)
        stderrs.append(result.stderr)
    ratio = np.mean(stderrs) / np.std(scores, ddof=1)
    error = 4 / np.sqrt(2 * (repeats - 1))
    # That of c2st is on the safe side by up to one half; cells of pqmass are drawn anew in each repeat.
    low, high = {"c2st": (1, 1.5), "pqmass": (0.7, 1)}.get(name, (1, 1.15))
    assert low * (1 - error) < ratio < high * (1 + error)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_power_and_different_sizes(rng, name):
    a, b = rng.normal(size=(120, 2)), rng.normal(size=(150, 2))
    same = FUNCTIONS[name](a, b)
    for other in (b + 1.5, 0.3 * b):
        found = FUNCTIONS[name](other, a)
        assert found.score > same.score + 4 * same.stderr
        if name != "wasserstein":
            assert same.pvalue > 0.01
            assert found.pvalue <= 0.005


@pytest.mark.parametrize("name", FUNCTIONS)
def test_events_and_determinism(rng, name):
    a, b = rng.normal(size=(50, 2, 3)), rng.normal(size=(60, 2, 3))
    state = np.random.get_state()[1].copy()
    first = FUNCTIONS[name](a, b, seed=1)
    assert first == FUNCTIONS[name](a.reshape(50, 6), b.reshape(60, 6).tolist(), seed=1)
    assert np.array_equal(state, np.random.get_state()[1])
    if name != "wasserstein":
        assert first != FUNCTIONS[name](a, b, seed=2)
    identical = FUNCTIONS[name](np.ones((50, 2)), np.ones((50, 2)))
    assert identical.score == pytest.approx(0.5 if name == "c2st" else 0.0, abs=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_users_do(rng, name):
    good = rng.normal(size=(40, 2))
    bad = good.copy()
    bad[3, 1] = np.nan
    for a, b, words in [
        (good, good[:, :1], r"event shape \(2,\), those of b \(1,\)"),
        (bad, good, r"a is nan at index \(3, 1\)"),
        (good, good[:1], "b has 1 samples"),
        (good, 1.0, "b has 0 samples"),
        (good[:, :0], good[:, :0], "size zero"),
        ([["x"]], good, "a has dtype"),
    ]:
        with pytest.raises(mb.UsageError, match=words):
            FUNCTIONS[name](a, b)
    with pytest.raises(mb.UsageError, match="same size"):
        FUNCTIONS[name](good, good[:30], paired=True)


def test_bad_settings(rng):
    a = rng.normal(size=(40, 2))
    for call, words in [
        (lambda: mb.c2st(a, a, classifier="vibes"), "classifier='vibes'"),
        (lambda: mb.c2st(a, a, folds=1), "folds=1"),
        (lambda: mb.C2st(trees=0), "trees=0"),
        (lambda: mb.C2st(leaf=0), "leaf=0"),
        (lambda: mb.mmd(a, a, bandwidth=0.0), "bandwidth=0"),
        (lambda: mb.sliced_wasserstein(a, a, projections=0), "projections=0"),
        (lambda: mb.Pqmass(regions=1), "regions=1"),
        (lambda: mb.Mmd(against="vibes"), "against='vibes'"),
        (lambda: mb.Mmd(fiducials=0), "fiducials=0"),
    ]:
        with pytest.raises(mb.UsageError, match=words):
            call()


def row(result, name, candidate=None):
    table = result.summary[result.summary.metric == name]
    return (table if candidate is None else table[table.candidate == candidate]).iloc[0]


@pytest.mark.parametrize("name", CHEAP)
def test_against_the_reference_posterior(name):
    candidates = {"exact": ConjugateCandidate(), "narrow": ConjugateCandidate(width=0.5)}
    candidates["shifted"] = ConjugateCandidate(shift=1.5)
    settings = {"samples": 100, "controls": False, "metrics": {name: CHEAP[name]}}
    result = mb.run(Conjugate(), candidates, fiducials=120, **settings)
    used = CHEAP[name].fiducials
    exact, narrow, shifted = (row(result, name, c) for c in candidates)
    assert exact.note == f"against the reference posterior: {used} fiducials, 100 samples per side; normalize=others"
    assert (result.scores.groupby("candidate").size() == used).all()
    assert result.scores.fiducial.max() == used - 1
    values = result.scores[result.scores.candidate == "exact"].value
    assert exact.score == pytest.approx(values.mean())
    assert exact.stderr == pytest.approx(values.std() / np.sqrt(used))
    assert narrow.score > exact.score
    assert shifted.score > exact.score + 4 * exact.stderr
    if name == "wasserstein":
        assert np.isnan([exact.expected, exact.pvalue]).all()
    else:
        assert abs(exact.score - exact.expected) < 4 * exact.stderr
        assert exact.pvalue > 0.01
        assert shifted.pvalue < 0.01


def test_the_subset_does_not_depend_on_the_length_of_the_run():
    short, long = (
        mb.run(Toy(), {"biased": ToyCandidate(bias=5.0)}, fiducials=n, samples=40, metrics=CHEAP, controls=False)
        for n in (20, 230)
    )
    pd.testing.assert_frame_equal(short.scores, long.scores, check_exact=True)


@pytest.mark.parametrize("name", CHEAP)
def test_joint_mode_sees_that_x_is_ignored(rng, name):
    x = rng.normal(size=(400, 1))
    y = x + 0.2 * rng.normal(size=(400, 1))
    right = x[:, None] + 0.2 * rng.normal(size=(400, 5, 1))
    blind = np.sqrt(1.04) * rng.normal(size=(400, 5, 1))  # the right marginal
    result = mb.score(y, {"right": right, "blind": blind}, x=x, metrics={name: CHEAP[name]})
    good, bad = row(result, name, "right"), row(result, name, "blind")
    assert good.note == "joint: (x, y*) against (x, draw), 400 fiducials, one draw each; normalize=others"
    assert bad.score > good.score + 4 * good.stderr
    alone = row(mb.score(y, {"blind": blind}, metrics={name: CHEAP[name]}), name)
    assert alone.note.startswith("joint: y* against a draw, without observations")
    if name != "wasserstein":
        assert good.pvalue > 0.01
        assert bad.pvalue <= 0.02
        assert alone.pvalue > 0.01


def test_joint_mode_uses_a_stated_part(rng):
    images = rng.normal(size=(60, 8, 8))
    y = images.mean(axis=(1, 2))[:, None] + 0.1 * rng.normal(size=(60, 1))
    samples = y[:, None] + rng.normal(size=(60, 4, 1))
    metrics = {"mmd": mb.Mmd(pairs=50)}
    shared = np.repeat(samples[::2], 2, axis=0)
    result = mb.score(y, {"a": shared}, x=images, metrics=metrics, groups=np.arange(60) // 2)
    note = row(result, "mmd").note
    assert "50 fiducials" in note
    assert "32 projections of x" in note
    assert "share samples" in note
    changed = y.copy()
    changed[50:] += 1e-3  # inside the range of the others
    again = mb.score(changed, {"a": samples}, x=images, metrics=metrics, bounds=([-9], [9]))
    first = mb.score(y, {"a": samples}, x=images, metrics=metrics, bounds=([-9], [9]))
    assert row(again, "mmd").score == row(first, "mmd").score


@pytest.mark.parametrize("against", ["posterior", "joint"])
def test_blocks_equal_arrays(tmp_path, against):
    task, settings = Conjugate(), {"fiducials": 230, "samples": 30, "controls": False}
    metrics = {name: type(m)(**(vars(m) | {"against": against})) for name, m in CHEAP.items()}
    candidates = {"narrow": ConjugateCandidate(width=0.7)}
    streamed = mb.run(task, candidates, metrics=metrics, store=tmp_path, keep_samples=True, **settings)
    store = Store(tmp_path)
    blocks = {(e.spec["kind"], e.spec["block"]): store.get(e.spec) for e in store.entries() if "block" in e.spec}
    y, x = (np.concatenate([blocks["fiducials", b][key] for b in range(3)])[:230] for key in "yx")
    samples = np.concatenate([blocks["samples", b]["values"] for b in range(3)])[:230]
    exact = task.exact_posterior()
    drawn = [exact.sample(blocks["fiducials", b]["x"], 30, generator(0, "reference", "conjugate", b)) for b in range(3)]
    arrays = mb.score(y, {"narrow": samples}, x=x, reference=np.concatenate(drawn)[:230], metrics=metrics)
    resumed = mb.run(task, candidates, metrics=metrics, store=tmp_path, workers=2, **settings)
    for other in (arrays, resumed):
        pd.testing.assert_frame_equal(
            other.summary.drop(columns="task"), streamed.summary.drop(columns="task"), check_exact=True
        )


def test_no_number_comes_with_its_reason(rng):
    truths, samples = rng.normal(size=(20, 2)), rng.normal(size=(20, 3, 2))
    for metric, extra, words in [
        (mb.C2st(against="posterior"), {}, "there is no reference posterior"),
        (mb.C2st(), {"reference": samples}, "candidate 'a' has 3 samples per fiducial; c2st needs at least 5"),
        (mb.Pqmass(), {}, "there are 20 fiducials; pqmass without a reference needs 50"),
        (mb.Mmd(), {"reference": np.full((20, 3, 2), np.nan)}, "the reference posterior is nan"),
    ]:
        result = mb.score(truths, {"a": samples}, metrics={"m": metric}, **extra)
        found = row(result, "m")
        assert found.note.startswith(f"not computed: {words}")
        assert np.isnan(found.score)


def test_the_ranking_has_them(rng):
    truths, samples = rng.normal(size=(20, 2)), rng.normal(size=(20, 15, 2))
    metrics = {"mira": mb.Mira(regions=5), "mmd": mb.Mmd(against="posterior", fiducials=3)}
    known, unknown = (
        mb.score(truths, {"a": samples}, reference=reference, metrics=metrics).ranking for reference in (samples, None)
    )
    assert np.isfinite(known.mmd[0])
    assert np.isnan([known.c2st[0], unknown.mmd[0]]).all()


def test_importing_is_light():
    code = "import sys, mira_bench; print([m for m in ('sklearn', 'ot', 'sbi', 'torch') if m in sys.modules])"
    root = Path(mb.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
