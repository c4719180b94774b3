r"""The galaxy behind a lens: its physics against caustics, its posteriors against theory, its identity in the store."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from mira_bench.tasks.galaxy import Diffused, Exact, Galaxy, GalaxyPriors, Lens, Trained
from mira_bench.tasks.galaxy.priors import MOST
from mira_bench.tasks.galaxy.task import HELD_OUT
from scipy.ndimage import correlate1d

import mira_bench as mb
from mira_bench.adapters.identity import describe, hash_arrays
from mira_bench.adapters.reads import hash_file
from mira_bench.cli.command import main
from mira_bench.inference.diffusion import DiffusionTrainer, MixtureTrainer
from mira_bench.inference.diffusion.posterior_sampling import PredictorCorrector
from mira_bench.runner.cost import estimate
from mira_bench.runner.setup import Settings
from mira_bench.runner.store import Store

SMALL = Galaxy(
    size=16, count=40, lens=Lens(pixels=16), trainer=GalaxyPriors(mixture=MixtureTrainer(rank=8, components=2))
)
CANDIDATES = {
    f"{prior}_{name}": Exact(prior, noise)
    for prior in ("spiral", "elliptical")
    for name, noise in (("2", 2.0), ("05", 0.5))
}
QUICK = {"fiducials": 8, "samples": 10, "metrics": {"mira": mb.Mira(regions=10, test=False)}, "controls": False}


def kept(store, kind):
    return [entry for entry in Store(store).entries() if entry.spec["kind"] == kind]


def sigmas(result):
    r"""How far each candidate is from its expectation, in standard errors."""
    table = result.summary[result.summary.metric == "mira"].set_index("candidate")
    return (table.score - table.expected) / table.stderr


@pytest.fixture(scope="module")
def state():
    return SMALL.trainer.fit(SMALL.trainer.learns_from(SMALL), np.random.default_rng(0), lambda *_: None)


@pytest.fixture(scope="module")
def task(state):
    return SMALL.load(state)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    r"""A run of two hundred fiducials, and its store."""
    store = tmp_path_factory.mktemp("galaxy")
    metrics = {"mira": mb.Mira(regions=100), "evidence": mb.Evidence()}
    return mb.run(SMALL, CANDIDATES, fiducials=200, samples=40, metrics=metrics, store=store), store


# The lens


def traced(lens, source):
    r"""The image of a source by caustics, in double precision."""
    import caustics

    size = len(source)
    scale = torch.tensor(lens.source_field / size, dtype=torch.float64)
    image = caustics.Pixelated(name="source", image=torch.from_numpy(source), x0=0.0, y0=0.0, pixelscale=scale)
    simulator = caustics.LensSource(
        lens=lens.model(), source=image, pixelscale=lens.field / lens.pixels, pixels_x=lens.pixels
    ).to(dtype=torch.float64)
    side = (torch.arange(lens.pixels, dtype=torch.float64) - (lens.pixels - 1) / 2) * lens.field / lens.pixels
    y, x = torch.meshgrid(side, side, indexing="ij")
    simulator._grid = (x[..., None], y[..., None])  # its own is of single precision
    return simulator().numpy()


@pytest.mark.parametrize(
    "lens",
    [
        Lens(supersampling=1, pixels=24),
        Lens(supersampling=1, pixels=25, kind="epl", slope=2.2, shear=(-0.05, 0.08), phi=2.0),
        Lens(supersampling=1, pixels=20, source_field=0.8, center=(0.3, 0.2)),
    ],
    ids=["sie", "epl", "small"],
)
def test_the_matrix_traces_rays_as_caustics_does(lens):
    source = np.random.default_rng(0).random((17, 17))
    expected = traced(lens, source)
    found = (lens.matrix(17) @ source.ravel()).reshape(expected.shape)
    assert 0.2 < (expected != 0).mean() < 1
    assert np.allclose(found, expected, atol=1e-9)


def test_an_isothermal_power_law_is_the_isothermal_ellipsoid():
    one, other = (Lens(kind=kind, pixels=16, slope=2.0).matrix(16).toarray() for kind in ("sie", "epl"))
    assert np.allclose(one, other, atol=1e-4)  # the power law is a series


def test_without_much_of_a_lens_the_image_is_the_source():
    # The same field and pixels, and hardly a deflection: brightness is kept.
    lens = Lens(radius=1e-9, shear=(0.0, 0.0), source_field=4.0, supersampling=1, pixels=16)
    assert np.allclose(lens.matrix(16).toarray(), np.eye(256), atol=1e-6)


def test_supersampling_is_the_mean_of_fine_pixels():
    source = np.random.default_rng(1).random(256)
    fine = (Lens(pixels=48, supersampling=1).matrix(16) @ source).reshape(16, 3, 16, 3)
    found = (Lens(pixels=16, supersampling=3).matrix(16) @ source).reshape(16, 16)
    assert np.allclose(found, fine.mean(axis=(1, 3)), atol=1e-12)


@pytest.mark.parametrize("psf", [0.02, 0.6, 2.0, 8.0])
def test_the_point_spread_function_is_a_convolution(psf):
    lens = Lens(pixels=16)
    source = np.random.default_rng(2).random(256)
    sharp = (lens.matrix(16) @ source).reshape(16, 16)
    found = (replace(lens, psf=psf).matrix(16) @ source).reshape(16, 16)
    sigma = psf / math.sqrt(8 * math.log(2)) / (4.0 / 16)
    reach = np.arange(-int(4 * sigma) - 1, int(4 * sigma) + 2)
    weights = np.exp(-0.5 * (reach / sigma) ** 2)
    # scipy needs images as wide as weights; zero outside either way.
    padded = np.pad(sharp, len(reach))
    for axis in (0, 1):
        padded = correlate1d(padded, weights / weights.sum(), axis=axis, mode="constant")
    inside = slice(len(reach), -len(reach))
    assert np.allclose(found, padded[inside, inside], atol=1e-12)
    assert found.sum() <= sharp.sum() * (1 + 1e-12)  # light is lost at the sides, and not made


@pytest.mark.parametrize(
    "wrong",
    [
        *({"radius": math.nan}, {"radius": -1.0}, {"q": 0.0}, {"q": 1.5}, {"slope": 3.0}, {"psf": -1.0}, {"pixels": 1}),
        *({"kind": "nfw"}, {"shear": (0.1,)}, {"supersampling": 0}, {"field": 0.0}, {"phi": math.nan}),
    ],
    ids=str,
)
def test_a_lens_that_cannot_be_is_refused(wrong):
    with pytest.raises(mb.UsageError, match="lens"):
        Lens(**wrong)


# The priors


def test_priors_have_the_moments_and_the_symmetry_of_their_images(task):
    images, labels = task.training_images / 255, task.training_labels
    for k, name in enumerate(("spiral", "elliptical")):
        prior = task.prior_of(name)
        mean = (prior.subspace.mean + prior.weights @ prior.means @ prior.subspace.components).reshape(3, 16, 16)
        turns = [np.rot90(images[labels == k].mean(axis=0), i, axes=(1, 2)) for i in range(4)]
        expected = np.mean([*turns, *(turn[..., ::-1] for turn in turns)], axis=0)
        assert np.allclose(mean, expected, atol=2e-3)  # bytes are rounded
        assert np.allclose(mean, mean[:, ::-1], atol=1e-6)
        assert np.allclose(mean, mean.swapaxes(1, 2), atol=1e-6)
    # Spirals are blue, ellipticals red: each is that of its name.
    blue = {
        name: task.prior_of(name).sample(200, np.random.default_rng(3)).mean(axis=(0, 2, 3)) for name in task.priors
    }
    assert blue["spiral"][2] / blue["spiral"][0] > blue["elliptical"][2] / blue["elliptical"][0]


def test_the_denoiser_of_a_fitted_prior_follows_from_its_density(task):
    prior, sigma = task.prior_of("spiral"), 0.2
    y = torch.from_numpy(prior.sample(5, np.random.default_rng(4)).astype(np.float64))
    y = (
        y + sigma * torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ).requires_grad_()
    (gradient,) = torch.autograd.grad(prior.log_prob(y, sigma).sum(), y)
    assert torch.allclose(prior.denoise(y.detach(), sigma), y.detach() + sigma**2 * gradient, atol=1e-9)


def test_simulations_are_what_the_operator_says(task):
    fiducials = task.simulate(400, np.random.default_rng(5))
    left = (fiducials.x - task.operator().forward(fiducials.y)) / task.noise
    assert abs(left.mean()) < 4 / math.sqrt(left.size)
    assert abs(np.square(left).mean() - 1) < 4 * math.sqrt(2 / left.size)
    # Neither channels nor neighbors share noise.
    for one, other in ((left[:, 0], left[:, 1]), (left[..., 1:], left[..., :-1])):
        assert abs((one * other).mean()) < 4 / math.sqrt(one.size)
    # Twice as bright is twice the signal.
    y = fiducials.y[:2]
    assert np.allclose(replace(task, brightness=20.0).operator().forward(y), 2 * task.operator().forward(y))


def test_the_likelihood_is_broadcast(task):
    fiducials = task.simulate(3, np.random.default_rng(6))
    y, x = np.asarray(fiducials.y), np.asarray(fiducials.x)
    samples = task.prior_sample(6, np.random.default_rng(7)).reshape(3, 2, 3, 16, 16)
    found = task.log_likelihood(samples, x[:, None])
    for l in range(3):
        for s in range(2):
            assert found[l, s] == task.operator().log_likelihood(samples[l, s][None], x[l][None])[0]
    assert np.allclose(task.log_likelihood(y[:, None], x[None]).diagonal(), task.log_likelihood(y, x))
    assert task.log_likelihood(y[:1, None], x[None]).shape == (1, 3)


# Scores


def test_the_right_candidate_is_calibrated_and_wrong_noise_is_not(whole):
    result, _ = whole
    found = sigmas(result)
    for name in ("oracle", "spiral_2", "prior"):
        assert abs(found[name]) < 4
    assert found["spiral_05"] < -4  # overconfident
    assert found["elliptical_05"] < -4


def test_the_evidence_is_for_the_truth(whole):
    result, _ = whole
    table = result.summary[result.summary.metric == "evidence"].set_index("candidate")
    assert table.score["spiral_2"] == pytest.approx(0.0, abs=1e-9)  # it is the true model
    for name in ("spiral_05", "elliptical_2", "elliptical_05"):
        assert table.score[name] < -4 * table.stderr[name]
    # Noise of 0.5 for 2 makes squares 16 times as large, that is known without any prior up to the seen dimensions.
    size = 3 * 16 * 16
    expected = size * (math.log(4) + 0.5 - 8)
    assert table.score["spiral_05"] == pytest.approx(expected, rel=0.05)


def test_bits_do_not_depend_on_workers_or_shards(whole, tmp_path):
    _, store = whole
    settings = QUICK | {"fiducials": 10, "samples": 40, "keep_samples": True}  # the last block is cut
    names = ("spiral_2", "elliptical_05")
    chosen = {name: CANDIDATES[name] for name in names}
    one = mb.run(SMALL, chosen, store=tmp_path / "one", **settings)
    two = mb.run(SMALL, chosen, store=tmp_path / "two", workers=2, **settings)
    assert one.scores.equals(two.scores)
    # A part first, the rest later, one candidate after the other.
    mb.run(SMALL, {"spiral_2": CANDIDATES["spiral_2"]}, store=tmp_path / "parts", **settings | {"fiducials": 5})
    parts = mb.run(SMALL, chosen, store=tmp_path / "parts", **settings)
    assert parts.scores.equals(one.scores)

    def contents(folder, kind):
        found = (Store(folder).get(entry.spec) for entry in kept(folder, kind))
        return sorted(b"".join(state[key].tobytes() for key in sorted(state)) for state in found)

    for kind in ("fit", "fiducials", "samples"):
        assert (
            contents(tmp_path / "one", kind) == contents(tmp_path / "two", kind) == contents(tmp_path / "parts", kind)
        )
    # Samples of different fiducials and of different candidates are drawn with other noise.
    assert len(set(contents(tmp_path / "one", "samples"))) == 6
    # The same fiducials as in the run of two hundred.
    assert set(contents(tmp_path / "one", "fiducials")) <= set(contents(store, "fiducials"))
    assert contents(tmp_path / "one", "fit") == contents(store, "fit")


def test_the_diffusion_sampler_is_a_candidate(state):
    sampler = PredictorCorrector(steps=60, corrections=2)
    both = {"exact": Exact(), "diffused": Diffused(sampler=sampler)}
    fiducials = SMALL.load(state).simulate(1, np.random.default_rng(8))
    means, widths = {}, {}
    task = SMALL.load(state)
    for name, candidate in both.items():
        drawn = mb.Draws.of(
            candidate.build(task, np.random.default_rng(0)).sample(fiducials.x, 200, np.random.default_rng(9))
        )
        codes = task.prior_of("spiral").subspace.encode(drawn.values[0])
        means[name], widths[name] = codes.mean(axis=0), codes.std(axis=0)
    # Within a standard deviation: the convolved likelihood is wrong at large noise, and steps are few.
    assert np.all(np.abs(means["exact"] - means["diffused"]) < widths["exact"])
    assert np.all(np.abs(np.log(widths["diffused"] / widths["exact"])) < 0.35)
    assert drawn.diagnostics["denoiser_calls"].tolist() == [200 * 60 * 3]


TINY = {"nf": 16, "ch_mult": (1, 2), "num_res_blocks": 1, "attention": False, "fir": False}
TINY |= {"progressive": "none", "progressive_input": "none"}


def test_trained_candidates_share_a_network(tmp_path):
    trainer = DiffusionTrainer(epochs=1, batch=16, architecture=TINY)
    spiral = Trained(sampler=PredictorCorrector(steps=4), trainer=trainer)
    chosen = {"spiral": spiral, "elliptical": replace(spiral, prior="elliptical"), "sure": replace(spiral, noise=0.5)}
    settings = QUICK | {"fiducials": 2, "samples": 3, "store": tmp_path, "keep_samples": True}
    result = mb.run(SMALL, chosen, **settings)
    assert not result.failures
    ends = [entry for entry in kept(tmp_path, "fit") if "epoch" not in entry.spec]
    assert len(ends) == 2  # the network, and the mixtures of the task
    drawn = [Store(tmp_path).get(entry.spec)["values"].tobytes() for entry in kept(tmp_path, "samples")]
    assert len(set(drawn)) == len(drawn) == 3


def test_a_network_is_not_asked_for_noise_that_it_has_not_seen():
    trainer = DiffusionTrainer(kind="ve", center=0.0, scale=1.0, smallest=0.002, largest=50.0)
    Trained(trainer=trainer)
    for wrong in ({"scale": 0.5}, {"largest": 40.0}, {"smallest": 0.01}):
        with pytest.raises(mb.UsageError, match="but the network learns from"):
            Trained(trainer=replace(trainer, **wrong))


# What is kept


def test_priors_are_learned_once(whole, tmp_path, monkeypatch):
    fitted = []
    fit = MixtureTrainer.fit
    monkeypatch.setattr(MixtureTrainer, "fit", lambda self, *words: fitted.append(self) or fit(self, *words))
    settings = QUICK | {"store": tmp_path}
    chosen = {"exact": Exact()}
    first = mb.run(SMALL, chosen, **settings)
    assert len(fitted) == len(kept(tmp_path, "fit")) == 1
    assert mb.run(SMALL, chosen, **settings).scores.equals(first.scores)
    # The truth and the lens are no part of it.
    for other in (replace(SMALL, noise=1.0), replace(SMALL, prior="elliptical"), replace(SMALL, lens=Lens(pixels=12))):
        mb.run(other, chosen, **settings)
    assert len(fitted) == 1
    assert len(kept(tmp_path, "fiducials")) == 4 * 2
    # Other images and another fit are.
    cheap = MixtureTrainer(rank=4, components=1)
    others = [replace(SMALL, count=30), replace(SMALL, seed=1), replace(SMALL, trainer=GalaxyPriors(mixture=cheap))]
    for other in others:
        mb.run(other, chosen, **settings)
    assert len(fitted) == len(kept(tmp_path, "fit")) == 4
    states = [Store(tmp_path).get(entry.spec)["class 0 mean"].tobytes() for entry in kept(tmp_path, "fit")]
    assert len(set(states)) == 3  # the last two have the same images


def test_a_rehearsal_keeps_priors_and_nothing_else(tmp_path):
    said = []
    cost = estimate(SMALL, {"exact": Exact(), "diffused": Diffused()}, Settings(**QUICK, store=tmp_path), said.append)
    assert set(cost.seconds) == {"exact", "diffused"}
    assert cost.total > 0
    assert {entry.spec["kind"] for entry in Store(tmp_path).entries()} == {"fit"}
    assert len(kept(tmp_path, "fit")) == 1


def test_galaxies_that_no_prior_has_seen(tmp_path):
    task = replace(SMALL, truths="images")
    result = mb.run(task, {"exact": Exact()}, **QUICK | {"controls": True, "store": tmp_path})
    assert "oracle" not in set(result.summary.candidate)
    assert "exact" in set(result.summary.candidate)
    truths = np.concatenate([Store(tmp_path).get(entry.spec)["y"] for entry in kept(tmp_path, "fiducials")])
    training = task.training_images[task.training_labels == 0] / 255
    nearest = np.abs(truths[:, None] - training).mean(axis=(2, 3, 4)).min()
    assert nearest > 0.01  # no truth is a training image
    # They are galaxies: outside of the subspace in which priors live there is something.
    prior = GalaxyPriors(mixture=task.trainer.mixture).load(Store(tmp_path).get(kept(tmp_path, "fit")[0].spec))[
        "spiral"
    ]
    rebuilt = prior.subspace.decode(prior.subspace.encode(truths))
    assert np.abs(rebuilt - truths.reshape(len(truths), -1)).max() > 0.05


def test_bad_words_are_refused():
    for wrong in ({"prior": "irregular"}, {"truths": "dreams"}):
        with pytest.raises(mb.UsageError, match="is not one of"):
            replace(SMALL, **wrong)
    with pytest.raises(mb.UsageError, match="not learned yet"):
        SMALL.simulate(1, np.random.default_rng(0))
    for kind in (Exact, Diffused, Trained):
        with pytest.raises(mb.UsageError, match="prior='irregular' is not one of spiral, elliptical"):
            kind("irregular")
        with pytest.raises(mb.UsageError, match=r"noise=0\.0: a positive number is needed"):
            kind(noise=0.0)
    for wrong in ({"noise": 0.0}, {"brightness": -1.0}, {"count": 0}, {"size": 0}):
        with pytest.raises(mb.UsageError, match="a number above"):
            replace(SMALL, **wrong)
    with pytest.raises(mb.UsageError, match="sha256 is that of a file"):
        replace(SMALL, sha256="0" * 64)


# Real images


def write(path, seed=0, spirals=2 * HELD_OUT, ellipticals=30):
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, count in (("spiral", spirals), ("elliptical", ellipticals)):
        # Smooth blobs, of another width in each class.
        side = np.linspace(-1, 1, 16)
        width = rng.uniform(0.2, 0.3, (count, 3, 1)) * (1 if name == "spiral" else 2)
        lines = np.exp(-0.5 * (side / width) ** 2)
        arrays[name] = (255 * rng.uniform(0.5, 1.0, (count, 3, 1, 1)) * lines[..., None] * lines[..., None, :]).astype(
            np.uint8
        )
    np.savez(path, **arrays)
    return arrays


REAL = replace(SMALL, count=100)


def test_real_images_are_known_by_their_content(tmp_path):
    here, there = tmp_path / "here.npz", tmp_path / "there.npz"
    write(here)
    there.write_bytes(here.read_bytes())
    one, other = (replace(REAL, images=str(path)) for path in (here, there))
    assert describe(one) == describe(other)
    assert describe(replace(one, seed=1)) != describe(one)
    first = mb.run(one, {"exact": Exact()}, store=tmp_path / "store", **QUICK)
    # What the folder of a run keeps is what is compared later, to see whether the file has changed.
    assert one.data_files == {str(here): hash_file(str(here))}
    assert first.files[str(here)] == hash_file(str(here))
    mb.run(other, {"exact": Exact()}, store=tmp_path / "store", **QUICK)
    assert len(kept(tmp_path / "store", "fit")) == 1
    assert len(kept(tmp_path / "store", "fiducials")) == 2
    # The file is edited under the same name, in the same process.
    write(here, seed=1)
    again = replace(REAL, images=str(here))
    assert describe(again) != describe(other)
    second = mb.run(again, {"exact": Exact()}, store=tmp_path / "store", **QUICK)
    assert len(kept(tmp_path / "store", "fit")) == 2
    assert len(kept(tmp_path / "store", "fiducials")) == 4
    assert not first.scores.equals(second.scores)
    # A task goes on with what it was identified by.
    assert np.array_equal(one.load({}).training_images, one.training_images)
    assert not np.array_equal(one.training_images, again.training_images)


def test_real_truths_are_held_out(tmp_path):
    arrays = write(tmp_path / "mine.npz")
    task = replace(REAL, images=str(tmp_path / "mine.npz"), truths="images")
    metrics = {"mira": mb.Mira(regions=10, test=False)}
    result = mb.run(task, {"exact": Exact()}, fiducials=HELD_OUT, samples=5, metrics=metrics, store=tmp_path / "s")
    assert not result.failures
    truths = np.concatenate([Store(tmp_path / "s").get(entry.spec)["y"] for entry in kept(tmp_path / "s", "fiducials")])
    truths = {image.tobytes() for image in np.rint(255 * truths).astype(np.uint8)}
    training = {image.tobytes() for image in task.training_images}
    assert len(truths) == HELD_OUT
    assert not truths & training
    assert truths < {image.tobytes() for image in arrays["spiral"]}
    assert task.training_labels.tolist() == [0] * HELD_OUT + [1] * 30
    with pytest.raises(mb.UsageError, match=f"the task has {HELD_OUT} of them"):
        mb.run(task, {"exact": Exact()}, fiducials=HELD_OUT + 1, samples=5, metrics=metrics)
    with pytest.raises(mb.UsageError, match="65 images of class spiral were asked for"):
        task.simulate(HELD_OUT + 1, np.random.default_rng(0))
    write(tmp_path / "few.npz", spirals=100)
    with pytest.raises(mb.UsageError, match="has 100 images of class spiral; 128 are needed"):
        len(replace(task, images=str(tmp_path / "few.npz")).training_images)


def test_on_the_command_line(elsewhere):
    words = ["task=galaxy", "fiducials=4", "samples=6", "task.model.size=16", "task.model.count=20"]
    words += [
        "task.model.lens.pixels=16",
        "task.model.trainer.mixture.rank=6",
        "task.model.trainer.mixture.components=2",
    ]
    assert main([*words, "metrics=[mira,evidence]", "out=here", "store=store", "workers=1"]) == 0
    for name in ("sample_grid", "moments_grid"):
        assert Path("here/figures", f"{name}.png").stat().st_size > 5000
    assert len(kept("store", "fit")) == 1


def test_mixtures_learn_from_no_more_images_than_they_can():
    few, many = (Galaxy(count=count, size=8, lens=Lens(pixels=8)) for count in (MOST, 3 * MOST))
    assert hash_arrays(few.trainer.learns_from(few)) == hash_arrays(many.trainer.learns_from(many))
