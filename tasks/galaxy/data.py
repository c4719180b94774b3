r"""Images of real galaxies: spirals and ellipticals from a file or a folder of yours, or GalaxyMNIST.

GalaxyMNIST (Walmsley et al. 2022, https://ui.adsabs.harvard.edu/abs/2022MNRAS.509.3966W) has 10,000 galaxies of the
survey DECaLS with labels of Galaxy Zoo: https://github.com/mwalmsley/galaxy_mnist. Its two HDF5 files, of 8,000 and
2,000 galaxies, hold `images`, bytes with shape $(N, 64, 64, 3)$, and `labels`, which count `smooth_round`,
`smooth_cigar`, `edge_on_disk` and `unbarred_spiral` from 0 (`GalaxyMNIST.classes` and `read_dataset_file` in its
`galaxy_mnist.py`). We take the last as spirals and the first as ellipticals. That repository also tells the addresses
and the MD5 of the compressed files. The addresses may be gone (its issue 3): whoever has the files puts them into the
cache, or names one of them.

No SHA-256 of them is published. The one that was found first is written next to them, and a cached file that has
another later is refused.
"""

__all__ = ["ADDRESSES", "GALAXY_MNIST", "GalaxyImages", "cache_folder", "load_galaxies"]

import contextlib
import functools
import gzip
import hashlib
import http.client
import importlib
import io
import logging
import os
import re
import urllib.request
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.writing import appearing

from ..files import content_of, pictures_in, pixels_of, reading, sha256_of, sums_of

log = logging.getLogger("mira_bench")

GALAXY_MNIST = "galaxy_mnist"  # the source that is fetched
TRAINING, TEST = "train_dataset.hdf5", "test_dataset.hdf5"
ADDRESSES = {  # in the order in which they are tried
    TRAINING: (
        "https://dl.dropboxusercontent.com/s/5a14de0o7slyif9/train_dataset.hdf5.gz",
        "http://www.jb.man.ac.uk/research/MiraBest/MiraBest_F/train_dataset.hdf5.gz",
    ),
    TEST: (
        "https://dl.dropboxusercontent.com/s/5rza12nn24cwd2k/test_dataset.hdf5.gz",
        "http://www.jb.man.ac.uk/research/MiraBest/MiraBest_F/test_dataset.hdf5.gz",
    ),
}
MD5 = {TRAINING: "e408ae294e9b975482dc1abffeb373a6", TEST: "7a940e4cea64a8b7cb60339098f74490"}  # compressed
SUMS = "SHA256SUMS"
TIMEOUT = 30.0  # seconds without an answer

CLASSES = ("spiral", "elliptical")
LABELS = {"spiral": 3, "elliptical": 0}  # in GalaxyMNIST
HDF5 = (".hdf5", ".h5")


@dataclass(frozen=True)
class GalaxyImages:
    r"""Images of galaxies, as bytes: red, green and blue of square images, all of one size.

    Arguments:
        spiral: The spirals, with shape $(N, 3, H, H)$.
        elliptical: The ellipticals, with shape $(M, 3, H, H)$.
        sha256: The hash of what was read: that of a file, and for several files that of what `sha256sum` says about
            them, in the order of their names (`sha256sum elliptical/* spiral/* | sha256sum`).
    """

    spiral: NDArray[np.uint8]
    elliptical: NDArray[np.uint8]
    sha256: str


def cache_folder() -> Path:
    r"""Returns the folder in which fetched files are kept."""

    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "mira_bench" / "galaxies"


def load_galaxies(source: str | os.PathLike[str], sha256: str | None = None) -> GalaxyImages:
    r"""Returns images of real galaxies, after a check. A process reads them once, and again when they were edited.

    Arguments:
        source: One of

            - a file `.npz` with the arrays `spiral` and `elliptical`, bytes or floats in $[0, 1]$, with shape
              $(N, H, H, 3)$ or $(N, 3, H, H)$;
            - a folder with the folders `spiral` and `elliptical` of pictures, png or jpg, in the order of their names;
            - a file `.hdf5` of GalaxyMNIST, or like it;
            - `"galaxy_mnist"`: all of GalaxyMNIST, from the cache or else fetched. It is never fetched twice.
        sha256: The hash that the source must have, see :class:`GalaxyImages`.
    """

    if sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise UsageError(f"sha256={sha256} is no SHA-256, which has 64 hexadecimal digits")
    place = GALAXY_MNIST if source == GALAXY_MNIST else str(Path(source).expanduser().absolute())
    return _load(place, None if sha256 is None else sha256.lower(), _stamps(place))


