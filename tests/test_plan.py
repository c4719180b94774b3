r"""The plan: what it promises happens."""

from importlib import import_module

import numpy as np
import pandas as pd
import pytest

import mira_bench as mb
from mira_bench.cli.command import main
from mira_bench.ranking.power import _Error, _features
from mira_bench.ranks.scaling import Scaling
from mira_bench.ranks.spoiled import WIDTHS, effects_of
from mira_bench.ranks.tables import marginal_axes


def caught(rng, metric, fiducials, dim, samples, factor, shift, repeats, level, extent):
    r"""How often a metric rejects a candidate that is wrong by a known amount."""
    found = 0
    bounds = np.full(dim, -extent / 2), np.full(dim, extent / 2)
    for seed in range(repeats):
        middle = (extent - 6) * (rng.random((fiducials, dim)) - 0.5)
        truths = middle + rng.normal(size=(fiducials, dim))
        values = middle[:, None] + shift + factor * rng.normal(size=(fiducials, samples, dim))
        scaling = Scaling(truths, task=bounds)
        x = rng.normal(size=(fiducials, dim))  # the plan counts on as many data as parameters
        record = metric.observe(mb.Block(truths, values, np.arange(fiducials), scaling, seed, x=x))
        found += metric.reduce([record], scaling).pvalue < level
    return found / repeats


@pytest.mark.parametrize(
    ("error", "metrics"),
    [
        ({"width": 0.35, "dim": 2, "samples": 40, "power": 0.7}, ("mira", "calibration", "sbc")),
        ({"width": 0.3, "dim": 4, "samples": 30, "level": 0.05, "extent": 30.0}, ("mira", "calibration")),
        ({"width": 0.0, "shift": 0.5, "dim": 3, "samples": 30, "power": 0.8}, ("calibration", "sbc")),
    ],
)
def test_the_power_is_what_it_claims(rng, error, metrics, monkeypatch):
    # Neither the width that the test would have seen nor a null finer than the level is looked at here.
    monkeypatch.setattr(import_module("mira_bench.metrics.mira"), "REPLICATES", 1999)
    table = mb.plan(**error, regions=30).set_index("test")
    width, level = error["width"], error.get("level", 0.01)
    repeats = 120
    made = {"mira": mb.Mira(regions=30), "calibration": mb.Calibration(effects=0), "sbc": mb.Sbc()}
    for name in metrics:
        row = table.loc[name]
        assert row.fiducials == max(row.narrow, row.wide)
        assert error.get("power", 0.9) <= row.power < error.get("power", 0.9) + 0.03
        harder = 1 / (1 + width) if row.narrow >= row.wide else 1 + width
        seen = caught(
            rng, made[name], int(row.fiducials), error["dim"], error["samples"], harder, error.get("shift", 0.0),
            repeats, level, error.get("extent", 6.0),
        )  # fmt: skip
        assert abs(seen - row.power) < 4 * np.sqrt(row.power * (1 - row.power) / repeats), name


def test_effects_are_those_of_the_test(rng):
    # What the plan simulates, and what the test finds out about itself by moving its own samples.
    dim, samples = 2, 60
    axes = marginal_axes(dim, 0)
    centers = -3 + 6 * rng.random((200, 32, dim))
    made = [effects_of(rng.normal(size=(samples, dim)), c, axes, rng) for c in centers]
    for w in (3, 10):
        listed, features = _features(_Error(float(WIDTHS[w]), 0.0, dim, samples, 6.0, 0), 32)
        rows = [i for i, f in enumerate(listed) if f.kind == "dispersion" and f.group == "marginals"]
        rows += [i for i, f in enumerate(listed) if f.kind == "tails" and f.column < 0]
        planned = (features["wrong"] - features["exact"])[:, rows]
        found = np.stack([[*e.dispersion[w], e.tails[w]] for e in made])
        error = np.hypot(planned.std(axis=0) / np.sqrt(len(planned) / 8), found.std(axis=0) / np.sqrt(len(found)))
        assert (np.abs(planned.mean(axis=0) - found.mean(axis=0)) < 4 * error).all()
        assert (np.abs(found.mean(axis=0)) > 4 * error).all()


def test_more_is_needed_for_less():
    needed = [mb.plan(width=w, dim=2, samples=40, regions=10).fiducials for w in (0.5, 0.25)]
    ratio = (needed[1] / needed[0]).astype(float)
    # The effect is nearly proportional to the error, the number of fiducials to its inverse square.
    assert ((ratio > 2.2) & (ratio < 6)).all()


def test_what_mira_alone_cannot_see():
    # This candidate is too wide and shifted so that MIRA sits close to its expectation: see tasks/gaussian.
    table = mb.plan(width=0.3, shift=0.787, dim=2, samples=100).set_index("test")
    assert table.wide["calibration"] < 100
    assert pd.isna(table.wide["mira"]) or table.wide["mira"] > 10 * table.wide["calibration"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"width": 0.0}, "nothing to see"),
        ({"width": -0.1}, "at least 0"),
        ({"power": 1.0}, "level < power < 1"),
        ({"level": 1e-4}, "no p-values below"),
        ({"dim": 0}, "dim=0"),
        ({"samples": 1}, "samples - 1=0"),
        ({"extent": 0.0}, "extent=0"),
    ],
)
def test_bad_plans(change, words):
    with pytest.raises(mb.UsageError, match=words):
        mb.plan(**change)


def test_the_verb(capsys):
    assert main(["plan", "--width", "0.5", "--dim", "2", "--samples", "30", "--regions", "10"]) == 0
    text = capsys.readouterr().out
    expected = mb.plan(width=0.5, dim=2, samples=30, regions=10)  # the same seed, the same numbers
    for count in expected.fiducials:
        assert str(count) in text
    for words in ("MIRA alone, 10 regions", "calibration test", "approximate"):
        assert words in text
    assert main(["plan", "--width", "0"]) == 2
    assert "nothing to see" in capsys.readouterr().err
