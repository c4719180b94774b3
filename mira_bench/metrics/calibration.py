r"""One calibration p-value per candidate: the largest deviation of many features, against its exact null."""

__all__ = ["Calibration", "CalibrationResult"]

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from ..arrays import as_host
from ..errors import UsageError
from ..metric import Block, Context, Metric, Record, Scores
from ..ranks.centers import uniform_centers
from ..ranks.players import WIDTHS, feature_names, marginal_axes, play, width_effects
from ..ranks.scaling import Scaling
from ..streams import generator

EFFECT_FIDUCIALS = 32  # the detectable width is estimated on the first ones
LEVEL = 0.01
POWER = 0.9


@dataclass(frozen=True)
class CalibrationResult:
    r"""The calibration test of one candidate.

    Features per fiducial: the MIRA score, the tilt $E[J/S] - 1/2$ and, per marginal, the location $u - 1/2$ of the
    rank, its trend (the location times where the posterior lies) and its dispersion $(u - 1/2)^2$. The statistic is
    the largest $|z|$; its null lets every point of a fiducial play the truth.

    Arguments:
        observed: The features of the fiducials, centered on their null expectation, $(L, F)$.
        variance: The null variance of the features' sums, $(F,)$.
        null: Null draws of the features' sums, $(B, F)$.
        effects: The mean change of the features for candidates stretched by `WIDTHS`, $(W, F)$.
        projected: Whether the marginals are random projections, because there are too many dimensions.
    """

    observed: NDArray[np.float64]
    variance: NDArray[np.float64]
    null: NDArray[np.float64]
    effects: NDArray[np.float64]
    projected: bool = False

    def __repr__(self) -> str:
        return f"CalibrationResult(pvalue={self.pvalue:.3g}, fiducials={len(self.observed)})"

    @property
    def names(self) -> list[tuple[str, int]]:
        r"""Kind and marginal of every feature."""
        return feature_names((self.observed.shape[1] - 2) // 3)

    def _standard(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        # A feature that cannot vary (a single sample, one region of one tie) says nothing.
        sd = np.sqrt(self.variance)
        known = np.divide(sums, sd, out=np.zeros_like(sums), where=sd > 1e-9 * len(self.observed))
        return np.asarray(known)

    @cached_property
    def z(self) -> NDArray[np.float64]:
        r"""The deviation of every feature in null standard deviations, $(F,)$."""
        return self._standard(self.observed.sum(axis=0))

    @cached_property
    def _null_largest(self) -> NDArray[np.float64]:
        return np.abs(self._standard(self.null)).max(axis=1)

    @cached_property
    def pvalue(self) -> float:
        r"""The p-value of the largest deviation. Its smallest value is one over the number of null draws."""
        largest = np.abs(self.z).max()
        extreme = np.count_nonzero(self._null_largest >= largest * (1 - 1e-9))
        return (1 + int(extreme)) / (1 + len(self.null))

    @property
    def spoke(self) -> tuple[str, int, float]:
        r"""The feature that deviates most: its kind, its marginal and its z."""
        worst = int(np.abs(self.z).argmax())
        return (*self.names[worst], float(self.z[worst]))

    def where(self, marginal: int, names: list[str] | None = None) -> str:
        r"""Names a marginal: the parameter, or the number of the random projection."""
        if self.projected:
            return f"projection {marginal}"
        return f"dimension {marginal}" if names is None else names[marginal]

    def worst(self, *kinds: str) -> tuple[float, int]:
        r"""Returns the largest deviation (with its sign) among kinds of features, and its marginal."""
        rows = [i for i, (kind, _) in enumerate(self.names) if kind in kinds]
        row = max(rows, key=lambda i: abs(self.z[i]))
        return float(self.z[row]), self.names[row][1]

    def shift(self) -> tuple[float, float, int]:
        r"""Tests for a signed shift: the locations and their trends, each with its own spread.

        A candidate of the wrong width has ranks of another variance than the null's, so that locations deviate by
        chance; this test does not take that for a shift.

        Returns:
            The p-value corrected for all of them, the effect (mean over standard deviation), and its marginal.
        """
        rows = [i for i, (kind, _) in enumerate(self.names) if kind in ("location", "trend")]
        count = len(self.observed)
        if not rows or count < 3:
            return 1.0, 0.0, -1
        values = self.observed[:, rows]
        spread = values.std(axis=0, ddof=1)
        spread[spread == 0] = np.inf
        t = values.mean(axis=0) / spread * math.sqrt(count)
        worst = int(np.abs(t).argmax())
        p = min(1.0, float(2 * scipy.stats.t.sf(abs(t[worst]), count - 1)) * len(rows))
        return p, float(values[:, worst].mean() / spread[worst]), self.names[rows[worst]][1]

    @cached_property
    def detectable_width(self) -> float:
        r"""The smallest relative error of the width that 9 of 10 such tests would have seen at the 1 % level.

        NaN if not even the largest error tried (half or twice the width) would have been seen.
        """
        critical = np.quantile(self._null_largest, 1 - LEVEL) + scipy.stats.norm.ppf(POWER)
        count = len(self.observed)
        per_fiducial = np.sqrt(self.variance / count)
        shift = np.divide(self.effects, per_fiducial, out=np.zeros_like(self.effects), where=per_fiducial > 1e-12)
        seen = np.abs(shift).max(axis=1) * math.sqrt(count)
        found = []
        for side in (WIDTHS < 1, WIDTHS > 1):
            error = np.abs(np.log(WIDTHS[side]))
            order = np.argsort(error)
            power = np.maximum.accumulate(np.concatenate([[0.0], seen[side][order]]))
            if power[-1] < critical:
                return math.nan
            found.append(np.interp(critical, power, np.concatenate([[0.0], error[order]])))
        return float(math.exp(max(found)) - 1)


@dataclass(frozen=True)
class Calibration(Metric):
    r"""The calibration test as a metric of the runner.

    Arguments:
        regions: The number of regions per fiducial. The test sorts all points for each of them, and gains little
            from more.
        normalize: The scale of the distances.
        replicates: The number of null draws.
    """

    regions: int = 32
    normalize: str = "auto"
    replicates: int = 999

    name = "calibration"

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        # Without a range of the task, trends are relative to all truths.
        return context.everything if context.bounds is None else context.behind(self.normalize)

    def observe(self, block: Block) -> Record:
        if block.groups is not None:
            raise UsageError("fiducials share a sample set, and the test takes them for independent")
        y, values, index = block.truths, block.samples, block.index
        dim = y.shape[1]
        axes = marginal_axes(dim, block.seed)
        ruler = block.scale(self.normalize)
        centers = uniform_centers(block.seed, self.regions, dim)
        result = play(
            y, values, ruler, centers, axes=axes, trend=_trend(block, axes),
            seed=block.seed, index=index, replicates=self.replicates,
        )  # fmt: skip
        effects = np.zeros((len(WIDTHS), result.observed.shape[1]))
        chosen = np.flatnonzero(index < EFFECT_FIDUCIALS)
        if values.shape[1] > 2:
            for l in chosen:
                low, width = (rows[0] for rows in ruler.rows(slice(l, l + 1)))
                rng = generator(block.seed, "width effects", int(index[l]))
                scaled = (as_host(values[l]) - low) / width
                effects += width_effects(scaled, centers.draw(index[l : l + 1])[0], axes, rng)
        return {
            "observed": result.observed,
            "variance": result.variance.sum(axis=0),
            "null": result.null,
            "effects": effects,
            "effects_count": np.array(len(chosen)),
            "projected": np.array(len(axes) < dim),
        }

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        total = {key: np.sum([r[key] for r in records], axis=0) for key in ("variance", "null", "effects")}
        count = sum(int(r["effects_count"]) for r in records)
        result = CalibrationResult(
            np.concatenate([r["observed"] for r in records]),
            total["variance"],
            total["null"],
            total["effects"] / max(count, 1),
            bool(records[0]["projected"]),
        )
        kind, marginal, z = result.spoke
        where = f" of {result.where(marginal)}" if marginal >= 0 else ""
        return Scores(
            score=abs(z),
            pvalue=result.pvalue,
            note=f"largest |z| of {len(result.z)} features: {kind}{where}, z = {z:+.1f}",
            result=result,
        )


def _trend(block: Block, axes: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Where the points of each fiducial lie along the axes, from about -1 to 1 over the prior: (L, q).

    The mean is over samples and truth alike, so that it does not know which of the points is the truth.
    """
    name = "task" if block.scaling.task is not None else "truths"
    ruler = block.scaling.scale(name, block.samples, block.index)
    count = block.samples.shape[1]
    sums = np.stack([as_host(s).sum(axis=0) for s in block.samples])
    mean = (sums + block.truths) / (count + 1)
    return np.asarray((2 * (mean - ruler.low) / ruler.width - 1) @ axes.T)
