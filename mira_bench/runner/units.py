r"""The units of a run: a candidate on a block of fiducials, sampled and scored.

A unit has its own random streams, its results go to the store as soon as they exist, and samples are dropped unless
they are asked to stay. So memory is bounded, a killed run goes on where it stopped, and neither the order of the work
nor the number of workers changes a bit of the result.
"""

__all__ = [
    "build", "draw_again", "draw_fiducials", "draw_reference", "forget", "reference_samples", "remake", "simulate",
    "work",
]  # fmt: skip

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
from ..arrays import Array, as_array, as_host, flat, is_device_tensor, is_one_set, refuse_non_finite
from ..candidate import Draws
from ..errors import RunError, SimulationError, UsageError
from ..fiducials import Fiducials, refuse_bad_data
from ..metric import Block
from ..ranks.scaling import Scaling
from ..sharing import members, spread
from ..streams import forked, generator
from .scoring import Outcome, observe
from .setup import Setup
from .training import reason_of

log = logging.getLogger("mira_bench")

# The posteriors of the run that this process works for, and the files that they were made of.
_BUILT: dict[tuple[str, str], tuple[Any, dict[str, str]]] = {}


def draw_fiducials(setup: Setup, block: int) -> dict[str, NDArray]:
    r"""Simulates a block of fiducials."""
    rng = generator(setup.seed, "data", setup.name, block)
    try:
        with forked(setup.seed, "data", setup.name, block):
            drawn = setup.task.simulate(setup.size, rng)
    except SimulationError as error:
        raise SimulationError(f"task {setup.name!r}, fiducials: {error}") from error
    except Exception as error:
        raise RunError(
            f"task {setup.name!r} failed to simulate fiducials (block {block}): {type(error).__name__}: {error}"
        ) from error
    if len(drawn) != setup.size:
        raise RunError(f"task {setup.name!r} simulated {len(drawn)} fiducials where {setup.size} were asked for")
    made = {
        key: np.asarray(as_array(value, f"{key} of task {setup.name!r}") if key != "group" else value)
        for key, value in (("y", drawn.y), ("x", drawn.x), ("group", drawn.group))
        if value is not None
    }
    refuse_non_finite(made["y"], f"y of task {setup.name!r} (block {block})")
    if "x" in made:
        names = getattr(setup.task, "names", None)
        refuse_bad_data(made["y"], made["x"], names, f"task {setup.name!r}, fiducials: ")
    return made


def simulate(setup: Setup, block: int) -> Fiducials:
    r"""Returns a block of fiducials, from the store or fresh."""
    spec = setup.spec("fiducials", block)
    stored = setup.store.get(spec)
    if stored is None:
        start = time.perf_counter()
        with listening() as heard:
            stored = draw_fiducials(setup, block)
        setup.store.put(spec, stored, time.perf_counter() - start, reads=heard.hashes())
    return Fiducials(stored["y"], stored.get("x"), stored.get("group"))


def _observations(fiducials: Fiducials) -> Array:
    return np.empty((len(fiducials), 0)) if fiducials.x is None else fiducials.x


def build(setup: Setup, name: str) -> tuple[Any, dict[str, str]]:
    r"""Returns a posterior, and the hashes of the files that it was made of. A process makes it once in a run."""
    if any(token != setup.token for token, _ in _BUILT):
        _BUILT.clear()
    if (setup.token, name) not in _BUILT:
        changed = edited(setup.identity.code)
        if changed is not None:
            raise UsageError(f"{changed} was edited while the run was under way: start it again")
        candidate: Any = setup.candidates[name]
        with listening() as heard, forked(setup.seed, "build", setup.name, name):
            if name in setup.fits:
                made = candidate.load(setup.task, setup.fits[name])
            else:
                made = candidate.build(setup.task, generator(setup.seed, "build", setup.name, name))
        _BUILT[setup.token, name] = made, heard.hashes()
    return _BUILT[setup.token, name]


def _draw(setup: Setup, name: str, block: int, fiducials: Fiducials, posterior: Any) -> Draws:
    r"""Samples for the observations of a block; where fiducials share a set, one set for the first of each group."""
    if fiducials.group is not None:
        first = members(fiducials.group)[0]
        fiducials = Fiducials(*(None if v is None else v[first] for v in (fiducials.y, fiducials.x)))
    purpose = ("samples", setup.name, name, block)
    with forked(setup.seed, *purpose):
        draws = Draws.of(posterior.sample(_observations(fiducials), setup.samples, generator(setup.seed, *purpose)))
    values = as_array(draws.values, f"the samples of candidate {name!r}")
    wanted = (len(fiducials), setup.samples, *fiducials.event)
    if tuple(values.shape) != wanted:
        raise UsageError(
            f"candidate {name!r} returned samples of shape {tuple(values.shape)}; {wanted} is needed: "
            f"{setup.samples} samples for each of {len(fiducials)} observations"
        )
    if setup.samples == len(fiducials) > 1:
        _refuse_swapped(setup, name, block, fiducials, posterior)
    return dataclasses.replace(draws, values=values)


