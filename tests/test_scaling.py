r"""Normalization must treat the truth like a sample."""

import numpy as np
import pytest

import mira_bench as mb
from mira_bench.ranks.scaling import Scaling


def test_others_leaves_each_fiducial_out(rng):
    truths = rng.normal(size=(12, 3))
    scale = Scaling(truths).scale("others", None, np.arange(12))
    for l in range(12):
        rest = np.delete(truths, l, axis=0)
        assert np.allclose(scale.low[l], rest.min(0))
        assert np.allclose(scale.low[l] + scale.width[l], rest.max(0))


def test_others_where_the_rest_is_constant():
    truths = np.ones((11, 2))
    truths[0, 0] = 3.0
    scale = Scaling(truths).scale("others", None, np.arange(11))
    assert np.allclose(scale.width[0], [2, 1])  # the overall range; and one where there is none at all
    assert np.allclose(scale.width[1], [2, 1])


def test_repeated_extremes_are_kept(rng):
    truths = rng.normal(size=(12, 1))
    truths[:2] = truths.max() + 1  # two fiducials share the maximum: leaving one out keeps it
    scale = Scaling(truths).scale("others", None, np.arange(12))
    assert np.allclose(scale.low + scale.width, truths.max())


@pytest.mark.parametrize(
    ("fiducials", "bounds", "expected"),
    [(100, None, "others"), (9, None, "joint"), (9, ([0, 0], [1, 1]), "task"), (1, None, "joint")],
)
def test_auto(rng, fiducials, bounds, expected):
    result = mb.mira(rng.random((fiducials, 2)), rng.random((fiducials, 5, 2)), bounds=bounds)
    assert result.normalize == expected


@pytest.mark.parametrize("normalize", ["joint", "others", "none"])
@pytest.mark.parametrize("dim", [2, 100, 3000])
def test_exchangeable_scales_are_unbiased_in_any_dimension(rng, normalize, dim):
    count = 60 if dim == 3000 else 300
    truths, samples = rng.normal(size=(count, dim)), rng.normal(size=(count, 64, dim))
    result = mb.mira(truths, samples.astype(np.float32), normalize=normalize, regions=20)
    assert abs(result.score - result.expected) < 4 * result.stderr


def test_min_max_of_the_samples_is_biased_in_many_dimensions(rng):
    # A perfect candidate loses .05 because the extremes always belong to the samples.
    truths, samples = rng.normal(size=(60, 3000)), rng.normal(size=(60, 64, 3000))
    result = mb.mira(truths, samples, normalize="samples", regions=20)
    assert result.score < result.expected - 0.04
    assert not result.exchangeable


def test_own_truth_in_the_range_is_biased_with_few_fiducials(rng):
    truths, samples = rng.normal(size=(8, 2000)), rng.normal(size=(8, 50, 2000))
    assert mb.mira(truths, samples, normalize="truths").score < 0.52
    fair = mb.mira(truths, samples, normalize="others")
    assert abs(fair.score - fair.expected) < 4 * fair.null_stderr


def test_scales_make_units_irrelevant(rng):
    truths, samples = rng.normal(size=(50, 3)), rng.normal(size=(50, 40, 3))
    units = np.array([1e-3, 1.0, 1e5])
    for normalize in ("joint", "others", "truths", "samples"):
        a = mb.mira(truths, samples, normalize=normalize).ranks
        b = mb.mira(truths * units + 7, samples * units + 7, normalize=normalize).ranks
        assert (a == b).mean() > 0.999
    low, high = truths.min(0), truths.max(0)
    a = mb.mira(truths, samples, bounds=(low, high)).ranks
    assert np.array_equal(a, mb.mira(truths, samples, normalize="truths").ranks)


def test_pooled_uses_all_candidates(rng):
    truths = rng.normal(size=(30, 2))
    a, b = rng.normal(size=(30, 20, 2)), 10 * rng.normal(size=(30, 20, 2))
    together = mb.score(truths, {"a": a, "b": b}, normalize="pooled")
    alone = mb.mira(truths, a, normalize="joint")
    both = next(s for s in together.standings if s.name == "a").mira
    assert both is not None
    assert both.normalize == "pooled"
    # The range of both is that of b (ten times wider) nearly always: other balls, other ranks.
    assert not np.array_equal(both.ranks, alone.ranks)
    low = np.minimum(truths, np.minimum(a.min(1), b.min(1)))
    high = np.maximum(truths, np.maximum(a.max(1), b.max(1)))
    by_hand = [
        mb.mira(truths[l : l + 1], a[l : l + 1], bounds=(low[l], high[l]), regions=3000).score for l in range(30)
    ]
    assert np.corrcoef(by_hand, both.per_fiducial)[0, 1] > 0.9


def test_what_cannot_be_had_is_said(rng):
    truths, samples = rng.random((5, 2)), rng.random((5, 4, 2))
    for normalize, words in {"task": "declares", "pooled": "all candidates", "foo": "not one of"}.items():
        with pytest.raises(mb.UsageError, match=words):
            mb.mira(truths, samples, normalize=normalize)
    with pytest.raises(mb.UsageError, match="low < high"):
        mb.mira(truths, samples, bounds=([0, 0], [1, 0]))
