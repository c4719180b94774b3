r"""Galaxies made by formulas, and the loader of real ones with small files made here: no network."""

import gzip
import hashlib
import io
import logging
import sys

import numpy as np
import pytest
from mira_bench.tasks.galaxy import data, procedural
from mira_bench.tasks.galaxy.data import load_galaxies
from mira_bench.tasks.galaxy.procedural import PITCH, ellipticals, spirals
from scipy.ndimage import map_coordinates
from scipy.stats import kstest, uniform

import mira_bench as mb

COUNT = 300
FOUR_SIGMA = 6.3e-5  # the chance of a larger deviation
RADII = np.geomspace(0.18, 0.48, 18)


@pytest.fixture(scope="module")
def spiral():
    return spirals(COUNT, np.random.default_rng(5))


@pytest.fixture(scope="module")
def elliptical():
    return ellipticals(COUNT, np.random.default_rng(5))


@pytest.fixture(params=["spiral", "elliptical"])
def images(request):
    return request.getfixturevalue(request.param)


def moments(images):
    r"""The center, the angle of the major axis, the ratio of the axes and the size, by the moments of the light."""
    light = images.mean(1, dtype=float)
    size = images.shape[-1]
    points = (np.arange(size) + 0.5) * 2.0 / size - 1.0
    total, columns, rows = light.sum((1, 2)), light.sum(1), light.sum(2)
    x, y = columns @ points / total, rows @ points / total
    xx, yy = columns @ points**2 / total - x**2, rows @ points**2 / total - y**2
    xy = np.einsum("nyx,y,x->n", light, points, points) / total - x * y
    mean, half = (xx + yy) / 2.0, np.hypot((xx - yy) / 2.0, xy)
    return x, y, 0.5 * np.arctan2(2.0 * xy, xx - yy), np.sqrt((mean - half) / (mean + half)), np.sqrt(mean)


def modes(images):
    r"""Azimuthal Fourier modes m = 1, 2, ... of elliptical rings, relative to the mean of each: shape (N, rings, m)."""
    size = images.shape[-1]
    theta = np.arange(128) * 2.0 * np.pi / 128
    found = []
    for light, x, y, angle, ratio in zip(images.mean(1, dtype=float), *moments(images)[:4], strict=True):
        u = RADII[:, None] * np.cos(theta) / np.sqrt(ratio)
        v = RADII[:, None] * np.sin(theta) * np.sqrt(ratio)
        cos, sin = np.cos(angle), np.sin(angle)
        places = np.stack([y + sin * u + cos * v, x + cos * u - sin * v])
        rings = np.fft.rfft(map_coordinates(light, (places + 1.0) * size / 2.0 - 0.5, order=1), axis=1)
        found.append(rings[:, 1:7] / rings[:, :1].real)
    return np.stack(found)


def blueness(images):
    return np.log(images[:, 2].sum((-2, -1)) / images[:, 0].sum((-2, -1)))


@pytest.mark.parametrize("galaxies", [spirals, ellipticals])
def test_the_same_seed_gives_the_same_bits(galaxies):
    images = galaxies(4, np.random.default_rng(1))
    assert images.dtype == np.float32
    assert np.array_equal(images, galaxies(4, np.random.default_rng(1)))
    assert np.array_equal(images[:2], galaxies(2, np.random.default_rng(1)))
    assert not np.array_equal(images, galaxies(4, np.random.default_rng(2)))
    rng = np.random.default_rng(1)
    assert not np.array_equal(galaxies(4, rng), galaxies(4, rng))


def test_bright_galaxies_on_a_black_sky(images):
    assert images.min() >= 0.0
    peaks = images.max((1, 2, 3))
    assert peaks.max() <= 1.0
    assert peaks.min() > 0.87
    border = np.ones(images.shape[-2:], bool)
    border[1:-1, 1:-1] = False
    assert images[..., border].max() < 1e-3
    assert 0.1 < np.mean(images.max(1) > 0.1) < 0.4  # of the frame


def test_orientations_are_uniform(images):
    angle = moments(images)[2]
    assert kstest(angle, uniform(-np.pi / 2, np.pi).cdf).pvalue > FOUR_SIGMA
    assert abs(np.exp(2j * angle).mean()) < 4.0 / np.sqrt(COUNT)


