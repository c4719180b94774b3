r"""Names are names, also those that look like a number or like nothing, on every way into a table and back."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.gaussian import ToyCandidate

import mira_bench as mb
from mira_bench.cli.command import main
from mira_bench.report.tables import latex, markdown, read_table

pytestmark = pytest.mark.usefixtures("elsewhere")

NAMES = [
    "null", "NA", "None", "nan", "NaN", "N/A", "1e5", "007", "7", "true", "inf", "a,b", 'say "hi"', "two\nlines",
    "größe", "a/b", "x|y", "[red]", "[/]", "npe[fast]", " lead", "#1", "100%", r"c:\d",
]  # fmt: skip


def test_every_name_survives_a_folder(rng):
    truths = rng.normal(size=(30, 1))
    samples = {name: truths[:, None] + rng.normal(size=(30, 10, 1)) for name in NAMES}
    result = mb.score(truths, samples, metrics=["mira", "energy"], regions=5)
    result.save("here")
    ranking, summary = read_table(Path("here/ranking.csv")), read_table(Path("here/summary.csv"))
    assert ranking.candidate.tolist() == result.ranking.candidate.tolist()
    assert sorted(ranking.candidate) == sorted(NAMES)
    assert summary.candidate.tolist() == result.summary.candidate.tolist()
    for column in ("mira", "mira_stderr", "energy"):  # to the bit
        assert ranking[column].tolist() == result.ranking[column].tolist()
    assert summary.score.tolist() == result.summary.score.tolist()
    assert ranking.calibration_p.isna().all()
    assert pd.read_parquet("here/scores.parquet").candidate.unique().tolist() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_scored_and_collected(name, rng, capsys, plain_figures):
    truths = rng.normal(size=(40, 1))
    np.save("y.npy", truths)
    np.save("a.npy", truths[:, None] + rng.normal(size=(40, 10, 1)))
    np.save("b.npy", truths[:, None] + 3 * rng.normal(size=(40, 10, 1)))
    base = ["score", "y.npy", f"{name}=a.npy", "wide=b.npy", "--metrics", "mira,energy", "--regions", "5"]
    for seed in (0, 1):
        assert main([*base, "--seed", str(seed), "--out", f"runs/{seed}"]) == 0
    shown = capsys.readouterr().out
    plain_figures.undo()
    assert main(["collect", "runs", "--out", "all"]) == 0
    assert " ".join(name.split()) in " ".join(shown.split())
    board = read_table(Path("all/leaderboard.csv"))
    assert board.candidate.tolist() == [name, "wide"]
    assert board.seeds.tolist() == ["2/2", "2/2"]
    scores = [read_table(Path(f"runs/{seed}/ranking.csv")).set_index("candidate").energy[name] for seed in (0, 1)]
    assert board.energy[0] == np.mean(scores)
    assert set(read_table(Path("all/table.csv")).candidate) == {name, "wide"}


TASK = """
model: {{_target_: mira_bench.tasks.gaussian.Toy}}
fiducials: 40
samples: 10
candidates:
  {name}: {{_target_: mira_bench.tasks.gaussian.ToyCandidate}}
  other: {{_target_: mira_bench.tasks.gaussian.ToyCandidate, bias: 1.0}}
"""
SMALL = ["regions=5", "metrics=[mira,energy]", "store=null", "progress=false", "controls=false"]
QUOTED = ["null", "NA", "None", "nan", "1e5", "007", "true", "7"]


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    r"""A folder with a task whose candidates have odd names, and a sweep over them."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "conf/task").mkdir(parents=True)
    keys = f": {{_target_: {ToyCandidate.__module__}.ToyCandidate}}\n  ".join(f'"{name}"' for name in QUOTED)
    (folder / "conf/task/odd.yaml").write_text(TASK.format(name=keys))
    base = ["--config-dir", "conf", "task=odd", *SMALL]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["mira_bench"])
        patch.setattr(mb.Result, "save_figures", lambda *_: None)  # each name is drawn below
        asked = ",".join(f'["{name}"]' for name in QUOTED)
        assert main(["-m", *base, f"candidates={asked},[other]", "seed=0,1", "sweep=x"]) == 0
        assert main(["collect", "results/sweeps/x"]) == 0
    return folder


@pytest.mark.parametrize("name", QUOTED)
def test_every_name_is_chosen_in_quotes(name, odd, monkeypatch):
    monkeypatch.chdir(odd)
    assert main(["--config-dir", "conf", "task=odd", *SMALL, f'candidates=["{name}"]', f"out=here/{name}"]) == 0
    assert read_table(Path(f"here/{name}/ranking.csv")).candidate.tolist() == [name]
    board = read_table(Path("results/sweeps/x/leaderboard.csv"))
    assert sorted(board.candidate) == sorted([*QUOTED, "other"])
    assert board.seeds[board.candidate == name].tolist() == ["2/2"]
    assert set(board.seeds) == {"2/2"}


