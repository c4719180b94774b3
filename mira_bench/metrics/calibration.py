r"""One calibration p-value per candidate: many features of ranks in four groups, against their exact null.

If a candidate is right, the truth and its samples are exchangeable given the observation: any of them could have been
the truth. The features of every point are known from the tables of `ranks.tables`; drawing a player per fiducial, many
times, gives the joint null of all of them. Features are put into groups, so that the many that see correlations or the
data do not drown the few that see widths:

- balls: the MIRA score and the tilt, in random balls;
- marginals: location and dispersion of the rank along each axis;
- shape: the peak along each axis; products of ranks along two whitened axes; rank, tails and spread of the distance
  from the middle;
- data: locations and dispersions that go with the data (or with where the posterior lies, which is the trend), and the
  rank of the likelihood, if the task has one.

A group's statistic is its largest $|z|$; the observed one and the replicates are ranked in one pool, and the smallest
p-value over groups, divided by the group's weight, is ranked in the same pool.
"""

__all__ = ["GROUPS", "Calibration", "CalibrationResult", "Feature", "calibration"]

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ..arrays import as_host, flat
from ..compiling import compiled
from ..diagnostics import autocorrelated
from ..errors import UsageError
from ..metric import Block, Context, Metric, Record, Scores, whole_block
from ..ranks.centers import uniform_centers
from ..ranks.features import Feature, expand, feature_list
from ..ranks.kernel import EUCLIDEAN, frame, one_blas_thread
from ..ranks.scaling import Scale, Scaling
from ..ranks.spoiled import CORRELATIONS, SHIFTS, WIDTHS, Effects, effects_of
from ..ranks.tables import Table, marginal_axes, rank_table
from ..ranks.weights import columns_of, normal_scores, sketch
from ..streams import generator
from .records import joined

LEVEL = 0.01
POWER = 0.9
SHIFT_EFFECT = 0.1  # a shift explains the verdict if the mean of the ranks moves by so many standard deviations
GROUPS = {"balls": 1 / 6, "marginals": 1 / 2, "shape": 1 / 6, "data": 1 / 6}  # those that are absent give theirs back
SHARED_POINTS = 10_000  # samples of a set that many truths share
POINTS = 256  # of a set are ranked, evenly spaced, truths among them: more see no more
TAIL = 10  # of the largest rows of a group have p-values by the tail of the normal law

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Detectable:
    r"""The smallest errors that nine of ten such tests would have seen at the 1 % level; NaN if not even large ones.

    Arguments:
        width: The relative error of all widths together.
        one_width: The relative error of the width of a single parameter.
        shift: The shift of a single parameter, in posterior standard deviations.
        correlation: The error of the correlation of one pair of parameters; NaN if there is one parameter.
    """

    width: float
    one_width: float
    shift: float
    correlation: float


