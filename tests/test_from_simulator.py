r"""A user's prior and simulator as a task, in Python and from a file."""

import pickle
import re
import shlex
import textwrap

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from torch import distributions as td

import mira_bench as mb
from mira_bench.adapters.identity import describe
from mira_bench.adapters.simulator import task_from_file
from mira_bench.cli.command import main
from mira_bench.errors import SimulationError
from mira_bench.inference import Given, Neural

pytestmark = pytest.mark.usefixtures("plain_figures")


def noisy(y, rng):
    return y + 0.5 * rng.normal(size=y.shape)


def one(y):
    return np.array([y[0] + 0.1, y[1], y[0] * y[1]])


def tensors(theta):
    return theta + 0.5 * torch.randn_like(theta)


PRIORS = {
    "torch box": (td.Independent(td.Uniform(torch.zeros(2), torch.tensor([1.0, 2.0])), 1), (0.5, 1.0)),
    "torch batch": (td.Uniform(torch.zeros(2), torch.tensor([1.0, 2.0])), (0.5, 1.0)),
    "torch normal": (td.MultivariateNormal(torch.tensor([1.0, 2.0]), torch.eye(2)), (1.0, 2.0)),
    "scipy vector": (stats.multivariate_normal([1.0, 2.0]), (1.0, 2.0)),
    "scipy arrays": (stats.norm([1.0, 2.0], [1.0, 0.5]), (1.0, 2.0)),
    "scipy list": ([stats.norm(1), stats.lognorm(0.5)], (1.0, np.exp(0.125))),
    "mixed mapping": ({"a": stats.uniform(2, 2), "b": td.Normal(-1.0, 1.0)}, (3.0, -1.0)),
    "function": (lambda count, rng: rng.normal([1, 2], size=(count, 2)), (1.0, 2.0)),
}


@pytest.mark.parametrize("name", PRIORS)
def test_priors(name):
    prior, mean = PRIORS[name]
    task = mb.Task.from_simulator(prior, noisy)
    drawn = task.simulate(4000, np.random.default_rng(0))
    assert np.abs(drawn.y.mean(axis=0) - mean).max() < 4 * drawn.y.std() / np.sqrt(4000)
    assert np.abs((drawn.x - drawn.y).std() - 0.5) < 4 * 0.5 / np.sqrt(2 * 8000)
    again = task.simulate(4000, np.random.default_rng(0))
    assert np.array_equal(again.x, drawn.x)
    assert isinstance(task, mb.Task)
    if name == "function":
        assert not hasattr(task, "prior_log_prob")
    else:
        # Gibbs: the mean log-density is minus the entropy, larger than under any other density.
        shifted = task.prior_log_prob(drawn.y + 0.3)
        assert task.prior_log_prob(drawn.y).mean() > np.mean(shifted[np.isfinite(shifted)]) or np.isinf(shifted).any()


def test_one_vector_is_not_taken_for_a_batch():
    # Broadcasting makes a batch of it, with one noise for all.
    def single(y, rng):
        return y + rng.normal(size=2)

    task = mb.Task.from_simulator([stats.norm(0, 1), stats.norm(0, 1)], single)
    assert not task.style.batched
    drawn = task.simulate(500, np.random.default_rng(0))
    assert np.abs((drawn.x - drawn.y).std(axis=0) - 1).max() < 4 / np.sqrt(2 * 500)
    # What has no noise is no reason for doubt, and who says so knows.
    assert mb.Task.from_simulator(stats.norm([0.0, 0.0]), lambda y: y**2).style.batched
    assert mb.Task.from_simulator(stats.norm([0.0, 0.0]), single, batched=True).style.batched


def test_candidates_that_are_none():
    task = mb.Task.from_simulator(stats.norm([0.0, 0.0]), noisy)
    with pytest.raises(mb.UsageError, match="mapping from names to candidates"):
        mb.run(task, ["npe"])
    with pytest.raises(mb.UsageError, match="candidate 'npe' is a str without build"):
        mb.run(task, {"npe": "npe"})


