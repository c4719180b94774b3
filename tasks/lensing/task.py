r"""Parametric strong lensing as a task: which physical model made this image?"""

__all__ = ["LensCandidate", "Lensing", "Likelihood"]

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mira_bench.candidate import Draws
from mira_bench.errors import UsageError
from mira_bench.fiducials import Fiducials
from mira_bench.inference import diagnose, mala, smc
from mira_bench.views import Columns, SortedGroups, View

from .model import SLOPE, LensModel, Sersic

LENS = 4  # parameters of an EPL; those of the sources follow
EACH = 3  # parameters of a source
SAMPLERS: dict[str, Callable[..., Any]] = {"smc": smc, "mala": mala}


@dataclass(frozen=True)
class Lensing:
    r"""Images of several Sérsic sources behind an elliptical power-law lens, parameters uniform in a box.

    Arguments:
        sources: The constants of the true model's sources.
        pixels: The number of pixels on a side.
        pixelscale: The side of a pixel, in arcsec.
        noise: The standard deviation of a pixel.
    """

    sources: Sequence[Sersic | Mapping[str, float]] = field(default_factory=lambda: (Sersic(), Sersic(), Sersic()))
    pixels: int = 100
    pixelscale: float = 0.05
    noise: float = 1.0

    version = 1
    block = 1  # a posterior takes seconds: each is a unit of work, of progress and of the store

    def __post_init__(self) -> None:
        if not len(self.sources):
            raise UsageError("sources is empty; a lens needs at least one source")
        made = tuple(s if isinstance(s, Sersic) else Sersic(**s) for s in self.sources)
        object.__setattr__(self, "sources", made)

    @cached_property
    def model(self) -> LensModel:
        r"""The true model."""
        return self.candidate("epl", len(self.sources))

    def candidate(self, kind: Literal["epl", "sie"], sources: int) -> LensModel:
        r"""Returns the model with another lens, or with the first of the sources only."""
        if not 1 <= sources <= len(self.sources):
            raise UsageError(f"sources={sources}: the task has {len(self.sources)} of them")
        return LensModel(kind, tuple(self.sources)[:sources], self.pixels, self.pixelscale, self.noise)  # type: ignore[arg-type]

    def log_likelihood(self, y: NDArray, x: NDArray) -> NDArray[np.float64]:
        r"""Returns $\log p(x | y)$ up to a constant, for parameters $(L, K, p)$ and images $(L, 1, P, P)$.

        Points outside of the prior's box, where there may be no lens, have minus infinity.
        """
        low, high = map(np.asarray, self.bounds)
        inside = np.asarray(((y >= low) & (y <= high)).all(axis=-1))
        out = np.full(inside.shape, -np.inf)
        for l, image in enumerate(x[:, 0]):
            out[l, inside[l]] = self.model.log_likelihood(y[l, inside[l]], image)
        return out

    @property
    def names(self) -> list[str]:
        return list(self.model.names)

    @property
    def bounds(self) -> tuple[list[float], list[float]]:
        return self.model.bounds

    @property
    def groups(self) -> list[list[int]]:
        r"""The parameters of each source."""
        return [list(range(LENS + EACH * i, LENS + EACH * (i + 1))) for i in range(len(self.sources))]

    @property
    def exchangeable(self) -> bool:
        r"""Whether the sources have no names: all have the same constants."""
        return len(set(self.sources)) == 1

    @property
    def views(self) -> dict[str, View]:
        r"""`shared`: the parameters that every candidate has. `sorted`: sources in the order of their position."""
        views: dict[str, View] = {"shared": Columns((0, 1, 2))}
        if self.exchangeable and len(self.sources) > 1:
            views["sorted"] = SortedGroups(tuple(map(tuple, self.groups)))
        return views

    def prior_sample(self, count: int, rng: np.random.Generator) -> NDArray:
        return rng.uniform(*self.bounds, size=(count, len(self.names)))

    def prior_log_prob(self, y: NDArray) -> NDArray:
        low, high = np.asarray(self.bounds)
        inside = ((y >= low) & (y <= high)).all(axis=-1)
        return np.where(inside, -np.log(high - low).sum(), -np.inf)

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        y = self.prior_sample(count, rng)
        images = self.model.images(y)
        return Fiducials(y, (images + self.noise * rng.standard_normal(images.shape)).astype(np.float32))

    def illustrate(self, fiducials: Fiducials, samples: Mapping[str, NDArray]) -> dict[str, Any]:
        from .pictures import image_grid, posterior_corner

        chosen = {name: drawn for name, drawn in samples.items() if name != "prior"}
        if not chosen:
            return {}
        return {f.__name__: f(self, fiducials, chosen) for f in (image_grid, posterior_corner)}


