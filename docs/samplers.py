r"""Writes the tables of samplers.md from the results of its runs, in results: python docs/samplers.py"""

import re
from pathlib import Path
from typing import Any

from mira_bench.report.tables import known, read_table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "samplers.md"
RESULTS = ROOT / "results" / "inverse"
TUNED = ROOT / "results" / "tune_inverse"
TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.S)
METHODS = {"dps": "DPS", "reddiff": "RED-diff", "diffpir": "DiffPIR", "daps": "DAPS", "pnp_dm": "PnP-DM"}
# The published constants, which are the defaults of the classes: tests/tasks/inverse/test_tuning.py sees to it.
DEFAULTS = {
    "dps": "dps_1",
    "reddiff": "reddiff_025_002",
    "diffpir": "diffpir_8_03",
    "daps": "daps_01",
    "pnp_dm": "pnp_dm_002",
}
PROBLEMS = ("mri", "scattering", "black_hole", "black_hole_closure")
HEAD = (
    "", "calls", "MIRA", "minus oracle", "tilt", "TARP", "energy score minus oracle", "sd", "mean",
    "sliced Wasserstein minus oracle, 10⁻³", "misfit", "PSNR", "SSIM", "calibration p",
)  # fmt: skip


def _short(value: float, digits: int) -> str:
    r"""A number without the zero in front of its point, which says nothing."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:,.{digits}f}")


def _with_error(value: Any, error: Any, digits: int) -> str:
    if not known(value):
        return ""
    # No-break spaces: a number and its error stay in a line.
    return _short(value, digits) + (f"\u00a0±\u00a0{_short(error, digits)}" if known(error) else "")


def table(task: str) -> str:
    r"""Returns the table of one run: candidates by their energy score, then the oracle and controls."""
    ranking = read_table(RESULTS / task / "ranking.csv")
    summary = read_table(RESULTS / task / "summary.csv").set_index(["candidate", "metric"])
    lines = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    roles = {"candidate": 0, "oracle": 1, "control": 2}
    for row in sorted(ranking.itertuples(), key=lambda r: (roles[r.role], r.energy)):
        own = summary.loc[row.candidate]

        def scored(metric: str, digits: int, own: Any = own) -> str:
            return _with_error(own.at[metric, "score"], own.at[metric, "stderr"], digits) if metric in own.index else ""

        def beside(metric: str, digits: int, times: float = 1.0, own: Any = own, role: str = row.role) -> str:
            if role == "oracle" or metric not in own.index:
                return ""
            return _with_error(*(times * own.at[metric, key] for key in ("from_oracle", "from_oracle_stderr")), digits)

        calls = re.search(r"denoiser_calls (\d[\d,]*)", str(own.at["convergence", "note"]))
        p = own.at["calibration", "pvalue"]
        cells = [
            f"`{row.candidate}`", calls[1].rstrip(",") if calls else "", scored("mira", 3), beside("mira", 3),
            scored("tilt", 2), _short(own.at["tarp", "score"], 2), beside("energy", 4), scored("moments", 3),
            scored("moments.mean_error", 2), beside("sliced_wasserstein", 1, 1e3),
            _short(own.at["fidelity.misfit", "score"], 2), f"{own.at['fidelity', 'score']:.1f}",
            _short(own.at["fidelity.ssim", "score"], 3), "≤.001" if p <= 0.001 else _short(p, 3),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def settings() -> str:
    r"""Returns the table of the tuning: the best setting of each method, its energy score, and that of the defaults."""
    lines = [f"|  | {' | '.join(name.replace('_', ' ') for name in PROBLEMS)} |", "|---" * (1 + len(PROBLEMS)) + "|"]
    scores = {
        problem: read_table(TUNED / problem / "ranking.csv").set_index("candidate")["energy"] for problem in PROBLEMS
    }
    for method, title in METHODS.items():
        cells = []
        for energy in scores.values():
            mine = energy[energy.index.str.startswith(f"{method}_")]
            cells.append(f"`{mine.idxmin()}` {_short(mine.min(), 3)} ({_short(mine[DEFAULTS[method]], 3)})")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    r"""Returns the text of the page with its tables made anew."""
    # Empty lines, or some readers of Markdown see no table.
    return TABLE.sub(
        lambda found: f"{found[1]}\n{settings() if found[2] == 'settings' else table(found[2])}\n{found[3]}", page
    )


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
