r"""Views map truths and samples alike: a perfect candidate stays perfect, and a wrong one is seen where it is wrong."""

from dataclasses import dataclass

import numpy as np
import pytest

import mira_bench as mb
from mira_bench.views import Columns, SortedGroups, with_views


@dataclass(frozen=True)
class Pairs:
    r"""Two exchangeable groups of two parameters, uniform on a box, and an observation that says nothing."""

    version = 1
    bounds = ([0.0] * 4, [1.0, 2.0, 1.0, 2.0])

    @property
    def views(self):
        return {"first": Columns((0,)), "sorted": SortedGroups(((0, 1), (2, 3)))}

    def simulate(self, count, rng):
        return mb.Fiducials(rng.uniform(*self.bounds, size=(count, 4)), rng.normal(size=(count, 1)))


@dataclass(frozen=True)
class Box:
    r"""The prior, with the last parameter squeezed; or with labels that are always in one order."""

    squeeze: float = 1.0
    labeled: bool = False
    version = 1

    def build(self, task, rng):
        return self

    def sample(self, x, count, rng):
        y = rng.uniform([0.0] * 4, [1.0, 2.0, 1.0, 2.0], size=(len(x), count, 4))
        y[..., 3] = 1 + self.squeeze * (y[..., 3] - 1)
        return SortedGroups(((0, 1), (2, 3))).points(y) if self.labeled else y


def test_a_view_sees_what_it_shows():
    task = Pairs()
    metrics = with_views({"mira": mb.Mira(regions=50), "sbc": mb.Sbc()}, ["all", "first", "sorted"], task)
    assert list(metrics) == ["mira", "sbc", "mira@first", "sbc@first", "mira@sorted", "sbc@sorted"]
    candidates = {"right": Box(), "squeezed": Box(squeeze=0.4), "labeled": Box(labeled=True)}
    summary = mb.run(task, candidates, fiducials=400, samples=100, metrics=metrics, controls=False).summary
    assert set(summary["view"]) == {"all", "first", "sorted"}
    mira = summary[summary.metric == "mira"].set_index(["candidate", "view"])
    sigmas = (mira.score - mira.expected) / mira.stderr
    for view in ("all", "first", "sorted"):
        assert abs(sigmas["right", view]) < 4
    # The squeezed parameter is not in the view of the first one.
    assert sigmas["squeezed", "all"] < -4
    assert abs(sigmas["squeezed", "first"]) < 4
    # Labels in one order are wrong as they stand, and right where truths are in that order too.
    pvalue = summary[summary.metric == "sbc"].set_index(["candidate", "view"]).pvalue
    assert pvalue["labeled", "all"] < 1e-6
    assert pvalue["labeled", "sorted"] > 1e-4


def test_views_have_stored_results_of_their_own(tmp_path):
    task = Pairs()
    metrics = with_views({"mira": mb.Mira(regions=10)}, ["all", "sorted"], task)
    arguments = {"fiducials": 40, "samples": 20, "metrics": metrics, "controls": False, "store": tmp_path}
    first = mb.run(task, {"right": Box()}, **arguments).summary
    assert mb.run(task, {"right": Box()}, **arguments).summary.equals(first)
    assert first.score[0] != first.score[1]


def test_bad_views():
    with pytest.raises(mb.UsageError, match="no view 'nope'; it has: all, first, sorted"):
        with_views({"mira": mb.Mira()}, ["nope"], Pairs())


def test_sorting_keeps_groups_together():
    y = np.array([[3.0, 30.0, 1.0, 10.0], [1.0, 10.0, 2.0, 20.0]])
    assert SortedGroups(((0, 1), (2, 3))).points(y).tolist() == [[1, 10, 3, 30], [1, 10, 2, 20]]
