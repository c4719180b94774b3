r"""Linear inverse scattering in two dimensions: the first Born approximation.

Transmitters and receivers lie on a circle around the object, whose contrast of permittivity is the image $z$. A wave of
wave number $k$ from a transmitter at $t$ is scattered once by every pixel, and a receiver at $r$ measures

$$ u(r, t) = k^2 h^2 \sum_p G(|r - p|) \, z_p \, G(|p - t|), \qquad G(d) = \tfrac{i}{4} H_0^{(1)}(k d), $$

where $H_0^{(1)}$ is the Hankel function of Helmholtz's equation in free space, and $h$ the side of a pixel, which
scatters as a point in its middle. Waves see no detail finer than half of the wavelength: that is what makes the problem
ill-posed.
"""

__all__ = ["Scattering", "green"]

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.inference.diffusion.linear import MatrixOperator
from mira_bench.streams import generator

from .phantoms import cells
from .problem import LinearProblem, require

REFERENCES = 64  # cells that say what a typical measurement is


def green(distance: NDArray, wavelength: float) -> NDArray[np.complex128]:
    r"""Returns Green's function of Helmholtz's equation in the plane, for waves that go out."""

    from scipy.special import hankel1

    return np.asarray(0.25j * hankel1(0, 2 * np.pi / wavelength * distance))


@dataclass(frozen=True)
class Scattering(LinearProblem):
    r"""$y$ is the contrast $(1, H, H)$; $x$ is the scattered wave, with shape $(transmitters, receivers, 2)$.

    Data are in units of their root mean square over a fixed set of cells, so that `noise` is relative to a typical
    measurement. Lengths are in units of the side of the image.

    Arguments:
        size: The pixels on a side, $H$.
        transmitters: The number of transmitters.
        receivers: The number of receivers.
        wavelength: The wavelength.
        radius: The radius of the circle on which they lie.
        noise: The standard deviation of the noise in real and imaginary part each, in these units.
    """

    size: int = 32
    transmitters: int = 20
    receivers: int = 60
    wavelength: float = 0.3
    radius: float = 2.0
    noise: float = 0.3

    def __post_init__(self) -> None:
        require(self, size=1, transmitters=0, receivers=0, wavelength=0.0, radius=0.0, noise=0.0)
        if self.radius < 1:
            raise UsageError(f"radius={self.radius}: transmitters and receivers are outside of the image from 1 on")

    @property
    def event(self) -> tuple[int, int, int]:
        return 1, self.size, self.size

    @property
    def data(self) -> tuple[int, int, int]:
        return self.transmitters, self.receivers, 2

    def circle(self, count: int) -> NDArray[np.float64]:
        r"""Returns so many places on the circle, with shape $(count, 2)$."""
        angle = 2 * np.pi * np.arange(count) / count
        return self.radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def waves(self, places: NDArray[np.float64]) -> NDArray[np.complex128]:
        r"""Returns the waves between places $(count, 2)$ and the pixels, with shape $(count, H H)$."""
        side = (np.arange(self.size) + 0.5) / self.size - 0.5
        x, y = (places[:, axis, None, None] for axis in (0, 1))
        return green(np.hypot(side[None, :] - x, side[:, None] - y), self.wavelength).reshape(len(places), -1)

    def operator(self) -> MatrixOperator:
        return _operator(self)


@functools.lru_cache(maxsize=4)
def _operator(problem: Scattering) -> MatrixOperator:
    sent, received = (problem.waves(problem.circle(n)) for n in (problem.transmitters, problem.receivers))
    images = cells(REFERENCES, generator(0, "scattering references"), problem.size).reshape(REFERENCES, -1)
    waves = sent[:, None] * received
    typical = np.sqrt(0.5 * np.square(np.abs(waves.reshape(-1, problem.size**2) @ images.T)).mean())
    matrix = np.stack([waves.real, waves.imag], axis=2).reshape(-1, problem.size**2) / typical
    return MatrixOperator(matrix, problem.noise, problem.event, problem.data)
