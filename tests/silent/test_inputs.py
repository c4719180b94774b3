r"""What users pass in is read as they mean it, or refused with what to do; never a number of something else."""

import re

import numpy as np
import pandas as pd
import pytest
from file_cases import METRICS, NAMES, L, S, long_form, refused, same, score_files

import mira_bench as mb
from mira_bench.inference import Given
from mira_bench.ranks.scaling import Scaling

pytestmark = pytest.mark.usefixtures("elsewhere")

ALONE = {"sbc": mb.Sbc()}


@pytest.fixture
def arrays(rng):
    x = rng.normal(size=(L, 3)) * [1, 5, 25]
    return x + rng.normal(size=(L, 3)), x[:, None] + rng.normal(size=(L, S, 3))


# Masks


def test_masked_entries_are_refused(arrays):
    y, s = arrays
    mask = np.zeros(s.shape, bool)
    mask[7, 3, 1] = True
    bad = np.ma.array(np.where(mask, 1e9, s), mask=mask)
    words = ["'a'", "1 masked", "(7, 3, 1)"]
    refused(words, mb.score, y, {"a": bad}, metrics=METRICS)
    refused("candidate 'a' has 1 masked", mb.score, y, {"a": list(bad)}, metrics=METRICS)
    refused(["truths", "masked", "(7, 1)"], mb.score, np.ma.array(y, mask=mask[:, 3]), {"a": s}, metrics=METRICS)
    refused(["bounds", "masked"], mb.score, y, {"a": s}, bounds=(np.ma.array([-99, -99, 0], mask=[0, 0, 1]), 99))
    for function in (mb.mira, mb.tarp, mb.sbc, mb.energy_score):
        refused(["samples", "masked"], function, y, bad)
    refused(["a has", "masked"], mb.c2st, bad[7], s[7])
    # Nothing is masked: an array like any other.
    same(mb.score(y, {"a": np.ma.array(s)}, metrics=METRICS), mb.score(y, {"a": s}, metrics=METRICS))


def test_masked_entries_of_pandas_and_astropy_are_refused(arrays):
    y, s = arrays
    table = pd.DataFrame(y, columns=NAMES).astype("Float64")
    table.iloc[3, 1] = pd.NA
    refused("truths", mb.score, table, {"a": s}, metrics=METRICS)
    np.save("s.npy", s)
    table.insert(0, "fiducial", range(L))
    table.to_parquet("truths.parquet")
    refused("truths.parquet", score_files, "truths.parquet", a="s.npy")
    masked = pytest.importorskip("astropy.utils.masked")
    refused(["truths", "masked"], mb.score, masked.Masked(y, mask=y > y[3, 1]), {"a": s}, metrics=METRICS)


# Units


class Astropy(np.ndarray):
    r"""An array that knows its unit, as astropy's quantities do."""

    def __new__(cls, values, unit):
        made = np.asarray(values).view(cls)
        made.unit = unit
        return made

    def __array_finalize__(self, other):
        self.unit = getattr(other, "unit", "")


class Pint:
    r"""What holds an array and its units, as pint's quantities do."""

    def __init__(self, magnitude, units):
        self.magnitude, self.units = np.asarray(magnitude), units
        self.shape, self.dtype = self.magnitude.shape, self.magnitude.dtype

    def __len__(self):
        return len(self.magnitude)

    def __getitem__(self, rows):
        return Pint(self.magnitude[rows], self.units)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.magnitude, dtype=dtype)


def real_astropy(values, unit):
    units = pytest.importorskip("astropy.units")
    return values * getattr(units, unit or "dimensionless_unscaled")