def test_densities_equal_those_of_scipy():
    y = np.random.default_rng(0).uniform(0.2, 0.8, size=(50, 2))
    uniform, normal = (mb.Task.from_simulator(PRIORS[k][0], noisy) for k in ("torch batch", "torch normal"))
    assert np.allclose(uniform.prior_log_prob(y), -np.log(2))
    assert np.isneginf(uniform.prior_log_prob(np.array([[0.5, 3.0], [-0.1, 0.5]]))).all()
    assert np.allclose(normal.prior_log_prob(y), stats.multivariate_normal([1.0, 2.0]).logpdf(y), atol=1e-5)
    both = mb.Task.from_simulator(PRIORS["scipy list"][0], noisy)
    assert np.allclose(both.prior_log_prob(y), stats.norm(1).logpdf(y[:, 0]) + stats.lognorm(0.5).logpdf(y[:, 1]))


def test_bounds_and_names_come_from_the_prior():
    task = mb.Task.from_simulator(PRIORS["torch box"][0], noisy)
    assert np.array_equal(task.bounds, [[0, 0], [1, 2]])
    task = mb.Task.from_simulator(PRIORS["mixed mapping"][0], noisy)
    assert task.names == ("a", "b")
    assert task.bounds is None
    assert np.array_equal(task.support, [[2, -np.inf], [4, np.inf]])


@pytest.mark.parametrize(
    ("simulator", "batched", "takes"),
    [(noisy, True, "arrays"), (one, False, "arrays"), (tensors, True, "tensors"), (lambda y: y[0], False, "arrays")],
)
def test_how_a_simulator_is_called_is_found_out(simulator, batched, takes, caplog):
    with caplog.at_level("INFO", "mira_bench"):
        task = mb.Task.from_simulator([stats.norm(), stats.norm()], simulator)
    assert task.style.batched == batched
    assert takes in caplog.text
    drawn = task.simulate(6, np.random.default_rng(0))
    assert len(drawn.x) == 6
    if simulator is one:
        assert np.allclose(drawn.x[:, 2], drawn.y[:, 0] * drawn.y[:, 1])


def bad(y):
    raise RuntimeError("no photons")


@pytest.mark.parametrize(
    ("prior", "simulator", "words"),
    [
        (3, noisy, "the prior is a int"),
        ([], noisy, "the list of priors is empty"),
        ([stats.multivariate_normal([0.0, 0.0])], noisy, "prior 0 of the list has 2 parameters"),
        (lambda count, rng: np.zeros((3, 2)), noisy, r"draws of shape \(3, 2\)"),
        (lambda count, rng: np.full((count, 2), np.nan), noisy, "draws that are not finite"),
        (stats.norm(), 3, "the simulator is a int"),
        (stats.norm(), bad, "RuntimeError: no photons"),
        (stats.norm(), lambda y: "data", "cannot be called"),
    ],
)
def test_bad_input_is_one_sentence(prior, simulator, words):
    with pytest.raises(mb.UsageError, match=words):
        mb.Task.from_simulator(prior, simulator)


def sometimes_nan(y):
    return np.where(y > 2.5, np.nan, y)


def sometimes_raises(y):
    if (y[:, 0] > 2.5).any():
        raise ZeroDivisionError("no photons")
    return y


def sometimes_raises_alone(y):
    if float(y[0]) > 2.5:
        raise ZeroDivisionError("no photons")
    return [float(y[0])]


@pytest.mark.parametrize("simulator", [sometimes_nan, sometimes_raises, sometimes_raises_alone])
def test_parameters_that_cannot_be_simulated_are_named(simulator):
    task = mb.Task.from_simulator({"mass": stats.norm()}, simulator)
    y = task.prior_sample(500, np.random.default_rng(0))[:, 0]
    with pytest.raises(SimulationError) as raised:
        task.simulate(500, np.random.default_rng(0))
    bad = y[y > 2.5]
    what = "the simulated data are nan" if simulator is sometimes_nan else "raises ZeroDivisionError: no photons"
    where = f"at mass = {bad[0]:.4g} ({len(bad)} of 500 parameter vectors in this batch); bound"
    assert f"{what} {where}" in str(raised.value)
    with pytest.raises(mb.UsageError, match="2 names for 1"):
        mb.Task.from_simulator(stats.norm(), simulator, names=["a", "b"])