def _stamps(place: str) -> tuple[tuple[Any, ...], ...]:
    r"""What is another once a file was edited, of one or of all in a folder; nothing of what is not there."""
    path = Path(place)
    files = sorted(path.glob("*/*")) if path.is_dir() else [path]
    found = []
    for file in files:
        with contextlib.suppress(OSError):
            facts = file.stat()
            found.append((str(file), facts.st_mtime_ns, facts.st_size, facts.st_ino))
    return tuple(found)


@functools.lru_cache(maxsize=4)
def _load(source: str, sha256: str | None, stamps: tuple[tuple[Any, ...], ...]) -> GalaxyImages:
    path = Path(source)
    if source == GALAXY_MNIST:
        images = _galaxy_mnist(sha256)
    elif path.is_dir():
        images = _folder(path)
    elif path.suffix.lower() == ".npz":
        images = _npz(path)
    elif path.suffix.lower() in HDF5:
        content = content_of(path)
        images = _images({name: [part] for name, part in _hdf5(content, path).items()}, sha256_of(content), path)
    elif path.exists():
        raise UsageError(f"{path} is no source of galaxies: name a file .npz or .hdf5, or a folder of pictures")
    else:
        raise UsageError(f"there is no {path}: name a file .npz or .hdf5, a folder of pictures, or {GALAXY_MNIST}")
    if sha256 not in (None, images.sha256):
        raise UsageError(f"{source} is not what it should be: its SHA-256 is {images.sha256}, not {sha256}")
    log.info(
        "galaxies: %d spirals and %d ellipticals of %d x %d pixels, %s, SHA-256 %s",
        len(images.spiral), len(images.elliptical), *images.spiral.shape[-2:], source, images.sha256,
    )  # fmt: skip
    return images


def _images(parts: Mapping[str, list[NDArray[np.uint8]]], sha256: str, source: Path) -> GalaxyImages:
    r"""Puts parts $(N, 3, H, W)$ of both classes together."""
    for name in CLASSES:
        if sum(map(len, parts[name])) == 0:
            raise UsageError(f"{source} has no {name} galaxies")
    sizes = sorted({part.shape[2:] for name in CLASSES for part in parts[name]})
    if len(sizes) > 1:
        listed = " and ".join(f"{height} x {width}" for height, width in sizes)
        raise UsageError(f"{source} has images of {listed} pixels: all must have one size")
    height, width = sizes[0]
    if height != width:
        raise UsageError(f"{source} has images of {height} x {width} pixels: they must be square")
    spiral, elliptical = (np.ascontiguousarray(np.concatenate(parts[name])) for name in CLASSES)
    return GalaxyImages(spiral, elliptical, sha256)


def _npz(path: Path) -> GalaxyImages:
    content = content_of(path)
    parts = {}
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise UsageError(f"{path} is no .npz file, or it is cut")
    with reading(path, "an .npz file"), np.load(io.BytesIO(content), allow_pickle=False) as file:
        for name in CLASSES:
            if name not in file:
                raise UsageError(f"{path} has no array {name}: it has {', '.join(file) or 'none'}")
            parts[name] = [_bytes(_channels_first(file[name], name, path), name, path)]
    return _images(parts, sha256_of(content), path)


def _channels_first(array: NDArray, name: str, path: Path) -> NDArray:
    shape = array.shape
    first, last = (array.ndim == 4 and shape[axis] == 3 for axis in (1, 3))
    if first and last:
        raise UsageError(f"{name} in {path} has the shape {shape}: whether channels are first or last cannot be told")
    if not first and not last:
        raise UsageError(f"{name} in {path} has the shape {shape}: it must be (N, H, H, 3) or (N, 3, H, H)")
    return array if first else array.transpose(0, 3, 1, 2)


def _bytes(array: NDArray, name: str, path: Path) -> NDArray[np.uint8]:
    if array.dtype == np.uint8:
        return array
    if not np.issubdtype(array.dtype, np.floating):
        raise UsageError(f"{name} in {path} is of {array.dtype}: it must be of uint8, or of floats in [0, 1]")
    if not np.all((array >= 0.0) & (array <= 1.0)):  # a NaN is not, either
        raise UsageError(f"{name} in {path} has floats outside of [0, 1]")
    return np.rint(255.0 * array).astype(np.uint8)


