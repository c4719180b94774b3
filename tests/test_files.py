r"""Samples from files: the same scores to the bit from every format, and a sentence for everything else."""

import os
import pickle
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from file_cases import METRICS, NAMES, L, S, long_form, refused, same, score_files

import mira_bench as mb
from mira_bench.adapters.files import Files
from mira_bench.diagnostics import autocorrelated

pytestmark = pytest.mark.usefixtures("elsewhere")

ROOT = Path(mb.__file__).parents[1]


@pytest.fixture
def arrays():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(L, 3))
    return x + rng.normal(size=(L, 3)), x[:, None] + rng.normal(size=(L, S, 3))


def test_arrays_and_tensors(arrays):
    torch, h5py = pytest.importorskip("torch"), pytest.importorskip("h5py")
    y, s = arrays
    np.save("truths.npy", y)
    np.save("s.npy", s)
    np.save("sbi.npy", s.swapaxes(0, 1))
    np.save("fortran.npy", np.asfortranarray(s))
    np.savez("one.npz", s)
    np.savez_compressed("two.npz", y=y, s=s)
    torch.save(torch.tensor(s), "s.pt")
    torch.save(torch.tensor(s).swapaxes(0, 1), "old.pt", _use_new_zipfile_serialization=False)
    torch.save({"y": torch.tensor(y), "s": torch.tensor(s)}, "both.pt")
    with h5py.File("one.h5", "w") as file:
        file["s"] = s
    with h5py.File("two.hdf5", "w") as file:
        file["deep/y"] = y
        file.create_dataset("deep/s", data=s.swapaxes(0, 1), chunks=(4, 7, 3), compression="gzip")
    for source in (
        "s.npy", "sbi.npy", "fortran.npy", "one.npz", "two.npz:s", "s.pt", "old.pt", "both.pt:s", "one.h5", "one.h5:s",
        "two.hdf5:deep/s", "two.hdf5:/deep/s",
    ):  # fmt: skip
        if source in ("sbi.npy", "old.pt", "two.hdf5:deep/s", "two.hdf5:/deep/s"):  # samples come first
            refused(["second axis", "--layout SLd"], score_files, npe=source)
            same(score_files(npe=source, layout="SLd"), mb.score(y, {"npe": s}, metrics=METRICS))
        else:
            same(score_files(npe=source), mb.score(y, {"npe": s}, metrics=METRICS))
    for source in ("two.npz:y", "both.pt:y", "two.hdf5:deep/y"):
        same(score_files(source, npe="s.npy"), mb.score(y, {"npe": s}, metrics=METRICS))
    for source in ("two.npz", "both.pt", "two.hdf5"):
        refused([source, "2 ", "y", "s"], score_files, npe=source)
        refused([source, "'z'"], score_files, npe=f"{source}:z")


def test_safetensors(arrays):
    torch, st = pytest.importorskip("torch"), pytest.importorskip("safetensors.torch")
    y, s = arrays
    st.save_file({"y": torch.tensor(y), "s": torch.tensor(s)}, "both.safetensors")
    same(score_files("both.safetensors:y", npe="both.safetensors:s"), mb.score(y, {"npe": s}, metrics=METRICS))
    half = torch.tensor(s, dtype=torch.bfloat16)
    st.save_file({"s": half}, "half.safetensors")
    same(score_files("both.safetensors:y", npe="half.safetensors"), mb.score(y, {"npe": half}, metrics=METRICS))
    refused(["both.safetensors", "y", "s"], score_files, "both.safetensors:y", npe="both.safetensors")


