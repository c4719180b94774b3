r"""MNIST: images of digits given their label, with real images as controls; and given proportions of digits."""

__all__ = ["DigitProportions", "Digits", "Images", "Mnist", "ProportionsModel", "labels_of", "load_images"]

from .data import Images, load_images
from .proportions import DigitProportions, ProportionsModel
from .task import Digits, Mnist, labels_of
