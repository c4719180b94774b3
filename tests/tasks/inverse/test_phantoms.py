r"""Procedural images: the same for a seed, different from each other, and what they are meant to show."""

import numpy as np
import pytest
from mira_bench.tasks.inverse.phantoms import BRIGHTNESS, SPREAD, black_holes, brains, cells

KINDS = [brains, black_holes, cells]


def magnitude(images):
    return np.sqrt(np.square(images).sum(axis=1))


def around(image, radii, turns=60):
    r"""The mean brightness on circles around the middle, by nearest pixels."""
    angle = np.linspace(0, 2 * np.pi, turns, endpoint=False)
    size = image.shape[-1]
    rows, columns = ((f(angle) * np.asarray(radii)[:, None] + 1) * size / 2 for f in (np.sin, np.cos))
    return image[..., rows.astype(int), columns.astype(int)].mean(axis=-1)


@pytest.mark.parametrize("make", KINDS)
def test_the_same_seed_gives_the_same_bits(make):
    images = make(4, np.random.default_rng(1))
    assert images.dtype == np.float32
    assert np.array_equal(images, make(4, np.random.default_rng(1)))
    assert np.array_equal(images[:2], make(2, np.random.default_rng(1)))
    rng = np.random.default_rng(1)
    assert not np.array_equal(make(4, rng), make(4, rng))


@pytest.mark.parametrize("make", KINDS)
def test_no_two_images_are_alike(make):
    images = make(60, np.random.default_rng(2)).reshape(60, -1).astype(float)
    apart = np.linalg.norm(images[:, None] - images, axis=-1)[~np.eye(60, dtype=bool)]
    assert apart.min() > 0.05 * np.linalg.norm(images, axis=1).mean()


@pytest.mark.parametrize("make", KINDS)
def test_largest_values_are_about_one_and_the_border_is_dark(make):
    images = magnitude(make(200, np.random.default_rng(3)))
    largest = images.max(axis=(1, 2))
    assert largest.min() > 0.4
    assert largest.max() < 3.5
    assert 0.7 < np.median(largest) < 1.4
    corners = images[:, [0, 0, -1, -1], [0, -1, 0, -1]]
    assert corners.max() < 0.06


@pytest.mark.parametrize("make", KINDS)
def test_images_are_smooth_enough_for_their_pixels(make):
    images = make(50, np.random.default_rng(4)).astype(float)
    power = np.square(np.abs(np.fft.fft2(images))).mean(axis=(0, 1))
    k = np.abs(np.fft.fftfreq(images.shape[-1]))
    beyond = np.maximum(k[:, None], k) > 0.4  # cycles a pixel, of 0.5
    assert power[beyond].sum() < 1e-3 * power.sum()


@pytest.mark.parametrize("make", KINDS)
def test_a_finer_image_shows_the_same_object(make):
    fine = make(10, np.random.default_rng(5), 128).astype(float)
    coarse = make(10, np.random.default_rng(5), 32).astype(float)
    mean = fine.reshape(10, -1, 32, 4, 32, 4).mean(axis=(3, 5))
    for one, other in zip(mean, coarse, strict=True):
        assert np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.9  # a pixel blurs what is fine


def test_brains_have_a_dark_skull_and_a_smooth_phase():
    images = brains(200, np.random.default_rng(6), 128)
    profile = around(magnitude(images), [0.98])
    assert profile.max() < 0.2  # outside of the head
    z = images[:, 0] + 1j * images[:, 1]
    inside = np.abs(z) > 0.3 * np.abs(z).max(axis=(1, 2), keepdims=True)
    steps = np.abs(np.angle(z[:, 1:] * z[:, :-1].conj()))[inside[:, 1:] & inside[:, :-1]]
    assert steps.max() < 0.1
    phases = np.angle(z[inside])
    assert 0.2 < phases.std() < 1.5
    # The ventricles are darker than what is around them, or brighter: two contrasts.
    middle, near = magnitude(images)[:, 54:74, 52:76].mean(axis=(1, 2)), around(magnitude(images), [0.5])[:, 0]
    bright = (middle > near).mean()
    assert abs(bright - 0.4) < 4 * np.sqrt(0.24 / 200)


def test_black_holes_have_a_shadow_a_flux_and_every_orientation():
    images = black_holes(400, np.random.default_rng(7), 64)[:, 0].astype(float)
    assert images.min() >= 0
    flux = np.log(images.mean(axis=(1, 2)) / BRIGHTNESS)
    assert abs(flux.mean()) < 4 * SPREAD / np.sqrt(400)
    assert abs(flux.std() - SPREAD) < 4 * SPREAD / np.sqrt(800)
    middle = images[:, 30:34, 30:34].mean(axis=(1, 2))
    assert np.mean(middle < 0.6 * images.max(axis=(1, 2))) > 0.97
    side = np.arange(64) - 31.5
    dipole = (images * (side[None, :] + 1j * side[:, None])).sum(axis=(1, 2))
    turns = dipole / np.abs(dipole)
    assert abs(turns.mean()) < 4 / np.sqrt(400)


def test_cells_are_one_to_three_bodies_in_water():
    from scipy.ndimage import label

    images = cells(300, np.random.default_rng(8), 64)[:, 0]
    assert images.min() >= 0
    bodies = np.array([label(image > 0.15)[1] for image in images])
    shares = np.bincount(bodies, minlength=4)[1:4] / 300
    assert np.abs(shares - 1 / 3).max() < 4 * np.sqrt(2 / 9 / 300) + 0.05  # a few touch each other
