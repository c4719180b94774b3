r"""The same images by caustics, which the fast loops are tested against."""

__all__ = ["caustics_parameters", "caustics_simulator", "reference_images"]

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .model import LensModel


def caustics_simulator(model: LensModel, chunk_size: int | None = 1) -> Any:
    r"""Returns a `caustics.LensSource` whose parameters are $q, \phi, b, t$, then $x, y, I$ per source.

    Arguments:
        model: The forward model. An SIE is an EPL whose slope is given as $t = 1$.
        chunk_size: The terms of the series that caustics computes at a time. Its own default, all of them (`None`), has
            a backward pass that is 14 times slower than one at a time.
    """

    import caustics  # type: ignore[import-untyped]
    import torch

    cosmology = caustics.FlatLambdaCDM(name="cosmology")
    # Redshifts do not matter: the Einstein radius is an angle.
    lens = caustics.EPL(cosmology=cosmology, name="lens", z_l=0.5, z_s=1.0, x0=0.0, y0=0.0, chunk_size=chunk_size)
    light = []
    for i, source in enumerate(model.sources):
        # As tensors, because caustics would round numbers to single precision.
        n, radius, q, phi = torch.tensor([source.n, source.radius, source.q, source.phi], dtype=torch.float64)
        light.append(caustics.Sersic(name=f"source{i}", n=n, Re=radius, q=q, phi=phi))
    return caustics.LensSource(
        lens=lens,
        source=caustics.LightStack(name="sources", light_models=light),
        pixelscale=model.pixelscale,
        pixels_x=model.pixels,
        name="simulator",
    )


def caustics_parameters(model: LensModel, theta: ArrayLike) -> NDArray[np.float64]:
    r"""Returns walkers $(W, p)$ in the order of caustics."""

    full = model.complete(theta)
    return np.concatenate([full[:, [1, 2, 0]], full[:, 3:4] - 1, full[:, 4:]], axis=1)


def reference_images(model: LensModel, theta: ArrayLike) -> NDArray:
    r"""Returns the images $(W, P, P)$ of walkers $(W, p)$ in the precision of the model, one after the other."""

    import torch

    dtype = getattr(torch, model.dtype)
    simulator = caustics_simulator(model).to(dtype=dtype)
    # The grid of the simulator starts in single precision, whatever it is cast to.
    side = (torch.arange(model.pixels, dtype=dtype) - (model.pixels - 1) / 2) * model.pixelscale
    y, x = torch.meshgrid(side, side, indexing="ij")
    simulator._grid = (x[..., None], y[..., None])
    with torch.no_grad():
        values = torch.as_tensor(caustics_parameters(model, theta), dtype=dtype)
        return np.stack([simulator(v).numpy() for v in values])
