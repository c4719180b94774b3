r"""A sweep through a real Slurm, of one node, that the test starts and stops."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
SMALL = ["fiducials=120", "samples=20", "regions=10", "metrics=[mira,calibration,energy]", "progress=false"]
TOOLS = ("slurmctld", "slurmd", "munged", "sbatch")

CONFIG = """\
ClusterName=local
SlurmctldHost={host}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={port}
SlurmdPort={other_port}
NodeName={host} CPUs={cores} RealMemory={memory} State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

pytestmark = [
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in TOOLS), reason="Slurm (slurmctld, slurmd, munged) is not on the PATH"
    ),
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="Slurm's daemons need root"),
]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "Slurm did not come up"
        time.sleep(0.5)


def stop(pid_file):
    if pid_file.exists():
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + 20
        while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
            time.sleep(0.2)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    folder = tmp_path / "slurm"
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    host = socket.gethostname().split(".")[0]
    memory = int(0.85 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20)
    ports = {"port": free_port(), "other_port": free_port()}
    config = folder / "slurm.conf"
    config.write_text(CONFIG.format(host=host, folder=folder, cores=os.cpu_count(), memory=memory, **ports))
    monkeypatch.setenv("SLURM_CONF", str(config))
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed", "log-file": "log"}
    options = [f"--{option}={folder}/munge.{name}" for option, name in files.items()]
    try:
        # munged does not like folders that others could write to; those of pytest are ours alone.
        subprocess.run(["munged", "--force", *options], check=True)
        subprocess.run(["slurmctld", "-f", config], check=True)
        subprocess.run(["slurmd", "-f", config], check=True)
        until(lambda: "idle" in subprocess.run(["sinfo"], capture_output=True, text=True).stdout, 60)
        yield
    finally:
        for daemon in ("slurmd", "slurmctld", "munge"):
            stop(folder / f"{daemon}.pid")


def mira_bench(folder, *arguments):
    command = [sys.executable, "-m", "mira_bench", *arguments]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_a_sweep_through_slurm_is_the_sweep(slurm, tmp_path):
    sweep = ["-m", "task=gaussian", "candidates=[correct],[biased]", *SMALL, "store=null"]
    resources = ["partition=debug", "timeout_min=10", "mem_gb=1", "cpus_per_task=1"]
    launcher = ["hydra/launcher=slurm", *(f"hydra.launcher.{resource}" for resource in resources)]
    mira_bench(tmp_path, *sweep, *launcher, "sweep=slurm")
    assert list((tmp_path / "results" / "sweeps" / "slurm" / ".submitit").rglob("*_result.pkl"))  # it was Slurm
    mira_bench(tmp_path, *sweep, "sweep=here")
    tables = []
    for name in ("slurm", "here"):
        assert "2 jobs: 2 done" in mira_bench(tmp_path, "collect", f"results/sweeps/{name}")
        tables.append(pd.read_csv(tmp_path / "results" / "sweeps" / name / "leaderboard.csv"))
    assert tables[0].candidate.tolist()[:2] == ["correct", "biased"]
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    assert "2 of them before" in mira_bench(tmp_path, *sweep, *launcher, "sweep=slurm")
