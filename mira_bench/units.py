r"""The units of a run: a candidate on a block of fiducials, sampled and scored.

A unit has its own random streams, its results go to the store as soon as they exist, and samples are dropped unless
they are asked to stay. So memory is bounded, a killed run goes on where it stopped, and neither the order of the work
nor the number of workers changes a bit of the result.
"""

__all__ = ["Outcome", "Plan", "draw_reference", "forget", "observe", "simulate", "work"]

import dataclasses
import functools
import math
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, as_array, as_host, flat, refuse_non_finite
from .candidate import Candidate, Draws
from .errors import RunError, SimulationError, UsageError
from .fiducials import Fiducials, refuse_bad_data
from .fit import State, Training, reason_of
from .metric import MISSING, Block, Metric, Record
from .scaling import Scaling
from .store import Store, describe, digest
from .streams import generator
from .task import BLOCK, Task

Outcome = Record | str  # what a metric saw in a block, or why it cannot be computed
_BUILT: dict[tuple[str, str], Any] = {}  # the posteriors of the run that this process works for


@dataclass(frozen=True)
class Plan:
    r"""All that determines the results of a run, and where they are kept."""

    name: str
    task: Task
    candidates: Mapping[str, Candidate]
    metrics: Mapping[str, Metric]
    fiducials: int
    samples: int
    seed: int
    store: Store
    keep_samples: bool = False
    device: str | None = None
    identity: dict[str, Any] = field(default_factory=dict)
    trainings: Mapping[str, Training] = field(default_factory=dict)
    fits: Mapping[str, State] = field(default_factory=dict)
    token: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def size(self) -> int:
        r"""The number of fiducials in a block."""
        return int(getattr(self.task, "block", BLOCK))

    @property
    def blocks(self) -> range:
        return range(math.ceil(self.fiducials / self.size))

    def count(self, block: int) -> int:
        r"""The number of fiducials of a block that belong to this run; the last block may be cut."""
        return min(self.size, self.fiducials - block * self.size)

    def spec(self, kind: str, block: int, **more: Any) -> dict[str, Any]:
        r"""The identity of something in the store: all that determines its content."""
        base = {"kind": kind, "task_name": self.name, "task": self.identity, "seed": self.seed}
        return base | {"block": block, "size": self.size} | more

    def samples_spec(self, name: str, block: int) -> dict[str, Any]:
        candidate = describe(self.candidates[name]) if self.store.root is not None else None
        more = {"training": self.trainings[name].seed} if name in self.trainings else {}
        return self.spec("samples", block, candidate_name=name, candidate=candidate, samples=self.samples) | more

    def fit_spec(self, name: str) -> dict[str, Any]:
        training, candidate = self.trainings[name], self.candidates[name]
        trainer = describe(getattr(candidate, "trainer", candidate)) if self.store.root is not None else None
        spec = {"kind": "fit", "task_name": self.name, "task": self.identity, "seed": self.seed}
        return spec | {"candidate_name": training.method, "candidate": trainer, "training": training.seed}

    def record_spec(self, name: str, block: int, metric: Metric, scaling: Scaling) -> dict[str, Any]:
        spec = self.samples_spec(name, block)
        if self.store.root is None:
            return spec
        normalize = scaling.resolve(getattr(metric, "normalize", "auto"))
        # Under a scale that the task fixes, or that the block finds by itself, a larger run extends a smaller one.
        by_truths = getattr(metric, "scaled", hasattr(metric, "normalize"))
        by_truths = by_truths and normalize in ("others", "truths", "scalar", "pooled")
        by_truths |= getattr(metric, "centers", None) == "prior"
        by_truths |= metric.name == "calibration" and scaling.task is None  # its trend needs a common range
        ruler = digest(scaling.truths, *(scaling.pooled or ())) if by_truths else None
        return spec | {
            "kind": "record",
            "metric_name": metric.name,
            "metric": describe(metric) | {"version": metric.version},
            "count": self.count(block),
            "ruler": ruler,
        }