def _folder(folder: Path) -> GalaxyImages:
    hashes: dict[str, str] = {}
    parts: dict[str, list[NDArray[np.uint8]]] = {}
    for name in CLASSES:
        if not (folder / name).is_dir():
            raise UsageError(f"{folder} has no folder {name}: it must have {' and '.join(CLASSES)}, with pictures")
        parts[name] = []
        for path in pictures_in(folder / name):
            content = content_of(path)
            hashes[f"{name}/{path.name}"] = sha256_of(content)
            parts[name].append(pixels_of(content, path)[None])
            if parts[name][-1].shape != parts[CLASSES[0]][0].shape:
                (_, _, height, width), (_, _, *others) = parts[name][-1].shape, parts[CLASSES[0]][0].shape
                raise UsageError(f"{path} has {height} x {width} pixels, but others have {others[0]} x {others[1]}")
    return _images(parts, sha256_of(sums_of(hashes)), folder)


def _hdf5(content: bytes, path: Path) -> dict[str, NDArray[np.uint8]]:
    r"""Reads a file of GalaxyMNIST, whose channels are last."""
    h5py: Any
    try:
        h5py = importlib.import_module("h5py")
    except ImportError as error:
        raise UsageError(f"{path} needs h5py: pip install 'mira_bench[files]'") from error
    with reading(path, "an HDF5 file"), h5py.File(io.BytesIO(content), "r") as file:
        for name in ("images", "labels"):
            if not isinstance(file.get(name), h5py.Dataset):
                raise UsageError(f"{path} has no dataset {name}: it must have images and labels, as GalaxyMNIST has")
        images, labels = file["images"][()], file["labels"][()]
    if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8:
        raise UsageError(f"images in {path} are {images.dtype} of shape {images.shape}: not uint8 of (N, H, H, 3)")
    if labels.shape != images.shape[:1]:
        raise UsageError(f"{path} has {len(images)} images, but its labels have the shape {labels.shape}")
    images = images.transpose(0, 3, 1, 2)
    return {name: images[labels == label] for name, label in LABELS.items()}


def _galaxy_mnist(sha256: str | None) -> GalaxyImages:
    r"""Reads GalaxyMNIST in the cache, and fetches what is not there. What has changed since is refused."""
    folder = cache_folder()
    contents = {name: _cached(folder / name) for name in ADDRESSES}
    hashes = {name: sha256_of(content) for name, content in contents.items()}
    record = folder / SUMS
    known = None if sha256 is not None or not record.exists() else content_of(record)
    if known is not None and known != sums_of(hashes):
        lines = known.decode(errors="replace").splitlines()
        changed = [name for name in hashes if f"{hashes[name]}  {name}" not in lines]
        raise UsageError(
            f"{' and '.join(changed) or SUMS} in {folder} changed since {SUMS} was written there: remove the files and "
            f"{SUMS} to fetch them again, or give the sha256 that you trust"
        )
    parts = [_hdf5(content, folder / name) for name, content in contents.items()]
    images = _images({name: [part[name] for part in parts] for name in CLASSES}, sha256_of(sums_of(hashes)), folder)
    if sha256 is None and known is None:
        log.info("galaxies: no sha256 was given; that of %s is written to %s", " and ".join(hashes), record)
        _keep(record, sums_of(hashes))
    return images


def _cached(path: Path) -> bytes:
    if path.exists():
        return content_of(path)
    content = _fetched(path)
    _keep(path, content)
    return content


def _keep(path: Path, content: bytes) -> None:
    try:
        with appearing(path) as file:
            file.write(content)
    except OSError as error:
        log.warning("galaxies: %s cannot be kept (%s)", path, error.strerror)


def _fetched(path: Path) -> bytes:
    reasons = []
    for address in ADDRESSES[path.name]:
        try:
            with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:
                packed = answer.read()
            if hashlib.md5(packed, usedforsecurity=False).hexdigest() != MD5[path.name]:
                reasons.append(f"{address}: it has another MD5 than it should have")
                continue
            content = gzip.decompress(packed)
        except (OSError, EOFError, zlib.error, http.client.HTTPException) as error:
            reasons.append(f"{address}: {getattr(error, 'reason', error)}")
            continue
        log.info("galaxies: %s from %s", path.name, address)
        return content
    raise UsageError(
        f"{path.name} of GalaxyMNIST is not in {path.parent} and cannot be fetched ({'; '.join(reasons)}): put "
        f"{' and '.join(ADDRESSES)} there, or name another source of galaxies"
    )
