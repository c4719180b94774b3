r"""One walker and one chunk of pixels: deflection, brightness and their derivatives.

Three things make it fast. (1) The deflection is odd, $\alpha(-\xi) = -\alpha(\xi)$, so the lens is computed for half
of the pixels. (2) The derivatives of the deflection follow from itself: it is homogeneous of degree $1 - t$, its
divergence is twice the convergence, its curl vanishes, and its angular series solves a differential equation of first
order. Only the slope needs a second series. (3) A chunk stays in the L1 cache, and every loop over it is SIMD.

Notation (Tessore & Metcalf 2015), in the frame of the lens: $\xi = x + iy$, $z = qx + iy$, $r = |z|$, $w = z / z^*$,
$f = (1 - q) / (1 + q)$, $t = \gamma - 1$, and

.. math:: \alpha = \frac{2}{1 + q} \left( \frac{b \sqrt{q}}{r} \right)^t z S(w), \quad
    S = 1 - f w T(w), \quad T = \sum_{k \geq 1} (-f w)^{k - 1} \prod_{j \leq k} \frac{2j - 2 + t}{2j + 2 - t} .

The functions here are compiled into those of `batch`, whose cached machine code does not notice that this file changed:
who edits it deletes `__pycache__`.

References:
    | The elliptical power law profile lens (Tessore & Metcalf 2015)
"""

__all__ = [
    "CHUNK",
    "LENS_ROWS",
    "LENS_SIZE",
    "SOURCE_SIZE",
    "WIDTH",
    "chain",
    "deflect",
    "deflect_derivatives",
    "jit",
    "prepare",
    "shine",
    "shine_derivatives",
]

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .elementary import FASTMATH, exp2, log2

CHUNK = 128  # pixels whose deflection is computed at a time
WIDTH = 2 * CHUNK  # the same together with their mirror images

# Under Python's error model a division may raise, and no loop with a division becomes SIMD.
jit = njit(nogil=True, cache=True, fastmath=FASTMATH, error_model="numpy")

TINY = 1e-30  # keeps the centers of the lens and of the sources finite, and is lost in rounding everywhere else
LENS_SIZE, SOURCE_SIZE = 11, 14  # numbers that `prepare` writes

# Rows of the lens buffer. First the position in the source plane (two rows) and the derivatives of the deflection (two
# rows each), with their mirror images; then, for the pixels alone, what the derivatives are made of.
LENS_ROWS = 16
_BETA, _BY_B, _BY_Q, _BY_PHI, _BY_T = 0, 2 * WIDTH, 4 * WIDTH, 6 * WIDTH, 8 * WIDTH
_POSITION, _ALPHA, _T, _S, _POWER, _LOG = (i * WIDTH for i in (10, 11, 12, 13, 14, 15))


@jit
def prepare(theta: NDArray, constants: NDArray, lens: NDArray, series: NDArray, sources: NDArray) -> None:
    r"""Fills what depends on the walker alone, in double precision; `batch` tells what the arguments are."""
    b, q, phi, t = theta[0], theta[1], theta[2], theta[3] - 1.0
    f, factor = (1 - q) / (1 + q), 2 / (1 + q)
    scale = np.log2(b * np.sqrt(q))
    cos, sin = np.cos(phi), np.sin(phi)
    lens[0], lens[1], lens[2], lens[3], lens[4] = cos, sin, q, f, t
    lens[5] = t * scale + np.log2(factor)
    lens[6] = scale
    lens[7] = t / b
    lens[8] = factor
    lens[9] = t / (2 * q) - 1 / (1 + q)
    lens[10] = 0.5 / (factor * q)
    term, slope = 1.0, 0.0
    width = series.shape[1]
    for k in range(1, width + 1):
        rising, falling = 2 * k - 2 + t, 2 * k + 2 - t
        term *= rising / falling
        slope += 1 / rising + 1 / falling
        series[0, width - k] = term
        series[1, width - k] = term * slope
        term *= -f
    for i in range(sources.shape[0]):
        n, radius, ratio, angle, k = constants[i]
        cos_i, sin_i = np.cos(angle) / radius, np.sin(angle) / radius
        ux, uy, vx, vy = cos_i, sin_i, -sin_i / ratio, cos_i / ratio
        x, y, intensity = theta[4 + 3 * i], theta[5 + 3 * i], theta[6 + 3 * i]
        row = sources[i]
        # From the source plane in the frame of the lens to the elliptical radius, and back to the frame of the sky.
        row[0], row[1] = ux * cos + uy * sin, uy * cos - ux * sin
        row[2], row[3] = vx * cos + vy * sin, vy * cos - vx * sin
        row[4], row[5] = ux * x + uy * y, vx * x + vy * y
        row[6], row[7], row[8], row[9] = intensity * ux, intensity * vx, intensity * uy, intensity * vy
        row[10] = intensity
        row[11] = k / np.log(2.0)
        row[12] = 0.5 / n
        row[13] = k / n


