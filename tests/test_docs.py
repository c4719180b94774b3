r"""The site builds without a warning and has everything; the tutorial and the answers to errors are true."""

import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mira_bench as mb
from mira_bench.cli import main
from mira_bench.cli.listing import configs
from mira_bench.paper.catalogue import items
from mira_bench.ranks.players import region_score

ROOT = Path(__file__).parents[1]
RNG = np.random.default_rng(0)


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_tables_begin_after_an_empty_line():
    r"""Readers of Markdown take them for text else."""
    broken = []
    for path in sorted(ROOT.glob("[!.]*/**/*.md")) + sorted(ROOT.glob("*.md")):
        before, code = "", False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            code ^= line.startswith("```")
            if not code and line.startswith("|") and before.strip() and not before.startswith("|"):
                broken.append(f"{path.relative_to(ROOT)}:{number}")
            before = line
    assert broken == []


def test_the_tables_of_samplers_are_those_of_their_runs():
    page = (ROOT / "docs" / "samplers.md").read_text(encoding="utf-8")
    tables = loaded("samplers")
    names = {path.name for path in tables.RESULTS.iterdir()} | {"settings"}
    assert {found[2] for found in tables.TABLE.finditer(page)} == names
    assert tables.written(page) == page


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    return {str(file.relative_to(folder)): file.read_text(encoding="utf-8") for file in folder.rglob("*.html")}


def test_the_site_has_every_card_item_and_name(site):
    for card in ROOT.glob("tasks/*/README.md"):
        assert f"tasks/{card.parent.name}.html" in site
    for task in configs("task"):
        assert f"<code>{task}</code>" in site["tasks/index.html"]
    for item in items(ROOT / "results" / "paper"):
        assert item.made is None or f"paper/{item.id}/notes.html" in site
    reference = " ".join(text for name, text in site.items() if name.startswith("api/"))
    for name in set(mb.__all__) - {"__version__"}:
        assert re.search(rf"\bmb\.{name}\s", reference), name


def test_no_page_shows_raw_markup_or_asks_the_web(site):
    for name, text in site.items():
        if name.startswith("paper/report"):  # a page of its own
            continue
        article = re.sub(r"<(pre|code|script|style)\b.*?</\1>", "", text, flags=re.S)
        for raw in ("|---", "](", "arithmatex", ".. math"):
            assert raw not in article, f"{name} shows {raw}"
        assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', text), name


def test_the_tutorial_prints_what_it_shows():
    execute = loaded("execute")
    kept = execute.nbformat.read(execute.NOTEBOOK, as_version=4)

    def texts(notebook):
        outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
        return ["" if "image/png" in o.get("data", {}) else o.get("text") or o["data"]["text/plain"] for o in outputs]

    assert len(texts(kept)) > 5
    # Another kind of processor rounds otherwise, which moves a count that a search ends at by a little.
    number = re.compile(r"\d+(?:\.\d+)?")
    for now, shown in zip(texts(execute.executed()), texts(kept), strict=True):
        assert number.sub("#", now).split() == number.sub("#", shown).split()
        assert np.allclose(*(np.array(number.findall(text), float) for text in (now, shown)), rtol=0.05)
    pictures = [o for c in kept.cells if c.cell_type == "code" for o in c.outputs if "image/png" in o.get("data", {})]
    assert len(pictures) == 1  # a notebook shows the figure that plot returns


def test_the_regions_of_the_figure_average_to_the_score_of_a_rank():
    r"""What is drawn for one reference gives, over all samples as references, what the kernel has for the rank."""
    regions = loaded("regions")
    rng = np.random.default_rng(0)
    samples, truth, center = rng.normal(size=(30, 2)), rng.normal(size=2), rng.normal(size=2)
    each = [regions.Region(center, samples[i], np.delete(samples, i, axis=0), truth).statistic for i in range(30)]
    closer = (np.linalg.norm(samples - center, axis=1) < np.linalg.norm(truth - center)).sum()
    assert np.mean(each) == pytest.approx(region_score(np.array(closer), 30))


def asked(words):
    def ask():
        told = io.StringIO()
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(told):
            assert main(words) == 2
        raise mb.UsageError(told.getvalue())

    return ask


def restless():
    generator = np.random.default_rng()
    mb.Task.from_simulator(
        lambda count, rng: rng.normal(size=(count, 2)), lambda y: np.asarray(y) + generator.normal(size=np.shape(y))
    )


class Silent:
    def sample(self, *_):
        raise NotImplementedError


def wide(**columns):
    rows = {"fiducial": np.repeat(np.arange(20), 5), "sample": np.tile(np.arange(5), 20)}
    return pd.DataFrame(rows | {name: RNG.normal(size=100) for name in ("a", "b")} | columns)


Y = RNG.normal(size=(20, 2))
MISTAKES = {
    "and both axes could be": asked(["score", "y.npy", "a=square.npy"]),
    "along its second axis": lambda: mb.score(Y, {"a": RNG.normal(size=(30, 20, 2))}),
    "does not: say in which order": asked(["score", "y.npy", "a=named.csv"]),
    "looks like weights": asked(["score", "y.npy", "a=weighted.csv", "--names", "a,b"]),
    "a pickle is never executed": asked(["score", "y.npy", "a=objects.npy"]),
    "is nan at fiducial": lambda: mb.score(
        Y, {"a": np.where(np.arange(30)[:, None] == 3, np.nan, RNG.normal(size=(20, 30, 2)))}
    ),
    "GB and ... to score": lambda: mb.score(Y, {"a": np.broadcast_to(np.zeros((1, 1, 2)), (20, 10**11, 2))}),
    "is sampled given the observations": lambda: mb.score(Y, {"a": Silent()}),
    "when it is called again with the same seed": restless,
    "there is no key": asked(["fiducals=3"]),
    "does not exist; there are": asked(["candidates=[corect]"]),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_the_answers_quote_what_is_said(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("y.npy", Y)
    np.save("square.npy", RNG.normal(size=(20, 20, 2)))
    np.save("objects.npy", np.array([{}, 1], dtype=object), allow_pickle=True)
    wide().to_csv("named.csv", index=False)
    wide(weight=RNG.random(100)).to_csv("weighted.csv", index=False)
    page = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
    (quoted,) = [line for line in re.findall(r"^### `(.*)`$", page, re.M) if words in line]
    with pytest.raises((mb.UsageError, ValueError)) as said:
        MISTAKES[words]()
    for piece in filter(None, quoted.split("...")):
        assert piece.strip() in str(said.value)