@pytest.mark.parametrize("quantity", [Astropy, Pint, real_astropy])
def test_units_must_agree(arrays, quantity):
    y, s = arrays
    km, m, none = (lambda v, unit=unit: quantity(v, unit) for unit in ("km", "m", ""))
    refused(["truths in km", "candidate 'a' in m", "one unit"], mb.score, km(y), {"a": m(s)}, metrics=METRICS)
    refused(["truths in no unit", "candidate 'a' in km"], mb.score, y, {"a": km(s)}, metrics=METRICS)
    refused(["bounds in m"], mb.score, km(y), {"a": km(s)}, bounds=(m(np.zeros(3)), m(np.ones(3))), metrics=METRICS)
    refused(["reference in m"], mb.score, km(y), {"a": km(s)}, reference=m(s), metrics=METRICS)
    for function in (mb.mira, mb.tarp, mb.sbc, mb.energy_score):
        refused(["truths in km", "samples in m"], function, km(y), m(s))
    refused(["a in km", "b in m"], mb.c2st, km(s[0]), m(s[1]))
    # A list of quantities has units as well, of each entry.
    refused(["candidate 'a' in km", "candidate 'a' in m"], mb.score, km(y), {"a": [km(s[0]), *map(m, s[1:])]})
    reference = mb.score(y, {"a": s}, metrics=METRICS)
    same(mb.score(km(y), {"a": km(s)}, metrics=METRICS), reference)
    same(mb.score(none(y), {"a": s}, metrics=METRICS), reference)
    box = (-99 * np.ones(3), 99 * np.ones(3))
    assert mb.mira(km(y), km(s), bounds=tuple(map(km, box))).score == mb.mira(y, s, bounds=box).score
    assert mb.c2st(km(s[0]), km(s[1])).score == mb.c2st(s[0], s[1]).score


def test_units_in_files_must_agree(arrays):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    y, s = arrays
    chains = s.reshape(L, 1, S, 3).transpose(1, 2, 0, 3)
    lead = ("chain", "draw", "fiducial")
    truths = {n: ("fiducial", y[:, i], {"units": "km"}) for i, n in enumerate(NAMES)}
    xarray.Dataset(truths).to_netcdf("truths.nc", engine="h5netcdf")
    for unit in ("km", "m"):
        made = {n: (lead, chains[..., i], {"units": unit if n == "s8" else "km"}) for i, n in enumerate(NAMES)}
        xarray.Dataset(made).to_netcdf(f"{unit}.nc", group="posterior", engine="h5netcdf")
    same(score_files("truths.nc", a="km.nc"), mb.score(y, {"a": s}, metrics=METRICS))
    refused(["m.nc has s8 in m", "truths.nc in km", "one unit"], score_files, "truths.nc", a="m.nc")
    np.save("truths.npy", y)
    refused(["m.nc has s8 in m", "km.nc in km"], score_files, a="km.nc", b="m.nc", names=NAMES)


# Layouts


def informative(rng, count=60, dim=2):
    x = rng.normal(size=(count, dim))
    y = x + 0.5 * rng.normal(size=(count, dim))
    return y, x[:, None] + 0.5 * rng.normal(size=(count, count, dim))


def test_samples_first_are_refused_where_the_shape_does_not_tell(rng):
    y, s = informative(rng)
    right = mb.score(y, {"a": s}, metrics=METRICS)
    turned = s.swapaxes(0, 1)
    refused(["'a'", "(60, 60, 2)", "layout='SLd'", "layout='LSd'"], mb.score, y, {"a": turned}, metrics=METRICS)
    same(mb.score(y, {"a": turned}, metrics=METRICS, layout="SLd"), right)
    same(mb.score(y, {"a": s}, metrics=METRICS, layout="LSd"), right)
    refused(["reference", "layout='SLd'"], mb.score, y, {"a": s}, reference=turned, metrics=METRICS)
    refused("layout='dLS' is not one of LSd, SLd", mb.score, y, {"a": s}, layout="dLS")
    for function in (mb.mira, mb.tarp, mb.sbc, mb.energy_score):
        refused(["samples", "(60, 60, 2)", "swap"], function, y, turned)
    # One parameter, without an axis of its own.
    refused("layout='SLd'", mb.score, y[:, 0], {"a": turned[..., 0]}, metrics=METRICS)
    # Few fiducials tell too little; and the layout is a matter of all shapes, not of this one.
    refused(["(9, 9, 2)", "both axes"], mb.score, y[:9], {"a": s[:9, :9]}, metrics=METRICS)
    refused(["(7, 60, 2)", "layout='SLd'"], mb.score, y, {"a": turned[:7]}, metrics=METRICS)
    same(mb.score(y, {"a": turned[:7]}, metrics=METRICS, layout="SLd"), mb.score(y, {"a": s[:, :7]}, metrics=METRICS))


