r"""The units of a run: a candidate on a block of fiducials, sampled and scored.

A unit has its own random streams, its results go to the store as soon as they exist, and samples are dropped unless
they are asked to stay. So memory is bounded, a killed run goes on where it stopped, and neither the order of the work
nor the number of workers changes a bit of the result.
"""

__all__ = ["draw_fiducials", "draw_reference", "forget", "reference_samples", "remake", "simulate", "work"]

import dataclasses
import functools
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..adapters.identity import digest, edited
from ..adapters.reads import listening
from ..arrays import Array, as_array, as_host, flat, is_device_tensor, refuse_non_finite
from ..candidate import Draws
from ..errors import RunError, SimulationError, UsageError
from ..fiducials import Fiducials, refuse_bad_data
from ..metric import Block
from ..ranks.scaling import Scaling
from ..streams import forked, generator
from .plan import Plan
from .scoring import Outcome, observe
from .training import reason_of

log = logging.getLogger("mira_bench")

# The posteriors of the run that this process works for, and the files that they were made of.
_BUILT: dict[tuple[str, str], tuple[Any, dict[str, str]]] = {}


def draw_fiducials(plan: Plan, block: int) -> dict[str, NDArray]:
    r"""Simulates a block of fiducials."""
    rng = generator(plan.seed, "data", plan.name, block)
    try:
        with forked(plan.seed, "data", plan.name, block):
            drawn = plan.task.simulate(plan.size, rng)
    except SimulationError as error:
        raise SimulationError(f"task {plan.name!r}, fiducials: {error}") from error
    except Exception as error:
        raise RunError(
            f"task {plan.name!r} failed to simulate fiducials (block {block}): {type(error).__name__}: {error}"
        ) from error
    if len(drawn) != plan.size:
        raise RunError(f"task {plan.name!r} simulated {len(drawn)} fiducials where {plan.size} were asked for")
    made = {
        key: np.asarray(as_array(value, f"{key} of task {plan.name!r}") if key != "group" else value)
        for key, value in (("y", drawn.y), ("x", drawn.x), ("group", drawn.group))
        if value is not None
    }
    refuse_non_finite(made["y"], f"y of task {plan.name!r} (block {block})")
    if "x" in made:
        names = getattr(plan.task, "names", None)
        refuse_bad_data(made["y"], made["x"], names, f"task {plan.name!r}, fiducials: ")
    return made


def simulate(plan: Plan, block: int) -> Fiducials:
    r"""Returns a block of fiducials, from the store or fresh."""
    spec = plan.spec("fiducials", block)
    stored = plan.store.get(spec)
    if stored is None:
        start = time.perf_counter()
        with listening() as heard:
            stored = draw_fiducials(plan, block)
        plan.store.put(spec, stored, time.perf_counter() - start, reads=heard.hashes())
    return Fiducials(stored["y"], stored.get("x"), stored.get("group"))


def _observations(fiducials: Fiducials) -> Array:
    return np.empty((len(fiducials), 0)) if fiducials.x is None else fiducials.x


def _build(plan: Plan, name: str) -> tuple[Any, dict[str, str]]:
    r"""Returns a posterior, and the hashes of the files that it was made of. A process makes it once in a run."""
    if any(token != plan.token for token, _ in _BUILT):
        _BUILT.clear()
    if (plan.token, name) not in _BUILT:
        changed = edited(plan.identity.code)
        if changed is not None:
            raise UsageError(f"{changed} was edited while the run was under way: start it again")
        candidate: Any = plan.candidates[name]
        with listening() as heard, forked(plan.seed, "build", plan.name, name):
            if name in plan.fits:
                made = candidate.load(plan.task, plan.fits[name])
            else:
                made = candidate.build(plan.task, generator(plan.seed, "build", plan.name, name))
        _BUILT[plan.token, name] = made, heard.hashes()
    return _BUILT[plan.token, name]


