import warnings

import numpy as np
import pytest
from toy_targets import Circle, Sources

from mira_bench import UsageError
from mira_bench.inference import diagnose, ess_bulk, ess_tail, rhat, sort_groups


def autoregression(rng, correlation, shape):
    values = rng.standard_normal(shape)
    for t in range(1, shape[1]):
        values[:, t] = correlation * values[:, t - 1] + np.sqrt(1 - correlation**2) * values[:, t]
    return values


@pytest.mark.parametrize("draws", [8, 41, 300])
def test_equal_to_arviz(rng, draws):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arviz = pytest.importorskip("arviz", exc_type=ImportError)
        chains = np.concatenate(
            [
                autoregression(rng, 0.7, (6, draws, 2)),
                np.exp(3 * autoregression(rng, 0.3, (6, draws, 1))),  # heavy tails
                rng.standard_normal((6, draws, 1)) * np.arange(1, 7)[:, None, None],  # different scales
                rng.standard_normal((6, draws, 1)) + np.arange(6)[:, None, None],  # different locations
                np.round(autoregression(rng, -0.5, (6, draws, 1))),  # ties, and better than independent
            ],
            axis=2,
        )
        columns = [chains[:, :, i] for i in range(chains.shape[2])]
        assert np.allclose(rhat(chains), [float(arviz.rhat(c, method="rank")) for c in columns], rtol=1e-10)
        bulk, tail = ([float(arviz.ess(c, method=m)) for c in columns] for m in ("bulk", "tail"))
        assert np.allclose(ess_bulk(chains), bulk, rtol=1e-10)
        assert np.allclose(ess_tail(chains), tail, rtol=1e-10)


def test_independent_draws(rng):
    convergence = diagnose(rng.standard_normal((10, 1000, 3)))
    assert convergence.rhat.max() < 1.01
    # The effective number of independent draws scatters by a few percent around all of them.
    assert np.abs(convergence.ess_bulk / 10_000 - 1).max() < 0.15
    assert np.abs(convergence.ess_tail / 10_000 - 1).max() < 0.15


def test_chains_that_do_not_move():
    chains = np.zeros((4, 20, 2))
    chains[:, :, 1] = np.arange(4)[:, None]
    assert rhat(chains)[0] == 1
    assert rhat(chains)[1] == np.inf
    assert ess_bulk(chains)[0] == ess_tail(chains)[0] == 80
    assert ess_bulk(chains[:, :8])[0] == 32


def test_labels_that_switch_are_no_disagreement(rng):
    target, _ = Sources.observed(rng)
    chains = 0.01 * rng.standard_normal((6, 200, 7)) + np.array([0.1, 0.2, 1.0, 0.5, 1.5, 0.8, 0.7])
    for i in range(6):
        chains[i] = chains[i][:, np.concatenate([[0], target.groups[rng.permutation(3)].ravel()])]
    chains[0] = chains[0][:, [0, 3, 4, 1, 2, 5, 6]]  # so that not all of them have the same order
    assert rhat(chains).max() > 1.5
    assert diagnose(chains, target).rhat.max() < 1.05
    ordered = sort_groups(chains, target.groups)
    assert (np.diff(ordered[..., target.groups[:, 0]], axis=-1) >= 0).all()
    assert np.allclose(target.log_likelihood(ordered[0]), target.log_likelihood(chains[0]), rtol=1e-12)
    brightest = sort_groups(chains, target.groups, by=1)
    assert np.allclose(brightest[..., 5:].mean(axis=(0, 1)), [0.5, 1.5], atol=0.01)


def test_a_seam_is_no_disagreement(rng):
    # A slow walk around the seam of a circle: its two sides are neighbors.
    angles = (0.02 * autoregression(rng, 0.8, (4, 300))) % np.pi
    chains = np.stack([angles, rng.random((4, 300))], axis=-1)
    assert diagnose(chains, Circle()).rhat.max() < 1.05
    inside = np.stack([(angles + 1) % np.pi, chains[..., 1]], axis=-1)
    assert diagnose(chains, Circle()).ess_bulk[0] == pytest.approx(ess_bulk(inside)[0], rel=1e-6)
    chains[0, :, 0] = (chains[0, :, 0] + 0.2) % np.pi
    assert diagnose(chains, Circle()).rhat[0] > 1.5


@pytest.mark.parametrize(
    ("shape", "sentence"), [((10, 3), "chains have shape"), ((4, 3, 2), "3 draws per chain are too few")]
)
def test_bad_input_is_told_in_a_sentence(shape, sentence):
    with pytest.raises(UsageError, match=sentence):
        diagnose(np.zeros(shape))
    with pytest.raises(UsageError, match="not finite"):
        diagnose(np.full((2, 10, 1), np.nan))
