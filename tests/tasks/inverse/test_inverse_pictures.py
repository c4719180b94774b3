r"""Pictures of problems: what is drawn is what was measured."""

import numpy as np
import pytest
from mira_bench.tasks.inverse import Closures, Mri, Scattering, Visibilities, black_holes, brains, cells
from mira_bench.tasks.inverse.pictures import draw, phantom_grid

import mira_bench as mb


def drawn(problem, make):
    rng = np.random.default_rng(0)
    y = make(1, rng, problem.size)
    x = problem.measure(y, rng)
    figure = draw(problem, y[0], x[0])
    figure.canvas.draw()
    return figure.axes, y[0], x[0]


def pixels(axes):
    return axes.images[0].get_array()


def test_mri():
    problem = Mri(coils=3)
    axes, y, x = drawn(problem, brains)
    np.testing.assert_allclose(pixels(axes[0]), np.hypot(*y), rtol=1e-6)
    assert np.array_equal(np.flatnonzero(pixels(axes[1]).all(axis=1)), problem.lines)
    assert np.ma.masked_invalid(pixels(axes[2])).count() == x[0, ..., 0].size
    assert [bool(panel.images) for panel in axes] == [True] * 7 + [False]  # three coils


def test_scattering():
    problem = Scattering()
    axes, _, x = drawn(problem, cells)
    received, sent = (line.get_xydata() for line in axes[0].lines)
    assert (len(received), len(sent)) == (60, 20)
    np.testing.assert_allclose(np.hypot(*received.T), problem.radius)
    np.testing.assert_allclose(pixels(axes[2]), x[..., 0], rtol=1e-6)


def test_visibilities():
    problem = Visibilities()
    axes, y, _ = drawn(problem, black_holes)
    coverage = problem.array.coverage()
    points = np.concatenate([np.asarray(part.get_offsets()) for part in axes[1].collections])
    np.testing.assert_allclose(points[: len(coverage)] * 1e9, np.stack([coverage.u, coverage.v], axis=1))
    np.testing.assert_allclose(points.sum(axis=0), 0, atol=1e-9)
    assert axes[1].get_xlim()[0] > axes[1].get_xlim()[1]  # east is left
    # The mean of an image from equal weights is somewhere on the bright side.
    assert np.corrcoef(pixels(axes[3]).ravel(), y.ravel())[0, 1] > 0.3


def test_closures():
    problem = Closures()
    axes, _, x = drawn(problem, black_holes)
    measured = [axes[k].lines[0].get_ydata() for k in (2, 3)]
    np.testing.assert_allclose(np.concatenate(measured), x[: problem.operator().measurements - 1], rtol=1e-6)


def test_other_layouts_are_refused():
    with pytest.raises(mb.UsageError, match=r"an image \(1, 32, 32\) and data \(3,\), where \(2, 32, 32\)"):
        draw(Mri(), np.zeros((1, 32, 32)), np.zeros(3))


def test_phantoms():
    assert len(phantom_grid(5).axes) == 15