@dataclass(frozen=True)
class CalibrationResult:
    r"""The calibration test of one candidate.

    Arguments:
        features: What was looked at.
        z: The deviation of every feature in null standard deviations, $(F,)$.
        largest: The largest $|z|$ of each group, in the first row of the truths, then of the replicates, $(B + 1, G)$.
        biases: The features that are signed shifts (locations, trends, locations against data), the largest first:
            with the effect (mean over standard deviation) and its p-value, corrected for all of them. A candidate of
            the wrong width has ranks of another variance than the null's, so that locations deviate by chance; each
            feature is measured by its own spread here, which does not take that for a shift.
        fiducials: The number of fiducials.
        samples: The number of samples of each.
        projected: Whether the axes are random projections, because there are too many dimensions.
        effects: What errors of known sizes do to the features, in standard deviations per fiducial.
        columns: What the columns of the data stand for.
        fixed: The axes along which all samples of every set are equal: parameters that the candidate does not infer.
        notes: What a reader must know.
        locations: Where each truth ranks among the points of its set along each axis, from -1/2 to 1/2, $(L, A)$.
        places: The mean of these points along each axis, $(L, A)$: the posterior mean, with the truth among the points.
    """

    features: Sequence[Feature]
    z: Floats
    largest: Floats
    biases: Sequence[tuple[Feature, float, float]]
    fiducials: int
    samples: int
    projected: bool = False
    effects: Effects | None = None
    columns: Sequence[str] = ()
    fixed: Sequence[int] = ()
    notes: Sequence[str] = ()
    locations: Floats | None = None
    places: Floats | None = None

    def __repr__(self) -> str:
        return f"CalibrationResult(pvalue={self.pvalue:.3g}, fiducials={self.fiducials})"

    @cached_property
    def groups(self) -> dict[str, float]:
        r"""The groups that have features, with their weights, which sum to one."""
        present = {f.group for f in self.features}
        total = sum(weight for name, weight in GROUPS.items() if name in present)
        return {name: weight / total for name, weight in GROUPS.items() if name in present}

    @cached_property
    def group_pvalues(self) -> dict[str, float]:
        r"""The p-value of each group by itself."""
        beyond = self.largest >= self.largest[0] * (1 - 1e-9)
        return dict(zip(self.groups, beyond.mean(axis=0).tolist(), strict=True))

    @cached_property
    def pvalue(self) -> float:
        r"""The p-value of all groups together. Its smallest value is one over the number of rows in the pool.

        Every row has a p-value in every group, that of its rank in the pool. Beyond the ten largest ranks say little,
        and the tail of the normal law is put on: a matter of power, for the smallest one over groups is ranked in the
        same pool, where all rows are treated alike.
        """
        if not self.groups:
            return 1.0
        statistic = np.full(len(self.largest), np.inf)
        for g, weight in enumerate(self.groups.values()):
            statistic = np.minimum(statistic, _log_pvalues(self.largest[:, g]) - math.log(weight))
        return float(np.mean(statistic <= statistic[0] + 1e-9))

    @cached_property
    def critical(self) -> dict[str, float]:
        r"""The $|z|$ beyond which each group would speak by itself."""
        values = {}
        for g, (name, weight) in enumerate(self.groups.items()):
            values[name] = float(np.quantile(self.largest[1:, g], 1 - LEVEL * weight))
        return values

    @cached_property
    def order(self) -> list[int]:
        r"""The features, those that speak loudest first: by $|z|$ in units of what their group needs to speak."""
        loud = [abs(z) / max(self.critical[f.group], 1e-9) for f, z in zip(self.features, self.z, strict=True)]
        return sorted(range(len(loud)), key=lambda i: -loud[i])

    @property
    def spoke(self) -> tuple[Feature, float]:
        r"""The feature that deviates most, and its z."""
        return self.features[self.order[0]], float(self.z[self.order[0]])

    def speaks(self, feature: Feature) -> bool:
        r"""Whether a feature deviates by more than its group needs."""
        return bool(abs(self.z[self.features.index(feature)]) > self.critical[feature.group])

    def worst(self, *kinds: str) -> tuple[Feature, float] | None:
        r"""Returns the feature of some kinds that deviates most, and its z; none if there is no such feature."""
        rows = [i for i, f in enumerate(self.features) if f.kind in kinds]
        if not rows:
            return None
        row = max(rows, key=lambda i: abs(self.z[i]))
        return self.features[row], float(self.z[row])

    def where(self, axis: int, names: Sequence[str] | None = None) -> str:
        r"""Names an axis: the parameter, or the number of the random projection."""
        if self.projected:
            return f"projection {axis}"
        return f"dimension {axis}" if names is None else names[axis]

    @property
    def guilty(self) -> int | None:
        r"""The axis that is most to blame: that of the largest bias if there is one, else of the loudest feature."""
        biases = [f for f, effect, p in self.biases[:1] if p < LEVEL and abs(effect) >= SHIFT_EFFECT]
        loudest = [*biases, *(self.features[i] for i in self.order)]
        return next((f.axes[0] for f in loudest if f.axes), None)

    def label(self, feature: Feature, names: Sequence[str] | None = None) -> str:
        r"""Says what a feature is, with the names of parameters and data."""
        of = " and ".join(self.where(axis, names) for axis in feature.axes)
        # Not the σ of MIRA, which has more balls and all samples.
        kind = {"mira": "score in balls", "tilt": "tilt in balls"}.get(feature.kind, feature.kind)
        text = f"{kind} of {of}" if of else kind
        return text if feature.column < 0 else f"{text} against {self.columns[feature.column]}"

    @cached_property
    def detectable(self) -> Detectable:
        r"""The smallest errors that would have been seen; see `Detectable`."""
        if self.effects is None:
            return Detectable(math.nan, math.nan, math.nan, math.nan)
        root = math.sqrt(self.fiducials)
        need = {name: value + scipy.stats.norm.ppf(POWER) for name, value in self.critical.items()}

        def smallest(sizes: Floats, strength: Floats, group: str) -> float:
            # Sizes are errors on either side; both must be seen.
            found = []
            for side in (sizes < 0, sizes > 0):
                size = np.abs(sizes[side])
                order = np.argsort(size)
                power = np.maximum.accumulate(np.concatenate([[0.0], root * strength[side][order]]))
                if power[-1] < need[group]:
                    return math.nan
                found.append(float(np.interp(need[group], power, np.concatenate([[0.0], size[order]]))))
            return max(found)

        e = self.effects
        together = {"balls": e.balls, "marginals": e.dispersion.max(axis=1, initial=0.0), "shape": e.tails}
        widths = [smallest(np.log(WIDTHS), together[g], g) for g in together if g in self.groups]
        one = smallest(np.log(WIDTHS), e.dispersion.min(axis=1), "marginals") if e.dispersion.size else math.nan
        pair = smallest(CORRELATIONS, e.pair, "shape") if "shape" in self.groups else math.nan
        return Detectable(
            math.expm1(np.nanmin(widths)) if not np.isnan(widths).all() else math.nan,
            math.expm1(one),
            smallest(SHIFTS, e.location.min(axis=1), "marginals") if e.location.size else math.nan,
            pair,
        )


