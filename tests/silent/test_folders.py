r"""Folders: one run each, all of it and nothing of an earlier one; and a metric that fails does so alone."""

import hashlib
import json
import logging
import multiprocessing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.gaussian import Toy, ToyCandidate

import mira_bench as mb
from mira_bench.cli.command import main
from mira_bench.config import Asked
from mira_bench.report.folder import logging_to
from mira_bench.report.outputs import claim, clear, copy_code
from mira_bench.runner.run import perform
from mira_bench.runner.setup import Settings
from mira_bench.sweeps.study import _pvalues
from mira_bench.views import Columns, with_views

pytestmark = pytest.mark.usefixtures("elsewhere", "plain_figures")

SIZES = ["fiducials=40", "samples=10", "regions=5", "metric.c2st.trees=2", "store=null", "progress=false"]
SMALL = [*SIZES, "metrics=[mira]", "candidates=[correct]", "controls=false"]
STUDY = ["experiment=power", "study.repeats=2", "study.grid.fiducials=[32]", "workers=1", "progress=false"]
STUDY += ["candidates=[exact,narrow]", "samples=10", "regions=5"]


def listing(folder):
    return {path.relative_to(folder).as_posix() for path in Path(folder).rglob("*") if path.is_file()}


def contents(folder):
    return {name: Path(folder, name).read_bytes() for name in listing(folder)}


@pytest.fixture
def files(elsewhere):
    rng = np.random.default_rng(0)
    np.save("y.npy", rng.normal(size=(40, 1)))
    np.save("a.npy", rng.normal(size=(40, 10, 1)))
    return ["score", "y.npy", "a=a.npy", "--regions", "5"]


# A new run never shares a folder.


class Noon(datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 11, 16, 12, 0, 0, tzinfo=tz)


def test_runs_of_one_second_have_folders_of_their_own(monkeypatch):
    monkeypatch.setattr("hydra.core.utils.datetime", Noon)
    for seed in (0, 1, 2):
        assert main([*SMALL, f"seed={seed}"]) == 0
    folders = sorted(Path("results/runs/gaussian").iterdir())
    assert [folder.name for folder in folders] == [f"2026-11-16_12-00-00{end}" for end in ("", "_2", "_3")]
    assert [json.loads((f / "provenance.json").read_text())["seed"] for f in folders] == [0, 1, 2]
    assert f"out: {folders[1].as_posix()}" in (folders[1] / "config.yaml").read_text()


def test_studies_and_named_clocks_of_one_second_too(monkeypatch):
    monkeypatch.setattr("hydra.core.utils.datetime", Noon)
    for _ in range(2):
        assert main([*STUDY, "metrics=[mira]"]) == 0
        assert main([*SMALL, "out=mine/${now:%H}"]) == 0
    assert len(list(Path("results/runs/power").iterdir())) == 2
    assert sorted(path.name for path in Path("mine").iterdir()) == ["12", "12_2"]


def test_scores_of_one_second_have_folders_of_their_own(files, monkeypatch):
    monkeypatch.setattr("time.strftime", lambda *_: "noon")
    for seed in ("0", "1"):
        assert main([*files, "--metrics", "mira", "--seed", seed]) == 0
    folders = sorted(Path("results/runs/score").iterdir())
    assert [folder.name for folder in folders] == ["noon", "noon_2"]
    assert [json.loads((f / "provenance.json").read_text())["seed"] for f in folders] == [0, 1]


def test_processes_never_claim_one_folder(elsewhere):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        claimed = pool.map(claim, [elsewhere / "runs" / "noon"] * 20)
    assert len(set(claimed)) == 20
    assert {path.name for path in claimed} == {"noon", *(f"noon_{i}" for i in range(2, 21))}


def test_two_runs_at_once_in_one_folder_are_refused(elsewhere, capsys):
    with logging_to(Path("here")):
        before = listing("here")
        assert main([*SMALL, "out=here"]) == 2
        assert "another run is writing into here" in capsys.readouterr().err
        assert listing("here") == before
    assert main([*SMALL, "out=here"]) == 0


# A reused folder holds one run.


