r"""Galaxies made by formulas: spirals and ellipticals in color on a black sky, without a download or a license.

A spiral is a thin disc seen at an angle. In its plane, at radius $r$ and azimuth $\theta$, light comes from a bulge,
sometimes a bar, an exponential disc of length $h$, and $m$ logarithmic arms of pitch angle $\alpha$ with the profile of
a von Mises distribution,

$$ I_{\mathrm{arms}} \propto e^{-r / h} \exp(\kappa \cos \psi - \kappa),
   \qquad \psi = m (\theta - \ln r / \tan \alpha) + w(r, \theta), $$

where the wobble $w$ makes each arm irregular. Dust on the inner side of the arms absorbs blue light more than red, and
clumps of young stars lie where the arms are bright. An elliptical has Sersic's profile,

$$ I \propto \exp(-b_n (r / r_e)^{1 / n}), \qquad r^c = |u|^c + |v / q|^c, $$

with $b_n \approx 2 n - 1 / 3$, boxy isophotes for $c > 2$ and discy ones for $c < 2$, and is redder in its center.

Lengths are in units of half the frame. All light comes from within a radius of 0.9 around the center of the galaxy,
which is within 0.04 of that of the frame in each direction: the border is black. Profiles fade towards that radius, so
that the half-light radius of an image is smaller than $r_e$. Brightness is the asinh of the flux, as in the color
pictures of surveys (Lupton et al. 2004, https://arxiv.org/abs/astro-ph/0312483).
"""

__all__ = ["ellipticals", "spirals"]

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.special import i0e

VERSION = 1  # raised when a galaxy of a seed changes: what was learned of the old ones is then not reused
JITTER = 0.04  # of the center, in each direction
REACH = 0.9  # the radius beyond which there is no light
CLUMPS = 25  # of young stars in a spiral, on average
BARRED = 0.3  # of the spirals
PITCH = (12.0, 28.0)  # of the arms, in degrees
FINE = 2  # points in each direction of a pixel, for arms may be as narrow as one

# Red, green and blue of the populations of stars, with the same sum.
BULGE = np.array([1.30, 1.00, 0.70])
DISC = np.array([1.08, 1.00, 0.92])
ARMS = np.array([0.78, 0.97, 1.25])
YOUNG = np.array([0.75, 0.95, 1.30])
NEBULA = np.array([1.30, 0.75, 0.95])
OLD = np.array([1.32, 1.00, 0.68])
ABSORPTION = np.array([0.75, 1.00, 1.30])  # of dust


@dataclass(frozen=True)
class _Pose:
    r"""How a galaxy lies in the frame: the center, the angle of the major axis, and the ratio of the axes."""

    x: float
    y: float
    angle: float
    ratio: float

    @classmethod
    def draw(cls, rng: np.random.Generator, roundness: tuple[float, float]) -> "_Pose":
        x, y = rng.uniform(-JITTER, JITTER, 2)
        return cls(x, y, rng.uniform(0.0, 2.0 * np.pi), rng.uniform(*roundness))

    def plane(self, size: int) -> tuple[NDArray, NDArray]:
        r"""Returns the coordinates of all points along the major axis, and along the minor one as if seen face-on."""
        points = (np.arange(FINE * size) + 0.5) * (2.0 / (FINE * size)) - 1.0
        x, y = points[None, :] - self.x, points[:, None] - self.y
        cos, sin = np.cos(self.angle), np.sin(self.angle)
        return cos * x + sin * y, (cos * y - sin * x) / self.ratio


def spirals(count: int, rng: np.random.Generator, size: int = 64) -> NDArray[np.float32]:
    r"""Draws spiral galaxies.

    The first images of a larger count are those of a smaller one.

    Arguments:
        count: The number of galaxies.
        rng: The source of randomness, from which each galaxy gets a generator of its own.
        size: The height and width in pixels.

    Returns:
        Red, green and blue in $[0, 1]$, with shape $(N, 3, H, W)$.
    """

    return _draw(_spiral, count, rng, size)


