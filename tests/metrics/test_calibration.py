r"""The calibration test: its level whatever the law, its power, and what it says it would have seen."""

from importlib import util
from pathlib import Path

import numpy as np
import pytest

import mira_bench as mb
from mira_bench import Block
from mira_bench.metric import Context
from mira_bench.metrics.calibration import GROUPS
from mira_bench.ranks.scaling import Scaling

# Perfect candidates under all kinds of laws and data: the same as those of which the sizes in docs/metrics.md are.
_spec = util.spec_from_file_location("null", Path(__file__).parents[2] / "benchmarks" / "null.py")
null = util.module_from_spec(_spec)
_spec.loader.exec_module(null)


def calibrate(truths, samples, x=None, seed=0, groups=None, log_likelihood=None, **settings):
    metric = mb.Calibration(**settings)
    scaling = Scaling(truths)
    block = Block(
        truths, samples, np.arange(len(truths)), scaling, seed, groups=groups, x=x, log_likelihood=log_likelihood
    )
    return metric.reduce([metric.observe(block)], scaling).result


def refuse_false_alarms(pvalues, exact):
    for level in (0.05, 0.3):
        share, error = (np.array(pvalues) <= level + 1e-9).mean(), np.sqrt(level * (1 - level) / len(pvalues))
        assert share < level + 4 * error
        # Where ranks take few values rows tie, and ties count as larger: the test is careful, never the contrary.
        assert share > level - 4 * error or not exact


@pytest.mark.parametrize("case", null.CASES)
def test_false_alarms(rng, case):
    results = [null.calibrate(rng, null.CASES[case], seed, regions=4, replicates=99) for seed in range(200)]
    refuse_false_alarms([r.pvalue for r in results], null.CASES[case][2] > 2)
    refuse_false_alarms([r.group_pvalues["balls"] for r in results], null.CASES[case][2] > 2)
    # And the deviations of every feature are in units of its own standard deviation.
    if all(len(r.features) == len(results[0].features) for r in results):
        square = np.array([r.z for r in results]) ** 2
        error = square.std(axis=0) / np.sqrt(len(square))
        assert (np.abs(square.mean(axis=0) - 1) < 5 * error).all()


def test_the_scale_of_balls_does_not_know_other_truths(rng):
    r"""A truth that is part of its neighbors' scale would break the null of few fiducials."""
    truths, samples = rng.normal(size=(12, 2)), rng.normal(size=(12, 20, 2))
    metric = mb.Calibration()
    assert metric.depends_on(Context(Scaling(truths))) == ()
    record = metric.observe(Block(truths, samples, np.arange(12), Scaling(truths), 0))
    moved = np.concatenate([truths[:6], 9 * truths[6:]])
    other = metric.observe(Block(moved, samples, np.arange(12), Scaling(moved), 0))
    assert np.array_equal(record["balls"][: 6 * 21], other["balls"][: 6 * 21])
    assert not np.array_equal(record["balls"][6 * 21 :], other["balls"][6 * 21 :])


def test_shared_sets_need_all_fiducials(rng):
    truths, samples = rng.normal(size=(8, 2)), np.repeat(rng.normal(size=(1, 20, 2)), 8, axis=0)
    block = Block(truths[:4], samples[:4], np.arange(4), Scaling(truths), 0, groups=np.zeros(4))
    with pytest.raises(mb.UsageError, match="share a sample set"):
        mb.Calibration().observe(block)


def test_sets_of_one_and_of_many_have_no_likelihood(rng):
    labels = np.array([0, 0, 0, 1, 2])
    truths, sets = rng.normal(size=(5, 2)), rng.normal(size=(3, 20, 2))

    def likelihood(chosen):
        return rng.normal(size=(5, 1 + len(chosen)))

    result = calibrate(truths, sets[labels], labels[:, None], groups=labels, log_likelihood=likelihood)
    assert not [f for f in result.features if "likelihood" in f.kind]
    assert 0 < result.pvalue <= 1


# One defect for each kind of feature: the law of the truths given x, that of the samples, and what speaks.
DEFECTS = {
    "narrow": ("marginals", {"dispersion"}),
    "shifted": ("marginals", {"location"}),
    "narrow everywhere": ("balls", {"mira", "tilt"}),
    "correlated": ("shape", {"pair"}),
    "two modes": ("shape", {"peak"}),
    "heavy": ("shape", {"tails", "radius"}),
    "wide by datum": ("data", {"dispersion", "tails"}),
    "ignored": ("data", {"location"}),
    "prior": ("data", {"location"}),
    "trend": ("data", {"trend"}),
    "likelihood": ("data", {"likelihood"}),
}