def _draw(plan: Plan, name: str, block: int, fiducials: Fiducials, posterior: Any) -> Draws:
    purpose = ("samples", plan.name, name, block)
    with forked(plan.seed, *purpose):
        draws = Draws.of(posterior.sample(_observations(fiducials), plan.samples, generator(plan.seed, *purpose)))
    values = as_array(draws.values, f"the samples of candidate {name!r}")
    wanted = (len(fiducials), plan.samples, *fiducials.event)
    if tuple(values.shape) != wanted:
        raise UsageError(
            f"candidate {name!r} returned samples of shape {tuple(values.shape)}; {wanted} is needed: "
            f"{plan.samples} samples for each of {len(fiducials)} observations"
        )
    if plan.samples == len(fiducials) > 1:
        _refuse_swapped(plan, name, block, fiducials, posterior)
    return dataclasses.replace(draws, values=values)


def _refuse_swapped(plan: Plan, name: str, block: int, fiducials: Fiducials, posterior: Any) -> None:
    r"""Raises if a posterior gives samples first: with as many samples as observations the shape does not show it."""
    purpose = ("layout", plan.name, name, block)
    with forked(plan.seed, *purpose):
        first = posterior.sample(_observations(fiducials)[:1], plan.samples, generator(plan.seed, *purpose))
    shape = tuple(Draws.of(first).values.shape)
    if shape[:2] != (1, plan.samples):
        raise UsageError(
            f"candidate {name!r} returned samples of shape {shape} for one observation; (1, {plan.samples}, *event) is "
            "needed: fiducials first, then samples"
        )


def _sample(
    plan: Plan, name: str, block: int, fiducials: Fiducials, posterior: Any, made_of: Mapping[str, str]
) -> Draws:
    spec = plan.samples_spec(name, block)
    stored = plan.store.get(spec)
    if stored is not None:
        return Draws.from_arrays(stored)
    start = time.perf_counter()
    with listening() as heard:
        draws = _draw(plan, name, block, fiducials, posterior)
    if plan.keep_samples:
        plan.store.put(spec, draws.to_arrays(), time.perf_counter() - start, reads=heard.hashes() | dict(made_of))
    return draws


def reference_samples(plan: Plan, block: int, fiducials: Fiducials) -> Draws:
    r"""Draws reference samples for a block: the same ones for every candidate.

    Their random stream is their own, so the oracle, which samples the same posterior, is as far from them as chance is.
    """
    exact: Any = plan.task.exact_posterior()  # type: ignore[attr-defined]
    purpose = ("reference", plan.name, block)
    with forked(plan.seed, *purpose):
        draws = Draws.of(exact.sample(_observations(fiducials), plan.samples, generator(plan.seed, *purpose)))
    return dataclasses.replace(draws, values=as_array(draws.values, "the reference samples"))


def draw_reference(plan: Plan, block: int, fiducials: Fiducials) -> Draws:
    r"""Returns reference samples for a block, from the store or fresh."""
    spec = plan.spec("reference", block, samples=plan.samples)
    stored = plan.store.get(spec)
    if stored is not None:
        return Draws.from_arrays(stored)
    start = time.perf_counter()
    with listening() as heard:
        draws = reference_samples(plan, block, fiducials)
    plan.store.put(spec, draws.to_arrays(), time.perf_counter() - start, reads=heard.hashes())
    return draws


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
    task: Any = plan.task
    if hasattr(task, "log_likelihood") and part.x is not None:

        def log_likelihood(chosen: NDArray) -> NDArray:
            points = np.concatenate([np.asarray(part.y)[:, None], as_host(draws.values[:count][:, chosen])], axis=1)
            return np.asarray(task.log_likelihood(points, x[:, None]), np.float64)

        extras["log_likelihood"] = log_likelihood
    if draws.log_evidence is not None or hasattr(posterior, "log_evidence"):

        def log_evidence() -> NDArray:
            own = posterior.log_evidence(x) if draws.log_evidence is None else draws.log_evidence[:count]
            true = [exact.log_evidence(x)] if hasattr(exact, "log_evidence") else []
            return np.stack([own, *true], axis=1)

        extras["log_evidence"] = log_evidence
    return extras


