r"""The Python of README and docs runs, and prints what they show."""

import contextlib
import io
import re
import sys
import textwrap
from pathlib import Path

import numpy as np

import mira_bench as mb
from mira_bench.cli.listing import configs as _configs
from mira_bench.paper.catalogue import runnable

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", re.S)


def run_blocks(page, count):
    r"""Runs the Python of a page in its order, sees that it prints what the page shows, and returns what it defined."""
    scope = {"__name__": "page"}
    sys.modules["page"] = type(sys)("page")  # dataclasses look their module up
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(blocks) == count
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, scope)
        if shown:
            assert printed.getvalue().split() == shown.split()
    del sys.modules["page"]
    return scope


def test_the_readme_runs():
    assert run_blocks("README.md", 2)["result"].samples == 200


def test_the_page_of_networks_runs():
    scope = run_blocks("docs/networks.md", 1)
    task = mb.Task.from_simulator(scope["prior"], scope["simulator"])
    assert task.simulate(3, np.random.default_rng(0)).x.shape == (3, 5)


def test_the_page_of_extensions_runs():
    scope = run_blocks("docs/extending.md", 2)
    assert scope["result"].ranking.verdict.tolist() == ["no miscalibration found", "overconfident"]
    assert isinstance(scope["result"], mb.Result)
    bias = scope["scored"].summary.query("metric == 'bias' and candidate == 'exact'").iloc[0]
    assert abs(bias.score) < 4 * bias.stderr


def test_the_errata_run():
    page = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    ((code, shown),) = re.findall(r"```python\n(.*?)```\n\n   ```\n(.*?)```", page, re.S)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(textwrap.dedent(code), {})
    assert printed.getvalue().split() == shown.split()
    items = set(re.findall(r"`python -m mira_bench paper ([\w ]+)`", page))
    assert {name for line in items for name in line.split()} <= set(runnable())


def test_the_page_of_metrics_runs_and_names_them_all():
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(code, {})
    rows = set(re.findall(r"^\| `(\w+)` \|", page, re.M))
    assert rows == set(_configs("metric"))
