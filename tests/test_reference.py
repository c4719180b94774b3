r"""Reference samples: made by a verb, kept in the store, shared by all candidates and by no oracle."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks import classic
from mira_bench.tasks.gaussian import Conjugate, ConjugateCandidate

import mira_bench as mb
from mira_bench.adapters.reference import load
from mira_bench.cli.command import main
from mira_bench.runner.store import Store

CALLS = []


@dataclass(frozen=True)
class Counted(Conjugate):
    def exact_posterior(self):
        CALLS.append("asked")
        return CountedPosterior(self.noise)


@dataclass(frozen=True)
class CountedPosterior:
    noise: float

    def sample(self, x, count, rng):
        CALLS.append("drawn")
        return Conjugate(noise=self.noise).exact_posterior().sample(x, count, rng)


def go(store, **more):
    candidates = {"exact": ConjugateCandidate(), "narrow": ConjugateCandidate(width=0.5)}
    return mb.run(
        Counted(), candidates, fiducials=20, samples=40, metrics=["mmd"], store=store, progress=False, **more
    )  # fmt: skip


def test_candidates_share_a_stored_reference(tmp_path):
    CALLS.clear()
    with_store = go(tmp_path / "store", controls=False).summary
    assert CALLS.count("drawn") == 1  # for two candidates
    CALLS.clear()
    without = go(None, controls=False).summary
    assert CALLS.count("drawn") == 2
    pd.testing.assert_frame_equal(with_store, without)
    kinds = [entry.spec["kind"] for entry in Store(tmp_path / "store").entries()]
    assert kinds.count("reference") == 1


def test_the_oracle_is_not_its_own_reference(tmp_path):
    result = go(tmp_path / "store", keep_samples=True)
    blocks = {(e.spec["kind"], e.spec.get("candidate_name")): e.spec for e in Store(tmp_path / "store").entries()}
    store = Store(tmp_path / "store")
    oracle, reference = store.get(blocks["samples", "oracle"]), store.get(blocks["reference", None])
    assert oracle["values"].shape == reference["values"].shape
    assert not np.isin(oracle["values"], reference["values"]).any()
    scores = result.summary.set_index("candidate").score
    assert scores["oracle"] < scores["narrow"]


def test_the_verb_makes_what_a_run_uses(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["fiducials=6", "samples=30", "seed=3"]
    assert main(["reference", "task=two_moons,bernoulli_glm", *words, "--ship", "here"]) == 0
    shown = capsys.readouterr().out
    assert "two_moons" in shown
    assert "exact" in shown
    assert "110 made, 0 found already. They are in the store results/store." in shown
    assert "python -m mira_bench task=two_moons fiducials=6 samples=30 seed=3 'metrics=[mira,c2st,mmd]'" in shown
    assert "here/two_moons.npz, here/bernoulli_glm.npz" in shown
    first = load("here/bernoulli_glm.npz")
    assert first.draws.values.shape == (6, 30, 10)
    assert first.draws.log_evidence.shape == first.draws.diagnostics["rhat"].shape == (6,)
    assert first.provenance["seed"] == 3
    assert first.provenance["command"] == "python -m mira_bench reference task=bernoulli_glm " + " ".join(words)
    # Nothing is sampled a second time: the posterior could not do it.
    monkeypatch.setattr(classic.BernoulliGlm, "exact_posterior", lambda self: None)
    assert main(["reference", "task=bernoulli_glm", *words, "--ship", "again"]) == 0
    assert "0 made, 10 found already" in capsys.readouterr().out
    again = load("again/bernoulli_glm.npz")
    assert np.array_equal(again.draws.values, first.draws.values)
    assert np.array_equal(again.fiducials.x, first.fiducials.x)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["samples=3"], "which task"),
        (["task=no_such"], "no_such"),
        (["task=mixture", "metrics=[mira]"], "has no meaning for a reference"),
        (["task=lensing/small"], "no exact posterior"),
        (["task=files"], "has no model"),
        (["task=sir", "sampels=3"], "did you mean 'samples'"),
    ],
)
def test_bad_usage(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reference", *words]) == 2
    assert sentence in capsys.readouterr().err
