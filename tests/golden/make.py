r"""Writes what `test_golden.py` compares with: the scores of small runs, and a small store.

    cd tests/golden && python make.py

A change that must not change a number is tested against what was written before it. After a change that is meant to
change numbers, this is run again, and the difference is what the commit is about.
"""

import shutil
import sys
from hashlib import sha256
from pathlib import Path

from mira_bench.cli.command import main

SMALL = ["fiducials=40", "samples=20", "seed=1", "progress=false"]
ALL = "metrics=[mira,published,calibration,sufficient,tarp,sbc,energy,c2st,mmd,wasserstein,sliced_wasserstein,pqmass]"
FEW = ["metric.calibration.replicates=49", "metric.mira.test=false"]  # null draws would be most of the store
RUNS = {
    "gaussian": ["task=gaussian", *SMALL, ALL],
    "conjugate": ["task=conjugate", *SMALL, "metrics=[mira,energy,hpd,evidence,lc2st]", "metric.lc2st.trials=2", *FEW],
    "correlated": ["task=correlated", *SMALL, "rank_by=mira", "normalize=pooled", "metrics=[mira,energy,sbc]", *FEW],
    "two_moons": ["task=two_moons", *SMALL, "candidates=[narrow]"],
    "lensing": ["task=lensing/small", "fiducials=2", *SMALL[1:], "views=[all,sorted]", "keep_samples=false"],
    "mine": [
        "task=mine",
        "task.file=sim.py",
        "candidates=[npe_mdn,mine.py:build]",
        "budget=200",
        "workers=1",
        *SMALL,
        *FEW,
    ],
}
STORED = ("conjugate", "correlated", "mine")
TRAINED = ("mine", "conjugate")  # the second by L-C2ST, a classifier in single precision
CHAINS = ("lensing",)


def processor() -> str:
    r"""Returns what decides how compiled code and linear algebra round: chains are others where it differs."""
    from llvmlite.binding import get_host_cpu_features, get_host_cpu_name

    features = ",".join(sorted(name for name, here in get_host_cpu_features().items() if here))
    return f"{get_host_cpu_name()} {sha256(features.encode()).hexdigest()[:16]}"


def run(name: str, out: Path, store: Path | None) -> int:
    r"""Runs one of the small runs, from this folder."""
    return main([*RUNS[name], f"out={out}", f"store={store if store is not None else 'null'}", "store.check=false"])


if __name__ == "__main__":
    here = Path(__file__).parent
    for name in sys.argv[1:] or RUNS:
        if run(name, here / "out", here / "store" if name in STORED else None) != 0:
            sys.exit(f"{name} failed")
        for table in ("summary", "ranking"):
            shutil.copy(here / "out" / f"{table}.csv", here / f"{name}-{table}.csv")
        shutil.rmtree(here / "out")
        if name in CHAINS:
            (here / "processor.txt").write_text(processor() + "\n")
