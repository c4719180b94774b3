r"""Images of users: what is read, and what is refused."""

import hashlib
import subprocess

import numpy as np
import pytest
from mira_bench.tasks.inverse import load_images
from PIL import Image

import mira_bench as mb

RNG = np.random.default_rng(0)
REAL = RNG.uniform(size=(5, 8, 8)).astype(np.float32)
COMPLEX = (REAL + 1j * REAL[::-1]).astype(np.complex64)


def saved(path, array):
    np.save(path, array) if path.suffix == ".npy" else np.savez(path, **array)
    return path


@pytest.mark.parametrize("array", [REAL, REAL[:, None], REAL.astype(np.float64)])
def test_real_images(array, tmp_path):
    path = saved(tmp_path / "images.npy", array)
    found = load_images(path, 1)
    assert np.array_equal(found.images[:, 0], REAL)
    assert found.images.dtype == np.float32
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("array", [COMPLEX, np.stack([COMPLEX.real, COMPLEX.imag], axis=1)])
def test_complex_images_are_two_channels(array, tmp_path):
    found = load_images(saved(tmp_path / "images.npz", {"images": array}), 2)
    assert np.array_equal(found.images[:, 0] + 1j * found.images[:, 1], COMPLEX)


def test_bytes_are_from_zero_to_one(tmp_path):
    array = RNG.integers(0, 256, (3, 8, 8), dtype=np.uint8)
    found = load_images(saved(tmp_path / "images.npy", array), 1).images
    np.testing.assert_allclose(found[:, 0] * 255, array, atol=1e-4)


def test_a_folder_of_pictures(tmp_path):
    pixels = RNG.integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
    pixels[0, 0, 0] = 255
    for name, picture in zip("bac", pixels, strict=True):
        Image.fromarray(picture).save(tmp_path / f"{name}.png")
    (tmp_path / "notes.txt").write_text("nothing")
    found = load_images(tmp_path, 1)
    expected = pixels[[1, 0, 2]].mean(axis=-1)[:, ::-1] / 255  # by name, the first row of a picture at the top
    np.testing.assert_allclose(found.images[:, 0], expected, atol=1e-6)
    told = subprocess.run("sha256sum *.png | sha256sum", shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert found.sha256 == told.stdout.split()[0]


@pytest.mark.parametrize(
    ("array", "channels", "message"),
    [
        (COMPLEX, 1, "has complex numbers, but images of this problem are real"),
        (COMPLEX[:, None], 2, r"of shape \(5, 1, 8, 8\): it must be \(N, H, H\)"),
        (REAL, 2, r"has the shape \(5, 8, 8\): it must be \(N, 2, H, H\)"),
        (np.stack([REAL, REAL], axis=-1), 2, r"has the shape \(5, 8, 8, 2\)"),
        (REAL[..., None], 1, r"has the shape \(5, 8, 8, 1\): it must be \(N, H, H\) or"),
        (REAL[:, :4], 1, "images of 4 x 8 pixels: they must be square"),
        (REAL[:0], 1, "has no images"),
        (REAL[0], 1, r"has the shape \(8, 8\)"),
        (np.where(REAL > 0.5, np.nan, REAL), 1, "not finite"),
        (300 * REAL, 1, "divide them, so that the largest is about one"),
        (1e-6 * COMPLEX, 2, "divide them"),
        ((100 * REAL).astype(np.int32), 1, "has numbers of int32"),
        (np.array([{}]), 1, "cannot be read as an .npy file"),
    ],
)
def test_arrays_that_are_refused(array, channels, message, tmp_path):
    with pytest.raises(mb.UsageError, match=message):
        load_images(saved(tmp_path / "images.npy", array), channels)


def test_sources_that_are_refused(tmp_path):
    (tmp_path / "images.npz").write_bytes(b"nothing")
    (tmp_path / "images.tif").write_bytes(b"nothing")
    np.savez(tmp_path / "other.npz", pictures=REAL)
    (tmp_path / "other.npz").rename(tmp_path / "wrong.npy")
    np.savez(tmp_path / "other.npz", pictures=REAL)
    folder = tmp_path / "pictures"
    folder.mkdir()
    for source, channels, message in (
        ("images.npz", 1, "is no .npz file, or it is cut"),
        ("images.tif", 1, "is no source of images"),
        ("nowhere.npy", 1, "there is no .*nowhere.npy"),
        ("other.npz", 1, "has no array images: it has pictures"),
        ("wrong.npy", 1, "its name says .npy"),
        ("pictures", 1, "has no pictures"),
        ("pictures", 2, "which have no phase"),
        ("other.npz", 3, "channels=3"),
    ):
        with pytest.raises(mb.UsageError, match=message):
            load_images(tmp_path / source, channels)
    for name, size in (("a", 8), ("b", 9)):
        Image.new("L", (size, size), 200).save(folder / f"{name}.png")
    with pytest.raises(mb.UsageError, match=r"b\.png has 9 x 9 pixels, but others have 8 x 8"):
        load_images(folder, 1)
