r"""Samplers of images given data: against their published form, against the exact posterior, and one by one."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from mira_bench.errors import RunError, UsageError
from mira_bench.inference.diffusion import (
    Daps,
    DiffPir,
    Dps,
    Langevin,
    MatrixOperator,
    Mixture,
    MixturePosterior,
    Mmps,
    PnpDm,
    RedDiff,
    Subspace,
)
from mira_bench.inference.diffusion.guidance import _conjugate_gradients
from mira_bench.inference.diffusion.observed import Asked, Observed
from mira_bench.inference.diffusion.splitting import near_data

EVENT, NOISE = (1, 2, 3), 0.3
SAMPLERS = {
    "dps": Dps(steps=60, zeta=0.2),
    "mmps": Mmps(steps=20, iterations=3),
    "diffpir": DiffPir(steps=40),
    "daps": Daps(steps=10, smallest=0.05),
    "pnp_dm": PnpDm(steps=10, decay=0.5, reverse=5),
    "reddiff": RedDiff(steps=40),
    "langevin": Langevin(steps=10),
}


def make_prior(components=2):
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((6, 3)))[0].T
    roots = 0.6 * rng.standard_normal((components, 3, 3))
    covariances = roots @ roots.swapaxes(1, 2) + 0.1 * np.eye(3)
    weights = np.array([0.4, 0.6]) if components == 2 else np.ones(1)
    return Mixture(
        Subspace(0.3 * rng.standard_normal(6), directions, 0.2),
        EVENT,
        weights,
        rng.standard_normal((components, 3)),
        covariances,
    )


def make_operator():
    matrix = np.random.default_rng(1).standard_normal((4, 6))
    return MatrixOperator(matrix / np.linalg.norm(matrix, 2), NOISE, EVENT, (4,))


class Curved:
    r"""Data that are not linear in the image: the square of what a matrix sees."""

    event, data, noise, measurements = EVENT, (4,), NOISE, 4

    def __init__(self):
        self.linear = make_operator()

    def misfit(self, y, x):
        return ((x - self.linear.forward(y).square()) / self.noise).square().mean(dim=1)

    def log_likelihood(self, y, x):
        return -2 * self.misfit(y, x)  # 4 data, half of the sum of squares


class CurvedInPart(Curved):
    r"""The same, and it tells which part of an image data see: four numbers of six."""

    def __init__(self):
        super().__init__()
        self.basis = self.linear.basis

    def restricted(self, images):
        small = Curved()
        small.linear = MatrixOperator(self.linear.matrix.numpy() @ images.T, NOISE, (len(images),), (4,))
        return small


def measured(count=2, seed=2):
    rng = np.random.default_rng(seed)
    prior, operator = make_prior(), make_operator()
    y = prior.sample(count, rng)
    return prior, operator, operator.forward(torch.as_tensor(y)).numpy() + NOISE * rng.standard_normal((count, 4))


def test_data_and_priors_that_are_read_only():
    r"""As those that workers get: nothing is written to them, and torch has nothing to warn of."""
    prior, operator, x = measured()
    x = x.astype(np.float32)
    arrays = (x, prior.weights, prior.means, prior.covariances, prior.subspace.mean, prior.subspace.components)
    for array in arrays:
        array.flags.writeable = False
    assert np.isfinite(SAMPLERS["pnp_dm"].sample(prior, operator, x, 3, np.random.default_rng(3)).values).all()


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_batch_does_not_matter(name):
    prior, operator, x = measured()
    one, other = (SAMPLERS[name].sample(prior, operator, x, 5, np.random.default_rng(3), batch=b) for b in (64, 2))
    np.testing.assert_allclose(one.values, other.values, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(one.diagnostics["denoiser_calls"], other.diagnostics["denoiser_calls"])


@pytest.mark.parametrize("kind", ["linear", "curved", "curved in part"])
@pytest.mark.parametrize("name", SAMPLERS)
def test_samples_know_nothing_of_each_other(name, kind):
    prior, operator, x = measured()
    if kind != "linear":
        operator = Curved() if kind == "curved" else CurvedInPart()
        if SAMPLERS[name].skip(operator) is not None:
            with pytest.raises(UsageError, match="linear operator"):
                SAMPLERS[name].sample(prior, operator, x, 5, np.random.default_rng(3))
            return
    seen = Observed(operator, torch.as_tensor(x[:1]).float(), torch.zeros(1, *EVENT))

    def solve(changed):
        noise, other = torch.Generator().manual_seed(4), torch.Generator().manual_seed(5)

        def draw():
            drawn = torch.randn(3, *EVENT, generator=noise)
            if changed:  # the first sample alone has other random numbers
                drawn[0] = torch.randn(*EVENT, generator=other)
            return drawn

        with torch.no_grad():
            return SAMPLERS[name].solve(Asked(prior, 64), seen, draw)

    one, other = solve(False), solve(True)
    assert not torch.allclose(one[0], other[0], atol=1e-3)
    torch.testing.assert_close(one[1:], other[1:], rtol=1e-4, atol=1e-4)


def vp_levels(steps):
    kept = np.cumprod(1 - np.linspace(1e-4, 0.02, 1000))
    chosen = np.unique(np.round(np.linspace(0, 999, steps)).astype(int))[::-1]
    return np.append(kept[chosen], 1.0)


def published(sampler, step, steps):
    r"""Runs a published step in the variance preserving process on the same noise, and compares the outcome."""
    prior, operator, x = measured(1)
    seen = Observed(operator, torch.as_tensor(x).float(), torch.zeros(1, *EVENT))
    kept = vp_levels(steps)
    noise = torch.Generator().manual_seed(6)

    def draw():
        return torch.randn(4, *EVENT, generator=noise)

    def denoise(v, here):
        return prior.denoise(v / here**0.5, torch.full((4,), float((1 / here - 1) ** 0.5)).double())

    v = draw().double() * (1 - kept[0]) ** 0.5
    for here, there in pairwise(kept):
        v = step(v, float(here), float(there), denoise, operator, torch.as_tensor(x), draw)
    noise.manual_seed(6)
    with torch.no_grad():
        found = sampler.solve(Asked(prior, 64), seen, draw)
    torch.testing.assert_close(found, v.float(), rtol=2e-3, atol=2e-3)


def test_dps_is_the_published_algorithm():
    r"""Algorithm 1 of Chung et al. (2023), with the step of its code: zeta times the gradient of the norm."""

    def step(v, here, there, denoise, operator, x, draw):
        v = v.detach().requires_grad_()
        clean = denoise(v, here)
        distance = (x - operator.forward(clean)).norm(dim=1).sum()
        (push,) = torch.autograd.grad(distance, v)
        alpha = here / there
        mean = alpha**0.5 * (1 - there) / (1 - here) * v + there**0.5 * (1 - alpha) / (1 - here) * clean
        spread = ((1 - there) / (1 - here) * (1 - alpha)) ** 0.5
        return (mean + spread * draw().double() - 0.2 * push).detach()

    published(Dps(steps=60, zeta=0.2), step, 60)


def test_diffpir_is_the_published_algorithm():
    r"""Algorithm 1 of Zhu et al. (2023)."""

    def step(v, here, there, denoise, operator, x, draw):
        with torch.no_grad():
            clean = denoise(v, here)
            rho = 8.0 * NOISE**2 / ((1 - here) / here)
            matrix = operator.matrix
            system = matrix.T @ matrix + rho * torch.eye(6).double()
            moved = torch.linalg.solve(system, (x @ matrix + rho * clean.flatten(1)).T).T.reshape(clean.shape)
            epsilon = (v - here**0.5 * moved) / (1 - here) ** 0.5
            mixed = 0.7**0.5 * epsilon + 0.3**0.5 * draw().double()
            return there**0.5 * moved + (1 - there) ** 0.5 * mixed

    published(DiffPir(steps=40, strength=8.0, zeta=0.3), step, 40)


def moments_of(name, count, coupling=0.0, **settings):
    r"""Many samples of one Gaussian's posterior, and the mean and covariance that they should have.

    With a coupling, those of the posterior whose data have noise of that size in the image, too: what turns between
    an image and a copy of it converge to.
    """
    prior, operator = make_prior(1), make_operator()
    rng = np.random.default_rng(7)
    x = operator.forward(torch.as_tensor(prior.sample(1, rng))).numpy() + NOISE * rng.standard_normal((1, 4))
    sampler = type(SAMPLERS[name])(**settings)
    drawn = sampler.sample(prior, operator, x, count, rng, batch=count).values.reshape(count, -1)
    matrix = operator.forward(torch.eye(6, dtype=torch.float64).reshape(6, *EVENT)).numpy().T
    white = np.linalg.inv(np.linalg.cholesky(NOISE**2 * np.eye(4) + coupling**2 * matrix @ matrix.T))
    exact = MixturePosterior(prior, MatrixOperator(white @ matrix, 1.0, EVENT, (4,)))
    root = exact._factors[0][0]
    return drawn, exact.mean(x @ white.T).ravel(), root @ root.T


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("langevin", {"steps": 100}),
        ("mmps", {"steps": 1500, "iterations": 4}),
        ("pnp_dm", {"steps": 120, "smallest": 0.1, "largest": 1.0, "reverse": 100, "coupling": 0.1}),
    ],
)
def test_the_exact_ones_find_a_gaussian_posterior(name, settings):
    r"""MMPS is exact for one Gaussian but for its steps, and PnP-DM for one in which its coupling counts as noise."""
    count = 2000
    drawn, mean, covariance = moments_of(name, count, **settings)
    widths = np.sqrt(np.diag(covariance))
    away = (drawn.mean(axis=0) - mean) / widths
    assert np.abs(away).max() < 4 / count**0.5
    assert np.abs(drawn.std(axis=0) / widths - 1).max() < 4 / (2 * count) ** 0.5


def test_conjugate_gradients_end():
    r"""Rows that are solved stay solved, and one that has no solution does not run away."""
    values = torch.tensor([1.0, 0.1, 0.01, 1e-3])
    b = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    found = _conjugate_gradients(lambda v: v * values, b, 500)
    torch.testing.assert_close(found, b / values, rtol=1e-3, atol=1e-2)
    found = _conjugate_gradients(lambda v: v * torch.tensor([1.0, 0.1, 0.01, -1e-3]), b, 500)
    assert found.isfinite().all()


def test_guessing_samplers_are_not_exact():
    r"""What the benchmark is for: on the same Gaussian, DPS and RED-diff have the wrong width."""
    for name, settings in (("dps", {"steps": 300, "zeta": 1.0}), ("reddiff", {"steps": 300})):
        drawn, _, covariance = moments_of(name, 500, **settings)
        assert abs(drawn.std(axis=0) / np.sqrt(np.diag(covariance)) - 1).max() > 0.2


def test_steps_in_the_part_that_data_see_are_steps():
    r"""Where data see four numbers of six, steps are taken in those alone: the same density, and the same descent."""
    count, spread = 20_000, 0.4
    _, _, x = measured(1)
    start = torch.full((1, *EVENT), 0.5).expand(count, -1, -1, -1)

    def seen(operator):
        return Observed(operator, torch.as_tensor(x).float(), torch.zeros(1, *EVENT))

    def draws(operator, seed):
        noise = torch.Generator().manual_seed(seed)
        return near_data(start, seen(operator), spread, lambda: torch.randn(start.shape, generator=noise), 8, 0.5)

    assert seen(Curved()).inside is None
    assert seen(CurvedInPart()).inside is not None
    with torch.no_grad():
        whole, part = (draws(operator, seed).flatten(1) for seed, operator in enumerate((Curved(), CurvedInPart())))
        sampler = DiffPir(inner=8)
        down = [sampler._descend(start[:2], seen(operator), spread) for operator in (Curved(), CurvedInPart())]
    torch.testing.assert_close(*down)
    assert (down[0] - start[:2]).abs().max() > 0.01  # it moved
    for power in (lambda z: z, lambda z: z[:, :, None] * z[:, None]):  # means, and products of all pairs
        one, other = power(whole), power(part)
        error = ((one.var(dim=0) + other.var(dim=0)) / count).sqrt()
        assert ((one.mean(dim=0) - other.mean(dim=0)) / error).abs().max() < 4


def test_calls_are_counted():
    prior, operator, x = measured(1)

    def calls(sampler):
        return float(sampler.sample(prior, operator, x, 2, np.random.default_rng(0)).diagnostics["denoiser_calls"][0])

    assert calls(Dps(steps=20)) == 40  # once, and once backwards
    assert calls(Mmps(steps=10, iterations=3)) == 10 * (1 + 3 + 1)
    assert calls(DiffPir(steps=20)) == calls(RedDiff(steps=20)) == 20
    assert calls(Daps(steps=10, flow=5)) == 50
    assert calls(PnpDm(steps=10, reverse=7)) == 71
    assert calls(Langevin(steps=10)) == 11


def test_a_sampler_that_diverges_is_a_failure():
    prior, operator, x = measured(1)
    with pytest.raises(RunError, match=r"2 of 2 samples of Dps diverged.*zeta=1e"):
        Dps(steps=60, zeta=1e30).sample(prior, operator, x, 2, np.random.default_rng(0))


def test_data_of_another_shape_are_refused():
    prior, operator, x = measured(1)
    with pytest.raises(UsageError, match="where"):
        Dps(steps=5).sample(prior, operator, x[:, :3], 2, np.random.default_rng(0))
