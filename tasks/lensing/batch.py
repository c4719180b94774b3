r"""All walkers and all pixels: images, misfits, gradients and Gram matrices.

Sums over pixels run in `LANES` explicit partial sums, because the compiler may not reorder a sum: the bits of a result
are the same whether the machine code was just compiled or comes from the cache, and do not depend on other walkers.

The arguments of all functions:

- `theta`: the walkers, $(W, 4 + 3n)$: $b, q, \phi, \gamma$, then $x, y, I$ per source;
- `constants`: the index, effective radius, axis ratio, angle and $k$ of every source, $(n, 5)$;
- `pixels`: $x$, $y$ and $1 / (x^2 + y^2)$ of the first half of the pixels by chunks, $(C, 3 \text{CHUNK})$; its type is
  the precision of the computation;
- `data`: the first half of the observation and the reversed second half by chunks, $(C, \text{WIDTH})$;
- `size`: the number of pixels;
- `unroll`: a tuple as long as the series, which makes its length a compile-time constant.
"""

__all__ = ["gradients", "grams", "images", "misfits"]

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernel import (
    CHUNK,
    LENS_ROWS,
    LENS_SIZE,
    SOURCE_SIZE,
    WIDTH,
    chain,
    deflect,
    deflect_derivatives,
    jit,
    prepare,
    shine,
    shine_derivatives,
)

LANES = 16
FOLDS = WIDTH // LANES


@jit
def _residual(data: NDArray, image: NDArray, rows: NDArray) -> None:
    r"""Fills the last row with data minus image."""
    last = rows.shape[0] - 1
    for j in range(WIDTH):
        rows[last, j] = data[j] - image[j]


@jit
def _drop(rows: NDArray, left: int, mirrored: int) -> None:
    r"""Clears the columns behind the last pixel."""
    for a in range(rows.shape[0]):
        for j in range(max(0, min(CHUNK, left)), CHUNK):
            rows[a, j] = 0
        for j in range(max(0, min(CHUNK, mirrored)), CHUNK):
            rows[a, CHUNK + j] = 0


@jit
def _project(rows: NDArray, part: NDArray, total: NDArray) -> None:
    r"""Adds the products of all rows with the last one, in double precision from chunk to chunk."""
    last = rows.shape[0] - 1
    for a in range(rows.shape[0]):
        for j in range(LANES):
            s = rows[a, j] * rows[last, j]
            for i in range(1, FOLDS):
                s += rows[a, i * LANES + j] * rows[last, i * LANES + j]
            part[a, j] = s
    for a in range(rows.shape[0]):
        for j in range(LANES):
            total[a, j] += part[a, j]


@jit
def _multiply(rows: NDArray, total: NDArray) -> None:
    r"""Adds the products of the first rows with each other."""
    for a in range(total.shape[0]):
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
def _rows(count: int, dtype: Any) -> Any:
    r"""Returns room for rows of pixels, for the sums of their products in a chunk, and for the sums over chunks."""
    return np.empty((count, WIDTH), dtype), np.empty((count, LANES), dtype), np.empty((count, LANES))


@jit
def _workspace(count: int, terms: int, dtype: Any) -> Any:
    r"""Returns room for a walker: its constants, then one chunk of the lens, of the sources and of the image."""
    walker = np.empty(LENS_SIZE, dtype), np.empty((2, terms), dtype), np.empty((count, SOURCE_SIZE), dtype)
    buffer, light = np.empty(LENS_ROWS * WIDTH, dtype), np.empty((count, 2 * WIDTH), dtype)
    return *walker, buffer, light, np.empty(3 * WIDTH, dtype)


@jit
def _render(pixels: NDArray, room: Any, unroll: tuple[int, ...]) -> None:
    r"""Fills one chunk of the image."""
    lens, series, sources, buffer, light, image = room
    image[:] = 0
    deflect(pixels, lens, series, buffer, unroll)
    for i in range(len(sources)):
        shine(buffer, sources[i], light[i], image)


@jit
def images(theta: NDArray, constants: NDArray, pixels: NDArray, unroll: tuple[int, ...], out: NDArray) -> None:
    r"""Fills the images $(W, P)$ of walkers $(W, p)$."""
    walkers, size = out.shape
    room = _workspace(len(constants), len(unroll), pixels.dtype)
    lens, series, sources, _, _, image = room
    for w in range(walkers):
        prepare(theta[w], constants, lens, series, sources)
        for c in range(len(pixels)):
            _render(pixels[c], room, unroll)
            start = c * CHUNK
            for j in range(min(CHUNK, (size + 1) // 2 - start)):
                out[w, start + j] = image[j]
                out[w, size - 1 - start - j] = image[CHUNK + j]


@jit
def misfits(
    theta: NDArray, constants: NDArray, pixels: NDArray, data: NDArray, size: int, unroll: tuple[int, ...], out: NDArray
) -> None:
    r"""Fills the sums of squared residuals $(W,)$."""
    room = _workspace(len(constants), len(unroll), pixels.dtype)
    lens, series, sources, _, _, image = room
    rows, part, total = _rows(1, pixels.dtype)
    for w in range(len(theta)):
        prepare(theta[w], constants, lens, series, sources)
        total[:] = 0
        for c in range(len(pixels)):
            _render(pixels[c], room, unroll)
            _residual(data[c], image, rows)
            _drop(rows, (size + 1) // 2 - c * CHUNK, size // 2 - c * CHUNK)
            _project(rows, part, total)
        out[w] = _sum(total[0])


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
    r"""Fills the misfits $(W,)$, $J^T (d - m)$ $(W, p)$ and, unless it is empty, $J^T J$ $(W, p, p)$."""
    dim = theta.shape[1]
    room = _workspace(len(constants), len(unroll), pixels.dtype)
    lens, series, sources, buffer, light, image = room
    rows, part, total = _rows(dim + 1, pixels.dtype)
    flat = rows.reshape(rows.size)
    squares = np.empty((dim if len(fisher) else 0, dim, LANES), pixels.dtype)
    for w in range(len(theta)):
        prepare(theta[w], constants, lens, series, sources)
        total[:] = 0
        squares[:] = 0
        for c in range(len(pixels)):
            _render(pixels[c], room, unroll)
            deflect_derivatives(pixels[c], lens, series, buffer, unroll)
            for i in range(len(sources)):
                place = flat[(4 + 3 * i) * WIDTH : (7 + 3 * i) * WIDTH]
                shine_derivatives(buffer, sources[i], light[i], image, place)
            chain(buffer, lens, image, flat)
            _residual(data[c], image, rows)
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
    r"""Fills the products $(W, n + 1, n + 1)$ of the images of the sources at unit intensity and of the data."""
    count = len(constants)
    room = _workspace(count, len(unroll), pixels.dtype)
    lens, series, sources, _, light, _ = room
    rows, _, _ = _rows(count + 1, pixels.dtype)
    squares = np.empty((count + 1, count + 1, LANES), pixels.dtype)
    for w in range(len(theta)):
        prepare(theta[w], constants, lens, series, sources)
        squares[:] = 0
        for c in range(len(pixels)):
            _render(pixels[c], room, unroll)
            for i in range(count):
                for j in range(WIDTH):
                    rows[i, j] = light[i, j]
            for j in range(WIDTH):
                rows[count, j] = data[c, j]
            _drop(rows, (size + 1) // 2 - c * CHUNK, size // 2 - c * CHUNK)
            _multiply(rows, squares)
        for a in range(count + 1):
            for b in range(a + 1):
                out[w, a, b] = out[w, b, a] = _sum(squares[a, b])
