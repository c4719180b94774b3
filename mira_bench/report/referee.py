r"""What an author needs for a referee: one figure, one paragraph, and whom to cite."""

__all__ = ["CITATION", "paragraph", "referee_figure", "write_referee"]

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ..errors import UsageError
from ..metrics.calibration import LEVEL, POWER
from .figures import COLORS, PAPER, as_they_are, in_legend, save
from .page.reading import Kept
from .page.sections import MISSING
from .tables import known

CITATION = r"""@article{sharief2026mira,
  title  = {{MIRA}: A Score for Conditional Distribution Accuracy and Model Comparison},
  author = {Sharief, Sammy and Zeghal, Justine and Missael Barco, Gabriel and Lemos, Pablo and Hezaveh, Yashar
            and Perreault-Levasseur, Laurence},
  year   = {2026}
}
@article{talts2018sbc,
  title   = {Validating {Bayesian} Inference Algorithms with Simulation-Based Calibration},
  author  = {Talts, Sean and Betancourt, Michael and Simpson, Daniel and Vehtari, Aki and Gelman, Andrew},
  journal = {arXiv:1804.06788},
  year    = {2018}
}
@inproceedings{lemos2023tarp,
  title     = {Sampling-Based Accuracy Testing of Posterior Estimators for General Inference},
  author    = {Lemos, Pablo and Coogan, Adam and Hezaveh, Yashar and Perreault-Levasseur, Laurence},
  booktitle = {International Conference on Machine Learning},
  year      = {2023}
}
"""
WIDTH = 3.35  # inches of a column
PARAMETERS = 8  # curves of SBC, the worst first


def _pvalue(p: float) -> str:
    return "p ≤ 0.001" if p <= 0.001 else f"p = {p:.3f}"


def _seen(found: dict[str, Any]) -> str:
    r"""The smallest errors that would have been seen, in words."""
    words = {
        "width": "all widths wrong by {:.0%}", "one_width": "the width of one parameter wrong by {:.0%}",
        "shift": "one parameter shifted by {:.2f} posterior standard deviations",
        "correlation": "one correlation wrong by {:.2f}",
    }  # fmt: skip
    told = [text.format(found[key]) for key, text in words.items() if known(found.get(key))]
    if not told:
        return "It would not have seen even a factor of three in the widths."
    return f"It would have seen, with probability {POWER:g}: {', '.join(told)}."


def _looked_at(test: dict[str, Any]) -> str:
    r"""Where the ranks are looked at, in words."""
    groups = {"balls": "in random balls", "marginals": "along each parameter", "shape": "of the joint shape"}
    found = [words for group, words in groups.items() if group in test["of"]]
    return ", ".join([*found, *(["against the data"] if any(" against " in f for f in test["features"]) else [])])


def _row(run: Kept, candidate: str | None) -> Any:
    if not run.details:
        raise UsageError(f"{run.folder} does not say what was tested. {MISSING}")
    rows = list(run.ranked.itertuples())
    if candidate is None and rows:
        return rows[0]
    found = next((row for row in rows if row.candidate == candidate), None)
    if found is None:
        names = ", ".join(row.candidate for row in rows) or "none"
        raise UsageError(f"there is no candidate {candidate!r} with a score in {run.folder}; there are: {names}")
    return found


def paragraph(run: Kept, candidate: str | None = None) -> str:
    r"""Returns the paragraph: what was tested, with what result, what would have been seen, and what was not tested.

    Arguments:
        run: The run.
        candidate: The candidate, by default the first of the ranking.
    """

    row = _row(run, candidate)
    test = run.of("calibration").get(row.candidate)
    if test is None:
        raise UsageError(f"{row.candidate} has no calibration test in {run.folder}: ask for the metric calibration")
    if test["pvalue"] is None:
        raise UsageError(f"{row.candidate} has no p-value in {run.folder}: L = {test['fiducials']} is too few to test")
    mira = run.of("mira").get(row.candidate)
    # Of samples that were given nobody knows where their truths are from.
    given = run.details.get("task") == "samples"
    drawn = "observations with known parameters, taken for draws of the prior" if given else (
        "simulated observations whose parameters were drawn from the prior"
    )  # fmt: skip
    text = (
        f"We tested {row.candidate} on L = {test['fiducials']} {drawn}, "
        f"with S = {test['samples']} posterior samples for each. If the posterior is right, the true "
        f"parameters are exchangeable with its samples; {len(test['features'])} features of their ranks "
        f"({_looked_at(test)}) were compared with their exact null distribution in one test: "
        f"{_pvalue(test['pvalue'])}. "
    )
    if row.verdict == "no miscalibration found":
        text += f"No miscalibration was found at the level {LEVEL:g}. {_seen(test['detectable'])} "
    else:
        text += f"The verdict is: {row.verdict} ({row.evidence}). "
    if mira is not None:
        error, null = (f" ± {mira[key]:.4f}" if known(mira[key]) else "" for key in ("stderr", "null_stderr"))
        text += (
            f"The MIRA score with R = {mira['regions']} random balls per observation, on the scale "
            f"normalize={mira['normalize']}, is {mira['score']:.4f}{error}; a perfect posterior has "
            f"{mira['expected']:.4f}{null}. "
        )
    if known(row.skill):
        error = f" ± {row.skill_stderr:.3f}" if known(row.skill_stderr) else ""
        text += f"Its skill over the prior in the energy score is {row.skill:.3f}{error} (0: the prior, 1: the truth). "
    for note in (*test["notes"], *([f"fixed: {', '.join(test['fixed'])}"] if test["fixed"] else [])):
        text += f"{note[:1].upper()}{note[1:]}. "
    text += (
        "All of this holds on average over the prior. It does not show that the posterior is right at one given "
        "observation, nor that the simulator describes the data."
    )
    return text


