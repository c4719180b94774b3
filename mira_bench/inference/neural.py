r"""Neural posteriors by sbi as candidates: NPE, NLE, NRE, FMPE and NPSE, alone or as ensembles."""

__all__ = ["Neural", "NeuralPosterior"]

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, as_array, flat, refuse_non_finite
from ..candidate import Draws
from ..errors import RunError, UsageError
from ..fiducials import refuse_bad_data
from ..trainer import Rehearsal
from .coordinates import Coordinates, Standard, support
from .networks import METHODS, Report, build, choose_embedding, reproducible, train
from .neural_sampling import direct, field_samples, log_densities, slice_samples

CHUNK = 500  # simulations that are made at once
FEWEST = 20  # simulations to train on
MOST_DATA = 100  # entries of the data whose density a network can learn
COORDINATES = ("unbounded", "plain")
EMBEDDINGS = ("auto", "none", "mlp", "cnn")
MOST_ROUNDS = 100  # of samples, until enough are in the support of the prior
NORMALIZING = 1000  # samples that tell how much of a density is outside
NEEDS_PRIOR = ("nle", "nre")
STARTS = 1000  # draws of the prior among which chains find their first places
TRIAL = 500  # simulations that tell what training would cost
TYPICAL_EPOCHS = {"npe": 60, "nle": 60, "nre": 60, "fmpe": 150, "npse": 150}


def _silent(what: str, done: int, total: int | None) -> None:
    pass


