r"""Digits of scikit-learn as files of MNIST: 8 x 8 pixels enlarged to 28 x 28, some 180 test images of each."""

import hashlib
import struct

import numpy as np

SHIFTS = ((0, 0), (1, 1))  # images are there twice, moved: more of them


def idx(array):
    r"""The bytes of an idx file."""
    magic = {1: 2049, 3: 2051}[array.ndim]
    return struct.pack(f">{1 + array.ndim}I", magic, *array.shape) + array.astype(np.uint8).tobytes()


def write_files(folder, contents):
    r"""Writes files and their hashes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    sums = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items()]
    (folder / "SHA256SUMS").write_text("".join(sums))
    return folder


def write_standin(folder, training=None):
    from sklearn.datasets import load_digits

    found = load_digits()
    large = np.pad(np.kron(found.images, np.ones((3, 3))), ((0, 0), (2, 2), (2, 2))) / 16 * 255
    images = np.concatenate([np.roll(large, shift, axis=(1, 2)) for shift in SHIFTS]).round().astype(np.uint8)
    labels = np.tile(found.target, len(SHIFTS))
    test = np.tile(np.arange(len(large)) >= len(large) // 2, len(SHIFTS))
    return write_files(
        folder,
        {
            "train-images-idx3-ubyte": idx(images[~test][:training]),
            "train-labels-idx1-ubyte": idx(labels[~test][:training]),
            "t10k-images-idx3-ubyte": idx(images[test]),
            "t10k-labels-idx1-ubyte": idx(labels[test]),
        },
    )
