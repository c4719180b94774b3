r"""Machine code on disk is that of the source, also where functions of other files are compiled into a function."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mira_bench as mb

INNER = """
from numba.extending import overload
from mira_bench.compiling import compiled

CONSTANT = 1

@compiled()
def inlined(x):
    return x + 1

def chosen(x):
    return x

@overload(chosen)
def _choose(x):
    return lambda x: x + 1

OPTIONS = {"error_model": "numpy"}
"""
OUTER = """
import math
from mira_bench.compiling import compiled
from inner import CONSTANT, OPTIONS, chosen, inlined

@compiled()
def constant(x):
    return x + CONSTANT

@compiled()
def deep(x):
    return shallow(x)  # which comes later

@compiled()
def shallow(x):
    return math.floor(inlined(x))

@compiled()
def overloaded(x):
    return [chosen(y) for y in [x]][0]

@compiled(**OPTIONS)
def divided(x):
    return 1.0 / (x - 1)

def around(step):
    @compiled()
    def closed(x):
        return x + inlined(step)
    return closed

functions = constant, deep, overloaded, around(0), divided
for f in functions:
    try:
        print(f(1), end=" ")
    except ZeroDivisionError:
        print("error", end=" ")
print(sum(sum(f.stats.cache_hits.values()) for f in functions))
"""


def python(*words, folder, **environment):
    path = os.pathsep.join([str(folder), str(Path(mb.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": path, **environment}
    done = subprocess.run([sys.executable, *words], env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("writable", ["beside the source", "the user's cache", "nowhere"])
def test_a_change_in_a_file_that_is_inlined(tmp_path, writable):
    home = tmp_path / "home"
    folder = tmp_path / "code"
    folder.mkdir()
    if writable != "beside the source":
        (folder / "__pycache__").touch()  # not even root can make files in it
    if writable == "nowhere":
        home.touch()
    (folder / "inner.py").write_text(INNER)
    (folder / "outer.py").write_text(OUTER)

    def run():
        return python("-m", "outer", folder=folder, HOME=str(home), XDG_CACHE_HOME=str(home / "cache"))

    assert run() == [*["2", "2", "2", "2", "inf"], "0"]
    if writable == "nowhere":
        return
    assert run() == [*["2", "2", "2", "2", "inf"], "5"]
    assert bool(list(home.rglob("*.nbc"))) == (writable == "the user's cache")
    changed = INNER.replace("+ 1", "+ 7").replace("CONSTANT = 1", "CONSTANT = 7").replace('"numpy"', '"python"')
    (folder / "inner.py").write_text(changed)
    assert run() == [*["8", "8", "8", "8", "error"], "0"]


def test_the_kernel_follows_its_innermost_loops(tmp_path):
    root = Path(mb.__file__).parent
    copy = tmp_path / "mira_bench"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns("__pycache__", "tasks", "configs"))
    code = """
import numpy as np, mira_bench.ranks.kernel as kernel
rng = np.random.default_rng(0)
truths, samples, centers = rng.normal(size=(1, 2)), rng.normal(size=(1, 9, 2)), rng.random((1, 1, 2), np.float32)
closer, equal = np.zeros((2, 1, 1), np.int32)
low, inverse = np.zeros((1, 2)), np.ones((1, 2))
kernel._count_block(samples, truths, low, inverse, centers, (0, 0), closer, equal)
print(kernel.__file__, int(closer[0, 0]))
"""
    file, before = python("-c", code, folder=tmp_path)
    assert Path(file).is_relative_to(tmp_path)
    compiled = copy / "ranks" / "compiled.py"
    inside, outside = "np.int32(a > np.float32(0))", "np.int32(a < np.float32(0))"
    assert inside in compiled.read_text()
    compiled.write_text(compiled.read_text().replace(inside, outside))
    after = python("-c", code, folder=tmp_path)[1]
    assert int(before) + int(after) == 9
    assert before != after
