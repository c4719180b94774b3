r"""The task of MNIST on small real digits: who is a truth, who is a sample, and what the controls score."""

import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.mnist import Digits, Mnist, labels_of

import mira_bench as mb
from mira_bench.cli.command import main
from mira_bench.runner import cost
from mira_bench.runner.setup import Settings


@pytest.fixture(scope="module")
def task(digits_folder):
    return Mnist(folder=str(digits_folder), per_digit=60)


def rows(images):
    return {image.tobytes() for image in np.round(np.asarray(images) * 255).astype(np.uint8)}


def test_fiducials_are_balanced_and_fixed(task):
    block = task.simulate(task.block, np.random.default_rng(0))
    assert block.y.shape == (600, 28, 28)
    assert np.array_equal(block.group, np.tile(np.arange(10), 60))
    assert np.array_equal(labels_of(block.x), block.group)
    assert block.y.min() == 0
    assert block.y.max() == 1
    again = task.simulate(task.block, np.random.default_rng(1))  # the permutation follows the task's seed alone
    assert np.array_equal(block.y, again.y)
    other = Mnist(folder=task.folder, per_digit=60, seed=1).simulate(600, np.random.default_rng(0))
    assert not np.array_equal(block.y, other.y)


def test_truths_and_the_nulls_pool_are_disjoint_and_all_there_is(task):
    truths = task.simulate(task.block, np.random.default_rng(0))
    for digit in range(10):
        everything = task.images.test[task.images.test_labels == digit]
        mine = rows(truths.y[truths.group == digit])
        others = {image.tobytes() for image in task.pool(digit)}
        assert mine.isdisjoint(others)
        assert mine | others == {image.tobytes() for image in everything}
        assert len(task.pool(digit, "training")) == np.sum(task.training_labels == digit)


@pytest.mark.parametrize(("label", "step"), [("own", 0), ("wrong", 1)])
def test_controls_give_images_of_their_digit_without_repeats(task, label, step):
    drawn = Digits(label).build(task, np.random.default_rng(0)).sample(np.arange(10), 40, np.random.default_rng(1))
    for digit in range(10):
        mine = rows(drawn[digit])
        assert mine <= {image.tobytes() for image in task.pool((digit + step) % 10)}
        assert len(mine) == 40


def test_an_ignored_label_gives_all_digits(task):
    drawn = Digits("any").build(task, np.random.default_rng(0)).sample(np.arange(10), 90, np.random.default_rng(1))
    pools = [{image.tobytes() for image in task.pool(digit)} for digit in range(10)]
    counts = np.array([[len(rows(one) & pool) for pool in pools] for one in drawn])
    # Multinomial, 900 draws of ten kinds of about the same size; without replacement it varies less.
    sizes = np.array(list(map(len, pools)))
    expected = 900 * sizes / sizes.sum()
    assert np.all(np.abs(counts.sum(axis=0) - expected) < 4 * np.sqrt(expected))
    assert counts.sum() == 900


def test_a_candidate_is_asked_once_for_each_group(task):
    asked = []

    class Watched:
        version = 1

        def build(self, task, rng):
            return self

        def sample(self, x, count, rng):
            asked.append(np.asarray(x).copy())
            return np.broadcast_to(labels_of(x)[:, None, None, None] / 10.0, (len(x), count, 28, 28))

    seen = []

    class Look(mb.Metric):
        name = "look"

        def observe(self, block):
            seen.append(block.samples[:, :, 0])
            return {"nothing": np.zeros(1)}

        def reduce(self, records, scaling):
            return mb.Scores(score=0.0)

    mb.run(task, {"watched": Watched()}, fiducials=25, samples=7, metrics=[Look()], controls=False)
    assert [x.tolist() for x in asked] == [list(range(10))]
    assert np.array_equal(seen[0], np.repeat((np.arange(25) % 10)[:, None] / 10.0, 7, axis=1))


def test_more_fiducials_than_there_are_is_refused(task):
    with pytest.raises(mb.UsageError, match="fiducials=601: the task has 600 of them"):
        mb.run(task, {"real": Digits()}, fiducials=601, samples=5, metrics=["mira"])
    with pytest.raises(mb.UsageError, match=r"per_digit=300: the test set has \d+ images of the digit \d"):
        Mnist(folder=task.folder, per_digit=300).simulate(10, np.random.default_rng(0))
    result = mb.run(task, {"real": Digits()}, fiducials=20, samples=900, metrics=["mira"])
    assert "pool=training" in result.failures["real"]


def test_real_images_score_as_they_should(task):
    # Twenty permutations: every one exact in expectation, and none farther off than its own error says.
    z = []
    for seed in range(20):
        other = Mnist(folder=task.folder, per_digit=60, seed=seed)
        found = mb.run(other, {"real": Digits()}, fiducials=200, samples=40, seed=seed, metrics=["mira"]).standings[0]
        z.append((found.mira.score - found.mira.expected) / found.mira.stderr)
    z = np.array(z)
    assert abs(z.mean()) < 4 / np.sqrt(len(z))
    # The pool is finite, so that the error is a little smaller than it says; it must not be larger.
    assert z.std(ddof=1) < 1 + 4 / np.sqrt(2 * len(z))
    assert z.std(ddof=1) > 0.5


