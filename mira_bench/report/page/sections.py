r"""The sections of a run's page, in the order in which a reader needs them. What a run does not have is left out."""

__all__ = ["MISSING", "sections_of"]

from collections.abc import Iterator
from typing import Any

import pandas as pd

from ...ranking.verdicts import VERDICTS
from ..details import COMPARED
from ..tables import display, known, number
from . import charts
from .circumstances import circumstances
from .content import Card, Key, Section, Table, embed_picture
from .corner import corners
from .reading import Kept
from .worst import fiducials

FEATURES = 24  # rows of the map; the table below it has them all
PARAMETERS = 6  # panels of SBC
TRENDS = 4
PICTURES = 1_400_000  # bytes of all pictures together
MISSING = (
    "This folder was written by a version that kept no details.json, or another kind: what decided, the curves of TARP "
    "and SBC, pairs, trainings and diagnostics are not in it. Run it again, from the store if that still has its "
    "blocks, and the page has them."
)
SAID = {"rhat": "R-hat", "ess_bulk": "effective samples, bulk", "ess_tail": "effective samples, tails"}


def sections_of(run: Kept) -> list[Section]:
    r"""Returns the sections that a run has something for."""

    makers = (_ranking, _decided, _mira, _coverage, _sbc, _trend, _fiducials, corners, _pairs, _pictures, _training,
              _convergence, _numbers, circumstances)  # fmt: skip
    return [section for make in makers for section in make(run)]


def _card(run: Kept, row: Any) -> Card:
    meaning, advice = VERDICTS.get(row.verdict, ("", ""))
    rank = f"{int(row.rank)}" if known(row.rank) else row.role if row.role != "candidate" else "-"
    evidence = "; but ".join(filter(None, [row.evidence, row.objections]))
    return Card(
        row.candidate, rank, row.tier + ("!" if row.objections else ""), run.palette.hue(row.candidate), row.verdict,
        meaning, evidence, advice,
    )  # fmt: skip


def _headline(run: Kept) -> str:
    r"""The answer in a sentence or two."""
    if not len(run.ranked):
        return "No candidate has a score."
    first = next(run.ranked.itertuples())
    meaning, advice = VERDICTS.get(first.verdict, ("", ""))
    others = [r.candidate for r in run.ranked.itertuples() if r.tied in ("tied", "not resolved")]
    text = f"{first.candidate} is first of {len(run.ranked)}: {first.verdict}"
    text += f" ({meaning}). To do: {advice}." if meaning else "."
    if others:
        text += f" It cannot be told from {', '.join(others)}."
    return text


def _ranking(run: Kept) -> Iterator[Section]:
    shown = run.ranking[(run.ranking["role"] == "candidate")]
    what = COMPARED.get(run.rank_by, ("energy score", ""))[0]
    drawn = []
    compared = [r for r in run.ranked.itertuples() if known(r.difference) or r.tied == "best"]
    if len(compared) > 1 and run.rank_by != "mira":
        rows = [
            {"candidate": r.candidate, "value": r.difference if known(r.difference) else 0.0,
             "error": r.difference_stderr if known(r.difference_stderr) else None, "tied": r.tied}
            for r in compared
        ]  # fmt: skip
        drawn.append(charts.differences(rows, run.palette, what))
    skilled = [r for r in run.ranked.itertuples() if known(r.skill)]
    if skilled:
        rows = [
            {"candidate": r.candidate, "value": r.skill, "error": r.skill_stderr if known(r.skill_stderr) else None}
            for r in skilled
        ]
        drawn.append(charts.skill(rows, run.palette))
    told = run.details
    cells = display(run.ranking, told.get("columns") or {})
    first = [title for title in ("", "candidate", "tier", "verdict") if title in cells]  # empty ones are left out
    others = [title for title in cells if title not in (*first, "evidence")]
    cells = cells[[*first, *others]].rename(columns={"": "rank"})
    notes = [*told.get("notices", ()), *(f"warning: {one}" for one in told.get("warnings", ()))]
    notes += ["ranking.csv was changed since the run: charts are as it was, tables as it is."] if run.edited else []
    notes += [f"{name} failed: {why}" for name, why in (told.get("failures") or {}).items()]
    lead, cards = [_headline(run), *told.get("explanation", ())], [_card(run, r) for r in shown.itertuples()]
    yield Section(
        "ranking", "Ranking", lead, cards, charts=drawn, tables=[Table("Ranking", cells)],
        notes=notes if told else [MISSING, *notes],
    )  # fmt: skip


