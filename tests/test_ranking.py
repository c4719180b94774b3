from dataclasses import replace
from importlib import resources

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.gaussian import Conjugate, ConjugateCandidate, Toy, ToyCandidate
from omegaconf import OmegaConf

import mira_bench as mb
from mira_bench.metric import Scores
from mira_bench.metrics import choose_metrics
from mira_bench.ranking.tiers import COLUMNS, Standing, objections
from mira_bench.report.folder import conclude, logging_to
from mira_bench.statistics import holm, paired_pvalue


@pytest.fixture(scope="module")
def toy():
    candidates = {
        "correct": ToyCandidate(),
        "overconfident": ToyCandidate(variance=1 / 3),
        "underconfident": ToyCandidate(variance=2.0),
        "biased": ToyCandidate(bias=5.0),
    }
    metrics = choose_metrics(None) | {"c2st": mb.C2st(fiducials=2, trees=5)}
    return mb.run(Toy(), candidates, fiducials=500, samples=200, metrics=metrics, name="gaussian")


def test_the_four_verdicts(toy):
    table = toy.ranking.set_index("candidate")
    assert table.verdict.to_dict() == {
        "correct": "no miscalibration found",
        "overconfident": "overconfident",
        "underconfident": "underconfident",
        "biased": "bias depends on x",
        "oracle": "no miscalibration found",
        "prior": "no information",
    }
    assert table.tier[:4].to_dict() == {"correct": "A", "underconfident": "B", "overconfident": "B", "biased": "B"}
    assert table["rank"]["correct"] == table["mira_rank"]["correct"] == 1
    assert table.tied["correct"] == "best"
    assert set(table.tied[["overconfident", "underconfident", "biased"]]) == {"no"}
    assert table["rank"][["oracle", "prior"]].isna().all()
    assert "would have seen all widths off by" in table.evidence["correct"]
    assert "against x[" in table.evidence["biased"] or "trend" in table.evidence["biased"]
    assert (table.difference[1:4] > 0).all()


@pytest.mark.parametrize(
    ("name", "paper"), [("correct", 0.6655), ("overconfident", 0.6148), ("underconfident", 0.6969), ("biased", 0.5430)]
)
def test_the_papers_values(toy, name, paper):
    ours = next(s.mira for s in toy.standings if s.name == name)
    # Their value has our standard error at L = 1000 (half of ours in variance), and another draw of the truths.
    assert abs(ours.score - paper) < 4 * ours.stderr * np.sqrt(1.5)


def test_the_tables(toy):
    assert list(toy.ranking.columns) == COLUMNS
    assert list(toy.summary.columns) == [
        "task", "candidate", "metric", "view", "score", "stderr", "expected", "pvalue",
        "from_oracle", "from_oracle_stderr", "note",
    ]  # fmt: skip
    assert len(toy.summary) == 6 * 7
    assert toy.ranking[["c2st", "mmd"]].notna().all(axis=None)
    mira = toy.scores.query("candidate == 'correct' and metric == 'mira'")
    assert len(mira) == 500
    row = toy.summary.query("candidate == 'correct' and metric == 'mira'").iloc[0]
    assert mira.value.mean() == pytest.approx(row.score)
    assert row.expected == pytest.approx(401 / 603)


def test_mira_alone_is_fooled_and_the_tiers_are_not():
    # A candidate that is too wide and shifted has MIRA at its expectation.
    text = (resources.files("mira_bench.configs") / "task" / "conjugate.yaml").read_text()
    config = OmegaConf.create(text).candidates.wide_shifted
    candidate = ConjugateCandidate(width=config.width, shift=config.shift)
    metrics = {name: metric for name, metric in choose_metrics(None).items() if name != "c2st"}
    candidates = {"exact": ConjugateCandidate(), "wide_shifted": candidate}
    result = mb.run(Conjugate(), candidates, fiducials=3000, samples=100, metrics=metrics)
    table = result.ranking.set_index("candidate")
    assert abs(table.mira_sigmas["wide_shifted"]) < 4
    assert table.verdict["wide_shifted"] == "shifted"
    assert table.tier["wide_shifted"] == "B"
    assert table.index[0] == "exact"


