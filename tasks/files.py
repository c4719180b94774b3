r"""Files of images that users bring: read with care, known by their content."""

__all__ = ["PICTURES", "content_of", "pictures_in", "pixels_of", "reading", "sha256_of", "sums_of"]

import contextlib
import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError

PICTURES = (".png", ".jpg", ".jpeg")
DAMAGES = (OSError, EOFError, KeyError, ValueError, RuntimeError, SyntaxError, zipfile.BadZipFile, zlib.error)
MODES = ("RGB", "RGBA", "L", "P")  # of Pillow, with a byte for each color


def content_of(path: Path) -> bytes:
    r"""Returns the bytes of a file."""

    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def sha256_of(content: bytes) -> str:
    r"""Returns the SHA-256 of a content, in hexadecimal digits."""

    return hashlib.sha256(content).hexdigest()


def sums_of(hashes: Mapping[str, str]) -> bytes:
    r"""Returns what `sha256sum` writes about files, in the order of their names."""

    return "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes)).encode()


@contextlib.contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    r"""Libraries raise many kinds of errors at a damaged file: it is the file that is to blame."""

    try:
        yield
    except UsageError:
        raise
    except DAMAGES as error:
        raise UsageError(f"{path} cannot be read as {what}, it may be damaged: {error}") from error


def pictures_in(folder: Path) -> list[Path]:
    r"""Returns the pictures in a folder, in the order of their names, without what systems leave behind."""

    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in PICTURES)
    paths = [path for path in paths if not path.name.startswith(".")]
    if not paths:
        raise UsageError(f"{folder} has no pictures: none of {', '.join(PICTURES)}")
    return paths


def pixels_of(content: bytes, path: Path) -> NDArray[np.uint8]:
    r"""Returns red, green and blue of a picture, with shape $(3, H, W)$."""

    from PIL import Image

    with reading(path, "a picture"), Image.open(io.BytesIO(content)) as picture:
        if picture.mode not in MODES:
            raise UsageError(f"{path} has pixels of the mode {picture.mode}: it must be one of {', '.join(MODES)}")
        pixels = np.asarray(picture.convert("RGBA").convert("RGB"))  # at once, transparent palettes cause a warning
    return pixels.transpose(2, 0, 1)