def spoil(rng, defect, fiducials=300, samples=60):
    dim = {"narrow everywhere": 10, "two modes": 1}.get(defect, 2)
    x = rng.normal(size=(fiducials, dim))
    noise = rng.normal(size=(fiducials, samples + 1, dim))
    truth, drawn = noise[:, 0], noise[:, 1:]
    mean = x
    if defect == "narrow":
        drawn = drawn * [1.0, 0.6]
    elif defect == "shifted":
        drawn = drawn + np.array([0.0, 0.4])
    elif defect == "narrow everywhere":
        drawn = 0.85 * drawn
    elif defect == "correlated":
        truth = truth @ np.array([[1.0, 0.6], [0.0, 0.8]])
    elif defect == "two modes":
        truth = 0.3 * truth + 0.95 * rng.choice([-1, 1], size=truth.shape)
    elif defect == "heavy":
        drawn = drawn / np.sqrt(rng.chisquare(3, size=(fiducials, samples, 1)))
    elif defect == "wide by datum":
        drawn = drawn * np.where(x[:, :1] > 0, 1.4, 0.6)[:, None]
    elif defect == "ignored":
        mean, drawn = x * [1, 0], drawn * [1, np.sqrt(2)]
    elif defect in ("prior", "likelihood"):
        mean, drawn = 0 * x, drawn * np.sqrt(2)
    elif defect == "trend":
        mean = 0.7 * x
    return x + truth, mean[:, None] + drawn, x


@pytest.mark.parametrize("defect", DEFECTS)
def test_power_of_each_group(rng, defect):
    group, kinds = DEFECTS[defect]
    truths, samples, x = spoil(rng, defect)

    def likelihood(chosen):
        points = np.concatenate([truths[:, None], samples[:, chosen]], axis=1)
        return -np.square(points - x[:, None]).sum(axis=-1)

    blind = defect in ("trend", "likelihood")
    result = calibrate(
        truths, samples, None if blind else x, log_likelihood=likelihood if defect == "likelihood" else None
    )
    assert result.pvalue == pytest.approx(1 / 2000)
    assert result.group_pvalues[group] == pytest.approx(1 / 2000)
    feature, z = result.spoke
    loudest = next(result.features[i] for i in result.order if result.features[i].group == group)
    assert loudest.kind in kinds
    assert result.speaks(loudest)
    assert result.worst(*kinds)[0].kind in kinds
    assert abs(z) > result.critical[feature.group]
    if defect in ("narrow", "shifted"):
        assert feature.axes == (1,)
        assert result.label(feature, ["a", "b"]) == f"{feature.kind} of b"
    if defect in ("correlated", "ignored", "prior", "likelihood"):
        assert result.group_pvalues["marginals"] > 0.001  # the marginals are right
        assert feature.group == group
    if defect == "ignored":
        assert result.label(feature, ["a", "b"]) == "location of b against x[1]"
    if defect == "correlated":
        assert result.label(feature) == "pair of dimension 0 and dimension 1"
    # Only a shift is called one.
    signed = defect in ("shifted", "ignored", "prior", "trend")
    assert (result.biases[0][2] < 1e-3) == signed


def test_features_are_those_of_the_metrics(rng):
    truths, samples = rng.normal(size=(20, 2)), rng.normal(size=(20, 30, 2))
    record = mb.Calibration(regions=50).observe(Block(truths, samples, np.arange(20), Scaling(truths), 0))
    mira, sbc = mb.mira(truths, samples, regions=50, normalize="joint"), mb.sbc(truths, samples)
    assert np.allclose(record["balls"][::31, 0], mira.per_fiducial - mira.expected, atol=1e-3)
    assert record["balls"][::31, 1].mean() == pytest.approx(mira.tilt, abs=1e-3)
    assert np.allclose(record["ranks"][::31, :2] / 2, sbc.ranks)


def test_the_groups(rng):
    truths, samples = rng.normal(size=(20, 2)), rng.normal(size=(20, 30, 2))
    with_data = calibrate(truths, samples, rng.normal(size=(20, 1)))
    assert with_data.groups == pytest.approx(GROUPS)
    without = calibrate(truths, samples, rng.normal(size=(20, 1)), data=False)
    assert {f.kind for f in without.features if f.group == "data"} == {"trend"}
    assert "without data, errors that go with the data are not seen" in without.notes
    assert not with_data.notes


