r"""The verb `plan`: how many fiducials are needed to see an error of this size."""

__all__ = ["main"]

import argparse
import textwrap
from collections.abc import Sequence

import pandas as pd

from ..metrics.calibration import LEVEL, POWER
from ..ranking.power import EXTENT, plan
from ..report.screen import columns

PAGE = 100  # characters in a line of what goes into a file or a pipe


def main(arguments: Sequence[str]) -> int:
    r"""Says how many fiducials are needed."""

    parser = argparse.ArgumentParser(
        prog="mira-bench plan",
        description="How many fiducials are needed to see an error of this size? For a Gaussian posterior.",
    )
    parser.add_argument("--width", type=float, help="relative error of the width (0.1 if there is no --shift)")
    parser.add_argument("--shift", type=float, default=0.0, help="shift in posterior standard deviations (0)")
    parser.add_argument("--power", type=float, default=POWER, help=f"probability of seeing it ({POWER})")
    parser.add_argument("--level", type=float, default=LEVEL, help=f"level of the tests ({LEVEL})")
    parser.add_argument("--dim", type=int, default=2, help="number of parameters (2)")
    parser.add_argument("--samples", type=int, default=200, help="samples per fiducial (200)")
    parser.add_argument("--regions", type=int, default=100, help="regions of MIRA (100)")
    parser.add_argument(
        "--extent", type=float, default=EXTENT,
        help=f"range of the parameters in posterior standard deviations ({EXTENT:g}: the data say nothing)",
    )  # fmt: skip
    chosen = parser.parse_args(arguments)
    if chosen.width is None:
        chosen.width = 0.0 if chosen.shift else 0.1
    table = plan(**vars(chosen))
    errors = [f"width wrong by {chosen.width:.3g}"] if chosen.width else []
    errors += [f"shifted by {chosen.shift:g} posterior standard deviations"] if chosen.shift else []
    said = f"Fiducials needed to see a posterior {' and '.join(errors)} with probability {chosen.power:g} at the "
    said += f"{chosen.level:.3g} level: {chosen.dim} dimensions, {chosen.samples} samples, Gaussian, by simulation."
    print(textwrap.fill(said, columns(PAGE)))
    words = {
        "mira": f"MIRA alone, {chosen.regions} regions",
        "calibration": "the calibration test of the tiers",
        "sbc": "SBC, corrected for dimensions (approximate)",
    }
    sides = chosen.width > 0  # a shift alone is neither narrow nor wide
    print(f"{'':<44}{'needed':>9}" + f"{'if narrow':>11}{'if wide':>9}" * sides)
    for row in table.itertuples():
        cells = ["> 10^6" if value is pd.NA else str(value) for value in (row.fiducials, row.narrow, row.wide)]
        print(f"{words[row.test]:<44}{cells[0]:>9}" + f"{cells[1]:>11}{cells[2]:>9}" * sides)
    return 0
