r"""What more workers bring and cost: efficiency on 1 and 2, the overhead of a unit of work, and of the store.

python benchmarks/scaling.py
"""

import tempfile
import time
from dataclasses import dataclass

import numpy as np
from mira_bench.tasks.gaussian import Toy, ToyCandidate

import mira_bench as mb
from mira_bench.engines import Engine
from mira_bench.store import Store

UNITS, SECONDS = 16, 0.5
METRICS = {"mira": mb.Mira(), "energy": mb.Energy()}


@dataclass(frozen=True)
class Slow(ToyCandidate):
    r"""A candidate whose block takes a known time of a core, as an expensive sampler does."""

    seconds: float = 0.0

    def sample(self, x, count, rng):
        end = time.process_time() + self.seconds
        while time.process_time() < end:
            pass
        return super().sample(x, count, rng)


def nothing(*_):
    return None


def clock(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def busy(engine):
    r"""Seconds of a run of UNITS blocks; a first block each warms the workers up."""
    candidates = {"slow": Slow(seconds=SECONDS)}
    settings = {"samples": 100, "metrics": METRICS, "controls": False}
    settings |= {"workers": engine.workers, "backend": engine.backend}
    block = getattr(Toy(), "block", 32)
    warm = clock(lambda: mb.run(Toy(), {"slow": Slow()}, fiducials=2 * block, **settings))
    return clock(lambda: mb.run(Toy(), candidates, fiducials=UNITS * block, **settings)), warm


def dispatch(engine, count=2000):
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
    engines = {"one process": Engine(1), "loky, 2": Engine(2), "dask, 2": Engine(2, "dask")}
    print(f"{UNITS} units of {SECONDS} s of a core; overhead: a unit that does nothing\n")
    print("| engine | run (s) | start (s) | speedup | efficiency | overhead per unit (ms) | share of a unit |")
    print("|---|---|---|---|---|---|---|")
    alone = None
    for name, engine in engines.items():
        seconds, warm = busy(engine)
        alone = alone or seconds
        # The local Dask cluster is started for each run; one at an address is there already.
        work = seconds - (warm if engine.backend == "dask" else 0)
        unit = dispatch(engine)
        print(
            f"| {name} | {seconds:.2f} | {warm:.2f} | {alone / work:.2f}x | {alone / work / engine.workers:.0%} "
            f"| {1e3 * unit:.2f} | {unit / SECONDS:.2%} |",
            flush=True,
        )
    put, get, size = store()
    print(f"\nstore: put {1e3 * put:.2f} ms, get {1e3 * get:.2f} ms, {size / 1e3:.1f} kB a record")


if __name__ == "__main__":
    main()
