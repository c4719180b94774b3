r"""At home in Python: what other libraries hold is scored by its names, and results show themselves."""

import warnings

import numpy as np
import pandas as pd
import pytest
from file_cases import METRICS, NAMES, L, S, long_form, refused, same

import mira_bench as mb
from mira_bench.cli import main


@pytest.fixture
def arrays(rng):
    x = rng.normal(size=(L, 3))
    return x + rng.normal(size=(L, 3)), x[:, None] + rng.normal(size=(L, S, 3))


@pytest.fixture
def reference(arrays):
    return mb.score(arrays[0], {"npe": arrays[1]}, metrics=METRICS)


def test_tables(arrays, reference):
    y, s = arrays
    known, table = long_form(y, s)
    shuffled = table.sample(frac=1, random_state=0)[["h", "sample", "Om", "fiducial", "s8"]]
    for truths in (known, known[NAMES], known.set_index("fiducial")):
        result = mb.score(truths, {"npe": shuffled}, metrics=METRICS)
        same(result, reference)
        assert result.names == NAMES
    same(mb.score(known, {"npe": s}, metrics=METRICS), reference)
    same(mb.score(known, {"npe": table.set_index(["fiducial", "sample"])}, metrics=METRICS), reference)
    # Labels and names decide, not positions.
    turned = mb.score(known[::-1], {"npe": shuffled}, metrics=METRICS)
    same(turned, reference)
    # An index that was shuffled may be labels, or be left from before.
    mixed = known[NAMES].sample(frac=1, random_state=1)
    refused(["truths", "rename_axis"], mb.score, mixed, {"npe": table}, metrics=METRICS)
    same(mb.score(mixed.rename_axis("fiducial"), {"npe": table}, metrics=METRICS), reference)
    refused("names=", mb.score, y, {"npe": table}, metrics=METRICS)
    same(mb.score(y, {"npe": table}, metrics=METRICS, names=NAMES), reference)
    refused("Om, s8, w", mb.score, known, {"npe": table.rename(columns={"h": "w"}), "b": s}, metrics=METRICS)


def test_labeled_arrays(arrays, reference):
    xarray = pytest.importorskip("xarray")
    y, s = arrays
    truths = xarray.DataArray(y, dims=("fiducial", "parameter"), coords={"parameter": NAMES})
    samples = xarray.DataArray(s, dims=("fiducial", "sample", "parameter"), coords={"parameter": NAMES})
    result = mb.score(truths, {"npe": samples}, metrics=METRICS)
    same(result, reference)
    assert result.names == NAMES
    order = [2, 0, 1]
    moved = samples.isel(parameter=order).transpose("parameter", "sample", "fiducial")
    same(mb.score(truths, {"npe": moved.transpose(..., "parameter")}, metrics=METRICS), reference)
    same(mb.score(truths.to_dataset("parameter"), {"npe": moved.to_dataset("parameter")}, metrics=METRICS), reference)
    # Without names of dimensions it is an array like others.
    same(mb.score(xarray.DataArray(y), {"npe": xarray.DataArray(s)}, metrics=METRICS), reference)


def test_labeled_arrays_with_names_of_their_own(arrays, reference, rng):
    xarray = pytest.importorskip("xarray")
    y, s = arrays
    order = rng.permutation(L)
    truths = xarray.DataArray(y[order], dims=("obs", "parameter"), coords={"obs": order, "parameter": NAMES})
    samples = xarray.DataArray(s, dims=("obs", "sample", "parameter"), coords={"obs": np.arange(L), "parameter": NAMES})
    same(mb.score(truths, {"npe": samples}, metrics=METRICS, fiducial="obs"), reference)
    turned = samples[..., [2, 0, 1]]
    same(mb.score(truths, {"npe": turned}, metrics=METRICS, fiducial="obs"), reference)
    # Labels are never taken for positions: not those of fiducials, of samples, or of parameters.
    refused("named by fiducial=", mb.score, truths, {"npe": samples}, metrics=METRICS)
    other = samples.rename(sample="s")
    refused("'sample'", mb.score, truths, {"npe": other}, metrics=METRICS, fiducial="obs")
    plain = truths.drop_vars(["obs", "parameter"])
    refused("named by fiducial=", mb.score, plain, {"npe": turned.drop_vars("obs")}, metrics=METRICS)


