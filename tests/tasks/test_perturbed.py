import sys

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.gaussian import Conjugate, ConjugateCandidate
from mira_bench.tasks.perturbed import Factorized, Rotated, Student, Suppressed, Unconditional
from scipy import optimize, stats

import mira_bench as mb
from mira_bench.cli.command import main

TASK = Conjugate(dim=2, noise=0.5)
CUTS = [(4.0, 0.8), (2.0, 0.4)]


def excess(result):
    r"""The deviation of every candidate's MIRA from its expectation, in standard errors."""
    table = result.summary.set_index("candidate")
    return (table.score - table.expected) / table.stderr


def test_student_is_joint(rng):
    fiducials = TASK.simulate(1, rng)
    posterior = Student(2.0).build(TASK, rng)
    count = 20000
    z = (posterior.sample(fiducials.x, count, rng)[0] - 0.8 * fiducials.x) / np.sqrt(0.2)
    for share in (0.01, 0.3, 0.95):
        error = 4 * np.sqrt(share * (1 - share) / count)
        assert np.all(np.abs((z < stats.t(2).ppf(share)).mean(axis=0) - share) < error)
        # One chi-square for both coordinates: the squared radius over d has an F law. Two would have another.
        radius = np.square(z).sum(axis=1) / 2
        assert abs((radius < stats.f(2, 2).ppf(share)).mean() - share) < error


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_density_of_student(dim, rng):
    task = Conjugate(dim=dim, noise=0.5)
    x, y = rng.normal(size=(3, dim)), rng.normal(size=(3, 4, dim))
    ours = Student(2.5).build(task, rng).log_prob(y, x)
    for values, points, observation in zip(ours, y, x, strict=True):
        exact = stats.multivariate_t(0.8 * observation, 0.2 * np.eye(dim), df=2.5)
        assert np.allclose(values, exact.logpdf(points), rtol=1e-12)


def test_rotation_about_the_origin_moves_the_mean(rng):
    x, y = rng.normal(size=(3, 2)), rng.normal(size=(3, 4, 2))
    posterior = Rotated(40.0).build(TASK, rng)
    turn = np.exp(1j * np.radians(40))
    means = [((m := 0.8 * complex(*row) * turn).real, m.imag) for row in x]
    for mean, values, points, drawn in zip(
        means, posterior.log_prob(y, x), y, posterior.sample(x, 5000, rng), strict=True
    ):
        assert np.allclose(values, stats.multivariate_normal(mean, 0.2 * np.eye(2)).logpdf(points))
        assert np.all(np.abs(drawn.mean(axis=0) - mean) < 4 * np.sqrt(0.2 / 5000))


def test_rotation_about_the_map_changes_nothing(rng):
    x, y = rng.normal(size=(3, 2)), rng.normal(size=(3, 4, 2))
    posterior = Rotated(40.0, "map").build(TASK, rng)
    assert np.allclose(posterior.log_prob(y, x), TASK.exact_posterior().log_prob(y, x), rtol=1e-12)
    distance = posterior.sample(x, 5000, rng).mean(axis=1) - 0.8 * x
    assert np.all(np.abs(distance) < 4 * np.sqrt(0.2 / 5000))


def test_scores_of_the_perturbed_posteriors():
    candidates = {
        "exact": ConjugateCandidate(), "student": Student(), "rotated": Rotated(), "rotated_map": Rotated(about="map"),
    }  # fmt: skip
    off = excess(mb.run(TASK, candidates, fiducials=500, samples=200, metrics=["mira"]))
    assert off[["exact", "rotated_map", "oracle", "prior"]].abs().max() < 4
    assert off["student"] > 4
    assert off["rotated"] < -4


