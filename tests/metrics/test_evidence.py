import math

import numpy as np
import pytest
from mira_bench.tasks.gaussian import Conjugate, ConjugateCandidate
from scipy import integrate, stats

import mira_bench as mb


def divergence(task, noise):
    r"""KL between the evidences N(0, (1 + noise^2) I)."""
    ratio = (1 + task.noise**2) / (1 + noise**2)
    return task.dim / 2 * (ratio - 1 - math.log(ratio))


@pytest.mark.parametrize("noise", [0.5, 0.8])
def test_closed_form_equals_the_integral(noise):
    task = Conjugate(dim=1, noise=0.5)
    posterior = ConjugateCandidate(noise=noise).build(task, np.random.default_rng(0))
    for x in (-2.0, 0.3, 4.0):

        def joint(y, x=x):
            return stats.norm.pdf(y) * stats.norm.pdf(x, y, noise)

        evidence = integrate.quad(joint, -12, 12, points=[0, x], epsabs=1e-13)[0]
        assert posterior.log_evidence(np.array([[x]]))[0] == pytest.approx(math.log(evidence), abs=1e-9)
        # And the posterior of that model is joint / evidence.
        y = np.array([[[-1.0], [0.2], [1.5]]])
        expected = np.log([joint(v) for v in y.ravel()]) - math.log(evidence)
        assert np.allclose(posterior.log_prob(y, np.array([[x]]))[0], expected, atol=1e-9)


def test_the_mean_log_bayes_factor_is_minus_the_divergence():
    task = Conjugate(dim=3)
    noises = {"wrong": 0.8, "very_wrong": 2.0, "exact": 0.5}
    candidates = {name: ConjugateCandidate(noise=noise) for name, noise in noises.items()}
    candidates["spoiled"] = ConjugateCandidate(width=1.3)
    result = mb.run(task, candidates, fiducials=2000, samples=2, metrics={"evidence": mb.Evidence()})
    table = result.summary.set_index("candidate")
    for name in ("wrong", "very_wrong"):
        assert abs(table.score[name] + divergence(task, noises[name])) < 4 * table.stderr[name]
        assert table.pvalue[name] < 1e-6
    assert table.score["exact"] == table.score["oracle"] == 0
    assert table.pvalue["exact"] == table.pvalue["oracle"] == 1
    # A stretched posterior belongs to no model, and the prior has no data: neither has an evidence.
    assert table.note[["spoiled", "prior"]].tolist() == ["not computed: the candidate has no evidence"] * 2
    assert len(result.scores.query("candidate == 'wrong'")) == 2000


def test_the_pvalue_holds_when_the_candidate_made_the_data(rng):
    # The data come from the candidate's model; the "true" one is wrong. The p-value is never too small.
    x = rng.normal(size=(4000, 5), scale=1.3)
    logs = [stats.norm.logpdf(x, scale=s) for s in (1.3, 1.0)]
    pvalues = np.array([mb.log_bayes_factor(a, b).pvalue for a, b in zip(*logs, strict=True)])
    for level in (0.5, 0.1, 0.01):
        assert (pvalues <= level).mean() <= level + 4 * np.sqrt(level * (1 - level) / 4000)


def test_the_arithmetic_mean_is_its_largest_draw(rng):
    x = rng.normal(size=(1000, 50))
    result = mb.log_bayes_factor(stats.norm.logpdf(x, 0.6).sum(1), stats.norm.logpdf(x).sum(1))
    ratios = np.exp(result.per_fiducial)
    assert result.largest_share == pytest.approx(ratios.max() / ratios.sum())
    assert result.largest_share > 0.2
    assert abs(result.score + 50 * 0.6**2 / 2) < 4 * result.stderr
    assert result.bayes_factor == pytest.approx(math.exp(result.score))


def test_bad_evidences():
    with pytest.raises(mb.UsageError, match="needed twice"):
        mb.log_bayes_factor([0.0, 1.0], [0.0])
    with pytest.raises(mb.UsageError, match="candidate is nan"):
        mb.log_bayes_factor([np.nan], [0.0])
