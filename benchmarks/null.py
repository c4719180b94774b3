r"""How often do tests reject a perfect candidate? `python benchmarks/null.py [repeats] [folder] [cells]`

The truth of every fiducial is one of S + 1 draws of the same law, and the others are the candidate's samples: whatever
the law, the calibration test must reject at its level. Laws are skewed, heavy, discrete, fixed, correlated; data are
numbers, labels, images or missing; fiducials few, samples fewer. MIRA's own p-value is looked at on the scale `others`,
where it is approximate, and on `joint`, for parameters that are correlated: the scale is then off in all of them.

Repeats are done in parts of 100, whose counts are kept in the folder (`results/null_sizes`) as they come: an
interrupted command goes on where it was. `table.md` has the shares. About 15 minutes of one core for 2,000 repeats.
With a third word, as in `python benchmarks/null.py 6000 results/null_sizes discrete`, only cells that have it in their
name are repeated.
"""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd

import mira_bench as mb
from mira_bench import Block
from mira_bench.ranks.scaling import Scaling

PART = 100
LEVELS = {"1 %": 0.01, "5 %": 0.05}


def normal(rng, x, shape):
    return x + rng.normal(size=shape)


def lognormal(rng, x, shape):
    return np.exp(x + rng.normal(size=shape))


def heavy(rng, x, shape):
    return x + rng.standard_t(2, size=shape)


def discrete(rng, x, shape):
    return rng.poisson(np.exp(0.5 * x), size=shape).astype(float)


def fixed(rng, x, shape):
    return normal(rng, x, shape) * np.where(np.arange(shape[-1]) == 1, 0, 1) + 3.0


def correlated(rng, x, shape):
    return x + rng.normal(size=(*shape[:-1], 1)) + 0.1 * rng.normal(size=shape)


# A law, L, S, d, and the data.
CASES = {
    "lognormal": (lognormal, 12, 20, 2, "x"),
    "heavy": (heavy, 12, 20, 2, "x"),
    "discrete": (discrete, 12, 20, 2, "x"),
    "fixed": (fixed, 12, 20, 2, "x"),
    "correlated": (correlated, 12, 20, 3, "x"),
    "one parameter": (normal, 12, 20, 1, "x"),
    "more dimensions than samples": (correlated, 12, 6, 12, "none"),
    "projections": (lognormal, 8, 10, 20, "none"),
    "two samples": (normal, 20, 2, 2, "x"),
    "six fiducials": (normal, 6, 20, 2, "x"),
    "no data": (heavy, 12, 20, 2, "none"),
    "labels": (normal, 16, 20, 1, "labels"),
    "discrete labels": (discrete, 16, 10, 2, "labels"),
    "image": (normal, 12, 20, 1, "image"),
    "shared sets": (normal, 16, 20, 2, "shared"),
    "likelihood": (normal, 12, 20, 2, "likelihood"),
}
SIZES = [*((20, dim, count) for dim in (2, 12) for count in (12, 30, 100)), (6, 12, 12)]  # S, d, L


def draw(rng, law, fiducials, samples, dim, data):
    r"""Returns truths, samples, the data in some form, and labels of sample sets if truths share them."""
    x = rng.normal(size=(fiducials, dim))
    if data == "labels":
        x = rng.integers(4, size=(fiducials, 1))
    if data == "shared":
        sets = np.repeat([0, 1, 2, 3], [8, 1, 5, 2])
        x = x[:4]
        points = law(rng, x[:, None], (4, samples + 8, dim))
        place = np.concatenate([np.arange(count) for count in np.bincount(sets)])
        return points[sets, samples + place], points[sets, :samples], x[sets], sets
    points = law(rng, x[:, None], (fiducials, samples + 1, dim))
    if data == "image":
        x = x[:, :1, None] * np.ones((17, 1)) + rng.normal(size=(fiducials, 17, 17))
    return points[:, 0], points[:, 1:], None if data == "none" else x, None


