r"""Images made by formulas: brains for MRI, black holes for interferometers, cells for scattering.

Lengths are in units of half the frame, so that a finer image shows the same object. Edges are as wide as a pixel: light
is the mean over the points of a pixel, and then blurred by a fraction of one.

A brain is a slice through a head: scalp, skull, fluid, gray matter around folds of white matter, two ventricles and the
fissure between the halves, in one of two contrasts (bright white matter, or bright fluid). Its phase is a polynomial of
second order. A black hole is a ring of radius $r_0$ and width $w$ with one bright side,

$$ I \propto \exp(-(r - r_0)^2 / 2 w^2) \, (1 + a \cos(\theta - \phi))^b, $$

sometimes with a narrow second ring or a faint halo. A cell is a smooth body with a nucleus, grains and vacuoles.
"""

__all__ = ["BRIGHTNESS", "black_holes", "brains", "cells"]

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

VERSION = 1  # raised when an image of a seed changes: what was learned of the old ones is then not reused
FINE = 2  # points in each direction of a pixel
BLUR = 0.7  # pixels, the standard deviation: what a pixel grid cannot show is damped to a few percent
BRIGHTNESS = 0.1  # the mean over the pixels of a black hole whose flux is one
SPREAD = 0.2  # of the logarithm of the flux
FLUID_BRIGHT = 0.4  # of the brains


def brains(count: int, rng: np.random.Generator, size: int = 32) -> NDArray[np.float32]:
    r"""Draws slices of brains.

    The first images of a larger count are those of a smaller one.

    Arguments:
        count: The number of images.
        rng: The source of randomness, from which each image gets a generator of its own.
        size: The height and width in pixels.

    Returns:
        Real and imaginary part, with absolute values up to one, with shape $(N, 2, H, W)$.
    """

    return _draw(_brain, 2, count, rng, size)


def black_holes(count: int, rng: np.random.Generator, size: int = 32) -> NDArray[np.float32]:
    r"""Draws images of black holes, with shape $(N, 1, H, W)$; see :func:`brains`.

    The flux is one up to some ten percent, which makes the mean of an image `BRIGHTNESS`, and the largest pixel about
    one.
    """

    return _draw(_black_hole, 1, count, rng, size)


def cells(count: int, rng: np.random.Generator, size: int = 32) -> NDArray[np.float32]:
    r"""Draws the contrast of a few cells in water, from 0 to about 1, with shape $(N, 1, H, W)$; see :func:`brains`."""

    return _draw(_cells, 1, count, rng, size)


def _draw(
    make: Callable[[np.random.Generator, int], NDArray], channels: int, count: int, rng: np.random.Generator, size: int
) -> NDArray[np.float32]:
    images = np.empty((count, channels, size, size), np.float32)
    for image, seed in zip(images, rng.integers(2**63, size=count), strict=True):
        image[:] = make(np.random.default_rng(seed), size)
    return images


def _plane(size: int) -> tuple[NDArray, NDArray]:
    r"""The coordinates of all points, to the right and up: row 0 is the lowest."""
    points = (np.arange(FINE * size) + 0.5) * (2.0 / (FINE * size)) - 1.0
    return points[None, :], points[:, None]


def _turned(x: NDArray, y: NDArray, angle: float) -> tuple[NDArray, NDArray]:
    r"""Coordinates along axes that are turned by an angle."""
    cos, sin = np.cos(angle), np.sin(angle)
    return cos * x + sin * y, cos * y - sin * x


def _seen(light: NDArray) -> NDArray:
    r"""The mean over the points of each pixel, blurred."""
    size = light.shape[-1] // FINE
    return gaussian_filter(light.reshape(size, FINE, size, FINE).mean((1, 3)), BLUR, mode="nearest")


def _inside(level: NDArray, size: int) -> NDArray:
    r"""One where a level is below one, zero above, with an edge about as wide as a pixel."""
    return np.clip(0.5 + (1.0 - level) * size / 4.0, 0.0, 1.0)


