r"""The verb `reference`: samples of the exact or reference posteriors of tasks, made ahead and kept in the store."""

__all__ = ["main"]

import argparse
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._version import __version__
from ..adapters.reference import ReferencePosteriors, save
from ..candidate import Draws
from ..config import make
from ..errors import UsageError
from ..fiducials import Fiducials
from ..runner.engines import Engine
from ..runner.progress import Progress
from ..runner.setup import Settings, Setup
from ..runner.training import learn_task
from ..runner.units import draw_reference, simulate
from .keys import check, explain

if TYPE_CHECKING:
    from omegaconf import DictConfig

KEYS = ("task", "fiducials", "samples", "seed", "workers", "store", "parallel")


def _compose(task: str, words: Sequence[str], configs: str | None) -> "DictConfig":
    from hydra import compose, initialize_config_module
    from hydra.errors import HydraException

    try:
        with initialize_config_module("mira_bench.configs", version_base="1.3"):
            path = [] if configs is None else [f"hydra.searchpath=[{json.dumps(str(Path(configs).absolute()))}]"]
            return compose("config", [f"task={task}", *words, *path])
    except HydraException as error:
        raise UsageError(explain(error)) from error


def _setup(task: str, cfg: "DictConfig") -> Setup:
    if "model" not in cfg.task:
        raise UsageError(f"task={task} has no model: there is nothing to draw a reference from")
    model = make(cfg.task.model)
    if not hasattr(model, "exact_posterior"):
        raise UsageError(f"task={task} has no exact posterior to draw a reference from")
    sizes = {"fiducials": cfg.fiducials, "samples": cfg.samples, "seed": cfg.seed}
    return Setup.of(model, {}, Settings(**sizes, metrics=["mira"], store=cfg.store, controls=False, name=task))


def _unit(setup: Setup, block: int) -> tuple[int, Fiducials, Draws, bool]:
    found = setup.spec("reference", block, samples=setup.samples) in setup.store
    fiducials, count = simulate(setup, block), setup.count(block)
    draws = draw_reference(setup, block, fiducials)
    evidence = None if draws.log_evidence is None else draws.log_evidence[:count]
    told = {key: value[:count] for key, value in draws.diagnostics.items()}
    return block, fiducials[:count], Draws(draws.values[:count], evidence, told), found


def _generate(setup: Setup, engine: Engine) -> tuple[Fiducials, Draws, int]:
    r"""Makes all blocks, or takes those that are in the store, and counts the posteriors of the latter."""
    units = engine.map(_unit, ((setup, block) for block in setup.blocks))
    parts = sorted(units, key=lambda part: part[0])
    draws = [part[2] for part in parts]
    told = {key: np.concatenate([d.diagnostics[key] for d in draws]) for key in draws[0].diagnostics}
    evidences = [d.log_evidence for d in draws if d.log_evidence is not None]
    evidence = np.concatenate(evidences) if evidences else None
    values = np.concatenate([np.asarray(d.values) for d in draws])
    found = setup.size * sum(part[3] for part in parts)
    return Fiducials.concatenate([part[1] for part in parts]), Draws(values, evidence, told), found


def main(arguments: Sequence[str], configs: str | None = None) -> int:
    r"""Makes references.

    Arguments:
        arguments: The words after the verb.
        configs: A folder of the user's own configs.
    """

    parser = argparse.ArgumentParser(
        prog="mira-bench reference",
        description="Samples of the exact or reference posteriors of tasks, kept in the store for later runs.",
        epilog="A run takes them from the store if fiducials (or fewer), samples and seed are the same.",
    )
    parser.add_argument(
        "settings", nargs="+", metavar="key=value", help="task=NAME[,NAME] fiducials= samples= seed= workers= store="
    )
    parser.add_argument("--ship", type=Path, metavar="FOLDER", help="also write FOLDER/NAME.npz")
    chosen = parser.parse_intermixed_args(arguments)
    check(chosen.settings)
    tasks: list[str] = []
    words = []
    for word in chosen.settings:
        key = re.split(r"[.=]", word)[0]
        if "=" not in word or key not in KEYS:
            raise UsageError(f"{word!r} has no meaning for a reference; it takes {', '.join(f'{k}=' for k in KEYS)}")
        if word.startswith("task="):
            tasks = word.removeprefix("task=").split(",")
        else:
            words.append(word)
    if not tasks:
        raise UsageError("which task? For example: reference task=slcp")
    rows = []
    made = found = 0
    for task in tasks:
        cfg = _compose(task, words, configs)
        setup = _setup(task, cfg)
        start = time.perf_counter()
        engine = Engine(cfg.workers, **cfg.parallel)
        setup = learn_task(setup, engine, Progress(False))
        fiducials, draws, known = _generate(setup, engine)
        seconds = time.perf_counter() - start
        found, made = found + known, made + setup.size * len(setup.blocks) - known
        told = draws.diagnostics
        rhat = f"{told['rhat'].max():.4f}" if "rhat" in told else "exact"
        ess = f"{told['ess_bulk'].min():.0f}" if "ess_bulk" in told else "exact"
        rows.append((task, str(len(fiducials)), str(setup.samples), rhat, ess, f"{seconds:.1f}"))
        if chosen.ship is not None:
            chosen.ship.mkdir(parents=True, exist_ok=True)
            facts = {"task": task, "task_version": setup.task.version, "seed": setup.seed, "mira_bench": __version__}
            facts |= {"command": f"python -m mira_bench reference task={task} {' '.join(words)}".strip()}
            save(ReferencePosteriors(fiducials, draws, facts), chosen.ship / f"{task}.npz")
    _print(rows)
    _print_use(made, found, cfg, tasks, words)
    if chosen.ship is not None:
        print(f"Copies to take along: {', '.join(str(chosen.ship / f'{task}.npz') for task in tasks)}")
    return 0


def _print_use(made: int, found: int, cfg: "DictConfig", tasks: Sequence[str], words: Sequence[str]) -> None:
    r"""Says where references are, and how a run finds them."""
    kept = f"They are in the store {cfg.store}" if cfg.store is not None else "store=null: nothing was kept"
    print(f"Reference posteriors (blocks are made whole): {made} made, {found} found already. {kept}.")
    if cfg.store is not None:
        command = " ".join(["python -m mira_bench", f"task={tasks[0]}", *words, "'metrics=[mira,c2st,mmd]'"])
        print(f"Metrics that compare with a reference take them from there, for these settings: {command}")


def _print(rows: Sequence[tuple[str, ...]]) -> None:
    from rich import box
    from rich.table import Table

    from ..report.screen import screen

    table = Table(box=box.SIMPLE_HEAD)
    for i, title in enumerate(("task", "fiducials", "samples", "max R-hat", "min ESS bulk", "seconds")):
        table.add_column(title, justify="right" if i else "left")
    for row in rows:
        table.add_row(*row)
    screen().print(table)
