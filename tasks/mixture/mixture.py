r"""A Gaussian mixture, and copies of it that are moved along the diagonal."""

__all__ = ["Mixture", "ShiftedMixture"]

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from mira_bench.errors import UsageError
from mira_bench.fiducials import Fiducials
from mira_bench.streams import generator

LAWS = ("normal", "uniform")


@dataclass(frozen=True)
class Mixture:
    r"""$y \sim \frac{1}{K} \sum_k \mathcal{N}(\mu_k, \text{diag}(v_k))$, with nothing to condition on.

    The mixture itself is random: with `means="normal"`, $\mu_{ki} \sim \mathcal{N}(0, s^2)$ and $v_{ki} = 1$; with
    `means="uniform"`, $\mu_{ki} \sim \mathcal{U}(0, s)$ and $v_{ki} \sim \mathcal{U}(0, 1) + 10^{-3}$.

    All fiducials share one sample set. The observation is the datum itself, $x = y$: candidates may look at it for
    their evidence, which is their density there, and for nothing else.

    Arguments:
        dim: The number of dimensions $d$ of the parameters.
        components: The number of components $K$.
        means: The law of the means, `"normal"` or `"uniform"`.
        spread: The standard deviation of the means, or the length of their interval, $s$.
        seed: The seed of the mixture.
    """

    dim: int = 100
    components: int = 20
    means: str = "normal"
    spread: float = 4.5
    seed: int = 0

    version = 2
    block = 250

    def __post_init__(self) -> None:
        if self.means not in LAWS:
            raise UsageError(f"means={self.means!r} is not one of {', '.join(LAWS)}")

    @property
    def names(self) -> list[str]:
        return [f"y{i}" for i in range(self.dim)]

    @cached_property
    def moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""The means and the standard deviations of the components, each with shape $(K, d)$."""
        rng = generator(self.seed, "mixture")
        shape = (self.components, self.dim)
        if self.means == "normal":
            return self.spread * rng.standard_normal(shape), np.ones(shape)
        return rng.uniform(0, self.spread, shape), np.sqrt(rng.uniform(0, 1, shape) + 1e-3)

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        r"""Returns draws of the mixture, with shape $(N, d)$."""
        means, widths = self.moments
        chosen = rng.integers(self.components, size=count)
        return np.asarray(means[chosen] + widths[chosen] * rng.standard_normal((count, self.dim)))

    def log_density(self, y: NDArray) -> NDArray[np.float64]:
        r"""Returns the log-density of points $(N, d)$, with shape $(N,)$."""
        # One component after the other, so that nothing is larger than the points.
        parts = [stats.norm.logpdf(y, *moments).sum(axis=-1) for moments in zip(*self.moments, strict=True)]
        return np.asarray(special.logsumexp(parts, axis=0) - math.log(self.components))

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        y = self.draw(count, rng)
        return Fiducials(y, y, group=np.zeros(count, np.int64))

    def exact_posterior(self) -> "SharedSet":
        return SharedSet(self)


@dataclass(frozen=True)
class SharedSet:
    r"""One set of draws from the shifted mixture, which is the answer to every observation.

    Arguments:
        mixture: The mixture that is drawn from, before the shift.
        shift: What is added to every coordinate.
        seed: The seed of the set, the same one for all blocks of fiducials. Without it every call draws its own: the
            exact posterior is both a control and the reference of two-sample tests, which must not be the same points.
    """

    mixture: Mixture
    shift: float = 0.0
    seed: int | None = None

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        rng = rng if self.seed is None else generator(self.seed, "shared set")
        drawn = self.mixture.draw(count, rng) + self.shift
        return np.broadcast_to(drawn, (len(x), *drawn.shape))  # a view: L fiducials cost as much memory as one

    def log_evidence(self, x: NDArray) -> NDArray:
        return self.mixture.log_density(x - self.shift)


@dataclass(frozen=True)
class ShiftedMixture:
    r"""The mixture with all its means moved along the diagonal.

    Arguments:
        shift: What is added to every coordinate.
    """

    shift: float = 0.0

    version = 1

    def build(self, task: Any, rng: np.random.Generator) -> SharedSet:
        return SharedSet(task, self.shift, int(rng.integers(2**63)))
