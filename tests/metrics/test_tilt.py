r"""The tilt says on which side of its range the truth is, with the ranks of MIRA."""

import numpy as np
import pytest

import mira_bench as mb


def test_it_is_that_of_the_ranks_of_mira(rng):
    truths = rng.normal(size=(40, 3))
    samples = {"one": rng.normal(size=(40, 30, 3))}
    result = mb.score(truths, samples, metrics=["mira", "tilt"], seed=3)
    assert result.standings[0].scores["tilt"].score == pytest.approx(result.standings[0].mira.tilt)


def test_truths_that_are_farther_out_than_samples_tilt_it(rng):
    truths = rng.normal(size=(300, 2))
    samples = {
        "near": 0.4 * rng.normal(size=(300, 50, 2)),
        "right": rng.normal(size=(300, 50, 2)),
        "wide": 2.5 * rng.normal(size=(300, 50, 2)),
    }
    rows = mb.score(truths, samples, metrics=["tilt"]).summary.set_index("candidate")
    assert abs(rows.score["right"]) < 4 * rows.stderr["right"]
    assert rows.score["near"] > 4 * rows.stderr["near"]  # centers are far away, and most truths behind most samples
    assert rows.score["wide"] < -4 * rows.stderr["wide"]
    assert (rows.expected == 0).all()


def test_that_of_a_shared_set_has_no_error(rng):
    truths, samples = rng.normal(size=(60, 2)), rng.normal(size=(1, 50, 2))
    row = mb.score(truths, {"one": samples}, metrics=["tilt"]).summary.set_index("metric").loc["tilt"]
    assert np.isfinite(row["score"])
    assert np.isnan(row["stderr"])
    assert "share" in row["note"]
