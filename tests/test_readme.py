r"""The README's Python runs, and prints what the README shows."""

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

TEXT = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", TEXT, re.S)


def test_the_blocks_run_in_their_order():
    scope = {"__name__": "readme"}
    sys.modules["readme"] = type(sys)("readme")  # dataclasses look their module up
    assert len(BLOCKS) == 5
    for code, shown in BLOCKS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, scope)
        if shown:
            assert printed.getvalue().split() == shown.split()
    del sys.modules["readme"]
    assert scope["result"].ranking.verdict.tolist() == ["no miscalibration found", "overconfident"]
    assert isinstance(scope["result"], mb.Result)
    bias = scope["scored"].summary.query("metric == 'bias' and candidate == 'exact'").iloc[0]
    assert abs(bias.score) < 4 * bias.stderr
    task = mb.Task.from_simulator(scope["prior"], scope["simulator"])
    assert task.simulate(3, np.random.default_rng(0)).x.shape == (3, 5)


def test_the_errata_run():
    page = (Path(__file__).parents[1] / "docs" / "errata.md").read_text(encoding="utf-8")
    ((code, shown),) = re.findall(r"```python\n(.*?)```\n\n   ```\n(.*?)```", page, re.S)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(textwrap.dedent(code), {})
    assert printed.getvalue().split() == shown.split()
    items = set(re.findall(r"`python -m mira_bench paper ([\w ]+)`", page))
    assert {name for line in items for name in line.split()} <= set(runnable())


def test_the_page_of_metrics_runs_and_names_them_all():
    page = (Path(__file__).parents[1] / "docs" / "metrics.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(code, {})
    rows = set(re.findall(r"^\| `(\w+)` \|", page, re.M))
    assert rows == set(_configs("metric"))
