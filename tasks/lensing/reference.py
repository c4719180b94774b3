r"""The same simulator by caustics, which ours is tested and timed against."""

__all__ = ["caustics_parameters", "caustics_simulator", "reference_images"]

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .model import LensModel


def caustics_simulator(model: LensModel, chunk_size: int | None = 1) -> Any:
    r"""Returns a `caustics.LensSource` in the precision of the model, a function of the `caustics_parameters`.

    Arguments:
        model: The forward model. An SIE is simulated as an EPL.
        chunk_size: The terms of the series of the deflection that caustics computes at a time. Its own default, all of
            them (`None`), has a much slower backward pass.
    """

    import caustics  # type: ignore[import-untyped]
    import torch

    dtype = getattr(torch, model.dtype)
    lens = caustics.EPL(
        name="lens",
        cosmology=caustics.FlatLambdaCDM(name="cosmology"),
        z_l=0.5,  # redshifts do not matter: the Einstein radius is an angle
        z_s=1.0,
        x0=0.0,
        y0=0.0,
        chunk_size=chunk_size,
    )
    light = []
    for i, source in enumerate(model.sources):
        # As tensors, because caustics would round numbers to single precision.
        n, radius, q, phi = torch.tensor([source.n, source.radius, source.q, source.phi], dtype=torch.float64)
        light.append(caustics.Sersic(name=f"source{i}", n=n, Re=radius, q=q, phi=phi))
    simulator = caustics.LensSource(
        name="simulator",
        lens=lens,
        source=caustics.LightStack(name="sources", light_models=light),
        pixelscale=model.pixelscale,
        pixels_x=model.pixels,
    ).to(dtype=dtype)
    # The grid was made in single precision, and casting it afterwards does not bring the digits back.
    side = (torch.arange(model.pixels, dtype=torch.float64) - (model.pixels - 1) / 2) * model.pixelscale
    y, x = torch.meshgrid(side.to(dtype), side.to(dtype), indexing="ij")
    simulator._grid = (x[..., None], y[..., None])
    return simulator


def caustics_parameters(model: LensModel, theta: ArrayLike) -> Any:
    r"""Returns walkers $(W, p)$ as the tensor $(W, 4 + 3n)$ of $q, \phi, b, t$, then $x, y, I$ per source."""

    import torch

    full = model.complete(theta)
    ordered = np.concatenate([full[:, [1, 2, 0]], full[:, 3:4] - 1, full[:, 4:]], axis=1)
    return torch.as_tensor(ordered, dtype=getattr(torch, model.dtype))


def reference_images(model: LensModel, theta: ArrayLike) -> NDArray:
    r"""Returns the images $(W, P, P)$ of walkers $(W, p)$, one after the other."""

    import torch

    simulator = caustics_simulator(model)
    with torch.no_grad():
        return np.stack([simulator(v).numpy() for v in caustics_parameters(model, theta)])
