r"""The kernel against brute force, and what it must survive."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mira_bench as mb
from mira_bench.ranks.centers import uniform_centers
from mira_bench.ranks.kernel import _count_torch, ball_ranks, marginal_ranks
from mira_bench.ranks.scaling import Scale, Scaling
from mira_bench.ranks.tables import rank_table


def brute_force(truths, samples, scale, centers):
    r"""Distances in float64, one by one; and which ranks a rounding of single precision could move."""
    ranks = np.empty(centers.shape[:2], int)
    sure = np.empty(centers.shape[:2], bool)
    for l in range(len(truths)):
        low, width = (rows[0] for rows in scale.rows(slice(l, l + 1)))
        y = (truths[l] - low) / width
        # In coordinates relative to the truth, because a large offset would spoil the oracle.
        z, b = (np.asarray(samples[l], np.float64) - truths[l]) / width, centers[l] - y
        margin = 2 * b @ z.T - (z**2).sum(1)
        size = 2 * np.linalg.norm(b, axis=1)[:, None] * np.linalg.norm(z, axis=1) + (z**2).sum(1)
        ranks[l] = (margin > 0).sum(1)
        sure[l] = (np.abs(margin) > 1e-5 * size).all(1)
    return ranks, sure


@pytest.mark.parametrize("dim", [1, 2, 3, 5, 8, 13, 16, 17, 40, 1500])
@pytest.mark.parametrize("samples", [1, 7, 700])
def test_kernel_equals_brute_force(rng, dim, samples):
    count = 3 if dim > 100 else 12
    truths = rng.normal(size=(count, dim))
    values = rng.normal(size=(count, samples, dim)) * rng.uniform(0.1, 2, size=dim)
    index = np.arange(count)
    centers = uniform_centers(3, 9, dim)
    for name in ("none", "joint", "others", "samples", "truths", "scalar"):
        scale = Scaling(truths).scale(name, values, index)
        expected, sure = brute_force(truths, values, scale, centers.draw(index).astype(float))
        ranks = ball_ranks(truths, values, scale, centers)
        assert sure.mean() > 0.9
        assert np.array_equal(ranks[sure], expected[sure]), name
        assert np.abs(ranks - expected).max() <= 1


@pytest.mark.parametrize("dim", [2, 40])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_all_precisions_agree(rng, dim, dtype):
    values = rng.normal(size=(20, 60, dim)).astype(np.float16)
    truths = rng.normal(size=(20, dim)).astype(np.float16)
    reference = mb.mira(truths.astype(float), values.astype(float)).ranks
    assert np.array_equal(mb.mira(truths.astype(dtype), values.astype(dtype)).ranks, reference)


@pytest.mark.parametrize("dim", [2, 30])
def test_large_offsets_do_not_matter(rng, dim):
    truths, values = rng.normal(size=(50, dim)), rng.normal(size=(50, 80, dim))
    near = mb.mira(truths, values).ranks
    far = mb.mira(1e6 + 1e-3 * truths, 1e6 + 1e-3 * values).ranks
    # 1e-3 at 1e6 keeps about seven digits, so single samples may change sides.
    assert np.abs(near - far).max() <= 1
    assert (near == far).mean() > 0.99


def test_widths_and_outliers_stay_in_range(rng):
    truths, values = rng.normal(size=(30, 2)), rng.normal(size=(30, 50, 2))
    scale = Scale("none", np.zeros((1, 2)), np.ones((1, 2)))
    tiny = Scale("none", np.zeros((1, 2)), np.full((1, 2), 1e30))
    centers = uniform_centers(0, 20, 2)
    index = np.arange(30)
    ranks = ball_ranks(truths, values, tiny, centers)
    expected, sure = brute_force(truths, values, tiny, centers.draw(index).astype(float))
    assert np.array_equal(ranks[sure], expected[sure])
    values[:, 0] = 1e30  # a sampler that diverged
    ranks = ball_ranks(truths, values, scale, centers)
    expected, sure = brute_force(truths, values, scale, centers.draw(index).astype(float))
    assert np.array_equal(ranks[sure], expected[sure])


@pytest.mark.parametrize("dim", [1, 2, 20])
def test_ties_are_broken_at_random(dim):
    # All samples equal the truth: J is uniform on 0..S, and the score never falls below its bound.
    truths, values = np.ones((4000, dim)), np.ones((4000, 4, dim))
    result = mb.mira(truths, values, regions=5, normalize="none")
    counts = np.bincount(result.ranks.ravel(), minlength=5)
    n = counts.sum()
    assert np.abs(counts / n - 0.2).max() < 4 * np.sqrt(0.2 * 0.8 / n)
    assert result.per_fiducial.min() >= 0.5
    ranks = marginal_ranks(truths, values)
    counts = np.bincount(ranks[:, 0], minlength=5)
    assert np.abs(counts / 4000 - 0.2).max() < 4 * np.sqrt(0.2 * 0.8 / 4000)


def test_threads_and_subsets_change_nothing(rng):
    truths, values = rng.normal(size=(3000, 2)), rng.normal(size=(3000, 20, 2))
    one, two = (mb.mira(truths, values, threads=n, regions=300).ranks for n in (1, 2))
    assert np.array_equal(one, two)
    scale = Scaling(truths).scale("none", values, np.arange(3000))
    centers = uniform_centers(0, 30, 2)
    whole = ball_ranks(truths, values, scale, centers)
    part = ball_ranks(truths[70:90], values[70:90], scale, centers, index=np.arange(70, 90))
    assert np.array_equal(whole[70:90], part)


def test_torch_path_equals_the_kernel(rng):
    torch = pytest.importorskip("torch")
    for dim in (2, 300):
        truths, values = rng.normal(size=(10, dim)), rng.normal(size=(10, 40, dim))
        values[0, 0] = truths[0]
        scale = Scaling(truths).scale("others", values, np.arange(10))
        centers = uniform_centers(0, 25, dim)
        expected = ball_ranks(truths[1:], values[1:], Scale("", scale.low[1:], scale.width[1:]), centers,
                              index=np.arange(1, 10))  # fmt: skip
        for l in range(10):
            closer, copies, bad = _count_torch(
                torch.as_tensor(values[l]), truths[l], scale.low[l], 1 / scale.width[l],
                centers.draw(np.array([l]))[0],
            )  # fmt: skip
            assert (copies, bad) == (int(l == 0), -1)
            if l:
                assert np.abs(closer - expected[l - 1]).max() <= 1
                assert (closer == expected[l - 1]).mean() > 0.95


def test_tensors_and_lists_are_accepted(rng):
    torch = pytest.importorskip("torch")
    truths, values = rng.normal(size=(12, 3)), rng.normal(size=(12, 9, 3))
    ranks = mb.mira(truths, values).ranks
    assert np.array_equal(mb.mira(torch.tensor(truths), torch.tensor(values)).ranks, ranks)
    assert np.array_equal(mb.mira(truths.tolist(), values.tolist()).ranks, ranks)
    half = torch.tensor(values, dtype=torch.bfloat16)
    # The truth is treated like a sample, which was rounded.
    rounded = torch.tensor(truths).bfloat16().double()
    assert np.array_equal(
        mb.mira(truths, half, normalize="none").ranks, mb.mira(rounded, half.float(), normalize="none").ranks
    )
    images = values.reshape(12, 9, 3, 1)
    assert np.array_equal(mb.mira(truths.reshape(12, 3, 1), images).ranks, ranks)


@pytest.mark.parametrize("dim", [2, 50])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_samples_are_named(rng, dim, value):
    values = rng.normal(size=(9, 30, dim))
    values[4, 17, 1] = value
    with pytest.raises(mb.UsageError, match="fiducial 4, sample 17"):
        mb.mira(rng.normal(size=(9, dim)), values)


def test_inputs_are_not_changed(rng):
    truths, values = rng.normal(size=(20, 2)), rng.normal(size=(20, 30, 2))
    before = truths.copy(), values.copy()
    state = np.random.get_state()[1].copy()
    mb.score(truths, {"a": values})
    assert np.array_equal(truths, before[0])
    assert np.array_equal(values, before[1])
    assert np.array_equal(np.random.get_state()[1], state)


CODE = """
import numpy as np, mira_bench as mb
rng = np.random.default_rng(0)
for dim in (2, 13, 40):
    y, s = rng.normal(size=(200, dim)), rng.normal(size=(200, 300, dim))
    print(mb.mira(y, s, threads=1).ranks.sum(), mb.energy_score(y, s).score.hex())