def test_tables(arrays):
    y, s = arrays
    known, table = long_form(y, s)
    reference = mb.score(y, {"npe": s}, metrics=METRICS)
    known.to_csv("truths.csv", index=False)
    table.sample(frac=1, random_state=0).to_csv("shuffled.csv", index=False)
    table[["h", "sample", "Om", "fiducial", "s8"]].to_parquet("turned.parquet")
    np.save("truths.npy", y)
    for source in ("shuffled.csv", "turned.parquet"):
        same(score_files("truths.csv", npe=source), reference)
    result = score_files(npe="shuffled.csv", names=NAMES)
    same(result, reference)
    assert result.names == NAMES
    # Labels decide, not positions.
    known.assign(fiducial=[f"g{i:03d}" for i in range(L)])[::-1].to_parquet("labels.parquet")
    table.assign(fiducial=[f"g{i:03d}" for i in table.fiducial]).rename(columns={"fiducial": "galaxy"}).to_csv("g.csv")
    frame = pd.read_csv("g.csv", index_col=0)
    frame.to_csv("g.csv", index=False)
    refused(["g.csv", "fiducial"], score_files, "labels.parquet", npe="g.csv")
    frame.rename(columns={"galaxy": "obs_id"}).to_csv("g.csv", index=False)
    turned = score_files("labels.parquet", npe="g.csv")
    pd.testing.assert_frame_equal(
        turned.summary, mb.score(y[::-1], {"npe": s[::-1]}, metrics=METRICS).summary, check_exact=True
    )
    # Without labels there are positions, and they must be beyond doubt.
    np.save("s.npy", s)
    refused(["s.npy", "labels.parquet", "no increasing order"], score_files, "labels.parquet", npe="s.npy")
    known[::-1].to_parquet("turned.parquet")
    refused(["s.npy", "turned.parquet", "no increasing order"], score_files, "turned.parquet", npe="s.npy")
    same(score_files("turned.parquet", npe="shuffled.csv"), reference)
    known.assign(fiducial=known.fiducial + 1).to_parquet("one.parquet")
    same(score_files("one.parquet", npe="s.npy"), reference)


def test_names_select(arrays):
    y, s = arrays
    known, table = long_form(y, s)
    known.to_csv("truths.csv", index=False)
    table.to_parquet("s.parquet")
    result = score_files("truths.csv", npe="s.parquet", names=["h", "Om"])
    same(result, mb.score(y[:, [2, 0]], {"npe": s[:, :, [2, 0]]}, metrics=METRICS))
    assert result.names == ["h", "Om"]
    refused(["truths.csv", "'w'", "Om, s8, h"], score_files, "truths.csv", npe="s.parquet", names=["w"])
    table.rename(columns={"h": "w"}).to_parquet("other.parquet")
    refused(["other.parquet", "truths.csv", "Om, s8, w"], score_files, "truths.csv", npe="other.parquet")
    np.save("truths.npy", y)
    failed = score_files(a="s.parquet", b="other.parquet", names=NAMES).failures
    assert failed == {"b": "other.parquet has no parameter 'h'; it has: Om, s8, w"}
    table[["fiducial", "sample", "h", "s8", "Om"]].to_parquet("turned.parquet")
    same(
        score_files(a="s.parquet", b="turned.parquet", names=NAMES), mb.score(y, {"a": s, "b": s}, metrics=METRICS)
    )  # fmt: skip
    np.save("s.npy", s)
    assert score_files(npe="s.npy", names=["a", "b", "c"]).names == ["a", "b", "c"]
    refused(["2 names", "3 dimensions"], score_files, npe="s.npy", names=["a", "b"])


