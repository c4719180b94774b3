r"""Sampled references are calibrated, and those that are shipped are what the command makes."""

import math

import numpy as np
import pytest
from mira_bench.tasks import classic

import mira_bench as mb
from mira_bench.candidate import Draws

EXACT = {
    "two_moons": classic.TwoMoons(),
    "gaussian_linear": classic.GaussianLinear(),
    "gaussian_linear_uniform": classic.GaussianLinearUniform(),
    "gaussian_mixture": classic.GaussianMixture(),
}
SAMPLED = {
    "slcp": classic.Slcp(),
    "slcp_distractors": classic.SlcpDistractors(),
    "bernoulli_glm": classic.BernoulliGlm(),
    "sir": classic.Sir(),
    "lotka_volterra": classic.LotkaVolterra(),
}


@pytest.mark.parametrize(
    ("name", "fiducials"), [("slcp", 40), ("bernoulli_glm", 60), ("sir", 60), ("lotka_volterra", 20)]
)
def test_a_sampled_reference_is_calibrated(name, fiducials, rng):
    task = SAMPLED[name]
    found = task.simulate(fiducials, rng)
    draws = task.exact_posterior().sample(found.x, 49, rng)
    result = mb.mira(found.y, draws.values)
    assert abs(result.score - result.expected) < 4 * result.stderr
    assert mb.sbc(found.y, draws.values).pvalues.min() > 1e-4 / found.y.shape[1]
    assert np.median(draws.diagnostics["rhat"]) < 1.02  # of short chains


@pytest.mark.parametrize("name", [*EXACT, *SAMPLED])
def test_what_is_shipped_is_what_the_command_makes(name):
    from mira_bench.runner.setup import Settings, Setup
    from mira_bench.runner.units import draw_reference, simulate

    task = (EXACT | SAMPLED)[name]
    shipped = classic.reference(name)
    facts = shipped.provenance
    assert (facts["task"], facts["task_version"]) == (name, task.version)
    sizes = {"fiducials": 10, "samples": 1000, "seed": facts["seed"]}
    setup = Setup.of(task, {}, Settings(**sizes, metrics=["mira"], controls=False, name=name))
    fiducials = simulate(setup, 0)
    count = min(len(fiducials), 10)
    assert np.allclose(fiducials.y[:count], shipped.fiducials.y[:count], rtol=1e-9)
    if name in EXACT:
        again = draw_reference(setup, 0, fiducials).values[:10]
        assert np.allclose(again, shipped.draws.values, rtol=1e-5, atol=1e-6)
        return
    assert shipped.draws.diagnostics["rhat"].max() < 1.01
    assert shipped.draws.diagnostics["ess_bulk"].min() > 400
    # Another stream: the same law, not the same bits.
    again = task.exact_posterior().sample(shipped.fiducials.x[:1], 400, np.random.default_rng(5))
    for i in range(again.values.shape[2]):
        a, b = again.values[0, :, i], shipped.draws.values[0, :, i]
        sizes = [min(d.diagnostics["ess_bulk"][0], d.values.shape[1]) for d in (again, shipped.draws)]
        for one, other in ((a, b), ((a - b.mean()) ** 2, (b - b.mean()) ** 2)):
            error = math.hypot(one.std() / math.sqrt(0.7 * sizes[0]), other.std() / math.sqrt(0.7 * sizes[1]))
            assert abs(one.mean() - other.mean()) < 4 * error
    if again.log_evidence is not None:
        assert again.log_evidence[0] == pytest.approx(shipped.draws.log_evidence[0], abs=0.15)


def test_a_reference_that_does_not_exist():
    with pytest.raises(mb.UsageError, match="no reference 'three_moons'; there are: bernoulli_glm"):
        classic.reference("three_moons")
    assert isinstance(classic.reference("sir").draws, Draws)