@pytest.mark.parametrize("dim", [2, 100])
@pytest.mark.parametrize("cutoff", [2.0, 4.0, 10.0])  # half of 100 coordinates' mass is beyond a radius of 10
@pytest.mark.parametrize("by", ["radius", "coordinate"])
def test_the_suppressed_mass(dim, cutoff, by, rng):
    count, factor = 4000, 0.4
    y = Suppressed(cutoff, factor, by).build(Unconditional(dim), rng).sample(np.zeros((2, 1)), count // 2, rng)
    assert y.shape == (2, count // 2, dim)
    beyond = np.linalg.norm(y, axis=2) > cutoff if by == "radius" else np.abs(y) > cutoff
    before = stats.chi2.sf(cutoff**2, dim if by == "radius" else 1)
    share = factor * before / (1 - (1 - factor) * before)
    # One draw more or less is allowed where the expected number is far below one.
    assert abs(beyond.mean() - share) <= 4 * np.sqrt(share * (1 - share) / beyond.size) + 1 / beyond.size


@pytest.mark.parametrize(("cutoff", "factor"), CUTS)
@pytest.mark.parametrize("by", ["radius", "coordinate"])
def test_the_suppressed_density(cutoff, factor, by, rng):
    task = Unconditional(2)
    posterior = Suppressed(cutoff, factor, by).build(task, rng)
    axis = np.linspace(-9, 9, 1801)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(1, -1, 2)
    density = np.exp(posterior.log_prob(grid, np.zeros((1, 1)))[0])
    # The error of the sum is the jump at the cutoff times the area of the cells that it crosses.
    assert density.sum() * 1e-4 == pytest.approx(1, abs=1e-3)
    normal = np.exp(task.exact_posterior().log_prob(grid, np.zeros((1, 1)))[0])
    ratio = density / density[len(density) // 2] * normal[len(normal) // 2] / normal
    near, far = np.array([[[0.5, -1.9]]]), np.array([[[cutoff + 0.1, -cutoff - 0.1]]])
    where = [np.abs(grid[0] - point[0]).sum(axis=1).argmin() for point in (near, far)]
    assert np.allclose(ratio[where], [1, factor if by == "radius" else factor**2])


@pytest.mark.parametrize("by", ["radius", "coordinate"])
def test_the_suppressed_density_in_many_dimensions(by, rng):
    # The expectation of q / p under p is one; a radius of 10 divides the mass of p into halves.
    cutoff = 10.0 if by == "radius" else 2.5
    y = rng.normal(size=(1, 5000, 100))
    logs = Suppressed(cutoff, 0.4, by).build(Unconditional(100), rng).log_prob(y, np.zeros((1, 1)))
    ratio = np.exp(logs - stats.norm.logpdf(y).sum(axis=2))
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(5000)
    assert ratio.std() > 0.1


@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_laws_of_unit_variance(law, rng):
    task = Unconditional(50, law)
    fiducials = task.simulate(2000, rng)
    fourth = {"normal": 3, "laplace": 6}[law]
    y = fiducials.y.ravel()
    assert abs(y.mean()) < 4 / np.sqrt(y.size)
    assert abs(y.var() - 1) < 4 * np.sqrt((fourth - 1) / y.size)
    assert abs((y**4).mean() - fourth) < 4 * (y**4).std() / np.sqrt(y.size)
    assert fiducials.x.shape == (2000, 1)
    points = rng.normal(size=(3, 4, 50))
    density = {"normal": stats.norm, "laplace": stats.laplace(scale=np.sqrt(0.5))}[law].logpdf(points).sum(axis=2)
    candidate = Factorized(law).build(Unconditional(50), rng)
    assert np.allclose(candidate.log_prob(points, fiducials.x[:3]), density)
    drawn = candidate.sample(fiducials.x[:40], 50, rng)
    assert stats.ks_2samp(drawn.ravel(), y).pvalue > 1e-4


def bound(factor):
    r"""The lowest score of any candidate whose density is p times 1 or `factor`, up to its normalization.

    Along the balls around a center, the truth has a density of 1 or 1 / factor, up to its normalization, in the mass u
    of the candidate. The score 1/2 + E[u (1 - u)] is lowest if the higher one is at both ends.
    """

    def score(share):  # the candidate's mass where the truth's density is the higher one
        low, high = share / 2, 1 - share / 2
        middle = (high**2 - low**2) / 2 - (high**3 - low**3) / 3
        return 0.5 + (middle + (1 / 6 - middle) / factor) / (1 - share + share / factor)

    return optimize.minimize_scalar(score, bounds=(0, 1), method="bounded").fun


def test_the_printed_scores_of_suppressed_tails_cannot_be():
    assert bound(0.8) == pytest.approx(0.6594, abs=1e-4)
    assert bound(0.4) == pytest.approx(0.6358, abs=1e-4)
    assert max(0.6317, 0.6442) < bound(0.8)
    assert max(0.6027, 0.5756) < bound(0.4)


def test_scores_of_suppressed_tails_keep_the_bound():
    candidates = {f"{by}_{c:g}_{a:g}": Suppressed(c, a, by) for by in ("radius", "coordinate") for c, a in CUTS}
    candidates["exact"] = Factorized()
    result = mb.run(Unconditional(2), candidates, fiducials=2000, samples=200, metrics=["mira"])
    table = result.summary.set_index("candidate")
    off = excess(result)
    assert off[["exact", "oracle", "prior", "coordinate_4_0.8", "radius_4_0.8"]].abs().max() < 4
    assert table.score["radius_2_0.4"] > bound(0.4) - 4 * table.stderr["radius_2_0.4"]
    # 13.5 % of the mass is beyond a radius of 2. All candidates have the same truths and centers.
    scores = {s.name: s.scores["mira"].result for s in result.standings}
    difference, error = scores["radius_2_0.4"].difference(scores["exact"])
    assert difference < -4 * error


def test_scores_of_the_laplace_law():
    candidates = {"exact": Factorized("laplace"), "gaussian": Factorized("normal")}
    metrics = {"mira": mb.Mira(normalize="none")}
    off = excess(mb.run(Unconditional(50, "laplace"), candidates, fiducials=600, samples=100, metrics=metrics))
    assert off[["exact", "oracle", "prior"]].abs().max() < 4
    assert off["gaussian"] < -4


def test_bad_settings():
    for make, words in (
        (lambda: Student(0), "degrees=0"),
        (lambda: Rotated(about="mean"), "about='mean'"),
        (lambda: Suppressed(2, 0), "factor=0"),
        (lambda: Suppressed(2, 0.4, "norm"), "by='norm'"),
        (lambda: Factorized("cauchy"), "law='cauchy'"),
        (lambda: Unconditional(2, "cauchy"), "law='cauchy'"),
    ):
        with pytest.raises(mb.UsageError, match=words):
            make()
    assert Rotated().skip(Conjugate(dim=1)) == "a rotation needs two dimensions"
    assert Suppressed(2, 0.4).skip(Unconditional(2, "laplace")) is not None


@pytest.mark.usefixtures("plain_figures")
@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("perturbed", ["exact", "student", "rotated", "rotated_map"]),
        ("perturbed/tails", ["exact", *(f"{by}_{c:g}_{a}" for by in ("radius", "coordinate") for c, a in CUTS)]),
        ("perturbed/laplace", ["exact", "gaussian"]),
    ],
)
def test_configs_run(task, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["mira_bench"])
    tiny = ["fiducials=12", "samples=8", "regions=4", "progress=false", "metrics=[mira,hpd]"]
    assert main([f"task={task}", *tiny, "out=here"]) == 0
    table = pd.read_csv("here/summary.csv")
    assert table.candidate.unique().tolist() == [*names, "oracle", "prior"]
    assert table[table.candidate != "prior"].score.notna().all()