def _spread(draws: Draws, fiducials: Fiducials) -> Draws:
    r"""Gives each fiducial the set of its group, if it was drawn once for all of them."""
    if fiducials.group is None or len(draws.values) == len(fiducials):
        return draws
    own = members(fiducials.group)[1]
    return Draws(
        spread(draws.values, own),
        None if draws.log_evidence is None else draws.log_evidence[own],
        {key: np.asarray(values)[own] for key, values in draws.diagnostics.items()},
    )


def _refuse_swapped(setup: Setup, name: str, block: int, fiducials: Fiducials, posterior: Any) -> None:
    r"""Raises if a posterior gives samples first: with as many samples as observations the shape does not show it."""
    purpose = ("layout", setup.name, name, block)
    with forked(setup.seed, *purpose):
        first = posterior.sample(_observations(fiducials)[:1], setup.samples, generator(setup.seed, *purpose))
    shape = tuple(Draws.of(first).values.shape)
    if shape[:2] != (1, setup.samples):
        raise UsageError(
            f"candidate {name!r} returned samples of shape {shape} for one observation; (1, {setup.samples}, *event) "
            "is needed: fiducials first, then samples"
        )


def _sample(
    setup: Setup, name: str, block: int, fiducials: Fiducials, posterior: Any, made_of: Mapping[str, str]
) -> Draws:
    spec = setup.samples_spec(name, block)
    stored = setup.store.get(spec)
    if stored is not None:
        return Draws.from_arrays(stored)
    start = time.perf_counter()
    with listening() as heard:
        draws = _draw(setup, name, block, fiducials, posterior)
    if setup.keep_samples:
        setup.store.put(spec, draws.to_arrays(), time.perf_counter() - start, reads=heard.hashes() | dict(made_of))
    return draws


def reference_samples(setup: Setup, block: int, fiducials: Fiducials) -> Draws:
    r"""Draws reference samples for a block: the same ones for every candidate.

    Their random stream is their own, so the oracle, which samples the same posterior, is as far from them as chance is.
    """
    exact: Any = setup.task.exact_posterior()  # type: ignore[attr-defined]
    purpose = ("reference", setup.name, block)
    with forked(setup.seed, *purpose):
        draws = Draws.of(exact.sample(_observations(fiducials), setup.samples, generator(setup.seed, *purpose)))
    return dataclasses.replace(draws, values=as_array(draws.values, "the reference samples"))


def draw_reference(setup: Setup, block: int, fiducials: Fiducials) -> Draws:
    r"""Returns reference samples for a block, from the store or fresh."""
    spec = setup.spec("reference", block, samples=setup.samples)
    stored = setup.store.get(spec)
    if stored is not None:
        return Draws.from_arrays(stored)
    start = time.perf_counter()
    with listening() as heard:
        draws = reference_samples(setup, block, fiducials)
    setup.store.put(spec, draws.to_arrays(), time.perf_counter() - start, reads=heard.hashes())
    return draws


def _extras(setup: Setup, block: int, fiducials: Fiducials, count: int, posterior: Any, draws: Draws) -> dict[str, Any]:
    r"""What only some metrics look at, computed when they do: reference samples, densities, evidences, diagnostics."""
    part = fiducials[:count]
    x = _observations(part)
    exact: Any = setup.task.exact_posterior() if hasattr(setup.task, "exact_posterior") else None
    extras: dict[str, Any] = {}
    if draws.diagnostics:
        extras["diagnostics"] = {key: np.asarray(v, np.float64)[:count] for key, v in draws.diagnostics.items()}
    if exact is not None:

        @functools.cache
        def reference() -> NDArray:
            return flat(draw_reference(setup, block, fiducials).values, 2)[:count]

        extras["reference"] = reference
    if hasattr(posterior, "log_prob"):

        def log_prob() -> NDArray:
            points = np.concatenate([np.asarray(part.y)[:, None], as_host(draws.values[:count])], axis=1)
            return np.asarray(posterior.log_prob(points, x), np.float64)

        extras["log_prob"] = log_prob
        if getattr(posterior, "normalized", True):
            truths = np.asarray(part.y)[:, None]
            extras["log_prob_truth"] = lambda: np.asarray(posterior.log_prob(truths, x), np.float64)[:, 0]
    if hasattr(setup.task, "prior_log_prob"):
        density: Any = setup.task.prior_log_prob

        def in_support() -> NDArray:
            values = as_host(draws.values[:count])
            points = values.reshape(-1, *values.shape[2:])
            return np.asarray(density(points) > -np.inf).reshape(values.shape[:2])

        extras["in_support"] = in_support
    task: Any = setup.task
    if hasattr(task, "log_likelihood") and part.x is not None:

        def log_likelihood(chosen: NDArray) -> NDArray:
            points = np.concatenate([np.asarray(part.y)[:, None], as_host(draws.values[:count][:, chosen])], axis=1)
            return np.asarray(task.log_likelihood(points, x[:, None]), np.float64)

        extras["log_likelihood"] = log_likelihood
    if hasattr(task, "misfit") and part.x is not None:

        def misfit() -> NDArray:
            return np.asarray(task.misfit(as_host(draws.values[:count]), x[:, None]), np.float64)

        extras["misfit"] = misfit
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
    setup: Setup, name: str, block: int, fiducials: Fiducials, scaling: Scaling, posterior: Any, draws: Draws
) -> Block:
    r"""What metrics look at: the samples of a candidate for a block of fiducials."""
    count = setup.count(block)
    draws = _spread(draws, fiducials)
    values = draws.values[:count]
    if isinstance(values, np.ndarray):
        whole = values[:1] if is_one_set(values) else values
        refuse_non_finite(flat(whole, 2), f"candidate {name!r}", block * setup.size)
    if setup.device not in (None, "cpu"):
        import torch

        values = torch.as_tensor(values, device=setup.device)
    part = fiducials[:count]
    return Block(
        truths=part.truths,
        samples=flat(values, 2),
        index=np.arange(block * setup.size, block * setup.size + count),
        scaling=scaling,
        seed=setup.seed,
        name=f"candidate {name!r}",
        groups=part.group,
        x=part.x,
        conditional=getattr(setup.task, "conditional", True),
        event=tuple(np.shape(part.y)[1:]),
        **_extras(setup, block, fiducials, count, posterior, draws),
    )