def test_what_fails_in_a_batch_and_never_alone():
    def picky(y):
        if len(y) > 10:
            raise MemoryError("too many")
        return y

    task = mb.Task.from_simulator(stats.norm(), picky)
    with pytest.raises(mb.UsageError, match="MemoryError: too many for a batch, and for none of its 20 alone"):
        task.simulate(20, np.random.default_rng(0))


def test_a_trial_that_meets_bad_parameters_names_them():
    def half(y):
        if y[0] > 0:
            raise ZeroDivisionError("no photons")
        return y

    with pytest.raises(SimulationError, match=r"no photons at a = .* \(\d of 5 parameter vectors in this batch\)"):
        mb.Task.from_simulator({"a": stats.norm(), "b": stats.norm()}, half)


@pytest.mark.parametrize(("simulator", "workers"), [(sometimes_nan, 1), (sometimes_raises, 2)])
def test_training_on_parameters_that_cannot_be_simulated_ends_the_run(simulator, workers):
    task = mb.Task.from_simulator({"mass": stats.norm()}, simulator, block=2)
    candidates = {"npe": Neural(budget=1000), "other": Given(Linear())}
    with pytest.raises(mb.UsageError, match=r"training of candidate 'npe': .* at mass = [23]\."):
        mb.run(task, candidates, fiducials=2, samples=5, metrics=["mira"], workers=workers)


def test_a_task_of_ones_own_with_bad_data():
    class Own:
        version = 1

        def simulate(self, count, rng):
            y = rng.normal(size=(count, 8))
            return mb.Fiducials(y, np.where(np.arange(count)[:, None] == 3, np.inf, y))

    with pytest.raises(SimulationError, match=r"'own', fiducials: .* inf at y = \(.*, \.\.\.\) \(1 of 32"):
        mb.run(Own(), {"a": Given(Linear())}, fiducials=10, samples=5)


def test_what_identifies_a_task():
    def scaled(scale):
        return lambda y: scale * y

    def make(prior, simulator, **settings):
        return describe(mb.Task.from_simulator(prior, simulator, **settings))

    first = make(stats.norm(), scaled(1.0))
    np.random.default_rng(0)
    stats.norm.rvs(size=3)  # moves a global state that is no part of the prior
    assert make(stats.norm(), scaled(1.0)) == first
    assert make(stats.norm(1.0), scaled(1.0)) != first
    assert make(stats.norm(), scaled(2.0)) != first
    assert make(stats.norm(), scaled(1.0), version=2) != first
    tensor = [make(td.Normal(torch.tensor(m), 1.0), scaled(1.0)) for m in (0.0, 0.0, 1.0)]
    assert tensor[0] == tensor[1] != tensor[2]


class Linear:
    r"""A posterior in the style of sbi, for y ~ N(0, 1) and x ~ N(y, 1/4)."""

    def __init__(self, width=1.0):
        self.width = torch.tensor(width)

    def sample(self, sample_shape, x, show_progress_bars=False):
        return x / 1.25 + self.width * np.sqrt(0.2) * torch.randn(*sample_shape, x.shape[-1])


def test_any_posterior_is_a_candidate(tmp_path):
    task = mb.Task.from_simulator([stats.norm(), stats.norm()], noisy)
    both = {"right": Given(Linear()), "narrow": Given(Linear(0.5))}
    assert describe(both["right"]) == describe(Given(Linear())) != describe(both["narrow"])
    settings = {"fiducials": 300, "samples": 50, "metrics": ["mira"], "controls": False}
    result = mb.run(task, both, store=tmp_path, **settings)
    sigmas = {s.name: s.mira.sigmas for s in result.standings}
    assert abs(sigmas["right"]) < 4
    assert sigmas["narrow"] < -4
    with pytest.raises(mb.UsageError, match="without sample"):
        Given(3)


