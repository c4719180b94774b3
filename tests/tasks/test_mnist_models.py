r"""The models of digits, trained in seconds on real digits of 8 x 8 pixels."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from mira_bench.tasks.mnist.cvae import CvaeTrainer
from mira_bench.tasks.mnist.features import (
    ClassifierFeatures,
    ClassifierTrainer,
    PrincipalComponents,
    SubspaceTrainer,
)
from mira_bench.tasks.mnist.models import Cvae, Diffusion, LatentDiffusion, Mixtures
from small_digits import small_digits, told_apart, typical_distance

from mira_bench.errors import UsageError
from mira_bench.inference.diffusion import DiffusionTrainer, LatentTrainer, MixtureTrainer, Subspace
from mira_bench.inference.gradient_training import train

SMALL = CvaeTrainer(epochs=40, batch=64, rate=2e-3, heating=5, code=8)


@dataclass(frozen=True)
class SmallDigits:
    r"""What models look at of a task."""

    @property
    def training_images(self):
        return small_digits()["images"]

    @property
    def training_labels(self):
        return small_digits()["labels"]


@pytest.fixture(scope="module")
def cvae():
    r"""The weights of a small autoencoder, and its losses."""
    stages = list(SMALL.stages(SMALL.learns_from(SmallDigits()), np.random.default_rng(0), None))
    return stages[-1].weights(), [stage.curves for stage in stages]


def test_the_autoencoder_is_that_of_the_appendix():
    facts = {"event": np.array([28, 28]), "classes": np.array(10)}
    network = CvaeTrainer().network(facts)
    assert sum(weights.numel() for weights in network.parameters()) == 410_757
    shapes = []
    for layer in network.encoder:
        layer.register_forward_hook(lambda _, __, out: shapes.append(tuple(out.shape[1:])))
    mean, log_variance = network.encode(torch.zeros(2, 1, 28, 28), torch.tensor([0, 9]))
    assert (32, 14, 14) in shapes
    assert (64, 7, 7) in shapes
    assert mean.shape == log_variance.shape == (2, 32)
    assert network.decode(mean, torch.tensor([0, 9])).shape == (2, 1, 28, 28)


def test_a_small_autoencoder_learns_digits(cvae):
    state, curves = cvae
    assert curves[-1]["reconstruction"] < 0.8 * curves[0]["reconstruction"]
    posterior = Cvae(SMALL).load(SmallDigits(), state)
    images = posterior.sample(np.arange(10), 30, np.random.default_rng(1))
    assert images.shape == (10, 30, 8, 8)
    assert images.dtype == np.float32
    labels, images = np.arange(10).repeat(30), images.reshape(-1, 8, 8)
    # The right digit more often than by chance, by ten standard errors, and nearer to real ones than noise is.
    assert told_apart(images, labels).mean() > 0.1 + 10 * math.sqrt(0.1 * 0.9 / len(labels))
    noise = np.random.default_rng(2).uniform(size=images.shape)
    near, far = typical_distance(images, labels), typical_distance(noise, labels)
    assert near.mean() + 4 * near.std() / math.sqrt(len(near)) < 0.7 * far.mean()


def test_pixels_are_drawn_around_the_mean(cvae):
    state, _ = cvae
    x, count = np.array([[3], [8]]), 400
    means = Cvae(SMALL).load(None, state).sample(x, count, np.random.default_rng(1))
    pixels = Cvae(SMALL, draw="pixels").load(None, state).sample(x, count, np.random.default_rng(1))
    assert set(np.unique(pixels)) == {0.0, 1.0}
    # The same codes: what is left is Bernoulli noise, of variance p (1 - p).
    error = np.sqrt((means * (1 - means)).sum(axis=1)) / count
    assert np.all(np.abs((pixels - means).mean(axis=1)) < 4.5 * error + 1e-3)


def test_a_gaussian_autoencoder_learns_the_variance_of_what_is_left():
    trainer = CvaeTrainer(epochs=1, batch=64, code=8, reconstruction="gaussian")
    data = trainer.learns_from(SmallDigits())
    batch = {key: torch.from_numpy(value[:200]) for key, value in data.items()}
    network = trainer.network(trainer.facts(data))

    def slope(log_variance):
        network.log_variance.data.fill_(log_variance)
        loss = trainer.loss(network, batch, torch.Generator().manual_seed(0), 0.0)["loss"]
        (found,) = torch.autograd.grad(loss, network.log_variance)
        return float(found)

    y, labels = batch["images"] / 255, batch["labels"].long()
    mean, log_variance = network.encode(y[:, None], labels)
    shift = torch.randn(mean.shape, generator=torch.Generator().manual_seed(0))
    left = network.pixels(mean + (0.5 * log_variance).exp() * shift, labels) - y
    best = float(left.detach().square().mean().log())
    assert slope(best - 0.1) < 0 < slope(best + 0.1)
    assert abs(slope(best)) < 1e-4 * slope(best + 0.1)


def test_gaussian_pixels_are_drawn_with_the_variance_that_was_learned():
    trainer = CvaeTrainer(epochs=1, batch=64, code=8, reconstruction="gaussian")
    state = train(trainer, trainer.learns_from(SmallDigits()), np.random.default_rng(0))
    drawn, means = (
        Cvae(trainer, draw=draw).load(None, state).sample(np.arange(10), 50, np.random.default_rng(1))
        for draw in ("pixels", "mean")
    )
    noise = (drawn - means).astype(np.float64)
    spread = math.exp(0.5 * float(state["network log_variance"]))
    assert abs(noise.std() / spread - 1) < 4 / math.sqrt(2 * noise.size)


def test_the_divergence_warms_up():
    y = {key: torch.from_numpy(value[:8]) for key, value in small_digits().items()}
    trainer = CvaeTrainer(heating=10)
    network = trainer.network(trainer.facts(SMALL.learns_from(SmallDigits())))
    for epoch, weight in ((0.0, 0.0), (2.5, 0.25), (10.0, 1.0), (400.0, 1.0)):
        losses = trainer.loss(network, y, torch.Generator().manual_seed(0), epoch)
        found = {key: float(value.detach()) for key, value in losses.items()}
        assert found["loss"] == pytest.approx(found["reconstruction"] + weight * found["divergence"], rel=1e-6)


def test_an_interrupted_autoencoder_ends_as_another():
    data = {key: value[:300] for key, value in small_digits().items()}
    trainer = CvaeTrainer(epochs=3, batch=64, precision="bfloat16", ema=0.9)
    stages = trainer.stages(data, np.random.default_rng(0), None)
    memory = next(stages).memory()
    *_, whole = stages
    *_, again = trainer.stages(data, np.random.default_rng(0), memory)
    ours, theirs = whole.weights(), again.weights()
    assert all(np.array_equal(ours[key], theirs[key]) for key in ours)


TINY = {"nf": 16, "ch_mult": (1, 2), "num_res_blocks": 1, "attention": False, "fir": False}
TINY |= {"progressive": "none", "progressive_input": "none"}
QUICK = [
    Cvae(CvaeTrainer(epochs=1)),
    Diffusion(DiffusionTrainer(epochs=1, batch=512, architecture=TINY), steps=3),
    Diffusion(DiffusionTrainer(epochs=1, batch=512, architecture=TINY, kind="ve", fold=1, center=0, scale=1), steps=3),
    LatentDiffusion(LatentTrainer(epochs=1, rank=10, width=32), steps=3),
    Mixtures(MixtureTrainer(rank=10, components=2)),
]


@pytest.mark.parametrize("candidate", QUICK, ids=lambda candidate: type(candidate).__name__)
def test_every_model_is_a_candidate(candidate):
    posterior = candidate.build(SmallDigits(), np.random.default_rng(0))
    x = np.array([[7], [0], [7]])
    one, same = (posterior.sample(x, 4, np.random.default_rng(1)) for _ in range(2))
    assert one.shape == (3, 4, 8, 8)
    assert one.dtype == np.float32
    assert np.array_equal(one, same)
    assert not np.array_equal(one[0], one[2])  # samples of the same label are others
    for wrong in (np.array([10]), np.array([-1]), np.array([2.5])):
        with pytest.raises(UsageError, match="labels are whole numbers from 0 to 9"):
            posterior.sample(wrong, 1, np.random.default_rng(0))


def test_mixtures_of_digits_have_the_means_and_variances_of_real_ones():
    candidate = Mixtures(MixtureTrainer(rank=20, components=3))
    images = candidate.build(SmallDigits(), np.random.default_rng(0)).sample(
        np.array([5]), 2000, np.random.default_rng(1)
    )
    data = small_digits()
    fives = data["images"][data["labels"] == 5] / 255
    error = fives.std(axis=0) / math.sqrt(2000)
    assert np.all(np.abs(images[0].mean(axis=0) - fives.mean(axis=0)) < 4.5 * error + 1e-3)


@pytest.fixture(scope="module")
def classifier():
    trainer = ClassifierTrainer(epochs=20, batch=64, rate=3e-3, features=16)
    data = {key: value[:1400] for key, value in small_digits().items()}
    return ClassifierFeatures(trainer).load(train(trainer, data, np.random.default_rng(0)))


def test_a_classifier_tells_images_apart_that_it_has_not_seen(classifier):
    images, labels = (small_digits()[key][1400:] for key in ("images", "labels"))
    values = images.reshape(len(images), -1) / 255
    right = classifier.probabilities(values).argmax(axis=1) == labels
    assert right.mean() - 4 * right.std() / math.sqrt(len(right)) > 0.8
    # By its features, images are nearer to those of their digit than to others, more than by their pixels.
    points = classifier.points(values.reshape(1, -1, 64))[0]
    assert points.shape == (len(images), 16)

    def ratio(points):
        distances = np.linalg.norm(points[:, None] - points, axis=2)
        same = labels[:, None] == labels
        return distances[~same].mean() / distances[same & ~np.eye(len(points), dtype=bool)].mean()

    assert ratio(points) > ratio(values)


def test_principal_components_are_a_view():
    view = PrincipalComponents(SubspaceTrainer(rank=5))
    images = small_digits()["images"]
    state = view.trainer.fit(view.trainer.learns_from(SmallDigits()), np.random.default_rng(0), lambda *_: None)
    values = images[:12].reshape(3, 4, 64) / 255
    found = view.load(state).points(values)
    assert found.shape == (3, 4, 5)
    assert np.allclose(found.reshape(12, 5), Subspace.of(images, 5).encode(images[:12]))
    assert view.load(state).bounds(np.zeros(64), np.ones(64)) is None


def test_errors_name_the_culprit():
    for wrong, culprit in (
        (lambda: Cvae(draw="median"), "draw='median'"),
        (lambda: CvaeTrainer(reconstruction="poisson"), "reconstruction='poisson'"),
        (lambda: CvaeTrainer().facts({"images": np.zeros((3, 10, 8)), "labels": np.arange(3)}), "10 x 8 pixels"),
    ):
        with pytest.raises(UsageError, match=culprit):
            wrong()
