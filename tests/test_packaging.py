r"""The package works from a checkout without install, and as a wheel from any folder."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RUN = [
    "-m", "mira_bench", "fiducials=20", "samples=8", "regions=4", "metric.c2st.trees=2", "progress=false", "out=here",
]  # fmt: skip


def call(arguments, folder, **environment):
    keep = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(arguments, cwd=folder, env=keep | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    r"""The tracked files and the new ones, as a fresh clone would have them."""
    folder = tmp_path_factory.mktemp("copy")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if source.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(source.read_bytes())
    return folder


def test_from_a_checkout_without_install(copy):
    # -S leaves site-packages out of the path; the libraries come back by PYTHONPATH, an editable install does not.
    libraries = os.pathsep.join(p for p in sys.path if p.endswith("site-packages"))
    call([sys.executable, "-S", *RUN], copy, PYTHONPATH=libraries)
    facts = json.loads((copy / "here" / "provenance.json").read_text())
    assert facts["git"] is None
    assert (copy / "here" / "ranking.csv").exists()


def test_as_a_wheel_from_elsewhere(copy, tmp_path):
    wheels = tmp_path / "wheels"
    call(
        [
            sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
            "--wheel-dir", str(wheels), str(copy),
        ],
        tmp_path,
    )  # fmt: skip
    (wheel,) = wheels.glob("*.whl")
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    (site,) = environment.rglob("site-packages")
    # The packages of this environment are visible to the new one, behind its own; this checkout is not among them.
    libraries = [p for p in sys.path if p.endswith("site-packages")]
    (site / "system.pth").write_text("\n".join(libraries))
    call(
        [
            sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps",
            "--ignore-installed", str(wheel),
        ],
        tmp_path,
    )  # fmt: skip
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    where = call([str(python), "-c", "import mira_bench; print(mira_bench.__file__)"], elsewhere)
    assert Path(where.strip()).is_relative_to(site)
    call([str(python), *RUN], elsewhere)
    assert (elsewhere / "here" / "ranking.csv").exists()
    script = python.parent / "mira-bench"
    assert "overconfident" in call([str(script), "list", "candidates"], elsewhere)
    cards = {p.relative_to(site).as_posix() for p in (site / "mira_bench" / "tasks").rglob("README.md")}
    assert cards == {f"mira_bench/{p.relative_to(copy).as_posix()}" for p in (copy / "tasks").rglob("README.md")}