def _log_pvalues(largest: Floats) -> Floats:
    r"""The logarithm of the share of rows that are as large as each, with a normal tail beyond the ten largest."""
    rows = len(largest)
    ordered = np.sort(largest)
    known = np.log(1 - np.searchsorted(ordered, largest * (1 - 1e-9)) / rows)
    if rows <= TAIL:
        return np.asarray(known)
    edge = ordered[-TAIL]
    tail = math.log(TAIL / rows) + scipy.special.log_ndtr(-largest) - scipy.special.log_ndtr(-edge)
    return np.asarray(np.where(largest > edge, tail, known))


def _own_deviations(features: Sequence[Feature], values: Floats) -> list[tuple[Feature, float, float]]:
    r"""Features that are signed shifts, with the effect (mean over standard deviation) and a corrected p-value."""
    count = len(values)
    if count < 3 or not features:
        return []
    spread = values.std(axis=0, ddof=1)
    effect = np.divide(values.mean(axis=0), spread, out=np.zeros(len(spread)), where=spread > 0)
    tail = scipy.special.stdtr(count - 1, -np.abs(effect) * math.sqrt(count))
    found = [
        (f, float(e), min(1.0, 2 * float(t) * len(features))) for f, e, t in zip(features, effect, tail, strict=True)
    ]
    return sorted(found, key=lambda one: -abs(one[1]))


@compiled()
def _add_players(table: NDArray, players: NDArray, sums: NDArray) -> None:
    rows, count = players.shape
    for b in range(rows):
        for n in range(count):
            for f in range(table.shape[1]):
                sums[b, f] += table[players[b, n], f]


