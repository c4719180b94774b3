r"""Numbers that a few fiducials, the order of rows or the number of samples must not decide."""

from dataclasses import dataclass

import numpy as np
import pytest

import mira_bench as mb
from mira_bench.cli.command import main
from mira_bench.config import Asked
from mira_bench.metric import Scores
from mira_bench.metrics.energy import Box, prior_energy
from mira_bench.ranking.tiers import Standing, rank
from mira_bench.ranking.trainings import method_table
from mira_bench.ranks.scaling import Scaling
from mira_bench.runner.run import perform
from mira_bench.runner.setup import Settings
from mira_bench.sweeps.collect import collect_runs, group_runs
from mira_bench.sweeps.leaderboard import leaderboard
from mira_bench.sweeps.study import _winners

TIERS = ("mira", "calibration", "energy")


def heavy(rng, fiducials=300, samples=200):
    r"""Lognormal parameters with a standard deviation of 3 in the logarithm, measured within 1."""
    z = 3 * rng.normal(size=(fiducials, 2))
    variance = 1 / (1 + 1 / 9)
    mean = variance * (z + rng.normal(size=z.shape))

    def posterior(width):
        return np.exp(mean[:, None] + width * np.sqrt(variance) * rng.normal(size=(fiducials, samples, 2)))

    return np.exp(z), posterior, np.exp(3 * rng.normal(size=(fiducials, samples, 2)))


@pytest.mark.parametrize("seed", range(4))
def test_a_heavy_tailed_prior_does_not_hide_information(seed):
    truths, posterior, prior = heavy(np.random.default_rng(seed))
    given = {"exact": posterior(1.0), "narrow": posterior(1 / 3), "prior": prior}
    ranking = mb.score(truths, given, metrics=TIERS).ranking.set_index("candidate")
    assert ranking.tier.to_dict() == {"exact": "A", "narrow": "B", "prior": "C"}
    assert ranking["rank"]["exact"] == 1
    assert abs(ranking.skill["prior"]) < 4 * ranking.skill_stderr["prior"]


def test_one_outlier_does_not_hide_information(rng):
    x = rng.normal(size=(300, 2))
    truths = x + 0.3 * rng.normal(size=x.shape)
    samples = {width: x[:, None] + width * 0.3 * rng.normal(size=(300, 100, 2)) for width in (1.0, 1 / 3)}
    truths[0] = 1e4
    ranking = mb.score(truths, {"exact": samples[1.0], "narrow": samples[1 / 3]}, metrics=TIERS).ranking
    assert ranking.candidate.tolist() == ["exact", "narrow"]
    assert ranking.tier.tolist() == ["A", "B"]


def test_one_fiducial_does_not_make_information(rng):
    # The prior everywhere, but the truth itself where the truth is far away.
    truths, samples = rng.normal(size=(300, 2)), rng.normal(size=(300, 100, 2))
    truths[0] = 1e4
    samples[0] = 1e4 + 0.1 * rng.normal(size=(100, 2))
    result = mb.energy_score(truths, samples)
    wide = Box(np.full(2, -1e5), np.full(2, 2e5))  # nothing is squeezed
    unbounded = mb.energy_score(truths, samples, bounds=(-1e5, 1e5)).per_fiducial
    assert 1 - unbounded.mean() / prior_energy(truths, wide).mean() > 0.9  # what the plain mean would say
    assert not result.informative
    assert abs(result.skill) < 4 * result.skill_stderr


@pytest.mark.parametrize("fiducials", [4, 16, 64])
@pytest.mark.parametrize("law", ["normal", "lognormal", "poisson"])
def test_the_prior_is_seldom_informative(rng, fiducials, law):
    draw = {
        "normal": lambda shape: rng.normal(size=shape),
        "lognormal": lambda shape: np.exp(3 * rng.normal(size=shape)),
        "poisson": lambda shape: rng.poisson(1.0, size=shape).astype(float),
    }[law]
    found = [mb.energy_score(draw((fiducials, 2)), draw((fiducials, 30, 2))).informative for _ in range(200)]
    # Two standard errors on one side are 2.3 % for many fiducials; Student's law has 7 % at 4 of them.
    assert np.mean(found) < 0.07 + 4 * np.sqrt(0.07 * 0.93 / 200)


def test_points_in_the_box_keep_their_distances(rng):
    low, high = np.full(3, -5.0), np.full(3, 5.0)
    truths = rng.uniform(-5, 5, size=(40, 3))
    samples = np.clip(truths[:, None] + rng.normal(size=(40, 30, 3)), -5, 5)
    result = mb.energy_score(truths, samples, bounds=(low, high))
    assert np.array_equal(result.bounded, result.per_fiducial)
    box = Box.of(Scaling(truths, task=(low, high)))
    line = np.array([-1e300, -1e3, -6.0, -5.0, 0.0, 5.0, 6.0, 1e3, 1e300])
    squeezed = box.squeeze(np.repeat(line[:, None], 3, axis=1))
    assert (np.diff(squeezed, axis=0) > 0).all()  # one to one
    assert squeezed.min() >= -1
    assert squeezed.max() <= 2


