r"""How the networks of sbi are sampled: many observations at once, in the coordinates of the network.

All functions run inside of `reproducible`. Observations are standardized, $(L, *data)$; samples are $(L, S, d)$.
"""

__all__ = ["direct", "field_samples", "log_densities", "slice_samples"]

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..diagnostics import FEWEST_DRAWS
from ..errors import UsageError
from .diagnostics import rhat

if TYPE_CHECKING:
    from torch import Tensor

ROWS = 50_000  # samples, or pairs of parameters and data, that a network sees at once


def _parts(count: int, each: int) -> Iterator[slice]:
    size = max(1, ROWS // each)
    for start in range(0, count, size):
        yield slice(start, start + size)


def direct(network: Any, x: NDArray[np.float32], count: int) -> NDArray:
    r"""Samples a normalized density: NPE."""
    import torch

    with torch.no_grad():
        drawn = [
            network.sample((count,), condition=torch.from_numpy(x[part])).transpose(0, 1)
            for part in _parts(len(x), count)
        ]
    return torch.cat(drawn).numpy()


def log_densities(network: Any, u: NDArray, x: NDArray[np.float32]) -> NDArray[np.float64]:
    r"""Returns the log-density of points $(L, K, d)$ given observations, with shape $(L, K)$."""
    import torch

    points = torch.from_numpy(u.astype(np.float32))
    with torch.no_grad():
        logs = [
            network.log_prob(points[part].transpose(0, 1), condition=torch.from_numpy(x[part])).T
            for part in _parts(len(x), u.shape[1])
        ]
    return torch.cat(logs).double().numpy()


def field_samples(network: Any, x: NDArray[np.float32], count: int, solver: str, steps: int = 100) -> NDArray:
    r"""Samples a vector field: FMPE and NPSE, along its ordinary or its stochastic differential equation."""
    import torch
    from sbi.inference import VectorFieldPosterior
    from torch.distributions import Independent, Normal

    if solver not in ("ode", "sde"):
        raise UsageError(f"sampling: solver={solver!r} is neither ode nor sde")
    # sbi asks for a prior to check its support; here that is everywhere.
    dim = int(np.prod(network.input_shape))
    everywhere = Independent(Normal(torch.zeros(dim), torch.ones(dim)), 1)
    posterior = VectorFieldPosterior(network, everywhere, sample_with=solver, enable_transform=False)
    more = {"steps": steps} if solver == "sde" else {}
    drawn = [
        posterior.sample_batched(
            torch.Size((count,)), x=torch.from_numpy(x[part]), show_progress_bars=False,
            reject_outside_prior=False, **more,
        ).detach().transpose(0, 1)
        for part in _parts(len(x), count)
    ]  # fmt: skip
    return torch.cat(drawn).numpy()


def slice_samples(
    method: str,
    network: Any,
    x: NDArray[np.float32],
    count: int,
    prior: Callable[[NDArray], NDArray],
    starts: NDArray,
    rng: np.random.Generator,
    *,
    chains: int = 5,
    warmup: int = 20,
    thin: int = 3,
) -> tuple[NDArray, dict[str, NDArray[np.float64]]]:
    r"""Samples a learned likelihood or ratio times the prior, with sbi's slice sampler: all chains of all observations.

    Arguments:
        method: What the network has learned: a likelihood (`"nle"`) or a ratio (`"nre"`).
        network: The trained network of sbi.
        x: The observations, with shape $(L, *data)$.
        count: The number of samples per observation.
        prior: The log-density of the prior at points $(n, d)$, with shape $(n,)$.
        starts: Draws of the prior, with shape $(n, d)$, among which chains find their first places.
        rng: The generator of first places.
        chains: The number of chains per observation.
        warmup: The number of sweeps that find the width of the slices and are left out.
        thin: The number of sweeps between two samples.

    Returns:
        The samples, and the largest R-hat of each observation.
    """

    import torch
    from sbi.samplers.mcmc.slice_numpy import SliceSamplerVectorized

    def learned(u: NDArray, seen: "Tensor") -> NDArray[np.float64]:
        theta = torch.from_numpy(np.asarray(u, np.float32))
        with torch.no_grad():
            if method == "nle":
                logs = network.log_prob(seen[None], condition=theta)[0]
            else:
                logs = network.net(torch.cat([network.embedding_net_theta(theta), seen], dim=-1)).squeeze(-1)
        return logs.double().numpy()

    observed = torch.from_numpy(x)
    if method == "nre":  # images are looked at once, not in every step
        with torch.no_grad():
            observed = network.embedding_net_x(observed)
    each = max(math.ceil(count / chains), FEWEST_DRAWS)
    values = np.empty((len(x), chains, each, starts.shape[1]))
    for part in _parts(len(x), len(starts)):
        seen = observed[part]
        # The draws of the prior, resampled by what was learned: Gumbel noise picks one with the right odds.
        pairs = learned(np.tile(starts, (len(seen), 1)), seen.repeat_interleave(len(starts), dim=0))
        odds = pairs.reshape(len(seen), 1, len(starts)) + rng.gumbel(size=(len(seen), chains, len(starts)))
        first = starts[odds.argmax(axis=-1)].reshape(len(seen) * chains, -1)
        repeated = seen.repeat_interleave(chains, dim=0)

        def potential(u: NDArray, repeated: "Tensor" = repeated) -> NDArray[np.float64]:
            return learned(u, repeated) + prior(u)

        sampler = SliceSamplerVectorized(
            potential, first, num_chains=len(first), thin=thin, tuning=warmup, init_width=0.5, verbose=False
        )
        values[part] = sampler.run(each * thin).reshape(len(seen), chains, each, -1)
    found = np.array([rhat(one).max() for one in values])
    order = rng.permuted(np.tile(np.arange(chains * each), (len(x), 1)), axis=1)[:, :count, None]
    return np.take_along_axis(values.reshape(len(x), chains * each, -1), order, axis=1), {"rhat": found}
