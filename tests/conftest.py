import gc
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy: the cores are busy with other tests

import numpy as np
import pytest


def pytest_collection_finish():
    gc.freeze()  # what was imported stays: to look through it again and again takes longer than some tests


@pytest.fixture
def rng():
    return np.random.default_rng(20261116)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    r"""A folder of its own to work in, and a command line that knows nothing of earlier ones."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["mira_bench"])
    yield tmp_path
    if "hydra" in sys.modules:
        from hydra.core.global_hydra import GlobalHydra

        GlobalHydra.instance().clear()


@pytest.fixture
def plain_figures():
    r"""Figures are made but not drawn, and saved as an empty one: for tests that look at all the rest of a folder."""
    from matplotlib.figure import Figure

    draw = Figure.savefig
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda _, *words, **keys: draw(Figure((0.1, 0.1)), *words, **keys))
        yield patch


@pytest.fixture(scope="session")
def digits_folder(tmp_path_factory):
    r"""A folder of small real digits in the format of MNIST, for tests that have neither MNIST nor a network."""
    from standin_digits import write_standin

    return write_standin(tmp_path_factory.mktemp("digits"))


@pytest.fixture(scope="session")
def few_digits_folder(tmp_path_factory):
    r"""The same with few training images, for trainings of many epochs."""
    from standin_digits import write_standin

    return write_standin(tmp_path_factory.mktemp("few_digits"), training=90)


@pytest.fixture
def fresh_and_cached(tmp_path):
    r"""Runs code in a process that compiles its kernels, and in one that finds them: both print the same."""

    def run(code):
        words, root = [sys.executable, "-c", code], Path(__file__).parents[1]
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        fresh, cached = (
            subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True, check=True).stdout
            for _ in range(2)
        )
        assert fresh == cached
        return fresh

    return run
