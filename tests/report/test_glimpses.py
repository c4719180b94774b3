r"""What corner plots are drawn of: samples of the worst fiducials and of a typical one, few and as they were scored."""

import importlib
import json
from dataclasses import dataclass

import numpy as np
import pytest

import mira_bench as mb
from mira_bench.report.glimpses import FIDUCIALS, PARAMETERS, SAMPLES
from mira_bench.runner import again


@pytest.fixture(scope="module")
def given():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(40, 8))
    y = x + 0.5 * rng.normal(size=(40, 8))
    samples = {"good": x[:, None] + 0.5 * rng.normal(size=(40, 250, 8))}
    samples["off"] = x[:, None] + 0.5 * rng.normal(size=(40, 60, 8)) + [0, 0, 0, 0, 0, 0, 0.6, 0.6]
    return y, samples


def corners(folder):
    return json.loads((folder / "details.json").read_text())["corners"]


def test_the_worst_are_kept_as_they_were_scored(given, tmp_path):
    y, samples = given
    result = mb.score(y, samples)
    told = corners(result.save(tmp_path))
    bad = result.scores.query("metric == 'energy'").pivot(index="fiducial", columns="candidate", values="value")
    first = result.ranking["candidate"][0]
    chosen = list(told["fiducials"])
    assert len(chosen) == FIDUCIALS
    assert chosen[0] == str(bad[first].idxmax())
    assert str(bad["off"].idxmax()) in chosen
    assert told["fiducials"][chosen[-1]]["why"] == f"typical: the median of {first}"
    assert bad[first][int(chosen[-1])] == pytest.approx(bad[first].sort_values().iloc[len(bad) // 2])
    # Two of eight parameters are off, and they are among those that are shown.
    assert told["of"] == 8
    assert len(told["parameters"]) == PARAMETERS
    assert {"dim 6", "dim 7"} <= set(told["parameters"])
    for number, one in told["fiducials"].items():
        for j, parameter in enumerate(told["parameters"]):
            column = int(parameter.split()[1])
            assert one["truth"][j] == pytest.approx(y[int(number), column], rel=1e-3)
            assert len(one["samples"]["good"][j]) == SAMPLES
            assert len(one["samples"]["off"][j]) == 60
            rows = np.arange(SAMPLES) * 250 // SAMPLES
            kept = samples["good"][int(number), rows, column]
            assert np.allclose(one["samples"]["good"][j], kept, rtol=6e-4, atol=0)


def test_many_candidates_make_no_large_page(tmp_path):
    rng = np.random.default_rng(1)
    y = rng.normal(size=(20, 7))
    many = {f"candidate {i}": rng.normal(size=(20, 300, 7)) for i in range(30)}
    folder = mb.score(y, many, metrics=["mira", "energy"]).save(tmp_path)
    assert (folder / "report.html").stat().st_size < 3e6
    one = next(iter(corners(folder)["fiducials"].values()))
    assert {len(own[0]) for own in one["samples"].values()} == {60_000 // (30 * 6 * 6)}


def test_images_have_none(tmp_path, rng):
    y, samples = rng.normal(size=(12, 3, 3)), rng.normal(size=(12, 20, 3, 3))
    folder = mb.score(y, {"mine": samples}, metrics=["mira"]).save(tmp_path)
    assert corners(folder) == {}
    assert 'id="corner"' not in (folder / "report.html").read_text()


@dataclass(frozen=True)
class Line:
    names: tuple[str, ...] = ("slope", "level")

    def simulate(self, count, rng):
        y = rng.normal(size=(count, 2))
        return mb.Fiducials(y, y + 0.5 * rng.normal(size=(count, 2)))


@dataclass(frozen=True)
class Normal:
    width: float = 0.5
    seen: tuple = ()

    def build(self, task, rng):
        return self

    def sample(self, x, count, rng):
        return x[:, None] + self.width * rng.normal(size=(len(x), count, 2))


@pytest.mark.parametrize("keep", [False, True])
def test_a_run_has_them_whether_it_keeps_samples_or_not(keep, tmp_path):
    how = {"fiducials": 70, "samples": 40, "metrics": ["mira", "energy"], "store": tmp_path / "store"}
    result = mb.run(Line(), {"good": Normal(), "wide": Normal(1.0)}, keep_samples=keep, **how)
    told = corners(result.save(tmp_path / "run"))
    assert told["parameters"] == ["slope", "level"]
    bad = result.scores.query("metric == 'energy' and candidate == 'good'").set_index("fiducial")["value"]
    assert str(bad.idxmax()) in told["fiducials"]
    spread = [np.std(one["samples"][name]) for one in told["fiducials"].values() for name in ("good", "wide")]
    ratio = np.mean(spread[1::2]) / np.mean(spread[::2])
    assert ratio > 1.2  # they are not mixed up: widths 1 and 0.5, beside the distance of two means
    # The same from the store, where nothing is sampled anew.
    again_ = mb.run(Line(), {"good": Normal(), "wide": Normal(1.0)}, keep_samples=keep, **how)
    assert corners(again_.save(tmp_path / "again")) == told


def test_what_took_long_is_not_drawn_again(tmp_path, monkeypatch):
    monkeypatch.setattr(again, "QUICK", -1.0)
    how = {"fiducials": 40, "samples": 40, "metrics": ["mira", "energy"], "store": tmp_path / "store"}
    folder = mb.run(Line(), {"good": Normal()}, **how).save(tmp_path / "run")
    assert corners(folder) == {}
    assert corners(mb.run(Line(), {"good": Normal(0.6)}, keep_samples=True, **how).save(tmp_path / "kept"))["fiducials"]


@dataclass(frozen=True)
class Moody(Normal):
    def sample(self, x, count, rng):
        self.seen[0][0] += 1
        return super().sample(x, count, rng) + self.seen[0][0]


def test_samples_that_differ_from_those_that_were_scored_are_not_shown(tmp_path, caplog):
    how = {"fiducials": 20, "samples": 40, "metrics": ["mira"], "store": tmp_path / "store", "workers": 1}
    result = mb.run(Line(), {"good": Normal(), "moody": Moody(seen=([0],))}, **how)
    with caplog.at_level("INFO", logger="mira_bench"):
        told = corners(result.save(tmp_path / "run"))
    assert {name for one in told["fiducials"].values() for name in one["samples"]} == {"good"}
    assert "no corner plots of moody: UsageError: samples that were drawn again differ" in caplog.text


@pytest.mark.parametrize("how", ["score", "run"])
def test_scores_do_not_need_them(how, monkeypatch, tmp_path, rng, caplog):
    def broken(*_):
        raise RuntimeError("a mistake of ours")

    module = again if how == "run" else importlib.import_module("mira_bench.runner.score")
    monkeypatch.setattr(module, "glimpses", broken)
    if how == "run":
        result = mb.run(Line(), {"good": Normal()}, fiducials=20, samples=40, metrics=["mira"], store=None)
    else:
        result = mb.score(rng.normal(size=(20, 2)), {"good": rng.normal(size=(20, 40, 2))}, metrics=["mira"])
    assert not corners(result.save(tmp_path))
    assert "there are no corner plots: RuntimeError: a mistake of ours" in caplog.text
    assert len(result.ranking) > 0
