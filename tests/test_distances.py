r"""Other distances and other centers: kernels against brute force, and calibration under each."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import mira_bench as mb
from mira_bench.ranks.centers import make_centers
from mira_bench.ranks.scaling import Scaling

ORACLES = {
    "l2": {"metric": "euclidean"},
    "l1": {"metric": "cityblock"},
    "chebyshev": {"metric": "chebyshev"},
    "cosine": {"metric": "cosine"},
    "minkowski(3)": {"metric": "minkowski", "p": 3},
    "minkowski(4)": {"metric": "minkowski", "p": 4},
    "minkowski(5)": {"metric": "minkowski", "p": 5},
    "minkowski(1.5)": {"metric": "minkowski", "p": 1.5},
}


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("dim", [1, 2, 13, 40])
def test_ranks_equal_brute_force(rng, name, dim):
    if name == "cosine" and dim == 1:
        pytest.skip("every angle is 0 or pi")
    truths, samples = rng.normal(size=(8, dim)), rng.normal(size=(8, 600, dim))
    ranks = mb.mira(truths, samples, distance=name, normalize="others" if dim > 1 else "joint").ranks
    index = np.arange(8)
    scale = Scaling(truths).scale("others" if dim > 1 else "joint", samples, index)
    centers = make_centers("uniform", 0, 100, dim).draw(index)
    for l in range(8):
        y = (truths[l] - scale.low[l]) / scale.width[l]
        s = (samples[l] - scale.low[l]) / scale.width[l]
        c = centers[l].astype(float)
        expected = (cdist(c, s, **ORACLES[name]) < cdist(c, y[None], **ORACLES[name])).sum(1)
        assert np.abs(ranks[l] - expected).max() <= 1
        assert (ranks[l] == expected).mean() > 0.95


@pytest.mark.parametrize("name", [*ORACLES, "callable"])
def test_perfect_candidates_are_unbiased_under_every_distance(rng, name):
    distance = (lambda y, c: np.abs(y - c).sum(-1) ** 0.5) if name == "callable" else name
    truths, samples = rng.normal(size=(400, 3)), rng.normal(size=(400, 40, 3))
    result = mb.mira(truths, samples, distance=distance, regions=20)
    assert abs(result.score - result.expected) < 4 * result.stderr
    assert result.pvalue > 1e-4
    narrow = mb.mira(truths, 0.5 * samples, distance=distance, regions=20)
    assert narrow.pvalue < 1e-3


def test_a_function_is_the_distance_it_computes(rng):
    truths, samples = rng.normal(size=(10, 4)), rng.normal(size=(10, 50, 4))
    ours = mb.mira(truths, samples, distance="l1").ranks
    theirs = mb.mira(truths, samples, distance=lambda y, c: np.abs(y - c).sum(-1)).ranks
    assert np.abs(ours - theirs).max() <= 1
    with pytest.raises(mb.UsageError, match="the distance returned shape"):
        mb.mira(truths, samples, distance=lambda y, c: np.abs(y - c))


def test_the_largest_power_is_the_largest_coordinate(rng):
    truths, samples = rng.normal(size=(12, 3)), rng.normal(size=(12, 40, 3))
    ranks = [mb.mira(truths, samples, distance=name).ranks for name in ("minkowski(inf)", "chebyshev")]
    assert np.array_equal(*ranks)


def test_ties_under_every_distance():
    truths, samples = np.ones((3000, 2)), np.ones((3000, 4, 2))
    for name in ORACLES:
        ranks = mb.mira(truths, samples, distance=name, normalize="none", regions=1).ranks
        share = np.bincount(ranks.ravel(), minlength=5) / 3000
        assert np.abs(share - 0.2).max() < 4 * np.sqrt(0.2 * 0.8 / 3000), name


def test_narrow_posteriors_far_from_the_centers(rng):
    # One millionth of the box: the digits that decide must survive.
    truths = rng.random((60, 3))
    noise, samples = 1e-6 * rng.normal(size=(60, 3)), 1e-6 * rng.normal(size=(60, 200, 3))
    for name in ("l1", "chebyshev", "minkowski(3)", "cosine"):
        result = mb.mira(truths + noise, truths[:, None] + samples, distance=name, bounds=(0, 1))
        assert abs(result.score - result.expected) < 4 * result.stderr, name
        assert len(np.unique(result.ranks)) > 100


@pytest.mark.parametrize("name", ["l3", "minkowski", "minkowski(0.5)", "minkowski(nan)", "minkowski(x)", "l1(2)", 7])
def test_unknown_distances(rng, name):
    with pytest.raises(mb.UsageError, match="minkowski"):
        mb.mira(rng.normal(size=(12, 2)), rng.normal(size=(12, 3, 2)), distance=name)


@pytest.mark.parametrize("law", ["uniform(-10,10)", "normal(-5,1)", "beta(2,5)", "prior"])
def test_centers_of_every_law_are_unbiased(rng, law):
    truths, samples = rng.normal(size=(400, 2)), rng.normal(size=(400, 40, 2))
    result = mb.mira(truths, samples, centers=law, regions=20)
    assert abs(result.score - result.expected) < 4 * result.stderr


@pytest.mark.parametrize(
    ("law", "mean", "sd"),
    [
        ("uniform", 0.5, 12**-0.5),
        ("uniform(-10, 10)", 0, 20 / 12**0.5),
        ("normal(-5,1)", -5, 1),
        ("beta(2,5)", 2 / 7, (10 / (49 * 8)) ** 0.5),
    ],
)
def test_laws(law, mean, sd):
    draws = make_centers(law, 0, 100, 3).draw(np.arange(100)).ravel()
    assert np.isfinite(draws).all()
    assert abs(draws.mean() - mean) < 4 * sd / np.sqrt(draws.size)
    assert abs(draws.std() / sd - 1) < 4 / np.sqrt(draws.size)


def test_prior_centers_leave_the_fiducial_out(rng):
    truths = rng.normal(size=(5, 2))
    drawn = make_centers("prior", 0, 200, 2, truths=truths).draw(np.arange(5))
    for l in range(5):
        used = {tuple(c) for c in drawn[l]}
        assert used == {tuple(t) for t in np.delete(truths, l, axis=0)}


def test_uninformative_estimator(rng):
    r"""The paper's Appendix: the prior scores 2/3, unless the regions depend on the observation."""
    truths = rng.normal(size=(1000, 1))
    x, prior = truths + 0.1 * rng.normal(size=(1000, 1)), rng.normal(size=(1000, 500, 1))
    blind = mb.mira(truths, prior, normalize="none")
    seeing = mb.mira(truths, prior, normalize="none", centers="x(0.05)", x=x)
    assert abs(blind.score - blind.expected) < 4 * blind.null_stderr
    assert abs(seeing.score - 0.5437) < 4 * np.hypot(seeing.stderr, 0.0024)
    exact = x[:, None] / 1.01 + np.sqrt(0.01 / 1.01) * rng.normal(size=(1000, 500, 1))
    good = mb.mira(truths, exact, normalize="none", centers="x(0.05)", x=x)
    assert abs(good.score - good.expected) < 4 * good.null_stderr
    assert mb.tarp(truths, prior, normalize="none", centers="x(0.05)", x=x).pvalue < 1e-6


