r"""The page of a run: one file, escaped, with the numbers of the tables, and made again from the folder alone."""

import json
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import mira_bench as mb
from mira_bench.cli import main
from mira_bench.errors import UsageError
from mira_bench.report.details import details
from mira_bench.report.page import write_report
from mira_bench.report.page.reading import read_run
from mira_bench.report.page.sections import MISSING

EVIL = "</script><script>document.title='evil'</script>"


class Reader(HTMLParser):
    r"""The elements of a page, the cells of its tables, and the data of its charts."""

    def __init__(self, path):
        super().__init__()
        self.elements, self.cells, self.texts, self._open = [], [], {}, []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        self._open.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tags = [tag for tag, _ in self._open]
        if "td" in tags or "th" in tags:
            self.cells[-1][-1] += data
        if self._open:
            tag, attrs = self._open[-1]
            self.texts.setdefault((tag, attrs.get("type", "")), []).append(data)


@pytest.fixture(scope="module")
def scored():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(150, 2))
    y = x + 0.5 * rng.normal(size=(150, 2))
    draws = rng.normal(size=(150, 60, 2))
    samples = {
        "exact": x[:, None] + 0.5 * draws,
        EVIL: x[:, None] + 0.3 * draws,
        "off": x[:, None] + 0.5 * draws + [0.4, 0],
    }
    return mb.score(y, samples, x=x, names=["a", "<b>"])


@pytest.fixture(scope="module")
def folder(scored, tmp_path_factory):
    return scored.save(tmp_path_factory.mktemp("page") / "run")


@pytest.fixture(scope="module")
def page(folder):
    return Reader(folder / "report.html")


def test_one_file_that_needs_no_other(folder, page):
    assert (folder / "report.html").stat().st_size < 3e6
    for tag, attrs in page.elements:
        for key in ("src", "href"):
            assert attrs.get(key, "#").startswith(("#", "data:")), (tag, attrs)


def test_names_are_text(page):
    assert sum(tag == "script" and not attrs.get("type") for tag, attrs in page.elements) == 3  # our own
    assert "b" not in {tag for tag, _ in page.elements}
    assert EVIL in {cell for row in page.cells for cell in row}
    for data in page.texts["script", "application/json"]:
        json.loads(data)  # nothing has ended the element


def test_the_numbers_are_those_of_the_table(scored, page):
    head = page.cells[0]
    rows = {row[1]: dict(zip(head, row, strict=True)) for row in page.cells[1:4]}
    for r in scored.ranking.itertuples():
        shown = rows[r.candidate]
        assert shown["MIRA"] == f"{r.mira:.4f} ± {r.mira_stderr:.4f}"
        assert shown["skill"] == f"{r.skill:.3f}"
        assert (shown["rank"], shown["tier"], shown["verdict"]) == (str(r.rank), r.tier, r.verdict)


def test_every_chart_says_what_it_shows(page):
    plots = [attrs for tag, attrs in page.elements if attrs.get("class") == "plot"]
    specs = [json.loads(one) for one in page.texts["script", "application/json"]]
    assert len(plots) == len([one for one in specs if "layer" in one or "concat" in one]) > 8
    assert all(len(attrs["aria-label"]) > 20 and attrs["role"] == "img" for attrs in plots)


def test_what_decided_is_drawn(scored, page):
    specs = [json.loads(one) for one in page.texts["script", "application/json"]]
    (zmap,) = [one for one in specs if "feature" in next(iter(one.get("data", {}).get("values", [])), {})]
    drawn = {(row["feature"], row["candidate"]): row["z"] for row in zmap["data"]["values"]}
    for s in scored.standings:
        feature, z = s.calibration.spoke
        assert drawn[s.calibration.label(feature, scored.names), s.name] == pytest.approx(z, rel=1e-5)


def test_the_guilty_parameter(scored):
    off = next(s.calibration for s in scored.standings if s.name == "off")
    assert off.guilty == 0
    # The truth lies below samples that were moved up; ranks of a shift by 0.8 sd are 0.5 - 0.285 on average.
    ranks = off.locations[:, 0]
    assert abs(ranks.mean() + 0.285) < 4 * ranks.std() / np.sqrt(len(ranks))
    told = details(scored)["calibration"]["off"]["guilty"]
    assert told["parameter"] == "a"
    assert np.allclose(told["rank"], off.locations[:, 0] + 0.5, atol=1e-5)


def test_of_many_posteriors_the_worst_are_shown(tmp_path, rng):
    many = 1000
    chains = rng.normal(size=(2, 50, many))
    chains[1, :, 501] += 5.0  # these two chains do not agree
    posterior = pytest.importorskip("xarray").Dataset({"a": (("chain", "draw", "fiducial"), chains)})
    y = pd.DataFrame(rng.normal(size=(many, 1)), columns=["a"])
    result = mb.score(y, {"nuts": posterior}, metrics=["mira", "energy", "calibration"])
    largest = result.standings[0].convergence.values["rhat"]
    assert int(np.argmax(largest)) == 501
    told = details(result)["convergence"]["nuts"]["values"]["rhat"]
    assert told["largest"] == pytest.approx(largest.max(), rel=1e-5)
    assert told["least"] == pytest.approx(largest.min(), rel=1e-5)
    assert told["median"] == pytest.approx(np.median(largest), rel=1e-5)
    assert len(told["value"]) < told["of"] == many  # some are left out, and the others are whose they say
    np.testing.assert_allclose(told["value"], largest[told["fiducial"]], rtol=1e-5)
    assert {*np.argsort(largest)[-20:]} < {*told["fiducial"]}
    page = Reader(result.save(tmp_path) / "report.html")
    assert ["nuts", "R-hat", *(f"{told[word]:.4g}" for word in ("median", "least", "largest"))] in page.cells
    stored = [json.loads(one) for one in page.texts["script", "application/json"]]
    (lookup,) = (one for one in stored if "total" in one)
    assert 501 in lookup["fiducials"]


