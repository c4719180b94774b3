r"""The items: every one runs from its config, and two tables agree with the paper at a reduced size."""

import json
from importlib import resources

import pandas as pd
import pytest
from omegaconf import OmegaConf

import mira_bench as mb
from mira_bench.cli.command import main
from mira_bench.paper.catalogue import items, runnable

pytestmark = pytest.mark.usefixtures("elsewhere")

# What makes each item a matter of a second or two; the numbers are then only looked at for being there.
FOREST = ["metric.c2st.fiducials=1", "metric.c2st.trees=2"]
GALAXY = [
    "task.model.size=8",
    "task.model.lens.pixels=8",
    "task.model.count=10",
    "task.model.trainer.mixture.rank=4",
    "task.model.trainer.mixture.components=2",
    "keep_samples=false",
]
TRAINED = [
    *GALAXY,
    "candidates=[spiral_2_trained,spiral_05_trained,elliptical_2_trained,elliptical_05_trained,spiral_2]",
    *(
        f"task.candidates.{name}_trained.{key}"
        for name in ("spiral_2", "spiral_05", "elliptical_2", "elliptical_05")
        for key in (
            "sampler.steps=3",
            "trainer.epochs=1",
            "trainer.architecture={nf:4,ch_mult:[1],num_res_blocks:1,attention:false,fir:false}",
        )
    ),
]


def inverse(item):
    r"""The words that make the samplers of an item take a second."""
    config = OmegaConf.load(resources.files("mira_bench.configs") / "experiment" / f"{item}.yaml")
    small = ["problem.size=8", "trainer.size=8", "trainer.count=40", "trainer.mixture.rank=4"]
    return [
        "fiducials=3",
        "samples=6",
        "keep_samples=false",
        *(f"task.model.{word}" for word in small),
        *(f"task.candidates.{name}.sampler.steps=4" for name in config.candidates),
    ]


TINY = {
    "galaxy_trained": ["fiducials=4", "samples=8", *TRAINED],
    "num_ground_truths_trained": ["samples=8", *TRAINED],
    "mri": inverse("mri"),
    "black_hole": inverse("black_hole"),
    "center_distribution_support": ["fiducials=30", "samples=20"],
    "lensing": [
        "task=lensing/small",
        "fiducials=3",
        "samples=40",
        "keep_samples=false",
        "task.model.pixels=12",
        *(
            f"task.candidates.{name}.smc={{particles:12,chains:4,warmup:1,draws:12}}"
            for name in ("epl_3", "sie_3", "epl_1", "sie_1")
        ),
    ],
    "bf_linear": ["fiducials=30", "samples=20"],
    "bf_linear_literal": ["fiducials=30", "samples=20"],
    "bf_gmm": ["fiducials=30", "samples=20", "study.repeats=2"],
    "performance": ["fiducials=20", "samples=20", *FOREST, "metric.c2st.classifier=forest"],
    "tails_2d": ["fiducials=20", "samples=20", *FOREST],
    "tails_100d": ["fiducials=20", "samples=20", *FOREST],
    "lc2st": ["fiducials=40", "samples=20", "study.repeats=1", "metric.lc2st.trials=1", "metric.lc2st.fiducials=1"],
    "uninformative": ["fiducials=30", "samples=20"],
    "dimension": ["fiducials=30", "samples=20", "study.repeats=2"],
    "regions": ["fiducials=30", "samples=20", "study.repeats=2"],
    "samples": ["fiducials=30", "study.repeats=2"],
    "fiducials": ["samples=20"],
    "distance": ["fiducials=30", "samples=20"],
    "galaxy": ["fiducials=4", "samples=8", *GALAXY],
    "num_ground_truths": ["samples=8", *GALAXY],
    "distance_metric": ["fiducials=4", "samples=8", *GALAXY],
    "sbibm": [
        "fiducials=3",
        "samples=40",
        "metric.c2st.fiducials=1",
        *(
            f"candidate.{name}.{key}"
            for name in ("npe", "npe_sbibm")
            for key in ("budget=40", "training.max_num_epochs=1")
        ),
    ],
    "centers": ["fiducials=30", "samples=20"],
    "metric_comp": [
        "fiducials=30",
        "samples=4",
        "keep_samples=false",
        "views=[all,clip,min_max,binarize]",
        "task.candidates.cvae.trainer.epochs=1",
        "task.candidates.diffusion.steps=2",
        "task.candidates.diffusion.trainer.batch=512",
        "+task.candidates.diffusion.trainer.architecture={nf:4,ch_mult:[1],num_res_blocks:1,attention:false,fir:false}",
    ],
    "mnist": [
        "fiducials=20",
        "keep_samples=false",
        "study.cases.on_the_way.samples=4",
        "study.cases.in_the_end.samples=4",
        "task.candidates.cvae.trainer.epochs=100",  # its checkpoints are rows of the table
        "task.candidates.diffusion.trainer.epochs=10",
        "task.candidates.diffusion.steps=2",
        "+task.candidates.diffusion.trainer.architecture={nf:4,ch_mult:[1],num_res_blocks:1,attention:false,fir:false}",
        "+task.candidates.mixture.trainer={_target_:mira_bench.inference.diffusion.mixture.MixtureTrainer,rank:3,components:1}",
    ],
    "projections_10": ["fiducials=30", "samples=10", "study.repeats=2"],
    "projections_50": ["fiducials=30", "samples=10", "study.repeats=2"],
    "projections_100": ["fiducials=30", "samples=10", "study.repeats=2"],
}