@dataclass(frozen=True)
class Likelihood:
    r"""The likelihood of one image under a model: what the samplers need to know.

    Arguments:
        model: The model of lens and sources.
        data: The image that is observed.
        exchangeable: Whether its sources can change places.
    """

    model: LensModel
    data: NDArray
    exchangeable: bool

    @property
    def low(self) -> list[float]:
        return self.model.bounds[0]

    @property
    def high(self) -> list[float]:
        return self.model.bounds[1]

    @property
    def periodic(self) -> NDArray[np.bool_]:
        return self.model.periodic

    @cached_property
    def _of_sources(self) -> NDArray[np.intp]:
        count = len(self.model.sources)
        return np.arange(len(self.model.names))[-EACH * count :].reshape(count, EACH)

    @property
    def groups(self) -> NDArray[np.intp] | None:
        return self._of_sources if self.exchangeable and len(self._of_sources) > 1 else None

    @property
    def linear(self) -> NDArray[np.intp]:
        return self._of_sources[:, -1]

    def log_likelihood(self, theta: NDArray[np.float64]) -> NDArray:
        return self.model.log_likelihood(theta, self.data)

    def log_likelihood_gradient(self, theta: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
        return self.model.log_likelihood_gradient(theta, self.data)

    def fisher(self, theta: NDArray[np.float64]) -> NDArray:
        return self.model.log_likelihood_fisher(theta, self.data)[2]

    def linear_terms(self, theta: NDArray[np.float64]) -> tuple[NDArray, NDArray]:
        square, slope = self.model.intensity_gram(theta, self.data)
        return square / self.model.noise**2, slope / self.model.noise**2


def _padded(model: LensModel, theta: NDArray, dim: int) -> NDArray:
    r"""The parameters of a model among those of the task: gamma = 2 for an SIE, zeros for sources that it lacks."""
    full = theta if model.kind == "epl" else np.insert(theta, SLOPE, 2.0, axis=-1)
    missing = dim - full.shape[-1]
    return np.concatenate([full, np.zeros((*full.shape[:-1], missing))], axis=-1)


def _thinned(chains: NDArray, count: int, rng: np.random.Generator) -> NDArray:
    r"""Takes samples from chains $(C, n, d)$: without replacement, all of them equally likely."""
    flat = chains.reshape(-1, chains.shape[-1])
    if count > len(flat):
        raise UsageError(f"samples={count}: the chains have {len(flat)} draws; ask for fewer, or for longer chains")
    return flat[rng.choice(len(flat), count, replace=False)]


@dataclass(frozen=True)
class LensCandidate:
    r"""The posterior of a lens model, sampled.

    Arguments:
        kind: The model of the lens, `"epl"` or `"sie"`.
        sources: The number of sources of the model.
        sampler: `"smc"`, tempered SMC and chains, which gives the evidence too; or `"mala"`, as in the paper: from the
            prior, which does not converge, and says so.
        smc: Arguments of `mira_bench.inference.smc`, if that is the sampler.
        mala: Arguments of `mira_bench.inference.mala`, if that is the sampler.
    """

    kind: Literal["epl", "sie"] = "epl"
    sources: int = 3
    sampler: Literal["smc", "mala"] = "smc"
    smc: Mapping[str, Any] = field(default_factory=dict)
    mala: Mapping[str, Any] = field(default_factory=dict)

    version = 2

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise UsageError(f"sampler={self.sampler!r} is not one of {', '.join(SAMPLERS)}")

    def build(self, task: Lensing, rng: np.random.Generator) -> "LensPosterior":
        model = task.candidate(self.kind, self.sources)
        return LensPosterior(model, task.exchangeable, len(task.names), self.sampler, dict(getattr(self, self.sampler)))


@dataclass(frozen=True)
class LensPosterior:
    r"""What `LensCandidate` builds."""

    model: LensModel
    exchangeable: bool
    dim: int
    sampler: str
    settings: dict[str, Any]

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> Draws:
        values = np.empty((len(x), count, self.dim))
        found = []
        for i, data in enumerate(x):
            target = Likelihood(self.model, np.asarray(data), self.exchangeable)
            result: Any = SAMPLERS[self.sampler](target, rng, **self.settings)
            values[i] = _padded(self.model, _thinned(result.samples, count, rng), self.dim)
            told = diagnose(result.samples, target)
            found.append(
                {
                    "rhat": told.rhat.max(),
                    "ess_bulk": told.ess_bulk.min(),
                    "ess_tail": told.ess_tail.min(),
                    "draws": result.samples[..., 0].size,
                    "acceptance": result.acceptance,
                    "gradients": result.evaluations.gradient,
                    "log_evidence": getattr(result, "log_evidence", np.nan),
                }
            )
        table = {key: np.array([row[key] for row in found], np.float64) for key in found[0]}
        evidence = table.pop("log_evidence")
        return Draws(values, None if np.isnan(evidence).any() else evidence, table)