def test_pairs_mirror_each_other(scored):
    pairs = details(scored)["pairs"]
    difference = np.array(pairs["difference"])
    assert pairs["candidates"] == scored.ranking.candidate.tolist()
    assert np.allclose(difference, -difference.T)
    assert np.allclose(difference[1:, 0], scored.ranking.difference[1:], rtol=1e-4)
    assert np.allclose(np.array(pairs["pvalue"], float)[1:, 0], scored.ranking.tied_p[1:], rtol=1e-4)


def test_the_same_page_from_the_folder_alone(folder):
    before = (folder / "report.html").read_bytes()
    (folder / "report.html").unlink()
    write_report(folder)
    assert (folder / "report.html").read_bytes() == before


def test_a_folder_of_before_says_what_it_lacks(scored, tmp_path):
    scored.save(tmp_path)
    (tmp_path / "details.json").unlink()
    write_report(tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert MISSING in text
    (tmp_path / "details.json").write_text('{"format": 0}')
    write_report(tmp_path)
    assert (tmp_path / "report.html").read_text() == text
    assert "no miscalibration found" in text


def test_files_of_others_stay_out(scored, tmp_path):
    scored.save(tmp_path)
    before = (tmp_path / "report.html").read_bytes()
    (tmp_path / "methods.csv").write_text("my own\n")
    (tmp_path / "figures" / "mine.png").write_bytes(b"\x89PNG mine")
    write_report(tmp_path)
    assert (tmp_path / "report.html").read_bytes() == before


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"ranking\.csv is missing"):
        read_run(tmp_path)
    with pytest.raises(UsageError, match="there is no folder"):
        read_run(tmp_path / "nothing")


def test_failures_and_few_metrics_have_pages(tmp_path, rng):
    truths, samples = rng.normal(size=(12, 1)), rng.normal(size=(12, 9, 1))
    for metrics in (["mira"], ["energy"], ["sbc", "tarp"]):
        mb.score(truths, {"null": samples}, metrics=metrics).save(tmp_path)
        ranking = pd.read_csv(tmp_path / "ranking.csv", keep_default_na=False)
        assert ranking.candidate.tolist() == ["null"]
        assert any("null" in row for row in Reader(tmp_path / "report.html").cells)


@pytest.mark.parametrize("metrics", [["mira"], ["energy"], ["sbc"]])
def test_what_was_not_computed_is_left_out(metrics, tmp_path):
    rng = np.random.default_rng(6)
    truths, samples = rng.normal(size=(40, 2)), rng.normal(size=(40, 20, 2))
    mb.score(truths, {"mine": samples}, metrics=metrics, rank_by="energy" if metrics == ["energy"] else "tiers").save(
        tmp_path
    )
    assert "mine" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_page_that_fails_costs_nothing_else(scored, tmp_path, monkeypatch, capsys, caplog):
    def broken(run):
        raise KeyError("what the page wants")

    monkeypatch.setattr(sys.modules["mira_bench.report.page.render"], "sections_of", broken)
    monkeypatch.chdir(tmp_path)
    folder = scored.save(tmp_path / "a run")
    assert "a run/report.html could not be made (KeyError: 'what the page wants')" in caplog.text
    assert f"the error is seen by: mira-bench report '{folder}'" in caplog.text
    assert not (folder / "report.html").exists()
    assert mb.load(folder).ranking["candidate"].tolist() == scored.ranking["candidate"].tolist()
    rng = np.random.default_rng(0)
    np.save("y.npy", rng.normal(size=(20, 1)))
    np.save("s.npy", rng.normal(size=(20, 30, 1)))
    assert main(["score", "y.npy", "npe=s.npy", "--out", "out", "--metrics", "mira"]) == 0
    out, err = capsys.readouterr()
    assert "mira-bench report out" in err
    assert "look at" not in out
    assert "report.html could not be made" in (tmp_path / "out" / "log.txt").read_text()
    assert mb.load("out").provenance["task"] == "score"
    with pytest.raises(KeyError, match="what the page wants"):
        main(["report", "out"])


def test_a_figure_that_fails_costs_nothing_else(tmp_path, monkeypatch, capsys):
    def broken(result):
        raise KeyError("what the figure wants")

    monkeypatch.setattr("mira_bench.report.figures.overview", broken)
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.save("y.npy", rng.normal(size=(20, 1)))
    np.save("s.npy", rng.normal(size=(20, 30, 1)))
    assert main(["score", "y.npy", "npe=s.npy", "--out", "out", "--metrics", "mira"]) == 0
    told = "not all figures could be drawn (KeyError: 'what the figure wants'); the tables are there"
    assert told in capsys.readouterr().err
    assert told in (tmp_path / "out" / "log.txt").read_text()
    assert mb.load("out").ranking["candidate"].tolist() == ["npe"]