@dataclass(frozen=True)
class Neural:
    r"""A posterior that a network of sbi learns from simulations of the task.

    Parameters are standardized, like the data. Candidates with the same seed and budget learn from the same
    simulations.

    Arguments:
        method: What is learned: the posterior by `"npe"`, `"fmpe"` or `"npse"`, the likelihood by `"nle"`, or its ratio
            to the evidence by `"nre"`.
        estimator: The network, by sbi's name: `"nsf"`, `"maf"`, `"mdn"`, ... for NPE and NLE, `"resnet"`, `"mlp"`,
            `"linear"` for NRE, `"mlp"`, `"ada_mlp"`, `"transformer"` for FMPE and NPSE; each method has a default.
        budget: The number of simulations that it learns from.
        coordinates: `"unbounded"`, the logit or logarithm of bounded parameters, so that no density leaks out of the
            prior's support; or `"plain"`, the parameters themselves, of which samples outside the support are rejected,
            as sbi does. Plain ones are easier to learn if posteriors keep away from the bounds, and slow or impossible
            to sample if most of a density leaks. NLE and NRE need unbounded ones.
        embedding: What looks at the data first: `"cnn"`, `"mlp"`, `"none"`, or `"auto"`, which takes a CNN for images
            and an MLP for vectors of more than 100 entries.
        ensemble: The number of networks, trained on the same simulations. They are mixed with equal weights.
        network: More arguments of sbi's network builder, e.g. `hidden_features`.
        training: Arguments of sbi's `train`, e.g. `learning_rate`, `stop_after_epochs`, `max_num_epochs`.
        sampling: For NLE and NRE the slice sampler's `chains`, `warmup`, `thin`; for FMPE and NPSE the `solver`
            (`ode` or `sde`) and the latter's `steps`.
    """

    method: str = "npe"
    estimator: str | None = None
    budget: int = 10_000
    coordinates: str = "unbounded"
    embedding: str = "auto"
    ensemble: int = 1
    network: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)

    version = 1
    packages = ("sbi",)

    def __post_init__(self) -> None:
        for name, known in (("method", METHODS), ("embedding", EMBEDDINGS), ("coordinates", COORDINATES)):
            if getattr(self, name) not in known:
                raise UsageError(f"{name}={getattr(self, name)!r} is not one of {', '.join(known)}")
        if self.estimator is not None and self.estimator not in METHODS[self.method].estimators:
            known_ones = ", ".join(METHODS[self.method].estimators)
            raise UsageError(f"estimator={self.estimator!r} is not one of {known_ones}, which {self.method} can train")
        if self.coordinates == "plain" and self.method in NEEDS_PRIOR:
            raise UsageError(f"coordinates=plain: {self.method} is sampled by MCMC, which needs unbounded ones")
        for name, least in (("budget", FEWEST), ("ensemble", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise UsageError(f"{name}={value!r}: a whole number of at least {least} is needed")
        for name in ("network", "training", "sampling"):
            object.__setattr__(self, name, dict(getattr(self, name)))

    @property
    def trainer(self) -> "Neural":
        r"""What determines the training: a change of `sampling` needs no new network."""
        return dataclasses.replace(self, sampling={})

    def skip(self, task: Any) -> str | None:
        if self.method in NEEDS_PRIOR and not hasattr(task, "prior_log_prob"):
            return f"{self.method} needs the prior's density, and the task has no prior_log_prob(y)"
        x = task.simulate(1, np.random.default_rng(0)).x
        if x is None or np.size(x) == 0:
            return "the task has no observations x to learn from"
        if self.method == "nle" and np.size(x) > MOST_DATA:
            return f"nle learns the density of the data, and {np.size(x)} entries are too many for that"
        return None

    def build(self, task: Any, rng: np.random.Generator) -> "NeuralPosterior":
        return self.load(task, self.fit(task, rng, _silent))

    def fit(self, task: Any, rng: np.random.Generator, report: Report) -> dict[str, NDArray]:
        r"""Simulates and trains; returns weights, scales and training curves as plain arrays."""
        y, x = self._simulate(task, rng, report)
        y_flat = flat(y, 1).astype(np.float64)
        inside = support(task, y_flat)
        everywhere = (np.full_like(inside[0], -np.inf), np.full_like(inside[1], np.inf))
        coordinates = Coordinates.of(y_flat, *(everywhere if self.coordinates == "plain" else inside))
        kind = choose_embedding(self.embedding, x.shape[1:])
        x = x if kind == "cnn" else flat(x, 1)
        standard = Standard.of(x, together=kind == "cnn")
        u, seen = coordinates.forward(y_flat).astype(np.float32), standard.forward(x)
        state = {"event": np.array(y.shape[1:]), "data": np.array(x.shape[1:]), "simulations": np.array(len(y))}
        state |= {f"y {key}": value for key, value in vars(coordinates).items()}
        state |= {f"x {key}": value for key, value in vars(standard).items()}
        state |= {"support low": inside[0], "support high": inside[1]}
        for i in range(self.ensemble):

            def say(what: str, done: int, total: int | None, member: int = i) -> None:
                report(what if self.ensemble == 1 else f"network {member + 1} of {self.ensemble}, {what}", done, total)

            with reproducible(rng):
                network, curves = train(self.method, self._builder(x.shape[1:]), u, seen, self.training, say)
            state |= {f"curve {i} {key}": value for key, value in curves.items()}
            state |= {f"network {i} {key}": value.numpy() for key, value in network.state_dict().items()}
        return state

    def load(self, task: Any, state: Mapping[str, NDArray]) -> "NeuralPosterior":
        r"""Returns the posterior that a fitted state stands for."""
        import torch

        data, event = tuple(map(int, state["data"])), tuple(map(int, state["event"]))
        parts = {
            prefix: {key.removeprefix(f"{prefix} "): v for key, v in state.items() if key.startswith(f"{prefix} ")}
            for prefix in ("y", "x", *(f"network {i}" for i in range(self.ensemble)))
        }
        networks = []
        with reproducible(np.random.default_rng(0)):  # the first weights are drawn, and replaced
            for i in range(self.ensemble):
                network = self._builder(data)(torch.randn(8, int(np.prod(event))), torch.randn(8, *data))
                network.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in parts[f"network {i}"].items()})
                networks.append(network.eval())
        kind = NeuralDensity if self.method == "npe" else NeuralPosterior
        inside = (state["support low"], state["support high"])
        return kind(self, task, event, data, Coordinates(**parts["y"]), Standard(**parts["x"]), inside, networks)

    def rehearse(self, task: Any, rng: np.random.Generator) -> Rehearsal:
        r"""Trains for a few short epochs. How many it takes is a guess: training ends when the validation loss does."""
        small = min(self.budget, TRIAL)
        epochs = min(TYPICAL_EPOCHS[self.method], self.training.get("max_num_epochs", 10**9))
        trial = dataclasses.replace(self, budget=small, ensemble=1, training={**self.training, "max_num_epochs": 2})
        dataclasses.replace(trial, budget=FEWEST).fit(task, rng, _silent)  # imports are not the price of training
        start = time.perf_counter()
        trial._simulate(task, rng, _silent)
        simulating = time.perf_counter() - start
        state = trial.fit(task, rng, _silent)
        each = max(time.perf_counter() - start - 2 * simulating, 0.0) / len(state["curve 0 training_loss"])
        for i in range(1, self.ensemble):
            state |= {f"network {i} {k[10:]}": v for k, v in state.items() if k.startswith("network 0 ")}
        share = self.budget / small
        note = f"assumes {epochs} epochs" + (f" of each of {self.ensemble} networks" if self.ensemble > 1 else "")
        return Rehearsal(simulating * share, each * epochs * self.ensemble * share, self.budget, state, note)

    def _builder(self, data: tuple[int, ...]) -> Any:
        chosen = METHODS[self.method]
        kind = choose_embedding(self.embedding, data)
        return build(self.method, self.estimator or chosen.estimator, kind, data, self.network)

    def _simulate(self, task: Any, rng: np.random.Generator, report: Report) -> tuple[NDArray, NDArray]:
        ys, xs = [], []
        for done in range(0, self.budget, CHUNK):
            drawn = task.simulate(min(CHUNK, self.budget - done), rng)
            y, x = (np.asarray(as_array(v, f"the simulated {k}")) for k, v in (("y", drawn.y), ("x", drawn.x)))
            refuse_non_finite(flat(y, 1), "y of the training simulations", done)
            refuse_bad_data(y, x, getattr(task, "names", None))
            ys.append(y)
            xs.append(x.astype(np.float32))
            report("simulations", done + len(y), self.budget)
        return np.concatenate(ys), np.concatenate(xs)


