import sys

import numpy as np
import pandas as pd
import pytest
from hydra import compose, initialize_config_module
from hydra.utils import instantiate
from scipy import stats

import mira_bench as mb
from mira_bench.cli.command import main


@pytest.fixture
def parts():
    with initialize_config_module("mira_bench.configs", version_base="1.3"):
        cfg = compose("config", ["task=uninformative"])
        return instantiate(cfg.task.model), {name: instantiate(node) for name, node in cfg.task.candidates.items()}


def test_the_prior_is_seen_from_the_observation_only(parts, rng):
    task, candidates = parts
    metrics = {
        "random": mb.Mira(normalize="none"),
        "conditioned": mb.Mira(normalize="none", centers="x(0.05)"),
    }
    samples = 100
    table = mb.run(task, candidates, fiducials=1000, samples=samples, metrics=metrics).summary
    table = table.set_index(["candidate", "metric"])
    off = (table.score - table.expected) / table.stderr
    for name in ("exact", "oracle"):
        assert abs(off[name, "random"]) < 4
        assert abs(off[name, "conditioned"]) < 4
    assert abs(off["uninformative", "random"]) < 4
    assert off["uninformative", "conditioned"] < -4
    # The mass u of the prior in the ball, with J ~ Bin(S, u).
    y = rng.normal(size=10**6)
    center = y + 0.1 * rng.normal(size=y.size) + rng.uniform(-0.05, 0.05, size=y.size)
    radius = np.abs(y - center)
    u = stats.norm.cdf(center + radius) - stats.norm.cdf(center - radius)
    expected = 0.5 + (samples - 1) / (samples + 1) * (u * (1 - u)).mean()
    row = table.loc[("uninformative", "conditioned")]
    assert abs(row.score - expected) < 4 * row.stderr


def test_config_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["mira_bench"])
    tiny = ["fiducials=12", "samples=8", "regions=4", "progress=false", "metrics=[mira]"]
    assert main(["task=uninformative", *tiny, "out=here", "metric.mira.centers=x(0.05)", "normalize=none"]) == 0
    assert pd.read_csv("here/summary.csv").candidate.tolist() == ["exact", "uninformative", "oracle", "prior"]