def _source(run: Kept) -> str:
    versions = run.facts.get("versions") or {}
    git = run.facts.get("git") or {}
    parts = [f"mira_bench {versions.get('mira_bench', '')}".strip()]
    parts += [f"commit {str(git['commit'])[:12]}"] if git.get("commit") else []
    parts += [f"seed {run.facts['seed']}"] if "seed" in run.facts else []
    return ", ".join(parts)


def _worst(sbc: dict[str, Any]) -> list[str]:
    r"""The parameters of which there are curves, the smallest p-values of this candidate first."""
    pvalues = dict(zip(sbc["parameters"], sbc["pvalues"], strict=True))
    kept = sorted(sbc["difference"], key=lambda name: pvalues[name] if pvalues[name] is not None else 1.0)
    return kept[:PARAMETERS]


def referee_figure(run: Kept, candidate: str | None = None) -> Figure:
    r"""Draws the ranks of each parameter and the coverage of one candidate, minus what is expected, in a column."""

    row = _row(run, candidate)
    sbc, tarp = run.of("sbc").get(row.candidate), run.of("tarp").get(row.candidate)
    panels = [one for one in (sbc, tarp) if one is not None]
    if not panels:
        raise UsageError(f"{row.candidate} has neither SBC nor TARP in {run.folder}: there is nothing to draw")
    with matplotlib.rc_context(PAPER):
        figure = Figure(figsize=(WIDTH, 0.4 + 1.75 * len(panels)), layout="constrained")
        FigureCanvasAgg(figure)
        grid = list(figure.subplots(len(panels), 1, squeeze=False)[:, 0])
        if sbc is not None:
            axes = grid.pop(0)
            if sbc["band"] is not None:
                lower, upper = sbc["band"]
                axes.fill_between(sbc["levels"], lower, upper, color="#CCCCCC", lw=0, label="95 % of perfect ones")
            for i, name in enumerate(_worst(sbc)):
                axes.plot(
                    sbc["levels"], sbc["difference"][name], color=COLORS[i % len(COLORS)], lw=1, label=in_legend(name)
                )
            axes.set(xlabel="rank / (S + 1)", ylabel="ECDF minus uniform", xlim=(0, 1))
            axes.axhline(0, color="black", lw=0.6, ls="--")
            told = axes.get_legend_handles_labels()
            as_they_are(figure.legend(*told, loc="outside upper center", ncols=3, frameon=False))
        if tarp is not None:
            axes = grid.pop(0)
            axes.fill_between(tarp["levels"], tarp["lower"], tarp["upper"], color=COLORS[0], alpha=0.25, lw=0)
            axes.plot(tarp["levels"], tarp["difference"], color=COLORS[0], lw=1)
            axes.axhline(0, color="black", lw=0.6, ls="--")
            reach = 1.15 * max(float(np.abs([tarp["lower"], tarp["upper"]]).max()), 0.05)
            axes.set(
                xlabel="credibility level", ylabel="coverage minus level (TARP)", xlim=(0, 1), ylim=(-reach, reach)
            )
    return figure


def _caption(run: Kept, candidate: str) -> str:
    r"""What the figure shows."""
    sbc, tarp = run.of("sbc").get(candidate), run.of("tarp").get(candidate)
    parts = []
    if sbc is not None:
        shown = len(_worst(sbc))
        which = "each parameter" if shown == sbc["of"] else f"the {shown} worst of {sbc['of']} parameters"
        parts.append(f"Distribution function of the rank of the true value of {which} minus the uniform one (SBC)")
        if sbc["band"] is not None:
            parts[-1] += "; a perfect posterior stays inside the gray band with 95 % probability"
    if tarp is not None:
        parts.append(
            "Expected coverage of random balls minus their level (TARP), with the 95 % band of resampled observations"
        )
    places = ("Above: ", "Below: ") if len(parts) == 2 else ("",)
    return " ".join(f"{place}{part}." for place, part in zip(places, parts, strict=True))


def write_referee(run: Kept, out: Path, candidate: str | None = None) -> list[Path]:
    r"""Writes `referee.md` and `referee.png`, `.pdf`; returns the paths.

    Arguments:
        run: The run.
        out: The folder to write into.
        candidate: The candidate, by default the first of the ranking.
    """

    text, figure = paragraph(run, candidate), referee_figure(run, candidate)
    caption = _caption(run, _row(run, candidate).candidate)
    lines = [text, "", f"![calibration](referee.png)\n\n*{caption}*", "", f"({_source(run)})", "", "```bibtex"]
    try:
        save(figure, out / "referee")  # which makes the folder
        (out / "referee.md").write_text("\n".join([*lines, CITATION + "```", ""]), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the folder {out} cannot be written: {error}") from error
    return [out / f"referee.{kind}" for kind in ("md", "png", "pdf")]