def _decided(run: Kept) -> Iterator[Section]:
    own = run.of("calibration")
    if not own:
        return
    features = list(dict.fromkeys(label for one in own.values() for label in one["features"]))
    z: dict[str, dict[str, float]] = {
        name: dict(zip(one["features"], one["z"], strict=True)) for name, one in own.items()
    }
    groups = {label: of for one in own.values() for label, of in zip(one["features"], one["of"], strict=True)}

    def loud(label: str) -> float:
        ratios = [abs(z[name][label]) / (own[name]["critical"][groups[label]] or 1) for name in own if label in z[name]]
        return max(ratios, default=0.0)

    order = sorted(features, key=loud, reverse=True)
    top = order[:FEATURES]
    values = [[z[name].get(label) for name in own] for label in top]
    cells = pd.DataFrame({"feature": order, "group": [groups[label] for label in order]})
    for name in own:
        cells[name if name not in cells else f"{name} "] = [number(z[name].get(label), "+.2f") for label in order]
    needs = {name: min(one["critical"].values(), default=float("nan")) for name, one in own.items()}
    least = min(needs.values(), default=float("nan"))
    lead = [
        "Each row is a feature of where the truth ranks among the samples; z counts its deviation in standard "
        "deviations of the exact null. Blue is negative, orange positive. A group of features speaks by itself "
        f"from |z| of about {least:.1f} on, because the largest of many is compared with the largest of many.",
        "A positive dispersion, radius or tails: the samples are too narrow. A positive location: the truth lies above "
        "them. A positive pair: two parameters go together more than the candidate says.",
    ]
    some = f" The {len(top)} loudest of {len(features)} features are drawn." if len(top) < len(features) else ""
    yield Section(
        "decided", "What decided", [lead[0] + some, lead[1]],
        charts=[charts.zmap(top, list(own), values)], tables=[Table("z of all features", cells, folded=True)],
    )  # fmt: skip


def _mira(run: Kept) -> Iterator[Section]:
    own = run.of("mira")
    if not own:
        return
    sigmas = dict(zip(run.ranking["candidate"], run.ranking["mira_sigmas"], strict=True))
    rows = [
        {"candidate": name, "value": one["score"], "error": one["stderr"], "expected": one["expected"],
         "sigmas": sigmas[name] if known(sigmas[name]) else None, "construction": one["by_construction"]}
        for name, one in own.items()
    ]  # fmt: skip
    first = next(iter(own.values()))
    lead = [
        f"A perfect candidate scores {first['expected']:.4f}, with a standard deviation of "
        f"{number(first['null_stderr'])} by the exact null (dark band). The paper's band, ± {first['paper_band']:.4f}, "
        "ignores that a fiducial averages over its regions. Below: overconfident or shifted; above: underconfident."
    ]
    if any(one["by_construction"] for one in own.values()):
        lead.append("By construction: no ball separates the samples, a parameter is fixed, and the score is 1/2.")
    keys = [Key("exact null, ± 1 σ", band="exact"), Key("the paper's band", band="paper")]
    yield Section("mira", "MIRA", lead, keys=keys, charts=[charts.mira(rows, run.palette, first)])


def _coverage(run: Kept) -> Iterator[Section]:
    own = run.of("tarp")
    if own:
        lead = [
            "Coverage of balls around random points minus their level; the bands hold 95 % of resampled fiducials. "
            "Zero is right. First above and then below zero is overconfident, the mirror image is underconfident."
        ]
        keys = Key.of(list(own), run.palette)
        yield Section(
            "coverage", "Coverage (TARP)", lead, short="TARP", keys=keys, charts=[charts.coverage(own, run.palette)]
        )


def _sbc(run: Kept) -> Iterator[Section]:
    own = run.of("sbc")
    if not own:
        return
    pvalues = {name: dict(zip(one["parameters"], one["pvalues"], strict=True)) for name, one in own.items()}
    first = next(iter(own.values()))
    worst, drawn = first["parameters"], list(first["difference"])[:PARAMETERS]
    cells = pd.DataFrame({"parameter": worst})
    for name in own:
        cells[name if name not in cells else f"{name} "] = [_p(pvalues[name].get(parameter)) for parameter in worst]
    some = f" The worst {len(drawn)} of {first['of']} parameters are drawn." if len(drawn) < first["of"] else ""
    band = " Fiducials share samples, so there is no band and no p-value." if first["band"] is None else (
        " The gray band holds the whole curve of a perfect candidate with 95 % probability."
    )  # fmt: skip
    lead = [f"Distribution function of the truth's rank minus the uniform one, worst parameters first.{some}{band}"]
    yield Section(
        "sbc", "Ranks of each parameter (SBC)", lead, short="SBC", keys=Key.of(list(own), run.palette),
        charts=[charts.ecdf(parameter, own, run.palette) for parameter in drawn],
        tables=[Table("SBC p-values (Kolmogorov-Smirnov, not corrected)", cells, folded=len(cells) > 8)],
    )  # fmt: skip


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