def test_a_reused_folder_is_that_of_the_last_run(files):
    full = [*SIZES, "metrics=[mira,tarp,sbc,energy]", "candidates=[correct]"]
    assert main([*full, "out=here"]) == 0
    assert main(["collect", "here"]) == 0
    assert {"figures/sbc.png", "figures/overview.pdf", "leaderboard.csv"} <= listing("here")
    foreign = {"figures/mine.png": b"\x89PNG mine", "notes.md": b"mine", "code/mine.py": b"x = 1", "table.txt": b""}
    for name, text in foreign.items():
        Path("here", name).parent.mkdir(exist_ok=True)
        Path("here", name).write_bytes(text)
    few = [*SIZES, "metrics=[energy]", "candidates=[correct]", "controls=false"]
    assert main([*few, "out=here"]) == 0
    assert main([*few, "out=fresh"]) == 0
    assert listing("here") == listing("fresh") | set(foreign)
    for name, text in foreign.items():
        assert Path("here", name).read_bytes() == text
    # And from one kind of folder to another.
    assert main([*files, "--metrics", "mira", "--out", "here"]) == 0
    assert main([*files, "--metrics", "mira", "--out", "scored"]) == 0
    assert listing("here") == listing("scored") | set(foreign)
    assert main([*STUDY, "metrics=[mira]", "out=here"]) == 0
    assert main([*STUDY, "metrics=[mira]", "out=studied"]) == 0
    assert listing("here") == listing("studied") | set(foreign)


def test_a_reused_folder_of_python_too(elsewhere):
    rng = np.random.default_rng(0)
    truths, samples = rng.normal(size=(40, 1)), rng.normal(size=(40, 10, 1))
    mb.score(truths, {"a": samples}, metrics=["mira", "sbc"]).save("here")
    assert "figures/sbc.png" in listing("here")
    mb.score(truths, {"a": samples}, metrics=["mira"]).save("here")
    mb.score(truths, {"a": samples}, metrics=["mira"]).save("fresh")
    assert listing("here") == listing("fresh")
    assert contents("here") == contents("fresh")


def test_methods_of_an_earlier_run_go(elsewhere):
    folder = Path("here")
    folder.mkdir()
    (folder / "methods.csv").write_text("method,networks,failed,tiers\nnpe,3,0,A\n")
    result = mb.score(np.zeros((5, 1)) + np.arange(5)[:, None], {"a": np.random.default_rng(0).normal(size=(5, 9, 1))})
    result.save(folder)
    assert not (folder / "methods.csv").exists()
    (folder / "methods.csv").write_text("my own\n")
    result.save(folder)
    assert (folder / "methods.csv").read_text() == "my own\n"


def test_folders_of_before_there_were_lists_are_known(elsewhere):
    assert main([*SIZES, "metrics=[mira,sbc]", "candidates=[correct]", "out=here"]) == 0
    facts = json.loads(Path("here/provenance.json").read_text())
    del facts["outputs"]
    Path("here/provenance.json").write_text(json.dumps(facts))
    for name in ("sbc", "overview"):  # without our mark
        Path(f"here/figures/{name}.png").write_bytes(b"\x89PNG")
    Path("here/mine.txt").write_text("mine")
    clear(Path("here"))
    assert listing("here") == {"mine.txt"}


def test_a_list_that_leads_elsewhere_is_not_followed(elsewhere):
    Path("mine.txt").write_text("mine")
    Path("here").mkdir()
    names = ["../mine.txt", str((elsewhere / "mine.txt").absolute())]
    Path("here/provenance.json").write_text(json.dumps({"versions": {"mira_bench": "1"}, "outputs": names}))
    clear(Path("here"))
    assert Path("mine.txt").read_text() == "mine"


@pytest.mark.parametrize("words", [["fiducials=0"], ["candidates=[nobody]"], ["device=warp"], ["rank_by=vibes"]])
def test_bad_usage_leaves_a_folder_as_it_was(words, elsewhere):
    assert main([*SMALL, "out=here"]) == 0
    before = contents("here")
    assert main([*SMALL, "out=here", *words]) == 2
    assert contents("here") == before


def test_bad_studies_leave_a_folder_as_it_was(elsewhere):
    assert main([*STUDY, "metrics=[mira]", "out=here"]) == 0
    before = contents("here")
    for words in (["study.measure=vibes"], ["+study.grid.color=[1]"], ["+study.grid.candidates=[[nobody]]"]):
        assert main([*STUDY, "metrics=[mira]", "out=here", *words]) == 2
    assert contents("here") == before


LATE = """
from scipy import stats

prior = {"mean": stats.norm(0, 1)}


def simulator(y, rng):
    if len(y) == 32:
        raise ValueError("too many")
    return y + rng.normal(size=(len(y), 1))
"""