@dataclass(frozen=True)
class NeuralPosterior:
    r"""What `Neural` learned."""

    candidate: Neural
    task: Any
    event: tuple[int, ...]
    data: tuple[int, ...]
    coordinates: Coordinates
    standard: Standard
    support: tuple[NDArray[np.float64], NDArray[np.float64]]
    networks: list[Any]

    def sample(self, x: Array, count: int, rng: np.random.Generator) -> Draws:
        seen = self._standardized(x)
        # Each sample picks its network by itself, so that samples are independent draws of the mixture.
        member = rng.integers(len(self.networks), size=(len(seen), count))
        u = np.empty((len(seen), count, len(self.coordinates.low)))
        told: dict[str, NDArray[np.float64]] = {}
        with reproducible(rng):
            for i, network in enumerate(self.networks):
                mine = member == i
                most = int(mine.sum(axis=1).max())
                if most == 0:
                    continue
                drawn, diagnostics = self._draw(network, seen, most, rng)
                u[mine] = drawn[np.arange(most) < mine.sum(axis=1)[:, None]]
                worse = {key: np.maximum(v, told.get(key, v)) for key, v in diagnostics.items()}
                told |= worse
        values = self.coordinates.inverse(u)
        return Draws(values.reshape(*u.shape[:2], *self.event), diagnostics=told)

    def _standardized(self, x: Array) -> NDArray[np.float32]:
        return self.standard.forward(np.asarray(as_array(x, "x")).reshape(len(x), *self.data))

    def _log_prior(self, u: NDArray) -> NDArray[np.float64]:
        y = self.coordinates.inverse(u).reshape(len(u), *self.event)
        return np.asarray(self.task.prior_log_prob(y), np.float64) + self.coordinates.log_slope(u)

    def _is_inside(self, u: NDArray) -> NDArray[np.bool_]:
        y = self.coordinates.inverse(u)
        return np.asarray(((y >= self.support[0]) & (y <= self.support[1])).all(axis=-1))

    def _draw(
        self, network: Any, x: NDArray[np.float32], count: int, rng: np.random.Generator
    ) -> tuple[NDArray, dict[str, NDArray[np.float64]]]:
        r"""Samples a network; in plain coordinates, until enough samples are in the support of the prior."""
        drawn, told = self._propose(network, x, count, rng)
        if self.candidate.coordinates != "plain":
            return drawn, told
        good = self._is_inside(drawn)
        have = good.sum(axis=1)
        drawn = np.take_along_axis(drawn, np.argsort(~good, axis=1, kind="stable")[..., None], axis=1)
        for _ in range(MOST_ROUNDS):
            short = np.flatnonzero(have < count)
            if len(short) == 0:
                return drawn, told
            more, _ = self._propose(network, x[short], count, rng)
            for row, new in zip(short, more, strict=True):
                kept = new[self._is_inside(new)][: count - have[row]]
                drawn[row, have[row] : have[row] + len(kept)] = kept
                have[row] += len(kept)
        share = have.min() / (count * (1 + MOST_ROUNDS))
        raise RunError(
            f"only {share:.2%} of a posterior's samples are in the support of the prior; set coordinates=unbounded"
        )

    def _propose(
        self, network: Any, x: NDArray[np.float32], count: int, rng: np.random.Generator
    ) -> tuple[NDArray, dict[str, NDArray[np.float64]]]:
        settings, method = self.candidate.sampling, self.candidate.method
        try:
            if method == "npe":
                return direct(network, x, count, **settings), {}
            if method in ("fmpe", "npse"):
                solver = "ode" if method == "fmpe" else "sde"
                return field_samples(network, x, count, **{"solver": solver, **settings}), {}
            prior_draws = flat(np.asarray(self.task.prior_sample(STARTS, rng), np.float64), 1)
            starts = self.coordinates.forward(prior_draws)
            return slice_samples(method, network, x, count, self._log_prior, starts, rng, **settings)
        except TypeError as error:
            raise UsageError(f"sampling: {error}") from error


@dataclass(frozen=True)
class NeuralDensity(NeuralPosterior):
    r"""A posterior whose density is known and normalized: that of NPE."""

    def log_prob(self, y: Array, x: Array) -> NDArray[np.float64]:
        points = np.asarray(y, np.float64).reshape(len(x), -1, len(self.coordinates.low))
        u = self.coordinates.forward(points)
        seen, logs = self._standardized(x), []
        with reproducible(np.random.default_rng(0)):
            for network in self.networks:
                log = log_densities(network, u, seen)
                if self.candidate.coordinates == "plain":  # of the samples that are kept
                    share = self._is_inside(direct(network, seen, NORMALIZING)).mean(axis=1, keepdims=True)
                    log = np.where(self._is_inside(u), log - np.log(np.maximum(share, 1 / NORMALIZING)), -np.inf)
                logs.append(log)
        mixed = np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))
        # Coordinates end at the bounds, and what is beyond would be taken for what is there.
        inside = ((points >= self.support[0]) & (points <= self.support[1])).all(axis=-1)
        return np.where(inside, mixed - self.coordinates.log_slope(u), -np.inf)
