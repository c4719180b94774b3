r"""A change that must not change a number: small runs give what they gave before, and stored blocks are found again."""

import tarfile
from importlib import util
from pathlib import Path

import pandas as pd
import pytest

from mira_bench.runner import setup
from mira_bench.runner.store import Store

HERE = Path(__file__).parent / "golden"
_spec = util.spec_from_file_location("golden_make", HERE / "make.py")
make = util.module_from_spec(_spec)
_spec.loader.exec_module(make)

pytestmark = pytest.mark.usefixtures("plain_figures")  # numbers are compared


def without_chains(rows):
    r"""What another processor finds too: rounding decides where chains go, but not what comes before them.

    That is the truths, by the prior's scores, and the evidence, which tempering finds with the same random numbers.
    """
    if "metric" in rows:  # the summary
        return rows[(rows.candidate == "prior") | (rows.metric == "evidence")].reset_index(drop=True)
    return rows[["candidate", "role", "log_evidence"]].sort_values("candidate", ignore_index=True)


def compare(name, out):
    for table in ("summary", "ranking"):
        before, now = (pd.read_csv(path) for path in (HERE / f"{name}-{table}.csv", out / f"{table}.csv"))
        if name in make.CHAINS and make.processor() != (HERE / "processor.txt").read_text().strip():
            before, now = (without_chains(rows) for rows in (before, now))
        # Another processor may add in another order, and in single precision where a network is trained; what is meant
        # here is another number.
        rtol, atol = (1e-4, 1e-7) if name in make.TRAINED + make.CHAINS else (1e-7, 1e-12)
        pd.testing.assert_frame_equal(now[list(before)], before, rtol=rtol, atol=atol)  # a new column changes no number


@pytest.mark.parametrize("name", make.RUNS)
def test_runs_give_what_they_gave(name, tmp_path, monkeypatch):
    monkeypatch.chdir(HERE)
    assert make.run(name, tmp_path / "out", None) == 0
    compare(name, tmp_path / "out")


@pytest.mark.parametrize("name", make.STORED)
def test_blocks_that_were_stored_are_found(name, tmp_path, monkeypatch):
    monkeypatch.chdir(HERE)
    with tarfile.open(HERE / "store.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    versions = {}
    for entry in Store(tmp_path / "store").entries():
        versions |= entry.spec.get("versions", {})
    assert "numpy" in versions
    # The blocks were made with the libraries of that day.
    monkeypatch.setattr(setup, "_version", lambda package: versions[package])
    before = {entry.path for entry in Store(tmp_path / "store").entries()}
    assert make.run(name, tmp_path / "out", tmp_path / "store") == 0
    # Workers write too, so files are looked at.
    assert [entry.spec for entry in Store(tmp_path / "store").entries() if entry.path not in before] == []
    compare(name, tmp_path / "out")