@pytest.mark.parametrize("kind", ["garbage", "widths", "noise"])
def test_samples_first_are_refused_for_bad_candidates_too(rng, kind):
    y, _ = informative(rng)
    s = {
        "garbage": rng.normal(size=(60, 1, 2)) + 0.1 * rng.normal(size=(60, 60, 2)),  # overconfident, and elsewhere
        "widths": rng.gamma(2, size=(60, 1, 1)) * rng.normal(size=(60, 60, 2)),
        "noise": 0.4 * y[:, None] + rng.normal(size=(1, 60, 2)),  # the same noise for everyone
    }[kind]
    refused("layout=", mb.score, y, {"a": s.swapaxes(0, 1)}, metrics=ALONE)
    assert len(mb.score(y, {"a": s}, metrics=ALONE).summary) == 1  # in the right layout it is scored


def test_the_layout_of_honest_arrays_is_not_doubted(rng):
    for _ in range(100):
        y, s = informative(rng, 30, 3)
        for values in (s, 5 * s, rng.normal(size=(30, 30, 3)), rng.standard_cauchy(size=(30, 30, 3)), np.round(s)):
            mb.layouts.refuse_swapped(y, values.shape, lambda rows, v=values: v[rows], "a", "")


def test_one_sample_each_is_not_one_set(rng):
    y, s = informative(rng)
    one = s[:, :1].swapaxes(0, 1)
    refused(["(1, 60, 2)", "one by one", "layout='SLd'"], mb.score, y, {"a": one}, metrics=ALONE)
    same(mb.score(y, {"a": one}, metrics=ALONE, layout="SLd"), mb.score(y, {"a": s[:, :1]}, metrics=ALONE))


def test_draw_learns_the_layout(rng):
    x = rng.normal(size=(200, 2))
    calls = []

    def first(x, count):  # samples first
        return x[None] + np.random.normal(size=(count, len(x), 2))

    def right(x, count):
        calls.append((len(x), count))
        return x[:, None] + np.random.normal(size=(len(x), count, 2))

    class Candidate:
        def sample(self, x, count, rng):
            return first(x, count)

    for posterior in (first, Candidate()):
        refused(["(3, 2, 2)", "(2, 3, *event)", "swap"], mb.draw, posterior, x, 100)
        refused(["(3, 2, 2)"], mb.draw, posterior, x[:50], 50)
    values = mb.draw(right, x, 100)
    assert calls == [(100, 100), (100, 100), (2, 3)]
    # The question changes nothing: the first block is that of a call that needs none.
    assert np.array_equal(values[:100], mb.draw(right, x[:150], 100)[:100])
    assert calls[3:] == [(100, 100), (50, 100)]

    def only(x, count):
        if count != 50:
            raise ValueError("fifty, please")
        return np.zeros((50, 50, 2))

    refused(["fifty, please", "another number of samples"], mb.draw, only, x[:50], 50)
    kept = np.random.default_rng(5)

    def with_state(x, count):
        return x[:, None] + kept.normal(size=(len(x), count, 2))

    expected = np.random.default_rng(5).normal(size=(100, 100, 2)) + x[:100, None]
    assert np.array_equal(mb.draw(with_state, x[:100], 100), expected)


# Bounds


