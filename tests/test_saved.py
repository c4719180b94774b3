r"""What was trained is used: the network of a run, found by its folder, gives the samples that the run scored."""

from pathlib import Path

import numpy as np
import pytest
from file_cases import refused

import mira_bench as mb
from mira_bench.cli import main
from mira_bench.runner.store import Store
from mira_bench.streams import forked, generator

pytestmark = [
    pytest.mark.usefixtures("elsewhere", "plain_figures"),
    pytest.mark.filterwarnings("ignore"),  # sbi and its dependencies warn about themselves
]

RUN = [
    "task=two_moons", "candidates=[npe_mdn,narrow]", "budget=200", "fiducials=20", "samples=30",
    "metrics=[mira,energy]", "candidate.npe_mdn.training.max_num_epochs=2", "keep_samples=true",
    "workers=1", "progress=false", "out=here",
]  # fmt: skip


@pytest.fixture
def folder():
    assert main(RUN) == 0
    return Path("here")


def test_the_network_of_a_run(folder, capsys):
    import torch

    trained = mb.load(folder).posterior("npe_mdn")
    # It gives, to the bit, the samples that were scored.
    store = Store("results/store")
    mine = (entry.spec for entry in store.entries() if entry.spec.get("candidate_name") in (None, "npe_mdn"))
    specs = {spec["kind"]: spec for spec in mine}
    x, samples = store.get(specs["fiducials"])["x"], store.get(specs["samples"])["values"]
    purpose = ("samples", "two_moons", "npe_mdn", 0)
    with forked(0, *purpose):
        again = trained.posterior.sample(x, 30, generator(0, *purpose)).values
    assert np.array_equal(again[: len(samples)], samples)
    # One observation or several, the same seed the same samples.
    one = trained.sample(x[0], 500)
    assert one.shape == (500, 2)
    assert np.array_equal(one, trained.sample(x[0], 500))
    assert not np.array_equal(one, trained.sample(x[0], 500, seed=1))
    assert np.array_equal(trained.sample(x[:1], 500)[0], one)
    assert mb.draw(trained, x[:3], 5).shape == (3, 5, 2)
    assert np.allclose(trained.log_prob(one[None], x[:1])[0], trained.log_prob(one, x[0]))
    refused(["(3,)", "(2,)"], trained.sample, np.zeros(3), 5)
    refused(["x is nan"], trained.sample, [0.0, np.nan], 5)
    refused(["count is -1"], trained.sample, x[0], -1)
    # sbi's posterior is the same distribution: densities are equal, moments within their errors.
    made = trained.sbi
    seen, points = torch.tensor(x[:1]).float(), torch.tensor(one).float()
    theirs = made.log_prob(points, x=seen, norm_posterior=False).numpy()
    assert np.allclose(theirs, trained.log_prob(points.numpy(), x[0]), atol=1e-4)
    torch.manual_seed(0)
    drawn = made.sample((500,), x=seen, show_progress_bars=False).numpy()
    error = np.sqrt((drawn.var(axis=0) + one.var(axis=0)) / 500)
    assert (np.abs(drawn.mean(axis=0) - one.mean(axis=0)) < 4 * error).all()
    assert made.sample_batched((5,), x=torch.tensor(x[:3]).float(), show_progress_bars=False).shape == (5, 3, 2)
    # And from the command line.
    np.save("x.npy", x[0])
    capsys.readouterr()
    assert main(["export", "here", "npe_mdn", "--x", "x.npy", "--samples", "500"]) == 0
    assert np.array_equal(np.load("here/npe_mdn.npy"), one)
    assert main(["export", "here", "npe_mdn"]) == 0
    assert "here/npe_mdn.pt" in capsys.readouterr().out
    loaded = torch.load("here/npe_mdn.pt", weights_only=False)
    torch.manual_seed(0)
    assert np.array_equal(loaded.sample((500,), x=seen, show_progress_bars=False).numpy(), drawn)


def test_what_cannot_be_exported_is_said(folder, capsys):
    saved = mb.load(folder)
    refused(["'nle'", "npe_mdn, narrow"], saved.posterior, "nle")
    untrained = saved.posterior("narrow")
    assert untrained.sample(np.zeros(2), 7).shape == (7, 2)
    refused("NPE", lambda: untrained.sbi)
    assert main(["export", "here", "narrow"]) == 2
    assert main(["export", "here", "npe_mdn", "--out", "a.csv"]) == 2
    assert main(["export", "nowhere", "npe_mdn"]) == 2
    assert "ranking.csv" in capsys.readouterr().err
    assert main(["store", "prune", "--kind", "fit"]) == 0
    refused(["results/store", "no training of npe_mdn"], saved.posterior, "npe_mdn")
    given = mb.score(np.arange(9.0), {"a": np.random.default_rng(0).normal(size=(9, 5))}).save("given")
    refused("config.yaml", mb.load(given).posterior, "a")