def _content(draws: Draws) -> str:
    r"""The hash of samples and of all that was told of them."""
    values = draws.values.cpu() if is_device_tensor(draws.values) else draws.values
    return digest(*dataclasses.replace(draws, values=values).to_arrays().values())


def _block(
    plan: Plan, name: str, block: int, fiducials: Fiducials, scaling: Scaling, posterior: Any, draws: Draws
) -> Block:
    r"""What metrics look at: the samples of a candidate for a block of fiducials."""
    count = plan.count(block)
    values = draws.values[:count]
    if isinstance(values, np.ndarray):
        refuse_non_finite(flat(values, 2), f"candidate {name!r}", block * plan.size)
    if plan.device not in (None, "cpu"):
        import torch

        values = torch.as_tensor(values, device=plan.device)
    part = fiducials[:count]
    return Block(
        truths=part.truths,
        samples=flat(values, 2),
        index=np.arange(block * plan.size, block * plan.size + count),
        scaling=scaling,
        seed=plan.seed,
        name=f"candidate {name!r}",
        groups=part.group,
        x=part.x,
        conditional=getattr(plan.task, "conditional", True),
        **_extras(plan, block, fiducials, count, posterior, draws),
    )


def work(
    plan: Plan, name: str, block: int, fiducials: Fiducials, scaling: Scaling
) -> tuple[str, int, dict[str, Outcome] | None, str, float, dict[str, str]]:
    r"""Samples and scores one candidate on one block; a failure is a reason, not an exception.

    Returns:
        The candidate, the block, what metrics saw, the reason of a failure, the seconds that it took now, and the
        hashes of the files that were read for it, now or when it was stored.
    """
    start = time.perf_counter()
    reads: dict[str, str] = {}
    try:
        specs = {key: plan.record_spec(name, block, key) for key in plan.metrics}
        outcomes: dict[str, Outcome] = {}
        for key, spec in specs.items():
            stored = plan.store.get(spec)
            if stored is not None:
                outcomes[key] = stored
                header = plan.store.look(spec)
                reads |= {} if header is None else header.facts.get("reads", {})
        missing = {key: metric for key, metric in plan.metrics.items() if key not in outcomes}
        if missing:
            posterior, made_of = _build(plan, name)
            with listening() as heard:
                draws = _sample(plan, name, block, fiducials, posterior, made_of)
                fresh = observe(_block(plan, name, block, fiducials, scaling, posterior, draws), missing)
            spent = time.perf_counter() - start
            content, now = _content(draws), heard.hashes() | made_of
            for key, outcome in fresh.items():
                if not isinstance(outcome, str):
                    plan.store.put(specs[key], outcome, spent, samples=content, reads=now)
            reads |= now
            outcomes |= fresh
        return name, block, outcomes, "", time.perf_counter() - start if missing else 0.0, reads
    except Exception as error:
        return name, block, None, reason_of(error), time.perf_counter() - start, reads


def remake(
    plan: Plan, name: str, block: int, fiducials: Fiducials, scaling: Scaling, keys: Sequence[str]
) -> tuple[Draws, str, dict[str, Outcome]]:
    r"""Makes a block anew, whatever the store has: its samples, their hash, and what the given metrics see."""
    posterior, _ = _build(plan, name)
    draws = _draw(plan, name, block, fiducials, posterior)
    seen = _block(plan, name, block, fiducials, scaling, posterior, draws)
    outcomes = observe(seen, {key: plan.metrics[key] for key in keys})
    return draws, _content(draws), outcomes


def forget() -> None:
    r"""Drops the posteriors that this process built."""
    _BUILT.clear()