@jit
def deflect(pixels: NDArray, lens: NDArray, series: NDArray, out: NDArray, unroll: tuple[int, ...]) -> None:
    r"""Fills the positions in the source plane, and what the derivatives need."""
    number = pixels.dtype.type
    one, tiny, half = number(1), number(TINY), number(0.5)
    cos, sin, q, f = lens[0], lens[1], lens[2], lens[3]
    exponent, offset = half * lens[4], lens[5]
    for j in range(CHUNK):
        x = cos * pixels[j] + sin * pixels[CHUNK + j]
        y = cos * pixels[CHUNK + j] - sin * pixels[j]
        zx = q * x
        square = zx * zx + (y * y + tiny)
        inverse = one / square
        wx, wy = (zx * zx - y * y) * inverse, (zx + zx) * y * inverse
        # Clenshaw's recurrence: real numbers, because the coefficients are real and |w| = 1.
        twice = wx + wx
        first = second = number(0)
        for k in range(len(unroll)):
            first, second = series[0, k] + (twice * first - second), first
        tx, ty = first - wx * second, wy * second
        sx, sy = one - f * (wx * tx - wy * ty), -f * (wx * ty + wy * tx)
        log = log2(square)
        power = exp2(offset - exponent * log)
        ax, ay = power * (zx * sx - y * sy), power * (zx * sy + y * sx)
        out[_BETA + j] = x - ax
        out[_BETA + CHUNK + j] = ax - x
        out[_BETA + WIDTH + j] = y - ay
        out[_BETA + WIDTH + CHUNK + j] = ay - y
        out[_POSITION + j], out[_POSITION + CHUNK + j] = x, y
        out[_ALPHA + j], out[_ALPHA + CHUNK + j] = ax, ay
        out[_T + j], out[_T + CHUNK + j] = tx, ty
        out[_S + j], out[_S + CHUNK + j] = sx, sy
        out[_POWER + j], out[_LOG + j] = power, log


@jit
def deflect_derivatives(pixels: NDArray, lens: NDArray, series: NDArray, out: NDArray, unroll: tuple[int, ...]) -> None:
    r"""Fills the derivatives of the deflection by $b, q, \phi, t$, after `deflect`."""
    number = pixels.dtype.type
    one, two, half, tiny, ln2 = number(1), number(2), number(0.5), number(TINY), number(np.log(2.0))
    q, f, t, scale, by_b, factor = lens[2], lens[3], lens[4], lens[6], lens[7], lens[8]
    by_q, ode = lens[9], lens[10]
    rest, per_factor, by_f = two - t, one / factor, -half * factor * factor
    for j in range(CHUNK):
        x, y = out[_POSITION + j], out[_POSITION + CHUNK + j]
        ax, ay = out[_ALPHA + j], out[_ALPHA + CHUNK + j]
        tx, ty = out[_T + j], out[_T + CHUNK + j]
        sx, sy = out[_S + j], out[_S + CHUNK + j]
        power, log = out[_POWER + j], out[_LOG + j]
        zx = q * x
        inverse = one / (zx * zx + (y * y + tiny))
        wx, wy = (zx * zx - y * y) * inverse, (zx + zx) * y * inverse
        px, py = power * zx, power * y
        # The slope: of the power, and of the series.
        twice = wx + wx
        first = second = number(0)
        for k in range(len(unroll)):
            first, second = series[1, k] + (twice * first - second), first
        ux, uy = first - wx * second, wy * second
        vx, vy = -f * (wx * ux - wy * uy), -f * (wx * uy + wy * ux)
        ln = ln2 * (scale - half * log)
        dx, dy = ax * ln + (px * vx - py * vy), ay * ln + (px * vy + py * vx)
        out[_BY_T + j], out[_BY_T + CHUNK + j] = dx, -dx
        out[_BY_T + WIDTH + j], out[_BY_T + WIDTH + CHUNK + j] = dy, -dy
        # The angle: rotating the frame and the position gives -i (2 - t) ((b sqrt q / r)^t xi - alpha).
        kappa = power * per_factor
        dx, dy = rest * (kappa * y - ay), rest * (ax - kappa * x)
        out[_BY_PHI + j], out[_BY_PHI + CHUNK + j] = dx, -dx
        out[_BY_PHI + WIDTH + j], out[_BY_PHI + WIDTH + CHUNK + j] = dy, -dy
        # The axis ratio: dS/df = ((2 - t) T - t S) z xi / (2 factor q |xi|^2), the equation that the series solves.
        gx, gy = rest * tx - t * sx, rest * ty - t * sy
        weight = ode * pixels[2 * CHUNK + j]
        hx, hy = (zx * x - y * y) * weight, (zx * y + x * y) * weight
        ux, uy = gx * hx - gy * hy, gx * hy + gy * hx
        turn = -(f + f) * x * (y * inverse)
        vx, vy = by_f * ux - turn * uy, by_f * uy + turn * ux
        growth = by_q - t * x * (zx * inverse)
        dx = ax * growth + (px * vx - py * vy) + power * x * sx
        dy = ay * growth + (px * vy + py * vx) + power * x * sy
        out[_BY_Q + j], out[_BY_Q + CHUNK + j] = dx, -dx
        out[_BY_Q + WIDTH + j], out[_BY_Q + WIDTH + CHUNK + j] = dy, -dy
        dx, dy = by_b * ax, by_b * ay
        out[_BY_B + j], out[_BY_B + CHUNK + j] = dx, -dx
        out[_BY_B + WIDTH + j], out[_BY_B + WIDTH + CHUNK + j] = dy, -dy


