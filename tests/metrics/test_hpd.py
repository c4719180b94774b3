import numpy as np
import pytest
from mira_bench.tasks.gaussian import Conjugate, ConjugateCandidate
from scipy import stats

import mira_bench as mb


def gaussian(rng, fiducials, samples, dim, width):
    r"""Log-densities of a candidate N(0, width^2 I) where the truth is N(0, I)."""
    points = rng.normal(size=(fiducials, samples + 1, dim))
    points[:, 1:] *= width
    density = stats.norm.logpdf(points, scale=width).sum(-1)
    return density[:, 0], density[:, 1:]


@pytest.mark.parametrize("width", [0.7, 1.0, 1.4])
def test_the_coverage_of_a_gaussian_follows_chi_square(rng, width):
    # The region of credibility a is |y|^2 <= width^2 q(a); the truth is inside with probability F(width^2 q(a)).
    fiducials, samples, dim = 2000, 200, 3
    result = mb.hpd_coverage(*gaussian(rng, fiducials, samples, dim, width))
    u = (np.arange(20001) + 0.5) / 20001  # quantiles of the truth's own |y|^2
    credibility = stats.chi2.cdf(stats.chi2.ppf(u, dim) / width**2, dim)
    floor = np.floor(result.levels * samples + 1e-9)
    exact = stats.binom.cdf(floor[:, None], samples, credibility).mean(axis=1)
    error = np.sqrt(exact * (1 - exact) / fiducials)
    assert (np.abs(result.coverage - exact) <= 4 * error + 1e-12).all()
    if width == 1:
        assert np.allclose(exact, result.expected, atol=1e-4)
        assert result.pvalue > 1e-4
    else:
        assert result.pvalue < 1e-4
        assert result.deviation > 4 * result.deviation_stderr
        assert np.sign(result.coverage[50] - 0.5) == np.sign(width - 1)  # too wide covers too much


def test_pvalues_are_uniform_and_the_band_covers(rng):
    results = [mb.hpd_coverage(*gaussian(rng, 60, 30, 2, 1.0), seed=s) for s in range(200)]
    assert stats.kstest([r.pvalue for r in results], "uniform").pvalue > 6e-5
    inside = np.mean([r.lower[50] <= r.expected[50] <= r.upper[50] for r in results])
    # The quantiles of 60 coin flips are coarse: the nominal 95 % are 93 %, and 4 standard errors of 200 repeats.
    assert abs(inside - 0.93) < 4 * np.sqrt(0.93 * 0.07 / 200)


def test_ties_are_broken_at_random(rng):
    # A uniform density: every sample ties with the truth, and the rank is pure chance.
    result = mb.hpd_coverage(np.zeros(3000), np.zeros((3000, 9)))
    counts = np.bincount(result.ranks[:, 0], minlength=10)
    assert stats.chisquare(counts).pvalue > 6e-5


def test_a_density_of_zero_is_outside_and_nan_is_refused():
    result = mb.hpd_coverage([-np.inf, 0.0], [[-1.0, -2.0], [-1.0, -2.0]])
    assert result.ranks.ravel().tolist() == [2, 0]
    with pytest.raises(mb.UsageError, match="at a sample of fiducial 1 is nan"):
        mb.hpd_coverage([0.0, 0.0], [[-1.0, -2.0], [-1.0, np.nan]])
    with pytest.raises(mb.UsageError, match=r"\(L, S\) are needed"):
        mb.hpd_coverage([0.0], [0.0])


def test_in_a_run():
    candidates = {"exact": ConjugateCandidate(), "narrow": ConjugateCandidate(width=0.7)}
    result = mb.run(Conjugate(), candidates, fiducials=250, samples=50, metrics={"hpd": mb.Hpd()})
    table = result.summary.set_index("candidate")
    assert table.pvalue["narrow"] < 1e-4 < table.pvalue["exact"]
    assert table.note["prior"] == "not computed: the candidate has no density"
    ranks = next(s.scores["hpd"].result.ranks for s in result.standings if s.name == "narrow")
    assert ranks.shape == (250, 1)
    arrays = mb.score(np.zeros((30, 1)), {"a": np.zeros((30, 5, 1))}, metrics={"hpd": mb.Hpd()})
    assert "no density" in arrays.summary.note[0]


def test_a_density_of_the_wrong_shape_says_so():
    from mira_bench.ranks.scaling import Scaling

    truths = np.zeros((4, 1))
    block = mb.Block(truths, np.zeros((4, 5, 1)), np.arange(4), Scaling(truths), 0, log_prob=lambda: np.zeros((4, 5)))
    with pytest.raises(mb.UsageError, match=r"\(4, 6\) is needed"):
        mb.Hpd().observe(block)