def test_a_parameter_that_the_candidate_fixes_is_named(rng):
    x = rng.normal(size=(40, 2))
    truths, samples = x + 0.2 * rng.normal(size=(40, 2)), x[:, None] + 0.2 * rng.normal(size=(40, 50, 2))
    samples[..., 1] = 0.5
    row = mb.score(
        truths, {"a": samples}, names=["b", "gamma"], metrics=["mira", "energy", "calibration"]
    ).ranking.iloc[0]
    assert row.tier != "A"
    assert "gamma is fixed" in row.evidence
    assert "b is fixed" not in row.evidence


def test_a_fixed_parameter_has_no_features(rng):
    truths, samples, x, _ = null.draw(rng, null.fixed, 40, 50, 3, "x")
    result = calibrate(truths, samples, x)
    assert result.fixed == [1]
    assert not [f for f in result.features if 1 in f.axes]
    # The others are tested as if it were not there.
    assert {f.axes for f in result.features if f.kind == "location"} == {(0,), (2,)}
    assert result.detectable.one_width > 0
    assert result.detectable.shift > 0
    nothing = calibrate(np.ones((20, 2)), np.ones((20, 30, 2)))
    assert nothing.fixed == [0, 1]
    assert {f.group for f in nothing.features} == {"balls"}  # whose ties are broken at random
    assert nothing.pvalue > 0.01
    assert np.isnan(nothing.detectable.width)


def test_chains_are_thinned(rng):
    r"""The samples of a chain are no independent ones: as many as are independent are ranked, and the note says so."""
    rho, pvalues = 0.95, []
    for seed in range(60):
        x = rng.normal(size=(30, 1))
        noise = rng.normal(size=(30, 400, 1))
        for s in range(1, 400):
            noise[:, s] = rho * noise[:, s - 1] + np.sqrt(1 - rho**2) * noise[:, s]
        truths, chains = x + rng.normal(size=(30, 1)), x[:, None] + noise
        result = calibrate(truths, chains, x, seed, regions=4, replicates=199, effects=0)
        pvalues.append(result.pvalue)
        assert any(
            "chains are autocorrelated" in note and "of 400 samples were ranked" in note for note in result.notes
        )
    refuse_false_alarms(pvalues, False)
    # In another order nobody can tell that they are a chain, and the test sees that they are not independent.
    short = rng.permuted(chains[:, :40], axis=1)
    assert calibrate(truths, short, x, regions=4).pvalue < 0.01


@pytest.mark.parametrize("error", ["width", "one_width", "shift", "correlation"])
def test_what_is_detectable_is_detected(rng, error):
    r"""A candidate that is wrong by what is named is caught nine times in ten at the 1 % level; by half, rarely."""
    fiducials, samples, repeats = 80, 50, 24
    settings = {"regions": 8, "replicates": 999}

    def exact():
        return rng.normal(size=(fiducials, 2)), rng.normal(size=(fiducials, samples, 2))

    size = np.mean([getattr(calibrate(*exact(), seed=seed, **settings).detectable, error) for seed in range(4)])
    assert 0.05 < size < 0.9

    def caught(amount):
        pvalues = []
        for seed in range(repeats):
            truths, drawn = exact()
            if error in ("width", "one_width"):
                factor = 1 + amount if amount > 0 else 1 / (1 - amount)
                drawn = drawn * (factor if error == "width" else [1, factor])
            elif error == "shift":
                drawn = drawn + np.array([amount, 0])
            else:
                truths = truths @ np.array([[1, amount], [0, np.sqrt(1 - amount**2)]])
            pvalues.append(calibrate(truths, drawn, seed=seed, effects=0, **settings).pvalue)
        return np.mean(np.array(pvalues) <= 0.01)

    tolerance = 4 * np.sqrt(0.9 * 0.1 / repeats)
    assert caught(size) > 0.9 - tolerance
    assert caught(-size) > 0.9 - tolerance
    assert caught(size / 2) < 0.9 - tolerance


def test_few_fiducials_say_that_they_see_little(rng):
    seen = calibrate(rng.normal(size=(3, 2)), rng.normal(size=(3, 20, 2))).detectable
    assert np.isnan([seen.width, seen.one_width, seen.shift, seen.correlation]).all()
