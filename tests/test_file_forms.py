r"""Files as people have them: tables without labels, other names, chains, and candidates that cannot be read."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from file_cases import METRICS, NAMES, L, S, long_form, refused, same, score_files

import mira_bench as mb
from mira_bench.cli import main
from mira_bench.memory import available_memory, left_in_groups, release

pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.fixture
def arrays(rng):
    x = rng.normal(size=(L, 3))
    return x + rng.normal(size=(L, 3)), x[:, None] + rng.normal(size=(L, S, 3))


def test_compressed_tables_and_truths_without_labels(arrays):
    y, s = arrays
    known, table = long_form(y, s)
    reference = mb.score(y, {"npe": s}, metrics=METRICS)
    known.to_csv("y.csv.gz", index=False)
    table.to_csv("s.csv.gz", index=False)
    result = score_files("y.csv.gz", npe="s.csv.gz")
    same(result, reference)
    assert result.names == NAMES
    known[NAMES].to_csv("plain.csv", index=False)
    np.save("s.npy", s)
    same(score_files("plain.csv", npe="s.csv.gz"), reference)
    same(score_files("plain.csv", npe="s.npy"), reference)
    # What counts the rows is no parameter, or not beyond doubt.
    known.rename(columns={"fiducial": "galaxy"}).to_csv("galaxy.csv", index=False)
    refused(["galaxy.csv", "'galaxy'", "--fiducial galaxy"], score_files, "galaxy.csv", npe="s.csv.gz")
    refused(["s.csv.gz", "'galaxy'"], score_files, "galaxy.csv", npe="s.csv.gz", fiducial="galaxy")
    table.rename(columns={"fiducial": "galaxy"}).to_csv("g.csv.gz", index=False)
    same(score_files("galaxy.csv", npe="g.csv.gz", fiducial="galaxy"), reference)
    # Samples do not do without labels: which rows are a set would be a guess.
    table.drop(columns="fiducial").to_csv("nobody.csv", index=False)
    refused(["nobody.csv", "--fiducial"], score_files, "plain.csv", npe="nobody.csv")


def test_names_rename(arrays):
    y, s = arrays
    known, table = long_form(y, s)
    known.to_csv("y.csv", index=False)
    table.rename(columns={"Om": "omega_m"}).to_csv("s.csv", index=False)
    refused(["s.csv", "omega_m"], score_files, "y.csv", npe="s.csv")
    names = ["s8", "Om=omega_m"]
    result = score_files("y.csv", npe="s.csv", names=names)
    same(result, mb.score(y[:, [1, 0]], {"npe": s[:, :, [1, 0]]}, metrics=METRICS))
    assert result.names == ["s8", "Om"]
    bounds = pd.DataFrame({"name": ["omega_m", "h", "s8"], "low": [-9.0, -8.0, -7.0], "high": [9.0, 8.0, 7.0]})
    bounds.to_csv("box.csv", index=False)
    boxed = score_files("y.csv", npe="s.csv", names=names, bounds="box.csv")
    same(boxed, mb.score(y[:, [1, 0]], {"npe": s[:, :, [1, 0]]}, metrics=METRICS, bounds=([-7, -9], [7, 9])))
    refused(["s.csv", "'Om' or 'om'"], score_files, "y.csv", npe="s.csv", names=["Om=om"])
    table.assign(omega_m=0.0).to_csv("both.csv", index=False)
    refused(["both.csv", "both Om and omega_m"], score_files, "y.csv", npe="both.csv", names=names)
    np.save("y.npy", y)
    np.save("s.npy", s)
    assert score_files("y.npy", npe="s.npy", names=["a=Om", "b", "c"]).names == ["a", "b", "c"]


def test_chains_have_their_rhat(rng):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    from mira_bench.inference import rhat

    y = rng.normal(size=(L, 2))
    chains = y + rng.normal(size=(4, 100, L, 2))  # chain, draw, fiducial, parameter
    chains[2, :, 7, 1] += 5.0
    data = xarray.Dataset({name: (("chain", "draw", "fiducial"), chains[..., i]) for i, name in enumerate("ab")})
    data.to_netcdf("chains.nc", group="posterior", engine="h5netcdf")
    np.save("truths.npy", y)
    result = score_files(mcmc="chains.nc", names=["a", "b"])
    expected = [rhat(chains[:, :, l]).max() for l in range(L)]
    assert np.array_equal(result.standings[0].convergence.values["rhat"], expected)
    assert result.ranking.rhat[0] == max(expected) > 1.5
    assert result.ranking.not_converged[0] == 1
    assert any("1 of 40 posteriors miss R-hat 1.05: fiducials 7" in warning for warning in result.warnings)
    # Arrays may be anything, and have none.
    np.save("s.npy", chains.transpose(2, 0, 1, 3).reshape(L, 400, 2))
    both = score_files(mcmc="chains.nc", npe="s.npy", names=["a", "b"], thin=100)
    assert np.array_equal(both.standings[0].convergence.values["rhat"], expected)
    assert both.standings[1].convergence is None
    # Three draws are no chain.
    data.isel(draw=slice(3)).to_netcdf("short.nc", group="posterior", engine="h5netcdf")
    assert score_files(mcmc="short.nc", names=["a", "b"]).standings[0].convergence is None


def test_directories_and_empty_files_are_named(arrays):
    np.save("truths.npy", arrays[0])
    Path("folder.npy").mkdir()
    Path("folder").mkdir()
    for name in ("folder", "folder.npy"):
        refused([name, "is a directory"], score_files, npe=name)
        refused([name, "is a directory"], score_files, name, npe="s.npy")
    for suffix in ("npy", "npz", "csv", "csv.gz", "parquet", "pt", "safetensors", "h5", "nc"):
        Path(f"empty.{suffix}").write_bytes(b"")
        refused([f"empty.{suffix} is an empty file"], score_files, npe=f"empty.{suffix}")
    Path("junk.csv.gz").write_bytes(gzip.compress(b"")[:8])
    refused(["junk.csv.gz", "cannot be read"], score_files, npe="junk.csv.gz")


def test_others_are_scored_without_what_cannot_be_read(arrays, capsys):
    h5py = pytest.importorskip("h5py")
    y, s = arrays
    np.save("truths.npy", y)
    np.save("s.npy", s)
    broken = s.copy()
    broken[31, 5, 1] = np.nan
    np.save("nan.npy", broken)
    np.save("short.npy", s[:-1])
    with h5py.File("torn.h5", "w") as file:
        file.create_dataset("s", data=s, chunks=(4, S, 3), compression="gzip", compression_opts=1)
        place = file["s"].id.get_chunk_info(5)
    content = bytearray(Path("torn.h5").read_bytes())
    content[place.byte_offset : place.byte_offset + place.size] = bytes(place.size)
    Path("torn.h5").write_bytes(content)
    files = {"torn": "torn.h5", "gone": "gone.npy", "npe": "s.npy", "holes": "nan.npy", "short": "short.npy"}
    result = score_files(**files)
    assert [one.name for one in result.standings] == list(files)
    assert result.failures.keys() == files.keys() - {"npe"}
    for name, words in {"torn": "torn.h5", "gone": "no file", "holes": "fiducial 31, sample 5", "short": "39"}.items():
        assert words in result.failures[name]
    assert result.ranking.candidate[0] == "npe"
    alone = score_files(npe="s.npy")
    pd.testing.assert_frame_equal(
        result.summary.query("candidate == 'npe'").reset_index(drop=True), alone.summary, check_exact=True
    )
    words = [f"{name}={file}" for name, file in files.items()]
    assert main(["score", "truths.npy", *words, "--metrics", "mira", "--out", "out"]) == 1
    assert "gone failed: gone.npy: there is no file gone.npy" in capsys.readouterr().err
    assert set(pd.read_csv("out/ranking.csv").candidate) == files.keys()
    assert main(["score", "truths.npy", "gone=gone.npy", "holes=nan.npy", "--metrics", "mira", "--out", "none"]) == 2
    assert not Path("none").exists()


def test_bounds_that_leave_truths_outside_warn(arrays, capsys):
    y, s = arrays
    np.save("truths.npy", y)
    np.save("s.npy", s)
    outside = int((np.abs(y) > 1).any(axis=1).sum())
    result = score_files(npe="s.npy", bounds=[-1.0, 1.0])
    assert [w for w in result.warnings if f"{outside} of {L} truths are outside of the bounds" in w]
    assert not score_files(npe="s.npy", bounds=[-9.0, 9.0]).warnings
    assert main(["score", "truths.npy", "npe=s.npy", "--bounds", "-1,1", "--metrics", "mira"]) == 0
    assert "truths are outside of the bounds" in capsys.readouterr().err


def test_one_set_for_all_from_files(rng):
    torch, h5py = pytest.importorskip("torch"), pytest.importorskip("h5py")
    y, one = rng.normal(size=(L, 2)), rng.normal(size=(1, 200, 2))
    reference = mb.score(y, {"prior": one}, metrics=METRICS)
    np.save("truths.npy", y)
    np.save("one.npy", one)
    np.savez("one.npz", one)
    torch.save(torch.tensor(one), "one.pt")
    with h5py.File("one.h5", "w") as file:
        file["s"] = one
    for source in ("one.npy", "one.npz", "one.pt", "one.h5"):
        same(score_files(prior=source), reference)
    np.save("turned.npy", one.swapaxes(0, 1))
    same(score_files(prior="turned.npy", layout="SLd"), reference)
    assert "fiducials share a sample set" in reference.summary.set_index("metric").note["sbc"]


def test_samples_are_thinned_to_a_number(arrays):
    y, s = arrays
    np.save("truths.npy", y)
    np.save("s.npy", s)
    np.save("few.npy", s[:, :7])
    picks = np.arange(10) * S // 10
    same(
        score_files(many="s.npy", few="few.npy", thin=10),
        mb.score(y, {"many": s[:, picks], "few": s[:, :7]}, metrics=METRICS),
    )
    refused("thin=-3", mb.score, y, {"npe": s}, thin=-3)


LIMITED = """
import resource, numpy as np, mira_bench as mb
mb.score(np.zeros((3, 1)) + np.arange(3)[:, None], {"a": np.random.default_rng(0).normal(size=(3, 9, 1))}, threads=1)
y = np.random.default_rng(0).normal(size=(4, 200))
s = np.lib.format.open_memmap("s.npy", mode="w+", dtype=np.float32, shape=(4, 2_000_000, 200))  # a file of holes
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**31, resource.RLIM_INFINITY))
try:
    mb.score(y, {"a": s}, threads=1)
