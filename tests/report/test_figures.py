r"""Figures for papers: rows in the order of the ranking, axes that the data fill, and what was found."""

import dataclasses
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

import mira_bench as mb
from mira_bench.errors import UsageError
from mira_bench.report.figures import convergence, sbc_histograms


@pytest.fixture(scope="module")
def scored():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(80, 2))
    y = x + 0.5 * rng.normal(size=(80, 2))
    draws = rng.normal(size=(80, 40, 2))
    fixed = x[:, None] + 1e-7 * draws * [1, 0] + [0, 30]  # far from the truth along an axis that it does not infer
    samples = {"fixed": fixed, "narrow_$\\q$": x[:, None] + 0.2 * draws, "exact": x[:, None] + 0.5 * draws}
    return mb.score(y, samples, x=x, names=["_a_$\\q$", "b"], bounds=(np.full(2, -40.0), np.full(2, 40.0)))


def test_rows_are_in_the_order_of_the_ranking(scored):
    assert scored.ranking.candidate.tolist() != [s.name for s in scored.standings]
    above, below = scored.plot().axes
    rows = [label.get_text().rpartition(" (")[0] for label in above.get_yticklabels()]
    assert rows == scored.ranking.candidate.tolist()
    assert above.get_ylim()[0] > above.get_ylim()[1]  # the first is on top
    assert [line.get_label() for line in below.lines[1:]] == rows
    figure = sbc_histograms(scored)
    assert [axes.get_ylabel() for axes in figure.axes[::2]] == rows


def test_what_is_drawn_is_what_was_found(scored):
    above, below = scored.plot().axes
    scores = {s.name: s.mira for s in scored.standings}
    drawn = [bar.lines[0].get_xdata()[0] for bar in above.containers]
    assert np.allclose(drawn, [scores[name].score for name in scored.ranking.candidate])
    tarps = {s.name: s.scores["tarp"].result for s in scored.standings}
    for line in below.lines[1:]:
        tarp = tarps[line.get_label()]
        assert np.allclose(line.get_ydata(), tarp.coverage - tarp.expected)
    assert "95 % of resampled fiducials" in [text.get_text() for text in below.get_legend().get_texts()]


def test_an_axis_that_the_data_fill(scored):
    rng = np.random.default_rng(4)
    good = mb.score(rng.normal(size=(200, 1)), {"good": rng.normal(size=(200, 50, 1))}, metrics=["mira", "tarp"])
    low, high = good.plot().axes[0].get_xlim()
    mira = good.standings[0].mira
    assert low < mira.expected - mira.paper_band
    assert low > 0.6
    assert high - low < 3 * mira.paper_band


def test_by_construction_is_said_where_a_parameter_is_fixed(scored):
    told = {s.name: s.by_construction for s in scored.standings}
    assert told == {"fixed": True, "narrow_$\\q$": False, "exact": False}
    above = scored.plot().axes[0]
    assert [text.get_text() for text in above.texts] == ["by construction"]


def test_long_names_have_room(rng, tmp_path):
    names = ["a candidate with a name that is far longer than a column of a journal", "short"]
    candidates = {name: rng.normal(size=(40, 20, 1)) for name in names}
    mb.score(rng.normal(size=(40, 1)), candidates, metrics=["mira", "tarp", "sbc"]).save(tmp_path)
    assert (tmp_path / "figures" / "overview.pdf").exists()


def test_styles(scored, tmp_path):
    before = dict(matplotlib.rcParams)
    paper, screen = scored.plot(), scored.in_style("screen").plot()
    assert paper.get_size_inches()[0] == pytest.approx(3.35)
    assert screen.get_size_inches()[0] > 5
    assert paper.axes[0].xaxis.label.get_family() == ["STIXGeneral"]
    assert screen.axes[0].xaxis.label.get_family() == ["sans-serif"]
    assert dict(matplotlib.rcParams) == before
    with pytest.raises(UsageError, match="style='fancy' is not one of paper, screen"):
        scored.in_style("fancy")


@pytest.mark.parametrize(("style", "width"), [("paper", 3.35), ("screen", 5.6)])
def test_all_figures_have_the_width_of_the_style(style, width, tmp_path):
    from mira_bench.report.figures import drawn_in

    rng = np.random.default_rng(0)
    y, s = rng.normal(size=(12, 1)), rng.normal(size=(12, 40, 1))
    drawn = []

    def pictures():
        drawn.append(matplotlib.rcParams["font.family"])
        return {}

    scored = mb.score(y, {"a": s}, metrics=["mira"])
    curves = {name: {"loss": (np.arange(5), np.ones(5))} for name in ("one", "two", "three")}
    result = dataclasses.replace(scored, curves=curves, pictures=pictures).in_style(style)
    assert result.plot("training").get_size_inches()[0] == width
    result.save(tmp_path)
    assert (drawn[0] == ["STIXGeneral"]) == (style == "paper")  # pictures of tasks are drawn in it too
    told = SimpleNamespace(limit=1.01, of_chains=True, values={"rhat": np.linspace(1, 1.02, 9)}, missed=[8])
    chains = SimpleNamespace(name="a", convergence=told, role="candidate")
    of = SimpleNamespace(task="t", standings=[chains], ranking={"candidate": ["a"]})
    with drawn_in(style):
        assert convergence(of).get_size_inches()[0] == width
