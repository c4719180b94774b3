r"""The settings of samplers are those that tuning found, on the grid that the config of the tuning has."""

import runpy
from pathlib import Path

import pytest
from hydra import compose, initialize_config_module
from hydra.utils import instantiate
from omegaconf import OmegaConf

from mira_bench.report.tables import read_table

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results" / "tune_inverse"
TUNINGS = {
    "mri": ("tune_inverse", "mri"),
    "scattering": ("tune_inverse", "scattering"),
    "black_hole": ("tune_inverse", "black_hole"),
    "black_hole/closure": ("tune_closures", "black_hole_closure"),
}


@pytest.mark.parametrize("task", TUNINGS)
def test_settings_of_a_task_are_the_best_of_their_method(task):
    experiment, folder = TUNINGS[task]
    with initialize_config_module("mira_bench.configs", version_base="1.3"):
        ours = OmegaConf.to_container(compose("config", [f"task={task}"]).task.candidates)
        tuning = compose("config", [f"experiment={experiment}", f"task={task}"])
    grid = {name: OmegaConf.to_container(tuning.task.candidates[name]) for name in tuning.candidates}
    ranking = read_table(RESULTS / folder / "ranking.csv").sort_values("energy").candidate
    assert set(ranking) == set(grid)
    samplers = {name: one for name, one in ours.items() if "sampler" in one}
    assert len(samplers) >= 5
    for name, one in samplers.items():
        kind = one["sampler"]["_target_"]
        assert name == next(best for best in ranking if grid[best]["sampler"]["_target_"] == kind)
        assert one == grid[name]


def test_the_published_constants_of_the_documents_are_the_defaults():
    documents = runpy.run_path(str(ROOT / "docs" / "samplers.py"))
    with initialize_config_module("mira_bench.configs", version_base="1.3"):
        grid = compose("config", ["experiment=tune_inverse"]).task.candidates
    assert set(documents["DEFAULTS"]) == set(documents["METHODS"])
    for name in documents["DEFAULTS"].values():
        sampler = instantiate(grid[name].sampler)
        assert sampler == type(sampler)(), name
