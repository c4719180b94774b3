r"""The task of inverse problems: its oracle and controls are what they say, and samples do not depend on workers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from mira_bench.tasks.inverse import Closures, CodeReference, ImagePrior, Inverse, Mri, Reshaped, Scattering, Solver
from scipy.stats import multivariate_normal

import mira_bench as mb
from mira_bench.inference.diffusion import Daps, Langevin, MixtureTrainer, PnpDm


def learned(task):
    return task.load(task.trainer.fit(task.trainer.learns_from(task), np.random.default_rng(0), lambda *_: None))


def small(problem=None, **settings):
    mixture = MixtureTrainer(rank=6, components=2, rest=True)
    trainer = ImagePrior(images="brains", size=8, count=60, mixture=mixture)
    return Inverse(problem or Mri(size=8, acceleration=2.0, noise=0.1), trainer=trainer, **settings)


def closures(**settings):
    mixture = MixtureTrainer(rank=3, components=1, rest=False)
    trainer = ImagePrior(images="black_holes", size=8, count=60, bounds=(0.0, 1.0), mixture=mixture)
    reference = CodeReference(particles=40, chains=10, warmup=5, draws=10)
    return Inverse(Closures(size=8), trainer=trainer, reference=reference, **settings)


def test_the_oracle_scores_its_expectation_and_wrong_widths_do_not():
    candidates = {"narrow": Reshaped(0.5), "wide": Reshaped(1.5)}
    result = mb.run(small(), candidates, fiducials=200, samples=30, metrics=["mira", "energy", "moments", "fidelity"])
    rows = result.summary.set_index(["candidate", "metric"])
    oracle = rows.loc[("oracle", "mira")]
    assert abs(oracle.score - oracle.expected) < 4 * oracle.stderr
    assert rows.loc[("narrow", "mira")].score < oracle.expected - 4 * rows.loc[("narrow", "mira")].stderr
    assert rows.loc[("wide", "mira")].score > oracle.expected + 4 * rows.loc[("wide", "mira")].stderr
    for name, ratio in (("narrow", 0.5), ("wide", 1.5), ("oracle", 1.0)):
        row = rows.loc[(name, "moments")]
        assert abs(row.score - ratio) < 4 * row.stderr
    misfit = rows.loc[("oracle", "fidelity.misfit")]
    assert abs(misfit.score - 1) < 4 * misfit.stderr
    assert rows.loc[("narrow", "fidelity")].score > rows.loc[("oracle", "fidelity")].score


def test_workers_do_not_matter():
    candidates = {"daps": Solver(Daps(steps=5)), "langevin": Solver(Langevin(steps=3))}
    one, two = (
        mb.run(small(), candidates, fiducials=9, samples=4, workers=workers, metrics=["energy"]) for workers in (1, 2)
    )
    scores = [result.summary.set_index("candidate").score for result in (one, two)]
    assert scores[0].equals(scores[1])


def test_samplers_find_the_posterior():
    r"""PnP-DM and chains are not told from the exact posterior, in pairs with it; a PnP-DM of few turns is."""

    def turns(steps):
        return Solver(PnpDm(steps=steps, smallest=0.05, decay=0.9, reverse=30))

    candidates = {"few": turns(8), "many": turns(60), "langevin": Solver(Langevin(steps=100))}
    result = mb.run(small(), candidates, fiducials=12, samples=40, metrics=["energy", "moments"])
    rows = result.summary.set_index(["candidate", "metric"])
    for name in candidates:
        energy, width = rows.loc[(name, "energy")], rows.loc[(name, "moments")]
        found = abs(energy.from_oracle) < 4 * energy.from_oracle_stderr and abs(width.score - 1) < 4 * width.stderr
        assert found == (name != "few")


def test_likelihoods_are_those_of_each_pair():
    task = learned(small())
    fiducials = task.simulate(3, np.random.default_rng(1))
    y = np.stack([fiducials.y, 0.5 * fiducials.y], axis=1)
    found = task.misfit(y, fiducials.x[:, None])
    assert found.shape == (3, 2)
    operator = task.problem.operator()
    for l in range(3):
        for k in range(2):
            away = (fiducials.x[l] - operator.forward(torch.tensor(y[l, k][None]))[0].numpy()) / operator.noise
            assert found[l, k] == pytest.approx(np.square(away).mean(), rel=1e-4)
    # One observation for each image, as many as images.
    x = np.repeat(fiducials.x[:, None], 2, axis=1)
    x[:, 1] = fiducials.x[::-1]
    assert task.misfit(y, x)[:, 0] == pytest.approx(found[:, 0])
    assert not np.allclose(task.misfit(y, x)[0, 1], found[0, 1])
    size = np.prod(operator.data)
    logs = -0.5 * size * (found + np.log(2 * np.pi * operator.noise**2))
    assert task.log_likelihood(y, fiducials.x[:, None]) == pytest.approx(logs, rel=1e-4)


def test_the_reference_of_closures_is_calibrated():
    result = mb.run(closures(), {"daps": Solver(Daps(steps=3))}, fiducials=32, samples=20, metrics=["mira", "sbc"])
    row = result.summary.set_index(["candidate", "metric"]).loc[("oracle", "mira")]
    assert abs(row.score - row.expected) < 4 * row.stderr
    assert result.summary.set_index(["candidate", "metric"]).loc[("oracle", "sbc")].pvalue > 1e-3


def test_the_reference_knows_its_evidence():
    r"""By chains, and by importance sampling from a Gaussian around them."""
    task = learned(replace(closures(), reference=CodeReference(particles=400, chains=10, warmup=5, draws=20)))
    fiducials = task.simulate(3, np.random.default_rng(2))
    repeats = [task.exact_posterior().sample(fiducials.x, 200, np.random.default_rng(seed)) for seed in range(6)]
    prior = multivariate_normal(task.prior.means[0], task.prior.covariances[0])
    subspace = task.prior.subspace
    for l in range(3):
        found = np.array([draws.log_evidence[l] for draws in repeats])
        codes = subspace.encode(np.concatenate([draws.values[l] for draws in repeats]).reshape(1200, -1))
        near = multivariate_normal(codes.mean(axis=0), 2 * np.cov(codes.T), seed=4)
        drawn = near.rvs(4000)
        y = subspace.decode(drawn).reshape(4000, *task.event)
        logs = task.log_likelihood(y, fiducials.x[l][None]) + prior.logpdf(drawn) - near.logpdf(drawn)
        weights = np.exp(logs - logs.max())
        expected = logs.max() + np.log(weights.mean())
        error = np.hypot(weights.std() / weights.mean() / 4000**0.5, found.std(ddof=1) / 6**0.5)
        assert weights.sum() > 100 * weights.max()  # many points count
        assert abs(found.mean() - expected) < 4 * error


def test_what_is_not_exact_has_no_oracle():
    task = replace(closures(), reference=None)
    assert not hasattr(task, "exact_posterior")
    assert Reshaped(0.5).skip(task) == "no posterior in closed form"
    assert not hasattr(small(Mri(size=64)), "exact_posterior")  # 8,192 numbers
    assert "linear operator" in Solver(Langevin()).skip(task)


def test_a_reference_needs_one_gaussian_of_few_codes():
    mixture = MixtureTrainer(rank=3, components=2, rest=False)
    task = replace(closures(), trainer=replace(closures().trainer, mixture=mixture))
    with pytest.raises(mb.UsageError, match="one Gaussian of at most 20 codes"):
        learned(task).exact_posterior()


def test_other_images_and_problems_are_other_tasks():
    described = [
        small().describe(),
        small(Mri(size=8, acceleration=2.0, noise=0.2)).describe(),
        small(Scattering(size=8)).describe(),
        replace(small(), trainer=replace(small().trainer, seed=1)).describe(),
    ]
    assert all(a != b for i, a in enumerate(described) for b in described[:i])
    with pytest.raises(mb.UsageError, match="neither a file"):
        ImagePrior(images="brians")


def test_images_of_another_shape_are_refused_before_they_are_learned(tmp_path):
    np.save(tmp_path / "gray.npy", np.random.default_rng(0).random((20, 8, 8)))
    trainer = replace(small().trainer, images=str(tmp_path / "gray.npy"))
    with pytest.raises(
        mb.UsageError, match=r"\(1, 8, 8\); those of the problem are \(2, 8, 8\): two channels are real"
    ):
        replace(small(), trainer=trainer)