def test_bounds_follow_their_names(arrays):
    y, s = arrays
    known, table = long_form(y, s)
    known.to_csv("truths.csv", index=False)
    table.to_parquet("s.parquet")
    np.save("truths.npy", y)
    np.save("s.npy", s)
    low, high = np.array([-9.0, -50, -200]), np.array([9.0, 60, 300])
    reference = mb.score(y, {"npe": s}, metrics=METRICS, bounds=(low, high))
    box = pd.DataFrame({"low": low, "high": high}, index=NAMES)
    turned = box.loc[["h", "Om", "s8"]]
    turned.rename_axis("name").reset_index().to_csv("name.csv", index=False)
    turned.rename_axis("Parameter").reset_index().to_parquet("parameter.parquet")
    turned.to_csv("index.csv")
    turned.to_parquet("index.parquet")
    pd.concat([turned, pd.DataFrame({"low": -1.0, "high": 1.0}, index=["w"])]).to_csv("more.csv")
    for source in ("name.csv", "parameter.parquet", "index.csv", "index.parquet", "more.csv"):
        same(score_files("truths.csv", npe="s.parquet", bounds=source), reference)
        same(score_files("truths.csv", npe="s.npy", bounds=source), reference)
        same(score_files(npe="s.npy", names=NAMES, bounds=source), reference)
        refused([source, "--names"], score_files, npe="s.npy", bounds=source)
        refused([source, "'a'"], score_files, npe="s.npy", names=["a", "b", "c"], bounds=source)
    box[:2].to_csv("less.csv")
    refused(["less.csv", "'h'", "Om, s8"], score_files, "truths.csv", npe="s.parquet", bounds="less.csv")
    pd.concat([box, box[:1]]).to_csv("twice.csv")
    refused(["twice.csv", "two rows"], score_files, "truths.csv", npe="s.parquet", bounds="twice.csv")


def test_bounds_without_names_follow_the_files(arrays):
    y, s = arrays
    known, table = long_form(y, s)
    known.to_csv("truths.csv", index=False)
    table.to_parquet("s.parquet")
    low, high = np.array([-9.0, -50, -200]), np.array([9.0, 60, 300])
    np.save("bounds.npy", np.stack([low, high], axis=1))
    pd.DataFrame({"low": low, "high": high}).to_csv("bounds.csv")  # with an index of numbers
    pd.DataFrame({"name": NAMES, "low": low, "high": high}).to_csv("named.csv")
    for source in ("bounds.npy", "bounds.csv"):
        same(
            score_files("truths.csv", npe="s.parquet", bounds=source),
            mb.score(y, {"npe": s}, metrics=METRICS, bounds=(low, high)),
        )
        refused(
            ["--names reorders", source, "name"], score_files, "truths.csv", npe="s.parquet", bounds=source,
            names=["h", "Om", "s8"],
        )  # fmt: skip
    order = [2, 0]
    same(
        score_files("truths.csv", npe="s.parquet", bounds="named.csv", names=["h", "Om"]),
        mb.score(y[:, order], {"npe": s[:, :, order]}, metrics=METRICS, bounds=(low[order], high[order])),
    )
    same(
        score_files("truths.csv", npe="s.parquet", bounds=[-300, 300], names=["h", "Om"]),
        mb.score(y[:, order], {"npe": s[:, :, order]}, metrics=METRICS, bounds=(-300, 300)),
    )


def test_bounds_by_rows_are_not_bounds_by_columns(rng):
    y, s = rng.uniform([-5, 3], [-3, 6], size=(L, 2)), rng.uniform([-5, 3], [-3, 6], size=(L, S, 2))
    right = np.array([[-5, -3], [3, 6]])  # a row low, high per parameter
    np.save("truths.npy", y)
    np.save("s.npy", s)
    np.save("rows.npy", right)
    np.save("columns.npy", right.T)
    reference = mb.score(y, {"a": s}, metrics=METRICS, bounds=right.T)
    same(score_files(a="s.npy", bounds="rows.npy"), reference)
    refused(["bounds", "row low, high"], score_files, a="s.npy", bounds="columns.npy")
    refused(["bounds", "(low, high)"], mb.score, y, {"a": s}, metrics=METRICS, bounds=right)
    refused(["bounds", "(low, high)"], mb.mira, y, s, bounds=right)


# Tables


