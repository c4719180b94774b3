r"""Products of 16 bits are tried out where a processor announces what may end the process."""

import dataclasses

import numpy as np
import pytest
from test_gradient_training import Regression

from mira_bench.inference import precision
from mira_bench.inference.gradient_training import train
from mira_bench.inference.precision import announces_tiles, runs_bfloat16

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


@pytest.fixture
def tiles(tmp_path, monkeypatch):
    described = tmp_path / "cpuinfo"
    described.write_text("flags : fpu amx_bf16 amx_tile amx_int8\n")
    monkeypatch.setattr(precision, "PROCESSOR", described)
    runs_bfloat16.cache_clear()
    yield described
    runs_bfloat16.cache_clear()


def test_announced_tiles_are_found(tiles):
    assert announces_tiles(tiles)
    tiles.write_text("flags : fpu avx512_bf16 amx_tiles_of_another_name\n")
    assert not announces_tiles(tiles)
    assert not announces_tiles(tiles.with_name("nothing"))


def test_what_is_not_announced_is_not_tried(tiles, monkeypatch):
    tiles.write_text("flags : fpu\n")
    monkeypatch.setattr(precision, "TRIAL", DIES)
    assert runs_bfloat16()


def test_only_a_signal_speaks_against_a_processor(tiles, monkeypatch):
    monkeypatch.setattr(precision, "TRIAL", "raise SystemExit(1)")
    assert runs_bfloat16()


def test_where_half_precision_ends_the_process_all_of_it_is_used(tiles, monkeypatch, caplog):
    monkeypatch.setattr(precision, "TRIAL", DIES)
    rng = np.random.default_rng(1)
    data = {"x": rng.normal(size=(64, 3)).astype(np.float32), "y": rng.normal(size=64).astype(np.float32)}
    whole = Regression()
    half = dataclasses.replace(whole, precision="bfloat16")
    found, expected = (train(one, data, np.random.default_rng(2)) for one in (half, whole))
    assert all(np.array_equal(found[key], expected[key]) for key in expected)
    assert caplog.text.count("cannot run it (signal 4): training in 32 bits") == 1
