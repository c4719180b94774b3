r"""Imaging of a black hole by an array of telescopes: calibrated visibilities, or closure quantities.

In scan $t$, the stations $a$ and $b$ measure

$$ V_{ab}^t = g_a^t g_b^t \, e^{-i (\phi_a^t - \phi_b^t)} \, I_{ab}^t(z) + \eta_{ab}^t, \qquad
   I(z) = \sum_p z_p \, e^{-2 \pi i (u l_p + v m_p)}, $$

with gains $g$, phases $\phi$ and thermal noise $\eta$. Pixels are points of light. As on the sky, north is up (row 0 is
the lowest) and east, where $l$ grows, is left.
"""

__all__ = ["Closures", "Visibilities", "fourier"]

import functools
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.inference.diffusion.linear import MatrixOperator
from mira_bench.streams import generator

from .closures import ClosureOperator, amplitude_closures, phase_closures
from .phantoms import BRIGHTNESS, black_holes
from .problem import LinearProblem, checked, require
from .telescopes import Coverage, TelescopeArray

MICROARCSECOND = np.pi / 180 / 3600 / 1e6
REFERENCES, SHARE = 200, 0.99  # black holes that decide what is measured, and how many of them must be bright enough


def fourier(u: NDArray[np.float64], v: NDArray[np.float64], size: int, field_of_view: float) -> NDArray[np.complex128]:
    r"""Returns the matrix of visibilities, with shape $(M, H H)$.

    Arguments:
        u: The first coordinates, to the east, in wavelengths, with shape $(M,)$.
        v: The second ones, to the north.
        size: The pixels on a side, $H$.
        field_of_view: The side of the image, in microarcseconds.
    """

    side = ((np.arange(size) + 0.5) / size - 0.5) * field_of_view * MICROARCSECOND
    columns, rows = np.exp(2j * np.pi * u[:, None] * side), np.exp(-2j * np.pi * v[:, None] * side)
    return (rows[:, :, None] * columns[:, None]).reshape(len(u), -1)


def _corrupted(coverage: Coverage, gains: NDArray, phases: NDArray) -> NDArray[np.complex128]:
    r"""Returns factors on visibilities $(*, M)$, of gains and phases with shape $(*, scans, stations)$."""
    stations = gains * np.exp(-1j * phases)
    a, b = (stations[..., coverage.scan, station] for station in (coverage.first, coverage.second))
    return np.asarray(a * b.conj())


@dataclass(frozen=True)
class Visibilities(LinearProblem):
    r"""$y$ is an image $(1, H, H)$; $x$ are visibilities $(M, 2)$ with gains and phases that are known.

    Each visibility is in units of its thermal noise: `noise` is a factor on it.

    Arguments:
        array: The telescopes.
        size: The pixels on a side, $H$.
        field_of_view: The side of the image, in microarcseconds.
        flux: The flux of an image with the mean `BRIGHTNESS` of a typical black hole, in Jy.
        gain_spread: The standard deviation of the logarithm of the gains. Phases are uniform.
        noise: The factor on the thermal noise of the telescopes.
        seed: The seed of the gains and phases.
    """

    array: TelescopeArray = field(default_factory=TelescopeArray)
    size: int = 32
    field_of_view: float = 120.0
    flux: float = 1.0
    gain_spread: float = 0.1
    noise: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        _check(self)

    @property
    def event(self) -> tuple[int, int, int]:
        return 1, self.size, self.size

    @property
    def data(self) -> tuple[int, int]:
        return self.operator().data[0], 2

    def operator(self) -> MatrixOperator:
        return _visibilities(self)


@functools.lru_cache(maxsize=4)
def _visibilities(problem: Visibilities) -> MatrixOperator:
    coverage, matrix = _seen(problem)
    rng = generator(problem.seed, "gains")
    shape = problem.array.scans, len(problem.array.stations)
    gains = np.exp(problem.gain_spread * rng.standard_normal(shape))
    factor = _corrupted(coverage, gains, rng.uniform(0, 2 * np.pi, shape)) / coverage.sigma
    matrix = factor[:, None] * matrix
    rows = np.stack([matrix.real, matrix.imag], axis=1).reshape(-1, problem.size**2)
    return MatrixOperator(rows, problem.noise, problem.event, (len(coverage), 2))