def test_the_index_of_a_table_is_no_parameter(arrays, caplog):
    y, s = arrays
    known, table = long_form(y, s)
    reference = mb.score(y, {"npe": s}, metrics=METRICS)
    caplog.set_level("INFO")
    known.to_csv("truths.csv")
    table.to_csv("s.csv")
    np.save("s.npy", s)
    same(score_files("truths.csv", npe="s.csv"), reference)
    same(score_files("truths.csv", npe="s.npy"), reference)
    assert "truths.csv: its column without a name counts the rows" in caplog.text
    assert "s.csv: its column without a name counts the rows" in caplog.text
    result = score_files("truths.csv", npe="s.npy", x="truths.csv", metrics={"mmd": mb.Mmd(against="joint")})
    same(result, mb.score(y, {"npe": s}, x=y, metrics={"mmd": mb.Mmd(against="joint")}))
    # An index of other numbers may be anything.
    table.sample(frac=1, random_state=0).to_csv("shuffled.csv")
    refused(["shuffled.csv", "without a name", "index=False", "--names"], score_files, "truths.csv", npe="shuffled.csv")
    same(score_files("truths.csv", npe="shuffled.csv", names=NAMES), reference)
    table.reset_index().to_parquet("reset.parquet")
    refused(["reset.parquet", "'index'", "counts the rows"], score_files, "truths.csv", npe="reset.parquet")
    same(score_files("truths.csv", npe="reset.parquet", names=NAMES), reference)
    # A parameter may be called index.
    renamed = [frame.rename(columns={"h": "index"}) for frame in (known, table)]
    renamed[0].to_csv("truths.csv", index=False)
    renamed[1].to_csv("s.csv", index=False)
    same(score_files("truths.csv", npe="s.csv"), reference)


def test_truths_without_names_do_not_match_named_samples_by_position(arrays):
    y, s = arrays
    _, table = long_form(y, s)
    np.save("truths.npy", y)
    table.to_parquet("s.parquet")
    table[["fiducial", "sample", "h", "s8", "Om"]].to_csv("turned.csv", index=False)
    reference = mb.score(y, {"npe": s}, metrics=METRICS)
    for source in ("s.parquet", "turned.csv"):
        refused([source, "truths.npy", "--names"], score_files, npe=source)
        same(score_files(npe=source, names=NAMES), reference)
    # With an array beside it, that one has the order of the truths.
    np.save("s.npy", s)
    same(score_files(a="s.npy", b="turned.csv", names=NAMES), mb.score(y, {"a": s, "b": s}, metrics=METRICS))
    # A single parameter is not ambiguous.
    np.save("one.npy", y[:, 1])
    table[["fiducial", "sample", "s8"]].to_parquet("one.parquet")
    same(score_files("one.npy", npe="one.parquet"), mb.score(y[:, 1:2], {"npe": s[:, :, 1:2]}, metrics=METRICS))


def test_truths_without_names_do_not_match_a_netcdf_by_position(arrays):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    y, s = arrays
    np.save("truths.npy", y)
    chains = s.reshape(L, 1, S, 3).transpose(1, 2, 0, 3)
    lead = ("chain", "draw", "fiducial")
    made = xarray.Dataset({name: (lead, chains[..., i]) for i, name in enumerate(NAMES)})
    made[NAMES[::-1]].to_netcdf("chains.nc", group="posterior", engine="h5netcdf")
    refused(["chains.nc", "h, s8, Om", "truths.npy", "--names"], score_files, mcmc="chains.nc")
    reference = mb.score(y, {"mcmc": s}, metrics=METRICS)
    same(score_files(mcmc="chains.nc", names=NAMES), reference)
    # A vector has an order of its own; one whose entries have names has not.
    xarray.Dataset({"theta": ((*lead, "k"), chains)}).to_netcdf("vector.nc", group="posterior", engine="h5netcdf")
    same(score_files(mcmc="vector.nc"), reference)
    named = xarray.Dataset({"theta": ((*lead, "k"), chains[..., ::-1])}, {"k": NAMES[::-1]})
    named.to_netcdf("named.nc", group="posterior", engine="h5netcdf")
    refused(["named.nc", "theta[h]", "--names"], score_files, mcmc="named.nc")


