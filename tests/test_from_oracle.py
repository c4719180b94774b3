r"""The summary's paired differences from the oracle."""

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.gaussian import Conjugate, ConjugateCandidate
from mira_bench.tasks.mixture import Mixture, ShiftedMixture

import mira_bench as mb
from mira_bench.metric import Scores
from mira_bench.ranking.standing import Standing, difference
from mira_bench.report.tables import read_table

COLUMNS = ["from_oracle", "from_oracle_stderr"]


def test_it_is_the_mean_difference(tmp_path):
    metrics = ["mira", "energy", "tarp", "mmd", "moments", "log_score"]
    candidates = {"narrow": ConjugateCandidate(width=0.7), "exact": ConjugateCandidate()}
    result = mb.run(Conjugate(), candidates, fiducials=40, samples=30, metrics=metrics)
    folder = result.save(tmp_path)
    table, scores = read_table(folder / "summary.csv"), pd.read_parquet(folder / "scores.parquet")
    seen = set()
    for row in table.itertuples():
        mine, oracle = (
            scores[(scores.candidate == name) & (scores.metric == row.metric)].set_index("fiducial").value
            for name in (row.candidate, "oracle")
        )
        if row.candidate == "oracle" and len(oracle):
            assert (row.from_oracle, row.from_oracle_stderr) == (0, 0)
        elif len(mine) and len(oracle):
            seen.add(row.metric)
            assert row.from_oracle == pytest.approx((mine - oracle).mean())
            assert row.from_oracle_stderr == pytest.approx((mine - oracle).std() / np.sqrt(len(mine)))
        else:
            assert np.isnan([row.from_oracle, row.from_oracle_stderr]).all()
    assert seen >= {"mira", "energy", "mmd", "moments"}
    rows = table.set_index(["candidate", "metric"])
    narrow, exact = (rows.loc[name, "mira"] for name in candidates)
    assert narrow.from_oracle < -4 * narrow.from_oracle_stderr
    assert abs(exact.from_oracle) < 4 * exact.from_oracle_stderr
    assert exact.from_oracle_stderr < 0.7 * exact.stderr  # the pairs share their truths and centers


def test_without_an_oracle_there_is_none(rng):
    alone = mb.run(Conjugate(), {"exact": ConjugateCandidate()}, fiducials=12, samples=10, controls=False)
    given = mb.score(rng.normal(size=(12, 2)), {"a": rng.normal(size=(12, 10, 2))}, metrics=["mira"])
    for result in (alone, given):
        assert result.summary[COLUMNS].isna().all(axis=None)


def test_a_failed_candidate_has_none():
    class Broken:
        def build(self, task, rng):
            raise ValueError("it broke")

    result = mb.run(Conjugate(), {"bad": Broken()}, fiducials=12, samples=10, metrics=["mira", "energy"])
    table = result.summary.set_index("candidate")
    assert table.loc["bad", COLUMNS].isna().all(axis=None)
    assert table.note["bad"].str.startswith("failed: ").all()
    assert table.loc["prior", COLUMNS].notna().all(axis=None)


def test_shared_sets_are_in_the_error():
    task = Mixture(dim=2)
    result = mb.run(task, {"shifted": ShiftedMixture(6.0)}, fiducials=50, samples=20, metrics=["mira", "energy"])
    mine, oracle = (next(s for s in result.standings if s.name == name) for name in ("shifted", "oracle"))
    assert mine.shared
    assert oracle.shared
    table = result.summary.set_index(["candidate", "metric"])
    for metric in ("mira", "energy"):
        a, b = mine.scores[metric], oracle.scores[metric]
        alone = np.var(a.per_fiducial - b.per_fiducial, ddof=1) / 50
        sets = a.result.shared_variance + b.result.shared_variance
        assert sets > 0
        assert table.from_oracle_stderr["shifted", metric] == pytest.approx(np.sqrt(alone + sets))
        assert table.from_oracle["shifted", metric] == pytest.approx(a.score - b.score)
        assert table.from_oracle_stderr["oracle", metric] == 0


def test_what_is_not_known_is_left_out():
    one, other = Scores(per_fiducial=np.array([1.0, 2.0, 4.0])), Scores(per_fiducial=np.array([1.0, 1.0, 1.0]))
    oracle, shared = Standing("oracle", "oracle"), Standing("a", shared=True)
    mean, stderr = difference((shared, one), (oracle, other))
    assert mean == pytest.approx(4 / 3)
    assert np.isnan(stderr)  # nobody knows what the shared sets add
    infinite = Scores(per_fiducial=np.array([-np.inf, 2.0, 4.0]))
    assert difference((Standing("a"), infinite), (oracle, other))[0] == -np.inf
    assert np.isnan(difference((Standing("a"), Scores(1.0)), (oracle, other))).all()
    assert np.isnan(difference((Standing("a"), one), (oracle, Scores(per_fiducial=np.ones(2))))).all()
