r"""Laws that differ in their tails only, and an observation that says nothing about them."""

__all__ = ["Factorized", "Suppressed", "Unconditional"]

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from mira_bench.errors import UsageError
from mira_bench.fiducials import Fiducials

LAWS = ("normal", "laplace")
BY = ("radius", "coordinate")
SCALE = math.sqrt(0.5)  # of a Laplace law of unit variance


def _check_law(law: str) -> None:
    if law not in LAWS:
        raise UsageError(f"law={law!r} is not one of {', '.join(LAWS)}")


@dataclass(frozen=True)
class Unconditional:
    r"""$y_i \sim p$, independent, of mean 0 and variance 1; the observation $x \sim \mathcal{N}(0, 1)$ knows nothing.

    Arguments:
        dim: The number of dimensions $d$ of the parameters.
        law: The law $p$ of a coordinate, `"normal"` or `"laplace"`.
    """

    dim: int = 2
    law: str = "normal"

    version = 1
    block = 100

    def __post_init__(self) -> None:
        _check_law(self.law)

    @property
    def names(self) -> list[str]:
        return [f"y{i}" for i in range(self.dim)]

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        return Fiducials(self.prior_sample(count, rng), rng.standard_normal((count, 1)))

    def prior_sample(self, count: int, rng: np.random.Generator) -> NDArray:
        shape = (count, self.dim)
        return rng.standard_normal(shape) if self.law == "normal" else rng.laplace(scale=SCALE, size=shape)

    def exact_posterior(self) -> "FactorizedPosterior":
        return FactorizedPosterior(self)


@dataclass(frozen=True)
class FactorizedPosterior:
    r"""The law of a model, whatever the observation."""

    model: Unconditional

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        return self.model.prior_sample(len(x) * count, rng).reshape(len(x), count, self.model.dim)

    def log_prob(self, y: NDArray, x: NDArray) -> NDArray:
        law = stats.norm if self.model.law == "normal" else stats.laplace(scale=SCALE)
        return np.asarray(law.logpdf(y).sum(axis=-1))


@dataclass(frozen=True)
class Factorized:
    r"""Independent coordinates of unit variance.

    Arguments:
        law: The law of a coordinate, `"normal"` or `"laplace"`.
    """

    law: str = "normal"

    version = 1

    def __post_init__(self) -> None:
        _check_law(self.law)

    def build(self, task: Any, rng: np.random.Generator) -> FactorizedPosterior:
        return FactorizedPosterior(Unconditional(task.dim, self.law))


@dataclass(frozen=True)
class SuppressedPosterior:
    r"""The standard normal law with less mass beyond a radius, of all coordinates together or of each alone.

    With $D$ the number of coordinates that are cut together, its density is
    $q(y) = \alpha^{[|y| > c]} \, \mathcal{N}(y | 0, I) / (1 - (1 - \alpha) P(\chi^2_D > c^2))$.
    """

    dim: int
    cutoff: float
    factor: float
    by: str

    @property
    def _together(self) -> int:
        return self.dim if self.by == "radius" else 1

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        size = self._together
        y = np.empty((len(x) * count * self.dim // size, size))
        again = np.arange(len(y))
        while len(again):  # rejection: of the draws beyond the cutoff, a share `factor` may stay
            y[again] = rng.standard_normal((len(again), size))
            beyond = np.square(y[again]).sum(axis=1) > self.cutoff**2
            again = again[beyond & (rng.random(len(again)) >= self.factor)]
        return y.reshape(len(x), count, self.dim)

    def log_prob(self, y: NDArray, x: NDArray) -> NDArray:
        size = self._together
        square = np.square(y.reshape(*y.shape[:2], -1, size)).sum(axis=-1)
        constant = math.log1p(-(1 - self.factor) * stats.chi2.sf(self.cutoff**2, size))
        constant += size / 2 * math.log(2 * math.pi)
        return np.asarray((math.log(self.factor) * (square > self.cutoff**2) - square / 2 - constant).sum(axis=-1))


@dataclass(frozen=True)
class Suppressed:
    r"""The standard normal law with its density multiplied by $\alpha$ beyond a cutoff, and normalized again.

    Arguments:
        cutoff: The radius or coordinate beyond which the density is multiplied.
        factor: The factor $\alpha$ on the density beyond the cutoff.
        by: What is compared with the cutoff: the `"radius"` $|y|$, or every `"coordinate"` $|y_i|$ on its own, with a
            factor $\alpha$ for each that is beyond.
    """

    cutoff: float
    factor: float
    by: str = "radius"

    version = 1

    def __post_init__(self) -> None:
        if not 0 < self.factor <= 1:
            raise UsageError(f"factor={self.factor}: a suppression is above 0 and at most 1")
        if self.by not in BY:
            raise UsageError(f"by={self.by!r} is not one of {', '.join(BY)}")

    def skip(self, task: Any) -> str | None:
        return None if task.law == "normal" else "the tails of a normal law are suppressed, and the task has another"

    def build(self, task: Any, rng: np.random.Generator) -> SuppressedPosterior:
        return SuppressedPosterior(task.dim, self.cutoff, self.factor, self.by)
