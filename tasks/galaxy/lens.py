r"""The lens: a fixed one of caustics, through which light of the source reaches the image, as a sparse matrix."""

__all__ = ["Lens"]

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError

KINDS = ("sie", "epl")


@dataclass(frozen=True)
class Lens:
    r"""An elliptical lens with external shear, in front of a source that is an image.

    The brightness between the pixels of the source is interpolated, as by caustics' `Pixelated`; light from outside of
    it is none. So the image is linear in the source: a matrix with four numbers for each ray.

    Arguments:
        kind: `"sie"`, the singular isothermal ellipsoid, or `"epl"`, the elliptical power law.
        radius: The Einstein radius, in arcsec.
        q: The axis ratio.
        phi: The position angle.
        slope: The slope $\gamma$ of the elliptical power law; 2 is the isothermal one.
        shear: The two components of the external shear.
        center: The position of the lens relative to the middle of the image, in arcsec.
        pixels: The number of pixels on a side of the image.
        field: The side of the image, in arcsec.
        source_field: The side of the source, in arcsec.
        supersampling: The rays on a side of each pixel, whose mean it is.
        psf: The full width at half maximum of a Gaussian point-spread function in arcsec; 0 is none.
    """

    kind: Literal["sie", "epl"] = "sie"
    radius: float = 1.0
    q: float = 0.75
    phi: float = 0.6
    slope: float = 2.0
    shear: Sequence[float] = (0.03, -0.02)
    center: Sequence[float] = (0.05, -0.03)
    pixels: int = 64
    field: float = 4.0
    source_field: float = 1.6
    supersampling: int = 2
    psf: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shear", tuple(map(float, self.shear)))
        object.__setattr__(self, "center", tuple(map(float, self.center)))
        if self.kind not in KINDS:
            raise UsageError(f"lens.kind={self.kind!r} is not one of {', '.join(KINDS)}")
        if len(self.shear) != 2 or len(self.center) != 2:
            raise UsageError("lens.shear and lens.center have two numbers each")
        # Rays of a lens that cannot be would be lost one and all, and data be noise.
        sensible = self.radius > 0 and 0 < self.q <= 1 and 1 < self.slope < 3 and self.psf >= 0
        if not sensible or not np.isfinite([self.radius, self.phi, self.psf, *self.shear, *self.center]).all():
            raise UsageError(
                f"lens: radius={self.radius}, q={self.q}, phi={self.phi}, slope={self.slope}, shear={self.shear}, "
                f"center={self.center}, psf={self.psf} cannot be"
            )
        if self.pixels < 2 or self.supersampling < 1 or not min(self.field, self.source_field) > 0:
            raise UsageError(
                f"lens: pixels={self.pixels}, supersampling={self.supersampling}, field={self.field}, "
                f"source_field={self.source_field} cannot be"
            )

    def model(self) -> Any:
        r"""Returns the lens of caustics, in double precision."""
        import caustics  # type: ignore[import-untyped]
        import torch

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "__array_wrap__", DeprecationWarning)  # of its tables, in every process
            cosmology = caustics.FlatLambdaCDM(name="cosmology")
        # Redshifts do not matter, because the Einstein radius is an angle. As tensors: numbers would be rounded.
        x0, y0, q, phi, radius, t, one, two = torch.tensor(
            [*self.center, self.q, self.phi, self.radius, self.slope - 1, *self.shear], dtype=torch.float64
        )
        where: dict[str, Any] = {"cosmology": cosmology, "x0": x0, "y0": y0}
        shape = {"q": q, "phi": phi, "Rein": radius}
        ellipse = caustics.SIE(name="lens", **where, **shape)
        if self.kind == "epl":
            ellipse = caustics.EPL(name="lens", t=t, **where, **shape)
        shear = caustics.ExternalShear(name="shear", gamma_1=one, gamma_2=two, **where)
        both = caustics.SinglePlane(name="both", cosmology=cosmology, lenses=[ellipse, shear], z_l=0.5, z_s=1.0)
        return both.to(dtype=torch.float64)

    def rays(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Returns where the rays of all pixels come from, in arcsec, each with shape $(P, k, P, k)$ for $k$ rays."""
        import torch

        count = self.pixels * self.supersampling
        side = (torch.arange(count, dtype=torch.float64) - (count - 1) / 2) * self.field / count
        y, x = torch.meshgrid(side, side, indexing="ij")
        with torch.no_grad():
            from_x, from_y = self.model().raytrace(x, y)
        shape = (self.pixels, self.supersampling) * 2
        return from_x.numpy().reshape(shape), from_y.numpy().reshape(shape)

    def matrix(self, size: int) -> Any:
        r"""Returns the matrix from a source of `size` pixels on a side to the image, $(P^2, size^2)$, sparse."""
        from scipy import sparse

        place_x, place_y = (0.5 * ((2 * v / self.source_field + 1) * size - 1) for v in self.rays())
        inside = (np.abs(place_x - (size - 1) / 2) <= size / 2) & (np.abs(place_y - (size - 1) / 2) <= size / 2)
        pixel = np.arange(self.pixels**2).reshape(self.pixels, 1, self.pixels, 1) + np.zeros(inside.shape, np.int64)
        row, u, v = pixel[inside], place_x[inside], place_y[inside]
        left, low = (np.clip(np.floor(w).astype(np.int64), 0, size - 2) for w in (u, v))
        parts = [
            (row, (low + b) * size + left + a, along * across)
            for a, along in enumerate((1 - (u - left), u - left))
            for b, across in enumerate((1 - (v - low), v - low))
        ]
        rows, columns, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
        shape = (self.pixels**2, size**2)
        found = sparse.coo_array((weights / self.supersampling**2, (rows, columns)), shape=shape).tocsr()
        return (self._blur() @ found).tocsr() if self.psf else found

    def _blur(self) -> Any:
        r"""The point-spread function as a matrix; what leaves the image at a side is lost."""
        from scipy import sparse

        sigma = self.psf / 2.3548200450309493 / (self.field / self.pixels)  # the width at half maximum, in pixels
        reach = np.arange(-int(4 * sigma) - 1, int(4 * sigma) + 2)
        weights = np.exp(-0.5 * np.square(reach / sigma))
        weights /= weights.sum()
        near = np.abs(reach) < self.pixels  # a wide one reaches beyond all of the image
        line = sparse.diags_array(
            [np.full(self.pixels, w) for w in weights[near]],
            offsets=list(reach[near]), shape=(self.pixels, self.pixels),
        )  # fmt: skip
        return sparse.kron(line, line)
