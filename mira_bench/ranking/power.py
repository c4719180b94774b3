r"""How many fiducials do I need to see an error of this size? An answer before the first simulation is run.

The posterior is a standard Gaussian in $d$ dimensions and the candidate is wrong by a known amount. What that does to
MIRA is known up to an integral: given the truth $t$ and a center $c$, the ball rank is binomial with
$P(|y - c| < |t - c|)$, a noncentral $\chi^2$. What it does to the features of the calibration test, and how they
scatter, is simulated, with the same truths and noise for the wrong candidate and the exact one.
"""

__all__ = ["plan"]

import copy
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from ..errors import UsageError
from ..metrics.calibration import GROUPS, LEVEL, POINTS, POWER, Calibration
from ..ranks.centers import uniform_centers
from ..ranks.features import Feature, expand, feature_list
from ..ranks.players import Play, play
from ..ranks.scaling import Scale
from ..ranks.tables import marginal_axes, rank_table
from ..ranks.weights import COLUMNS
from ..streams import generator

EXTENT = 6.0  # posterior standard deviations: what some hundred truths span if the data say nothing
BALLS = 2**15  # truths and centers over which the effect on balls is averaged
PLAYED = 400  # fiducials whose players tell how the features scatter
SETS = 100  # sample sets on which the features of the calibration test are simulated
TRUTHS = 8  # for each of them
PLAYERS = 4  # points that play the truth, for each truth
FEW = 128  # up to so many fiducials, sums are not taken as normal
DRAWS = 30000  # draws of the test statistic at each number of fiducials
GRID = 1024  # points of the Brownian bridge that stands for a Kolmogorov-Smirnov test
MOST = 10**6  # beyond so many fiducials, the answer is that the test does not see it