def _waves(theta: NDArray, orders: range, amplitude: float, rng: np.random.Generator) -> NDArray:
    r"""A periodic function with mean zero and about the standard deviation that is given."""
    shares = rng.normal(0.0, amplitude / np.sqrt(len(orders)), (2, len(orders)))
    turns = np.exp(1j * theta)
    total = np.zeros_like(theta)
    for order, cos, sin in zip(orders, *shares, strict=True):
        power = turns**order
        total += cos * power.real + sin * power.imag
    return total


def _brain(rng: np.random.Generator, size: int) -> NDArray:
    x, y = _plane(size)
    u, v = _turned(x - rng.normal(0.0, 0.02), y - rng.normal(0.0, 0.02), rng.normal(0.0, 0.08))
    u, v = u / rng.uniform(0.68, 0.78), v / rng.uniform(0.80, 0.90)
    theta = np.arctan2(v, u)
    r = np.hypot(u, v) * (1.0 + 0.05 * v) * (1.0 + _waves(theta, range(2, 5), 0.015, rng))  # a forehead is narrower
    skull, cortex = rng.uniform(0.88, 0.91), rng.uniform(0.77, 0.81)

    if rng.random() < FLUID_BRIGHT:
        scalp, bone, fluid, gray, white = 0.55, 0.08, 0.95, 0.62, 0.38
    else:
        scalp, bone, fluid, gray, white = 0.85, 0.10, 0.15, 0.55, 0.88
    scalp, fluid, gray, white = np.array([scalp, fluid, gray, white]) * rng.uniform(0.9, 1.05, 4)
    image = scalp * _inside(r, size)
    for part, value in ((r / 0.935, bone), (r / skull, fluid), (r / (skull - 0.035), gray)):
        image += (value - image) * _inside(part, size)
    # Folds: white matter reaches far out in some directions, and fluid far in between them.
    folds = np.tanh(2.0 * _waves(theta, range(7, 14), 0.8, rng))
    image += (white - image) * _inside(r / (cortex * (0.88 + 0.11 * folds)), size)
    sulci = _inside(np.abs(folds + 1.0) / 0.25, size) * _inside(0.86 * cortex / np.maximum(r, 1e-3), size)
    image += 0.5 * (fluid - image) * sulci * _inside(r / skull, size)
    fissure = np.exp(-((u / 0.035) ** 2)) * (1.0 - _inside(np.abs(v + 0.05) / 0.42, size)) * _inside(r / skull, size)
    image += 0.8 * (fluid - image) * fissure
    return _with_phase(_seen(_deep(image, u, v, fluid, gray, size, rng)), rng, size)


def _deep(
    image: NDArray, u: NDArray, v: NDArray, fluid: float, gray: float, size: int, rng: np.random.Generator
) -> NDArray:
    r"""Adds the nuclei and the ventricles: two horns that bend away from the middle at both ends."""
    apart, width, length = rng.uniform(0.10, 0.15), rng.uniform(0.055, 0.10), rng.uniform(0.28, 0.40)
    bend = rng.uniform(0.6, 1.2)
    for side in (-1.0, 1.0):
        a, b = _turned(side * u - rng.normal(0.30, 0.01), v + rng.normal(0.02, 0.01), -0.35)
        image = image + (gray - image) * _inside(np.hypot(a / 0.11, b / 0.22), size)
        size_of_horn = rng.uniform(0.9, 1.1)
        across = (side * u - apart - bend * v * v) / (width * size_of_horn)
        image = image + (fluid - image) * _inside(np.hypot(across, v / (length * size_of_horn)), size)
    return image


def _with_phase(image: NDArray, rng: np.random.Generator, size: int) -> NDArray:
    r"""Shades an image as coils do, and gives it a smooth phase: real and imaginary part."""
    points = (np.arange(size) + 0.5) * (2.0 / size) - 1.0
    x, y = points[None, :], points[:, None]
    image = image * (1.0 + rng.normal(0.0, 0.06) * x + rng.normal(0.0, 0.06) * y)
    terms = (np.ones_like(x * y), x, y, x * y, x * x - 0.5, y * y - 0.5)
    phase = sum(rng.normal(0.0, 0.35) * term for term in terms)
    image = image * (rng.uniform(0.85, 1.0) / image.max())
    return np.stack([image * np.cos(phase), image * np.sin(phase)])