def _draw_players(rng: np.random.Generator, points: int, truths: int, replicates: int) -> NDArray[np.int64]:
    r"""The truths (the first points) in the first row, then random points in their place, without replacement."""
    out = np.empty((replicates + 1, truths), np.int64)
    out[0] = np.arange(truths)
    if truths == 1:
        out[1:] = rng.integers(0, points, size=(replicates, 1))
    else:
        for row in out[1:]:
            row[:] = rng.permutation(points)[:truths]
    return out


def calibration(
    truths: ArrayLike,
    samples: ArrayLike,
    *,
    x: ArrayLike | None = None,
    regions: int = 32,
    seed: int = 0,
    normalize: str = "auto",
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
) -> CalibrationResult:
    r"""Tests whether truths and samples are exchangeable: the test that decides the tiers.

    Arguments:
        truths: The truths, with shape $(L, *event)$.
        samples: The samples of the candidate, with shape $(L, S, *event)$, or $(1, S, *event)$ if all truths share one
            set.
        x: The observations, with shape $(L, *data)$: with them it sees errors that go with the data.
        regions: The number of random balls per fiducial.
        seed: The seed of centers and of the null.
        normalize: The scale of the distances in the balls, see `mira_bench.ranks.scaling`.
        bounds: The range `(low, high)` of the parameters, e.g. the prior box: the scale if it is given.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truths, samples = rng.normal(size=(200, 2)), rng.normal(size=(200, 100, 2))
        >>> calibration(truths, samples).pvalue > 0.01, calibration(truths, 0.5 * samples).pvalue > 0.01
        (True, False)
    """

    block = whole_block(truths, samples, seed=seed, bounds=bounds, x=x)
    metric = Calibration(regions=regions, normalize=normalize)
    result: CalibrationResult = metric.reduce([metric.observe(block)], block.scaling).result
    return result


