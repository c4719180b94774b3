r"""Networks of InverseBench as priors: a small checkout in its layout, whose network is exact for Gaussian images."""

import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from mira_bench.tasks.inverse import ImagePrior, Inverse, InverseBenchPrior, Mri, Scattering, Solver

import mira_bench as mb
from mira_bench.adapters.identity import describe
from mira_bench.cli.command import main
from mira_bench.inference.diffusion import DiffPir, Mmps
from mira_bench.inference.diffusion.mixture import MixtureTrainer

pytestmark = pytest.mark.usefixtures("plain_figures")

MEAN, SPREAD = -0.4, 0.3  # of their images, which are from -1 to 1

# Folders without __init__.py, imports from the root and from beside: as in InverseBench.
PRECOND = """\
import torch
from utils import helper
from models.gains import Gain
from .names import SPREAD


@helper.marked
class Precond(torch.nn.Module):
    def __init__(self, img_resolution, img_channels, sigma_max=float("inf"), tags=()):
        super().__init__()
        self.sigma_max = sigma_max
        self.mean = torch.nn.Parameter(torch.randn(img_channels, 1, 1))
        self.register_parameter(SPREAD, torch.nn.Parameter(torch.rand(1)))
        self.gain, self.dropout = Gain(), torch.nn.Dropout(0.5)

    def forward(self, x, sigma):
        sigma = sigma.to(torch.float32).reshape(-1, 1, 1, 1)
        assert bool((sigma <= self.sigma_max).all())
        return self.mean + self.gain(self.spread, sigma) * self.dropout(x - self.mean)
"""
# A decorator that looks at the text of a module and pickles what it has: as the `persistence` of InverseBench.
HELPER = """\
import inspect
import pickle
import sys


def marked(kind):
    text = inspect.getsource(sys.modules[kind.__module__])

    class Marked(kind):
        def __init__(self, *arguments, **named):
            super().__init__(*arguments, **named)
            self.kept = pickle.dumps([text, named, list(self.children())])

    return Marked
"""
GAINS = """\
import torch


class Gain(torch.nn.Module):
    def forward(self, spread, sigma):
        return spread**2 / (spread**2 + sigma**2)
"""
CONFIG = """\
data: {{_target_: training.dataset.{data}, root: ../data, mean: 0.5, std: 0.25}}
model:
  _target_: models.precond.Precond
  img_resolution: {size}
  img_channels: {channels}
  tags: [1, 2]
train: {{num_steps: 100_000}}
"""


def weights(channels=1, mean=MEAN, spread=SPREAD):
    return {"mean": torch.full((channels, 1, 1), mean), "spread": torch.tensor([spread])}


def checkout(folder, size=6, channels=1, data="LMDBData", **model):
    r"""Writes a checkout and a checkpoint, and returns what names them."""
    for name in ("models", "utils", "configs/pretrain"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "models/precond.py").write_text(PRECOND)
    (folder / "models/gains.py").write_text(GAINS)
    (folder / "models/names.py").write_text('SPREAD = "spread"\n')
    (folder / "utils/helper.py").write_text(HELPER)
    text = CONFIG.format(size=size, channels=channels, data=data)
    text = text.replace("  tags:", "".join(f"  {key}: {value}\n" for key, value in model.items()) + "  tags:")
    (folder / "configs/pretrain/small.yaml").write_text(text)
    saved = {"net": weights(channels, mean=0.9), "ema": weights(channels), "optimizer": {"state": {}}}
    torch.save(saved, folder / "small.pt")
    return {"checkout": str(folder), "config": "small", "checkpoint": str(folder / "small.pt")}


@pytest.fixture
def files(tmp_path):
    return checkout(tmp_path / "InverseBench")


def theirs(x, sigma, mean=MEAN):
    return mean + SPREAD**2 / (SPREAD**2 + sigma**2) * (x - mean)


def noisy(size=6, channels=1):
    return torch.randn((3, channels, size, size), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("data", "given", "scale", "center"),
    [
        ("LMDBData", {}, 0.5, 0.5),
        ("BlackHole", {}, 0.5, 0.5),
        ("MultiCoilMRILMDBData", {}, 1.0, 0.0),
        ("ImageFolder", {"scale": 2.0, "center": -1.0}, 2.0, -1.0),
    ],
)
def test_it_is_the_network_in_our_units(data, given, scale, center, tmp_path):
    prior = InverseBenchPrior(**checkout(tmp_path, data=data), **given)
    y = noisy()
    for sigma in (0.05, 3.0):
        expected = center + scale * theirs((y - center) / scale, sigma / scale)
        torch.testing.assert_close(prior.denoise(y, torch.full((3,), sigma)), expected)
        torch.testing.assert_close(prior.denoise(y, sigma), expected)