@dataclass(frozen=True)
class Closures:
    r"""$y$ is an image $(1, H, H)$; $x$ are closures of visibilities with unknown gains and phases, and the total flux.

    Gains and phases are other ones in each measurement. Data are a row; :class:`ClosureOperator` says of what.

    A visibility is used if it is above a limit for 99 percent of a fixed set of black holes, so that the errors of
    closures are about Gaussian. That is why the noise is a fraction of that of the telescopes.

    Arguments:
        array: The telescopes.
        size: The pixels on a side, $H$.
        field_of_view: The side of the image, in microarcseconds.
        flux: The flux of an image with the mean `BRIGHTNESS` of a typical black hole, in Jy.
        flux_error: The standard deviation of the measured flux, in Jy.
        gain_spread: The standard deviation of the logarithm of the gains. Phases are uniform.
        noise: The factor on the thermal noise of the telescopes, which thereby decides what is used.
        limit: The limit of $|V| / \sigma$.
    """

    array: TelescopeArray = field(default_factory=TelescopeArray)
    size: int = 32
    field_of_view: float = 120.0
    flux: float = 1.0
    flux_error: float = 0.05
    gain_spread: float = 0.1
    noise: float = 0.25
    limit: float = 10.0

    def __post_init__(self) -> None:
        _check(self)
        require(self, flux_error=0.0, limit=0.0)

    @property
    def event(self) -> tuple[int, int, int]:
        return 1, self.size, self.size

    @property
    def data(self) -> tuple[int]:
        return (self.operator().data[0],)

    @property
    def coverage(self) -> Coverage:
        r"""The visibilities of which closures are made."""
        return _closures(self)[0]

    def operator(self) -> ClosureOperator:
        return _closures(self)[1]

    def measure(self, y: NDArray, rng: np.random.Generator) -> NDArray[np.float32]:
        r"""Returns data with new gains, phases and noise, with shape $(n, *data)$, of images $(n, *event)$."""
        import torch

        operator, coverage = self.operator(), self.coverage
        images = torch.tensor(checked(y, self.event), dtype=torch.float64)
        real, imaginary = (part.numpy() for part in operator.visibilities(images))
        shape = len(images), self.array.scans, len(self.array.stations)
        gains, phases = np.exp(self.gain_spread * rng.standard_normal(shape)), rng.uniform(0, 2 * np.pi, shape)
        sigma = self.noise * coverage.sigma
        noise = sigma * (rng.standard_normal((2, *real.shape)) * np.array([1, 1j])[:, None, None]).sum(axis=0)
        measured = _corrupted(coverage, gains, phases) * (real + 1j * imaginary) + noise
        flux = operator.forward(images)[:, -1:].numpy() + self.flux_error * rng.standard_normal((len(images), 1))
        closures = operator.closures(torch.tensor(measured.real), torch.tensor(measured.imag)).numpy()
        return np.concatenate([closures, flux, np.abs(measured) / sigma], axis=1).astype(np.float32)


@functools.lru_cache(maxsize=4)
def _closures(problem: Closures) -> tuple[Coverage, ClosureOperator]:
    coverage, matrix = _seen(problem)
    images = black_holes(REFERENCES, generator(0, "closure references"), problem.size).reshape(REFERENCES, -1)
    bright = np.abs(images @ matrix.T) / (problem.noise * coverage.sigma)
    kept = np.quantile(bright, 1 - SHARE, axis=0) >= problem.limit
    variance = np.median(bright, axis=0) ** -2.0
    for _ in range(2):  # what is in no closure is not kept, either
        coverage, matrix, variance = coverage.only(kept), matrix[kept], variance[kept]
        loops = phase_closures(coverage, variance), amplitude_closures(coverage, variance)
        kept = np.any(np.concatenate(loops) != 0, axis=0)
    if min(map(len, loops)) == 0:
        raise UsageError(
            f"limit={problem.limit}, noise={problem.noise}: {len(loops[0])} closure phases and {len(loops[1])} closure "
            "amplitudes are above the limit, and some of both are needed"
        )
    total = np.full(problem.size**2, problem.flux / (BRIGHTNESS * problem.size**2))
    operator = ClosureOperator(matrix, total, *loops, problem.flux_error, problem.noise, problem.event)
    return coverage, operator


def _check(problem: Visibilities | Closures) -> None:
    require(problem, size=1, field_of_view=0.0, flux=0.0, noise=0.0)
    if not 0 <= problem.gain_spread < np.inf:
        raise UsageError(f"gain_spread={problem.gain_spread}: it must not be negative")


def _seen(problem: Visibilities | Closures) -> tuple[Coverage, NDArray[np.complex128]]:
    r"""The visibilities of an array, and the matrix that makes them of images, in Jy."""
    coverage = problem.array.coverage()
    scale = problem.flux / (BRIGHTNESS * problem.size**2)
    return coverage, scale * fourier(coverage.u, coverage.v, problem.size, problem.field_of_view)
