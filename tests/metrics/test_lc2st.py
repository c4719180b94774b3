import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mira_bench as mb

SMALL = {"fiducials": 3, "most_samples": 50, "trials": 14}


def conjugate(rng, count, shift):
    y = rng.normal(size=(count, 2))
    x = y + 0.5 * rng.normal(size=y.shape)
    width = 0.5 / np.sqrt(1.25)
    return y, x, x[:, None] / 1.25 + width * (shift + rng.normal(size=(count, 60, 2)))


@pytest.fixture(scope="module")
def results():
    # One of 15 exact candidates has the smallest p-value that 14 trials allow; the one of this seed has not.
    rng = np.random.default_rng(1)
    out = {}
    for name, shift in (("exact", 0.0), ("shifted", 1.5)):
        y, x, samples = conjugate(rng, 200, shift)
        out[name] = (y, x, samples, mb.lc2st(y, samples, x, **SMALL))
    return out


def test_a_shifted_candidate_is_rejected_and_the_exact_one_is_not(results):
    exact, shifted = results["exact"][-1], results["shifted"][-1]
    assert shifted.pvalue == pytest.approx(1 / 15)
    assert exact.pvalue > 1 / 15
    assert shifted.score > 3 * shifted.expected
    assert shifted.statistics.shape == shifted.pvalues.shape == (3,)
    assert shifted.null.shape == (14, 3)
    assert shifted.bonferroni == pytest.approx(min(1, 3 * shifted.pvalues.min()))


def test_as_a_metric_it_is_the_same_and_leaves_random_states_alone(results):
    torch = pytest.importorskip("torch")
    y, x, samples, direct = results["shifted"]
    np.random.seed(5)
    torch.manual_seed(5)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()
    result = mb.score(y, {"shifted": samples}, x=x, metrics={"lc2st": mb.Lc2st(**SMALL)})
    assert np.array_equal(np.random.get_state()[1], before[0])
    assert torch.equal(torch.get_rng_state(), before[1])
    scores = result.standings[0].scores["lc2st"]
    assert np.array_equal(scores.result.statistics, direct.statistics)
    assert np.array_equal(scores.result.null, direct.null)
    assert (scores.score, scores.expected, scores.pvalue) == (direct.score, direct.expected, direct.pvalue)
    for words in ("3 observations", "mlp trained on 200 pairs", "14 null trials", "Bonferroni"):
        assert words in scores.note


def test_the_random_forest_runs_too(results):
    y, x, samples, _ = results["shifted"]
    result = mb.lc2st(y[:60], samples[:60], x[:60], fiducials=2, trials=3, classifier="random_forest")
    assert result.pvalue == pytest.approx(1 / 4)


def test_what_it_cannot_do_it_says(rng):
    y, x, samples = conjugate(rng, 30, 0.0)
    metrics = {"lc2st": mb.Lc2st(**SMALL)}
    for candidate, data, words in [
        (samples, None, "there are no observations"),
        (samples[:, :1], x, "needs two"),
    ]:
        assert words in mb.score(y, {"a": candidate}, x=data, metrics=metrics).summary.note[0]
    with pytest.raises(mb.UsageError, match=r"x is nan at index \(4, 0\)"):
        mb.lc2st(y, samples, np.where(np.arange(30)[:, None] == 4, np.nan, x))
    few = mb.score(y[:10], {"a": samples[:10]}, x=x[:10], metrics=metrics).summary.note[0]
    assert few == "not computed: L-C2ST needs at least 20 fiducials, there are 10"
    for change, words in [
        ({"trials": 0}, "trials=0"),
        ({"classifier": "oracle"}, "not one of mlp"),
        ({"fiducials": 0}, "fiducials=0"),
    ]:
        with pytest.raises(mb.UsageError, match=words):
            mb.Lc2st(**change)
    with pytest.raises(mb.UsageError, match="x has 29"):
        mb.lc2st(y, samples, x[:29])


def test_importing_the_package_imports_no_learner():
    code = "import sys, mira_bench; print([m for m in ('sbi', 'sklearn', 'torch') if m in sys.modules])"
    root = Path(mb.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