def test_functions_of_arrays_refuse_labels_that_differ(arrays):
    xarray = pytest.importorskip("xarray")
    y, s = arrays
    known = pd.DataFrame(y, columns=NAMES)
    samples = xarray.DataArray(s, dims=("fiducial", "sample", "parameter"), coords={"parameter": NAMES})
    expected = mb.mira(y, s).score
    assert mb.mira(known, s).score == mb.mira(known, samples).score == expected
    for function in (mb.mira, mb.calibration, mb.energy_score, mb.tarp, mb.sbc):
        refused(["Om, s8, h", "s8, Om, h", "mb.score"], function, known[["s8", "Om", "h"]], samples)
        refused(["truths labels", "mb.score"], function, known.sample(frac=1, random_state=0), s)
        refused(["samples labels"], function, y, samples.assign_coords(fiducial=np.arange(L)[::-1]))
    a, b = (pd.DataFrame(s[i], columns=NAMES) for i in range(2))
    assert mb.energy_score(y, s).score > 0
    mb.wasserstein(a.sample(frac=1, random_state=0), b)  # rows of a set have no order
    refused("s8, Om, h", mb.wasserstein, a, b[["s8", "Om", "h"]])


def test_data_that_are_missing_are_refused(arrays, tmp_path, capsys):
    y, s = arrays
    for bad in (np.nan, np.inf):
        x = y.copy()
        x[17, 1] = bad
        refused([f"x is {bad}", "(17, 1)"], mb.score, y, {"npe": s}, x=x, metrics=METRICS)
        refused("(17, 1)", mb.calibration, y, s, x=x)
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "s.npy", s)
    np.save(tmp_path / "x.npy", x)
    files = [f"{tmp_path}/y.npy", f"npe={tmp_path}/s.npy", "--x", f"{tmp_path}/x.npy"]
    assert main(["score", *files, "--out", str(tmp_path / "out")]) == 2
    assert "(17, 1)" in capsys.readouterr().err


def test_what_cannot_be_meant_is_refused(arrays):
    y, s = arrays
    known, table = long_form(y, s)
    refused("names='Om,s8,h' is one word", mb.score, y, {"npe": s}, names="Om,s8,h")
    refused("twice", mb.score, y, {"npe": s}, names=["Om", "Om", "h"])
    refused("thin=0", mb.score, y, {"npe": s}, thin=0)
    wide = table.set_index(["fiducial", "sample"]).unstack("sample")
    refused("2 levels", mb.score, known, {"npe": wide})
    other = known.assign(fiducial=known["fiducial"] + 1)
    refused("labeled otherwise", mb.score, other, {"npe": table})
    counted = table.assign(multiplicity=np.arange(len(table)) % 7)
    refused("multiplicity", mb.score, known, {"npe": counted}, names=NAMES)