def test_ellipticals_lie_in_the_frame_as_they_are_drawn(elliptical):
    x, y, _, ratio, _ = moments(elliptical)
    for center in (x, y):
        assert kstest(center, uniform(-0.04, 0.08).cdf).pvalue > FOUR_SIGMA
    assert kstest(ratio, uniform(0.55, 0.45).cdf).pvalue > FOUR_SIGMA


def test_sizes_are_uniform_and_seen(monkeypatch):
    drawn, profile = [], procedural._sersic

    def spy(r, radius, index):
        drawn.append((radius, index))
        return profile(r, radius, index)

    monkeypatch.setattr(procedural, "_sersic", spy)
    images = ellipticals(COUNT, np.random.default_rng(6))
    radius, index = np.array(drawn).T
    assert kstest(radius, uniform(0.28, 0.22).cdf).pvalue > FOUR_SIGMA
    assert abs(index.mean() - 4.0) < 4.0 * 0.8 / np.sqrt(COUNT)
    assert abs(np.corrcoef(radius, index)[0, 1]) < 4.0 / np.sqrt(COUNT)
    *_, ratio, size = moments(images)
    along = size / np.sqrt(1.0 + ratio**2)  # of the major axis
    assert np.corrcoef(radius, along)[0, 1] > 4.0 / np.sqrt(COUNT)  # among effects of the index and the contrast


def test_spirals_have_arms_and_ellipticals_have_none(spiral, elliptical):
    arms, none = (np.abs(modes(images)[:, :, 1:4]).max(2).mean(1) for images in (spiral, elliptical))
    assert arms.min() > 1.5 * none.max()  # every one of them
    assert np.median(arms) > 10.0 * np.median(none)
    assert np.abs(modes(elliptical)[:, :, 0]).max() < 0.02  # symmetric about the center


def test_arms_are_logarithmic_spirals(spiral):
    found = modes(spiral)
    m = np.abs(found[:, :, 1:4]).mean(1).argmax(1) + 2
    use = (m > 2) & (moments(spiral)[3] > 0.6)  # where an ellipse does not look like two arms
    phases = np.unwrap(np.angle(found[use, :, m[use] - 1]), axis=1)
    turns = np.polyfit(np.log(RADII), phases.T, 1)[0] / m[use]
    pitch = np.degrees(np.arctan(1.0 / np.abs(turns)))
    assert len(pitch) > 30
    assert PITCH[0] < np.median(pitch) < PITCH[1]
    within = (pitch > PITCH[0] - 5.0) & (pitch < PITCH[1] + 8.0)  # as far as the wobble tilts them
    assert np.mean(within) > 0.9  # where two modes are about as strong, the phase is that of neither
    assert abs(np.mean(np.sign(turns))) < 4.0 / np.sqrt(len(turns))  # as many turn left as right


def test_colors(spiral, elliptical):
    assert blueness(spiral).min() > blueness(elliptical).max()
    half = slice(24, 40)
    for images in (spiral, elliptical):  # the center is redder
        assert np.mean(blueness(images[..., half, half]) < blueness(images)) > 0.97
    assert blueness(spiral).std() > 0.05
    assert blueness(elliptical).std() > 0.05


@pytest.mark.parametrize("index", [1.5, 2.5, 4.0, 6.0])
def test_half_of_the_light_is_within_the_radius(index):
    r = np.geomspace(1e-6, 1e4, 200_001)
    light = np.cumsum(procedural._sersic(r, 1.0, index) * r * np.gradient(r))
    assert light[np.searchsorted(r, 1.0)] / light[-1] == pytest.approx(0.5, abs=0.01)


def test_a_finer_image_shows_the_same_galaxy():
    coarse, fine = (ellipticals(5, np.random.default_rng(3), size) for size in (64, 128))
    binned = fine.reshape(5, 3, 64, 2, 64, 2).mean((3, 5))
    assert np.abs(binned - coarse).mean() < 0.01 * coarse.max()
    assert spirals(1, np.random.default_rng(3), 33).shape == (1, 3, 33, 33)


RNG = np.random.default_rng(0)
SPIRAL = RNG.integers(256, size=(5, 3, 8, 8), dtype=np.uint8)
ELLIPTICAL = RNG.integers(256, size=(4, 3, 8, 8), dtype=np.uint8)