def _trend(run: Kept) -> Iterator[Section]:
    wrong = run.ranked[run.ranked["tier"] != "A"]["candidate"].tolist()
    own = {name: one["guilty"] for name, one in run.of("calibration").items() if name in wrong and "guilty" in one}
    own = {name: told for name, told in own.items() if len(told["mean"]) >= 8}
    if own:
        lead = [
            "For each candidate that is not in tier A, the parameter that speaks loudest: a point per fiducial, and "
            "means of bins. They should lie in the band around 1/2 (two standard errors of a perfect candidate). A "
            "slope upward is shrinkage toward the prior, a level off 1/2 is a shift."
        ]
        some, every = (max(f(told) for told in own.values()) for f in (lambda t: len(t["mean"]), lambda t: t["of"]))
        lead[0] += f" {some} of {every} fiducials are looked at here." if some < every else ""
        drawn = [charts.rank_trend(name, told, run.palette) for name, told in list(own.items())[:TRENDS]]
        yield Section("trend", "Rank against posterior mean", lead, short="Rank and mean", charts=drawn)


def _fiducials(run: Kept) -> Iterator[Section]:
    what, metric = COMPARED.get(run.rank_by, ("energy score", "energy"))
    yield from fiducials(run, what, metric)


def _pairs(run: Kept) -> Iterator[Section]:
    pairs = run.details.get("pairs")
    if pairs:
        what = COMPARED.get(run.rank_by, ("energy score", ""))[0]
        lead = [
            f"The {what} of the row minus that of the column, paired by fiducial: orange, the row is worse. The number "
            "is the p-value of their being equally good, which holds for all pairs together."
        ]
        yield Section("pairs", "Who beats whom", lead, charts=[charts.matrix(pairs)])


def _pictures(run: Kept) -> Iterator[Section]:
    found = run.drawn
    if found:
        share = PICTURES // len(found)
        pictures = [
            embed_picture(path, path.stem.replace("_", " "), f"{path.stem.replace('_', ' ')} of {run.task}", share)
            for path in found
        ]
        yield Section("pictures", "Pictures", ["Drawn by the task, from the first fiducials."], pictures=pictures)


def _training(run: Kept) -> Iterator[Section]:
    own = run.of("training")
    methods, trained = run.table("methods.csv", "method,networks,"), run.table("trainings.csv", "candidate,epochs,")
    found = {"Methods, over their trainings": methods, "Trainings": trained}
    tables = [Table(title, cells) for title, cells in found.items() if cells is not None]
    if own or tables:
        drawn = [charts.training(name, one) for name, one in own.items()]
        yield Section("training", "Training", charts=drawn, tables=tables)


def _convergence(run: Kept) -> Iterator[Section]:
    own = run.of("convergence")
    if not own:
        return
    keys = list(dict.fromkeys(key for one in own.values() for key in one["values"]))
    drawn, rows, every = [], [], True
    for key in keys:
        values = {name: one["values"][key] for name, one in own.items() if key in one["values"]}
        for name, some in values.items():
            told = {word: f"{some[word]:.4g}" for word in ("median", "least", "largest")}
            rows.append({"candidate": name, "diagnostic": SAID.get(key, key), **told})
        if any(some["least"] < some["largest"] for some in values.values()):
            every &= all(len(some["value"]) == some["of"] for some in values.values())
            points = [
                {"candidate": name, "fiducial": i, "value": v}
                for name, some in values.items()
                for i, v in zip(some["fiducial"], some["value"], strict=True)
            ]
            limit = next(iter(own.values()))["limit"] if key == "rhat" else None
            drawn.append(charts.strip(SAID.get(key, key), points, run.palette, list(values), limit))
    lead = [
        "What the samplers say about their own posteriors: a tick per fiducial."
        + ("" if every else " Of many, those with the most extreme values are drawn, and some of the others.")
    ]
    table = Table("Diagnostics over fiducials", pd.DataFrame(rows), folded=True)
    yield Section("convergence", "Sampler diagnostics", lead, short="Sampler", charts=drawn, tables=[table])


def _numbers(run: Kept) -> Iterator[Section]:
    table = run.summary
    shown = {
        "candidate": table["candidate"], "metric": table["metric"], "view": table["view"],
        **{key: [number(value, ".5g") for value in table[key]] for key in ("score", "stderr", "expected", "pvalue")},
        "from oracle": [number(value, "+.4g") for value in table["from_oracle"]],
        "note": table["note"],
    }  # fmt: skip
    cells = pd.DataFrame(shown)
    empty = [key for key in ("expected", "from oracle") if (cells[key] == "-").all()]
    lead = ["Every metric of every candidate; summary.csv has all digits."]
    yield Section("numbers", "All numbers", lead, tables=[Table("Summary", cells.drop(columns=empty), folded=True)])