def test_labels_in_another_order_do_not_match_an_array(arrays, rng):
    y, s = arrays
    known, table = long_form(y, s)
    np.save("s.npy", s)
    np.save("x.npy", y)
    table.to_csv("s.csv", index=False)
    order = rng.permutation(L)
    known.iloc[order].to_csv("truths.csv", index=False)
    words = ["does not label its fiducials", "truths.csv", "no increasing order"]
    refused(["s.npy", *words], score_files, "truths.csv", npe="s.npy")
    refused(["x.npy", *words], score_files, "truths.csv", npe="s.csv", x="x.npy")
    same(score_files("truths.csv", npe="s.csv"), mb.score(y, {"npe": s}, metrics=METRICS))
    # The rows as they are, labeled by where they are: which of the two was meant is not in doubt.
    known.to_csv("truths.csv", index=False)
    same(score_files("truths.csv", npe="s.npy"), mb.score(y, {"npe": s}, metrics=METRICS))


# Weights


@pytest.mark.parametrize("name", ["weight", "weights", "w", "logw", "log_weight", "importance_weights", "Weight"])
def test_weighted_samples_are_refused(arrays, rng, name):
    y, s = arrays
    known, table = long_form(y, s)
    known.to_csv("truths.csv", index=False)
    np.save("truths.npy", y)
    table.assign(**{name: rng.random(len(table))}).to_parquet("s.parquet")
    words = ["s.parquet", f"'{name}'", "resample"]
    refused(words, score_files, "truths.csv", npe="s.parquet", names=NAMES)
    refused(words, score_files, "truths.csv", npe="s.parquet")
    refused(words, score_files, npe="s.parquet", names=NAMES)
    reference = mb.score(y, {"npe": s}, metrics=METRICS)
    table.assign(**{name: 0.5}).to_parquet("equal.parquet")
    same(score_files("truths.csv", npe="equal.parquet"), reference)
    same(score_files("truths.csv", npe="equal.parquet", names=NAMES), reference)
    # Who has a parameter of that name has it in the truths.
    renamed = [frame.rename(columns={"h": name}) for frame in (known, table.assign(h=np.abs(table.h)))]
    renamed[0].to_csv("truths.csv", index=False)
    renamed[1].to_parquet("s.parquet")
    positive = np.concatenate([s[..., :2], np.abs(s[..., 2:])], axis=2)
    same(score_files("truths.csv", npe="s.parquet"), mb.score(y, {"npe": positive}, metrics=METRICS))
    same(
        score_files("truths.csv", npe="s.parquet", names=NAMES[:2]),
        mb.score(y[:, :2], {"npe": s[..., :2]}, metrics=METRICS),
    )


def test_a_negative_w_is_no_weight(arrays):
    y, s = arrays
    known, table = long_form(y, s)
    known.to_csv("truths.csv", index=False)
    table.assign(w=-1 + 0.1 * table.h).to_parquet("s.parquet")  # dark energy
    same(score_files("truths.csv", npe="s.parquet", names=NAMES), mb.score(y, {"npe": s}, metrics=METRICS))


def test_weights_of_fiducials_are_refused(arrays, rng):
    y, s = arrays
    known, table = long_form(y, s)
    table.to_csv("s.csv", index=False)
    known.assign(weight=rng.random(L)).to_csv("truths.csv", index=False)
    refused(["truths.csv", "'weight'", "fiducials"], score_files, "truths.csv", npe="s.csv", names=NAMES)