def test_labels_matter_to_the_energy_score_and_not_to_mira(task):
    controls = {"real": Digits(), "ignored": Digits("any"), "wrong": Digits("wrong")}
    found = mb.run(task, controls, fiducials=200, samples=40, metrics=["mira", "energy"])
    scores = {s.name: s for s in found.standings}
    energy = {name: s.energy for name, s in scores.items()}
    for better, worse in (("real", "ignored"), ("ignored", "wrong")):
        error = np.hypot(energy[better].stderr, energy[worse].stderr)
        assert energy[better].score < energy[worse].score - 4 * error
    assert all(s.role == "control" for s in found.standings)


def test_preprocessing_treats_truths_and_samples_alike(task):
    assert Mnist(preprocess="clip").preprocessing[0] == "clip"
    values = np.array([-0.2, 0.0, 0.4, 0.6, 1.0, 1.2])
    steps = task.steps
    assert np.array_equal(steps["raw"].points(values), values)
    assert np.array_equal(steps["clip"].points(values), [0, 0, 0.4, 0.6, 1, 1])
    assert np.allclose(steps["min_max"].points(values), (values + 0.2) / 1.4)
    assert np.array_equal(steps["binarize"].points(values), [0, 0, 0, 1, 1, 1])
    # A step is no part of the task's identity: samples are those of the task, whatever is done to them.
    from mira_bench.adapters.identity import describe

    assert describe(task) == describe(Mnist(folder=task.folder, per_digit=60, preprocess="clip"))
    assert describe(task) != describe(Mnist(folder=task.folder, per_digit=59))
    assert describe(task) != describe(Mnist(per_digit=60))  # other images
    with pytest.raises(mb.UsageError, match="preprocess='gray' is not one of raw, clip, min_max, binarize"):
        Mnist(preprocess="gray")


def test_a_step_gives_what_its_view_gives(task, tmp_path):
    class Loud:
        r"""Real images with noise, that leave the range of the pixels."""

        version = 1

        def build(self, task, rng):
            real = Digits().build(task, rng)

            class Noisy:
                def sample(self, x, count, rng):
                    found = real.sample(x, count, rng)
                    return found + rng.normal(0, 0.1, found.shape).astype(np.float32)

            return Noisy()

    def scores(step, views):
        from mira_bench.views import with_views

        one = Mnist(folder=task.folder, per_digit=60, preprocess=step)
        metrics = with_views({"mira": mb.Mira(), "energy": mb.Energy()}, views, one)
        found = mb.run(
            one, {"loud": Loud()}, fiducials=100, samples=30, metrics=metrics, store=tmp_path, controls=False
        )
        return found

    together = scores("raw", ["all", "clip", "min_max", "binarize", "grayness"])
    table = together.summary.set_index(["metric", "view"])
    for step in ("raw", "clip", "min_max", "binarize"):
        alone = scores(step, ["all"])
        view = "all" if step == "raw" else step
        for metric in ("mira", "energy"):
            row = alone.summary.set_index("metric").loc[metric]
            assert row.score == table.score[metric, view]
            assert f"preprocess={step}" in row.note
        assert set(alone.ranking.preprocess) == {step}
        assert f"truths and samples are scored after preprocess={step}" in alone.notices
    assert len({round(s, 6) for s in table.score["mira"]}) == 5


@pytest.mark.usefixtures("plain_figures")
def test_the_command_line(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["mira_bench"])
    words = [f"task.model.folder={task.folder}", "samples=10", "fiducials=30", "progress=false", "workers=1"]
    words += ["candidates=[real,label_ignored,wrong_label]"]  # the others are trained
    assert main(["task=mnist", *words, "views=[all,clip]", "out=here", "metrics=[mira,energy]"]) == 0
    table = pd.read_csv("here/summary.csv")
    assert table.candidate.unique().tolist() == ["real", "label_ignored", "wrong_label"]
    assert set(table.view) == {"all", "clip"}
    assert table.note.str.contains("preprocess=raw").all()
    assert (tmp_path / "here" / "figures" / "digits.png").is_file()
    assert main(["task=mnist", *words, "task.model.preprocess=grey", "out=there"]) == 2


def test_the_cost_of_large_sets_is_told_by_a_few_samples(task, monkeypatch):
    asked, told = [], []

    @dataclass(frozen=True)
    class Slow:
        version = 1

        def build(self, task, rng):
            return self

        def sample(self, x, count, rng):
            asked.append((len(x), count))
            return np.zeros((len(x), count, 28, 28), np.float32)

    monkeypatch.setattr(cost, "PATIENCE", 0.0)
    settings = Settings(fiducials=600, samples=40, metrics=["mira"], controls=False)
    found = cost.estimate(task, {"slow": Slow()}, settings, told.append)
    # One image of one label at a time, and never a whole set.
    assert asked == [(1, 1), (1, 1), (1, 1 + cost.PROBE)]
    assert found.seconds["slow"] > 0
    assert any(line.startswith("timing slow: a few samples, for a block would take") for line in told)