def test_tables_that_are_not_rectangular(arrays):
    y, s = arrays
    known, table = long_form(y, s)
    np.save("truths.npy", y)
    cases = {
        "missing": (table.drop(index=[3 * S + 7, 3 * S + 9]), ["fiducial 3", "22 of 24", "sample 7, 9"]),
        "twice": (pd.concat([table, table[5:6]]), ["two rows", "fiducial 0", "sample 5"]),
        "text": (table.assign(s8="a"), ["'s8'"]),
        "unsampled": (table.drop(columns="sample"), ["'sample'"]),
        "nobody": (table.drop(columns="fiducial"), ["fiducial", "--fiducial"]),
        "one_based": (table.assign(fiducial=table.fiducial + 1), ["counted from 0", "fiducial 0"]),
        "bare": (table[["fiducial", "sample"]], ["parameters"]),
        "empty": (table[:0], ["0 rows"]),
        "unlabeled": (table.assign(fiducial=[np.nan, *table.fiducial[1:]]), ["row 0"]),
    }
    for name, (frame, words) in cases.items():
        frame.to_csv(f"{name}.csv", index=False)
        refused([f"{name}.csv", *words], score_files, npe=f"{name}.csv", names=NAMES)
    table.to_csv("s.csv", index=False)
    known.assign(fiducial=known.fiducial % 39).to_csv("truths.csv", index=False)
    refused(["truths.csv", "two rows", "fiducial 0"], score_files, "truths.csv", npe="s.csv")
    known[:-1].to_csv("truths.csv", index=False)
    refused(["s.csv", "40 fiducials"], score_files, "truths.csv", npe="s.csv")


