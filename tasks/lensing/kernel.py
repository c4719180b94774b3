r"""The loops of the simulator: deflection, brightness, their derivatives, and sums over pixels.

Three things make them fast. (1) The deflection is odd, $\alpha(-\xi) = -\alpha(\xi)$, so the lens is computed for half
of the pixels. (2) The derivatives of the deflection follow from itself: it is homogeneous of degree $1 - t$, its
divergence is twice the convergence, its curl vanishes, and its angular series solves a differential equation of first
order. Only the slope needs a second series. (3) A chunk of pixels stays in the cache, and every loop over it is SIMD.

Notation (Tessore & Metcalf 2015), in the frame of the lens: $\xi = x + iy$, $z = qx + iy$, $r = |z|$, $w = z / z^*$,
$f = (1 - q) / (1 + q)$, $t = \gamma - 1$, and

$$ \alpha = \frac{2}{1 + q} \left( \frac{b \sqrt{q}}{r} \right)^t z S(w), \quad
   S = 1 - f w T(w), \quad T = \sum_{k \geq 1} (-f w)^{k - 1} \prod_{j \leq k} \frac{2j - 2 + t}{2j + 2 - t} . $$

The arguments of the public functions:

- `theta`: the walkers, $(W, 4 + 3n)$: $b, q, \phi, \gamma$, then $x, y, I$ per source;
- `constants`: the index, effective radius, axis ratio, angle and $k$ of every source, $(n, 5)$;
- `pixels`: $x$, $y$ and $1 / (x^2 + y^2)$ of the first half of the pixels by chunks, $(C, 3 \, \text{CHUNK})$. Its type
  is the precision of the computation;
- `data`: the first half of the observation and the reversed second half by chunks, $(C, \text{WIDTH})$;
- `size`: the number of pixels;
- `unroll`: a tuple as long as the series of $T$, which makes its length a compile-time constant.

References:
    | The elliptical power law profile lens (Tessore & Metcalf 2015)
"""

__all__ = ["CHUNK", "gradients", "grams", "images"]

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.compiling import compiled

from .elementary import FASTMATH, exp2, log2

CHUNK = 128  # pixels whose deflection is computed at a time
WIDTH = 2 * CHUNK  # the same together with their mirror images
LANES = 16  # partial sums over pixels: explicit, because the compiler may not reorder a sum
FOLDS = WIDTH // LANES
TINY = 1e-30  # keeps the centers of the lens and of the sources finite, and is lost in rounding everywhere else

# Rows of the lens buffer. The position in the source plane comes with its mirror images, the others do not.
_BETA = 0
_POSITION, _ALPHA, _T, _S, _POWER, _BY_Q, _BY_PHI, _BY_T = (2 * WIDTH + i * WIDTH for i in range(8))

# Under Python's error model a division may raise, and no loop with a division becomes SIMD.
jit = compiled(fastmath=FASTMATH, error_model="numpy")


@jit
def _workspace(count: int, terms: int, dtype: Any) -> Any:
    r"""Returns room for the constants of a walker, then for one chunk of the lens, of the sources and of the image."""
    walker = np.empty(11, dtype), np.empty((2, terms), dtype), np.empty((count, 14), dtype)
    return *walker, np.empty(10 * WIDTH, dtype), np.empty((count, 2 * WIDTH), dtype), np.empty(3 * WIDTH, dtype)