def test_rank_by_mira_is_the_papers_order(toy):
    table = mb.rank(list(toy.standings), rank_by="mira")
    assert table["rank"].dropna().tolist() == table["mira_rank"].dropna().tolist() == [1, 2, 3, 4]
    with pytest.raises(mb.UsageError, match="rank_by"):
        mb.rank(list(toy.standings), rank_by="vibes")


def test_ties(rng):
    truths = rng.normal(size=(200, 2))
    draws = [rng.normal(size=(200, 80, 2)) for _ in range(3)]
    near = {f"c{i}": truths[:, None] + 0.3 * rng.normal(size=(200, 1, 2)) + 0.3 * d for i, d in enumerate(draws)}
    result = mb.score(truths, near)
    assert set(result.ranking.tied) == {"best", "tied"}
    few = mb.score(truths[:12], {name: s[:12] for name, s in near.items()})
    assert set(few.ranking.tied) <= {"best", "not resolved"}
    worse = mb.score(truths, near | {"worse": truths[:, None] + 0.8 + 0.3 * draws[0]})
    assert worse.ranking.set_index("candidate").tied["worse"] == "no"


def test_a_failure_is_last_and_has_its_reason():
    table = mb.rank([Standing("bad", failure="it broke"), Standing("none")])
    assert table.candidate.tolist() == ["none", "bad"]
    assert table.verdict.tolist()[1] == "failed"
    assert table.evidence.tolist()[1] == "it broke"


def test_sign_flips_are_exact(rng):
    assert paired_pvalue(np.ones(5), rng) == pytest.approx(2 / 32)
    assert paired_pvalue(np.zeros(5), rng) == 1.0
    pvalues = [paired_pvalue(rng.standard_t(2, size=9), rng) for _ in range(400)]
    assert np.mean(np.array(pvalues) <= 0.05) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 400)


def test_holm():
    assert np.allclose(holm(np.array([0.01, 0.04, 0.03])), [0.03, 0.06, 0.06])
    assert len(holm(np.array([]))) == 0


def test_plot_and_save(toy, tmp_path):
    toy.save(tmp_path)
    names = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert names == {
        "scores.parquet", "summary.csv", "ranking.csv", "ranking.md", "ranking.tex", "details.json", "report.html",
        "figures/overview.png", "figures/overview.pdf", "figures/sbc.png", "figures/sbc.pdf",
    }  # fmt: skip
    assert pd.read_parquet(tmp_path / "scores.parquet").equals(toy.scores)
    back = pd.read_csv(tmp_path / "ranking.csv")
    assert back.candidate.tolist() == toy.ranking.candidate.tolist()
    assert np.allclose(back.mira, toy.ranking.mira)
    tex = (tmp_path / "ranking.tex").read_text()
    assert tex.count(r"\\") == 7
    assert "±" not in tex
    figure = toy.plot()
    assert len(figure.axes) == 2
    assert len(figure.axes[1].lines) == 7  # zero and six candidates


def test_score_survives_what_users_do(rng):
    truths, samples = rng.normal(size=(20, 2)), rng.normal(size=(20, 30, 2))
    for candidates, extra, words in [
        ({}, {}, "no candidates"),
        ({"a": samples[:10]}, {}, "'a' has 10 fiducials"),
        ({"a": samples}, {"x": np.zeros(3)}, "3 observations"),
        ({"a": samples}, {"names": ["m"]}, "1 names for 2 dimensions"),
        ({"a": samples}, {"groups": [0]}, "one label per fiducial"),
        ({"a": np.where(np.arange(20)[:, None, None] == 7, np.nan, samples)}, {}, "'a' is nan at fiducial 7"),
    ]:
        with pytest.raises(mb.UsageError, match=words):
            mb.score(truths, candidates, **extra)
    with pytest.raises(mb.UsageError, match="mapping of names"):
        mb.score(truths, samples)
    with pytest.raises(mb.UsageError, match="rank_by"):
        mb.score(truths, {"a": samples}, rank_by="vibes")
    one = mb.score(truths[:1], {"a": samples[:1]})
    assert (one.ranking.verdict[0], one.ranking.tier[0]) == ("too few fiducials", "-")
    assert list(mb.score(truths, {"a": samples}, metrics=["sbc"]).summary.metric) == ["sbc"]
    single = mb.score(truths, {"a": samples[:, :1]})
    note = single.summary.query("metric == 'energy'").note.iloc[0]
    assert note.startswith("not computed")
    assert "needs two" in note