SIM = """
import torch
from torch.distributions import MultivariateNormal

prior = MultivariateNormal(torch.zeros(2), torch.eye(2))
names = ["a", "b"]


def simulator(theta):
    return theta + 0.5 * torch.randn_like(theta)
"""
MINE = """
import numpy as np


class Posterior:
    def sample(self, x, count, rng):
        return x[:, None] / 1.25 + np.sqrt(0.2) * rng.normal(size=(len(x), count, 2))


def build(task, rng):
    assert task.names == ("a", "b")
    return Posterior()


ready = Posterior()
number = 3
"""
SMALL = ["task=mine", "task.file=sim.py", "fiducials=96", "samples=20", "regions=10", "metrics=[mira]", "out=here"]
SMALL += ["progress=false", "controls=false"]


def test_a_file_end_to_end(elsewhere, capsys):
    (elsewhere / "sim.py").write_text(SIM)
    (elsewhere / "mine.py").write_text(MINE)
    quick = ["candidate.npe_mdn.training.max_num_epochs=2", "budget=100"]
    assert main([*SMALL, *quick, "candidates=[npe_mdn,mine.py:build,mine.py:ready]", "workers=2"]) == 0
    summary = pd.read_csv(elsewhere / "here" / "summary.csv").set_index("candidate")
    for name in ("mine.py:build", "mine.py:ready"):
        row = summary.loc[name]
        assert abs(row.score - row.expected) < 4 * row.stderr
    assert "npe_mdn" in summary.index
    assert main([*SMALL, *quick, "candidates=[npe_mdn]", "dry=true"]) == 0
    assert "100 simulations" in capsys.readouterr().out
    task = task_from_file("sim.py")
    copy = pickle.loads(pickle.dumps(task))
    assert describe(copy) == describe(task)


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (None, [], "there is no file sim.py"),
        (SIM, ["task.file=???"], "task=mine needs task.file="),
        ("prior = 3", [], "sim.py defines no simulator; it has prior"),
        ("import nonsense", [], "ModuleNotFoundError"),
        (SIM.replace("theta + 0.5", "theta / 0 + 0 * theta.nothing"), [], "the simulator cannot be called"),
        (SIM, ["candidates=[mine.py:nobody]"], "mine.py defines no nobody; it has Posterior, build"),
        (SIM, ["candidates=[other.py:build]"], "there is no file other.py"),
        (SIM, ["candidates=[npee]"], "there are: npe"),
        (SIM, ["budget=3"], "budget=3"),
        (SIM, ["candidate.npe.method=vibes"], "not one of npe"),
        (SIM, ["seeds=0"], "seeds=0"),
        (SIM.replace("return", "return (theta[:, :1] < 2.2).log() +"), [], "data are -inf at a = 2."),
    ],
)
def test_bad_files_exit_with_2(elsewhere, capsys, text, arguments, words):
    if text is not None:
        (elsewhere / "sim.py").write_text(text)
    (elsewhere / "mine.py").write_text(MINE)
    assert main([*SMALL, *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_file_that_returns_no_posterior(elsewhere, capsys):
    (elsewhere / "sim.py").write_text(SIM)
    (elsewhere / "mine.py").write_text(MINE)
    assert main([*SMALL, "candidates=[mine.py:number]"]) == 1
    assert "int" in capsys.readouterr().err


def test_the_example_of_given(elsewhere, monkeypatch):
    python, yaml, command = re.findall(r"```(?:python|yaml|bash)\n(.*?)```", textwrap.dedent(Given.__doc__), re.S)
    (elsewhere / "conf" / "candidate").mkdir(parents=True)
    (elsewhere / "conf" / "candidate" / "mine.yaml").write_text(textwrap.dedent(yaml))
    (elsewhere / "my_posterior.py").write_text(textwrap.dedent(python))
    monkeypatch.syspath_prepend(elsewhere)  # as python -m does
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "mira_bench"]
    few = ["fiducials=200", "samples=40", "metrics=[mira]", "controls=false", "progress=false", "out=here"]
    assert main([*words[3:], *few]) == 0
    scores = pd.read_csv(elsewhere / "here" / "summary.csv").set_index("candidate")
    assert abs(scores.score["mine"] - scores.expected["mine"]) < 4 * scores.stderr["mine"]
    assert "exact" in scores.index
