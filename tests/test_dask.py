r"""A Dask cluster gives the bits of a local run, also when it loses a worker on the way."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import dask
import pandas as pd
import pytest
from distributed import LocalCluster
from mira_bench.tasks.gaussian import Toy, ToyCandidate

import mira_bench as mb
from mira_bench.runner.engines import Engine

SETTINGS = {"fiducials": 250, "samples": 20, "metrics": {"mira": mb.Mira(regions=10), "energy": mb.Energy()}}

# Dask's own threads and sockets are ended by the system when a worker is killed.
pytestmark = pytest.mark.filterwarnings("default")


@dataclass(frozen=True)
class Lethal(ToyCandidate):
    r"""Kills the process that samples it, unless the file exists; with `once`, it then makes the file."""

    file: str = ""
    once: bool = True

    def sample(self, x, count, rng):
        if not Path(self.file).exists():
            if self.once:
                Path(self.file).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().sample(x, count, rng)


@pytest.fixture(scope="module")
def cluster():
    limits = {
        "distributed.scheduler.allowed-failures": 1,
        "distributed.nanny.pre-spawn-environ.OMP_NUM_THREADS": 1,
        "distributed.deploy.lost-worker-timeout": "1h",  # see Engine: workers that are killed often would not come back
    }
    with (
        dask.config.set(limits),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
    ):
        yield cluster


def same(a, b):
    pd.testing.assert_frame_equal(a.scores, b.scores, check_exact=True)
    pd.testing.assert_frame_equal(a.summary, b.summary, check_exact=True)
    pd.testing.assert_frame_equal(a.ranking, b.ranking, check_exact=True)


def test_a_killed_worker_changes_nothing(cluster, tmp_path):
    candidates = {"correct": ToyCandidate(), "lethal": Lethal(bias=5.0, file=str(tmp_path / "done"))}
    remote = mb.run(
        Toy(), candidates, backend="dask", address=cluster.scheduler_address, store=tmp_path / "store", **SETTINGS
    )
    assert (tmp_path / "done").exists()  # the worker was killed
    same(remote, mb.run(Toy(), candidates, **SETTINGS))
    # What the workers wrote serves a later run here.
    assert len(list((tmp_path / "store").rglob("*.block"))) == 3 + 4 * 3 * 2


def test_a_candidate_that_kills_every_worker_fails_alone(cluster, tmp_path):
    candidates = {"correct": ToyCandidate(), "lethal": Lethal(file=str(tmp_path / "never"), once=False)}
    settings = SETTINGS | {"controls": False}
    remote = mb.run(Toy(), candidates, backend="dask", address=cluster.scheduler_address, **settings)
    assert "its worker process died" in remote.failures["lethal"]
    alone = mb.run(Toy(), {"correct": ToyCandidate()}, **settings)
    pd.testing.assert_frame_equal(remote.scores, alone.scores, check_exact=True)


def test_a_cluster_that_lost_all_its_workers_ends_the_run(monkeypatch):
    monkeypatch.setattr("mira_bench.runner.engines.PATIENCE", 1)
    with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
        results = Engine(1, "dask", cluster.scheduler_address).map(abs, [(-n,) for n in range(10)])
        assert next(results) in range(10)
        cluster.scale(0)
        with pytest.raises(mb.UsageError, match="no workers for 1 s"):
            list(results)


def test_no_cluster_is_started_for_nothing(monkeypatch):
    monkeypatch.setattr(Engine, "_client", lambda self: pytest.fail("a cluster was started"))
    assert list(Engine(2, "dask").map(abs, [])) == []


def test_addresses_and_backends_that_cannot_be(monkeypatch):
    with pytest.raises(mb.UsageError, match="needs parallel"):
        Engine(address="tcp://127.0.0.1:1")
    with pytest.raises(mb.UsageError, match="backend='nonsense'"):
        list(Engine(2, "nonsense").map(abs, [(1,)]))
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), pytest.raises(mb.UsageError, match="no Dask"):
        list(Engine(1, "dask", "tcp://127.0.0.1:1").map(abs, [(1,)]))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(mb.UsageError, match="extra 'cluster'"):
        Engine(2, "dask")