def simulate(plan: Plan, block: int) -> Fiducials:
    r"""Returns a block of fiducials, from the store or fresh."""
    spec = plan.spec("fiducials", block)
    stored = plan.store.get(spec)
    if stored is None:
        rng = generator(plan.seed, "data", plan.name, block)
        try:
            drawn = plan.task.simulate(plan.size, rng)
        except SimulationError as error:
            raise SimulationError(f"task {plan.name!r}, fiducials: {error}") from error
        except Exception as error:
            raise RunError(
                f"task {plan.name!r} failed to simulate fiducials (block {block}): {type(error).__name__}: {error}"
            ) from error
        if len(drawn) != plan.size:
            raise RunError(f"task {plan.name!r} simulated {len(drawn)} fiducials where {plan.size} were asked for")
        stored = {
            key: np.asarray(as_array(value, f"{key} of task {plan.name!r}") if key != "group" else value)
            for key, value in (("y", drawn.y), ("x", drawn.x), ("group", drawn.group))
            if value is not None
        }
        refuse_non_finite(stored["y"], f"y of task {plan.name!r} (block {block})")
        if "x" in stored:
            names = getattr(plan.task, "names", None)
            refuse_bad_data(stored["y"], stored["x"], names, f"task {plan.name!r}, fiducials: ")
        plan.store.put(spec, stored)
    return Fiducials(stored["y"], stored.get("x"), stored.get("group"))


def _observations(fiducials: Fiducials) -> Array:
    return np.empty((len(fiducials), 0)) if fiducials.x is None else fiducials.x


def _build(plan: Plan, name: str) -> Any:
    r"""Returns a posterior. A process makes it once in a run."""
    if any(token != plan.token for token, _ in _BUILT):
        _BUILT.clear()
    if (plan.token, name) not in _BUILT:
        candidate: Any = plan.candidates[name]
        if name in plan.fits:
            made = candidate.load(plan.task, plan.fits[name])
        else:
            made = candidate.build(plan.task, generator(plan.seed, "build", plan.name, name))
        _BUILT[plan.token, name] = made
    return _BUILT[plan.token, name]


def _sample(plan: Plan, name: str, block: int, fiducials: Fiducials, posterior: Any) -> Draws:
    spec = plan.samples_spec(name, block)
    stored = plan.store.get(spec)
    if stored is not None:
        return Draws.from_arrays(stored)
    x = _observations(fiducials)
    draws = Draws.of(posterior.sample(x, plan.samples, generator(plan.seed, "samples", plan.name, name, block)))
    values = as_array(draws.values, f"the samples of candidate {name!r}")
    wanted = (len(fiducials), plan.samples, *fiducials.event)
    if tuple(values.shape) != wanted:
        raise UsageError(
            f"candidate {name!r} returned samples of shape {tuple(values.shape)}; {wanted} is needed: "
            f"{plan.samples} samples for each of {len(fiducials)} observations"
        )
    draws = dataclasses.replace(draws, values=values)
    if plan.keep_samples:
        plan.store.put(spec, draws.to_arrays())
    return draws


def draw_reference(plan: Plan, block: int, fiducials: Fiducials) -> Draws:
    r"""Returns reference samples for a block, from the store or fresh: the same ones for every candidate.

    Their random stream is their own, so the oracle, which samples the same posterior, is as far from them as chance is.
    """
    spec = plan.spec("reference", block, samples=plan.samples)
    stored = plan.store.get(spec)
    if stored is not None:
        return Draws.from_arrays(stored)
    exact: Any = plan.task.exact_posterior()  # type: ignore[attr-defined]
    rng = generator(plan.seed, "reference", plan.name, block)
    draws = Draws.of(exact.sample(_observations(fiducials), plan.samples, rng))
    draws = dataclasses.replace(draws, values=as_array(draws.values, "the reference samples"))
    plan.store.put(spec, draws.to_arrays())
    return draws