def test_a_failed_run_leaves_no_ranking_of_before(elsewhere):
    assert main([*SMALL, "out=here"]) == 0
    Path("late.py").write_text(LATE)
    words = [word for word in SMALL if not word.startswith("candidates")]
    Path("mine.py").write_text("def build(task, rng):\n    return lambda x, count: x[:, None].repeat(count, 1)\n")
    assert main(["task=mine", "task.file=late.py", "candidates=[mine.py:build]", *words, "out=here"]) == 2
    left = listing("here")
    assert {"log.txt", "config.yaml"} <= left
    assert not {name for name in left if name.startswith(("ranking", "summary", "scores", "figures", "provenance"))}
    assert "too many" in Path("here/log.txt").read_text()


def test_a_score_that_crashes_leaves_no_ranking_of_before(files, monkeypatch):
    assert main([*files, "--metrics", "mira", "--out", "here"]) == 0

    def crash(*_, **__):
        logging.getLogger("mira_bench").warning("on the way")
        raise MemoryError("too big")

    monkeypatch.setattr("mira_bench.adapters.files.Files.score", crash)
    with pytest.raises(MemoryError):
        main([*files, "--metrics", "mira", "--out", "here"])
    assert listing("here") - {".outputs"} == {"log.txt"}
    text = Path("here/log.txt").read_text()
    assert "on the way" in text
    assert "too big" in text


def test_a_failed_item_of_the_paper_leaves_no_table_of_before(elsewhere, monkeypatch):
    words = ["paper", "uninformative", "--quick", "workers=1", "progress=false", "store=null", "fiducials=30"]
    assert main([*words, "samples=20", "regions=4"]) == 0
    folder = "results/runs/paper/uninformative"
    made = listing(folder)
    assert {"table.csv", "notes.md", "figure.png", "study.csv"} <= made
    Path(folder, "mine.txt").write_text("mine")

    def crash(*_):
        raise ValueError("no table")

    with monkeypatch.context() as patch:
        patch.setattr("mira_bench.paper.folder.compare", crash)
        with pytest.raises(ValueError, match="no table"):
            main([*words, "samples=20", "regions=4"])
    left = listing(folder)
    assert "mine.txt" in left
    assert not left & {"table.csv", "table.md", "table.tex", "notes.md", "figure.png", "figure.pdf"}
    assert "paper" not in json.loads(Path(folder, "provenance.json").read_text())
    assert main([*words, "samples=20", "regions=4"]) == 0
    assert listing(folder) == made | {"mine.txt"}


def test_files_that_are_edited_while_they_are_scored_are_refused(files, monkeypatch, capsys):
    from mira_bench.adapters.files import Files

    right = Files.score

    def edit(self, **settings):
        result = right(self, **settings)
        np.save("a.npy", np.zeros((40, 10, 1)))
        return result

    monkeypatch.setattr("mira_bench.adapters.files.Files.score", edit)
    assert main([*files, "--metrics", "mira", "--out", "here"]) == 2
    assert "a.npy was edited while it was scored: start again" in capsys.readouterr().err
    assert not Path("here").exists()


# The folder keeps the user's code.

SIMULATOR = """
from scipy import stats
from helper import NOISE

prior = {"mean": stats.norm(0, 1)}


def simulator(y, rng):
    return y + NOISE * rng.normal(size=(len(y), 1))
"""


def test_the_folder_keeps_the_code_as_it_ran(elsewhere):
    Path("other").mkdir()
    Path("sim.py").write_text(SIMULATOR)
    Path("helper.py").write_text("NOISE = 0.5\n")
    Path("other/helper.py").write_text("WIDTH = 0.5\n")
    # It edits itself, and its helper, while it runs.
    text = "from pathlib import Path\nimport numpy as np\nfrom helper import WIDTH\nDATA = np.load('data.npy')\n\n\n"
    text += "def build(task, rng):\n"
    text += "    for name in ('mine', 'helper'):\n        Path(f'other/{name}.py').write_text('edited')\n"
    text += "    return lambda x, count: x[:, None] + WIDTH * np.random.normal(size=(len(x), count, 1))\n"
    Path("other/mine.py").write_text(text)
    np.save("data.npy", np.zeros(3))
    texts = {path: Path(path).read_bytes() for path in ("sim.py", "helper.py", "other/mine.py", "other/helper.py")}
    words = [word for word in SMALL if not word.startswith("candidates")]
    assert main(["task=mine", "task.file=sim.py", "candidates=[other/mine.py:build]", *words, "out=here"]) == 0
    facts = json.loads(Path("here/provenance.json").read_text())
    assert facts["copies"].keys() == texts.keys()
    for path, copied in facts["copies"].items():
        assert Path("here", copied).read_bytes() == texts[path]
        assert facts["files"][path] == hashlib.sha256(texts[path]).hexdigest()
    assert len({*facts["copies"].values()}) == 4
    assert all(name.startswith("code/") for name in facts["copies"].values())
    (data,) = (path for path in facts["files"] if path.endswith("data.npy"))
    assert facts["files"][data] == hashlib.sha256(Path("data.npy").read_bytes()).hexdigest()
    assert not [name for name in listing("here") if "data" in name]
    assert set(facts["identity"]) == {"task", "candidate:other/mine.py:build", "metric:mira"}