def _black_hole(rng: np.random.Generator, size: int) -> NDArray:
    x, y = _plane(size)
    x, y = x - rng.normal(0.0, 0.03), y - rng.normal(0.0, 0.03)
    u, v = _turned(x, y, rng.uniform(0.0, np.pi))
    r, theta = np.hypot(u, v / rng.uniform(0.85, 1.0)), np.arctan2(y, x)
    radius, width = rng.uniform(0.26, 0.46), rng.uniform(0.07, 0.13)
    side, asymmetry, sharpness = rng.uniform(0.0, 2.0 * np.pi), rng.uniform(0.2, 0.95), rng.uniform(1.0, 2.0)
    ring = _ring(r, radius, width) * (1.0 + asymmetry * np.cos(theta - side)) ** sharpness
    if rng.random() < 0.3:
        narrow = _ring(r, radius * rng.uniform(1.45, 1.7), 0.06)
        ring = ring + rng.uniform(0.15, 0.4) * ring.max() * narrow * (1.0 + 0.5 * np.cos(theta - side))
    if rng.random() < 0.5:
        halo = np.exp(-0.5 * (np.hypot(u, v) / rng.uniform(0.3, 0.4)) ** 2)
        ring = ring + halo * (rng.uniform(0.05, 0.25) * ring.sum() / halo.sum())
    image = _seen(ring)
    return (image * (BRIGHTNESS * np.exp(rng.normal(0.0, SPREAD)) / image.mean()))[None]


def _ring(r: NDArray, radius: float, width: float) -> NDArray:
    return np.exp(-0.5 * ((r - radius) / width) ** 2)


def _cells(rng: np.random.Generator, size: int) -> NDArray:
    x, y = _plane(size)
    count = int(rng.integers(1, 4))
    reach = {1: (0.5, 0.65), 2: (0.33, 0.42), 3: (0.26, 0.34)}[count]  # the radius of each
    away = {1: 0.12, 2: 0.45, 3: 0.52}[count] * rng.uniform(0.9, 1.1)  # from the middle of the frame
    turn = rng.uniform(0.0, 2.0 * np.pi)
    image = np.zeros((FINE * size, FINE * size))
    for place in range(count):
        angle = turn + 2.0 * np.pi * place / count + rng.normal(0.0, 0.08)
        cell = _cell(x - away * np.cos(angle), y - away * np.sin(angle), rng.uniform(*reach), size, rng)
        image = np.maximum(image, cell)
    return _seen(image)[None]


def _cell(x: NDArray, y: NDArray, radius: float, size: int, rng: np.random.Generator) -> NDArray:
    u, v = _turned(x, y, rng.uniform(0.0, np.pi))
    v = v / rng.uniform(0.75, 1.0)
    r = np.hypot(u, v) / (radius * (1.0 + _waves(np.arctan2(v, u), range(2, 6), 0.07, rng)))
    body = rng.uniform(0.3, 0.5)
    image = body * (1.0 + 0.35 * r**6) * _inside(r, size)  # membranes are denser
    for _ in range(rng.poisson(4.0)):
        turn, distance = rng.uniform(0.0, 2.0 * np.pi), radius * rng.uniform(0.55, 0.8)
        value, width = rng.choice([-0.7, 0.6]) * body, radius * rng.uniform(0.08, 0.16)
        square = (u - distance * np.cos(turn)) ** 2 + (v - distance * np.sin(turn)) ** 2
        image = image + value * np.exp(-0.5 * square / width**2) * _inside(r, size)
    a, b = u - radius * rng.normal(0.0, 0.12), v - radius * rng.normal(0.0, 0.12)
    share = rng.uniform(0.32, 0.45)
    nucleus = np.hypot(a, b * rng.uniform(1.0, 1.3)) / (share * radius)
    image = image + (rng.uniform(0.65, 0.9) - image) * _inside(nucleus, size)
    spot = ((a - 0.1 * radius) ** 2 + (b - 0.05 * radius) ** 2) / (0.13 * radius) ** 2
    return image + rng.uniform(0.1, 0.25) * np.exp(-0.5 * spot)
