import os
import time
from dataclasses import dataclass

import numpy as np
import pytest

from mira_bench.adapters.identity import describe
from mira_bench.errors import UsageError
from mira_bench.runner.store import Store

SPEC = {"kind": "record", "task_name": "t", "block": 3}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def only_file(store):
    (entry,) = store.entries()
    return entry.path


def test_round_trip(store, rng):
    arrays = {"a": rng.normal(size=(3, 4)), "n": np.array(7), "g": np.array(["x", "y"])}
    assert store.get(SPEC) is None
    store.put(SPEC, arrays)
    found = store.get(SPEC)
    assert found is not None
    assert all(np.array_equal(found[key], arrays[key]) for key in arrays)
    assert store.get(SPEC | {"block": 4}) is None
    assert SPEC in store


@pytest.mark.parametrize("harm", ["truncate", "flip", "empty", "header", "garbage"])
def test_damage_is_noticed(store, harm, caplog):
    store.put(SPEC, {"a": np.arange(1000)})
    path = only_file(store)
    data = bytearray(path.read_bytes())
    if harm == "flip":
        data[-500] ^= 1
    path.write_bytes(
        {"truncate": data[:-10], "flip": data, "empty": b"", "header": data[5:], "garbage": b"\x00\xff" * 50}[harm]
    )
    assert store.get(SPEC) is None
    assert "damaged" in caplog.text
    store.put(SPEC, {"a": np.arange(1000)})
    assert store.get(SPEC) is not None


def test_pickles_are_never_loaded(store):
    store.put(SPEC, {"a": np.array([{"evil": 1}], dtype=object)})
    assert store.get(SPEC) is None


def test_nothing_is_kept_without_a_folder():
    store = Store(None)
    store.put(SPEC, {"a": np.zeros(1)})
    assert store.get(SPEC) is None
    assert list(store.entries()) == []


def test_unwritable(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        Store(tmp_path / "file").put(SPEC, {"a": np.zeros(1)})


def test_prune(store):
    for block in range(4):
        store.put(SPEC | {"block": block}, {"a": np.zeros(10)})
    store.put(SPEC | {"kind": "samples"}, {"a": np.zeros(10)})
    store.put(SPEC | {"task_name": "other"}, {"a": np.zeros(10)})
    assert store.prune(older_than=3600)[0] == 0
    assert store.prune(kind="samples")[0] == 1
    assert store.prune(task="other")[0] == 1
    leftover = only_file_parent(store) / ".left.123.abc"
    leftover.write_text("half")
    old = time.time() - 2 * 86400
    os.utime(leftover, (old, old))
    count, size = store.prune()
    assert count == 4
    assert size > 0
    assert not leftover.exists()
    assert list(store.root.iterdir()) == []


def only_file_parent(store):
    return next(iter(store.entries())).path.parent


@dataclass(frozen=True)
class Thing:
    a: int = 1
    b: tuple = (1.5, "x")

    version = 3


def test_describe():
    described = describe(Thing())
    assert described["version"] == 3
    assert described["fields"] == {"a": 1, "b": [1.5, "x"]}
    assert described != describe(Thing(a=2))
    assert describe(np.arange(3)) != describe(np.arange(4))