def observe(block: Block, metrics: Mapping[str, Metric]) -> dict[str, Outcome]:
    r"""Lets metrics look at a block. A metric that does not apply gives its reason in place of a record."""

    outcomes: dict[str, Outcome] = {}
    for name, metric in metrics.items():
        lacking = next((need for need in getattr(metric, "needs", ()) if getattr(block, need) is None), None)
        if lacking is not None:
            outcomes[name] = MISSING[lacking]
            continue
        try:
            outcomes[name] = metric.observe(block)
        except UsageError as error:
            outcomes[name] = str(error)
    return outcomes


def _extras(plan: Plan, block: int, fiducials: Fiducials, count: int, posterior: Any, draws: Draws) -> dict[str, Any]:
    r"""What only some metrics look at, computed when they do: reference samples, densities, evidences, diagnostics."""
    part = fiducials[:count]
    x = _observations(part)
    exact: Any = plan.task.exact_posterior() if hasattr(plan.task, "exact_posterior") else None
    extras: dict[str, Any] = {}
    if draws.diagnostics:
        extras["diagnostics"] = {key: np.asarray(v, np.float64)[:count] for key, v in draws.diagnostics.items()}
    if exact is not None:

        @functools.cache
        def reference() -> NDArray:
            return flat(draw_reference(plan, block, fiducials).values, 2)[:count]

        extras["reference"] = reference
    if hasattr(posterior, "log_prob"):

        def log_prob() -> NDArray:
            points = np.concatenate([np.asarray(part.y)[:, None], as_host(draws.values[:count])], axis=1)
            return np.asarray(posterior.log_prob(points, x), np.float64)

        extras["log_prob"] = log_prob
    if draws.log_evidence is not None or hasattr(posterior, "log_evidence"):

        def log_evidence() -> NDArray:
            own = posterior.log_evidence(x) if draws.log_evidence is None else draws.log_evidence[:count]
            true = [exact.log_evidence(x)] if hasattr(exact, "log_evidence") else []
            return np.stack([own, *true], axis=1)

        extras["log_evidence"] = log_evidence
    return extras


def work(
    plan: Plan, name: str, block: int, fiducials: Fiducials, scaling: Scaling
) -> tuple[str, int, dict[str, Outcome] | None, str, float]:
    r"""Samples and scores one candidate on one block; a failure is a reason, not an exception."""
    start = time.perf_counter()
    try:
        specs = {key: plan.record_spec(name, block, m, scaling) for key, m in plan.metrics.items()}
        outcomes: dict[str, Outcome] = {}
        for key, spec in specs.items():
            stored = plan.store.get(spec)
            if stored is not None:
                outcomes[key] = stored
        missing = {key: metric for key, metric in plan.metrics.items() if key not in outcomes}
        if missing:
            count = plan.count(block)
            posterior = _build(plan, name)
            draws = _sample(plan, name, block, fiducials, posterior)
            values = draws.values[:count]
            if isinstance(values, np.ndarray):
                refuse_non_finite(flat(values, 2), f"candidate {name!r}", block * plan.size)
            if plan.device not in (None, "cpu"):
                import torch

                values = torch.as_tensor(values, device=plan.device)
            part = fiducials[:count]
            looked_at = Block(
                truths=part.truths,
                samples=flat(values, 2),
                index=np.arange(block * plan.size, block * plan.size + count),
                scaling=scaling,
                seed=plan.seed,
                name=f"candidate {name!r}",
                groups=part.group,
                x=part.x,
                **_extras(plan, block, fiducials, count, posterior, draws),
            )
            fresh = observe(looked_at, missing)
            for key, outcome in fresh.items():
                if not isinstance(outcome, str):
                    plan.store.put(specs[key], outcome)
            outcomes |= fresh
        return name, block, outcomes, "", time.perf_counter() - start if missing else 0.0
    except Exception as error:
        return name, block, None, reason_of(error), time.perf_counter() - start


def forget() -> None:
    r"""Drops the posteriors that this process built."""
    _BUILT.clear()
