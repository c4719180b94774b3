r"""Sample sets that fiducials share, and fiducials that are repeated, are found: they are not independent."""

from importlib import import_module

import numpy as np
import pandas as pd
import pytest

import mira_bench as mb
from mira_bench.adapters.files import Files

L, S = 120, 30


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    r"""Forests are small: all that is asked of C2ST here is whether two calls give the same."""
    module = import_module("mira_bench.metrics.c2st")
    make = module._classifier
    monkeypatch.setattr(module, "_classifier", lambda kind, trees, *more: make(kind, 2, *more))


@pytest.fixture
def toy(rng):
    x = rng.normal(size=(L, 2))
    y = x + rng.normal(size=(L, 2))
    return y, x[:, None] + rng.normal(size=(L, S, 2)), rng.normal(size=(1, S, 2)) * 2**0.5


def of(frame, name):
    return frame[frame.candidate == name].drop(columns="candidate").reset_index(drop=True)


def row(result, name):
    return of(result.summary, name)


def alike(one, other, *names):
    for name in names:
        pd.testing.assert_frame_equal(row(one, name), row(other, name), check_exact=True)
        pd.testing.assert_frame_equal(of(one.scores, name), of(other.scores, name), check_exact=True)


def test_a_shared_set_concerns_its_own_candidate_only(toy):
    y, own, shared = toy
    both = mb.score(y, {"own": own, "shared": shared, "other": 1.5 * own})
    alone = mb.score(y, {"own": own, "other": 1.5 * own})
    alike(both, alone, "own", "other")
    alike(both, mb.score(y, {"shared": shared}), "shared")
    verdicts = both.ranking.set_index("candidate")
    assert verdicts.verdict["own"] == "no miscalibration found"
    pd.testing.assert_series_equal(
        verdicts.loc["own", ["tier", "mira", "mira_stderr", "calibration_p", "sbc_p", "verdict", "evidence"]],
        alone.ranking.set_index("candidate").loc[
            "own", ["tier", "mira", "mira_stderr", "calibration_p", "sbc_p", "verdict", "evidence"]
        ],
    )
    # The order is by tiers as ever; the shared set is tested as a whole, and tests that cannot do that say why.
    assert both.notices == alone.notices
    assert verdicts.verdict["shared"] == "no information"
    assert verdicts.calibration_p["shared"] > 0.001  # it is the prior, and all truths are its draws
    notes = row(both, "shared").set_index("metric").note
    assert notes[["sbc", "tarp"]].str.contains("share a sample set").all()
    assert not row(both, "own").note.str.contains("share").any()


@pytest.mark.parametrize("form", ["tile", "repeat", "broadcast", "list", "fortran", "tensor", "single"])
def test_copies_of_one_set_are_one_set(toy, form, caplog):
    y, own, shared = toy
    shared = shared.astype(np.float32) if form == "single" else shared
    copies = {
        "tile": lambda: np.tile(shared, (L, 1, 1)),
        "repeat": lambda: np.repeat(shared, L, axis=0),
        "broadcast": lambda: np.broadcast_to(shared, (L, S, 2)),
        "list": lambda: [shared[0].tolist()] * L,
        "fortran": lambda: np.asfortranarray(np.tile(shared, (L, 1, 1))),
        "tensor": lambda: pytest.importorskip("torch").tensor(np.tile(shared, (L, 1, 1))),
        "single": lambda: np.tile(shared, (L, 1, 1)),
    }[form]()
    reference = mb.score(y, {"own": own, "shared": shared})
    result = mb.score(y, {"own": own, "shared": copies})
    alike(result, reference, "own", "shared")
    if form != "broadcast":
        (warning,) = result.warnings
        assert (
            warning == f"candidate 'shared' has the same samples for all {L} fiducials, and is scored as one shared set"
        )
        assert warning in caplog.text
    assert mb.mira(y, copies).stderr == mb.mira(y, shared).stderr
    for function in (mb.tarp, mb.sbc):
        assert np.isnan(function(y, copies).pvalue)
        assert np.isnan(function(y, shared).pvalue)
        assert np.isfinite(function(y, own).pvalue)
    with pytest.raises(mb.UsageError, match="share a sample set"):
        mb.lc2st(y, copies, y)


