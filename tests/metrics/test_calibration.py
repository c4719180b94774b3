r"""The calibration test: its level for every L, its power, and what it says it would have seen."""

import numpy as np
import pytest

import mira_bench as mb
from mira_bench import Block
from mira_bench.ranks.scaling import Scaling


def calibrate(truths, samples, seed=0, **settings):
    metric = mb.Calibration(**settings)
    scaling = Scaling(truths)
    record = metric.observe(Block(truths, samples, np.arange(len(truths)), scaling, seed))
    return metric.reduce([record], scaling).result


@pytest.mark.parametrize(("fiducials", "samples", "dim"), [(8, 30, 2), (20, 20, 5), (12, 20, 30), (5, 3, 1)])
def test_false_alarms(rng, fiducials, samples, dim):
    repeats = 300
    pvalues = np.array(
        [
            calibrate(
                rng.normal(size=(fiducials, dim)), rng.normal(size=(fiducials, samples, dim)),
                seed, regions=8, replicates=199, normalize="joint",
            ).pvalue
            for seed in range(repeats)
        ]
    )  # fmt: skip
    for level in (0.05, 0.3):
        # The test cannot be exact where ranks take few values: it may be conservative, never the contrary.
        assert (pvalues <= level).mean() < level + 4 * np.sqrt(level * (1 - level) / repeats)
    assert (pvalues <= 0.3).mean() > 0.3 - 4 * np.sqrt(0.21 / repeats) - (0.3 if samples < 5 else 0)


@pytest.mark.parametrize("spoil", ["narrow", "wide", "shifted", "trend"])
def test_power(rng, spoil):
    x = rng.normal(size=(300, 2))
    truths = x + 0.5 * rng.normal(size=(300, 2))
    noise = 0.5 * rng.normal(size=(300, 100, 2))
    spoiled = {
        "narrow": x[:, None] + 0.7 * noise,
        "wide": x[:, None] + 1.4 * noise,
        "shifted": x[:, None] + 0.2 + noise,
        "trend": 0.8 * x[:, None] + noise,
    }[spoil]
    result = calibrate(truths, spoiled)
    assert result.pvalue == pytest.approx(1 / 1000)
    shift_p, correlation, _ = result.shift()
    if spoil in ("shifted", "trend"):
        assert shift_p < 1e-3
        assert abs(correlation) > 0.1
    else:
        assert shift_p > 1e-3


def test_features_are_those_of_the_metrics(rng):
    truths, samples = rng.normal(size=(20, 2)), rng.normal(size=(20, 30, 2))
    result = calibrate(truths, samples, regions=50)
    mira, sbc = mb.mira(truths, samples, regions=50), mb.sbc(truths, samples)
    assert np.allclose(result.observed[:, 0], mira.per_fiducial - mira.expected, atol=1e-3)
    assert result.observed[:, 1].mean() == pytest.approx(mira.tilt, abs=1e-3)
    assert np.allclose(result.observed[:, 2], sbc.ranks[:, 0] / 30 - 0.5)
    assert result.names[:5] == [
        ("mira", -1), ("tilt", -1), ("location", 0), ("trend", 0), ("dispersion", 0),
    ]  # fmt: skip


def test_the_null_is_centered(rng):
    result = calibrate(rng.normal(size=(50, 2)), rng.normal(size=(50, 30, 2)))
    error = np.sqrt(result.variance / 999)
    assert (np.abs(result.null.mean(0)) < 4.5 * error).all()
    assert np.allclose(result.null.std(0), np.sqrt(result.variance), rtol=4 / np.sqrt(2 * 999))


def test_detectable_width_is_what_is_detected(rng):
    r"""A candidate that is wrong by the width it names is caught nine times in ten."""
    fiducials, samples = 150, 60
    width = calibrate(rng.normal(size=(fiducials, 2)), rng.normal(size=(fiducials, samples, 2))).detectable_width
    assert 0.05 < width < 0.5
    repeats = 60
    for factor in (1 / (1 + width), 1 + width):
        caught = np.mean(
            [
                calibrate(
                    rng.normal(size=(fiducials, 2)), factor * rng.normal(size=(fiducials, samples, 2)), seed
                ).pvalue
                < 0.01
                for seed in range(repeats)
            ]
        )
        # The better seen of the two directions is seen more often than nine times in ten.
        assert caught > 0.9 - 4 * np.sqrt(0.9 * 0.1 / repeats)


def test_few_fiducials_say_that_they_see_little(rng):
    result = calibrate(rng.normal(size=(3, 2)), rng.normal(size=(3, 20, 2)))
    assert np.isnan(result.detectable_width)
