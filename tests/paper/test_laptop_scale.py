r"""Items whose models are not the paper's: printed values beside ours, and no more than the order is judged."""

import numpy as np
import pytest

import mira_bench as mb
from mira_bench.metric import Scores
from mira_bench.paper.compare import compare, ranking_agreement, status
from mira_bench.sweeps.study import Run

PAPER = {
    "rows": {"Null": {"candidate": "real"}, "VAE": {"candidate": "vae", "scale": "laptop"},
             "CDM": {"candidate": "cdm", "scale": "laptop"}},
    "columns": {"MIRA": {}, "p": {"metric": "test", "statistic": "pvalue"}},
    "printed": {"Null": {"MIRA": 0.6718, "p": 0.5}, "VAE": {"MIRA": 0.5716}, "CDM": {"MIRA": 0.6599}},
}  # fmt: skip


def run(**scores):
    found = {
        name: {
            "published": Scores(score, 0.002, 0.6708, per_fiducial=np.full(1000, score)),
            "test": Scores(0.1, pvalue=0.4),
        }
        for name, score in scores.items()
    }
    return [Run({"seed": 0}, found, {"published": mb.Mira(), "test": mb.Mmd()}, 80)]


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ({"real": 0.671, "vae": 0.5716, "cdm": 0.6599}, "laptop scale, same order"),  # the same numbers, even
        ({"real": 0.671, "vae": 0.53, "cdm": 0.65}, "laptop scale, same order"),
        ({"real": 0.671, "vae": 0.65, "cdm": 0.57}, "laptop scale, other order"),
        ({"real": 0.665, "vae": 0.55, "cdm": 0.668}, "laptop scale, same order within errors"),
    ],
)
def test_a_model_that_is_not_the_papers_is_never_reproduced(scores, words):
    table = compare(PAPER, run(**scores))
    verdicts = table[table.column == "MIRA"].set_index("row").verdict
    assert verdicts["VAE"] == verdicts["CDM"] == "laptop scale"
    assert verdicts["Null"] in ("reproduced", "differs")  # which is the paper's
    ranking, _ = ranking_agreement(table)
    assert status(table, ranking).split(";")[0] == words
    assert table.set_index(["row", "column"]).paper["VAE", "MIRA"] == 0.5716
    assert table.set_index(["row", "column"]).ours["Null", "p"] == 0.4


def test_a_size_that_does_not_exist_is_refused():
    paper = PAPER | {"rows": {**PAPER["rows"], "VAE": {"candidate": "vae", "scale": "labtop"}}}
    with pytest.raises(mb.UsageError, match="scale='labtop' is not one of laptop, paper"):
        compare(paper, run(real=0.67, vae=0.6, cdm=0.6))
