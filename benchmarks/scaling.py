r"""What more workers bring and cost: efficiency on 1 and 2, the overhead of a unit of work, and of the store.

python benchmarks/scaling.py
"""

import os
import tempfile
import time
from dataclasses import dataclass

import numpy as np
from distributed import LocalCluster
from mira_bench.tasks.gaussian import Toy, ToyCandidate

import mira_bench as mb
from mira_bench.runner.engines import Engine
from mira_bench.runner.store import Store

UNITS, SECONDS = 16, 0.5
METRICS = {"mira": mb.Mira(), "energy": mb.Energy()}


@dataclass(frozen=True)
class Slow(ToyCandidate):
    r"""A candidate whose block takes a known time: of a core, as a sampler does, or of waiting, on any busy machine."""

    seconds: float = 0.0
    waits: bool = False

    def sample(self, x, count, rng):
        end = time.process_time() + self.seconds
        while not self.waits and time.process_time() < end:
            pass
        time.sleep(self.seconds if self.waits else 0)
        return super().sample(x, count, rng)


def nothing(*_):
    return None


def clock(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def timed(engine, waits):
    r"""Seconds of a run of UNITS blocks, after one of two blocks that take no time, which warms the workers up."""
    candidates = {"slow": Slow(seconds=SECONDS, waits=waits)}
    settings = {"samples": 100, "metrics": METRICS, "controls": False}
    settings |= {"workers": engine.workers, "backend": engine.backend, "address": engine.address}
    block = getattr(Toy(), "block", 32)
    mb.run(Toy(), {"slow": Slow()}, fiducials=2 * block, **settings)
    return clock(lambda: mb.run(Toy(), candidates, fiducials=UNITS * block, **settings))


def dispatch(engine, count=1000):
    r"""Seconds per unit that does nothing, of the size of a unit of the toy."""
    load = np.zeros((32, 2))
    list(engine.map(nothing, [(load,)] * 8))
    start = clock(lambda: list(engine.map(nothing, [(load,)] * 8)))
    return max(0.0, clock(lambda: list(engine.map(nothing, [(load,)] * count))) - start) / (count - 8)


def store(count=200):
    record = {"ranks": np.zeros((128, 100), np.int32), "values": np.zeros(128)}
    with tempfile.TemporaryDirectory() as folder:
        kept = Store(folder)
        put = clock(lambda: [kept.put({"kind": "record", "block": i}, record) for i in range(count)]) / count
        get = clock(lambda: [kept.get({"kind": "record", "block": i}) for i in range(count)]) / count
        size = sum(entry.size for entry in kept.entries()) / count
    return put, get, size


def main():
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        dask = Engine(2, "dask", cluster.scheduler_address)
        compare({"one process": Engine(1), "loky, 2": Engine(2), "dask, 2": dask})
    put, get, size = store()
    print(f"\nstore: put {1e3 * put:.2f} ms, get {1e3 * get:.2f} ms, {size / 1e3:.1f} kB a record")


def compare(engines):
    print(f"{UNITS} units of {SECONDS} s; load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print("| units | engine | run (s) | speedup | efficiency |")
    print("|---|---|---|---|---|")
    for kind, waits in (("wait", True), ("use a core", False)):
        alone = None
        for name, engine in engines.items():
            seconds = timed(engine, waits)
            alone = alone or seconds
            ratio = alone / seconds
            print(f"| {kind} | {name} | {seconds:.2f} | {ratio:.2f}x | {ratio / engine.workers:.0%} |", flush=True)
    print("\n| engine | overhead per unit (ms) | units a second |")
    print("|---|---|---|")
    for name, engine in engines.items():
        unit = dispatch(engine)
        print(f"| {name} | {1e3 * unit:.3f} | {1 / unit:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