def test_copies_stay_inside_and_large_ones_are_left_out(elsewhere):
    Path("here").mkdir()
    made = copy_code(Path("here"), {"../../a.py": b"x", "/b/a.py": b"y", "/c/a.py": b"x", "big.py": b"#" * 2**21})
    assert (
        listing("here")
        == set(made.values())
        == {f"code/a-{hashlib.sha256(text).hexdigest()[:8]}.py" for text in (b"x", b"y")}
    )


def test_score_keeps_the_hashes_of_its_files(files):
    assert main([*files, "--metrics", "mira", "--out", "here"]) == 0
    facts = json.loads(Path("here/provenance.json").read_text())
    assert facts["files"] == {name: hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in ("y.npy", "a.npy")}
    assert datetime.fromisoformat(facts["finished"]).date().isoformat() == facts["date"]


# A metric that fails does so alone.


@dataclass(frozen=True)
class Bad(mb.Metric):
    r"""A metric of a user that fails in one way or another."""

    how: str
    name = "bad"

    def observe(self, block):
        if self.how == "observe":
            raise ZeroDivisionError("in observe")
        rubbish = {"no mapping": 3, "text": "fine", "objects": {"a": [object()]}}
        return rubbish.get(self.how, {"n": np.ones(len(block.truths))})

    def reduce(self, records, scaling):
        if self.how == "reduce":
            raise ZeroDivisionError("in reduce")
        if self.how == "none":
            return None
        if self.how == "word":
            return mb.Scores(score="high")
        if self.how == "shape":
            return mb.Scores(score=1.0, per_fiducial=np.ones((2, 2)))
        return mb.Scores(score=1.0)


WAYS = {
    "observe": "ZeroDivisionError: in observe",
    "reduce": "ZeroDivisionError: in reduce",
    "no mapping": "observe returned a int; a mapping of names to arrays is needed",
    "text": "observe returned a str; a mapping of names to arrays is needed",
    "objects": "observe returned 'a', a list; an array of numbers is needed",
    "none": "reduce returned a NoneType; mira_bench.Scores is needed",
    "word": "could not convert string to float: 'high'",
    "shape": "per_fiducial of shape (2, 2); one number per fiducial is needed",
}


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("stored", [False, True])
def test_a_metric_fails_alone_in_a_run(how, stored, tmp_path):
    settings = {"fiducials": 40, "samples": 10, "controls": False, "store": tmp_path / "store" if stored else None}
    candidates = {"good": ToyCandidate(), "moved": ToyCandidate(bias=1.0)}
    metrics = {"mira": mb.Mira(regions=5), "bad": Bad(how), "energy": mb.Energy()}
    result = mb.run(Toy(), candidates, metrics=metrics, **settings)
    alone = mb.run(
        Toy(), candidates, metrics={key: metrics[key] for key in ("mira", "energy")}, **settings | {"store": None}
    )
    left = result.summary[result.summary.metric != "bad"].reset_index(drop=True)
    pd.testing.assert_frame_equal(left, alone.summary, check_exact=True)
    pd.testing.assert_frame_equal(result.scores, alone.scores, check_exact=True)
    rows = result.summary[result.summary.metric == "bad"]
    assert rows.score.isna().all()
    assert all(note.startswith("failed: ") and WAYS[how] in note for note in rows.note)
    assert list(result.failures) == ["metric bad"]
    assert WAYS[how] in result.failures["metric bad"]
    result.save(tmp_path / "here")