def ellipticals(count: int, rng: np.random.Generator, size: int = 64) -> NDArray[np.float32]:
    r"""Draws elliptical galaxies; see :func:`spirals`."""

    return _draw(_elliptical, count, rng, size)


def _draw(
    galaxy: Callable[[np.random.Generator, int], NDArray], count: int, rng: np.random.Generator, size: int
) -> NDArray[np.float32]:
    images = np.empty((count, 3, size, size), np.float32)
    for image, seed in zip(images, rng.integers(2**63, size=count), strict=True):
        image[:] = galaxy(np.random.default_rng(seed), size)
    return images


def _spiral(rng: np.random.Generator, size: int) -> NDArray:
    pose = _Pose.draw(rng, (0.42, 1.0))
    u, v = pose.plane(size)
    length = rng.uniform(0.22, 0.34)  # of the disc
    r = np.hypot(np.hypot(u, v), 0.6 / size)  # softened, for the center of a pixel may be that of the galaxy
    theta, depth = np.arctan2(v, u), np.log(r)
    disc = np.exp(-r / length) * _fade(r, 0.4 * REACH, min(REACH, 3.6 * length))

    barred = rng.random() < BARRED
    m = 2 if barred else rng.choice([2, 3, 4], p=[0.6, 0.2, 0.2])
    winding = rng.choice([-1.0, 1.0]) / np.tan(np.radians(rng.uniform(*PITCH)))
    start = length * (rng.uniform(0.9, 1.3) if barred else rng.uniform(0.5, 0.8))  # of the arms: the ends of a bar
    along = rng.uniform(0.0, 2.0 * np.pi)
    psi = m * (theta - along - winding * (depth - np.log(start))) + _wobble(theta, depth, rng)
    begun = 1.0 - _fade(r, 0.6 * start, 1.3 * start)
    concentration = rng.uniform(1.5, 3.5)
    arms = disc * begun * np.exp(concentration * (np.cos(psi) - 1.0)) / i0e(concentration)
    arms *= 1.0 + 0.4 * np.cos(theta - rng.uniform(0.0, 2.0 * np.pi))  # one side is often brighter

    share = rng.uniform(0.5, 0.72)  # of the arms in the light of the disc
    bulge = _sersic(np.hypot(u, v * np.sqrt(pose.ratio)), length * rng.uniform(0.4, 0.7), 1.5) * _fade(r, 0.0, REACH)
    bulge *= rng.uniform(0.08, 0.25) * disc.sum() / bulge.sum()
    image = _colored((1.0 - share) * disc, _shade(DISC, rng)) + _colored(share * arms, _shade(ARMS, rng))
    image += _colored(bulge, _shade(BULGE, rng))
    if barred:
        cos, sin = np.cos(along), np.sin(along)
        bar = np.exp(-(((cos * u + sin * v) / start) ** 4) - ((cos * v - sin * u) / (0.22 * start)) ** 2)
        image += _colored(rng.uniform(0.3, 0.6) * bar, BULGE)
    inward = psi - np.sign(winding) * rng.uniform(0.7, 1.1)  # gas is compressed where it enters an arm, and so is dust
    dust = rng.uniform(0.2, 0.8) * begun * np.exp(4.0 * (np.cos(inward) - 1.0))
    image *= np.exp(-ABSORPTION[:, None, None] * dust)
    return _seen(_pixels(image) + _clumps(_pixels(arms), rng), rng.uniform(8.0, 20.0), rng)