@jit
def _prepare(theta: NDArray, constants: NDArray, lens: NDArray, series: NDArray, sources: NDArray) -> None:
    r"""Fills what depends on the walker alone, in double precision."""
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
    for i in range(len(sources)):
        n, radius, ratio, angle, k = constants[i]
        ux, uy = np.cos(angle) / radius, np.sin(angle) / radius
        vx, vy = -uy / ratio, ux / ratio
        x, y, intensity = theta[4 + 3 * i], theta[5 + 3 * i], theta[6 + 3 * i]
        row = sources[i]
        # From the source plane in the frame of the lens to the axes of the source, and back to the frame of the sky.
        row[0], row[1] = ux * cos + uy * sin, uy * cos - ux * sin
        row[2], row[3] = vx * cos + vy * sin, vy * cos - vx * sin
        row[4], row[5] = ux * x + uy * y, vx * x + vy * y
        row[6], row[7], row[8], row[9] = intensity * ux, intensity * vx, intensity * uy, intensity * vy
        row[10], row[11], row[12], row[13] = intensity, k / np.log(2.0), 0.5 / n, k / n


@jit
def _deflect(pixels: NDArray, c: int, lens: NDArray, series: NDArray, out: NDArray, unroll: tuple[int, ...]) -> None:
    r"""Fills the positions in the source plane, and what the derivatives need."""
    number = pixels.dtype.type
    one, half, tiny = number(1), number(0.5), number(TINY)
    cos, sin, q, f, t, offset = lens[0], lens[1], lens[2], lens[3], lens[4], lens[5]
    exponent = half * t
    for j in range(CHUNK):
        x = cos * pixels[c, j] + sin * pixels[c, CHUNK + j]
        y = cos * pixels[c, CHUNK + j] - sin * pixels[c, j]
        zx = q * x
        square = zx * zx + (y * y + tiny)
        inverse = one / square
        wx, wy = (zx * zx - y * y) * inverse, (zx + zx) * y * inverse
        # Clenshaw's recurrence: real numbers, because the coefficients are real and |w| = 1.
        twice = wx + wx
        first = second = number(0)
        for k in range(len(unroll)):
            first, second = twice * first + (series[0, k] - second), first
        tx, ty = first - wx * second, wy * second
        sx, sy = one - f * (wx * tx - wy * ty), -f * (wx * ty + wy * tx)
        log = log2(square)
        power = exp2(offset - exponent * log)
        ax, ay = power * (zx * sx - y * sy), power * (zx * sy + y * sx)
        out[_BETA + j], out[_BETA + CHUNK + j] = x - ax, ax - x
        out[_BETA + WIDTH + j], out[_BETA + WIDTH + CHUNK + j] = y - ay, ay - y
        out[_POSITION + j], out[_POSITION + CHUNK + j] = x, y
        out[_ALPHA + j], out[_ALPHA + CHUNK + j] = ax, ay
        out[_T + j], out[_T + CHUNK + j] = tx, ty
        out[_S + j], out[_S + CHUNK + j] = sx, sy
        out[_POWER + j], out[_POWER + CHUNK + j] = power, log