def test_noise_beyond_what_the_network_knows(tmp_path):
    prior = InverseBenchPrior(**checkout(tmp_path, data="MultiCoilMRIData", sigma_max=10.0))
    y = noisy()
    torch.testing.assert_close(prior.denoise(y, 10.0), theirs(y, 10.0))
    torch.testing.assert_close(prior.denoise(40 * y, 40.0), theirs(10 * y, 10.0))


def test_two_checkouts_and_modules_of_the_user_do_not_meet(files, tmp_path, monkeypatch):
    (tmp_path / "own" / "models").mkdir(parents=True)
    (tmp_path / "own" / "models" / "__init__.py").write_text("OWN = True\n")
    monkeypatch.syspath_prepend(tmp_path / "own")
    other = checkout(tmp_path / "other")
    (tmp_path / "other/models/gains.py").write_text(GAINS.replace("return spread**2 /", "return 0 * sigma /"))
    state, path, before = torch.random.get_rng_state(), list(sys.path), set(sys.modules)
    first, second = InverseBenchPrior(**files), InverseBenchPrior(**other)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert sys.path == path
    assert not {"models", "utils"} & (set(sys.modules) - before)
    y = noisy()
    torch.testing.assert_close(first.denoise(y, 1.0), 0.5 + 0.5 * theirs(2 * y - 1, 2.0))
    torch.testing.assert_close(second.denoise(y, 1.0), torch.full_like(y, 0.5 + 0.5 * MEAN))
    import models

    assert models.OWN


@pytest.mark.parametrize("saved", [{"net": weights()}, weights()], ids=["net", "bare"])
def test_other_layouts_of_a_checkpoint(files, saved):
    torch.save(saved, files["checkpoint"])
    torch.testing.assert_close(
        InverseBenchPrior(**files).denoise(noisy(), 1.0), 0.5 + 0.5 * theirs(2 * noisy() - 1, 2.0)
    )


class Evil:
    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_code_in_a_checkpoint_is_not_run(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"ema": weights(), "extra": Evil()}, files["checkpoint"])
    for content in (Path(files["checkpoint"]).read_bytes(), pickle.dumps({"ema": Evil()})):
        Path(files["checkpoint"]).write_bytes(content)
        with pytest.raises(mb.UsageError, match=r"small\.pt has no plain weights.*code, which is not run"):
            InverseBenchPrior(**files)
    assert not (tmp_path / "ran").exists()


def without(section):
    return lambda text: "\n".join(line for line in text.splitlines() if section not in line)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"checkout": "nowhere"}, "checkout=nowhere: there is no such folder"),
        ({"checkpoint": "nowhere.pt"}, r"checkpoint=nowhere\.pt: there is no such file"),
        ({"config": "large"}, r"there is no config .*large\.yaml; those in its folder: small"),
        ({"scale": 1.0}, "scale and center belong together"),
        ({"scale": 0.0, "center": 0.0}, "scale=0.0 and center=0.0: a number above zero"),
        (without("data:"), r"does not say the units .*give scale and center"),
        (without("img_channels"), r"has no model\.img_channels: it has _target_, img_resolution, tags"),
        (lambda text: text.replace("model:", "network:"), "has no section model: it has data, network, train"),
        (lambda text: text.replace("precond.", "precondition."), r"but there is no file .*precondition\.py"),
        (lambda text: text.replace(".Precond", ".Other"), "defines no Other"),
        (lambda text: text.replace("tags", "flags"), r"models\.precond\.Precond of .* fails with TypeError.*flags"),
        (lambda text: text + "\n: [", r"small\.yaml cannot be read as a config"),
        ({"ema": {}}, "it lacks mean, spread"),
        ({"ema": {**weights(), "a": torch.zeros(1)}}, "does not fit .*small.yaml: it has unknown a"),
        ({"ema": weights(channels=2)}, r"shapes differ: mean \(2, 1, 1\) for \(1, 1, 1\)"),
        ({"ema": 1}, r"has under ema no tensors by name"),
        ({"optimizer": {}, "step": 1}, "has neither ema nor net: it has optimizer, step"),
    ],
)
def test_what_is_wrong_is_said(change, message, files, tmp_path):
    config = tmp_path / "InverseBench/configs/pretrain/small.yaml"
    if callable(change):
        config.write_text(change(config.read_text()))
    elif change.keys() & {"ema", "optimizer"}:
        torch.save(change, files["checkpoint"])
    else:
        files |= change
    with pytest.raises(mb.UsageError, match=message):
        InverseBenchPrior(**files)


def test_a_damaged_checkpoint(files):
    with open(files["checkpoint"], "r+b") as file:
        file.truncate(600)
    with pytest.raises(mb.UsageError, match=r"small\.pt"):
        InverseBenchPrior(**files)