@pytest.mark.parametrize("how", WAYS)
def test_a_metric_fails_alone_in_score(how):
    rng = np.random.default_rng(0)
    truths, samples = rng.normal(size=(40, 1)), rng.normal(size=(40, 10, 1))
    metrics = {"mira": mb.Mira(regions=5), "bad": Bad(how), "energy": mb.Energy()}
    result = mb.score(truths, {"a": samples}, metrics=metrics)
    alone = mb.score(truths, {"a": samples}, metrics={key: metrics[key] for key in ("mira", "energy")})
    left = result.summary[result.summary.metric != "bad"].reset_index(drop=True)
    pd.testing.assert_frame_equal(left, alone.summary, check_exact=True)
    (note,) = result.summary[result.summary.metric == "bad"].note
    assert note.startswith("failed: ")
    assert WAYS[how] in note
    assert WAYS[how] in result.failures["metric bad"]


@pytest.fixture
def bad_metric(elsewhere, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    Path("conf/metric").mkdir(parents=True)
    Path("conf/metric/bad.yaml").write_text("_target_: test_folders.Bad\nhow: reduce\n")
    return ["--config-dir", "conf", "+metric@metric.bad=bad"]


def test_a_failed_metric_exits_with_1(bad_metric, files, capsys):
    words = [word for word in SMALL if not word.startswith("metrics")]
    assert main([*bad_metric, *words, "metrics=[mira,bad]", "out=run"]) == 1
    assert "metric bad failed: ZeroDivisionError: in reduce (for correct)" in capsys.readouterr().err
    named = ["task=files", "task.truths=y.npy", "task.candidates={a: a.npy}", "metrics=[mira,bad]", "regions=5"]
    assert main([*bad_metric, *named, "out=scored"]) == 1
    assert "metric bad failed: ZeroDivisionError: in reduce (for a)" in capsys.readouterr().err
    for folder in ("run", "scored"):
        summary = pd.read_csv(f"{folder}/summary.csv").set_index("metric")
        assert summary.note["bad"] == "failed: ZeroDivisionError: in reduce"
        assert np.isfinite(summary.score["mira"])
    study = [word for word in STUDY if not word.startswith("metrics")]
    assert main([*bad_metric, *study, "metrics=[mira,bad]", "study.measure=scores", "out=study"]) == 1
    assert "metric bad failed: ZeroDivisionError: in reduce" in capsys.readouterr().err
    table = pd.read_csv("study/study.csv")
    assert (table[table.metric == "bad"].note == "failed: ZeroDivisionError: in reduce").all()
    assert np.isfinite(table[table.metric == "mira"].score).all()


def test_a_power_study_does_not_count_what_has_no_pvalue(bad_metric, capsys):
    assert main([*bad_metric, *STUDY, "metrics=[mira,bad]", "out=here"]) == 1
    assert "bad of exact failed: ZeroDivisionError: in reduce" in capsys.readouterr().err
    table = pd.read_csv("here/study.csv").set_index(["candidate", "metric"])
    assert table.runs.to_dict() == {
        ("exact", "mira"): 2, ("exact", "bad"): 0, ("narrow", "mira"): 2, ("narrow", "bad"): 0,
    }  # fmt: skip
    assert table.share.isna().tolist() == [False, True, False, True]
    assert "| exact | bad | - |" in Path("here/study.md").read_text()
    assert (pd.read_csv("here/runs.csv").query("metric == 'bad'").note == "failed: ZeroDivisionError: in reduce").all()


@dataclass(frozen=True)
class Seen(Toy):
    @property
    def views(self):
        return {"first": Columns((0,))}


def test_views_are_counted_each_for_itself():
    metrics = with_views({"mira": mb.Mira(regions=5)}, ["all", "first"], Seen())
    settings = Settings(fiducials=40, samples=10, controls=False, metrics=metrics)
    rows = _pvalues(Asked(Seen(), {"a": ToyCandidate()}, settings), {"seed": 0})
    summary = perform(Seen(), {"a": ToyCandidate()}, settings).summary
    assert [(row["metric"], row["pvalue"]) for row in rows] == [
        ("mira", summary.pvalue[0]), ("mira@first", summary.pvalue[1]),
    ]  # fmt: skip


def test_who_wins_cannot_be_said_where_a_candidate_failed(elsewhere, capsys):
    Path("broken.py").write_text('def build(task, rng):\n    raise RuntimeError("out of luck")\n')
    words = ["experiment=ranking_rule", "study.repeats=2", "study.grid.fiducials=[32]", "workers=1", "progress=false"]
    words += ["study.cases=null"]
    assert main([*words, "candidates=[exact,broken.py:build]", "samples=10", "regions=5", "out=here"]) == 1
    assert "who wins cannot be said where candidate 'broken.py:build' failed" in capsys.readouterr().err