@dataclass(frozen=True)
class Calibration(Metric):
    r"""The calibration test as a metric of the runner.

    Arguments:
        regions: The number of random balls per fiducial. The test sorts all points for each of them, and gains little
            from more.
        normalize: The scale of the distances in the balls; `auto` is the task's range, else `joint`. With `others` a
            truth would be part of its neighbors' scale, and the test not exact.
        replicates: The number of null draws.
        data: Whether the features that go with the data are tested, if there are any data.
        effects: The number of fiducials, the first ones, on which it is estimated what would have been seen; 0 leaves
            that out.
    """

    regions: int = 32
    normalize: str = "auto"
    replicates: int = 1999
    data: bool = True
    effects: int = 32

    name = "calibration"
    version = 4

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        return context.behind(self._normalize(context.scaling))

    def _normalize(self, scaling: Scaling) -> str:
        if self.normalize == "auto" and scaling.task is None:
            return "joint"
        return scaling.resolve(self.normalize)

    def observe(self, block: Block) -> Record:
        count = block.samples.shape[1]
        chosen, effective = _chosen(block)
        dim = block.truths.shape[1]
        axes = marginal_axes(dim, block.seed)
        centers = uniform_centers(block.seed, self.regions, dim)
        normalize = self._normalize(block.scaling)
        ruler = None if normalize == "joint" else block.scale(normalize)
        tables: list[Table] = []
        places: list[Floats] = []
        sets = _sets(block)
        # A set that several truths share has several data, and its points no likelihood of their own.
        likelihood = None
        if block.log_likelihood is not None and self.data and block.conditional and all(len(r) == 1 for r in sets):
            likelihood = block.log_likelihood(chosen)
            if likelihood.shape != (len(block.truths), 1 + len(chosen)):
                raise UsageError(
                    f"log_likelihood of the task gives the shape {likelihood.shape}; for parameters (L, K, *event) and "
                    f"observations (L, 1, *data) it must give (L, K), here {(len(block.truths), 1 + len(chosen))}"
                )
        effects: list[Effects] = []
        with one_blas_thread():
            for rows in sets:
                first = int(block.index[rows[0]])
                part = _independent(block, int(rows[0]), len(chosen))
                samples = as_host(block.samples[rows[0]])[chosen[part]]
                scale, row = ruler, int(rows[0])
                if scale is None or len(rows) > 1:
                    # The scale must not know which of the points are truths: it is that of all that are ranked.
                    pool = np.concatenate([block.truths[rows], samples])
                    low, width = pool.min(axis=0), np.ptp(pool, axis=0)
                    scale, row = Scale("joint", low[None], np.where(width > 0, width, 1.0)[None]), 0
                truth = block.truths[rows[0]]
                inside = np.concatenate([block.truths[rows[1:]], samples])
                places.append(axes @ ((truth + inside.sum(axis=0)) / (1 + len(inside))))
                points, around = frame(truth, inside, scale, row, centers, block.index[rows[:1]], EUCLIDEAN)
                likely = None if likelihood is None else likelihood[rows[0], np.concatenate([[0], 1 + part])]
                rng = generator(block.seed, "players", first)
                tables.append(rank_table(points, around, axes, likelihood=likely, rng=rng))
                if first < self.effects and len(samples) > 3:
                    rng = generator(block.seed, "effects", first)
                    effects.append(effects_of(points[len(rows) :], around, axes, rng))
        record: Record = {
            "ranks": np.concatenate([_small(t.ranks) for t in tables]),
            "balls": np.concatenate([t.balls for t in tables]),
            "place": np.stack(places),
            "points": np.array([len(t.ranks) for t in tables]),
            "truths": np.array([len(rows) for rows in sets]),
            "projected": np.array(len(axes) < dim),
            "likelihood": np.array(likelihood is not None),
            "seed": np.array(block.seed),
            "thinned": np.array([count, effective]),
        }
        if self.data and block.x is not None and _same_data(block, sets):
            record |= sketch(block.x[[int(rows[0]) for rows in sets]])
        return record | Effects.keep(effects)

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        result = self._test(records)
        spoke, z = result.spoke if result.features else (None, 0.0)
        note = f"largest |z| of {len(result.features)} features in {len(result.groups)} groups"
        if spoke is not None:
            note += f": {result.label(spoke)}, z = {z:+.1f}"
        note = "; ".join([note, *result.notes])
        return Scores(score=abs(z), pvalue=result.pvalue, note=note, result=result)

    def _test(self, records: list[Record]) -> CalibrationResult:
        ranks, balls, place = (joined(records, key) for key in ("ranks", "balls", "place"))
        points, truths = (joined(records, key) for key in ("points", "truths"))
        likelihood = all(bool(r["likelihood"]) for r in records)
        weights, columns = columns_of(records)
        axes = place.shape[1]
        features = feature_list(axes, len(columns), likelihood)
        standing = normal_scores(place)
        rng = generator(int(records[0]["seed"]), "replicates")
        sums = np.zeros((self.replicates + 1, len(features)))
        variance = np.zeros(len(features))
        locations = np.empty((int(truths.sum()), axes))
        moving = np.zeros(axes, bool)
        start = at = 0
        for i, (size, own) in enumerate(zip(points, truths, strict=True)):
            rows = slice(start, start + size)
            table = expand(ranks[rows], balls[rows], standing[i], weights[i], likelihood)
            table -= table.mean(axis=0)
            variance += table.var(axis=0) * own * (size - own) / max(size - 1, 1)
            _add_players(table, _draw_players(rng, int(size), int(own), self.replicates), sums)
            locations[at : at + own] = (ranks[start : start + own, :axes] / 2 + 0.5) / size - 0.5
            drawn = ranks[start + own : start + size, :axes].astype(np.int64)
            moving |= (np.ptp(drawn, axis=0) > 0) | (len(drawn) < 2)
            start, at = start + size, at + own
        # A feature that cannot vary (a fixed parameter, a single sample, one region of one tie) says nothing.
        known = np.flatnonzero(variance > 1e-12 * len(points))
        z = sums[:, known] / np.sqrt(variance[known])
        kept = [features[i] for i in known]
        present = [group for group in GROUPS if any(f.group == group for f in kept)]
        largest = np.empty((len(z), len(present)))
        for g, group in enumerate(present):
            largest[:, g] = np.abs(z[:, [i for i, f in enumerate(kept) if f.group == group]]).max(axis=1)
        trend, data = (np.repeat(part, truths, axis=0) for part in (standing, weights))
        signed = [f for f in features if f.kind in ("location", "trend")]
        values = np.concatenate(
            [locations, locations * trend, (locations[:, :, None] * data[:, None]).reshape(len(locations), -1)], axis=1
        )
        index = {f: np.sqrt(variance[i] / truths.sum()) for i, f in enumerate(features)}
        return CalibrationResult(
            kept, z[0], largest, _own_deviations(signed, values), int(truths.sum()), int(records[0]["thinned"][0]),
            bool(records[0]["projected"]),
            Effects.of(records, index) if not (truths > 1).any() else None,
            columns, np.flatnonzero(~moving).tolist(), _notes(records), locations, np.repeat(place, truths, axis=0),
        )  # fmt: skip


