r"""A Gaussian posterior, and candidates with one defect each."""

__all__ = ["Defect", "Sound"]

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.fiducials import Fiducials

Floats = NDArray[np.float64]


def _paired(dim: int, correlations: dict[int, float]) -> Floats:
    r"""A correlation matrix in which only pairs of neighbors $(2i, 2i + 1)$ are correlated."""
    matrix = np.eye(dim)
    for pair, correlation in correlations.items():
        matrix[[2 * pair, 2 * pair + 1], [2 * pair + 1, 2 * pair]] = correlation
    return matrix


@dataclass(frozen=True)
class Sound:
    r"""$x \sim \mathcal{N}(0, I)$ and $y \sim \mathcal{N}(g x, \sigma^2 C)$, with correlation $\rho$ of the first two.

    Every parameter has a datum of its own, and the posterior is what the model says.

    Arguments:
        dim: The number of parameters and of data $d$, two at least.
        correlation: The correlation $\rho$ of the first two parameters in the posterior.
        gain: The slope $g$ of the posterior mean.
        width: The posterior standard deviation $\sigma$.
    """

    dim: int = 2
    correlation: float = 0.5
    gain: float = 0.8
    width: float = 0.45

    version = 1
    block = 100

    def __post_init__(self) -> None:
        if self.dim < 2:
            raise UsageError(f"dim={self.dim}: a correlation needs two parameters")

    @property
    def names(self) -> list[str]:
        return [f"y{i}" for i in range(self.dim)]

    def simulate(self, count: int, rng: np.random.Generator) -> Fiducials:
        x = rng.standard_normal((count, self.dim))
        return Fiducials(self.exact_posterior().sample(x, 1, rng)[:, 0], x)

    def prior_sample(self, count: int, rng: np.random.Generator) -> NDArray:
        return np.asarray(self.simulate(count, rng).y)

    def exact_posterior(self) -> "DefectPosterior":
        return DefectPosterior(self, Defect())


@dataclass(frozen=True)
class DefectPosterior:
    r"""The exact posterior with a defect."""

    task: Sound
    defect: "Defect"

    def sample(self, x: NDArray, count: int, rng: np.random.Generator) -> NDArray:
        task, defect = self.task, self.defect
        spoiled = np.arange(task.dim) < (task.dim if defect.parameters is None else defect.parameters)
        correlations = {0: task.correlation}
        if defect.correlation is not None:
            correlations[defect.pair] = defect.correlation
        noise = rng.standard_normal((len(x), count, task.dim)) @ np.linalg.cholesky(_paired(task.dim, correlations)).T
        if math.isfinite(defect.degrees):
            # The covariance stays: a Student t has degrees / (degrees - 2) times that of its scale.
            noise *= np.sqrt((defect.degrees - 2) / rng.chisquare(defect.degrees, (len(x), count, 1)))
        noise *= np.where(spoiled, defect.width, 1.0)
        noise *= np.where(x[:, :1] > 0, 1 + defect.width_by_datum, 1 - defect.width_by_datum)[:, None]
        shift = np.where(spoiled, defect.shift, 0.0) * np.ones_like(x)
        shift[:, 0] += defect.shift_by_datum * np.sign(x[:, 1])
        y = task.gain * x[:, None] + task.width * (noise + shift[:, None])
        if defect.trust != 1:
            distrust = (1 - defect.trust) * task.gain * spoiled
            y += distrust * (rng.standard_normal(y.shape) - x[:, None])
        return y


@dataclass(frozen=True)
class Defect:
    r"""The exact posterior of `Sound`, wrong in some way.

    Arguments:
        width: The factor on the standard deviations.
        shift: The shift, in posterior standard deviations.
        trust: The share of the data that is believed. The mean follows the data by so much less, and the width makes up
            for it: the errors have the size that the candidate claims. At 0 the data are ignored.
        parameters: How many parameters, the first ones, have a wrong `width`, `shift` or `trust`; by default all.
        correlation: The correlation of a pair of parameters; by default the task's.
        pair: Which pair: $i$ stands for the parameters $2i$ and $2i + 1$.
        degrees: The degrees of freedom of a multivariate Student t, which has the covariance of the posterior.
        width_by_datum: Widths are too large by so much where the first datum is positive, and too small elsewhere.
        shift_by_datum: The shift of the first parameter, in standard deviations, with the sign of the second datum.
    """

    width: float = 1.0
    shift: float = 0.0
    trust: float = 1.0
    parameters: int | None = None
    correlation: float | None = None
    pair: int = 0
    degrees: float = math.inf
    width_by_datum: float = 0.0
    shift_by_datum: float = 0.0

    version = 1

    def __post_init__(self) -> None:
        if not self.degrees > 2:
            raise UsageError(f"degrees={self.degrees}: a Student t with two degrees of freedom or less has no variance")

    def skip(self, task: Any) -> str | None:
        return None if 2 * self.pair + 1 < task.dim else f"pair {self.pair} needs {2 * self.pair + 2} parameters"

    def build(self, task: Any, rng: np.random.Generator) -> DefectPosterior:
        return DefectPosterior(task, self)
