r"""The verdicts: what is called reproduced, and what is not."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from mira_bench.tasks.gaussian import Conjugate, ConjugateCandidate

import mira_bench as mb
from mira_bench.paper.compare import DIFFERS, OPEN, REPRODUCED, Printed, compare, ranking_agreement, status
from mira_bench.sweeps.study import Run

CANDIDATES = {
    "exact": ConjugateCandidate(),
    "narrow": ConjugateCandidate(width=0.6),
    "noisy": ConjugateCandidate(noise=0.8),
}
METRICS = {
    "published": mb.Mira(regions=20, reference="drawn", scale="reference"),
    "mira": mb.Mira(regions=20),
    "evidence": mb.Evidence(),
}


def made(seed, fiducials=300):
    result = mb.run(
        Conjugate(), CANDIDATES, fiducials=fiducials, samples=50, seed=seed, metrics=METRICS, controls=False
    )
    return Run.keep({"seed": seed}, result, METRICS, 50)


@pytest.fixture(scope="module")
def one():
    return made(0)


def scores(run, name, metric="published"):
    return run.scores[name][metric]


def section(printed, **more):
    return {"printed": printed, "columns": {"MIRA": {"metric": "published", "default": "mira"}}, **more}


def test_z_takes_our_error_for_both_sides(one):
    exact = scores(one, "exact")
    table = compare(section({"exact": {"MIRA": [0.60, 0.05]}}, fiducials=75), [one])
    (row,) = table.itertuples()
    # Theirs has a quarter of the fiducials, so twice the standard error; four digits are printed.
    error = math.sqrt(exact.stderr**2 + (2 * exact.stderr) ** 2 + 1e-8 / 12)
    assert row.z == pytest.approx((exact.score - 0.60) / error)
    assert row.z_printed_bar == pytest.approx((exact.score - 0.60) / 0.05)
    assert row.default == scores(one, "exact", "mira").score
    assert (row.paper, row.paper_error, row.fiducials, row.samples) == (0.60, 0.05, 300, 50)


@pytest.mark.parametrize(
    ("sigmas", "verdict"), [(2.9, REPRODUCED), (-2.9, REPRODUCED), (3.1, DIFFERS), (-3.1, DIFFERS)]
)
def test_three_standard_errors_decide_whatever_bar_is_printed(one, sigmas, verdict):
    exact = scores(one, "exact")
    error = math.sqrt(2 * exact.stderr**2 + 1e-8 / 12)
    table = compare(section({"exact": {"MIRA": [exact.score - sigmas * error, 10.0]}}), [one])
    assert table.verdict.tolist() == [verdict]


def test_repeats_carry_what_a_single_run_cannot_know():
    runs = [made(seed) for seed in range(4)]
    values = [scores(run, "narrow").score for run in runs]
    stated = np.mean([scores(run, "narrow").stderr for run in runs])
    (row,) = compare(section({"narrow": {"MIRA": 0.6}}), runs).itertuples()
    sd = max(np.std(values, ddof=1), stated)
    assert row.ours == pytest.approx(np.mean(values))
    assert row.ours_error == pytest.approx(sd / 2)
    assert row.repeats == 4
    assert row.z == pytest.approx((np.mean(values) - 0.6) / math.sqrt(sd**2 / 4 + sd**2 + 1e-8 / 12))


def test_settings_choose_the_run():
    runs = [dataclasses.replace(made(0, count), setting={"fiducials": count, "seed": 0}) for count in (50, 100)]
    rows = {"50": {"fiducials": 50, "candidate": "exact"}, "100": {"fiducials": 100, "candidate": "exact"}}
    table = compare(section({"50": {"MIRA": 0.66}, "100": {"MIRA": 0.66}}, rows=rows), runs)
    assert table.fiducials.tolist() == [50, 100]
    with pytest.raises(mb.UsageError, match="not made"):
        compare(section({"50": {"MIRA": 0.66}}, rows={"50": {"fiducials": 70, "candidate": "exact"}}), runs)
    with pytest.raises(mb.UsageError, match="was not run"):
        compare(section({"nobody": {"MIRA": 0.66}}), runs)


def test_statistics_of_the_bayes_factor(one):
    log_ratios = scores(one, "noisy", "evidence").per_fiducial
    columns = {
        "geometric": {"metric": "evidence", "statistic": "exp_mean"},
        "relative": {"metric": "evidence", "statistic": "exp_mean", "relative_to": "noisy"},
        "arithmetic": {"metric": "evidence", "statistic": "log10_of_mean_exp"},
        "zero": {"metric": "evidence", "statistic": "log10_of_mean_exp"},
    }
    printed = {"noisy": {"geometric": 1.0, "relative": 1.0, "arithmetic": 0.0, "zero": {"below": 5.0}}}
    table = compare({"printed": printed, "columns": columns}, [one]).set_index("column")
    assert table.ours["geometric"] == pytest.approx(np.exp(log_ratios.mean()))
    assert table.ours_error["geometric"] == pytest.approx(np.exp(log_ratios.mean()) * mean_error(log_ratios))
    assert table.ours["relative"] == 1.0
    assert table.ours["arithmetic"] == pytest.approx(np.log10(np.exp(log_ratios).mean()))
    assert table.verdict["zero"] == REPRODUCED
    assert math.isnan(table.z["zero"])


def mean_error(values):
    return values.std(ddof=1) / math.sqrt(len(values))


def test_a_cell_has_the_last_word(one):
    cells = {"narrow": {"MIRA": {"candidate": "exact"}}, "exact": {"MIRA": {"candidate": "narrow", "open": "because"}}}
    printed = {"narrow": {"MIRA": scores(one, "exact").score}, "exact": {"MIRA": 0.5}}
    table = compare(section(printed, cells=cells), [one])
    assert table.candidate.tolist() == ["exact", "narrow"]
    assert table.verdict.tolist() == [REPRODUCED, OPEN]


def frame(paper, ours, error=0.001, verdict=REPRODUCED, is_mira=True):
    names = list("abcdef")[: len(paper)]
    return pd.DataFrame(
        {
            "row": names, "column": "MIRA", "candidate": names, "paper": paper, "ours": ours, "ours_error": error,
            "expected": 2 / 3, "verdict": verdict, "is_mira": is_mira,
        }
    )  # fmt: skip


def test_the_ranking_is_by_distance_and_only_resolved_pairs_count():
    assert ranking_agreement(frame([0.66, 0.60, 0.55], [0.665, 0.61, 0.54])) == ("same", [])
    # .70 is closer to 2/3 than .60, from the other side.
    assert ranking_agreement(frame([0.70, 0.60], [0.64, 0.60])) == ("same", [])
    assert ranking_agreement(frame([0.600, 0.601], [0.602, 0.600]))[0] == "same within errors"
    agreement, pairs = ranking_agreement(frame([0.66, 0.60], [0.60, 0.66]))
    assert agreement == "differs"
    assert pairs == ["MIRA: a and b"]
    assert ranking_agreement(frame([0.66], [0.66])) == ("-", [])
    assert ranking_agreement(frame([0.66, 0.60], [0.60, 0.66], is_mira=False)) == ("-", [])


def test_candidates_may_be_along_the_columns():
    table = frame([0.66, 0.60], [0.60, 0.66]).rename(columns={"row": "column", "column": "row"})
    assert ranking_agreement(table)[1] == ["MIRA: a and b"]


def test_the_status_of_an_item():
    good = frame([0.66, 0.60], [0.66, 0.60])
    assert status(good, "same") == REPRODUCED
    assert status(good, "same within errors") == REPRODUCED
    assert status(good, "differs") == DIFFERS
    assert status(good.assign(verdict=[REPRODUCED, DIFFERS]), "same") == DIFFERS
    assert status(good.assign(verdict=[OPEN, REPRODUCED]), "same") == OPEN
    assert status(good.assign(verdict=[OPEN, DIFFERS]), "same") == DIFFERS
    # Other columns may stay open, and are named if they differ.
    assert status(good.assign(verdict=[OPEN, REPRODUCED], is_mira=[False, True]), "-") == REPRODUCED
    mixed = good.assign(verdict=[DIFFERS, REPRODUCED], is_mira=[False, True], column=["MMD", "MIRA"])
    assert status(mixed, "-") == "reproduced; MMD differs"


def test_printed_numbers():
    assert Printed.read(0.5).value == 0.5
    assert math.isnan(Printed.read(0.5).error)
    assert Printed.read([0.5, 0.1]) == Printed(0.5, 0.1)
    assert Printed.read({"below": 0.0005}).below
    assert math.isnan(Printed.read(None).value)


def test_what_is_not_printed_is_shown_and_not_judged(one):
    table = compare(section({"exact": {"MIRA": None}, "narrow": {"MIRA": 0.6}}), [one])
    assert table.verdict.tolist()[0] == "not printed"
    assert table.ours.notna().all()
    assert ranking_agreement(table) == ("-", [])
