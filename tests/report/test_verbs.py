r"""The verbs `report` and `referee`, and the page of `collect`."""

import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

import mira_bench as mb
from mira_bench.cli import main
from mira_bench.report.page.reading import read_run
from mira_bench.report.referee import CITATION, paragraph, referee_figure

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("elsewhere", "plain_figures")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200, 2))
    y = x + 0.5 * rng.normal(size=(200, 2))
    samples = {name: x[:, None] + w * rng.normal(size=(200, 50, 2)) for name, w in (("exact", 0.5), ("narrow", 0.3))}
    result = mb.score(y, samples, x=x, names=["a", "b"])
    return result, result.save(tmp_path_factory.mktemp("run"))


def test_report_makes_the_page_again(run, capsys):
    _, folder = run
    before = (folder / "report.html").read_bytes()
    (folder / "report.html").unlink()
    assert main(["report", str(folder)]) == 0
    assert (folder / "report.html").read_bytes() == before
    assert str(folder / "report.html") in capsys.readouterr().out


def test_one_page_for_several_runs(run, elsewhere, capsys):
    _, folder = run
    assert main(["report", str(folder), str(folder), "--out", "both.html"]) == 0
    text = Path("both.html").read_text()
    assert text.count('id="ranking-') == 4  # two sections with a title each
    assert set(re.findall(r'href="#fiducial-[0-9]+(-[12])"', text)) == {"-1", "-2"}
    assert main(["report", str(elsewhere)]) == 2
    assert "ranking.csv is missing" in capsys.readouterr().err


def test_links_lead_to_files_from_anywhere(elsewhere):
    small = ["fiducials=20", "samples=10", "metrics=[mira,energy]", "candidates=[correct]", "progress=false"]
    assert main([*small, "out=runs/a run"]) == 0
    assert main(["report", "runs/a run", "--out", "pages/there.html"]) == 0
    assert main(["report", "runs"]) == 0
    for page, way in (("pages/there.html", "../runs/a%20run/"), ("runs/report.html", "a%20run/")):
        links = re.findall(r'href="([^"#]+\.(?:csv|yaml|json|txt))"', Path(page).read_text())
        assert f"{way}ranking.csv" in links
        assert all((Path(page).parent / unquote(link)).is_file() for link in links)


def test_an_edited_table_is_told(run, tmp_path, capsys):
    _, folder = run
    there = tmp_path / "run"
    shutil.copytree(folder, there)
    assert main(["report", str(there)]) == 0
    assert "was changed since the run" not in (there / "report.html").read_text()
    text = (there / "ranking.csv").read_text()
    (there / "ranking.csv").write_text(text.replace("exact", "other"))
    assert main(["report", str(there)]) == 0
    assert "ranking.csv was changed since the run" in (there / "report.html").read_text()


def test_the_paragraph_has_the_numbers(run):
    result, folder = run
    text = paragraph(read_run(folder))
    first = result.standings[0]
    assert "L = 200 observations with known parameters" in text
    assert "S = 50 posterior samples" in text
    assert f"R = {first.mira.ranks.shape[1]} random balls" in text
    assert f"normalize={first.mira.normalize}" in text
    assert f"p = {first.calibration.pvalue:.3f}" in text
    assert f"all widths wrong by {first.calibration.detectable.width:.0%}" in text
    assert f"shifted by {first.calibration.detectable.shift:.2f} posterior" in text
    assert f"{first.mira.score:.4f} ± {first.mira.stderr:.4f}" in text
    assert "on average over the prior" in text
    other = paragraph(read_run(folder), "narrow")
    assert "p ≤ 0.001" in other
    assert "overconfident" in other
    assert "would have seen" not in other


def test_the_figure_shows_what_the_run_kept(run):
    result, folder = run
    above, below = referee_figure(read_run(folder), "narrow").axes
    curves = result.standings[1].scores["sbc"].result.ecdf()
    drawn = {line.get_label(): line.get_ydata() for line in above.lines}
    for i, name in enumerate(["a", "b"]):
        assert np.allclose(drawn[name], curves.difference[:, i], atol=1e-5)
    tarp = result.standings[1].scores["tarp"].result
    assert np.allclose(below.lines[0].get_ydata(), tarp.coverage - tarp.expected, atol=1e-5)


def test_referee_writes_and_refuses(run, capsys):
    _, folder = run
    assert main(["referee", str(folder), "--out", "here"]) == 0
    assert {path.name for path in Path("here").iterdir()} == {"referee.md", "referee.png", "referee.pdf"}
    text = Path("here/referee.md").read_text()
    assert CITATION in text
    assert "We tested exact" in text
    assert main(["referee", str(folder), "--candidate", "nobody"]) == 2
    assert "there are: exact, narrow" in capsys.readouterr().err


def test_names_that_are_no_formulas_are_drawn(tmp_path, rng):
    y, s = rng.normal(size=(12, 2)), rng.normal(size=(12, 9, 2))
    folder = mb.score(y, {"b_$\\q$": s}, names=["_hidden", "$\\q$"]).save(tmp_path / "run")
    assert {path.name for path in (folder / "figures").glob("*.png")} == {"overview.png", "sbc.png"}
    assert main(["referee", str(folder), "--out", str(tmp_path / "here")]) == 0
    above = referee_figure(read_run(folder)).legends[0]
    assert {" _hidden", "$\\q$"} < {text.get_text() for text in above.get_texts()}


def test_one_fiducial_has_no_error(tmp_path, rng):
    folder = mb.score(rng.normal(size=(1, 2)), {"a": rng.normal(size=(1, 9, 2))}).save(tmp_path / "run")
    text = paragraph(read_run(folder))
    assert "L = 1 observations" in text
    assert "None" not in text


def test_the_citation_is_that_of_the_file():
    text = (ROOT / "CITATION.cff").read_text()
    families = re.findall(r"family-names: ([^,}]+)", text)
    assert len(families) == 6
    assert all(name in CITATION for name in families)
    assert f"version: {mb.__version__}" in text


def test_collect_has_a_page_and_leaves_that_of_a_run(elsewhere):
    small = ["fiducials=40", "samples=20", "metrics=[mira,energy]", "candidates=[correct,biased]", "progress=false"]
    for seed in (0, 1):
        assert main([*small, f"seed={seed}", f"out=runs/{seed}"]) == 0
    assert main(["collect", "runs"]) == 0
    text = Path("runs/report.html").read_text()
    assert 'content="collection"' in text
    assert 'href="0/report.html"' in text
    page = Path("runs/0/report.html").read_text()
    assert main(["collect", "runs/0"]) == 0
    assert Path("runs/0/report.html").read_text() == page
    assert main([*small, "out=runs"]) == 0  # a run takes the folder over
    assert 'content="run"' in Path("runs/report.html").read_text()


def test_the_page_of_the_paper(elsewhere):
    assert main(["report", str(ROOT / "results" / "paper"), "--out", "paper.html"]) == 0
    text = Path("paper.html").read_text()
    assert Path("paper.html").stat().st_size < 3e6
    for folder in (ROOT / "results" / "paper").iterdir():
        if (folder / "table.md").exists():
            assert f'id="{folder.name}"' in text
            last = (folder / "table.md").read_text().strip().splitlines()[-1].split(" | ")[0].removeprefix("| ")
            assert f"<td>{last}</td>" in text
    assert text.count("data:image") == text.count('/notes.md">')
