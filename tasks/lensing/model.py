r"""The forward model of parametric lensing: an elliptical power-law lens, Sérsic sources and Gaussian noise."""

__all__ = ["LensModel", "Sersic"]

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mira_bench.arrays import as_array, as_host, refuse_non_finite
from mira_bench.errors import UsageError

from . import kernel

LENS_PRIOR = {"b": (1.0, 1.5), "q": (0.5, 0.9), "phi": (0.0, math.pi), "gamma": (1.75, 2.25)}
SOURCE_PRIOR = {"x": (-0.5, 0.5), "y": (0.05, 0.10), "I": (0.4, 0.8)}
VALID = {
    "b": (0.0, math.inf, "positive"),
    "q": (0.0, 1.0, "above 0 and at most 1"),
    "gamma": (1.0, 3.0, "above 1 and at most 3"),
}
ANY = (-math.inf, math.inf, "finite")
SLOPE = 3  # the position of gamma among the parameters


@dataclass(frozen=True)
class Sersic:
    r"""What is known of a Sérsic source: all but its position and its intensity.

    $$ I(\rho) = I_e \exp \left( -k \left( (\rho / R_e)^{1 / n} - 1 \right) \right), \quad
       \rho^2 = u^2 + v^2 / q^2 , $$

    with $u$ and $v$ along the major and the minor axis.

    Arguments:
        n: The Sérsic index $n$.
        radius: The effective radius $R_e$, in arcsec.
        q: The axis ratio $q$.
        phi: The angle of the major axis, in radians.
    """

    n: float = 1.0
    radius: float = 0.2
    q: float = 0.8
    phi: float = 0.5

    def __post_init__(self) -> None:
        if not 0.36 <= self.n <= 10:
            raise UsageError(f"the index n of a source is {self.n}; it must be between 0.36 and 10")
        if not 0 < self.radius < math.inf:
            raise UsageError(f"the effective radius of a source is {self.radius}; it must be positive")
        if not 0 < self.q <= 1:
            raise UsageError(f"the axis ratio q of a source is {self.q}; it must be above 0 and at most 1")
        if not math.isfinite(self.phi):
            raise UsageError(f"the angle phi of a source is {self.phi}; it must be finite")

    @property
    def k(self) -> float:
        r"""The constant that puts half of the light inside the effective radius (Ciotti & Bertin 1999)."""
        x = 1 / self.n
        series = 4 / 405 + x * (46 / 25515 + x * (131 / 1148175 - x * 2194697 / 30690717750))
        return 2 * self.n - 1 / 3 + x * series


