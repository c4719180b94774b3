r"""Verdicts: each comes about for a candidate that deserves it, and `docs/verdicts.md` has them all."""

import contextlib
import io
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.gaussian import Correlated, CorrelatedCandidate, SpoiledCandidate

import mira_bench as mb
from mira_bench.metric import Scores
from mira_bench.metrics.calibration import CalibrationResult, Feature
from mira_bench.metrics.energy import EnergyResult
from mira_bench.ranking.tiers import Standing, conflicts, tie_words
from mira_bench.ranking.verdicts import VERDICTS, advice, verdict

DOCS = Path(__file__).parents[1] / "docs" / "verdicts.md"
METRICS = ("calibration", "energy")
NAMES = ["a", "b"]
S = 100

COVARIANCE = 0.25 * np.array([[1, 0.6], [0.6, 1]])
GAIN = np.linalg.inv(np.eye(2) + COVARIANCE)
ROOT = np.linalg.cholesky(GAIN @ COVARIANCE)
SD = np.sqrt(np.diag(GAIN @ COVARIANCE))


def data(rng, fiducials, samples=S):
    r"""Two parameters, their data, the means of the posteriors, and draws around them."""
    y = rng.normal(size=(fiducials, 2))
    x = y + rng.normal(size=y.shape) @ np.linalg.cholesky(COVARIANCE).T
    return y, x, x @ GAIN.T, rng.normal(size=(fiducials, samples, 2)) @ ROOT.T


def half_blind(rng, x, samples=S):
    r"""The posterior given the first datum alone."""
    middle = np.stack([0.8 * x[:, 0], 0 * x[:, 0]], axis=1)
    return middle[:, None] + [np.sqrt(0.2), 1.0] * rng.normal(size=(len(x), samples, 2))


def test_the_example_of_the_document_runs():
    ((code, shown),) = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})

    def words(text):  # the evidence has numbers
        return [[line.split()[:3], line.split(":")[0].split()[-2:]] for line in text.splitlines()]

    assert words(printed.getvalue()) == words(shown)


def row(truths, samples, x=None, metrics=METRICS, **more):
    return mb.score(truths, {"it": samples}, x=x, names=NAMES, metrics=metrics, **more).ranking.iloc[0]


def test_the_document_has_them_all():
    text = DOCS.read_text(encoding="utf-8")
    for word, (meaning, todo) in VERDICTS.items():
        assert f"### {word}\n" in text
        assert meaning
        assert todo
        assert advice(word) == todo
    for word in ("best", "tied", "not resolved", "by tier", "no"):
        assert f"| `{word}` |" in text
    for tier in "ABC?-":
        assert f"| {tier} |" in text


@pytest.mark.parametrize(
    ("spoil", "word", "evidence"),
    [
        ("exact", "no miscalibration found", "would have seen all widths off by"),
        ("wrong sign", "wrong correlation", "a and b go together more than it says"),
        ("too much", "wrong correlation", "a and b go together less than it says"),
        ("up", "shifted", "the truth lies below the samples of a"),
        ("down", "shifted", "the truth lies above the samples of b"),
        ("shrunk", "shrunk toward the prior", "trend of"),
        ("follows too much", "bias depends on x", ""),
        ("bias", "bias depends on x", "against x["),
        ("half blind", "bias depends on x", "location of b against x[1]"),
        ("width", "width depends on x", "against x[0]"),
        ("narrow", "overconfident", "score in balls z = -"),
        ("wide", "underconfident", "score in balls z = +"),
    ],
)
def test_candidates_get_what_they_deserve(rng, spoil, word, evidence):
    y, x, mean, noise = data(rng, 300)
    spoiled = {
        "exact": lambda: mean[:, None] + noise,
        "wrong sign": lambda: mean[:, None] + noise * [1, -1],
        "too much": lambda: mean[:, None] + SD * (0.3 * noise / SD + 0.95 * rng.normal(size=(300, S, 1))),
        "up": lambda: mean[:, None] + noise + [0.6 * SD[0], 0],
        "down": lambda: mean[:, None] + noise - [0, 0.6 * SD[1]],
        "shrunk": lambda: 0.75 * mean[:, None] + noise,
        "follows too much": lambda: 1.3 * mean[:, None] + noise,
        "bias": lambda: (mean + 0.6 * SD * np.sign(x[:, ::-1]))[:, None] + noise,
        "half blind": lambda: half_blind(rng, x),
        "width": lambda: mean[:, None] + noise * np.where(x[:, :1] > 0, 0.6, 1.5)[:, None],
        "narrow": lambda: mean[:, None] + 0.7 * noise,
        "wide": lambda: mean[:, None] + 1.4 * noise,
    }[spoil]()
    found = row(y, spoiled, x)
    assert (found.verdict, found.tier) == (word, "A" if spoil == "exact" else "B")
    assert evidence in found.evidence