@pytest.fixture(autouse=True)
def small_world(tmp_path, monkeypatch):
    r"""The cache is empty, and there is no network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    nowhere = {name: ((tmp_path / "nowhere" / name).as_uri(),) for name in data.ADDRESSES}
    monkeypatch.setattr(data, "ADDRESSES", nowhere)
    data._load.cache_clear()
    yield
    data._load.cache_clear()


def is_right(images):
    return np.array_equal(images.spiral, SPIRAL) and np.array_equal(images.elliptical, ELLIPTICAL)


def last(images):
    return images.transpose(0, 2, 3, 1)


def sha256sum(folder, names):
    r"""What the program of this name writes."""
    return "".join(f"{hashlib.sha256((folder / n).read_bytes()).hexdigest()}  {n}\n" for n in names).encode()


def packed(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def hdf5(path, images=None, labels=None, **others):
    r"""A file as those of GalaxyMNIST, with two other classes among ours."""
    h5py = pytest.importorskip("h5py")
    if images is None:
        other = RNG.integers(256, size=(2, 3, 8, 8), dtype=np.uint8)
        images = last(np.concatenate([SPIRAL[:2], other, ELLIPTICAL, SPIRAL[2:]]))
        labels = np.array([3, 3, 1, 2, 0, 0, 0, 0, 3, 3, 3])
    with h5py.File(path, "w") as file:
        for name, values in {"images": images, "labels": labels, **others}.items():
            if values is not None:
                file[name] = values
    return path


def pictures(folder, spiral=SPIRAL, elliptical=ELLIPTICAL, suffix="png"):
    from PIL import Image

    for name, images in (("spiral", spiral), ("elliptical", elliptical)):
        (folder / name).mkdir(parents=True)
        for i, image in enumerate(last(images)):
            Image.fromarray(image).save(folder / name / f"{i:03d}.{suffix}")
    return folder


@pytest.mark.parametrize(
    "arrays",
    [
        {"spiral": SPIRAL, "elliptical": ELLIPTICAL},
        {"spiral": last(SPIRAL), "elliptical": last(ELLIPTICAL), "more": np.zeros(3)},
        {"spiral": SPIRAL / 255.0, "elliptical": last(ELLIPTICAL / np.float32(255.0))},
    ],
    ids=["first", "last", "floats"],
)
def test_arrays(arrays, tmp_path, caplog):
    caplog.set_level(logging.INFO, "mira_bench")
    path = tmp_path / "mine.npz"
    path.write_bytes(packed(**arrays))
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    images = load_galaxies(path)
    assert is_right(images)
    assert images.sha256 == sha256
    assert images.spiral.dtype == images.elliptical.dtype == np.uint8
    assert images.spiral.flags.writeable  # torch warns of arrays that are not
    assert f"5 spirals and 4 ellipticals of 8 x 8 pixels, {path}, SHA-256 {sha256}" in caplog.text
    assert load_galaxies(str(path)) is images  # a process reads them once
    assert is_right(load_galaxies(path, sha256.upper()))
    with pytest.raises(mb.UsageError, match=rf"mine\.npz is not what it should be: its SHA-256 is {sha256}, not 0000"):
        load_galaxies(path, "0" * 64)
    with pytest.raises(mb.UsageError, match="sha256=abc is no SHA-256"):
        load_galaxies(path, "abc")


GOOD = packed(spiral=SPIRAL, elliptical=ELLIPTICAL)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD[:-30], r"is no \.npz file, or it is cut"),
        (b"nonsense", r"is no \.npz file"),
        (GOOD.replace(SPIRAL.tobytes(), SPIRAL.tobytes()[::-1]), r"cannot be read as an \.npz file, it may be damaged"),
        (packed(spiral=SPIRAL), "has no array elliptical: it has spiral"),
        (packed(spiral=SPIRAL, elliptical=ELLIPTICAL[:0]), "has no elliptical galaxies"),
        (packed(spiral=SPIRAL, elliptical=np.array([{}])), "cannot be read as"),  # which would be a pickle
        (packed(spiral=SPIRAL[0], elliptical=ELLIPTICAL), r"spiral in .* has the shape \(3, 8, 8\)"),
        (packed(spiral=SPIRAL[:, :2], elliptical=ELLIPTICAL), r"\(5, 2, 8, 8\): it must be"),
        (packed(spiral=SPIRAL[..., :3, :3], elliptical=ELLIPTICAL), "first or last cannot be told"),
        (packed(spiral=SPIRAL[..., :6, :], elliptical=ELLIPTICAL[..., :6, :]), "6 x 8 pixels: they must be square"),
        (packed(spiral=SPIRAL, elliptical=ELLIPTICAL[..., :6, :6]), "6 x 6 and 8 x 8 pixels: all must have one size"),
        (packed(spiral=SPIRAL.astype(int), elliptical=ELLIPTICAL), "spiral in .* is of int64"),
        (packed(spiral=SPIRAL.astype(float), elliptical=ELLIPTICAL), r"spiral in .* outside of \[0, 1\]"),
        (packed(spiral=SPIRAL * np.nan, elliptical=ELLIPTICAL), r"outside of \[0, 1\]"),
    ],
    ids=[
        "cut", "nonsense", "damaged", "no class", "empty class", "pickle", "one image", "two colors", "ambiguous",
        "oblong", "two sizes", "integers", "floats", "nan",
    ],
)  # fmt: skip
def test_arrays_that_are_refused(content, message, tmp_path):
    path = tmp_path / "mine.npz"
    path.write_bytes(content)
    with pytest.raises(mb.UsageError, match=message) as caught:
        load_galaxies(path)
    assert str(path) in str(caught.value)


def test_a_source_that_is_none(tmp_path):
    with pytest.raises(mb.UsageError, match=r"there is no .*missing: name a file"):
        load_galaxies(tmp_path / "missing")
    with pytest.raises(mb.UsageError, match=r"missing\.npz cannot be read: No such file"):
        load_galaxies(tmp_path / "missing.npz")
    (tmp_path / "galaxies.fits").write_bytes(b"SIMPLE")
    with pytest.raises(mb.UsageError, match=r"galaxies\.fits is no source of galaxies"):
        load_galaxies(tmp_path / "galaxies.fits")


def test_a_folder_of_pictures(tmp_path):
    folder = pictures(tmp_path / "mine")
    (folder / "spiral" / "notes.txt").write_text("mine")
    (folder / "spiral" / ".hidden.png").write_text("left behind")
    images = load_galaxies(folder)
    assert is_right(images)
    names = [f"elliptical/{i:03d}.png" for i in range(4)] + [f"spiral/{i:03d}.png" for i in range(5)]
    assert images.sha256 == hashlib.sha256(sha256sum(folder, names)).hexdigest()
    (folder / "spiral" / "000.png").rename(folder / "spiral" / "009.png")
    data._load.cache_clear()
    other = load_galaxies(folder)
    assert np.array_equal(other.spiral, np.roll(SPIRAL, -1, 0))  # by name
    assert other.sha256 != images.sha256


def test_jpg_and_gray_pictures(tmp_path):
    flat = np.broadcast_to(RNG.integers(256, size=(3, 1, 1, 1), dtype=np.uint8), (3, 3, 8, 8))
    images = load_galaxies(pictures(tmp_path / "jpg", flat, flat, "jpg"))
    assert np.abs(images.spiral.astype(int) - flat).max() <= 1
    from PIL import Image

    Image.fromarray(flat[0, 0]).save(tmp_path / "jpg" / "spiral" / "999.png")
    data._load.cache_clear()
    assert np.array_equal(load_galaxies(tmp_path / "jpg").spiral[-1], flat[0])


def test_folders_that_are_refused(tmp_path):
    from PIL import Image

    folder = pictures(tmp_path / "mine")
    odd = folder / "elliptical" / "odd.png"
    Image.fromarray(last(ELLIPTICAL)[0, :6]).save(odd)
    with pytest.raises(mb.UsageError, match=r"odd\.png has 6 x 8 pixels, but others have 8 x 8"):
        load_galaxies(folder)
    Image.fromarray(np.zeros((8, 8), np.uint16)).save(odd)
    with pytest.raises(mb.UsageError, match=r"odd\.png has pixels of the mode I;16"):
        load_galaxies(folder)
    whole = (folder / "elliptical" / "000.png").read_bytes()
    for content in (b"nonsense", whole[: len(whole) // 2]):
        odd.write_bytes(content)
        with pytest.raises(mb.UsageError, match=r"odd\.png cannot be read as a picture, it may be damaged"):
            load_galaxies(folder)
    for path in (folder / "elliptical").iterdir():
        path.unlink()
    with pytest.raises(mb.UsageError, match=r"elliptical has no pictures: none of \.png"):
        load_galaxies(folder)
    (folder / "elliptical").rmdir()
    with pytest.raises(mb.UsageError, match="mine has no folder elliptical"):
        load_galaxies(folder)
    with pytest.raises(mb.UsageError, match="they must be square"):
        load_galaxies(pictures(tmp_path / "oblong", SPIRAL[..., :5], ELLIPTICAL[..., :5]))


def test_a_file_of_galaxy_mnist(tmp_path):
    path = hdf5(tmp_path / "train_dataset.hdf5")
    images = load_galaxies(path)
    assert is_right(images)
    assert images.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"images": SPIRAL, "labels": np.zeros(5)}, r"uint8 of shape \(5, 3, 8, 8\): not uint8 of \(N, H, H, 3\)"),
        ({"images": last(SPIRAL) / 255.0, "labels": np.zeros(5)}, "images in .* are float64"),
        ({"images": last(SPIRAL), "labels": np.zeros(4)}, r"has 5 images, but its labels have the shape \(4,\)"),
        ({"images": last(SPIRAL), "labels": np.full(5, 3)}, "has no elliptical galaxies"),
        ({"images": last(SPIRAL)}, "has no dataset labels"),
        ({"images": last(SPIRAL), "labels/deep": np.zeros(5)}, "has no dataset labels"),
    ],
    ids=["channels", "floats", "labels", "one class", "no labels", "group"],
)
def test_files_of_galaxy_mnist_that_are_refused(wrong, message, tmp_path):
    path = hdf5(tmp_path / "train_dataset.hdf5", **wrong)
    with pytest.raises(mb.UsageError, match=message):
        load_galaxies(path)


def test_damaged_files_of_galaxy_mnist_are_refused(tmp_path):
    path = hdf5(tmp_path / "train_dataset.hdf5")
    for content in (b"nonsense", path.read_bytes()[:1000]):
        path.write_bytes(content)
        with pytest.raises(mb.UsageError, match=r"hdf5 cannot be read as an HDF5 file, it may be damaged"):
            load_galaxies(path)


def test_without_h5py(tmp_path, monkeypatch):
    path = hdf5(tmp_path / "train_dataset.hdf5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(mb.UsageError, match=r"hdf5 needs h5py: pip install 'mira_bench\[files\]'"):
        load_galaxies(path)


@pytest.fixture
def web(tmp_path, monkeypatch):
    r"""A place from which both files can be had, after an address that is gone."""
    folder = tmp_path / "web"
    folder.mkdir()
    halves = {
        data.TRAINING: (np.concatenate([SPIRAL[:3], ELLIPTICAL[:2]]), [3, 3, 3, 0, 0]),
        data.TEST: (np.concatenate([ELLIPTICAL[2:], SPIRAL[3:]]), [0, 0, 3, 3]),
    }
    for name, (images, labels) in halves.items():
        path = folder / f"{name}.gz"
        path.write_bytes(gzip.compress(hdf5(tmp_path / "made.hdf5", last(images), np.array(labels)).read_bytes()))
        monkeypatch.setitem(data.MD5, name, hashlib.md5(path.read_bytes()).hexdigest())
        monkeypatch.setitem(data.ADDRESSES, name, (*data.ADDRESSES[name], path.as_uri()))
    return folder


def test_galaxy_mnist_is_fetched_once(web, tmp_path, caplog):
    caplog.set_level(logging.INFO, "mira_bench")
    images = load_galaxies("galaxy_mnist")
    assert is_right(images)
    cache = data.cache_folder()
    assert cache == tmp_path / "cache" / "mira_bench" / "galaxies"
    assert sorted(path.name for path in cache.iterdir()) == ["SHA256SUMS", data.TEST, data.TRAINING]  # nothing half
    assert f"{data.TEST} from {(web / data.TEST).as_uri()}.gz" in caplog.text
    assert f"no sha256 was given; that of {data.TRAINING} and {data.TEST} is written to {cache}" in caplog.text
    sums = sha256sum(cache, [data.TEST, data.TRAINING])
    assert (cache / "SHA256SUMS").read_bytes() == sums
    assert images.sha256 == hashlib.sha256(sums).hexdigest()
    for file in web.iterdir():
        file.unlink()
    data._load.cache_clear()
    caplog.clear()
    assert is_right(load_galaxies("galaxy_mnist"))
    assert "written" not in caplog.text
    assert is_right(load_galaxies("galaxy_mnist", images.sha256))


def test_a_cached_file_that_changed_is_refused_and_stays(web):
    load_galaxies("galaxy_mnist")
    path = data.cache_folder() / data.TEST
    for content in (hdf5(path).read_bytes(), b"nonsense"):  # another good file is another file, too
        path.write_bytes(content)
        data._load.cache_clear()
        with pytest.raises(mb.UsageError, match=rf"^{data.TEST} in .*galaxies changed since SHA256SUMS was written"):
            load_galaxies("galaxy_mnist")
        assert path.read_bytes() == content
    path.unlink()
    assert is_right(load_galaxies("galaxy_mnist"))  # the one that is missing is fetched, and is the same


def test_the_hash_of_the_user_is_what_counts(web):
    with pytest.raises(mb.UsageError, match="galaxy_mnist is not what it should be: its SHA-256 is"):
        load_galaxies("galaxy_mnist", "0" * 64)
    assert not (data.cache_folder() / "SHA256SUMS").exists()  # for nothing is known of it
    sha256 = load_galaxies("galaxy_mnist").sha256
    (data.cache_folder() / "SHA256SUMS").write_text("")
    data._load.cache_clear()
    with pytest.raises(mb.UsageError, match="changed since"):
        load_galaxies("galaxy_mnist")
    assert is_right(load_galaxies("galaxy_mnist", sha256))


def test_a_damaged_file_of_the_cache_gets_no_record(web):
    data.cache_folder().mkdir(parents=True)
    (data.cache_folder() / data.TRAINING).write_bytes(b"nonsense")
    with pytest.raises(mb.UsageError, match=rf"{data.TRAINING} cannot be read as an HDF5 file"):
        load_galaxies("galaxy_mnist")
    assert not (data.cache_folder() / "SHA256SUMS").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: None, "No such file"),
        (lambda content: gzip.compress(b"another"), "it has another MD5 than it should have"),
        (lambda content: content[:-20], "it has another MD5 than it should have"),
    ],
    ids=["gone", "another", "cut"],
)
def test_a_clear_sentence_when_it_cannot_be_fetched(change, reason, web):
    path = web / f"{data.TRAINING}.gz"
    content = change(path.read_bytes())
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(mb.UsageError, match=reason) as caught:
        load_galaxies("galaxy_mnist")
    assert f"{data.TRAINING} of GalaxyMNIST is not in {data.cache_folder()}" in str(caught.value)
    assert not data.cache_folder().exists()


def test_a_download_that_is_right_by_its_hash_alone(web, monkeypatch):
    path = web / f"{data.TRAINING}.gz"
    path.write_bytes(b"no gzip")
    monkeypatch.setitem(data.MD5, data.TRAINING, hashlib.md5(b"no gzip").hexdigest())
    with pytest.raises(mb.UsageError, match="Not a gzipped file"):
        load_galaxies("galaxy_mnist")


def test_a_cache_that_cannot_be_written_costs_a_warning(web, tmp_path, caplog):
    (tmp_path / "cache").write_text("a file where a folder should be")
    assert is_right(load_galaxies("galaxy_mnist"))
    assert f"{data.TRAINING} cannot be kept" in caplog.text


def test_galaxies_of_a_seed_are_those_of_their_version():
    # Priors in stores were learned from these. If they change, raise VERSION, and write the new numbers here.
    found = [make(3, np.random.default_rng(0)).mean(axis=(0, 2, 3)) for make in (spirals, ellipticals)]
    expected = {1: [[0.08196, 0.08097, 0.08232], [0.07406, 0.05548, 0.03742]]}[procedural.VERSION]
    np.testing.assert_allclose(found, expected, atol=1e-4)