def test_images_of_another_size_are_refused(files):
    with pytest.raises(mb.UsageError, match=r"small is for images \(1, 6, 6\), not \(1, 8, 8\)"):
        InverseBenchPrior(**files).denoise(noisy(8), 1.0)


def test_all_that_decides_is_part_of_the_identity(files, tmp_path):
    def told():
        return describe(Solver(Mmps(), InverseBenchPrior(**files)))

    first = told()
    moved = checkout(tmp_path / "moved")
    assert describe(Solver(Mmps(), InverseBenchPrior(**moved))) == first
    assert describe(Solver(Mmps(), InverseBenchPrior(**files, scale=1.0, center=0.0))) != first
    root = tmp_path / "InverseBench"
    (root / "README.md").write_text("no code")
    assert told() == first
    seen = [first]
    for edit in (
        lambda: torch.save({"ema": weights(mean=0.0)}, files["checkpoint"]),
        lambda: (root / "models/gains.py").write_text(GAINS.replace("spread**2 +", "2 * spread**2 +")),
        lambda: (root / "utils/helper.py").write_text(HELPER + "\nUSED = 1\n"),
        lambda: (root / "configs/pretrain/small.yaml").write_text(
            (root / "configs/pretrain/small.yaml").read_text().replace("tags: [1, 2]", "tags: [1]")
        ),
    ):
        edit()
        now = told()
        assert now not in seen
        seen.append(now)


def test_files_are_known_to_the_run(files, tmp_path):
    found = Solver(Mmps(), InverseBenchPrior(**files)).data_files
    names = {os.path.relpath(path, tmp_path / "InverseBench") for path in found}
    models = {"models/precond.py", "models/gains.py", "models/names.py"}
    assert names == models | {"utils/helper.py", "configs/pretrain/small.yaml", "small.pt"}


def test_a_checkpoint_that_is_edited_on_the_way_is_refused(files):
    sent = pickle.dumps(InverseBenchPrior(**files))
    torch.save({"ema": weights(mean=0.7)}, files["checkpoint"])
    from mira_bench.tasks.inverse import inversebench

    inversebench._NETWORKS.clear()  # as in another process
    with pytest.raises(mb.UsageError, match=r"small\.pt was edited while the run was under way"):
        pickle.loads(sent).denoise(noisy(), 1.0)


def test_the_posterior_of_a_gaussian_network(files, rng):
    # MMPS is exact for Gaussian images, up to its steps.
    problem = Scattering(size=6, transmitters=4, receivers=12, noise=1.0)
    prior = InverseBenchPrior(**files)
    operator, size = problem.operator(), 36
    mean, spread = 0.5 + 0.5 * MEAN, 0.5 * SPREAD
    truth = (mean + spread * rng.standard_normal((1, 1, 6, 6))).astype(np.float32)
    x = problem.measure(truth, rng)
    matrix = operator.forward(torch.eye(size, dtype=torch.float64).reshape(size, 1, 6, 6)).flatten(1).T.numpy()
    covariance = np.linalg.inv(matrix.T @ matrix / operator.noise**2 + np.eye(size) / spread**2)
    expected = mean + covariance @ matrix.T @ (x.reshape(-1) - matrix @ np.full(size, mean)) / operator.noise**2
    count = 200
    drawn = Solver(Mmps(steps=200, iterations=12), prior).build(Inverse(problem), rng).sample(x, count, rng)
    samples = drawn.values.reshape(count, size).astype(np.float64)
    vectors = np.linalg.eigh(covariance)[1]
    widths = np.sqrt(np.diag(vectors.T @ covariance @ vectors))
    scores = (samples - expected) @ vectors / widths
    assert np.abs(scores.mean(axis=0)).max() < 4 / np.sqrt(count)
    lost = 1 - np.square(scores).mean()  # steps are finite: with 60 it is 0.22, with 400 0.03
    assert abs(lost - 0.05) < 4 * np.sqrt(2 / (count * size))


SMALL = {"count": 60, "mixture": MixtureTrainer(rank=4, components=1, rest=True)}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_with_a_network(workers, tmp_path):
    prior = InverseBenchPrior(**checkout(tmp_path / "InverseBench", size=8, channels=2, data="MultiCoilMRIData"))
    task = Inverse(Mri(size=8, acceleration=2.0), ImagePrior(size=8, **SMALL))
    candidates = {"network": Solver(DiffPir(steps=20), prior), "mixture": Solver(DiffPir(steps=20))}
    settings = {"fiducials": 6, "samples": 8, "metrics": ["energy"], "store": str(tmp_path / "store")}
    found = mb.run(task, candidates, workers=workers, **settings)
    means = found.scores.groupby("candidate")["value"].mean()
    assert means["mixture"] < means["network"]  # whose images are white noise
    torch.save({"ema": weights(2, mean=0.0)}, tmp_path / "InverseBench/small.pt")
    edited = InverseBenchPrior(prior.checkout, prior.config, prior.checkpoint)
    again = mb.run(task, candidates | {"network": Solver(DiffPir(steps=20), edited)}, workers=workers, **settings)
    other = again.scores.groupby("candidate")["value"].mean()
    assert other["mixture"] == means["mixture"]
    assert other["network"] < means["network"]