def test_weights_in_other_files_are_refused(arrays, rng):
    y, s = arrays
    np.save("truths.npy", y)
    weights = rng.random((L, S))
    reference = mb.score(y, {"npe": s}, metrics=METRICS)
    np.savez("s.npz", s=s, weights=weights)
    refused(["s.npz", "'weights'", "resample"], score_files, npe="s.npz:s")
    np.savez("net.npz", s=s, weights=rng.random(7), w=np.ones((L, S)))  # of a network; and all the same
    same(score_files(npe="net.npz:s"), reference)
    torch, h5py = pytest.importorskip("torch"), pytest.importorskip("h5py")
    torch.save({"s": torch.tensor(s), "logw": torch.tensor(weights)}, "s.pt")
    refused(["s.pt", "'logw'", "resample"], score_files, npe="s.pt:s")
    with h5py.File("s.h5", "w") as file:
        file["a/s"], file["a/weight"], file["b/s"] = s, weights.ravel(), s
    refused(["s.h5", "weight", "resample"], score_files, npe="s.h5:a/s")
    same(score_files(npe="s.h5:b/s"), reference)
    xarray = pytest.importorskip("xarray")
    chains = s.reshape(L, 1, S, 3).transpose(1, 2, 0, 3)
    lead = ("chain", "draw", "fiducial")
    variables = {name: (lead, chains[..., i]) for i, name in enumerate(NAMES)}
    for name, dims, values in (("own", lead, weights.T[None]), ("common", lead[:2], weights[:1])):
        made = xarray.Dataset(variables | {"weight": (dims, values)})
        made.to_netcdf(f"{name}.nc", group="posterior", engine="h5netcdf")
        refused([f"{name}.nc", "'weight'", "resample"], score_files, npe=f"{name}.nc", names=NAMES)
        equal = made.assign(weight=(dims, np.ones_like(values)))
        equal.to_netcdf(f"equal_{name}.nc", group="posterior", engine="h5netcdf")
        same(score_files(npe=f"equal_{name}.nc", names=NAMES), reference)


# One set in a file


def test_one_set_in_a_file(rng):
    y, s = rng.normal(size=(L, 2)), rng.normal(size=(1, L, 2))
    np.save("truths.npy", y)
    np.save("s.npy", s)
    refused(["s.npy", f"(1, {L}, 2)", "--layout LSd (one set)", "--layout SLd (one sample"], score_files, a="s.npy")
    same(score_files(a="s.npy", layout="LSd"), mb.score(y, {"a": s}, metrics=METRICS))
    one = score_files(a="s.npy", layout="SLd", metrics=ALONE)
    same(one, mb.score(y, {"a": s.swapaxes(0, 1)}, metrics=ALONE))
    np.save("s.npy", s[:, :S])
    same(score_files(a="s.npy"), mb.score(y, {"a": s[:, :S]}, metrics=METRICS))
    # The order of the truths does not matter to a set that all of them share.
    pd.DataFrame({"fiducial": np.arange(L)[::-1], "a": y[::-1, 0], "b": y[::-1, 1]}).to_csv("truths.csv", index=False)
    same(score_files("truths.csv", a="s.npy"), mb.score(y, {"a": s[:, :S]}, metrics=METRICS))


# Precision


def grid(rng, count=2000, samples=9):
    r"""Truths and samples on a coarse grid, from the same law: ranks are uniform if ties are broken at random."""
    return 0.1 * rng.integers(1, 9, size=(count, 1)), 0.1 * rng.integers(1, 9, size=(count, samples, 1))


def converted(values, precision):
    if precision == "bfloat16":
        return pytest.importorskip("torch").tensor(values).bfloat16()
    return values.astype(precision)


@pytest.mark.parametrize(
    ("which", "precision"),
    [*(("samples", p) for p in ("float32", "float16", "bfloat16", "was float32")), ("truths", "float32")],
)
def test_ties_survive_single_precision(rng, precision, which):
    y, s = grid(rng)
    if precision == "was float32":  # as parquet, or a careful user, makes of it
        rounded = [v.astype(np.float32).astype(np.float64) for v in (y, s)]
    else:
        rounded = [converted(v, precision) for v in (y, s)]
    truths, samples = (y, rounded[1]) if which == "samples" else (rounded[0], s)
    expected = mb.sbc(y, s).ranks
    assert np.array_equal(mb.sbc(truths, samples).ranks, expected)
    metrics = {"mira": mb.Mira(regions=4, normalize="none"), "sbc": mb.Sbc(), "calibration": mb.Calibration()}
    result = mb.score(truths, {"a": samples}, metrics=metrics)
    assert np.array_equal(result.standings[0].scores["sbc"].result.ranks, expected)
    assert result.standings[0].scores["calibration"].pvalue > 0.01
    exact = mb.mira(*rounded, regions=4, normalize="none")
    assert np.array_equal(mb.mira(truths, samples, regions=4, normalize="none").ranks, exact.ranks)
    assert np.array_equal(result.standings[0].mira.ranks, exact.ranks)


