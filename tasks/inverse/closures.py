r"""Closure quantities: what stations with unknown gains and phases measure of an image.

Around a triangle of stations, phases of stations cancel; in a quadrangle, so do gains:

$$ \psi_{abc} = \arg V_{ab} V_{bc} V_{ca}, \qquad
   \kappa_{abcd} = \ln |V_{ab}| + \ln |V_{cd}| - \ln |V_{ac}| - \ln |V_{bd}|. $$

Both are linear in the phases and logarithms of visibilities, whose errors are those of a Gaussian with variance
$\sigma^2 / |V|^2$ where $|V|$ is well above $\sigma$. Closures of a scan share visibilities, so their errors are
correlated, $\Sigma = T \, \mathrm{diag}(\sigma^2 / |V|^2) \, T^\top$ (Blackburn et al. 2020,
https://arxiv.org/abs/1910.02062).
"""

__all__ = ["ClosureOperator", "GivenClosures", "amplitude_closures", "phase_closures"]

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.inference.diffusion.linear import MatrixBasis

from .telescopes import Coverage

if TYPE_CHECKING:
    from torch import Tensor

Term = dict[tuple[int, int], float]  # how often the visibility of each pair of stations counts
ROUNDING = 1e-7  # singular values that are smaller, relative to the largest, are lost in single precision anyway
Loops = Callable[[list[int]], Iterator[Term]]