@dataclass(frozen=True)
class LensModel:
    r"""Images of Sérsic sources behind a lens at the origin, $d \sim \mathcal{N}(m(\theta), \sigma^2 I)$.

    The parameters are $b, q, \phi, \gamma$ of the lens, then $x, y, I$ of each source, in physical units (arcsec,
    radians). Walkers $(W, p)$ may leave the prior box: any $b > 0$, $0 < q \leq 1$ and $1 < \gamma \leq 3$ will do.

    Arguments:
        kind: The lens: an elliptical power law (`"epl"`), or a singular isothermal ellipsoid (`"sie"`), which is the
            former with $\gamma = 2$ and has no parameter for it.
        sources: The constants of each source.
        pixels: The number of pixels on a side.
        pixelscale: The side of a pixel, in arcsec.
        noise: The standard deviation $\sigma$ of the noise.
        dtype: The precision, `"float32"` or `"float64"`. Sums over pixels are returned as float64 in any case.
        terms: The terms of the deflection's series, whose error is about $((1 - q) / (1 + q))^\text{terms}$: with 12,
            images are right to 1e-5 for $q \geq 0.5$.

    Example:
        >>> model = LensModel("sie", (Sersic(),), pixels=24)
        >>> model.names
        ('b', 'q', 'phi', 'x1', 'y1', 'I1')
        >>> theta = np.mean(model.bounds, axis=0)[None]
        >>> image = model.images(theta)[0]
        >>> image.shape
        (24, 24)
        >>> log_likelihood, gradient = model.log_likelihood_gradient(theta, image + 0.1)
        >>> gradient.shape
        (1, 6)
    """

    kind: Literal["epl", "sie"] = "epl"
    sources: tuple[Sersic, ...] = (Sersic(), Sersic(), Sersic())
    pixels: int = 100
    pixelscale: float = 0.05
    noise: float = 1.0
    dtype: Literal["float32", "float64"] = "float32"
    terms: int = 12

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", tuple(self.sources))  # a list is welcome
        if self.kind not in ("epl", "sie"):
            raise UsageError(f"there is no lens of kind {self.kind!r}; the kinds are 'epl' and 'sie'")
        if not self.sources:
            raise UsageError("sources is empty; a lens model needs at least one source")
        for source in self.sources:
            if not isinstance(source, Sersic):
                raise UsageError(f"sources holds {source!r}; every source must be a Sersic")
        for name, least in (("pixels", 1), ("terms", 2)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise UsageError(f"{name} is {value!r}; it must be an integer of at least {least}")
        for name in ("pixelscale", "noise"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be positive")
        if self.dtype not in ("float32", "float64"):
            raise UsageError(f"dtype is {self.dtype!r}; it must be 'float32' or 'float64'")

    @property
    def priors(self) -> dict[str, tuple[float, float]]:
        r"""The prior range of each parameter, by name."""
        lens = {name: box for name, box in LENS_PRIOR.items() if self.kind == "epl" or name != "gamma"}
        each = {f"{name}{i + 1}": box for i in range(len(self.sources)) for name, box in SOURCE_PRIOR.items()}
        return lens | each

    @property
    def names(self) -> tuple[str, ...]:
        r"""The names of the $p$ parameters."""
        return tuple(self.priors)

    @property
    def bounds(self) -> tuple[list[float], list[float]]:
        r"""The prior box."""
        low, high = zip(*self.priors.values(), strict=True)
        return list(low), list(high)

    @property
    def periodic(self) -> NDArray[np.bool_]:
        r"""Which parameters are periodic in their prior range: the angle of the lens."""
        return np.array([name == "phi" for name in self.names])

    def complete(self, theta: ArrayLike) -> NDArray[np.float64]:
        r"""Returns walkers $(W, p)$ as $(W, 4 + 3n)$, after a check: with $\gamma = 2$ for an SIE."""
        array = as_array(theta, "theta")
        if array.ndim != 2 or array.shape[1] != len(self.names):
            shape = f"(W, {len(self.names)}), one column for each of {', '.join(self.names)}"
            raise UsageError(f"theta has shape {tuple(array.shape)}; the model asks for {shape}")
        array = as_host(array)
        low, high, wanted = zip(*(VALID.get(name, ANY) for name in self.names), strict=True)
        bad = ~((array > low) & (array <= high) & np.isfinite(array))
        if bad.any():
            w, i = np.argwhere(bad)[0]
            raise UsageError(f"theta has {self.names[i]} = {array[w, i]} at walker {w}; it must be {wanted[i]}")
        if self.kind == "sie":
            array = np.insert(array, SLOPE, 2.0, axis=1)
        return np.ascontiguousarray(array)

    def images(self, theta: ArrayLike) -> NDArray:
        r"""Returns the images without noise, with shape $(W, P, P)$."""
        walkers = self.complete(theta)
        out = np.empty((len(walkers), self.pixels**2), self.dtype)
        kernel.images(walkers, self._constants, self._grid, self._unroll, out)
        return out.reshape(-1, self.pixels, self.pixels)

    def log_likelihood(self, theta: ArrayLike, data: ArrayLike) -> NDArray[np.float64]:
        r"""Returns $-|d - m(\theta)|^2 / 2 \sigma^2$, with shape $(W,)$.

        The constant $-P^2 \log(\sigma \sqrt{2 \pi})$ is dropped here and below. It is the same for all models of an
        observation with the same noise, so the ratios of their evidences do not notice.

        Arguments:
            theta: The walkers, with shape $(W, p)$.
            data: The observation, with shape $(P, P)$.
        """
        return self._evaluate(theta, data, order=0)[0]

    def log_likelihood_gradient(
        self, theta: ArrayLike, data: ArrayLike
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Returns the log-likelihood $(W,)$ and its gradient $(W, p)$."""
        return self._evaluate(theta, data, order=1)[:2]

    def log_likelihood_fisher(
        self, theta: ArrayLike, data: ArrayLike
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        r"""Returns the log-likelihood $(W,)$, its gradient $(W, p)$ and the Fisher matrix $(W, p, p)$.

        The Fisher matrix is $J^T J / \sigma^2$, where $J$ is the Jacobian of the image.
        """
        return self._evaluate(theta, data, order=2)

    def intensity_gram(self, theta: ArrayLike, data: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Returns $A^T A$ $(W, n, n)$ and $A^T d$ $(W, n)$; the columns of $A$ are the sources at unit intensity.

        The image is $m = A I$. Given the rest, the intensities are thus Gaussian before they meet their prior, with
        precision $A^T A / \sigma^2$ and mean $(A^T A)^{-1} A^T d$. The intensities in `theta` do not matter.
        """
        walkers = self.complete(theta)
        n = len(self.sources)
        out = np.empty((len(walkers), n + 1, n + 1))
        kernel.grams(walkers, *self._problem(data), out)
        return out[:, :n, :n], out[:, :n, n]

    def _evaluate(
        self, theta: ArrayLike, data: ArrayLike, order: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        walkers = self.complete(theta)
        count, dim = walkers.shape
        misfit, gradient = np.empty(count), np.empty((count, dim if order > 0 else 0))
        square = np.empty((count, dim, dim) if order > 1 else (count, 0, 0))
        kernel.gradients(walkers, *self._problem(data), misfit, gradient, square)
        if self.kind == "sie" and order > 0:
            gradient = np.delete(gradient, SLOPE, axis=1)
        if self.kind == "sie" and order > 1:
            square = np.delete(np.delete(square, SLOPE, axis=1), SLOPE, axis=2)
        precision = 1 / self.noise**2
        return -0.5 * precision * misfit, precision * gradient, precision * square

    def _problem(self, data: ArrayLike) -> tuple[NDArray, NDArray, NDArray, int, tuple[int, ...]]:
        r"""Returns what the kernel's functions need besides the walkers."""
        array = as_array(data, "data")
        if tuple(array.shape) != (self.pixels, self.pixels):
            raise UsageError(
                f"data has shape {tuple(array.shape)}; the model asks for an image ({self.pixels}, {self.pixels})"
            )
        flat = as_host(array).ravel()
        refuse_non_finite(flat.reshape(array.shape), "data")
        half = (len(flat) + 1) // 2
        chunks = self._chunks(np.stack([flat[:half], flat[::-1][:half]]))
        return self._constants, self._grid, chunks, len(flat), self._unroll

    @cached_property
    def _constants(self) -> NDArray[np.float64]:
        return np.array([(s.n, s.radius, s.q, s.phi, s.k) for s in self.sources])

    @cached_property
    def _grid(self) -> NDArray:
        r"""The first half of the pixels, up to the center: $x$, $y$ and $1 / (x^2 + y^2)$."""
        side = (np.arange(self.pixels) - (self.pixels - 1) / 2) * self.pixelscale
        y, x = np.meshgrid(side, side, indexing="ij")
        half = (self.pixels**2 + 1) // 2
        x, y = x.ravel()[:half], y.ravel()[:half]
        square = x**2 + y**2
        return self._chunks(np.stack([x, y, 1 / np.where(square > 0, square, 1)]))

    def _chunks(self, rows: NDArray[np.float64]) -> NDArray:
        r"""Cuts rows $(k, H)$ to chunks $(C, k \, \text{CHUNK})$; what the last one lacks is filled with any number."""
        count = -(-rows.shape[1] // kernel.CHUNK)
        padded = np.ones((len(rows), count * kernel.CHUNK), self.dtype)
        padded[:, : rows.shape[1]] = rows
        return np.ascontiguousarray(padded.reshape(len(rows), count, kernel.CHUNK).swapaxes(0, 1)).reshape(count, -1)

    @property
    def _unroll(self) -> tuple[int, ...]:
        return (0,) * (self.terms - 1)