@jit
def _deflect_derivatives(
    pixels: NDArray, c: int, lens: NDArray, series: NDArray, out: NDArray, unroll: tuple[int, ...]
) -> None:
    r"""Fills the derivatives of the deflection by $q, \phi, t$, after `_deflect`."""
    number = pixels.dtype.type
    one, two, half, tiny, ln2 = number(1), number(2), number(0.5), number(TINY), number(np.log(2.0))
    q, f, t, scale, factor, by_q, weight = lens[2], lens[3], lens[4], lens[6], lens[8], lens[9], lens[10]
    rest, per_factor, by_f = two - t, one / factor, -half * factor * factor
    for j in range(CHUNK):
        x, y = out[_POSITION + j], out[_POSITION + CHUNK + j]
        ax, ay = out[_ALPHA + j], out[_ALPHA + CHUNK + j]
        tx, ty = out[_T + j], out[_T + CHUNK + j]
        sx, sy = out[_S + j], out[_S + CHUNK + j]
        power, log = out[_POWER + j], out[_POWER + CHUNK + j]
        zx = q * x
        inverse = one / (zx * zx + (y * y + tiny))
        wx, wy = (zx * zx - y * y) * inverse, (zx + zx) * y * inverse
        px, py = power * zx, power * y
        # The slope: that of the power and that of the series.
        twice = wx + wx
        first = second = number(0)
        for k in range(len(unroll)):
            first, second = twice * first + (series[1, k] - second), first
        ux, uy = first - wx * second, wy * second
        vx, vy = -f * (wx * ux - wy * uy), -f * (wx * uy + wy * ux)
        ln = ln2 * (scale - half * log)
        out[_BY_T + j] = ax * ln + (px * vx - py * vy)
        out[_BY_T + CHUNK + j] = ay * ln + (px * vy + py * vx)
        # The angle: rotating the frame and the position gives -i (2 - t) ((b sqrt q / r)^t xi - alpha).
        kappa = power * per_factor
        out[_BY_PHI + j], out[_BY_PHI + CHUNK + j] = rest * (kappa * y - ay), rest * (ax - kappa * x)
        # The axis ratio: the series solves dS/df = ((2 - t) T - t S) z xi / (2 factor q |xi|^2).
        gx, gy = rest * tx - t * sx, rest * ty - t * sy
        scaled = weight * pixels[c, 2 * CHUNK + j]
        hx, hy = (zx * x - y * y) * scaled, (zx * y + x * y) * scaled
        ux, uy = gx * hx - gy * hy, gx * hy + gy * hx
        turn = -(f + f) * x * (y * inverse)
        vx, vy = by_f * ux - turn * uy, by_f * uy + turn * ux
        growth, push = by_q - t * x * (zx * inverse), power * x
        out[_BY_Q + j] = ax * growth + push * sx + (px * vx - py * vy)
        out[_BY_Q + CHUNK + j] = ay * growth + push * sy + (px * vy + py * vx)


@jit
def _shine(buffer: NDArray, sources: NDArray, i: int, light: NDArray, image: NDArray) -> None:
    r"""Fills the image of a source at unit intensity and, behind it, $(\rho / R_e)^{1 / n}$; adds it to `image`."""
    tiny = buffer.dtype.type(TINY)
    ux, uy, vx, vy, u0, v0 = sources[i, 0], sources[i, 1], sources[i, 2], sources[i, 3], sources[i, 4], sources[i, 5]
    intensity, k, exponent = sources[i, 10], sources[i, 11], sources[i, 12]
    if exponent == buffer.dtype.type(0.5):
        for j in range(WIDTH):
            u = ux * buffer[j] + (uy * buffer[WIDTH + j] - u0)
            v = vx * buffer[j] + (vy * buffer[WIDTH + j] - v0)
            light[i, WIDTH + j] = np.sqrt(u * u + (v * v + tiny))
    else:
        for j in range(WIDTH):
            u = ux * buffer[j] + (uy * buffer[WIDTH + j] - u0)
            v = vx * buffer[j] + (vy * buffer[WIDTH + j] - v0)
            light[i, WIDTH + j] = exp2(exponent * log2(u * u + (v * v + tiny)))
    for j in range(WIDTH):
        light[i, j] = exp2(k - k * light[i, WIDTH + j])
        image[j] += intensity * light[i, j]


@jit
def _shine_derivatives(buffer: NDArray, sources: NDArray, i: int, light: NDArray, image: NDArray, out: NDArray) -> None:
    r"""Fills the derivatives by $x, y, I$ of a source; adds those by the deflection behind the image."""
    tiny = buffer.dtype.type(TINY)
    ux, uy, vx, vy, u0, v0 = sources[i, 0], sources[i, 1], sources[i, 2], sources[i, 3], sources[i, 4], sources[i, 5]
    xu, xv, yu, yv, slope = sources[i, 6], sources[i, 7], sources[i, 8], sources[i, 9], sources[i, 13]
    for j in range(WIDTH):
        u = ux * buffer[j] + (uy * buffer[WIDTH + j] - u0)
        v = vx * buffer[j] + (vy * buffer[WIDTH + j] - v0)
        steep = slope * light[i, j] * light[i, WIDTH + j] / (u * u + (v * v + tiny))
        u, v = steep * u, steep * v
        gx, gy = xu * u + xv * v, yu * u + yv * v
        out[j], out[WIDTH + j], out[2 * WIDTH + j] = gx, gy, light[i, j]
        image[WIDTH + j] += gx
        image[2 * WIDTH + j] += gy