def test_a_reference_is_matched_as_candidates_are(arrays, rng):
    y, s = arrays
    metrics = {"moments": mb.Moments(), "energy": mb.Energy()}
    known, table = long_form(y, s)
    expected = mb.score(y, {"npe": s}, reference=s, metrics=metrics)
    order = rng.permutation(L)
    for truths, given in ((known, s), (known, table), (known.iloc[order], table)):
        result = mb.score(truths, {"npe": table}, reference=given, metrics=metrics)
        same(result, expected)
    same(mb.score(y, {"npe": s.swapaxes(0, 1)}, reference=s.swapaxes(0, 1), layout="SLd", metrics=metrics), expected)
    rows = {"npe": table}
    refused(["reference", "label"], mb.score, known.iloc[order], rows, reference=s[order], metrics=metrics)
    refused("Om, s8, w", mb.score, known, rows, reference=table.rename(columns={"h": "w"}), metrics=metrics)
    refused(["groups", "labels"], mb.score, known.iloc[order], rows, groups=np.arange(L) // 2, metrics=metrics)


def test_inference_data(arrays, reference):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arviz announces its successor
        arviz = pytest.importorskip("arviz", exc_type=ImportError)
        y, s = arrays
        chains = s.reshape(L, 2, S // 2, 3).transpose(1, 2, 0, 3)
        dims = {name: ["observation"] for name in NAMES}
        data = arviz.from_dict(posterior={name: chains[..., i] for i, name in enumerate(NAMES)}, dims=dims)
        result = mb.score(pd.DataFrame(y, columns=NAMES), {"npe": data}, metrics=METRICS)
    same(result, reference)
    assert len(result.standings[0].convergence.values["rhat"]) == L
    refused(["InferenceData", "truths"], mb.score, data, {"npe": s}, metrics=METRICS)


def test_a_tree_of_xarray(arrays, reference):
    xarray = pytest.importorskip("xarray")
    y, s = arrays
    chains = s.reshape(L, 2, S // 2, 3).transpose(1, 2, 0, 3)
    dims = ("chain", "draw", "observation")
    posterior = xarray.Dataset({name: (dims, chains[..., i]) for i, name in enumerate(NAMES)})
    tree = xarray.DataTree.from_dict({"/posterior": posterior, "/sample_stats": xarray.Dataset()})
    result = mb.score(pd.DataFrame(y, columns=NAMES), {"npe": tree}, metrics=METRICS)
    same(result, reference)
    assert len(result.standings[0].convergence.values["rhat"]) == L
    alone = xarray.DataTree.from_dict({"/prior": posterior})
    refused(["DataTree without the group posterior", "prior"], mb.score, y, {"npe": alone}, metrics=METRICS)


def test_sentences_have_the_words_of_python(arrays, tmp_path):
    y, s = arrays
    frame = pd.DataFrame(y, columns=[*NAMES])
    other = pd.DataFrame(y, columns=[f"other_{name}" for name in NAMES])
    long = long_form(y, s)[1]
    square = tmp_path / "square.npy"
    np.save(square, np.resize(s, (L, L, 3)))
    with pytest.raises(mb.UsageError, match=r"or names= must select them$"):
        mb.score(other, {"npe": long}, metrics=METRICS)
    with pytest.raises(
        mb.UsageError, match=r"layout='LSd' \(fiducials first\) or layout='SLd' \(samples first"
    ) as caught:
        mb.score(frame, {"npe": square}, metrics=METRICS)
    assert "--" not in str(caught.value)
    assert "Hydra" not in str(caught.value)


def test_paths(arrays, reference, tmp_path):
    y, s = arrays
    np.save(tmp_path / "s.npy", s)
    same(mb.score(y, {"npe": tmp_path / "s.npy"}, metrics=METRICS), reference)
    same(mb.score(y, {"npe": str(tmp_path / "s.npy")}, metrics=METRICS), reference)
    # Here a file that is not there is an error, whoever else there is.
    refused("no file", mb.score, y, {"npe": s, "gone": tmp_path / "gone.npy"}, metrics=METRICS)


def test_posteriors_are_sampled_given_x(rng):
    x = rng.normal(size=(200, 2))
    y = x + 0.5 * rng.normal(size=(200, 2))

    def exact(x, count):
        return x[:, None] + 0.5 * np.random.normal(size=(len(x), count, 2))

    result = mb.score(y, {"exact": exact}, x=x, samples=64, metrics=["mira", "sbc"])
    drawn = mb.score(y, {"exact": mb.draw(exact, x, 64)}, x=x, metrics=["mira", "sbc"])
    same(result, drawn)
    assert result.standings[0].mira.pvalue > 1e-3
    refused("x=", mb.score, y, {"exact": exact})


def test_the_calibration_test_is_a_function(arrays):
    y, s = arrays
    result = mb.score(y, {"npe": s}, metrics=["calibration"])
    assert mb.calibration(y, s).pvalue == result.standings[0].calibration.pvalue
    assert mb.calibration(y, s).pvalue > 1e-3 > mb.calibration(y, 0.3 * (s - y[:, None]) + y[:, None] + 1).pvalue


def test_results_show_themselves(rng):
    x = rng.normal(size=(200, 2))
    truths = x + 0.3 * rng.normal(size=(200, 2))
    good, narrow = (x[:, None] + w * rng.normal(size=(200, 60, 2)) for w in (0.3, 0.1))
    result = mb.score(truths, {"good": good, "<script>alert(1)</script>": narrow})
    assert repr(result).endswith("good is first: no miscalibration found")
    page = result._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    for words in (
        "good is first",
        "overconfident",
        "would have seen",
        f"{result.ranking.mira[0]:.4f}",
        "To do: use it",
    ):
        assert words in page


def test_plots(rng):
    from matplotlib.figure import Figure

    x = rng.normal(size=(60, 2))
    truths, samples = x + rng.normal(size=(60, 2)), x[:, None] + rng.normal(size=(60, 40, 2))
    result = mb.score(truths, {"a": samples, "b": 0.5 * samples}, metrics=["mira", "tarp", "energy", "sbc"])
    for kind in ("overview", "sbc", "mira", "coverage", "skill"):
        assert isinstance(result.plot(kind), Figure)
    axes = Figure().subplots()
    assert result.plot("coverage", ax=axes) is axes
    tarp = result.standings[0].scores["tarp"].result
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert np.array_equal(lines["a"], tarp.coverage - tarp.expected)
    for kind in ("overview", "sbc"):
        refused([f"the plot {kind!r} makes a figure of its own", "leave ax= out"], result.plot, kind, ax=axes)
    refused("'vibes'", result.plot, "vibes")
    refused("'convergence' was not computed", result.plot, "convergence")
    refused("nothing was trained", result.plot, "training")


def test_a_folder_is_read_again(rng, tmp_path):
    truths, samples = rng.normal(size=(60, 2)), rng.normal(size=(60, 40, 2))
    result = mb.score(truths, {"null": samples}, metrics=["mira", "energy", "calibration"])
    saved = mb.load(result.save(tmp_path / "here"))
    assert saved.ranking.candidate.tolist() == ["null"]
    assert saved.ranking.mira[0] == result.ranking.mira[0]
    pd.testing.assert_frame_equal(saved.scores, result.scores, check_exact=True)
    assert saved.summary.score.tolist() == result.summary.score.tolist()
    assert "null is first" in repr(saved)
    assert "null is first" in saved._repr_html_()
    refused("ranking.csv", mb.load, tmp_path)
