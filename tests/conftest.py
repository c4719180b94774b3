import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(20261116)


@pytest.fixture
def plain_figures():
    r"""Figures are made but not drawn, and saved as an empty one: for tests that look at all the rest of a folder."""
    from matplotlib.figure import Figure

    draw = Figure.savefig
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda _, *words, **keys: draw(Figure((0.1, 0.1)), *words, **keys))
        yield patch