def test_netcdf(arrays):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    y, s = arrays
    chains = s.reshape(L, 3, S // 3, 3).transpose(1, 2, 0, 3)  # chain, draw, fiducial, parameter
    data = xarray.Dataset(
        {
            "Om": (("chain", "draw", "fiducial"), chains[..., 0]),
            "b": (("fiducial", "chain", "k", "draw"), chains[..., 1:].transpose(2, 0, 3, 1)),
            "lp": (("chain", "draw"), chains[:, :, 0, 0]),
        },
        {"fiducial": np.arange(L), "k": ["s8", "h"]},
    )
    data.to_netcdf("chains.nc", group="posterior", engine="h5netcdf")
    np.save("truths.npy", y)
    names = ["Om", "b"]
    result = score_files(mcmc="chains.nc", names=names)
    same(result, mb.score(y, {"mcmc": s}, metrics=METRICS))
    assert result.names == ["Om", "b[s8]", "b[h]"]
    data.to_netcdf("alone.nc", engine="h5netcdf")  # as xarray saves a Dataset
    same(score_files(mcmc="alone.nc", names=names), mb.score(y, {"mcmc": s}, metrics=METRICS))
    np.save("two.npy", y[:, 1:])
    same(
        score_files("two.npy", mcmc="chains.nc", names=["b"]),
        mb.score(y[:, 1:], {"mcmc": s[:, :, 1:]}, metrics=METRICS),
    )
    # A coordinate in place of a dimension, fiducials in another order, another group.
    order = np.random.default_rng(0).permutation(L)
    moved = data.isel(fiducial=order).rename(fiducial="place").assign_coords(obs_id=("place", order)).drop_vars("place")
    moved.to_netcdf("moved.nc", group="nuts", engine="h5netcdf")
    same(score_files(mcmc="moved.nc:nuts", names=names), mb.score(y, {"mcmc": s}, metrics=METRICS))
    same(score_files(mcmc="moved.nc:nuts", fiducial="obs_id", names=names), mb.score(y, {"mcmc": s}, metrics=METRICS))
    xarray.Dataset({"Om": ("fiducial", y[:, 0]), "b": (("fiducial", "k"), y[:, 1:])}, {"k": ["s8", "h"]}).to_netcdf(
        "truths.nc", engine="h5netcdf"
    )
    same(score_files("truths.nc", mcmc="chains.nc"), mb.score(y, {"mcmc": s}, metrics=METRICS))
    refused(["moved.nc", "posterior"], score_files, mcmc="moved.nc")
    refused(["chains.nc", "'galaxy'", "chain"], score_files, mcmc="chains.nc", fiducial="galaxy")
    data.rename(fiducial="galaxy").to_netcdf("named.nc", group="posterior", engine="h5netcdf")
    refused(["named.nc", "obs_id", "galaxy"], score_files, mcmc="named.nc")
    same(score_files(mcmc="named.nc", fiducial="galaxy", names=names), mb.score(y, {"mcmc": s}, metrics=METRICS))
    data.drop_vars("lp").rename(draw="step").to_netcdf("steps.nc", group="posterior", engine="h5netcdf")
    refused(["steps.nc", "'Om'", "draw"], score_files, mcmc="steps.nc")


def test_arviz_writes_what_is_read(arrays):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arviz announces its successor
        arviz = pytest.importorskip("arviz", exc_type=ImportError)
        y, s = arrays
        values = s.reshape(L, 2, S // 2, 3).transpose(1, 2, 0, 3)
        arviz.from_dict(posterior={"y": values}, dims={"y": ["observation", "k"]}).to_netcdf("chains.nc")
    np.save("truths.npy", y)
    same(score_files(mcmc="chains.nc"), mb.score(y, {"mcmc": s}, metrics=METRICS))


@pytest.mark.parametrize("module", ["xarray", "safetensors", "h5py"])
def test_what_is_not_installed_is_named(arrays, monkeypatch, module):
    suffix = {"xarray": "nc", "safetensors": "safetensors", "h5py": "h5"}[module]
    np.save("truths.npy", arrays[0])
    Path(f"a.{suffix}").write_bytes(b"something")
    monkeypatch.setitem(sys.modules, module, None)
    refused([f"a.{suffix}", module, "pip install"], score_files, npe=f"a.{suffix}")


def test_layout():
    rng = np.random.default_rng(0)
    y, s = rng.normal(size=(20, 2)), rng.normal(size=(20, 20, 2))
    np.save("truths.npy", y)
    np.save("s.npy", s)
    refused(["s.npy", "(20, 20, 2)", "--layout LSd", "--layout SLd"], score_files, npe="s.npy")
    same(score_files(npe="s.npy", layout="LSd"), mb.score(y, {"npe": s}, metrics=METRICS, layout="LSd"))
    same(score_files(npe="s.npy", layout="SLd"), mb.score(y, {"npe": s}, metrics=METRICS, layout="SLd"))
    refused(["layout='dLS'", "LSd, SLd"], score_files, npe="s.npy", layout="dLS")
    np.save("s.npy", s[:, :7])
    refused(["s.npy", "(20, 7, 2)", "7 fiducials"], score_files, npe="s.npy", layout="SLd")
    np.save("s.npy", s[:19, :7])
    refused(["s.npy", "(19, 7, 2)", "20 fiducials"], score_files, npe="s.npy")
    np.save("s.npy", s[:, :7, :1])
    refused(["s.npy", "(20, 7, 1)", "(2,)"], score_files, npe="s.npy")
    np.save("truths.npy", y[:, 0])
    same(score_files(npe="s.npy"), mb.score(y[:, :1], {"npe": s[:, :7, :1]}, metrics=METRICS))
    np.save("s.npy", s[:, :7, 0])
    same(score_files(npe="s.npy"), mb.score(y[:, 0], {"npe": s[:, :7, 0]}, metrics=METRICS))
    # Events of any shape, integers.
    images, ones = rng.integers(9, size=(20, 2, 3)), rng.integers(9, size=(20, 5, 2, 3))
    np.save("truths.npy", images)
    np.save("s.npy", ones.swapaxes(0, 1))
    same(score_files(npe="s.npy", layout="SLd"), mb.score(images, {"npe": ones}, metrics=METRICS))


def test_bad_values_and_files_are_named(arrays):
    y, s = arrays
    np.save("truths.npy", y)
    broken = s.copy()
    broken[31, 5, 1] = np.nan
    np.save("s.npy", broken)
    refused(["s.npy", "nan", "fiducial 31", "sample 5"], score_files, npe="s.npy")
    broken = y.copy()
    broken[3, 1] = np.inf
    np.save("bad.npy", broken)
    refused(["bad.npy", "inf", "(3, 1)"], score_files, "bad.npy", npe="s.npy")
    np.save("text.npy", np.full((L, S, 3), "a"))
    refused(["text.npy", "<U1"], score_files, npe="text.npy")
    refused(["nothing.npy"], score_files, npe="nothing.npy")
    Path("s.xlsx").write_text("")
    refused(["s.xlsx", ".npy", ".nc"], score_files, npe="s.xlsx")
    for suffix in ("npy", "npz", "csv", "parquet", "pt", "safetensors", "h5", "nc"):
        Path(f"junk.{suffix}").write_bytes(b"not what it says")
        refused([f"junk.{suffix}"], score_files, npe=f"junk.{suffix}")
    np.save("x.npy", y[:-1])
    np.save("s.npy", s)
    refused(["x.npy", "(39, 3)", "40 truths"], score_files, npe="s.npy", x="x.npy")
    same(score_files(npe="s.npy", x="truths.npy"), mb.score(y, {"npe": s}, metrics=METRICS))
    refused("no candidates", score_files)


class Malicious:
    def __reduce__(self):
        return (Path.touch, (Path("executed"),))


def test_pickles_are_never_executed(arrays):
    torch = pytest.importorskip("torch")
    np.save("truths.npy", arrays[0])
    evil = np.array([Malicious()], dtype=object)
    np.save("object.npy", evil, allow_pickle=True)
    np.savez("object.npz", s=evil)
    torch.save(Malicious(), "zip.pt")
    torch.save({"s": Malicious()}, "old.pt", _use_new_zipfile_serialization=False)
    for name in ("raw.npy", "raw.pt", "raw.npz", "raw.pkl"):
        Path(name).write_bytes(pickle.dumps(Malicious()))
    for name in ("object.npy", "object.npz", "zip.pt", "old.pt", "raw.npy", "raw.pt", "raw.npz", "raw.pkl"):
        refused(name, score_files, npe=name)
        assert not Path("executed").exists()
    for name in ("object.npy", "object.npz", "zip.pt", "old.pt"):
        refused("never executed", score_files, npe=name)
    pickle.loads(Path("raw.npy").read_bytes())
    assert Path("executed").exists()  # it would have worked


def test_bounds(arrays):
    y, s = arrays
    np.save("truths.npy", y)
    np.save("s.npy", s)
    low, high = np.array([-5.0, -6, -7]), np.array([5.0, 6, 9])
    reference = mb.score(y, {"npe": s}, metrics=METRICS, bounds=(low, high))
    assert "normalize=task" in reference.summary.note.iloc[0]
    np.save("bounds.npy", np.stack([low, high], axis=1))
    pd.DataFrame({"name": NAMES, "low": low, "high": high}).to_csv("bounds.csv", index=False)
    same(score_files(npe="s.npy", bounds="bounds.npy"), reference)
    same(score_files(npe="s.npy", bounds="bounds.csv", names=NAMES), reference)
    same(score_files(npe="s.npy", bounds=[-5, 5]), mb.score(y, {"npe": s}, metrics=METRICS, bounds=(-5, 5)))
    np.save("bounds.npy", np.stack([low, high]))
    refused(["bounds.npy", "(2, 3)", "(d, 2)"], score_files, npe="s.npy", bounds="bounds.npy")
    pd.DataFrame({"name": NAMES, "max": high}).to_csv("bounds.csv", index=False)
    refused(["bounds.csv", "low", "max"], score_files, npe="s.npy", bounds="bounds.csv")


def test_different_numbers_of_samples(arrays):
    y, s = arrays
    np.save("truths.npy", y)
    np.save("many.npy", s)
    np.save("few.npy", s[:, :7])
    files = {"many": "many.npy", "few": "few.npy"}
    rows = score_files(**files).summary.query("metric == 'mira'").set_index("candidate")
    assert rows.expected.tolist() == [pytest.approx((2 * n + 1) / (3 * (n + 1))) for n in (S, 7)]
    assert "S = 24" in rows.note["many"]
    assert "S = 7" in rows.note["few"]
    picks = np.arange(7) * S // 7
    thinned = score_files(thin=True, **files)
    same(thinned, mb.score(y, {"many": s[:, picks], "few": s[:, :7]}, metrics=METRICS))
    assert "S =" not in thinned.summary.note.iloc[0]


def test_whatever_slices_is_read_in_blocks(arrays, monkeypatch):
    h5py = pytest.importorskip("h5py")
    y, s = arrays
    with h5py.File("s.h5", "w") as file:
        file["s"] = s
        sizes = []
        read = h5py.Dataset.__getitem__

        def spy(self, key, *more):
            part = read(self, key, *more)
            sizes.append(len(part))
            return part

        monkeypatch.setattr(h5py.Dataset, "__getitem__", spy)
        # The function mb.score hides the module of the same name.
        monkeypatch.setattr(import_module("mira_bench.runner.sample_sets"), "BLOCK_ENTRIES", 9 * S * 3)
        result = mb.score(y, {"a": file["s"]}, metrics=METRICS)
        assert max(sizes) == 9
        same(result, mb.score(y, {"a": s}, metrics=METRICS))
        pooled = {"mira": mb.Mira(regions=8, normalize="pooled")}
        same(mb.score(y, {"a": file["s"]}, metrics=pooled), mb.score(y, {"a": s}, metrics=pooled))
        assert max(sizes) == 9


def ar1(rng, correlation, shape):
    values = rng.normal(size=shape)
    for t in range(1, shape[1]):
        values[:, t] = correlation * values[:, t - 1] + np.sqrt(1 - correlation**2) * values[:, t]
    return values


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_effective_samples_of_an_autoregression(rng, correlation):
    # Theory: S (1 - a) / (1 + a). Estimates of single chains scatter by 10 to 20 %; their median over 32 by 3 %.
    expected = 4000 * (1 - correlation) / (1 + correlation)
    assert mb.effective_samples(ar1(rng, correlation, (32, 4000, 1))) == pytest.approx(expected, rel=0.12)


def test_effective_samples_equal_arviz(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arviz = pytest.importorskip("arviz", exc_type=ImportError)
        for correlation in (0.0, 0.4, 0.9):
            chains = ar1(rng, correlation, (5, 301, 3))
            chains[:, ::3] = chains[:, 1::3][:, : chains[:, ::3].shape[1]].take(range(101), axis=1, mode="clip")
            theirs = [min(float(arviz.ess(c[None, :, i], method="bulk")) for i in range(3)) for c in chains]
            # The last pair of Geyer's sequence is treated differently when the chain ends before it does.
            assert mb.effective_samples(chains) == pytest.approx(np.median(theirs), rel=0.03)


def test_autocorrelation_is_told_and_independence_is_not(rng, caplog):
    for fiducials, count, dim in ((3, 20, 1), (40, 20, 10), (40, 50, 60), (40, 100, 2), (40, 8, 3), (9, 3, 2)):
        assert autocorrelated(rng.normal(size=(fiducials, count, dim))) is None
    constant = rng.normal(size=(20, 60, 2))
    constant[..., 1] = 3.0
    assert autocorrelated(constant) is None
    chains = ar1(rng, 0.9, (40, 200, 2))
    assert autocorrelated(chains) < 40
    result = mb.score(rng.normal(size=(40, 2)), {"mcmc": chains, "npe": rng.normal(size=(40, 200, 2))}, metrics=METRICS)
    (warning,) = result.warnings
    assert "'mcmc'" in warning
    assert "of 200 samples" in warning
    assert warning in caplog.text
    notes = result.summary.query("metric == 'mira'").note.tolist()
    assert ["autocorrelated" in note for note in notes] == [True, False]


def test_one_set_for_all_is_looked_at_once():
    # As often as sets of their own: copies would let one noisy estimate speak for all.
    for seed in range(12):
        rng = np.random.default_rng(seed)
        result = mb.score(rng.normal(size=(40, 2)), {"one": rng.normal(size=(1, 20, 2))}, metrics=["mira"])
        assert not any("autocorrelated" in warning for warning in result.warnings)


MEMORY = """
import sys, threading, numpy as np, mira_bench as mb
from mira_bench.adapters.files import Files
rng = np.random.default_rng(0)
layout, normalize = sys.argv[1], sys.argv[2]
shape = (150, 20000, 10) if layout == "LSd" else (10000, 300, 10)
values = np.lib.format.open_memmap("s.npy", mode="w+", dtype=np.float32, shape=shape)
values[:] = rng.standard_normal((1, *shape[1:]) if layout == "LSd" else (shape[0], 1, 10), dtype=np.float32)
values.flush(); del values
np.save("y.npy", rng.normal(size=(shape[layout.index("L")], 10)))
metrics = {"mira": mb.Mira(regions=2, normalize=normalize), "sbc": mb.Sbc()}
mb.score(rng.normal(size=(5, 10)), {"a": rng.normal(size=(5, 50, 10)).astype(np.float32)}, metrics=metrics)
def anonymous():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status") if line.startswith("Rss"))
    return int(lines["RssAnon"].split()[0]) / 1024
before, most, done = anonymous(), 0, threading.Event()
def watch():
    global most
    while not done.wait(0.01):
        most = max(most, anonymous())
watcher = threading.Thread(target=watch, daemon=True); watcher.start()
Files("y.npy", {"a": "s.npy"}, layout=layout).score(metrics=metrics, threads=1)
done.set(); watcher.join()
print(most - before)
"""


@pytest.mark.parametrize(("layout", "normalize", "limit"), [("LSd", "pooled", 60), ("SLd", "auto", 80)])
def test_memory_stays_bounded(tmp_path, layout, normalize, limit):
    r"""The files have 120 MB, of which nothing is copied; or they are transposed, and a block of 40 MB is."""
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc here")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, layout, normalize], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    (tmp_path / "s.npy").unlink()
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < limit  # MB


class Fake:
    r"""A posterior with the signatures of sbi."""

    def __init__(self, batched=True):
        self.calls = []
        if batched is not None:
            self.sample_batched = self._batched if batched else self._unsupported

    def sample(self, sample_shape, x=None, show_progress_bars=True):
        import torch

        self.calls.append(("sample", tuple(x.shape), show_progress_bars))
        return x[0] + torch.randn(*sample_shape, x.shape[1])

    def _batched(self, sample_shape, x, show_progress_bars=True):
        import torch

        self.calls.append(("batched", tuple(x.shape), show_progress_bars))
        return x + torch.randn(*sample_shape, *x.shape)

    def _unsupported(self, sample_shape, x, show_progress_bars=True):
        raise NotImplementedError


def test_draw_from_the_signatures_of_sbi(rng):
    torch = pytest.importorskip("torch")
    x = rng.normal(size=(130, 2))
    before = torch.get_rng_state()
    for batched, calls in ((True, 2), (False, 130), (None, 130)):
        posterior = Fake(batched)
        values = mb.draw(posterior, torch.tensor(x), 6, seed=3)
        assert values.shape == (130, 6, 2)
        assert len(posterior.calls) == calls
        assert not any(shown for *_, shown in posterior.calls)
        assert np.abs((values - x[:, None]).mean()) < 4 / np.sqrt(130 * 12)
        assert np.array_equal(values, mb.draw(Fake(batched), x, 6, seed=3))
        assert not np.array_equal(values, mb.draw(Fake(batched), x, 6, seed=4))
    assert torch.equal(before, torch.get_rng_state())


def test_draw_from_functions_and_candidates(rng):
    from mira_bench.tasks.gaussian import Conjugate, ConjugateCandidate

    task = Conjugate()
    truth = task.simulate(50, rng)
    posterior = ConjugateCandidate().build(task, rng)
    values = mb.draw(posterior, truth.x, 30)
    assert np.array_equal(values, mb.draw(posterior, truth.x, 30))
    state = np.random.get_state()[1].copy()
    noise = mb.draw(lambda x, n: np.random.normal(size=(len(x), n, 2)), truth.x, 30)
    assert np.array_equal(noise, mb.draw(lambda x, n: np.random.normal(size=(len(x), n, 2)), truth.x, 30))
    assert np.array_equal(state, np.random.get_state()[1])
    ranking = mb.score(truth.y, {"exact": values, "noise": noise}).ranking
    assert ranking.candidate.tolist() == ["exact", "noise"]
    with pytest.raises(mb.UsageError, match=r"\(50, 2, 3\).*\(50, 30, \*event\)"):
        mb.draw(lambda x, n: np.zeros((len(x), 2, 3)), truth.x, 30)
    with pytest.raises(mb.UsageError, match="samples=0"):
        mb.draw(posterior, truth.x, 0)
    with pytest.raises(mb.UsageError, match="int has no sample"):
        mb.draw(3, truth.x, 5)


@pytest.mark.filterwarnings("ignore")  # sbi and its dependencies warn about themselves
def test_draw_from_a_real_sbi_posterior(rng):
    torch, inference = pytest.importorskip("torch"), pytest.importorskip("sbi.inference")
    from mira_bench.streams import forked

    with forked(0, "training"):
        prior = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
        theta = prior.sample((500,))
        npe = inference.NPE(prior, density_estimator="mdn", show_progress_bars=False)
        npe.append_simulations(theta, theta + 0.5 * torch.randn(500, 2)).train(max_num_epochs=5, learning_rate=5e-3)
        posterior = npe.build_posterior()
    y = rng.normal(size=(120, 2))
    x = y + 0.5 * rng.normal(size=(120, 2))
    values = mb.draw(posterior, x, 50)
    assert values.shape == (120, 50, 2)
    assert np.array_equal(values, mb.draw(posterior, x, 50))
    result = mb.score(y, {"npe": values})
    assert result.standings[0].energy.informative


def test_observations_follow_their_labels(tmp_path, rng):
    truths, x, samples = rng.normal(size=(40, 2)), rng.normal(size=(40, 2)), rng.normal(size=(40, 30, 2))
    x += truths
    np.save(tmp_path / "y.npy", truths)
    np.save(tmp_path / "s.npy", samples)
    table = pd.DataFrame({"fiducial": np.arange(40), "a": x[:, 0], "b": x[:, 1]})
    table.to_csv(tmp_path / "x.csv", index=False)
    table.sample(frac=1, random_state=0).to_csv(tmp_path / "shuffled.csv", index=False)
    scores = [
        Files(str(tmp_path / "y.npy"), {"s": str(tmp_path / "s.npy")}, x=str(tmp_path / name))
        .score(metrics={"mmd": mb.Mmd(against="joint")})
        .summary.score.iloc[0]
        for name in ("x.csv", "shuffled.csv")
    ]
    assert scores[0] == scores[1]


def test_names_cannot_be_mixed(tmp_path, rng):
    truths = pd.DataFrame({"fiducial": np.arange(20), "a": rng.normal(size=20), "b": rng.normal(size=20)})
    truths.to_csv(tmp_path / "y.csv", index=False)
    np.save(tmp_path / "s.npy", rng.normal(size=(20, 30, 2)))
    files = {"truths": str(tmp_path / "y.csv"), "candidates": {"s": str(tmp_path / "s.npy")}}
    metrics = {"sbc": mb.Sbc()}
    assert Files(**files).score(metrics=metrics).names == ["a", "b"]
    with pytest.raises(mb.UsageError, match="does not name its own"):
        Files(**files, names=["b", "a"]).score(metrics=metrics)
    with pytest.raises(mb.UsageError, match="twice"):
        Files(**files, names=["a", "a"]).score(metrics=metrics)