@jit
def _chain(buffer: NDArray, lens: NDArray, image: NDArray, out: NDArray) -> None:
    r"""Fills the derivatives by $b, q, \phi, t$, for the pixels and for their mirror images."""
    cos, sin, by_b = lens[0], lens[1], lens[7]
    for j in range(CHUNK):
        x = cos * image[WIDTH + j] + sin * image[2 * WIDTH + j]
        y = cos * image[2 * WIDTH + j] - sin * image[WIDTH + j]
        u = -cos * image[WIDTH + CHUNK + j] - sin * image[2 * WIDTH + CHUNK + j]
        v = sin * image[WIDTH + CHUNK + j] - cos * image[2 * WIDTH + CHUNK + j]
        dx, dy = by_b * buffer[_ALPHA + j], by_b * buffer[_ALPHA + CHUNK + j]
        out[j], out[CHUNK + j] = x * dx + y * dy, u * dx + v * dy
        dx, dy = buffer[_BY_Q + j], buffer[_BY_Q + CHUNK + j]
        out[WIDTH + j], out[WIDTH + CHUNK + j] = x * dx + y * dy, u * dx + v * dy
        dx, dy = buffer[_BY_PHI + j], buffer[_BY_PHI + CHUNK + j]
        out[2 * WIDTH + j], out[2 * WIDTH + CHUNK + j] = x * dx + y * dy, u * dx + v * dy
        dx, dy = buffer[_BY_T + j], buffer[_BY_T + CHUNK + j]
        out[3 * WIDTH + j], out[3 * WIDTH + CHUNK + j] = x * dx + y * dy, u * dx + v * dy


@jit
def _drop(rows: NDArray, left: int, mirrored: int) -> None:
    r"""Clears the columns behind the last pixel, and behind the last mirror image."""
    if mirrored >= CHUNK:
        return
    rows[:, max(0, min(left, CHUNK)) : CHUNK] = 0
    rows[:, CHUNK + max(0, mirrored) :] = 0


@jit
def _project(rows: NDArray, part: NDArray, total: NDArray) -> None:
    r"""Adds the products of all rows with the last one, in double precision from chunk to chunk."""
    last = len(rows) - 1
    for a in range(len(rows)):
        for j in range(LANES):
            s = rows[a, j] * rows[last, j]
            for i in range(1, FOLDS):
                s += rows[a, i * LANES + j] * rows[last, i * LANES + j]
            part[a, j] = s
    flat, sums = part.reshape(part.size), total.reshape(total.size)
    for j in range(len(flat)):
        sums[j] += flat[j]


@jit
def _multiply(rows: NDArray, total: NDArray) -> None:
    r"""Adds the products of the first rows with each other."""
    for a in range(len(total)):
        for b in range(a + 1):
            for j in range(LANES):
                s = rows[a, j] * rows[b, j]
                for i in range(1, FOLDS):
                    s += rows[a, i * LANES + j] * rows[b, i * LANES + j]
                total[a, b, j] += s


@jit
def _sum(lanes: NDArray) -> float:
    total = 0.0
    for value in lanes:
        total += np.float64(value)
    return total


