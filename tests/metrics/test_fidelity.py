r"""PSNR, structural similarity and misfit: their definitions, and what they do not know."""

import numpy as np
import pytest

import mira_bench as mb
from mira_bench.metrics import Fidelity
from mira_bench.views import Columns, Viewed


def images(rng, count=3):
    return rng.random((count, 2, 9, 11))


def test_psnr_is_its_definition(rng):
    truths = images(rng)
    samples = truths[:, None] + 0.1 * rng.normal(size=(3, 5, 2, 9, 11))
    errors = ((samples.mean(axis=1) - truths) ** 2).reshape(3, -1).mean(axis=1)
    peaks = np.ptp(truths.reshape(3, -1), axis=1)
    assert mb.fidelity(truths, samples).per_fiducial == pytest.approx(20 * np.log10(peaks / np.sqrt(errors)))


def test_similarity_is_its_definition(rng):
    truths = images(rng)
    samples = truths[:, None] + 0.2 * rng.normal(size=(3, 4, 2, 9, 11))
    found = mb.fidelity(truths, samples).ssim
    for truth, image, value in zip(truths, samples.mean(axis=1), found, strict=True):
        c1, c2 = (0.01 * np.ptp(truth)) ** 2, (0.03 * np.ptp(truth)) ** 2
        each = []
        for a, b in zip(truth, image, strict=True):
            for i in range(9 - 6):
                for j in range(11 - 6):
                    u, v = a[i : i + 7, j : j + 7].ravel(), b[i : i + 7, j : j + 7].ravel()
                    both = np.cov(u, v)
                    light = (2 * u.mean() * v.mean() + c1) / (u.mean() ** 2 + v.mean() ** 2 + c1)
                    each.append(light * (2 * both[0, 1] + c2) / (both[0, 0] + both[1, 1] + c2))
        assert value == pytest.approx(np.mean(each))


def test_the_truth_is_perfect_and_small_images_have_no_windows(rng):
    truths = images(rng)
    assert mb.fidelity(truths, truths[:, None]).ssim == pytest.approx(1.0)
    assert np.isinf(mb.fidelity(truths, truths[:, None]).per_fiducial).all()
    assert np.isnan(mb.fidelity(truths[..., :5], truths[:, None, ..., :5]).ssim).all()


def test_shapes_that_do_not_go_together_are_refused(rng):
    with pytest.raises(mb.UsageError, match="are needed"):
        mb.fidelity(images(rng), images(rng))


class Blurred:
    r"""An image of noise, seen with noise: the posterior is its half with half of the variance."""

    version = 1
    bounds = (-4.0, 4.0)

    def simulate(self, count, rng):
        y = rng.normal(size=(count, 8, 8))
        return mb.Fiducials(y=y, x=y + rng.normal(size=y.shape))

    def misfit(self, y, x):
        return np.square(y - x).mean(axis=(-2, -1))


class Sized:
    version = 1

    def __init__(self, width):
        self.width = width

    def describe(self):
        return {"width": self.width}

    def build(self, task, rng):
        return self

    def sample(self, x, count, rng):
        return x[:, None] / 2 + self.width * 0.5**0.5 * rng.normal(size=(len(x), count, 8, 8))


def test_the_exact_posterior_has_the_misfit_of_the_truth_and_not_the_best_psnr():
    result = mb.run(
        Blurred(), {"exact": Sized(1.0), "collapsed": Sized(0.1)}, fiducials=200, samples=20,
        metrics={"fidelity": Fidelity(), "energy": mb.Energy()}, name="blurred",
    )  # fmt: skip
    rows = result.summary.set_index(["candidate", "metric"])
    misfit = rows.loc[("exact", "fidelity.misfit")]
    assert abs(misfit.score - 1) < 4 * misfit.stderr
    assert misfit.expected == 1
    low = rows.loc[("collapsed", "fidelity.misfit")]  # E (x - x / 2)^2 = 1 / 2, and a hundredth of the variance
    assert abs(low.score - 0.505) < 4 * low.stderr
    assert rows.loc[("collapsed", "fidelity")].score > rows.loc[("exact", "fidelity")].score
    assert rows.loc[("collapsed", "energy")].score > rows.loc[("exact", "energy")].score


def test_a_view_is_no_image():
    metric = Viewed(Fidelity(), Columns([0, 1]))
    result = mb.run(Blurred(), {"exact": Sized(1.0)}, fiducials=4, samples=8, metrics={"seen": metric}, name="blurred")
    assert "no images" in result.summary.query("candidate == 'exact'").note.iloc[0]