def test_given_centers(rng):
    truths, samples = rng.normal(size=(20, 2)), rng.normal(size=(20, 30, 2))
    points = rng.normal(size=(20, 7, 2))
    result = mb.mira(truths, samples, centers=points)
    assert result.ranks.shape == (20, 7)
    scaled = mb.mira(truths * 3 + 1, samples * 3 + 1, centers=points * 3 + 1)  # they follow the units
    assert (result.ranks == scaled.ranks).mean() > 0.99
    one = mb.tarp(truths, samples, centers=points[:, 0])
    assert np.array_equal(one.ranks[:, 0], result.ranks[:, 0])
    everywhere = mb.mira(truths, samples, centers=points[0])
    assert everywhere.ranks.shape == (20, 7)
    assert np.array_equal(everywhere.ranks[0], result.ranks[0])
    drawn = mb.mira(truths, samples, centers=lambda count, rng: rng.normal(size=(count, 2)), regions=9)
    assert drawn.ranks.shape == (20, 9)


def test_bad_centers(rng):
    truths, samples = rng.normal(size=(12, 2)), rng.normal(size=(12, 5, 2))
    for centers in ("gauss", "normal(1)", "x", "uniform(a,b)"):
        with pytest.raises(mb.UsageError, match="not one of uniform"):
            mb.mira(truths, samples, centers=centers)
    for centers, words in [
        (np.zeros((4, 3)), "centers has shape"),
        (np.full((12, 2), np.nan), "not finite"),
        (lambda count, rng: np.zeros((count, 3)), "centers has shape"),
        ("x(0.1)", "needs the observations"),
    ]:
        with pytest.raises(mb.UsageError, match=words):
            mb.mira(truths, samples, centers=centers)
    with pytest.raises(mb.UsageError, match="x has 3 dimensions"):
        mb.mira(truths, samples, centers="x(0.1)", x=np.zeros((12, 3)))


def test_one_shared_set_is_not_copied(rng):
    truths, samples = rng.normal(size=(300, 2)), rng.normal(size=(1, 40, 2))
    shared = mb.mira(truths, samples, normalize="none", regions=10)
    copied = mb.mira(truths, np.repeat(samples, 300, axis=0), normalize="none", regions=10, groups=np.zeros(300))
    assert np.array_equal(shared.ranks, copied.ranks)
    assert shared.stderr == pytest.approx(copied.stderr)
    assert shared.stderr > 1.2 * shared.per_fiducial.std() / np.sqrt(300)
    rows = mb.score(truths, {"shared": samples}).summary.set_index("metric")
    assert rows.note[["sbc", "tarp"]].str.contains("share a sample set").all()
    assert rows.pvalue[["sbc", "tarp"]].isna().all()  # they would reject a perfect candidate
    assert rows.pvalue["calibration"] > 0.001  # its players are drawn from truths and samples together


def test_theory():
    assert mb.theory(10**5).mean == pytest.approx(2 / 3, abs=1e-5)
    small = mb.theory(200)
    assert small.variance == pytest.approx(1 / 18, rel=0.02)
    assert small.variance_all == pytest.approx(1 / 180, rel=0.02)
    assert (small.lower, small.upper) == (0.5, pytest.approx(0.75, abs=2e-3))