def work(
    setup: Setup, name: str, block: int, fiducials: Fiducials, scaling: Scaling
) -> tuple[str, int, dict[str, Outcome] | None, str, float, dict[str, str]]:
    r"""Samples and scores one candidate on one block; a failure is a reason, not an exception.

    Returns:
        The candidate, the block, what metrics saw, the reason of a failure, the seconds that it took now, and the
        hashes of the files that were read for it, now or when it was stored.
    """
    start = time.perf_counter()
    reads: dict[str, str] = {}
    try:
        specs = {key: setup.record_spec(name, block, key) for key in setup.metrics}
        outcomes: dict[str, Outcome] = {}
        for key, spec in specs.items():
            stored = setup.store.get(spec)
            if stored is not None:
                outcomes[key] = stored
                header = setup.store.look(spec)
                reads |= {} if header is None else header.facts.get("reads", {})
        missing = {key: metric for key, metric in setup.metrics.items() if key not in outcomes}
        if missing:
            posterior, made_of = build(setup, name)
            with listening() as heard:
                begin = time.perf_counter()
                draws = _sample(setup, name, block, fiducials, posterior, made_of)
                sampling = time.perf_counter() - begin
                fresh = observe(_block(setup, name, block, fiducials, scaling, posterior, draws), missing)
            spent = time.perf_counter() - start
            content, now = _content(draws), heard.hashes() | made_of
            for key, outcome in fresh.items():
                if not isinstance(outcome, str):
                    setup.store.put(specs[key], outcome, spent, samples=content, sampling=sampling, reads=now)
            reads |= now
            outcomes |= fresh
        return name, block, outcomes, "", time.perf_counter() - start if missing else 0.0, reads
    except Exception as error:
        return name, block, None, reason_of(error), time.perf_counter() - start, reads


def remake(
    setup: Setup, name: str, block: int, fiducials: Fiducials, scaling: Scaling, keys: Sequence[str]
) -> tuple[Draws, str, dict[str, Outcome]]:
    r"""Makes a block anew, whatever the store has: its samples, their hash, and what the given metrics see."""
    posterior, _ = build(setup, name)
    draws = _draw(setup, name, block, fiducials, posterior)
    seen = _block(setup, name, block, fiducials, scaling, posterior, draws)
    outcomes = observe(seen, {key: setup.metrics[key] for key in keys})
    return draws, _content(draws), outcomes


def draw_again(
    setup: Setup, name: str, block: int, fiducials: Fiducials, most: float, guess: float
) -> Draws | None:  # fmt: skip
    r"""Returns the samples that were scored: those in the store; or drawn again, if that is quick and gives the same.

    Arguments:
        setup: What was run.
        name: The candidate.
        block: The block.
        fiducials: The fiducials of the block.
        most: The seconds that sampling the block may have taken.
        guess: The seconds that it may have taken, if the store does not know.
    """
    stored = setup.store.get(setup.samples_spec(name, block))
    if stored is not None:
        return _spread(Draws.from_arrays(stored), fiducials)
    headers = [setup.store.look(setup.record_spec(name, block, key)) for key in setup.metrics]
    told = [header for header in headers if header is not None]
    took = [float(header.facts.get("sampling", header.seconds)) for header in told]
    if max(took, default=guess) > most:
        return None
    draws = _draw(setup, name, block, fiducials, build(setup, name)[0])
    if any(header.facts.get("samples") != _content(draws) for header in told):
        raise UsageError("samples that were drawn again differ from those that were scored")
    return _spread(draws, fiducials)


def forget() -> None:
    r"""Drops the posteriors that this process built."""
    _BUILT.clear()
