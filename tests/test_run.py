r"""The runner: the same result whatever happens on the way."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.gaussian import Toy, ToyCandidate

import mira_bench as mb
from mira_bench.runner.cost import estimate
from mira_bench.runner.setup import Settings
from mira_bench.runner.store import Store
from mira_bench.streams import generator

ROOT = Path(mb.__file__).parents[1]
CANDIDATES = {"correct": ToyCandidate(), "biased": ToyCandidate(bias=5.0)}
SMALL = {"fiducials": 250, "samples": 20, "metrics": {"mira": mb.Mira(regions=10), "sbc": mb.Sbc()}}


def same(a, b):
    pd.testing.assert_frame_equal(a.scores, b.scores, check_exact=True)
    pd.testing.assert_frame_equal(a.summary, b.summary, check_exact=True)
    pd.testing.assert_frame_equal(a.ranking, b.ranking, check_exact=True)


@pytest.fixture(scope="module")
def reference():
    return mb.run(Toy(), CANDIDATES, **SMALL)


def test_workers_change_nothing(reference):
    same(mb.run(Toy(), CANDIDATES, workers=2, **SMALL), reference)


def test_a_second_run_computes_nothing(reference, tmp_path, monkeypatch):
    same(mb.run(Toy(), CANDIDATES, store=tmp_path, **SMALL), reference)

    def never(*_):
        raise AssertionError("sampled again")

    monkeypatch.setattr(ToyCandidate, "sample", never)
    same(mb.run(Toy(), CANDIDATES, store=tmp_path, check=False, **SMALL), reference)


def test_an_incomplete_store_is_completed(reference, tmp_path, monkeypatch):
    mb.run(Toy(), CANDIDATES, store=tmp_path, **SMALL)
    records = [e for e in Store(tmp_path).entries() if e.spec["kind"] == "record"]
    assert len(records) == 4 * 3 * 2  # candidates and controls, blocks, metrics
    lost = [e for e in records if e.spec["candidate_name"] == "biased" and e.spec["block"] == 1]
    lost[0].path.unlink()
    lost[1].path.write_bytes(lost[1].path.read_bytes()[:-7])
    calls = []
    sample = ToyCandidate.sample
    monkeypatch.setattr(ToyCandidate, "sample", lambda *a: calls.append(1) or sample(*a))
    same(mb.run(Toy(), CANDIDATES, store=tmp_path, check=False, **SMALL), reference)
    assert len(calls) == 1


def test_a_larger_run_extends_a_smaller_one(reference, tmp_path):
    mb.run(Toy(), CANDIDATES, store=tmp_path, **SMALL)
    before = {e.path: e.path.read_bytes() for e in Store(tmp_path).entries()}
    larger = mb.run(Toy(), CANDIDATES, store=tmp_path, **(SMALL | {"fiducials": 470}))
    assert all(path.read_bytes() == data for path, data in before.items())
    part = larger.scores[larger.scores.fiducial < 250].reset_index(drop=True)
    pd.testing.assert_frame_equal(part, reference.scores, check_exact=True)


def test_a_scale_that_needs_no_truths_extends_too(tmp_path):
    from mira_bench.tasks.gaussian import Conjugate, ConjugateCandidate

    metrics = {"mira": mb.Mira(regions=5, normalize="none"), "sbc": mb.Sbc()}
    settings = {"samples": 10, "metrics": metrics, "controls": False, "store": tmp_path}
    mb.run(Conjugate(), {"exact": ConjugateCandidate()}, fiducials=200, **settings)
    before = {e.path for e in Store(tmp_path).entries()}
    mb.run(Conjugate(), {"exact": ConjugateCandidate()}, fiducials=300, **settings)
    new = [e for e in Store(tmp_path).entries() if e.path not in before]
    assert {e.spec["block"] for e in new} == {2}


def test_negative_seeds():
    assert not mb.run(Toy(), CANDIDATES, **(SMALL | {"seed": -1, "metrics": None})).failures


def test_seeds_and_names_matter(reference):
    other = mb.run(Toy(), CANDIDATES, seed=1, **SMALL)
    assert not np.array_equal(other.scores.value, reference.scores.value)


def test_kept_samples_serve_a_new_metric(tmp_path, monkeypatch):
    settings = SMALL | {"controls": False, "store": tmp_path}
    mb.run(Toy(), CANDIDATES, keep_samples=True, **settings)
    expected = mb.run(Toy(), CANDIDATES, **(settings | {"metrics": {"tarp": mb.Tarp()}, "store": None}))
    monkeypatch.setattr(ToyCandidate, "sample", lambda *_: pytest.fail("sampled again"))
    same(mb.run(Toy(), CANDIDATES, check=False, **(settings | {"metrics": {"tarp": mb.Tarp()}})), expected)
    with pytest.raises(mb.UsageError, match="needs a store"):
        mb.run(Toy(), CANDIDATES, keep_samples=True, **SMALL)


def test_streaming_equals_scoring_the_arrays(tmp_path):
    # A task without bounds, so that the scale depends on all truths.
    from mira_bench.tasks.gaussian import Conjugate, ConjugateCandidate

    task, settings = Conjugate(), {"fiducials": 230, "samples": 30, "controls": False}
    streamed = mb.run(task, {"narrow": ConjugateCandidate(width=0.7)}, store=tmp_path, keep_samples=True, **settings)
    store = Store(tmp_path)
    blocks = {}
    for entry in store.entries():
        if entry.spec["kind"] in ("samples", "fiducials"):
            blocks[entry.spec["kind"], entry.spec["block"]] = store.get(entry.spec)
    truths, x = (np.concatenate([blocks["fiducials", b][key] for b in range(3)])[:230] for key in "yx")
    samples = np.concatenate([blocks["samples", b]["values"] for b in range(3)])[:230]
    drawn = [
        task.exact_posterior().sample(blocks["fiducials", b]["x"], 30, generator(0, "reference", "conjugate", b))
        for b in range(3)
    ]
    arrays = mb.score(truths, {"narrow": samples}, x=x, reference=np.concatenate(drawn)[:230])
    pd.testing.assert_frame_equal(
        arrays.summary.drop(columns="task"), streamed.summary.drop(columns="task"), check_exact=True
    )


def test_pooled_in_a_run_equals_pooled_arrays(tmp_path):
    metrics = {"mira": mb.Mira(regions=10, normalize="pooled")}
    result = mb.run(
        Toy(), CANDIDATES, fiducials=120, samples=15, controls=False, metrics=metrics, store=tmp_path,
        keep_samples=True,
    )  # fmt: skip
    store = Store(tmp_path)
    entries = [(e.spec, store.get(e.spec)) for e in store.entries()]
    truths = np.concatenate([a["y"] for s, a in sorted_by_block(entries, "fiducials")])[:120]
    samples = {
        name: np.concatenate(
            [a["values"] for s, a in sorted_by_block(entries, "samples") if s["candidate_name"] == name]
        )[:120]
        for name in CANDIDATES
    }
    arrays = mb.score(truths, samples, metrics=metrics)
    assert np.array_equal(arrays.scores.value, result.scores.value)


def sorted_by_block(entries, kind):
    return sorted((e for e in entries if e[0]["kind"] == kind), key=lambda e: e[0]["block"])


@dataclass(frozen=True)
class Broken:
    how: str
    version = 1

    def build(self, task, rng):
        if self.how == "build":
            raise ImportError("no such network")
        return self

    def sample(self, x, count, rng):
        shape = (len(x), count, 2)
        if self.how == "raise":
            raise RuntimeError("diverged")
        if self.how == "die":
            os._exit(3)
        if self.how == "few":
            return np.zeros((len(x), count - 1, 2))
        if self.how == "nan":
            values = np.zeros(shape)
            values[3, 1] = np.nan
            return values
        return rng.normal(size=shape)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raise", "RuntimeError: diverged"),
        ("build", "ImportError: no such network"),
        ("few", r"shape (100, 19, 2); (100, 20, 2) is needed"),
        ("nan", "candidate 'bad' is nan at fiducial 3, sample 1"),
    ],
)
def test_failures_stay_with_their_candidate(reference, how, words, workers):
    result = mb.run(Toy(), CANDIDATES | {"bad": Broken(how)}, workers=workers, **SMALL)
    assert words in result.failures["bad"]
    bad = result.ranking.set_index("candidate").loc["bad"]
    assert (bad.verdict, bad.tier) == ("failed", "-")
    good = result.scores[result.scores.candidate != "bad"].reset_index(drop=True)
    pd.testing.assert_frame_equal(good, reference.scores, check_exact=True)
    assert result.summary[result.summary.candidate == "bad"].note.str.startswith("failed").all()


def test_a_worker_that_dies_takes_only_its_candidate_with_it(reference):
    result = mb.run(Toy(), CANDIDATES | {"bad": Broken("die")}, workers=2, **SMALL)
    assert "its worker process died" in result.failures["bad"]
    good = result.scores[result.scores.candidate != "bad"].reset_index(drop=True)
    pd.testing.assert_frame_equal(good, reference.scores, check_exact=True)


def test_a_failed_candidate_gets_no_further_blocks(monkeypatch):
    calls = []
    sample = Broken.sample
    monkeypatch.setattr(Broken, "sample", lambda self, *a: calls.append(1) or sample(self, *a))
    mb.run(Toy(), {"bad": Broken("raise")}, **(SMALL | {"fiducials": 900}))
    assert len(calls) == 1


@dataclass(frozen=True)
class BadTask:
    how: str
    version = 1
    block = 10

    def simulate(self, count, rng):
        if self.how == "raise":
            raise ZeroDivisionError("no photons")
        y = rng.normal(size=(count - (self.how == "few"), 2))
        if self.how == "nan":
            y[2, 1] = np.inf
        return mb.Fiducials(y, y)


@pytest.mark.parametrize(
    ("how", "words"),
    [("raise", "ZeroDivisionError: no photons"), ("few", "9 fiducials where 10"), ("nan", r"inf at index \(2, 1\)")],
)
def test_a_bad_task_is_one_sentence(how, words):
    with pytest.raises((mb.RunError, mb.UsageError), match=words):
        mb.run(BadTask(how), {"a": Broken("")}, fiducials=20, samples=5, name="bad")


def test_a_skipped_candidate_says_why():
    @dataclass(frozen=True)
    class Picky(Broken):
        def skip(self, task):
            return "needs images"

    result = mb.run(Toy(), CANDIDATES | {"picky": Picky("")}, **SMALL)
    assert result.failures == {"picky": "skipped: needs images"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fiducials": 0}, "fiducials=0"),
        ({"samples": -1}, "samples=-1"),
        ({"workers": 0}, "workers=0"),
        ({"fiducials": 2.5}, "whole number"),
        ({"seed": "one"}, "seed='one'"),
        ({"metrics": ["vibes"]}, "there are: mira"),
        ({"workers": 2, "backend": "vibes"}, "backend='vibes'"),
        ({"metrics": {}}, "no metrics"),
        ({"rank_by": "vibes"}, "rank_by"),
        ({"device": "warp"}, "device='warp'"),
    ],
)
def test_bad_settings(change, words):
    with pytest.raises(mb.UsageError, match=words):
        mb.run(Toy(), CANDIDATES, **(SMALL | change))
    with pytest.raises(mb.UsageError, match="no candidates"):
        mb.run(Toy(), {}, **SMALL)


def test_groups_reach_the_error_bar(rng):
    @dataclass(frozen=True)
    class Labels:
        version = 1
        block = 50

        def simulate(self, count, rng):
            return mb.Fiducials(rng.normal(size=(count, 2)), np.zeros((count, 1)), np.zeros(count, int))

    @dataclass(frozen=True)
    class Shared:
        version = 1

        def build(self, task, rng):
            return self

        def sample(self, x, count, rng):
            one = np.random.default_rng(0).normal(size=(1, count, 2))
            return np.repeat(one, len(x), axis=0)

    metrics = {"mira": mb.Mira(regions=10, normalize="none")}
    result = mb.run(Labels(), {"shared": Shared()}, fiducials=150, samples=30, metrics=metrics)
    mira = result.standings[0].mira
    truths = np.concatenate([Labels().simulate(50, generator(0, "data", "labels", b)).y for b in range(3)])
    samples = np.broadcast_to(np.random.default_rng(0).normal(size=(1, 30, 2)), (150, 30, 2))
    direct = mb.mira(truths, samples, regions=10, normalize="none", groups=np.zeros(150))
    assert mira.score == direct.score
    assert mira.stderr == pytest.approx(direct.stderr, rel=1e-12)
    assert mira.stderr > 1.3 * np.std(direct.per_fiducial, ddof=1) / np.sqrt(150)


def test_estimate(tmp_path):
    cost = estimate(Toy(), CANDIDATES, Settings(**SMALL))
    assert set(cost.seconds) == {"correct", "biased", "oracle", "prior"}
    assert cost.total > 0
    mb.run(Toy(), CANDIDATES, store=tmp_path, **SMALL)
    disk = sum(e.size for e in Store(tmp_path).entries())
    assert 0.4 < cost.disk / disk < 2.5


COMMAND = [
    sys.executable, "-m", "mira_bench", "fiducials=2000", "samples=200", "metrics=[mira,energy]", "progress=false",
]  # fmt: skip


def start(folder, store):
    return subprocess.Popen(
        [*COMMAND, f"out={folder}", f"store={store}"], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def tables(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix in (".csv", ".md", ".tex", ".parquet")}


def test_kill_and_resume_for_real(tmp_path):
    r"""kill -9 in the middle, the same command again: the same tables, bit by bit, and no block made twice."""
    whole = start(tmp_path / "whole", tmp_path / "store_whole")
    assert whole.wait(timeout=300) == 0
    total = len(list(Store(tmp_path / "store_whole").entries()))

    store = tmp_path / "store"
    killed = start(tmp_path / "killed", store)
    deadline = time.monotonic() + 120
    while len(list(store.glob("*/*.block"))) < 40 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    finished = {e.path: (e.path.stat().st_mtime_ns, e.path.read_bytes()) for e in Store(store).entries()}
    assert 40 <= len(finished) < total
    assert not (tmp_path / "killed" / "ranking.csv").exists()

    resumed = start(tmp_path / "resumed", store)
    assert resumed.wait(timeout=300) == 0
    assert all((p.stat().st_mtime_ns, p.read_bytes()) == before for p, before in finished.items())
    assert tables(tmp_path / "resumed") == tables(tmp_path / "whole")
    assert len(tables(tmp_path / "whole")) == 5


def test_two_processes_on_one_store(tmp_path):
    both = [start(tmp_path / name, tmp_path / "store") for name in ("a", "b")]
    assert [process.wait(timeout=300) for process in both] == [0, 0]
    assert tables(tmp_path / "a") == tables(tmp_path / "b")
    assert all(Store(tmp_path / "store").get(e.spec) is not None for e in Store(tmp_path / "store").entries())


def test_the_figure_is_in_the_order_of_the_ranking_and_shows_who_failed():
    @dataclass(frozen=True)
    class Broken:
        version = 1

        def build(self, task, rng):
            raise RuntimeError("no luck")

    candidates = {"biased": ToyCandidate(bias=5.0), "broken": Broken(), "correct": ToyCandidate()}
    metrics = {"mira": mb.Mira(regions=10), "energy": mb.Energy()}
    axes = mb.run(Toy(), candidates, fiducials=100, samples=20, metrics=metrics).plot().axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["correct", "biased", "broken", "oracle", "prior"]
    assert [text.get_text() for text in axes.texts] == ["failed: RuntimeError: no luck"]
    assert axes.get_xlim()[0] > 0.5  # where no score is, nothing is shown