def _elliptical(rng: np.random.Generator, size: int) -> NDArray:
    pose = _Pose.draw(rng, (0.55, 1.0))
    u, v = pose.plane(size)
    boxiness = 2.0 + np.clip(rng.normal(0.0, 0.1), -0.2, 0.3)
    r = (np.abs(u) ** boxiness + np.abs(v) ** boxiness + (1.0 / size) ** boxiness) ** (1.0 / boxiness)
    index = np.clip(rng.normal(4.0, 0.8), 2.0, 6.0)
    radius = rng.uniform(0.28, 0.5)
    light = _sersic(r, radius, index) * _fade(r, 0.0, REACH)
    gradient = np.array([-1.0, 0.0, 1.0]) * rng.uniform(0.03, 0.09)  # outwards from red to blue
    color = _shade(OLD, rng)[:, None, None] * (r / radius) ** gradient[:, None, None]
    return _seen(_pixels(light * color), rng.uniform(60.0, 200.0), rng)


def _sersic(r: NDArray, radius: float, index: float) -> NDArray:
    r"""The profile of Sersic with half of the light within the radius, and brightness one there."""
    return np.exp((1.0 / 3.0 - 2.0 * index) * ((r / radius) ** (1.0 / index) - 1.0))


def _fade(r: NDArray, start: float, end: float) -> NDArray:
    r"""Falls smoothly from one to zero between two radii."""
    t = np.clip((r - start) / (end - start), 0.0, 1.0)
    return 1.0 - t * t * (3.0 - 2.0 * t)


def _wobble(theta: NDArray, depth: NDArray, rng: np.random.Generator) -> NDArray:
    r"""A smooth and periodic disturbance of the phase of the arms, by about a third of a radian."""
    orders = np.arange(1, 4)
    size, slope, phase = rng.normal(0.0, 0.28, 3), rng.normal(0.0, 2.0, 3), rng.uniform(0.0, 2.0 * np.pi, 3)
    terms = (a * np.cos(k * theta + s * depth + p) for k, a, s, p in zip(orders, size, slope, phase, strict=True))
    return np.sum(list(terms), axis=0)


def _clumps(arms: NDArray, rng: np.random.Generator) -> NDArray:
    r"""Groups of young stars, blue or with the red light of their nebulae, where the arms are."""
    size = len(arms)
    count = rng.poisson(CLUMPS)
    chance = np.sqrt(arms).ravel()  # of a clump: faint regions form stars, too
    places = np.stack(np.divmod(rng.choice(chance.size, count, p=chance / chance.sum()), size))
    center = places + rng.uniform(-0.5, 0.5, (2, count))
    width = rng.uniform(0.5, 1.1, count) * size / 64.0
    flux = rng.gamma(1.5, 0.35, count) * arms[places[0], places[1]]
    color = np.where(rng.random(count) < 0.2, NEBULA[:, None], YOUNG[:, None])
    rows, columns = np.exp(-0.5 * ((np.arange(size)[:, None] - center[:, None]) / width) ** 2)
    return np.einsum("cyk,xk->cyx", (color * flux)[:, None] * rows, columns)


def _pixels(light: NDArray) -> NDArray:
    r"""The mean over the points of each pixel."""
    *channels, height, width = light.shape
    return light.reshape(*channels, height // FINE, FINE, width // FINE, FINE).mean((-3, -1))


def _shade(color: NDArray, rng: np.random.Generator) -> NDArray:
    r"""The color of one galaxy: a little redder or bluer than that of its kind."""
    return color * np.exp(rng.normal(0.0, 0.05) * np.array([1.0, 0.0, -1.0]))


def _colored(light: NDArray, color: NDArray) -> NDArray:
    return color[:, None, None] * light


def _seen(image: NDArray, contrast: float, rng: np.random.Generator) -> NDArray:
    r"""What a telescope and a picture make of the light: a blur, and an asinh that keeps colors."""
    width = rng.uniform(0.5, 0.8) * image.shape[-1] / 64.0
    image = gaussian_filter(image, (0.0, width, width), mode="constant")
    flux = image.mean(0)
    image *= np.arcsinh(contrast * flux / flux.max()) / np.maximum(flux, np.finfo(float).tiny)
    return image * (rng.uniform(0.88, 1.0) / image.max())