def test_worse_than_the_prior(rng):
    truths = rng.normal(size=(200, 2))
    prior = rng.normal(size=(200, 50, 2))
    table = mb.score(truths, {"prior-like": prior, "far": 10 + prior}).ranking.set_index("candidate")
    assert table.verdict.to_dict() == {"prior-like": "no information", "far": "worse than the prior"}
    assert table.skill["far"] < -4 * table.skill_stderr["far"]
    assert set(table.tier) == {"C"}


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        (["mira", "energy"], "without the metric calibration; candidates are ranked by energy score"),
        (["mira", "calibration"], "without the metric energy; candidates are ranked by the distance of MIRA"),
        (["tarp"], "without the metric calibration and energy; candidates are ranked by nothing"),
        (["mira", "energy", "calibration"], None),
    ],
)
def test_who_drops_the_tiers_is_told(rng, metrics, words, tmp_path, capsys):
    x = rng.normal(size=(60, 2))
    truths, samples = x + 0.3 * rng.normal(size=x.shape), x[:, None] + 0.3 * rng.normal(size=(60, 20, 2))
    result = mb.score(truths, {"good": samples, "wide": 3 * samples - 2 * x[:, None]}, metrics=metrics)
    with logging_to(tmp_path):
        conclude(result, tmp_path, "samples", 1.0)
    said, kept = capsys.readouterr().err, (tmp_path / "log.txt").read_text()
    assert (words in said and words in kept) if words else "no tiers" not in said + kept
    assert mb.score(truths, {"good": samples}, metrics=["mira"], rank_by="mira").notices == []


def test_what_speaks_against_tier_a_is_told():
    def standing(**scores):
        return Standing("npe", scores={key.replace("_at_", "@"): one for key, one in scores.items()})

    against = Scores(0.86, pvalue=1e-4, note="against the reference posterior: 4 fiducials")
    found = objections(
        standing(
            calibration=Scores(2.0, pvalue=0.5),
            calibration_at_shared=Scores(2.0, pvalue=0.3),
            calibration_at_sorted=Scores(4.3, pvalue=0.002),
            c2st=against,
            mmd=Scores(0.1, pvalue=1e-4, note="joint: ..."),
        )
    )
    assert found == [
        "calibration in the view sorted, p = 0.002",
        "C2ST 0.860 against the reference posterior, p = 0.0001",
        "MMD, p = 0.0001",
    ]
    joint = replace(against, note="joint: ...")
    assert objections(standing(c2st=joint)) == ["C2ST, p = 0.0001"]
    # Of two tests, each has half of the level; a reference has all of it.
    weak = replace(joint, pvalue=0.007)
    assert objections(standing(c2st=weak, mmd=Scores(pvalue=0.5))) == []
    assert len(objections(standing(c2st=replace(against, pvalue=0.007), mmd=Scores(pvalue=0.5)))) == 1


def test_results_are_shown_in_a_line(toy, tmp_path):
    names = ["correct", "overconfident", "underconfident", "biased", "oracle", "prior"]
    shown = f"Result(task='gaussian', candidates={names}, fiducials=500, samples=200, folder="
    assert repr(toy).startswith(shown)
    small = mb.score(np.zeros((5, 1)), {"a": np.arange(50.0).reshape(5, 10, 1)}, metrics=["mira"])
    assert repr(small).endswith("fiducials=5, samples=10, folder=None): a is first")
    small.save(tmp_path)
    assert repr(small).endswith(f"folder={str(tmp_path)!r}): a is first")
    for standing in toy.standings:
        assert len(repr(standing)) < 200
        for scores in standing.scores.values():
            assert max(len(repr(scores)), len(repr(scores.result))) < 300
            assert "array(" not in repr(scores) + repr(scores.result)
