r"""Where modules stood before the package had rooms.

What is stored is keyed by the names of classes, and users' configs name functions by their path: a class keeps the name
that it had, and an old path leads to where a thing is now.
"""

__all__ = ["new_path", "stable_name"]

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
    "mira_bench.ranking.trainings.methods": "mira_bench.ranking.trainings.method_table",
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