def test_ties_survive_single_precision_in_a_run_and_in_files(rng):
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Grid:
        version = 1

        def simulate(self, count, rng):
            return mb.Fiducials(0.1 * rng.integers(1, 9, size=(count, 1)), np.zeros((count, 1)))

    @dataclass(frozen=True)
    class Same:
        version = 1
        precision: str = "float64"

        def build(self, task, rng):
            return self

        def sample(self, x, count, rng):
            return (0.1 * rng.integers(1, 9, size=(len(x), count, 1))).astype(self.precision)

    settings = {"fiducials": 300, "samples": 9, "controls": False, "metrics": {"sbc": mb.Sbc()}}
    double, single = (mb.run(Grid(), {"a": Same(p)}, **settings).summary for p in ("float64", "float32"))
    pd.testing.assert_frame_equal(double, single, check_exact=True)
    y, s = grid(rng, L, S)
    np.save("truths.npy", y)
    keys = {"fiducial": np.repeat(np.arange(L), S), "sample": np.tile(np.arange(S), L)}
    pd.DataFrame({**keys, "a": s.ravel().astype(np.float32)}).to_parquet("s.parquet")
    same(score_files(a="s.parquet", metrics=ALONE), mb.score(y, {"a": s}, metrics=ALONE))


def test_what_meets_nothing_stays_as_it_is(rng):
    y, s = rng.normal(size=(50, 3)), rng.normal(size=(50, 20, 3)).astype(np.float32)
    block = mb.Block(y, s, np.arange(50), Scaling(y), 0)
    assert np.array_equal(block.truths, y)
    assert block.samples is s
    block = mb.Block(s[:, 0].astype(np.float64), s.astype(np.float64), np.arange(50), Scaling(y), 0)
    assert np.array_equal(block.truths, s[:, 0])
    # Only the truth that is a sample, up to its rounding, moves; and in that dimension.
    near = y.copy()
    near[7, 1] = float(s[7, 4, 1]) * (1 + 1e-9)
    block = mb.Block(near, s, np.arange(50), Scaling(near), 0)
    assert block.truths[7, 1] == s[7, 4, 1]
    assert np.array_equal(np.delete(block.truths.ravel(), 22), np.delete(near.ravel(), 22))


def test_names_are_not_letters(arrays):
    y, s = arrays
    refused("names='abc' is one word", mb.score, y, {"a": s}, names="abc")
    known, table = long_form(y, s)
    xs = {"truths": "truths.csv", "npe": "s.csv"}
    known.rename(columns=dict(zip(NAMES, ["b[0]", "b[1]", "c"], strict=True))).to_csv(xs["truths"], index=False)
    table.rename(columns=dict(zip(NAMES, ["b[0]", "b[1]", "c"], strict=True))).to_csv(xs["npe"], index=False)
    refused("twice", score_files, **xs, names=["b", "b[1]"])
    assert re.search(r"b\[1\]", score_files(**xs, names=["b[1]", "b[0]"]).names[0])


def test_a_run_refuses_samples_first_when_there_are_as_many_as_observations():
    def law(count, rng):
        return rng.normal(size=(count, 2))

    task = mb.Task.from_simulator(law, lambda y, rng: y + rng.normal(size=y.shape), block=32)

    def good(x, count):
        return 0.5 * x[:, None] + np.random.normal(size=(len(x), count, 2)) / 2**0.5

    class Swapped:
        version = 1

        def build(self, task, rng):
            return self

        def sample(self, x, count, rng):
            return 0.5 * x[None] + rng.normal(size=(count, len(x), 2)) / 2**0.5

    candidates = {"good": Given(good), "swapped": Swapped()}
    result = mb.run(task, candidates, fiducials=64, samples=32, metrics=["mira"])
    assert list(result.failures) == ["swapped"]
    assert "fiducials first" in result.failures["swapped"]