def test_truths_that_repeat_in_a_pattern_are_no_other_prior(rng):
    # 10 points, 128 times: in this order, strides of 10 would compare each truth with copies of itself.
    truths = np.tile(rng.normal(size=(10, 2)), (128, 1))
    shuffled = rng.permutation(len(truths))
    box = Box.of(Scaling(truths))
    energies = prior_energy(truths, box)
    exact = np.empty(10)
    for l in range(10):  # all the other truths
        others = np.delete(box.squeeze(truths), l, axis=0)
        first = np.linalg.norm(others - box.squeeze(truths[l]), axis=1).mean()
        pairs = np.linalg.norm(others[:, None] - others[None], axis=2).sum() / (len(others) * (len(others) - 1))
        exact[l] = first - pairs / 2
    for values in (energies, prior_energy(truths[shuffled], box)[np.argsort(shuffled)]):
        errors = values.reshape(128, 10) - exact
        assert np.all(np.abs(errors.mean(axis=0)) < 4 * errors.std(axis=0) / np.sqrt(128) + 1e-9)
    # A blind candidate is called blind, in whichever order its rows are.
    samples = truths[rng.integers(0, 10, size=(1280, 60))]
    for order in (np.arange(1280), shuffled):
        assert not mb.energy_score(truths[order], samples[order]).informative


def standings(truths, samples, metrics=("mira",)):
    return list(mb.score(truths, samples, metrics=list(metrics)).standings)


def test_candidates_with_other_numbers_of_samples_are_tied_by_mira(rng):
    truths = rng.normal(size=(400, 2))
    few, many = rng.normal(size=(400, 20, 2)), rng.normal(size=(400, 1000, 2))
    found = standings(truths, {"few": few, "many": many})
    raw = found[0].mira.per_fiducial - found[1].mira.per_fiducial
    assert abs(raw.mean()) > 6 * raw.std() / 20  # their expectations are not the same
    assert rank(found, rank_by="mira").tied.tolist() == ["best", "tied"]


def test_candidates_on_both_sides_are_compared_by_their_distance(rng):
    class Fake:
        expected = 2 / 3
        shared_variance = None  # a set for each fiducial

        def __init__(self, values):
            self.per_fiducial, self.score, self.stderr = values, values.mean(), values.std() / np.sqrt(len(values))
            self.sigmas = (self.score - self.expected) / self.stderr

    noise = 0.1 * rng.normal(size=(3, 300))
    off = {"low": -0.03, "high": 0.03, "far": -0.08}
    made = [
        Standing(name, scores={"mira": Scores(result=Fake(2 / 3 + shift + one))})
        for (name, shift), one in zip(off.items(), noise, strict=True)
    ]
    table = rank(made, rank_by="mira").set_index("candidate")
    assert sorted(table.tied[["low", "high"]]) == ["best", "tied"]
    assert table.tied["far"] == "no"
    table = method_table(made, rank_by="mira").set_index("method")
    assert sorted(table.tied[["low", "high"]]) == ["best", "tied"]
    assert table.tied["far"] == "no"


def test_the_leaderboard_by_mira_compares_distances(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    truths = rng.normal(size=(400, 2))
    np.save("truths.npy", truths)
    np.save("few.npy", rng.normal(size=(400, 20, 2)))
    np.save("many.npy", rng.normal(size=(400, 1000, 2)))
    assert main(["score", "truths.npy", "few=few.npy", "many=many.npy", "--metrics", "mira", "--out", "run"]) == 0
    runs, _ = collect_runs([tmp_path / "run"])
    (group,) = group_runs(runs)
    assert leaderboard(group, "mira").tied.tolist() == ["best", "tied"]


@dataclass(frozen=True)
class Conjugate:
    version = 1

    def simulate(self, count, rng):
        y = rng.normal(size=(count, 1))
        return mb.Fiducials(y=y, x=y + 0.5 * rng.normal(size=(count, 1)))

    def exact_posterior(self):
        return Shrunk(1.0)


@dataclass(frozen=True)
class Shrunk:
    width: float
    version = 1

    def build(self, task, rng):
        return self

    def sample(self, x, count, rng):
        return 0.8 * x[:, None] + self.width * np.sqrt(0.2) * rng.normal(size=(len(x), count, 1))


def test_the_oracle_never_wins_a_study():
    settings = Settings(metrics=TIERS, fiducials=64, samples=50)
    asked = Asked(Conjugate(), {"narrow": Shrunk(0.5), "wide": Shrunk(2.0)}, settings)
    result = perform(*asked)
    energies = {s.name: s.energy.score for s in result.standings}
    assert min(energies, key=energies.get) == "oracle"
    rows = _winners(asked, {"seed": 0})
    assert [row["candidate"] for row in rows] == ["narrow", "wide"]
    for by in ("mira", "energy", "tiers_first", "tiers"):
        assert sorted(row[by] for row in rows) == [1, 2]
    assert [row["score"] for row in rows] == [energies["narrow"], energies["wide"]]
    assert sum(row["beaten"] for row in rows) <= 1