@jit
def images(theta: NDArray, constants: NDArray, pixels: NDArray, unroll: tuple[int, ...], out: NDArray) -> None:
    r"""Fills the images $(W, P)$."""
    count, size = len(constants), out.shape[1]
    lens, series, sources, buffer, light, image = _workspace(count, len(unroll), pixels.dtype)
    for w in range(len(theta)):
        _prepare(theta[w], constants, lens, series, sources)
        for c in range(len(pixels)):
            image[:] = 0
            _deflect(pixels, c, lens, series, buffer, unroll)
            for i in range(count):
                _shine(buffer, sources, i, light, image)
            start = c * CHUNK
            for j in range(min(CHUNK, (size + 1) // 2 - start)):
                out[w, start + j] = image[j]
                out[w, size - 1 - start - j] = image[CHUNK + j]


@jit
def gradients(
    theta: NDArray,
    constants: NDArray,
    pixels: NDArray,
    data: NDArray,
    size: int,
    unroll: tuple[int, ...],
    misfit: NDArray,
    gradient: NDArray,
    fisher: NDArray,
) -> None:
    r"""Fills $|d - m|^2$ $(W,)$ and, unless they are $(W, 0)$ and $(W, 0, 0)$, $J^T (d - m)$ and $J^T J$."""
    count, dim = len(constants), gradient.shape[1]
    lens, series, sources, buffer, light, image = _workspace(count, len(unroll), pixels.dtype)
    rows, part, total = (
        np.empty((dim + 1, WIDTH), pixels.dtype),
        np.empty((dim + 1, LANES), pixels.dtype),
        np.empty((dim + 1, LANES)),
    )
    flat, squares = rows.reshape(rows.size), np.empty((fisher.shape[1], dim, LANES), pixels.dtype)
    for w in range(len(theta)):
        _prepare(theta[w], constants, lens, series, sources)
        total[:] = 0
        squares[:] = 0
        for c in range(len(pixels)):
            image[:] = 0
            _deflect(pixels, c, lens, series, buffer, unroll)
            for i in range(count):
                _shine(buffer, sources, i, light, image)
            if dim > 0:
                _deflect_derivatives(pixels, c, lens, series, buffer, unroll)
                for i in range(count):
                    place = flat[(4 + 3 * i) * WIDTH : (7 + 3 * i) * WIDTH]
                    _shine_derivatives(buffer, sources, i, light, image, place)
                _chain(buffer, lens, image, flat)
            for j in range(WIDTH):
                rows[dim, j] = data[c, j] - image[j]
            _drop(rows, (size + 1) // 2 - c * CHUNK, size // 2 - c * CHUNK)
            _project(rows, part, total)
            _multiply(rows, squares)
        misfit[w] = _sum(total[dim])
        for a in range(dim):
            gradient[w, a] = _sum(total[a])
        for a in range(len(squares)):
            for b in range(a + 1):
                fisher[w, a, b] = fisher[w, b, a] = _sum(squares[a, b])


@jit
def grams(
    theta: NDArray, constants: NDArray, pixels: NDArray, data: NDArray, size: int, unroll: tuple[int, ...], out: NDArray
) -> None:
    r"""Fills the products $(W, n + 1, n + 1)$ of the sources at unit intensity and of the data."""
    count = len(constants)
    lens, series, sources, buffer, light, image = _workspace(count, len(unroll), pixels.dtype)
    rows, squares = np.empty((count + 1, WIDTH), pixels.dtype), np.empty((count + 1, count + 1, LANES), pixels.dtype)
    for w in range(len(theta)):
        _prepare(theta[w], constants, lens, series, sources)
        squares[:] = 0
        for c in range(len(pixels)):
            _deflect(pixels, c, lens, series, buffer, unroll)
            for i in range(count):
                _shine(buffer, sources, i, light, image)
                for j in range(WIDTH):
                    rows[i, j] = light[i, j]
            for j in range(WIDTH):
                rows[count, j] = data[c, j]
            _drop(rows, (size + 1) // 2 - c * CHUNK, size // 2 - c * CHUNK)
            _multiply(rows, squares)
        for a in range(count + 1):
            for b in range(a + 1):
                out[w, a, b] = out[w, b, a] = _sum(squares[a, b])
