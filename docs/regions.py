r"""Draws regions.png, the paper's Figure 1, and rank.png, what a region gives: python docs/regions.py"""

from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Ellipse
from numpy.typing import NDArray

from mira_bench.ranks.players import expected_score, region_score

TRUE = np.array([[1.0, 0.5], [0.5, 0.8]])
CANDIDATE = np.array([[0.7, -0.1], [-0.1, 0.6]])
SHIFT = np.array([0.6, -0.3])
SAMPLES = 40
RED, BLUE, ORANGE = "#c0392b", "#2c6fbb", "#e08214"


@dataclass(frozen=True)
class Region:
    r"""A ball around a center, through a sample of the candidate, and what is inside."""

    center: NDArray
    reference: NDArray
    samples: NDArray  # all but the reference
    truth: NDArray

    @property
    def radius(self) -> float:
        return float(np.linalg.norm(self.reference - self.center))

    @property
    def count(self) -> int:
        return int((np.linalg.norm(self.samples - self.center, axis=1) <= self.radius).sum())

    @property
    def inside(self) -> bool:
        return bool(np.linalg.norm(self.truth - self.center) <= self.radius)

    @property
    def statistic(self) -> float:
        r"""Laplace's rule: the probability of what happened to the truth, by what happened to the samples."""
        n = self.count if self.inside else len(self.samples) - self.count
        return (n + 1) / (len(self.samples) + 2)


def scenario(rng: np.random.Generator) -> Region:
    r"""Returns a random region, with new samples and a new truth."""
    samples = SHIFT + rng.multivariate_normal(np.zeros(2), CANDIDATE, SAMPLES + 1)
    truth = rng.multivariate_normal(np.zeros(2), TRUE)
    return Region(rng.uniform(-2.5, 2.5, 2), samples[0], samples[1:], truth)


def _contours(axes: Axes, mean: NDArray, covariance: NDArray, color: str) -> None:
    values, vectors = np.linalg.eigh(covariance)
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    for k in (1, 2):
        width, height = 2 * k * np.sqrt(values[::-1])
        ellipse = Ellipse(tuple(mean), width, height, angle=angle, fill=False, ec=color, lw=1, alpha=1.2 - 0.4 * k)
        axes.add_patch(ellipse)


def _draw(axes: Axes, region: Region) -> None:
    axes.add_patch(Circle(tuple(region.center), region.radius, fc=ORANGE, ec=ORANGE, alpha=0.18))
    axes.add_patch(Circle(tuple(region.center), region.radius, fill=False, ec=ORANGE, lw=1))
    _contours(axes, np.zeros(2), TRUE, RED)
    _contours(axes, SHIFT, CANDIDATE, BLUE)
    axes.plot(*region.samples.T, ".", color=BLUE, ms=4, label="samples $y_j$ of the candidate")
    axes.plot(*region.center, "o", color=ORANGE, ms=5, label="center $c$")
    axes.plot(*region.reference, "X", color=ORANGE, mec="black", mew=0.5, ms=7, label="reference $y_r$")
    axes.plot(*region.truth, "*", color=RED, mec="black", mew=0.5, ms=12, label="truth $y^*$")
    axes.set(xlim=(-3.6, 3.6), ylim=(-3.6, 3.6), xticks=[], yticks=[], aspect="equal")
    where = "the truth inside" if region.inside else "the truth outside"
    axes.set_title(f"{region.count} of {SAMPLES} samples inside, {where}\n$p(k|n)$ = {region.statistic:.2f}", size=9)


def draw_regions(file: Path, seed: int = 2) -> None:
    r"""Draws three random regions."""
    rng = np.random.default_rng(seed)
    figure, panels = plt.subplots(1, 3, figsize=(9, 4.1), layout="constrained")
    for axes in panels:
        _draw(axes, scenario(rng))
    labels = panels[0].get_legend_handles_labels()
    figure.legend(*labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(file, dpi=150)


def draw_rank(file: Path) -> None:
    r"""Draws what a region gives, averaged over all references, against the rank of the truth."""
    share = np.linspace(0, 1, SAMPLES + 1)
    figure, axes = plt.subplots(figsize=(9, 3), layout="constrained")
    axes.plot(share, region_score(np.arange(SAMPLES + 1), SAMPLES), ".-", color=BLUE, ms=4, lw=1)
    axes.axhline(expected_score(SAMPLES), color="black", ls="--", lw=1)
    axes.text(0.5, expected_score(SAMPLES) - 0.012, "mean over equally likely ranks", ha="center", size=8)
    axes.set(xlabel="share $J/S$ of samples closer to the center than the truth", ylabel="$P(J)$")
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    draw_regions(Path(__file__).with_name("regions.png"))
    draw_rank(Path(__file__).with_name("rank.png"))