def test_one_mode_in_place_of_two(rng):
    x = rng.normal(size=(300, 2))
    y = x + rng.choice((-1, 1), size=x.shape) + 0.3 * rng.normal(size=x.shape)
    gaussian = x[:, None] + np.sqrt(1.09) * rng.normal(size=(300, S, 2))
    found = row(y, gaussian, x)
    assert (found.verdict, found.tier) == ("wrong shape", "B")
    assert "peak of" in found.evidence


def test_without_data_errors_that_go_with_them_are_not_seen(rng):
    y, x, _, _ = data(rng, 300)
    samples = half_blind(rng, x)
    assert row(y, samples, x).tier == "B"
    blind = row(y, samples)
    assert (blind.verdict, blind.tier) == ("no miscalibration found", "A")
    assert "without data, errors that go with the data are not seen" in blind.evidence


@dataclass(frozen=True)
class Signs:
    r"""Three parameters around the data, whose deviations have a positive product."""

    version = 1
    names = ("a", "b", "c")

    def simulate(self, count, rng):
        x, z = 3 * rng.normal(size=(count, 3)), rng.normal(size=(count, 3))
        return mb.Fiducials(y=x + z * np.sign(z.prod(axis=1, keepdims=True)), x=x)

    def log_likelihood(self, y, x):
        z = y - x
        return np.where(z.prod(axis=-1) > 0, 0.0, -np.inf) - 0.5 * np.sum(z**2, axis=-1)


@dataclass(frozen=True)
class Independent:
    version = 1

    def build(self, task, rng):
        return self

    def sample(self, x, count, rng):
        return x[:, None] + rng.normal(size=(len(x), count, 3))


def test_the_likelihood_sees_what_no_pair_does():
    result = mb.run(Signs(), {"it": Independent()}, fiducials=200, samples=S, metrics=METRICS, controls=False)
    found = result.ranking.iloc[0]
    assert (found.verdict, found.tier) == ("does not fit the data", "B")
    assert "likelihood" in found.evidence


def test_the_prior_and_worse(rng):
    y, x, _, _ = data(rng, 200)
    prior = rng.normal(size=(200, S, 2))
    for observed in (x, None):
        found = row(y, prior, observed)
        assert (found.verdict, found.tier) == ("no information", "C")
    found = row(y, 10 + prior, x)
    assert (found.verdict, found.tier) == ("worse than the prior", "C")
    assert found.evidence.startswith("skill -")
    assert row(y[:4], prior[:4], x[:4]).tier != "A"


def test_few_fiducials_do_not_make_an_exact_candidate_worthless():
    found = []
    for seed in range(60):
        y, x, mean, noise = data(np.random.default_rng(seed), 4, 50)
        found.append(
            row(
                y,
                mean[:, None] + noise,
                x,
                metrics={"calibration": mb.Calibration(replicates=199), "energy": mb.Energy()},
            )
        )
    tiers = [one.tier for one in found]
    assert "C" not in tiers
    # One in a hundred is a false alarm.
    assert sum(tier in "A?" for tier in tiers) >= 56
    words = {tier: {one.verdict for one in found if one.tier == tier} for tier in "A?"}
    assert "not resolved" in words["?"]
    assert words["A"] <= {"no miscalibration found"}
    assert "no miscalibration found" not in words["?"]