def calibrate(rng, case, seed, **settings):
    r"""Tests a perfect candidate."""
    data = case[-1]
    truths, samples, x, groups = draw(rng, *case)
    likelihood = None
    if data == "likelihood":

        def likelihood(chosen):
            points = np.concatenate([truths[:, None], samples[:, chosen]], axis=1)
            return -np.square(points - x[:, None]).sum(axis=-1)

    # What would have been seen is not asked here, and would take most of the time.
    metric, scaling = mb.Calibration(**settings, effects=0), Scaling(truths)
    block = Block(truths, samples, np.arange(len(truths)), scaling, seed, groups=groups, x=x, log_likelihood=likelihood)
    return metric.reduce([metric.observe(block)], scaling).result


def cells() -> Iterator[tuple[str, Callable[[np.random.Generator, int], dict[str, float]]]]:
    r"""Yields the names of all cells, and what gives the p-values of one repeat."""

    def tested(case):
        def pvalues(rng, seed):
            result = calibrate(rng, case, seed, regions=8, replicates=399)
            return {"all": result.pvalue, **result.group_pvalues}

        return pvalues

    def scored(scale, samples, dim, count):
        def pvalues(rng, seed):
            points = correlated(rng, rng.normal(size=(count, 1, dim)), (count, samples + 1, dim))
            return {"all": mb.mira(points[:, 0], points[:, 1:], regions=8, normalize=scale, seed=seed).pvalue}

        return pvalues

    for name, case in CASES.items():
        yield f"calibration: {name}, L = {case[1]}, S = {case[2]}, d = {case[3]}", tested(case)
    for scale in ("joint", "others"):
        for samples, dim, count in SIZES:
            name = f"MIRA on {scale}: correlated, L = {count}, S = {samples}, d = {dim}"
            yield name, scored(scale, samples, dim, count)


def table(parts: pd.DataFrame) -> str:
    r"""Returns shares of rejections in percent, with all groups together and for each, as Markdown."""
    sums = parts.drop(columns="part").groupby("cell", sort=False).sum(min_count=1)
    shares = 100 * sums.drop(columns="repeats").div(sums["repeats"], axis=0)
    usual = sums["repeats"].median()
    errors = " and ".join(f"{100 * (level * (1 - level) / usual) ** 0.5:.2f}" for level in LEVELS.values())
    lines = [
        "Rejections of perfect candidates in percent, by `python benchmarks/null.py`. Groups are at the 5 % level,",
        f"each by itself. Standard errors at {usual:.0f} repeats: {errors}.",
        "",
        "| cell | repeats | " + " | ".join(shares.columns) + " |",
        "|---" * (2 + len(shares.columns)) + "|",
    ]
    for (cell, row), repeats in zip(shares.iterrows(), sums["repeats"], strict=True):
        values = " | ".join("-" if np.isnan(value) else f"{value:.2f}" for value in row)
        lines.append(f"| {cell} | {repeats:.0f} | {values} |")
    return "\n".join(lines) + "\n"


def main(repeats: str = "2000", folder: str = "results/null_sizes", only: str = "") -> None:
    import_module("mira_bench.metrics.mira").REPLICATES = 399  # enough for these levels
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    kept = out / "parts.csv"
    parts = pd.read_csv(kept) if kept.exists() else pd.DataFrame(columns=["cell", "part"])
    for part in range(int(repeats) // PART):
        for cell, pvalues in cells():
            if only not in cell or ((parts.cell == cell) & (parts.part == part)).any():
                continue
            rng = mb.streams.generator(part, "null sizes", cell)
            found = pd.DataFrame([pvalues(rng, part * PART + i) for i in range(PART)]) - 1e-9
            row = {"cell": cell, "part": part, "repeats": PART}
            row |= {name: int((found["all"] < level).sum()) for name, level in LEVELS.items()}
            row |= {name: int((found[name] < 0.05).sum()) for name in found.columns if name != "all"}
            parts = pd.concat([parts, pd.DataFrame([row])], ignore_index=True)
            parts.to_csv(kept, index=False)
            (out / "table.md").write_text(table(parts))


if __name__ == "__main__":
    main(*sys.argv[1:])
