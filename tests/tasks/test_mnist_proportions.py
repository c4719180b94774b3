r"""Mixtures of digits: the law of truths and samples, on small real digits."""

import numpy as np
import pytest
from mira_bench.tasks.mnist import DigitProportions, ProportionsModel

import mira_bench as mb


@pytest.fixture(scope="module")
def task(digits_folder):
    return DigitProportions(folder=str(digits_folder))


def shares(task, drawn):
    r"""Which share of images without noise is of each digit, by what they are."""
    from mira_bench.tasks.mnist import load_images

    images = load_images(task.folder)
    known = [{image.tobytes() for image in images.training[images.training_labels == d]} for d in task.digits]
    found = [image.tobytes() for image in np.round(drawn.reshape(-1, 28, 28) * 255).astype(np.uint8)]
    return np.array([np.mean([one in pool for one in found]) for pool in known])


def test_classes_follow_the_proportions(task, rng):
    x = np.array([[0.7, 0.2, 0.1]])
    for model, expected in (
        (ProportionsModel(noise=0.0), x[0]),
        (ProportionsModel(second=0.5, noise=0.0), np.array([0.7, 0.1, 0.1]) / 0.9),
        (ProportionsModel(ignore=True, noise=0.0), np.full(3, 1 / 3)),
    ):
        found = shares(task, model.build(task, rng).sample(x, 3000, rng))
        assert np.all(np.abs(found - expected) < 4 * np.sqrt(expected * (1 - expected) / 3000))


def test_noise_is_clipped(task, rng):
    x = np.array([[1.0, 0.0, 0.0]])
    drawn = task.draw(x, 2000, 0.1, rng)
    assert drawn.min() == 0
    assert drawn.max() <= 1
    corner = drawn[0, :, 0, 0]  # always black: half of the noise is cut, the rest is half normal
    assert abs(np.mean(corner == 0) - 0.5) < 4 * 0.5 / np.sqrt(2000)
    mean, square = 0.1 / np.sqrt(2 * np.pi), 0.1**2 / 2
    assert abs(corner.mean() - mean) < 4 * np.sqrt((square - mean**2) / 2000)


def test_the_models_are_told_apart(task):
    models = {
        "a": ProportionsModel(),
        "b": ProportionsModel(second=0.8, noise=0.09),
        "c": ProportionsModel(ignore=True, noise=0.31),
    }
    metrics = {"mira": mb.Mira(), "sbc": mb.PooledSbc(20), "swd": mb.SlicedDistances(10)}
    found = mb.run(task, models, fiducials=150, samples=20, metrics=metrics)
    table = found.summary.pivot(index="candidate", columns="metric", values="score")
    errors = found.summary.pivot(index="candidate", columns="metric", values="stderr")["mira"]
    expected = 41 / 63
    assert abs(table.mira["a"] - expected) < 4 * errors["a"]
    assert table.mira["b"] < expected - 4 * errors["b"]
    assert table.mira["c"] < table.mira["b"] - 4 * errors["b"]
    assert table.swd["c"] > 1.63 * np.sqrt(2 / 150)  # even if the directions of a fiducial were all the same
    assert np.isfinite(table.loc["oracle", "mira"])


def test_what_makes_no_sense_is_refused():
    for wrong in ({"digits": [3]}, {"digits": [1, 12]}, {"noise": -1.0}, {"concentration": 0.0}):
        with pytest.raises(mb.UsageError, match="are needed"):
            DigitProportions(**wrong)