@pytest.mark.parametrize(
    ("asked", "word"),
    [("[null]", "null"), ("[1e5]", "100000.0"), ("[nan]", "nan"), ("[true]", "true"), ("1e5", "100000.0")],
)
@pytest.mark.parametrize("key", ["candidates", "metrics"])
def test_a_value_that_is_no_name_is_refused(asked, word, key, capsys):
    words = [setting for setting in SMALL if not setting.startswith(key)]
    assert main([*words, f"{key}={asked}", "fiducials=40", "samples=10"]) == 2
    text = capsys.readouterr().err
    assert f"{key}: {word} is no name but a value; put the name in quotes" in text
    assert not Path("results").exists()


def test_a_whole_number_is_a_name_if_there_is_one(elsewhere):
    Path("conf/task").mkdir(parents=True)
    Path("conf/task/odd.yaml").write_text(TASK.format(name="7"))
    assert main(["--config-dir", "conf", "task=odd", *SMALL, "candidates=[7,other]", "out=here"]) == 0
    assert sorted(read_table(Path("here/ranking.csv")).candidate) == ["7", "other"]


@pytest.mark.parametrize(("key", "word"), [("1e5", "100000.0"), ("yes", "True")])
def test_a_key_that_yaml_takes_for_a_value_is_refused(key, word, capsys):
    Path("conf/task").mkdir(parents=True)
    Path("conf/task/odd.yaml").write_text(TASK.format(name=key))
    assert main(["--config-dir", "conf", "task=odd", *SMALL]) == 2
    assert f"task.candidates: {word} is no name but a value; put the name in quotes" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["1e5", "nan", "null", "true"])
def test_a_key_of_files_that_is_a_value_is_refused(key, capsys, rng):
    np.save("y.npy", rng.normal(size=(40, 1)))
    np.save("a.npy", rng.normal(size=(40, 10, 1)))
    assert main(["task=files", "task.truths=y.npy", f"task.candidates={{{key}: a.npy}}", "metrics=[mira]"]) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert "is no name but a value; put the name in quotes" in captured.err
    assert not Path("results").exists()


def test_cells_stay_in_their_row():
    table = pd.DataFrame({"candidate": ["two\nlines", r"a\b{c}$^~_"], "x": ["1", "2"]})
    assert len(markdown(table).splitlines()) == 4
    text = latex(table)
    assert len(text.splitlines()) == 8
    assert r"a\textbackslash{}b\{c\}\$\textasciicircum{}\textasciitilde{}\_ & 2 \\" in text


def test_lists_in_the_title_of_a_leaderboard_are_shown(elsewhere, capsys):
    words = ["candidates=[correct]", "fiducials=40", "samples=10", *SMALL]
    for out, metrics in (("a", "[mira]"), ("b", "[mira,energy]")):
        assert main([*words, f"out=runs/{out}", f"metrics={metrics}"]) == 0
    capsys.readouterr()
    assert main(["collect", "runs", "--by", "metrics"]) == 0
    shown = capsys.readouterr().out
    assert "gaussian (metrics=[mira])" in shown
    assert "gaussian (metrics=[mira,energy])" in shown


def test_line_ends_in_names_survive(tmp_path):
    names = ["a\r\nb", "a\nb", "\n", "", " "]
    pd.DataFrame({"candidate": names, "score": range(5)}).to_csv("table.csv", index=False)
    back = read_table(Path("table.csv"))
    assert back.candidate.tolist() == names
    assert back.score.tolist() == [0, 1, 2, 3, 4]


SCRIPT = """
import sys
from {module} import {function}
if __name__ == "__main__":
    sys.exit({function}())
"""


@pytest.mark.parametrize("more", [[], ["workers=2"], ["workers=1", "parallel.backend=dask"]])
@pytest.mark.parametrize("how", ["script", "module"])
def test_the_command_finds_modules_of_the_working_directory(how, more, elsewhere, tmp_path_factory):
    r"""The script that an installer makes of the entry point, in a folder of its own, does what `python -m` does."""
    root = Path(mb.__file__).parents[1]
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    module, function = re.search(r'^mira-bench = "([\w.]+):(\w+)"', text, re.M).groups()
    script = tmp_path_factory.mktemp("bin") / "mira-bench"
    script.write_text(SCRIPT.format(module=module, function=function))
    Path("conf/candidate").mkdir(parents=True)
    Path("conf/candidate/here.yaml").write_text("_target_: module_of_here.Here\n")
    Path("module_of_here.py").write_text(
        "from mira_bench.tasks.gaussian import ToyCandidate\n\n\nclass Here(ToyCandidate):\n    pass\n"
    )
    start = [str(script)] if how == "script" else ["-m", "mira_bench"]
    words = ["--config-dir", "conf", "+candidate@candidate.here=here", "candidates=[here]", "fiducials=40"]
    done = subprocess.run(
        [sys.executable, *start, *words, "samples=10", *SMALL, "out=here", *more],
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert read_table(Path("here/ranking.csv")).candidate.tolist() == ["here"]
