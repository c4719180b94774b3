r"""Where modules stood before the package had rooms, and what things were called before one word was one thing.

What is stored is keyed by the names of classes, and users' configs name functions by their path: a class keeps the name
that it had, and an old path leads to where a thing is now.
"""

__all__ = ["new_path", "old_names", "stable_name"]

from collections.abc import Callable
from importlib import import_module
from typing import Any

MOVED = {
    "mira_bench.canary": "mira_bench.runner.canary",
    "mira_bench.centers": "mira_bench.ranks.centers",
    "mira_bench.chains": "mira_bench.diagnostics",
    "mira_bench.cli": "mira_bench.cli.command",
    "mira_bench.cli_collect": "mira_bench.cli.collect",
    "mira_bench.cli_dry": "mira_bench.sweeps.dry",
    "mira_bench.cli_keys": "mira_bench.cli.keys",
    "mira_bench.cli_list": "mira_bench.cli.listing",
    "mira_bench.cli_paper": "mira_bench.cli.paper",
    "mira_bench.cli_plan": "mira_bench.cli.plan",
    "mira_bench.cli_reference": "mira_bench.cli.reference",
    "mira_bench.cli_score": "mira_bench.cli.score",
    "mira_bench.cli_store": "mira_bench.cli.store",
    "mira_bench.collect": "mira_bench.sweeps.collect",
    "mira_bench.distances": "mira_bench.ranks.distances",
    "mira_bench.draws": "mira_bench.adapters.posterior",
    "mira_bench.engines": "mira_bench.runner.engines",
    "mira_bench.estimate": "mira_bench.runner.cost",
    "mira_bench.files": "mira_bench.adapters.files",
    "mira_bench.fit": "mira_bench.runner.training",
    "mira_bench.formats": "mira_bench.adapters.formats",
    "mira_bench.identity": "mira_bench.adapters.identity",
    "mira_bench.jobs": "mira_bench.sweeps.jobs",
    "mira_bench.kernels": "mira_bench.ranks.compiled",
    "mira_bench.leaderboard": "mira_bench.sweeps.leaderboard",
    "mira_bench.methods": "mira_bench.ranking.trainings",
    "mira_bench.outputs": "mira_bench.report.outputs",
    "mira_bench.overview": "mira_bench.sweeps.watch",
    "mira_bench.plan": "mira_bench.ranking.power",
    "mira_bench.players": "mira_bench.ranks.players",
    "mira_bench.priors": "mira_bench.adapters.priors",
    "mira_bench.progress": "mira_bench.runner.progress",
    "mira_bench.ranking": "mira_bench.ranking.tiers",
    "mira_bench.ranks": "mira_bench.ranks.kernel",
    "mira_bench.reads": "mira_bench.adapters.reads",
    "mira_bench.reference": "mira_bench.adapters.reference",
    "mira_bench.run": "mira_bench.runner.run",
    "mira_bench.runner.plan": "mira_bench.runner.setup",
    "mira_bench.scaling": "mira_bench.ranks.scaling",
    "mira_bench.score": "mira_bench.runner.score",
    "mira_bench.scoring": "mira_bench.runner.scoring",
    "mira_bench.settings": "mira_bench.config",
    "mira_bench.simulator": "mira_bench.adapters.simulator",
    "mira_bench.source": "mira_bench.adapters.source",
    "mira_bench.store": "mira_bench.runner.store",
    "mira_bench.study": "mira_bench.sweeps.study",
    "mira_bench.sweep": "mira_bench.sweeps.sweeper",
    "mira_bench.units": "mira_bench.runner.units",
}
# What has another name now, by its old path in the module where it is now.
RENAMED = {
    "mira_bench.adapters.priors.Prior": "mira_bench.adapters.priors.GivenPrior",
    "mira_bench.adapters.reference.Reference": "mira_bench.adapters.reference.ReferencePosteriors",
    "mira_bench.config.fingerprint": "mira_bench.config.job_fingerprint",
    "mira_bench.inference.Convergence": "mira_bench.inference.ChainDiagnosis",
    "mira_bench.inference.diagnostics.Convergence": "mira_bench.inference.diagnostics.ChainDiagnosis",
    "mira_bench.paper.compare.Estimate": "mira_bench.paper.compare.Measured",
    "mira_bench.paper.folder.conclude": "mira_bench.paper.folder.write_item",
    "mira_bench.paper.folder.overview_page": "mira_bench.paper.folder.items_page",
    "mira_bench.ranking.trainings.methods": "mira_bench.ranking.trainings.method_table",
    "mira_bench.runner.setup.Plan": "mira_bench.runner.setup.Setup",
    "mira_bench.sweeps.collect.compare": "mira_bench.sweeps.collect.group_runs",
    "mira_bench.sweeps.leaderboard.display": "mira_bench.sweeps.leaderboard.display_board",
    "mira_bench.sweeps.sweeper.perform": "mira_bench.sweeps.sweeper.do_job",
    "mira_bench.sweeps.sweeper.prepare": "mira_bench.sweeps.sweeper.hydra_words",
    "mira_bench.sweeps.watch.duration": "mira_bench.durations.clock",
    "mira_bench.sweeps.watch.Overview": "mira_bench.sweeps.watch.Watch",
    "mira_bench.tasks.classic.sampler.Reference": "mira_bench.tasks.classic.sampler.Sampled",
    "mira_bench.tasks.classic.sampler.Settings": "mira_bench.tasks.classic.sampler.Effort",
    "mira_bench.tasks.classic.sampler.Target": "mira_bench.tasks.classic.sampler.NormalTarget",
    "mira_bench.tasks.classic.sampler.reference": "mira_bench.tasks.classic.sampler.sample_posterior",
    "mira_bench.tasks.linear_regression.regression.ModelPosterior": (
        "mira_bench.tasks.linear_regression.regression.LinePosterior"
    ),
}
_BEFORE = {new: old for old, new in MOVED.items()}
_CALLED_BEFORE = {new: old for old, new in RENAMED.items()}


def stable_name(module: str, name: str) -> str:
    r"""Returns the path by which the store knows a class or a function: the one that it had first.

    Arguments:
        module: The module where it is now.
        name: What it is called now, in its class if it is a method.

    Example:
        >>> stable_name("mira_bench.adapters.simulator", "Style")
        'mira_bench.simulator.Style'
    """

    head, *rest = name.split(".")
    module, _, head = _CALLED_BEFORE.get(f"{module}.{head}", f"{module}.{head}").rpartition(".")
    return ".".join([_BEFORE.get(module, module), head, *rest])


def new_path(path: str) -> str:
    r"""Returns where a path of before leads now; other paths stay.

    Example:
        >>> new_path("mira_bench.files.Files")
        'mira_bench.adapters.files.Files'
    """

    module, _, name = path.rpartition(".")
    path = f"{MOVED.get(module, module)}.{name}" if module else path
    return RENAMED.get(path, path)


def old_names(module: str) -> Callable[[str], Any]:
    r"""Returns the `__getattr__` of a module whose things users import: old names lead to what they stood for.

    Arguments:
        module: The name of the module.
    """

    def find(name: str) -> Any:
        path = f"{module}.{name}"
        if path not in RENAMED:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(module), RENAMED[path].rpartition(".")[2])

    return find