def phase_closures(coverage: Coverage, variance: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Returns triangles, as many as are independent: a matrix $(P, M)$ that makes closure phases of phases.

    Arguments:
        coverage: The visibilities.
        variance: The variance of each, with shape $(M,)$: triangles with small errors are preferred.
    """

    return _independent(coverage, variance, _triangles)


def amplitude_closures(coverage: Coverage, variance: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Returns quadrangles: a matrix $(Q, M)$ that makes log closure amplitudes; see :func:`phase_closures`."""

    return _independent(coverage, variance, _quadrangles)


def _triangles(stations: list[int]) -> Iterator[Term]:
    for a, b, c in combinations(stations, 3):
        yield {(a, b): 1.0, (b, c): 1.0, (a, c): -1.0}


def _quadrangles(stations: list[int]) -> Iterator[Term]:
    for a, b, c, d in combinations(stations, 4):
        pairs = ((a, b), (c, d)), ((a, c), (b, d)), ((a, d), (b, c))
        for above, below in combinations(pairs, 2):
            yield dict.fromkeys(above, 1.0) | dict.fromkeys(below, -1.0)


def _independent(coverage: Coverage, variance: NDArray[np.float64], loops: Loops) -> NDArray[np.float64]:
    r"""Takes loops of each scan in the order of their errors, and leaves out those that others imply."""
    kept: list[NDArray] = []
    for scan in np.unique(coverage.scan):
        here = np.flatnonzero(coverage.scan == scan)
        column = {(int(coverage.first[m]), int(coverage.second[m])): m for m in here}
        rows = []
        for term in loops(sorted({station for pair in column for station in pair})):
            if all(pair in column for pair in term):
                row = np.zeros(len(coverage))
                row[[column[pair] for pair in term]] = list(term.values())
                rows.append(row)
        span: list[NDArray] = []
        for row in sorted(rows, key=lambda row: float(row**2 @ variance)):
            rest = row - sum((vector * (vector @ row) for vector in span), np.zeros(len(row)))
            if np.linalg.norm(rest) > 1e-6:
                span.append(rest / np.linalg.norm(rest))
                kept.append(row)
    return np.array(kept).reshape(len(kept), len(coverage))


class ClosureOperator:
    r"""Closure phases, log closure amplitudes and the total flux of images, differentiable.

    Data are a row for each measurement: $P$ phases, $Q$ log amplitudes, the flux in Jy, and then the measured
    $|V| / \sigma$ of all $M$ visibilities. The likelihood takes errors from these, and nothing else: what they say
    about the image, for gains that are close to one, is not used. As they are measured, too, whitened log amplitudes
    have a mean of up to about $\sigma / |V|$ in place of zero.

    Arguments:
        matrix: The matrix that makes visibilities in Jy of images, complex, with shape $(M, d)$.
        total: The flux of each pixel, in Jy, with shape $(d,)$.
        phases: The matrix of closure phases, with shape $(P, M)$.
        amplitudes: The matrix of log closure amplitudes, with shape $(Q, M)$.
        flux_error: The standard deviation of the flux, in Jy.
        noise: The factor on the thermal noise, which the measured $\sigma$ already has.
        event: The shape of an image, with $d$ numbers.
    """

    def __init__(
        self, matrix: NDArray[np.complex128], total: NDArray, phases: NDArray, amplitudes: NDArray, flux_error: float,
        noise: float, event: tuple[int, ...],
    ) -> None:  # fmt: skip
        import torch

        self.event, self.data, self.noise = event, (len(phases) + len(amplitudes) + 1 + len(matrix),), noise
        self.flux_error = flux_error
        self.real, self.imaginary = torch.tensor(matrix.real), torch.tensor(matrix.imag)
        self.phases, self.amplitudes = torch.tensor(phases), torch.tensor(amplitudes)
        self.total = torch.tensor(total)
        self._single = [part.float() for part in self._matrices]

    @property
    def _matrices(self) -> "list[Tensor]":
        return [self.real, self.imaginary, self.phases, self.amplitudes, self.total]

    def _as(self, like: "Tensor") -> "list[Tensor]":
        return self._single if like.dtype == self._single[0].dtype else [m.to(like.dtype) for m in self._matrices]

    @property
    def measurements(self) -> int:
        r"""The number of closures and the flux, $P + Q + 1$."""
        return len(self.phases) + len(self.amplitudes) + 1

    def visibilities(self, y: "Tensor") -> "tuple[Tensor, Tensor]":
        r"""Returns real and imaginary part of visibilities in Jy, each with shape $(B, M)$, of images $(B, *event)$."""
        real, imaginary, *_ = self._as(y)
        return y.flatten(1) @ real.T, y.flatten(1) @ imaginary.T

    def closures(self, real: "Tensor", imaginary: "Tensor") -> "Tensor":
        r"""Returns closure phases and log amplitudes of visibilities $(B, M)$, with shape $(B, P + Q)$."""
        import torch

        _, _, phases, amplitudes, _ = self._as(real)
        logarithms = 0.5 * (real.square() + imaginary.square()).log()
        return torch.cat([wrapped(torch.atan2(imaginary, real) @ phases.T), logarithms @ amplitudes.T], dim=1)

    def forward(self, y: "Tensor") -> "Tensor":
        r"""Returns closure phases, log closure amplitudes and flux, with shape $(B, P + Q + 1)$."""
        import torch

        flux = y.flatten(1) @ self._as(y)[-1]
        return torch.cat([self.closures(*self.visibilities(y)), flux[:, None]], dim=1)

    @cached_property
    def basis(self) -> MatrixBasis:
        r"""Orthonormal images that hold all that is measured of an image, up to rounding: 146 of 1024 for the task."""
        matrix = np.concatenate([self.real.numpy(), self.imaginary.numpy(), self.total.numpy()[None]])
        full = MatrixBasis.of(matrix, self.event)
        kept = full.squares > ROUNDING**2 * full.squares[0]
        return MatrixBasis(full.vectors[kept], full.squares[kept], self.event)

    def restricted(self, images: NDArray[np.float64]) -> "ClosureOperator":
        r"""Returns the operator of coordinates $(B, r)$ of images that are sums of some, with shape $(r, d)$."""
        matrix = (self.real.numpy() + 1j * self.imaginary.numpy()) @ images.T
        loops = self.phases.numpy(), self.amplitudes.numpy()
        return ClosureOperator(
            matrix, images @ self.total.numpy(), *loops, self.flux_error, self.noise, (len(images),)
        )  # fmt: skip

    def given(self, x: "Tensor") -> "GivenClosures":
        r"""Returns the likelihood of data $(B, *data)$, or $(1, *data)$ for all images, with errors found once."""
        return GivenClosures(self, x)

    def log_likelihood(self, y: "Tensor", x: "Tensor") -> "Tensor":
        r"""Returns $\log p(x \mid y)$ of closures and flux given their errors, with shape $(B,)$."""
        return self.given(x).log_likelihood(y)

    def misfit(self, y: "Tensor", x: "Tensor") -> "Tensor":
        r"""Returns the mean square of whitened residuals, with shape $(B,)$: about one for the truth."""
        return self.given(x).misfit(y)

    def chi2(self, y: "Tensor", x: "Tensor") -> "dict[str, Tensor]":
        r"""Returns $\chi^2$ of closure phases and of log amplitudes as InverseBench has them, each with shape $(B,)$.

        Errors count as if they were independent: $2 \langle (1 - \cos \Delta) / s^2 \rangle$ and
        $\langle \Delta^2 / s^2 \rangle$.
        """
        away, inverse = x[:, : self.measurements] - self.forward(y), x[:, self.measurements :].square().reciprocal()
        _, _, phases, amplitudes, _ = self._as(y)
        split = len(self.phases)
        turned = 2 * (1 - away[:, :split].cos()) / (inverse @ phases.T.square())
        grown = away[:, split:-1].square() / (inverse @ amplitudes.T.square())
        return {"closure_phases": turned.mean(dim=1), "log_closure_amplitudes": grown.mean(dim=1)}


class GivenClosures:
    r"""The likelihood of some data, for many images.

    Arguments:
        operator: The operator.
        x: The data, with shape $(B, *data)$ or $(1, *data)$.
    """

    def __init__(self, operator: ClosureOperator, x: "Tensor") -> None:
        import torch

        if tuple(x.shape[1:]) != operator.data:
            raise UsageError(f"data of shape {tuple(x.shape)}, where (B, {str(operator.data)[1:]} is needed")
        self.operator = operator
        self.closures = x[:, : operator.measurements]
        variance = x[:, operator.measurements :].double().square().reciprocal()[:, None]
        self._white = []
        self._volume = math.log(operator.flux_error)  # of the errors: the logarithm of the root of the determinant
        for loops in (operator.phases, operator.amplitudes):
            root = torch.linalg.cholesky((loops * variance) @ loops.T)
            unit = torch.eye(len(loops), dtype=root.dtype)
            self._white.append(torch.linalg.solve_triangular(root, unit, upper=False).to(x.dtype))
            self._volume = self._volume + root.diagonal(dim1=1, dim2=2).log().sum(dim=1).to(x.dtype)

    def residuals(self, y: "Tensor") -> "Tensor":
        r"""Returns whitened residuals, with shape $(B, P + Q + 1)$: standard normal for the truth."""
        import torch

        return torch.cat(self._residuals(y, *self.operator.visibilities(y)), dim=1)

    def _residuals(self, y: "Tensor", real: "Tensor", imaginary: "Tensor") -> "list[Tensor]":
        r"""Whitened residuals of closure phases, log amplitudes and flux, of images whose visibilities are known."""
        split = len(self.operator.phases)
        away = self.closures[:, :-1] - self.operator.closures(real, imaginary)
        parts = wrapped(away[:, :split]), away[:, split:]
        white = [_times(root, part) for root, part in zip(self._white, parts, strict=True)]
        flux = self.closures[:, -1:] - (y.flatten(1) @ self.operator._as(y)[-1])[:, None]
        return [*white, flux / self.operator.flux_error]

    def gradient(self, y: "Tensor") -> "Tensor":
        r"""Returns the gradient of the log-likelihood, with the shape of the images."""
        real, imaginary, phases, amplitudes, total = self.operator._as(y)
        a, b = self.operator.visibilities(y)
        *white, flux = self._residuals(y, a, b)
        turn, grow = (
            _times(root.mT, part) @ loops
            for root, part, loops in zip(self._white, white, (phases, amplitudes), strict=True)
        )
        # The derivatives of arg V and ln |V| by real and imaginary part of V.
        power = a.square() + b.square()
        along = ((grow * a - turn * b) / power) @ real + ((grow * b + turn * a) / power) @ imaginary
        return (along + flux / self.operator.flux_error * total).reshape(y.shape)

    def slopes(self, y: "Tensor") -> "Tensor":
        r"""Returns the derivatives of whitened residuals by each number of an image, shape $(B, P + Q + 1, d)$."""
        import torch

        real, imaginary, phases, amplitudes, total = self.operator._as(y)
        a, b = (part[..., None] for part in self.operator.visibilities(y))
        power = a.square() + b.square()
        turned = phases @ ((a * imaginary - b * real) / power)  # the derivative of arg V is Im(V* dV) / |V|^2
        grown = amplitudes @ ((a * real + b * imaginary) / power)
        white = [root @ part for root, part in zip(self._white, (turned, grown), strict=True)]
        flux = (total / self.operator.flux_error).expand(len(y), 1, -1)
        return -torch.cat([*white, flux], dim=1)

    def misfit(self, y: "Tensor") -> "Tensor":
        r"""Returns the mean square of whitened residuals, with shape $(B,)$."""
        return self.residuals(y).square().mean(dim=1)

    def log_likelihood(self, y: "Tensor") -> "Tensor":
        r"""Returns the log-likelihood, with shape $(B,)$."""
        count = self.operator.measurements
        return -0.5 * count * (self.misfit(y) + math.log(2 * math.pi)) - self._volume


def _times(matrix: "Tensor", rows: "Tensor") -> "Tensor":
    r"""Multiplies each row by its matrix; one matrix for all is one product."""
    return rows @ matrix[0].T if len(matrix) == 1 else (matrix @ rows[..., None])[..., 0]


def wrapped(phase: "Tensor") -> "Tensor":
    r"""Returns phases between $-\pi$ and $\pi$."""

    return (phase + math.pi).remainder(2 * math.pi) - math.pi