def test_one_sample_says_nothing_and_is_last(rng):
    y, x, mean, noise = data(rng, 100)
    given = {"one": mean[:, None] + noise[:, :1], "all": mean[:, None] + noise, "prior": rng.normal(size=noise.shape)}
    table = mb.score(y, given, x=x, metrics=METRICS).ranking
    assert table.candidate.tolist() == ["all", "prior", "one"]
    assert (table.verdict[2], table.tier[2], table.tied[2]) == ("one sample", "-", "-")


def test_what_cannot_be_judged(rng):
    y, x, mean, noise = data(rng, 40)
    samples = mean[:, None] + noise
    assert row(y[:2], samples[:2], x[:2]).verdict == "too few fiducials"
    untested = row(y, samples, x, metrics=("energy",))
    assert (untested.verdict, untested.tier) == ("-", "-")
    assert untested.evidence == "the calibration metric was not computed"
    assert verdict(Standing("it", failure="it broke")) == ("failed", "it broke")


def test_what_has_no_name_is_not_uniform(rng):
    tilt = Feature("balls", "tilt")
    largest = np.abs(rng.normal(size=(1000, 1)))
    largest[0] = 6.0
    result = CalibrationResult([tilt], np.array([6.0]), largest, [], 100, S)
    informative = EnergyResult(np.full(9, 0.1), "none", np.linspace(0.1, 0.2, 9), np.linspace(0.5, 0.7, 9))
    standing = Standing("it", scores={"calibration": Scores(result=result), "energy": Scores(result=informative)})
    assert verdict(standing) == ("not uniform", "tilt in balls z = +6.0")
    assert standing.tier == "B"


def test_where_trust_and_sharpness_disagree_both_are_named(rng):
    y, x, mean, noise = data(rng, 300)
    given = {"coarse": half_blind(rng, x), "sharp": mean[:, None] + 0.75 * noise}
    result = mb.score(y, given, metrics=METRICS)  # without data, nothing is wrong with the coarse one
    table = result.ranking
    assert table.candidate.tolist() == ["sharp", "coarse"]
    assert table.tier.tolist() == ["B", "A"]
    assert table.tied.tolist() == ["best", "no"]
    assert table.difference[1] > 4 * table.difference_stderr[1] > 0
    said = (
        f"sharp is sharper than coarse, but overconfident: {advice('overconfident')}; or take coarse, in which no "
        "miscalibration was found"
    )
    assert result.notices == [said]
    first = mb.score(y, given, metrics=METRICS, rank_by="tiers_first")
    assert first.ranking.candidate.tolist() == ["coarse", "sharp"]
    assert first.ranking.difference[1] < 0  # what is below has the better score
    assert first.notices == []
    assert conflicts([], "tiers", 0) == []
    alike = mb.score(y, given | {"exact": mean[:, None] + noise}, metrics=METRICS)
    assert alike.ranking.candidate[0] == "exact"
    assert alike.notices == []


def test_words_for_ties():
    pvalues = np.array([np.nan, 0.01, 0.5, 0.5, np.nan])
    same = [True, True, True, False, True]
    assert tie_words(pvalues, same, 300) == ["best", "no", "tied", "by tier", "-"]
    assert tie_words(pvalues, same, 10) == ["best", "no", "not resolved", "by tier", "-"]
    assert tie_words(pvalues, same, 0)[0] == "-"


