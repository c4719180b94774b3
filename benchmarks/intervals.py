r"""How often does the 95 % interval hold the candidate's expected score? `python benchmarks/intervals.py`

The posterior is a standard Gaussian, the candidate has a width of its own, and centers are uniform in a box of ± 6.
Scores of 20,000 fiducials (60 samples, 30 regions) are the population; L of them are drawn 4,000 times. Columns: the
candidate's expected score, the skewness of single scores, and for each L the coverage, with the share of repeats in
which the expected score was above the interval in parentheses. About a minute of one core.
"""

import numpy as np

import mira_bench as mb
from mira_bench.statistics import mean_stderr, skewed_interval

COUNTS = (6, 12, 30, 100, 300)
REPEATS = 4000


def main() -> None:
    print("| d | width | expected | skewness | " + " | ".join(f"L = {count}" for count in COUNTS) + " |")
    print("|---" * (4 + len(COUNTS)) + "|")
    for dim in (2, 8):
        for width in (1.0, 0.5, 0.2, 0.1, 0.05):
            rng = mb.streams.generator(0, "intervals", dim, width)
            truths, samples = rng.normal(size=(20_000, dim)), width * rng.normal(size=(20_000, 60, dim))
            box = np.full(dim, -6.0), np.full(dim, 6.0)
            scores = mb.mira(truths, samples, regions=30, bounds=box).per_fiducial
            mean, skewness = scores.mean(), np.mean((scores - scores.mean()) ** 3) / scores.std() ** 3
            cells = []
            for count in COUNTS:
                ends = []
                for _ in range(REPEATS):
                    few = rng.choice(scores, count)
                    ends.append(skewed_interval(few, mean_stderr(few)[1], 0.95))
                low, high = np.array(ends).T
                cells.append(f"{np.mean((low <= mean) & (mean <= high)):.3f} ({np.mean(mean > high):.3f})")
            print(f"| {dim} | {width} | {mean:.4f} | {skewness:.1f} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