def test_copies_on_disk_are_found_in_blocks(toy, tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    y, own, shared = toy
    reference = mb.score(y, {"own": own, "shared": shared})
    monkeypatch.setattr(import_module("mira_bench.runner.sample_sets"), "BLOCK_ENTRIES", 9 * S * 2)
    blocks = mb.score(y, {"own": own, "shared": shared})
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "own.npy", own.swapaxes(0, 1))
    np.save(tmp_path / "turned.npy", np.tile(shared, (L, 1, 1)).swapaxes(0, 1))
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["shared"] = np.tile(shared, (L, 1, 1))
        alike(mb.score(y, {"own": own, "shared": file["shared"]}), blocks, "own", "shared")
    sources = {"own": str(tmp_path / "own.npy"), "shared": str(tmp_path / "turned.npy")}
    result = Files(str(tmp_path / "y.npy"), sources, layout="SLd").score(metrics=mb.metrics.choose_metrics(None))
    alike(result, blocks, "own", "shared")
    mine, theirs = (r.summary.set_index(["candidate", "metric"]).stderr for r in (blocks, reference))
    assert mine["shared", "mira"] == pytest.approx(theirs["shared", "mira"], rel=1e-9)  # sums in another order


def test_a_few_sets_that_many_share_are_groups(rng):
    labels = rng.integers(6, size=L)
    y, sets = rng.normal(size=(L, 2)), rng.normal(size=(6, S, 2))
    given = mb.score(y, {"a": sets[labels]}, groups=labels)
    found = mb.score(y, {"a": sets[labels]})
    alike(found, given, "a")
    assert "6 different sample sets for 120 fiducials" in found.warnings[0]
    assert mb.mira(y, sets[labels]).stderr == mb.mira(y, sets[labels], groups=labels).stderr
    # Labels that are not true of a candidate would give it the error of another one.
    own = rng.normal(size=(L, S, 2))
    for call in (
        lambda: mb.score(y, {"a": sets[labels], "own": own}, groups=labels),
        lambda: mb.mira(y, own, groups=labels),
    ):
        with pytest.raises(mb.UsageError, match=r"different samples for the fiducials .* leave groups= out"):
            call()


def test_sets_that_are_equal_by_chance_are_not_shared(rng):
    coins = rng.integers(2, size=(L, 4, 1)).astype(float)
    truths = rng.integers(2, size=(L, 1)).astype(float)
    result = mb.score(truths, {"a": coins, "point": np.full((L, S, 1), 0.3)})
    assert result.warnings == []
    notes = result.summary.set_index(["candidate", "metric"]).note
    assert not notes.str.contains("share").any()
    assert np.isfinite(mb.sbc(truths, coins).pvalue)


def test_repeated_fiducials_are_refused(toy):
    y, own, shared = toy
    words = r"fiducial 120 is fiducial 0 again.* 1080 of 1200 .* give each fiducial once"
    again = np.tile(y, (10, 1)), np.tile(own, (10, 1, 1))
    for call in (
        lambda: mb.score(again[0], {"a": again[1]}),
        lambda: mb.score(again[0], {"a": again[1], "b": shared}),
        lambda: mb.score(again[0], {"b": shared}),
        lambda: mb.mira(*again),
        lambda: mb.tarp(*again),
        lambda: mb.sbc(*again),
        lambda: mb.energy_score(*again),
        lambda: mb.mira(again[0], shared),
    ):
        with pytest.raises(mb.UsageError, match=words):
            call()
    with pytest.raises(mb.UsageError, match="fiducial 1 is fiducial 0 again"):
        mb.score(np.repeat(y, 10, axis=0), {"a": np.repeat(own, 10, axis=0)})
    # One candidate that was drawn anew for each of them does not make the other's copies independent.
    fresh = np.random.default_rng(1).normal(size=again[1].shape)
    result = mb.score(again[0], {"copied": again[1], "fresh": fresh}, metrics={"sbc": mb.Sbc()})
    assert "candidate 'copied' has 120 different sample sets for 1200 fiducials" in result.warnings[0]
    pvalues = result.summary.set_index("candidate").pvalue
    assert np.isnan(pvalues["copied"])
    assert np.isfinite(pvalues["fresh"])


def test_equal_truths_of_a_discrete_law_are_no_repeats(rng):
    truths = rng.integers(5, size=(L, 1)).astype(float)
    one = rng.integers(5, size=(1, S, 1)).astype(float)
    own = rng.integers(5, size=(L, S, 1)).astype(float)
    assert np.isfinite(mb.score(truths, {"a": own, "b": one}).summary.score).sum() > 0
    assert mb.mira(truths, one).score == mb.score(truths, {"b": one}).standings[0].mira.score