def test_tiers_decide_where_the_score_does_not(rng):
    y, x, mean, noise = data(rng, 100)
    given = {"narrow": mean[:, None] + 0.75 * noise, "exact": mean[:, None] + rng.normal(size=noise.shape) @ ROOT.T}
    result = mb.score(y, given, x=x, metrics=METRICS)
    table = result.ranking.set_index("candidate")
    assert table.index[0] == "exact"
    assert table.tier.to_dict() == {"exact": "A", "narrow": "B"}
    assert table.tied["narrow"] == ("no" if table.tied_p["narrow"] < 0.05 else "by tier")


def test_the_log_score_orders_those_that_have_a_density():
    task = Correlated(correlation=0.6)
    candidates = {
        "without": CorrelatedCandidate(),
        "narrow": SpoiledCandidate(width=0.6),
        "prior": SpoiledCandidate(informed=False),
        "exact": SpoiledCandidate(),
    }
    settings = {"fiducials": 100, "samples": 50, "metrics": METRICS, "controls": False}
    result = mb.run(task, candidates, **settings, rank_by="log")
    table = result.ranking
    assert table.candidate.tolist() == ["exact", "narrow", "without", "prior"]
    assert table.log_score[:2].notna().all()
    assert table.log_score[2:].isna().all()
    assert table.tied.tolist() == ["best", "no", "-", "-"]
    assert table.difference[1] == pytest.approx(table.log_score[0] - table.log_score[1])
    for name in ("without", "prior"):
        said = f"{name} ranks below those that have a log score, which was not computed: the candidate has no "
        assert said + "normalized density" in result.notices
    assert "log_score" not in mb.run(task, candidates, **settings).metrics
    with pytest.raises(mb.UsageError, match="rank_by='log' needs densities"):
        mb.score(np.zeros((5, 1)), {"a": np.zeros((5, 10, 1))}, rank_by="log")


def test_a_density_that_is_right():
    task = Correlated(correlation=0.6)
    rng = np.random.default_rng(0)
    x = task.simulate(1, rng).x
    exact, narrow = (SpoiledCandidate(width=width).build(task, rng) for width in (1.0, 0.8))
    y = exact.sample(x, 20000, rng)
    assert np.allclose(np.cov(y[0].T), task.gain @ task.covariance, atol=0.01)
    # The mean of a ratio of densities is one.
    ratio = np.exp(narrow.log_prob(y, x) - exact.log_prob(y, x))
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(20000)
    networks = [SpoiledCandidate(network=n).build(task, rng) for n in (1, 1, 2)]
    assert np.array_equal(networks[0].covariance, networks[1].covariance)
    assert not np.allclose(networks[0].covariance, networks[2].covariance)


def test_objections_are_in_the_tables(rng, tmp_path):
    y, x, mean, noise = data(rng, 200)
    exact = mean[:, None] + rng.normal(size=noise.shape) @ ROOT.T
    metrics = (*METRICS, "mmd")
    given = {"coarse": half_blind(rng, x), "exact": mean[:, None] + noise}
    result = mb.score(y, given, metrics=metrics, reference=exact)
    result.save(tmp_path)
    kept = pd.read_csv(tmp_path / "ranking.csv").set_index("candidate")
    assert kept.tier.to_dict() == {"exact": "A", "coarse": "A"}
    assert kept.objections["coarse"].startswith("MMD, p = ")
    assert pd.isna(kept.objections["exact"])
    text = (tmp_path / "ranking.md").read_text()
    assert "| A! |" in text
    assert "; but MMD, p = " in text
    assert any(said.startswith("coarse is in tier A, and yet there are objections: MMD") for said in result.notices)


def test_only_tier_a_has_objections(rng):
    y, x, mean, noise = data(rng, 200)
    found = mb.score(y, {"it": mean[:, None] + 0.6 * noise}, x=x, metrics=METRICS)
    (standing,) = found.standings
    scores = dict(standing.scores) | {"mmd": Scores(0.1, pvalue=1e-5, note="joint")}
    table = mb.rank([replace(standing, scores=scores)])
    assert (table.tier[0], table.objections[0]) == ("B", "")
