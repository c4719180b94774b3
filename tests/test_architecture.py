r"""Rooms with walls: an import never goes upwards, and nothing is imported in a circle."""

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import mira_bench as mb
from mira_bench.moved import MOVED, RENAMED, new_path, stable_name

PACKAGE = Path(mb.__file__).parent

# From the ground up. A room knows those below it.
FLOORS = (
    {"_version", "compiling", "durations", "errors", "memory", "moved", "writing"},
    {"arrays", "statistics", "streams", "trainer"},
    {"diagnostics", "layouts", "sharing"},
    {"ranks"},
    {"candidate", "fiducials"},
    {"metric", "task"},
    {"views", "metrics"},
    {"preprocessing"},
    {"adapters"},
    {"inference"},
    {"ranking"},
    {"report"},
    {"result"},
    {"runner"},
    {"config"},
    {"saved"},
    {"sweeps"},
    {"paper"},
    {"cli"},
    {"", "__main__"},  # the package itself
)
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}

# What is imported when it is used, in a function, although it is above.
UPWARDS = {
    ("task", "adapters"),  # Task.from_simulator
    ("adapters", "runner"),  # Files.score
    ("config", "sweeps"),  # a study is made of several configs
    ("report", "result"),
}


def name_of(path):
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py")) if "tasks" not in path.parts}


def room_of(module):
    return module.split(".")[1] if "." in module else ""


def imports(module, path):
    r"""Yields what a module imports of this package, and whether that is when it is imported itself."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]

    def visit(node, inner):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if isinstance(child, ast.ImportFrom) and child.level:
                base = package.split(".")[: len(package.split(".")) - child.level + 1]
                target = ".".join([*base, *([child.module] if child.module else [])])
                for alias in child.names:
                    full = f"{target}.{alias.name}"
                    yield full if full in MODULES else target, not inner
            yield from visit(child, inner or isinstance(child, ast.FunctionDef | ast.Lambda))

    yield from visit(ast.parse(path.read_text(encoding="utf-8")), False)


def test_every_room_has_a_floor():
    assert {room_of(module) for module in MODULES} == set(LEVEL) | {"tasks", "configs"} - {"tasks", "configs"}


@pytest.mark.parametrize("module", MODULES)
def test_no_import_goes_upwards(module):
    here = room_of(module)
    for target, at_once in imports(module, MODULES[module]):
        there = room_of(target)
        if there == here or LEVEL[there] < LEVEL[here]:
            continue
        assert not at_once, f"{module} imports {target}, which is above it"
        assert (here, there) in UPWARDS, f"{module} imports {target} in a function, and nobody knows of it"


def test_no_circle():
    graph = {module: {t for t, at_once in imports(module, path) if at_once} for module, path in MODULES.items()}
    done, open_ = set(), []

    def visit(module):
        assert module not in open_, f"a circle: {' -> '.join([*open_[open_.index(module) :], module])}"
        if module in done or module not in graph:
            return
        open_.append(module)
        for target in graph[module]:
            visit(target)
        open_.pop()
        done.add(module)

    for module in graph:
        visit(module)


def test_the_private_parts_of_hydra_are_used_in_one_place():
    users = [m for m, path in MODULES.items() if "hydra._internal" in path.read_text(encoding="utf-8")]
    assert users == ["mira_bench.sweeps.composing"]
    import hydra

    assert hydra.__version__.startswith("1.3."), "look whether hydra._internal is still what composing.py takes it for"


def test_numba_compiles_in_one_place():
    tasks = Path(mb.tasks.__file__).parent
    sources = {path.resolve() for folder in (PACKAGE, tasks) for path in folder.rglob("*.py")}
    users = [path.name for path in sources if "import njit" in path.read_text(encoding="utf-8")]
    assert users == ["compiling.py"]


def test_what_the_package_shows():
    assert set(dir(mb)) == set(mb.__all__)
    for name in mb.__all__:
        assert getattr(mb, name) is not None
    # No function hides a module of the same name.
    code = "import sys, mira_bench as mb; print([n for n in mb.__all__ if f'mira_bench.{n}' in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


HEAVY = {
    "caustics", "distributed", "hydra", "joblib", "matplotlib", "numba", "numpy", "omegaconf", "ot", "pandas", "sbi",
    "scipy", "scipy.spatial", "scipy.stats", "sklearn", "torch", "xarray",
}  # fmt: skip
TINY = ["fiducials=10", "metrics=[mira]", "store=null", "progress=false"]


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import mira_bench", set()),
        ("import mira_bench.cli; mira_bench.cli.main(['--help'])", {"omegaconf"}),
        ("import mira_bench.cli; mira_bench.cli.main(['list'])", {"omegaconf"}),
        ("import mira_bench as mb; mb.Fiducials; mb.Task; mb.UsageError", {"numpy"}),
        (
            "import numpy as np, mira_bench as mb; mb.mira(np.zeros((9, 2)), np.ones((9, 4, 2))).score",
            {"numpy", "numba", "scipy"},
        ),
        (
            f"import mira_bench.cli; mira_bench.cli.main({TINY})",
            {"hydra", "matplotlib", "numba", "numpy", "omegaconf", "pandas", "scipy"},
        ),
    ],
)
def test_a_fast_start(code, allowed, tmp_path):
    told = f"import sys; print('loaded', *(name for name in {sorted(HEAVY)} if name in sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{told}"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert set(done.stderr.splitlines()[-1].split()) - {"loaded"} <= allowed


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_old_names_lead_on(old, new):
    module, _, name = new.rpartition(".")
    assert hasattr(import_module(module), name)
    assert new_path(old) == new
    before = {there: here for here, there in MOVED.items()}
    home, _, called = old.rpartition(".")
    assert stable_name(module, name) == f"{before.get(home, home)}.{called}"


def test_users_find_what_had_another_name():
    inference = import_module("mira_bench.inference")
    assert inference.Convergence is inference.ChainDiagnosis
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        inference.Nothing  # noqa: B018
