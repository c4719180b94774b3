r"""Trainings by gradients: what is interrupted ends as if it had not been, to the bit."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from mira_bench.errors import RunError, UsageError
from mira_bench.inference import gradient_training
from mira_bench.inference.gradient_training import GradientTrainer, network_of, train

SIZE, SLOPE = 103, np.array([1.0, -2.0, 0.5])  # not a multiple of the batch: the last one of an epoch is smaller


@dataclass(frozen=True, kw_only=True)
class Regression(GradientTrainer):
    r"""Linear regression on inputs with noise of its own."""

    epochs: int = 3
    batch: int = 10
    rate: float = 0.05
    noise: float = 0.1

    version = 1

    def facts(self, data):
        return {"size": np.array(data["x"].shape[1])}

    def network(self, facts):
        return torch.nn.Linear(int(facts["size"]), 1)

    def loss(self, network, batch, noise, epoch):
        x = batch["x"] + self.noise * torch.randn(batch["x"].shape, generator=noise)
        return {"loss": (network(x).float()[:, 0] - batch["y"]).square().mean(), "epoch": torch.tensor(epoch)}


@pytest.fixture
def data():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((SIZE, 3)).astype(np.float32)
    return {"x": x, "y": (x @ SLOPE + 3).astype(np.float32)}


ALL = {"schedule": "cosine", "warmup": 5, "clip": 1.0, "ema": 0.9, "weight_decay": 0.01}


def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("settings", [{}, ALL, ALL | {"precision": "bfloat16"}])
def test_an_interrupted_training_ends_as_another(settings, data, tmp_path, monkeypatch):
    monkeypatch.setattr(gradient_training, "BATCHES", 4)  # also in the middle of an epoch
    trainer = Regression(**settings)
    whole = [
        (stage.epoch, stage.curves, stage.memory(), stage.weights()) for stage in trainer.stages(data, rng(), None)
    ]
    assert [epoch for epoch, *_ in whole] == [n + share for n in range(3) for share in (4 / 11, 8 / 11, 1)]
    for place, (_, _, memory, _) in enumerate(whole[:-1]):
        np.random.seed(place)  # a global state decides nothing
        torch.manual_seed(place)
        np.savez(tmp_path / "memory.npz", **memory)
        with np.load(tmp_path / "memory.npz") as file:  # plain arrays: without pickles
            stored = dict(file)
        rest = [(s.epoch, s.curves, s.memory(), s.weights()) for s in trainer.stages(data, rng(), stored)]
        for (epoch, curves, kept, weights), (epoch_, curves_, kept_, weights_) in zip(
            rest, whole[place + 1 :], strict=True
        ):
            assert (epoch, curves) == (epoch_, curves_)
            for one, other in ((kept, kept_), (weights, weights_)):
                assert one.keys() == other.keys()
                assert all(np.array_equal(one[key], other[key]) for key in one)


def test_a_training_that_is_done_says_so_again(data):
    trainer = Regression()
    *_, last = trainer.stages(data, rng(), None)
    (again,) = trainer.stages(data, rng(), last.memory())
    assert again.epoch == again.epochs == 3
    assert all(np.array_equal(value, last.weights()[key]) for key, value in again.weights().items())


def test_what_is_told_does_not_change_afterwards(data):
    stages = Regression().stages(data, rng(), None)
    first = next(stages)
    weights, memory = first.weights(), first.memory()
    kept = {key: value.copy() for key, value in {**weights, **memory}.items()}
    next(stages)
    assert all(np.array_equal(value, kept[key]) for key, value in {**weights, **memory}.items())


def test_the_seed_decides_and_the_global_states_are_left_alone(data):
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy(), torch.get_num_threads()
    one, same, other = (train(Regression(), data, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one["network weight"], same["network weight"])
    assert not np.array_equal(one["network weight"], other["network weight"])
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
    assert torch.get_num_threads() == before[2]


def test_it_learns_what_can_be_learned(data):
    # Without noise the data are fitted exactly, and the gradients of all batches vanish there.
    trainer = Regression(epochs=60, schedule="cosine", noise=0.0)
    state = train(trainer, data, rng())
    assert state["network weight"][0] == pytest.approx(SLOPE, abs=1e-3)
    assert state["network bias"] == pytest.approx(3, abs=1e-3)
    network = network_of(trainer, state)
    assert np.allclose(network(torch.from_numpy(data["x"])).numpy()[:, 0], data["y"], atol=1e-2)


def test_rates_and_averages(data):
    trainer = Regression(schedule="cosine", warmup=4, rate=2.0)
    assert [trainer.rate_at(step, 100) for step in range(4)] == pytest.approx(
        [2.0 * (step + 1) / 4 * (1 + np.cos(np.pi * step / 100)) / 2 for step in range(4)]
    )
    assert trainer.rate_at(50, 100) == pytest.approx(1.0)
    # The average of the weights by its definition.
    averaging = Regression(epochs=1, batch=40, ema=0.5)
    average = None
    for step, stage in enumerate(_stage_by_stage(averaging, data)):
        now = stage.memory()["now weight"]
        decay = min(0.5, (1 + step) / (10 + step))
        average = stage.memory()["average weight"] if average is None else decay * average + (1 - decay) * now
        assert np.allclose(stage.weights()["network weight"], average, atol=1e-6)


def _stage_by_stage(trainer, data):
    before = gradient_training.BATCHES
    gradient_training.BATCHES = 1
    try:
        yield from trainer.stages(data, rng(), None)
    finally:
        gradient_training.BATCHES = before


def test_every_example_is_seen_once_an_epoch(data):
    seen = []

    @dataclass(frozen=True, kw_only=True)
    class Watching(Regression):
        def loss(self, network, batch, noise, epoch):
            seen.append(batch["y"].numpy())
            return super().loss(network, batch, noise, epoch)

    train(Watching(epochs=2), data, rng())
    first, second = np.concatenate(seen[:11]), np.concatenate(seen[11:])
    assert np.array_equal(np.sort(first), np.sort(data["y"]))
    assert np.array_equal(np.sort(second), np.sort(data["y"]))
    assert not np.array_equal(first, second)


def test_a_rehearsal_costs_a_few_batches(data):
    steps = []

    @dataclass(frozen=True, kw_only=True)
    class Watching(Regression):
        def loss(self, network, batch, noise, epoch):
            steps.append(len(batch["y"]))
            return super().loss(network, batch, noise, epoch)

    trainer = Watching(epochs=1000)
    found = trainer.rehearse(data, rng())
    assert steps == [2, 2, 10]
    assert found.training > 0
    assert network_of(trainer, found.state)(torch.zeros(1, 3)).shape == (1, 1)
    # The state is that of the beginning.
    first = Regression(rate=1e-12, epochs=1).stages(data, rng(), None)
    assert np.allclose(next(first).weights()["network weight"], found.state["network weight"], atol=1e-6)


def test_errors_name_the_culprit(data):
    for settings, culprit in (
        ({"epochs": 0}, "epochs=0"),
        ({"batch": 2.5}, "batch=2.5"),
        ({"schedule": "linear"}, "schedule='linear'"),
        ({"precision": "float16"}, "precision='float16'"),
        ({"ema": 1.0}, r"ema=1\.0"),
    ):
        with pytest.raises(UsageError, match=culprit):
            Regression(**settings)
    with pytest.raises(UsageError, match="103 x, 50 y"):
        train(Regression(), data | {"y": data["y"][:50]}, rng())
    with pytest.raises(RunError, match="the loss is"):
        train(Regression(), data | {"y": data["y"] * np.nan}, rng())