def _small(ranks: NDArray[np.uint32]) -> NDArray:
    return ranks.astype(np.uint16) if 2 * len(ranks) < 2**16 else ranks


def _chosen(block: Block) -> tuple[NDArray[np.intp], int]:
    r"""The samples that are ranked: evenly spaced, as many as are worth it; and how many are effective."""
    count = block.samples.shape[1]
    few = np.unique(np.linspace(0, len(block.truths) - 1, 8).astype(int))
    effective = None if len(block.truths) == 0 else autocorrelated(block.samples[few])
    # Evenly spaced draws of a chain are all but independent if they are half as many as the effective ones.
    most = count if effective is None else max(2, int(effective / 2))
    keep = min(count, most, POINTS - 1 if block.groups is None else SHARED_POINTS)
    return np.arange(keep) * count // keep, keep if effective is not None else count


def _independent(block: Block, row: int, count: int) -> NDArray[np.intp]:
    r"""Which of the chosen samples of a fiducial are all but independent, by what its sampler says of itself."""
    told = None if block.diagnostics is None else block.diagnostics.get("ess_bulk")
    effective = math.inf if told is None or not np.isfinite(told[row]) else float(told[row])
    keep = int(max(2, min(count, effective / 2)))
    return np.arange(min(keep, count)) * count // min(keep, count)


def _sets(block: Block) -> list[NDArray[np.intp]]:
    r"""The fiducials of each sample set."""
    if block.groups is None:
        return [np.array([l]) for l in range(len(block.truths))]
    if len(block.truths) != len(block.scaling.truths):
        raise UsageError("fiducials of several blocks share a sample set, and the test needs all of them at once")
    _, first, inverse = np.unique(block.groups, return_index=True, return_inverse=True)
    return [np.flatnonzero(inverse == g) for g in np.argsort(first)]


def _same_data(block: Block, sets: list[NDArray[np.intp]]) -> bool:
    r"""Whether fiducials that share samples share the data: else the samples are not given these data."""
    if not block.conditional:
        return False
    x = flat(as_host(block.x), 1) if block.x is not None and any(len(rows) > 1 for rows in sets) else None
    return x is None or all((x[rows] == x[rows[0]]).all() for rows in sets)


def _notes(records: list[Record]) -> list[str]:
    notes = []
    told = [r["thinned"] for r in records]
    count, effective = int(told[0][0]), int(min(t[1] for t in told))
    if effective < count:
        notes.append(f"chains are autocorrelated: {effective} of {count} samples were ranked")
    if not all("x" in r for r in records):
        notes.append("without data, errors that go with the data are not seen")
    return notes
