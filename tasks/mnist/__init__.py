r"""MNIST: images of digits given their label, real images as controls."""

__all__ = ["Digits", "Images", "Mnist", "labels_of", "load_images"]

from .data import Images, load_images
from .task import Digits, Mnist, labels_of
