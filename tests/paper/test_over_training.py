r"""The figure of scores over training shows the table, and the coverage of the last run."""

from mira_bench.tasks.gaussian import Conjugate, ConjugateCandidate

import mira_bench as mb
from mira_bench.paper.compare import compare
from mira_bench.paper.figures import over_training
from mira_bench.sweeps.study import Run

METRICS = {"published": mb.Mira(regions=10, reference="drawn", scale="reference"), "tarp": mb.Tarp(regions=10)}


def made(case, candidates):
    settings = {"fiducials": 60, "samples": 20, "metrics": METRICS, "controls": False}
    return Run.keep({"case": case, "seed": 0}, mb.run(Conjugate(), candidates, **settings), METRICS, 20)


def test_the_figure_shows_what_the_table_has():
    runs = [
        made("on the way", {"net@1": ConjugateCandidate(width=0.3), "net@10": ConjugateCandidate(width=0.7)}),
        made("in the end", {"real": ConjugateCandidate(), "net": ConjugateCandidate(width=0.9)}),
    ]
    paper = {
        "title": "A network over its training",
        "rows": {
            "real": {"case": "in the end"},
            "first": {"candidate": "net@1", "case": "on the way", "model": "network", "epoch": 1},
            "tenth": {"candidate": "net@10", "case": "on the way", "model": "network", "epoch": 10},
            "last": {"candidate": "net", "case": "in the end", "model": "network", "epoch": 20, "printed_epoch": 100},
        },
        "columns": {"MIRA": {"metric": "published"}},
        "printed": {"real": {"MIRA": None}, "first": {"MIRA": 0.51}, "tenth": {"MIRA": 0.6}, "last": {"MIRA": 0.66}},
    }
    table = compare(paper, runs)
    figure = over_training(table, runs, paper)
    above, below = figure.axes
    drawn = [line.get_xydata() for line in above.lines if line.get_marker() == "o"]
    ours = table.set_index("row").loc[["first", "tenth", "last"]]
    assert [list(points) for points in drawn[0].T] == [[1, 10, 20], list(ours["ours"])]
    printed = next(line.get_xydata() for line in above.lines if line.get_markersize() == 11 and len(line.get_xdata()))
    assert [list(points) for points in printed.T] == [[1, 10, 100], [0.51, 0.6, 0.66]]
    shown = {line.get_label(): line.get_ydata() for line in below.lines}
    assert (shown["network"] == runs[1].coverage["net"][1]).all()
    assert (shown["real"] == runs[1].coverage["real"][1]).all()