"""


def test_fresh_and_cached_code_give_the_same_bits(fresh_and_cached):
    assert len(fresh_and_cached(CODE).split()) == 6


def test_memory_stays_bounded(tmp_path):
    r"""The samples are 400 MB on disk; scoring them must not bring them all to memory."""
    code = """
import sys, numpy as np, mira_bench as mb
rng = np.random.default_rng(0)
path = sys.argv[1]
values = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(500, 20000, 10))
for row in values: row[:] = rng.standard_normal((20000, 10), dtype=np.float32)
values.flush(); del values
mb.mira(rng.normal(size=(5, 10)), rng.normal(size=(5, 50, 10)).astype(np.float32))
def anonymous():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status") if line.startswith("Rss"))
    return int(lines["RssAnon"].split()[0]) / 1024
before = anonymous()
score = mb.mira(rng.normal(size=(500, 10)), np.load(path, mmap_mode="r"), threads=1, regions=20).score
print(anonymous() - before)
"""
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc here")
    root = Path(mb.__file__).parents[1]
    path = tmp_path / "samples.npy"
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=root, capture_output=True, text=True, check=True)
    path.unlink()
    assert float(done.stdout) < 30  # MB


def test_ranks_do_not_know_the_order_of_points(rng):
    # On a grid many points are equally far from the middle; the last digits depend on which of them is the truth.
    centers = rng.random((4, 2))

    def ranks(values):
        return rank_table(values - values[0], centers - values[0], np.eye(2), rng=np.random.default_rng(0)).ranks

    for _ in range(300):
        points = rng.poisson(np.exp(0.5 * rng.integers(4)), size=(11, 2)) / 7
        order = rng.permutation(len(points))
        np.testing.assert_array_equal(ranks(points[order]), ranks(points)[order])
