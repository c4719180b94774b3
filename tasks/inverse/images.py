r"""Images of your own, in place of phantoms: a folder of pictures, or a file of arrays."""

__all__ = ["ARRAY", "Images", "load_images"]

import io
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError

from ..files import content_of, pictures_in, pixels_of, reading, sha256_of, sums_of

ARRAY = "images"  # the name of the array in a file .npz
RANGE = (0.1, 10.0)  # of the largest absolute value: noise is in the same units


@dataclass(frozen=True)
class Images:
    r"""Square images of one size.

    Arguments:
        images: The images, with shape $(N, C, H, H)$.
        sha256: The hash of what was read: that of a file, and for a folder of pictures that of what `sha256sum` says
            about them, in the order of their names (`sha256sum * | sha256sum`).
    """

    images: NDArray[np.float32]
    sha256: str


def load_images(source: str | os.PathLike[str], channels: int) -> Images:
    r"""Returns images of a user, after a check.

    Arguments:
        source: One of

            - a file `.npy`, or a file `.npz` with the array `images`. Images with one channel have shape $(N, H, H)$
              or $(N, 1, H, H)$; with two, which are complex numbers, $(N, H, H)$ of complex numbers or $(N, 2, H, H)$.
              Bytes are divided by 255; floats are as they are, with a largest value of about one.
            - a folder of pictures, png or jpg, in the order of their names. They have one channel, the mean over their
              colors, from 0 to 1. Row 0 is the lowest: as in the figures.
        channels: The channels of an image: 1, or 2 for complex numbers.
    """

    if channels not in (1, 2):
        raise UsageError(f"channels={channels}: images have 1 channel, or 2 for complex numbers")
    path = Path(source).expanduser()
    if path.is_dir():
        return _folder(path, channels)
    if not path.exists():
        raise UsageError(f"there is no {path}: name a file .npy or .npz, or a folder of pictures")
    if path.suffix.lower() not in (".npy", ".npz"):
        raise UsageError(f"{path} is no source of images: name a file .npy or .npz, or a folder of pictures")
    content = content_of(path)
    return Images(_checked(_channels_first(_array(content, path), channels, path), path), sha256_of(content))


def _array(content: bytes, path: Path) -> NDArray:
    r"""Reads the array of a file."""
    if path.suffix.lower() == ".npy":
        with reading(path, "an .npy file"):
            array = np.load(io.BytesIO(content), allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise UsageError(f"{path} is an .npz file, but its name says .npy")
        return array
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise UsageError(f"{path} is no .npz file, or it is cut")
    with reading(path, "an .npz file"), np.load(io.BytesIO(content), allow_pickle=False) as file:
        if ARRAY not in file:
            raise UsageError(f"{path} has no array {ARRAY}: it has {', '.join(file) or 'none'}")
        return np.asarray(file[ARRAY])


def _channels_first(array: NDArray, channels: int, path: Path) -> NDArray:
    shape = array.shape
    if np.iscomplexobj(array):
        if channels == 1:
            raise UsageError(f"{path} has complex numbers, but images of this problem are real")
        if array.ndim != 3:
            raise UsageError(f"{path} has complex numbers of shape {shape}: it must be (N, H, H)")
        return np.stack([array.real, array.imag], axis=1)
    if channels == 1 and array.ndim == 3:
        return array[:, None]
    if array.ndim != 4 or shape[1] != channels:
        whole = "(N, H, H) or (N, 1, H, H)" if channels == 1 else "(N, 2, H, H), or (N, H, H) of complex numbers"
        raise UsageError(f"{path} has the shape {shape}: it must be {whole}")
    return array


def _folder(folder: Path, channels: int) -> Images:
    if channels == 2:
        raise UsageError(f"{folder} has pictures, which have no phase: give a file .npy of complex numbers")
    hashes: dict[str, str] = {}
    parts: list[NDArray] = []
    for path in pictures_in(folder):
        content = content_of(path)
        hashes[path.name] = sha256_of(content)
        parts.append(pixels_of(content, path).mean(axis=0)[::-1])
        if parts[-1].shape != parts[0].shape:
            (height, width), others = parts[-1].shape, parts[0].shape
            raise UsageError(f"{path} has {height} x {width} pixels, but others have {others[0]} x {others[1]}")
    return Images(_checked(np.stack(parts)[:, None] / 255.0, folder), sha256_of(sums_of(hashes)))


def _checked(array: NDArray, path: Path) -> NDArray[np.float32]:
    r"""Returns images as floats, if they are square and in sensible units."""
    if array.dtype == np.uint8:
        array = array / 255.0
    if not np.issubdtype(array.dtype, np.floating):
        raise UsageError(f"{path} has numbers of {array.dtype}: they must be bytes, or floats of about one")
    height, width = array.shape[2:]
    if height != width:
        raise UsageError(f"{path} has images of {height} x {width} pixels: they must be square")
    if array.size == 0:
        raise UsageError(f"{path} has no images")
    if not np.isfinite(array).all():
        raise UsageError(f"{path} has values that are not finite")
    largest = float(np.abs(array).max())
    if not RANGE[0] <= largest <= RANGE[1]:
        raise UsageError(f"{path} has values up to {largest:.3g}: divide them, so that the largest is about one")
    return np.ascontiguousarray(array, np.float32)