except mb.UsageError as error:
    print(error)
"""


def test_what_does_not_fit_into_memory_is_said_before_it_starts():
    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc here")
    assert available_memory() > 2**20
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"2,000,000 samples of 200 numbers.*GB of memory are left.*thin=10000", done.stdout)


def test_a_table_needs_a_header(tmp_path):
    path = tmp_path / "y.csv"
    np.savetxt(path, np.arange(12.0).reshape(4, 3), delimiter=",")
    refused(["y.csv", "header"], score_files, str(path), npe="s.npy")


def test_a_job_has_the_memory_of_its_group(tmp_path):
    def group(path, **numbers):
        (tmp_path / path).mkdir(parents=True, exist_ok=True)
        for name, text in numbers.items():
            (tmp_path / path / name.replace("_", ".", 1)).write_text(str(text))

    # Pages of a file that was read count as used, and are given back when they are needed.
    group(
        "slice/job",
        memory_max=8000,
        memory_current=7900,
        memory_stat="anon 1000\ninactive_file 6000\nactive_file 900\n",
    )
    group("slice", memory_max="max", memory_current=20000)
    assert left_in_groups("0::/slice/job\n", tmp_path) == [6100]
    group("slice", memory_max=9000, memory_current=8950)
    assert left_in_groups("0::/slice/job\n", tmp_path) == [6100, 50]
    assert left_in_groups("3:cpu:/slice/job\n0::/other\n", tmp_path) == []
    group("memory/box", memory_limit_in_bytes=500, memory_usage_in_bytes=400, memory_stat="total_inactive_file 30\n")
    assert left_in_groups("4:memory:/box\n", tmp_path) == [130]


LARGE = """
import re, sys
import mira_bench.runner.sample_sets as sets
from mira_bench.cli import main
sets.available_memory = lambda: 10**9
code = main(["score", "y.npy", "a=s.npy", "--out", "out", "--metrics", "mira", *sys.argv[1:]])
# Not ru_maxrss, which begins with that of the process that started this one.
print("peak", 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]), code)
"""


def test_a_file_of_three_gigabytes_in_one_gigabyte(tmp_path, monkeypatch):
    if sys.platform != "linux":
        pytest.skip("the peak is known on Linux")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y, kept = rng.normal(size=(10, 20)), rng.normal(size=(10, 500, 20))
    np.save("y.npy", y)
    s = np.lib.format.open_memmap("s.npy", mode="w+", dtype=np.float64, shape=(10, 2_000_000, 20))
    s[:, np.arange(500) * 4000] = kept  # all others are holes
    del s
    assert Path("s.npy").stat().st_size > 3.2e9

    def run(*options):
        command = [sys.executable, "-c", LARGE, *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    whole = run()
    assert "peak" in whole.stdout, whole.stderr
    peak, code = map(int, whole.stdout.split("peak")[1].split())
    assert code == 2
    assert re.search(
        r"2,000,000 samples of 20 numbers.*about 2\.4 GB and 33\.3 min to score.*1\.0 GB.*--thin-to 10000",
        " ".join(whole.stderr.split()),
    )
    assert not Path("out").exists()
    assert peak < 1e9
    thinned = run("--thin-to", "500")
    peak, code = map(int, thinned.stdout.split("peak")[1].split())
    assert code == 0, thinned.stderr
    assert peak < 1e9
    expected = mb.score(y, {"a": kept}, metrics=["mira"]).ranking
    assert mb.load("out").ranking["mira"].tolist() == pytest.approx(expected["mira"].tolist(), rel=1e-12)


def test_pages_that_were_written_to_are_not_given_back():
    np.save("a.npy", np.zeros(5000))
    edited = np.load("a.npy", mmap_mode="c")
    edited[:] = 1.0  # in memory alone
    release(edited[10:])
    assert edited.sum() == 5000
    kept = np.load("a.npy", mmap_mode="r")
    release(np.asarray(kept)[10:])
    assert kept.sum() == 0
