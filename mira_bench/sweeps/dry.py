r"""`dry=true`: what a run or a sweep would cost, printed in place of doing it."""

__all__ = ["dry_run", "dry_sweep"]

import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..adapters.identity import describe
from ..config import Asked, asked
from ..durations import rough
from ..errors import RunError
from ..runner.cost import Estimate, estimate
from ..runner.setup import Setup
from .jobs import Kind

if TYPE_CHECKING:
    from omegaconf import DictConfig


def dry_run(cfg: "DictConfig", task_name: str) -> int:
    r"""Prints what a run would cost, and returns the exit code."""

    def say(line: str) -> None:
        if cfg.progress:
            print(f"{line} ...", file=sys.stderr, flush=True)

    cost = estimate(*asked(cfg, task_name), report=say)
    print(f"{task_name}: {cfg.fiducials} fiducials, {cfg.samples} samples, {cfg.workers} worker(s)")
    for name, one in cost.trainings.items():
        what = f"{rough(one.simulating)} for {one.simulations} simulations, " if one.simulations else ""
        print(f"  train {name:<14} {what}about {rough(one.training)} of training ({one.note})")
    for name, seconds in cost.seconds.items():
        print(f"  {name:<20} {rough(seconds)}")
    if cost.starting:
        print(f"  start of workers     {rough(cost.starting)}")
    print(f"  whole run            {rough(cost.total)}, {cost.disk / 1e6:.1f} MB in {cfg.store}")
    return 0


def dry_sweep(kinds: Sequence[Kind], expected: int) -> int:
    r"""Prints what a sweep would cost, a line for jobs that differ in their seed alone, and returns the exit code.

    Arguments:
        kinds: The jobs that are not done.
        expected: The number of all jobs.
    """

    left = sum(len(kind.jobs) for kind in kinds)
    before = f"; {expected - left} are done already" if left < expected else ""
    print(f"{left} jobs to run{before}. Times are those of one job after the other.")
    if left:
        print(f"{'jobs':>6}{'training':>12}{'the rest':>12}{'all jobs':>12}   of")
    kept: set[str] = set()  # what the store would hold by then
    total = saved = disk = 0.0
    failed = False
    for kind in kinds:
        if not kind.jobs:
            continue
        given = asked(kind.cfg, kind.task)
        try:
            cost = estimate(*given)
        except RunError as error:
            failed = True
            print(f"{len(kind.jobs):>6}{'unknown':>36}   {kind.label}: {error}")
            continue
        learning = sum(seconds for what, _, seconds in _parts(cost, None, given) if what == "fit")
        spared = 0.0
        for seed in kind.seeds:
            setup = None if kind.cfg.store is None else _setup(given, seed)
            for _, key, seconds in _parts(cost, setup, given):
                spared += seconds if key in kept else 0.0
                kept |= {key} - {""}
        spent = cost.total * len(kind.jobs) - spared
        total, saved, disk = total + spent, saved + spared, disk + cost.disk * len(kind.jobs)
        columns = [rough(learning) if learning else "-", rough(cost.total - learning), rough(spent)]
        times = "".join(f"{column:>12}" for column in columns)
        print(f"{len(kind.jobs):>6}{times}   {kind.label}", flush=True)
    if left:
        where = f", at most {disk / 1e6:.1f} MB in {kinds[0].cfg.store}" if kinds[0].cfg.store is not None else ""
        print(f"{left:>6}{rough(total):>36}   in all{where}")
    if saved:
        print(f"{rough(saved)} are saved by what several jobs share: it is made once and kept in the store.")
    return 1 if failed else 0


def _setup(given: Asked, seed: int) -> Setup:
    return Setup.of(given.task, given.candidates, dataclasses.replace(given.settings, seed=seed, store="."))


def _parts(cost: Estimate, setup: Setup | None, given: Asked) -> Iterator[tuple[str, str, float]]:
    r"""Yields the parts of a run that a store keeps: what, its identity (empty without a store), and its seconds."""

    def identity(spec: Any) -> str:
        return json.dumps(spec, sort_keys=True)

    yield "fiducials", identity([setup.spec("fiducials", 0), setup.fiducials]) if setup else "", cost.simulating
    workers = min(given.settings.workers, len(cost.trainings) or 1)
    for name, one in cost.trainings.items():
        yield "fit", identity(setup.fit_spec(name)) if setup else "", (one.simulating + one.training) / workers
    scored = describe(dict(setup.metrics)) if setup else None
    for name, seconds in cost.seconds.items():
        key = identity([setup.samples_spec(name, 0), setup.fiducials, scored]) if setup else ""
        yield "scores", key, seconds / cost.parallel