def paper(item, *words):
    return main(["paper", item, "workers=1", "progress=false", "store=null", *words])


@pytest.mark.usefixtures("plain_figures")  # those of the tests below are drawn
@pytest.mark.parametrize("item", runnable())
def test_every_item_runs_at_a_tiny_size(elsewhere, item, capsys, monkeypatch, request):
    if item.startswith(("metric_comp", "projections", "mnist")):  # on images that need no network
        few = "few_digits_folder" if item == "mnist" else "digits_folder"
        monkeypatch.setenv("MIRA_BENCH_MNIST", str(request.getfixturevalue(few)))
    monkeypatch.setattr(mb.Result, "save_figures", lambda *_: None)  # the item has a figure of its own
    assert paper(item, "--quick", "regions=4", *TINY[item]) == 0
    folder = elsewhere / "results" / "runs" / "paper" / item
    names = {file.name for file in folder.iterdir()}
    assert names >= {"table.csv", "table.md", "table.tex", "figure.png", "figure.pdf", "notes.md", "config.yaml"}
    table = pd.read_csv(folder / "table.csv", dtype={"row": str})
    wanted = ["row", "column", "paper", "paper_error", "ours", "ours_error", "z", "verdict"]
    assert list(table.columns[:8]) == wanted
    assert table.ours.notna().all()
    assert table.paper.notna().equals(table.verdict != "not printed")
    assert set(table.verdict) <= {"reproduced", "differs", "open", "not printed", "laptop scale"}
    notes = (folder / "notes.md").read_text()
    assert "Not the paper's experiment but a changed one" in notes
    assert f"python -m mira_bench paper {item} --quick workers=1 progress=false store=null regions=4" in notes
    assert item in capsys.readouterr().out
    # A quick look does not become evidence.
    assert not (elsewhere / "results" / "paper").exists()


def test_the_toy_agrees_with_the_paper_at_a_reduced_size(elsewhere):
    assert paper("center_distribution_support", "fiducials=300", "samples=500", "regions=100") == 0
    folder = elsewhere / "results" / "runs" / "paper"
    table = pd.read_csv(folder / "center_distribution_support" / "table.csv")
    assert len(table) == 16
    # 16 cells, correlated: 4 standard errors.
    assert table.z.abs().max() < 4
    assert table.ours_error.between(0.001, 0.006).all()
    # The paper's side has 1000 fiducials, ours 300; four digits are printed.
    error = (table.ours_error**2 * (1 + 300 / 1000) + 1e-8 / 12) ** 0.5
    assert ((table.ours - table.paper) / error - table.z).abs().max() < 1e-9


def test_linear_regression_agrees_with_the_paper_at_a_reduced_size(elsewhere):
    assert paper("bf_linear", "fiducials=400", "samples=1000", "regions=50") == 0
    folder = elsewhere / "results" / "runs" / "paper" / "bf_linear"
    table = pd.read_csv(folder / "table.csv", dtype={"row": str})
    assert table[table.column == "MIRA"].z.abs().max() < 4
    assert table[table.column == "BF"].z.abs().max() < 4
    scores = table[table.column == "MIRA"].set_index("row").ours
    assert scores["0.001"] > scores["0.01"] > scores["0.1"] > scores["0.25"]
    facts = json.loads((folder / "provenance.json").read_text())
    assert facts["paper"]["ranking"] in ("same", "same within errors")


def test_the_literal_reading_does_not(elsewhere):
    assert paper("bf_linear_literal", "fiducials=200", "samples=200", "regions=20") == 0
    folder = elsewhere / "results" / "runs" / "paper" / "bf_linear_literal"
    table = pd.read_csv(folder / "table.csv", dtype={"row": str}).set_index(["row", "column"])
    assert table.ours["0.25", "MIRA"] > 0.70
    assert table.verdict["0.25", "MIRA"] == "differs"
    assert "(changed)" in (folder / "notes.md").read_text()


def test_an_unchanged_item_becomes_evidence(elsewhere):
    assert paper("uninformative") == 0
    folder = elsewhere / "results" / "paper"
    assert "uninformative/notes.md" in (folder / "README.md").read_text()
    notes = (folder / "uninformative" / "notes.md").read_text()
    assert "Not the paper's experiment" not in notes
    assert "`python -m mira_bench paper uninformative workers=1 progress=false store=null`" in notes
    assert pd.read_csv(folder / "uninformative" / "table.csv").verdict.tolist() == ["reproduced", "reproduced"]


def test_the_list_has_every_item(elsewhere, capsys):
    assert main(["paper"]) == 0
    text = capsys.readouterr().out
    for item in items(elsewhere):
        assert item.id[:10] in text


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nothing"], "the paper has no item 'nothing'"),
        (["illustration"], "illustration is not implemented yet (an illustration, drawn by python docs/regions.py)"),
        (["seed=1"], "of which item"),
        (["bf_linear", "nonsense=1"], "there is no key 'nonsense'"),
    ],
)
def test_bad_usage(words, sentence, capsys):
    assert main(["paper", *words]) == 2
    assert sentence in capsys.readouterr().err