REAL = """\
_target_: mira_bench.tasks.inverse.Solver
sampler: {_target_: mira_bench.inference.diffusion.DiffPir, steps: 10}
prior:
  _target_: mira_bench.tasks.inverse.InverseBenchPrior
  checkout: InverseBench
  config: small
  checkpoint: InverseBench/small.pt
"""


def test_the_command_line(elsewhere, capsys):
    checkout(elsewhere / "InverseBench", size=8, channels=2, data="MultiCoilMRIData")
    (elsewhere / "conf/candidate").mkdir(parents=True)
    (elsewhere / "conf/candidate/real.yaml").write_text(REAL)
    np.save("brains.npy", np.random.default_rng(0).normal(size=(3, 2, 8, 8)).clip(-1, 1))
    words = ["--config-dir", "conf", "task=mri", "+candidate@candidate.real=real", "candidates=[real]"]
    model = "task.model"
    words += [f"{model}.problem.size=8", f"{model}.trainer.size=8", f"{model}.trainer.count=60", "workers=1"]
    words += [
        f"{model}.trainer.mixture.rank=4",
        f"{model}.trainer.mixture.components=1",
        f"++{model}.truths=brains.npy",
    ]
    words += ["fiducials=3", "samples=4", "metrics=[energy]", "out=out", "store=store"]
    assert main(words) == 0
    table = pd.read_csv(elsewhere / "out" / "ranking.csv")
    assert list(table["candidate"]) == ["real"]
    assert main([*words, f"++{model}.truths=nowhere.npy"]) == 2
    assert "there is no nowhere.npy" in capsys.readouterr().err
    (elsewhere / "InverseBench/small.pt").unlink()
    assert main(words) == 2
    assert "there is no such file" in capsys.readouterr().err


@pytest.fixture
def given(tmp_path):
    images = np.random.default_rng(1).normal(size=(5, 2, 8, 8)).clip(-1, 1).astype(np.float32)
    np.save(tmp_path / "truths.npy", images)
    return images, str(tmp_path / "truths.npy")


def test_truths_of_the_user_come_in_their_order(given, tmp_path):
    images, path = given
    task = Inverse(Mri(size=8, acceleration=2.0), ImagePrior(size=8, **SMALL), truths=path)
    assert task.most_fiducials == 5
    assert not hasattr(task, "exact_posterior")
    assert not hasattr(task, "prior_sample")
    assert list(task.data_files) == [path]
    settings = {"samples": 4, "metrics": ["energy"], "keep_samples": True}
    runs = [
        mb.run(
            task,
            {"a": Solver(DiffPir(steps=5))},
            fiducials=count,
            workers=workers,
            store=str(tmp_path / name),
            **settings,
        )
        for count, workers, name in ((5, 1, "a"), (3, 2, "b"))
    ]
    long, short = (one.scores.sort_values("fiducial") for one in runs)
    assert set(long["candidate"]) == {"a"}
    assert np.array_equal(long["value"].to_numpy()[:3], short["value"].to_numpy())
    fiducials = task.simulate(5, np.random.default_rng(0))
    assert np.array_equal(fiducials.y, images)
    with pytest.raises(mb.UsageError, match="the task has 5 of them"):
        mb.run(task, {"a": Solver(DiffPir(steps=5))}, fiducials=6, store=None, **(settings | {"keep_samples": False}))


def test_truths_are_known_by_their_content(given, tmp_path):
    images, path = given
    task = Inverse(Mri(size=8, acceleration=2.0), ImagePrior(size=8, **SMALL))
    first, plain = describe(Inverse(task.problem, task.trainer, truths=path)), describe(task)
    assert first != plain
    np.save(tmp_path / "copy.npy", images)
    assert describe(Inverse(task.problem, task.trainer, truths=str(tmp_path / "copy.npy"))) == first
    np.save(path, images[::-1])
    assert describe(Inverse(task.problem, task.trainer, truths=path)) != first
    with pytest.raises(mb.UsageError, match=r"has images \(2, 8, 8\); those of the problem are \(2, 16, 16\)"):
        describe(Inverse(Mri(size=16), truths=path))