@dataclass(frozen=True)
class _Error:
    r"""A candidate $\mathcal{N}(s, w^2 I)$ where the posterior is $\mathcal{N}(0, I)$, somewhere in a box."""

    factor: float
    shift: float
    dim: int
    samples: int
    extent: float
    seed: int

    def corners(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        r"""Draws where the box begins, as seen from the posterior, (count, d): there is no truth near its walls."""
        room = max(0.0, self.extent - EXTENT)
        return -(self.extent - room) / 2 - room * rng.random((count, self.dim))

    def inside(self, truths: NDArray, centers: NDArray) -> NDArray[np.float64]:
        r"""The probability of a sample inside the ball around a center through the truth."""
        radius = np.square(truths - centers).sum(axis=1) / self.factor**2
        offset = np.square(centers - self.shift).sum(axis=1) / self.factor**2
        return np.asarray(scipy.stats.ncx2.cdf(radius, self.dim, offset))

    def below(self, shifts: NDArray) -> NDArray[np.float64]:
        r"""The probability of a sample below the truth along axes, over a grid of the truth's quantiles."""
        t = scipy.stats.norm.ppf((np.arange(GRID) + 0.5) / GRID)
        return np.asarray(scipy.stats.norm.cdf((t[:, None] - shifts) / self.factor))


def _ball_effects(error: _Error) -> tuple[float, float]:
    r"""The mean change of the features MIRA and tilt."""
    rng = generator(error.seed, "plan balls")
    truths = rng.standard_normal((BALLS, error.dim))
    centers = error.corners(BALLS, rng) + error.extent * rng.random((BALLS, error.dim))
    # The same balls with the exact posterior are subtracted: they have the features of the null, up to their noise.
    p, exact = (e.inside(truths, centers) for e in (error, replace(error, factor=1.0, shift=0.0)))
    stretch = (error.samples - 1) / (error.samples + 1)  # E[J (S - J)] = S (S - 1) p (1 - p)
    mira = 0.5 + stretch * p * (1 - p) - (0.5 + stretch * exact * (1 - exact))
    return float(mira.mean()), float((p - exact).mean())


def _scatter(error: _Error, regions: int) -> Play:
    r"""Lets the points of simulated fiducials play the truth."""
    rng = generator(error.seed, "plan players")
    truths = rng.standard_normal((PLAYED, error.dim))
    noise = rng.standard_normal((PLAYED, error.samples, error.dim))
    box = Scale("task", error.corners(PLAYED, rng), np.full((PLAYED, error.dim), error.extent))
    return play(
        truths, error.shift + error.factor * noise, box, uniform_centers(error.seed, regions, error.dim),
        seed=error.seed, index=np.arange(PLAYED), replicates=1,
    )  # fmt: skip


def _mira_power(error: _Error, regions: int, level: float) -> Callable[[int], float]:
    played = _scatter(error, regions)
    null = math.sqrt(played.variance[:, 0].mean())
    effect = _ball_effects(error)[0] / null
    spread = played.observed[:, 0].std() / null
    critical = scipy.stats.norm.isf(level / 2)

    def power(count: int) -> float:
        z = math.sqrt(count) * effect
        return float(scipy.stats.norm.sf((critical - z) / spread) + scipy.stats.norm.cdf((-critical - z) / spread))

    return power


def _features(error: _Error, regions: int) -> tuple[list[Feature], dict[str, NDArray[np.float64]]]:
    r"""The features of truths, relative to their set, with the wrong candidate and with the exact one, $(n, F)$ each.

    Truths, noise, balls and data are the same for both: what the error does to the features is known with little noise.
    Data are as many as parameters, and the error does not go with them. The null of the test is that of the wrong
    candidate's own players.
    """
    rng = generator(error.seed, "plan features")
    axes = marginal_axes(error.dim, error.seed)
    columns = min(error.dim, COLUMNS)
    listed = feature_list(len(axes), columns, False)
    found: dict[str, list[NDArray[np.float64]]] = {"wrong": [], "exact": [], "null": []}
    count = min(error.samples, POINTS - 1)
    for _ in range(SETS):
        noise = rng.standard_normal((count, error.dim))
        corner = error.corners(1, rng)[0]
        centers = (corner + error.extent * rng.random((regions, error.dim))) / error.extent
        place, data = rng.standard_normal(len(axes)), rng.standard_normal(columns)
        for truth in rng.standard_normal((TRUTHS, error.dim)):
            for key, samples in (("wrong", error.shift + error.factor * noise), ("exact", noise)):
                points = np.concatenate([truth[None], samples]) / error.extent
                table = rank_table(points, centers, axes, rng=np.random.default_rng(0))
                features = expand(table.ranks, table.balls, place, data, False)
                features -= features.mean(axis=0)
                found[key].append(features[0])
                if key == "wrong":
                    found["null"] += [*features[rng.integers(len(features), size=PLAYERS)]]
    return listed, {key: np.stack(rows) for key, rows in found.items()}


def _calibration_power(error: _Error, level: float) -> Callable[[int], float]:
    metric = Calibration()
    listed, found = _features(error, metric.regions)
    sd = found["null"].std(axis=0)
    effect = (found["wrong"] - found["exact"]).mean(axis=0) / sd
    groups = {name: [i for i, f in enumerate(listed) if f.group == name] for name in GROUPS}
    weights = np.array([GROUPS[name] for name in groups])
    rng = generator(error.seed, "plan statistic")
    noises = {key: (found[key] - found[key].mean(axis=0)) / sd for key in ("null", "wrong")}
    normal = {
        key: rng.multivariate_normal(np.zeros(len(sd)), np.cov(one, rowvar=False), DRAWS, method="eigh")
        for key, one in noises.items()
    }

    rows = {key: one.astype(np.float32) for key, one in noises.items()}
    # The draws for many fiducials begin with those for fewer: the power grows smoothly, and a sum is not begun again.
    nothing = np.zeros((DRAWS, len(sd)), np.float32)
    sums = {key: {0: (nothing, generator(error.seed, "plan sums", key))} for key in rows}

    def draw(key: str, count: int) -> NDArray[np.float64]:
        r"""Sums over fiducials, divided by the root of their number: normal if they are many."""
        if count > FEW:
            return normal[key]
        before = max(known for known in sums[key] if known <= count)
        total, stream = copy.deepcopy(sums[key][before])
        for _ in range(count - before):
            total += rows[key][stream.integers(len(rows[key]), size=DRAWS)]
        sums[key][count] = total, stream
        return np.asarray(total / math.sqrt(count), np.float64)

    def largest(z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([np.abs(z[:, rows]).max(axis=1) for rows in groups.values()], axis=1)

    # The test has so many null draws and rejects if fewer than this many are as extreme: p = (1 + k) / (1 + B) < level.
    most = math.ceil(level * (1 + metric.replicates) - 1 - 1e-9) - 1

    @functools.cache
    def power(count: int) -> float:
        null = largest(draw("null", count))
        ordered = np.sort(null, axis=0)

        def smallest(values: NDArray[np.float64]) -> NDArray[np.float64]:
            found = [1 - np.searchsorted(ordered[:, g], values[:, g]) / DRAWS for g in range(values.shape[1])]
            return np.asarray((np.maximum(np.stack(found, axis=1), 0.5 / DRAWS) / weights).min(axis=1))

        chance = np.sort(smallest(null))
        statistic = smallest(largest(math.sqrt(count) * effect + draw("wrong", count)))
        tail = np.searchsorted(chance, statistic * (1 + 1e-9), side="right") / DRAWS
        return float(scipy.stats.binom.cdf(most, metric.replicates, tail).mean())

    return power


def _sbc_power(error: _Error, level: float) -> Callable[[int], float]:
    r"""Kolmogorov-Smirnov per dimension, corrected for their number: a Brownian bridge around the shifted law."""
    # (J + U) / (S + 1) is below v with the probability P(J <= k - 1) + (v (S + 1) - k) P(J = k), k = floor(v (S + 1)).
    p = error.below(np.array([error.shift]))[:, 0]
    mass = scipy.stats.binom.pmf(np.arange(error.samples + 1)[:, None], error.samples, p).mean(axis=1)
    v = np.linspace(0, 1, GRID + 1)
    law = np.interp(v * (error.samples + 1), np.arange(error.samples + 2), np.concatenate([[0.0], mass.cumsum()]))
    steps = generator(error.seed, "plan bridge").standard_normal((DRAWS, GRID)) * np.sqrt(np.diff(law).clip(0))
    path = np.concatenate([np.zeros((DRAWS, 1)), steps.cumsum(axis=1)], axis=1)
    bridge = path - law * path[:, -1:]

    def power(count: int) -> float:
        critical = math.sqrt(count) * scipy.stats.kstwo.isf(level / error.dim, count)
        one = np.mean(np.abs(bridge + math.sqrt(count) * (law - v)).max(axis=1) > critical)
        return float(1 - (1 - one) ** error.dim)

    return power


def _smallest(power: Callable[[int], float], wanted: float) -> int | None:
    high = 2
    while power(high) < wanted:
        if high >= MOST:
            return None
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle) >= wanted else (middle, high)
    return high


def _check(
    width: float, shift: float, power: float, dim: int, samples: int, regions: int, level: float, extent: float
) -> None:
    for key, value in (("dim", dim), ("regions", regions), ("samples - 1", samples - 1)):
        if value < 1:
            raise UsageError(f"{key}={value}: at least one is needed")
    if not (width >= 0 and math.isfinite(width) and math.isfinite(shift)):
        raise UsageError(f"width={width}, shift={shift}: finite numbers are needed, and a width error of at least 0")
    if width == 0 and shift == 0:
        raise UsageError("a width error or a shift is needed: there is nothing to see in a perfect candidate")
    if not 0 < level < power < 1:
        raise UsageError(f"level={level} and power={power}: 0 < level < power < 1 is needed")
    if not 0 < extent < math.inf:
        raise UsageError(f"extent={extent}: a positive number of posterior standard deviations is needed")
    fewest = 2 / (1 + Calibration().replicates)
    if level < fewest:
        raise UsageError(f"level={level}: the calibration test has no p-values below {fewest:.3f}")


def plan(
    *,
    width: float = 0.1,
    shift: float = 0.0,
    power: float = POWER,
    dim: int = 2,
    samples: int = 200,
    regions: int = 100,
    level: float = LEVEL,
    extent: float = EXTENT,
    seed: int = 0,
) -> pd.DataFrame:
    r"""Returns the number of fiducials at which each test sees an error of a given size.

    The posterior is a standard Gaussian at a random place of the parameters' range, the candidate is
    $\mathcal{N}(s, w^2 I)$ around it, with $w = 1 / (1 + width)$ (too narrow) and $w = 1 + width$ (too wide). Sums over
    fiducials are taken as normal, which is rough below some 20 fiducials; SBC's row is asymptotic and approximate.

    Arguments:
        width: The relative error of the width, in every direction.
        shift: The shift of every coordinate, in posterior standard deviations.
        power: The probability with which the error is to be seen.
        dim: The number of dimensions $d$.
        samples: The number of samples per fiducial $S$.
        regions: The number of regions of MIRA; the calibration test keeps its own.
        level: The level of the tests.
        extent: The range from which centers are drawn, in posterior standard deviations: the task's, or that of the
            truths (the calibration test then takes that of the samples, and sees no less). Balls around centers far
            away cut a narrow posterior like planes, and see less of a wrong width: say 20 or more if the data constrain
            well. Less than 6 is for few truths (45 normal ones span 4.4).
        seed: The seed of the simulation.

    Returns:
        One row per test, with the columns `test`, `fiducials` (enough for both directions of the width error),
        `narrow` and `wide` (for one of them), and the `power` at `fiducials` in the harder direction. A number is
        missing if a million fiducials are not enough.

    Example:
        >>> table = plan(width=0.5, dim=2, samples=50)
        >>> table.test.tolist()
        ['mira', 'calibration', 'sbc']
    """

    _check(width, shift, power, dim, samples, regions, level, extent)
    factors = (1 / (1 + width), 1 + width) if width else (1.0,)
    errors = [_Error(factor, shift, dim, samples, extent, seed) for factor in factors]
    tests: dict[str, Callable[[_Error], Callable[[int], float]]] = {
        "mira": lambda e: _mira_power(e, regions, level),
        "calibration": lambda e: _calibration_power(e, level),
        "sbc": lambda e: _sbc_power(e, level),
    }
    rows = []
    for name, find in tests.items():
        powers = [find(error) for error in errors]
        counts = [_smallest(p, power) for p in powers]
        known = [c for c in counts if c is not None]
        enough = max(known) if len(known) == len(counts) else None
        reached = math.nan if enough is None else min(p(enough) for p in powers)
        rows.append({"test": name, "fiducials": enough, "narrow": counts[0], "wide": counts[-1], "power": reached})
    return pd.DataFrame(rows).astype(dict.fromkeys(("fiducials", "narrow", "wide"), "Int64"))
