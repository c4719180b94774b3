import sys

import numpy as np
import pytest


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
