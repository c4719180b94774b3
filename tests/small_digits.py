r"""Real digits of 8 x 8 pixels, which come with scikit-learn, and what tells whether images look like them."""

from functools import lru_cache

import numpy as np


@lru_cache
def small_digits():
    r"""Returns 1,797 images as bytes, and their labels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return {"images": (found.images * 255 / 16).astype(np.uint8), "labels": found.target.astype(np.uint8)}


@lru_cache
def _classifier():
    from sklearn.neighbors import KNeighborsClassifier

    data = small_digits()
    return KNeighborsClassifier(3).fit(data["images"].reshape(-1, 64) / 255, data["labels"])


def told_apart(images, labels):
    r"""Returns whether the three nearest real images have the label of each image."""
    return _classifier().predict(images.reshape(len(images), -1)) == labels


def typical_distance(images, labels):
    r"""Returns the distance of each image to the nearest real one with its label."""
    data = small_digits()
    real = data["images"].reshape(-1, 64) / 255
    points = images.reshape(len(images), -1)
    return np.array(
        [
            np.linalg.norm(real[data["labels"] == label] - point, axis=1).min()
            for point, label in zip(points, labels, strict=True)
        ]
    )
