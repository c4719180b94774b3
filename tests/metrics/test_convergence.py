r"""What samplers tell about themselves reaches the tables, and survives the store."""

from dataclasses import dataclass

import numpy as np
from mira_bench.tasks.gaussian import Conjugate

import mira_bench as mb
from mira_bench.candidate import Draws


@dataclass(frozen=True)
class Sampler:
    r"""Exact samples, with diagnostics that depend on the observation, and an evidence."""

    offset: float = 0.0
    version = 1

    def build(self, task, rng):
        return self

    def sample(self, x, count, rng):
        values = task_posterior.sample(x, count, rng)
        told = {"rhat": 1 + np.abs(x[:, 0]) / 20, "ess_bulk": 100 + x[:, 1]}
        return Draws(values, task_posterior.log_evidence(x) + self.offset, told)


task_posterior = Conjugate().exact_posterior()


def test_diagnostics_and_evidences_reach_the_summary(tmp_path):
    metrics = {"mira": mb.Mira(regions=5), "convergence": mb.Convergence(), "evidence": mb.Evidence()}
    arguments = {"fiducials": 250, "samples": 20, "store": tmp_path, "keep_samples": True, "controls": False}
    candidates = {"same": Sampler(), "worse": Sampler(offset=-2.0)}
    result = mb.run(Conjugate(), candidates, metrics=metrics, **arguments)
    rhat = next(s for s in result.standings if s.name == "same").scores["convergence"].result.values["rhat"]
    rows = result.summary.set_index(["candidate", "metric"])
    missed = np.flatnonzero(rhat > 1.05)
    assert 0 < len(missed) < 250
    assert rows.score["same", "convergence"] == rhat.max()
    assert (
        f"{len(missed)} of 250 posteriors miss R-hat 1.05: fiducials {missed[0]}," in rows.note["same", "convergence"]
    )
    # The evidence that the sampler found is compared with that of the task.
    assert rows.score["same", "evidence"] == 0
    assert np.isclose(rows.score["worse", "evidence"], -2)
    # All of it is in the store: another metric needs no new samples.
    again = mb.run(Conjugate(), candidates, metrics={"convergence": mb.Convergence(limit=1.1)}, **arguments)
    assert again.summary.set_index("candidate").score["same"] == rhat.max()


def test_without_diagnostics_the_reason_is_given():
    from mira_bench.tasks.gaussian import ConjugateCandidate

    result = mb.run(
        Conjugate(), {"exact": ConjugateCandidate()}, fiducials=20, samples=10, metrics=["convergence"], controls=False
    )
    assert "without diagnostics" in result.summary.note[0]


def test_counts_are_told_in_full():
    values = {"calls": np.array([2001.0, 2001.0]), "ess": np.array([99.96, 1234.4]), "draws": np.array([999.7])}
    note = mb.Convergence().reduce([values], None).note
    assert note == "median (range): calls 2,001, ess 667 (100 to 1,234), draws 1,000"