@jit
def shine(buffer: NDArray, source: NDArray, light: NDArray, image: NDArray) -> None:
    r"""Fills the image of a source at unit intensity and, behind it, $(\rho / R_e)^{1 / n}$; adds it to `image`."""
    tiny = buffer.dtype.type(TINY)
    ux, uy, vx, vy, u0, v0 = source[0], source[1], source[2], source[3], source[4], source[5]
    intensity, k, exponent = source[10], source[11], source[12]
    if exponent == buffer.dtype.type(0.5):
        for j in range(WIDTH):
            u = ux * buffer[j] + (uy * buffer[WIDTH + j] - u0)
            v = vx * buffer[j] + (vy * buffer[WIDTH + j] - v0)
            light[WIDTH + j] = np.sqrt(u * u + (v * v + tiny))
    else:
        for j in range(WIDTH):
            u = ux * buffer[j] + (uy * buffer[WIDTH + j] - u0)
            v = vx * buffer[j] + (vy * buffer[WIDTH + j] - v0)
            light[WIDTH + j] = exp2(exponent * log2(u * u + (v * v + tiny)))
    for j in range(WIDTH):
        light[j] = exp2(k - k * light[WIDTH + j])
        image[j] += intensity * light[j]


@jit
def shine_derivatives(buffer: NDArray, source: NDArray, light: NDArray, image: NDArray, rows: NDArray) -> None:
    r"""Fills the derivatives by the position and the intensity of a source; adds those by the deflection to `image`."""
    tiny = buffer.dtype.type(TINY)
    ux, uy, vx, vy, u0, v0 = source[0], source[1], source[2], source[3], source[4], source[5]
    xu, xv, yu, yv, slope = source[6], source[7], source[8], source[9], source[13]
    for j in range(WIDTH):
        u = ux * buffer[j] + (uy * buffer[WIDTH + j] - u0)
        v = vx * buffer[j] + (vy * buffer[WIDTH + j] - v0)
        steep = slope * light[j] * light[WIDTH + j] / (u * u + (v * v + tiny))
        u, v = steep * u, steep * v
        gx, gy = xu * u + xv * v, yu * u + yv * v
        rows[j], rows[WIDTH + j], rows[2 * WIDTH + j] = gx, gy, light[j]
        image[WIDTH + j] += gx
        image[2 * WIDTH + j] += gy


@jit
def chain(buffer: NDArray, lens: NDArray, image: NDArray, rows: NDArray) -> None:
    r"""Fills the derivatives by the parameters of the lens."""
    cos, sin = lens[0], lens[1]
    for j in range(WIDTH):
        x = cos * image[WIDTH + j] + sin * image[2 * WIDTH + j]
        y = cos * image[2 * WIDTH + j] - sin * image[WIDTH + j]
        rows[j] = x * buffer[_BY_B + j] + y * buffer[_BY_B + WIDTH + j]
        rows[WIDTH + j] = x * buffer[_BY_Q + j] + y * buffer[_BY_Q + WIDTH + j]
        rows[2 * WIDTH + j] = x * buffer[_BY_PHI + j] + y * buffer[_BY_PHI + WIDTH + j]
        rows[3 * WIDTH + j] = x * buffer[_BY_T + j] + y * buffer[_BY_T + WIDTH + j]
