r"""The loop of all trainings by stochastic gradients, which goes on after an interruption as if there had been none."""

__all__ = ["GradientTrainer", "best_device", "network_of", "one_thread", "train"]

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import RunError, UsageError
from ..streams import forked, generator
from ..trainer import Rehearsal, Stage, State
from .precision import runs_bfloat16

if TYPE_CHECKING:
    import torch
    from torch import nn

Batch: TypeAlias = Mapping[str, "torch.Tensor"]
Losses: TypeAlias = dict[str, "torch.Tensor"]

BATCHES = 50  # between two stages
MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # what Adam remembers of each weight
NETWORK = "network "  # the first letters of the arrays that are weights
PRECISIONS = ("float32", "bfloat16")
SCHEDULES = ("constant", "cosine")
SMALL = 2  # images of the batch that tells what a larger one would cost
PATIENCE = 5.0  # seconds that the larger one may take


@dataclass(frozen=True, kw_only=True)
class GradientTrainer(ABC):
    r"""A network that Adam trains on minibatches. A subclass says which network, and its loss.

    The order of an epoch follows from the seed and the epoch, the noise of a step from the seed and the step. What has
    to be remembered is therefore the weights, the two moments of Adam, the moving average and the number of steps. On a
    processor it runs on one thread: sums over several have another order, and so other last digits.

    Arguments:
        epochs: The number of passes through the data.
        batch: The number of examples in a step; the last step of an epoch takes what is left.
        rate: The learning rate of Adam, after the warm-up.
        warmup: The number of steps in which the rate rises from zero.
        schedule: `"constant"`, or `"cosine"`, which lowers the rate to zero over the training.
        weight_decay: Adam's, which adds to the gradient.
        clip: The largest norm of a gradient; 0 leaves it as it is.
        ema: The decay of the moving average of the weights, which are what is kept; 0 keeps the last ones. The first
            steps have a faster one, $(1 + n) / (10 + n)$.
        precision: `"bfloat16"` convolves and multiplies in 16 bits, weights and losses have 32. It halves the time on a
            processor that knows it (AVX-512 BF16, AMX), and takes longer on any other. Where it would end the process
            32 bits are taken, with a warning.
    """

    epochs: int = 10
    batch: int = 128
    rate: float = 1e-3
    warmup: int = 0
    schedule: str = "constant"
    weight_decay: float = 0.0
    clip: float = 0.0
    ema: float = 0.0
    precision: str = "float32"

    def __post_init__(self) -> None:
        for name, known in (("schedule", SCHEDULES), ("precision", PRECISIONS)):
            if getattr(self, name) not in known:
                raise UsageError(f"{name}={getattr(self, name)!r} is not one of {', '.join(known)}")
        for name, least in (("epochs", 1), ("batch", 1), ("warmup", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise UsageError(f"{name}={value!r}: a whole number of at least {least} is needed")
        if not 0 <= self.ema < 1:
            raise UsageError(f"ema={self.ema!r}: a decay is at least 0 and below 1")

    @abstractmethod
    def facts(self, data: State) -> dict[str, NDArray]:
        r"""Returns what the network has to know of the data (shapes, scales), which is kept with the weights."""

    @abstractmethod
    def network(self, facts: State) -> "nn.Module":
        r"""Returns the network before the training."""

    @abstractmethod
    def loss(self, network: Any, batch: Batch, noise: "torch.Generator", epoch: float) -> Losses:
        r"""Returns the mean loss of a batch as `"loss"`, and other numbers that a curve shall show.

        Arguments:
            network: The network.
            batch: Some rows of what `examples` gave.
            noise: The generator of this step, on the main processor.
            epoch: The number of epochs that are done.
        """

    def examples(self, data: State, facts: State) -> dict[str, NDArray]:
        r"""Returns the arrays of which batches are rows, all of the same length."""
        return dict(data)

    def rate_at(self, step: int, steps: int) -> float:
        r"""Returns the learning rate of a step."""
        rise = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        fall = 0.5 * (1 + math.cos(math.pi * step / steps)) if self.schedule == "cosine" else 1.0
        return self.rate * rise * fall

    def stages(self, data: State, rng: np.random.Generator, memory: State | None) -> Iterator[Stage]:
        r"""Trains, from `memory` on if there is one; yields a stage every 50 steps and at the end of each epoch."""
        run = _Run(self, data, int(rng.integers(2**62)))
        if memory is not None:
            run.recall(memory)
            if run.step == run.steps:
                yield Stage(self.epochs, self.epochs, {}, run.weights, run.memory)
        while run.step < run.steps:
            done, place = divmod(run.step, run.per_epoch)
            with one_thread():
                curves = run.advance(min(BATCHES, run.per_epoch - place))
            done, place = divmod(run.step, run.per_epoch)
            yield Stage(done + place / run.per_epoch, self.epochs, curves, run.weights, run.memory)

    def rehearse(self, data: State, rng: np.random.Generator) -> Rehearsal:
        r"""Times a batch of two examples, and a whole one if that will not take long."""
        run = _Run(self, data, int(rng.integers(2**62)))
        state = run.weights()
        size = min(SMALL, run.size)
        with one_thread():
            run.try_out(size)
            spent = run.try_out(size)
            whole = min(self.batch, run.size)
            if spent * whole / size < PATIENCE:
                size, spent = whole, run.try_out(whole)
        note = f"assumes {spent / size * 1e3:.2g} ms an example, as in a batch of {size}"
        return Rehearsal(0.0, spent / size * run.size * self.epochs, 0, state, note)


class _Run:
    r"""A training under way: the network, its optimizer and average, and where it is."""

    def __init__(self, trainer: GradientTrainer, data: State, root: int) -> None:
        import torch

        self.trainer, self.root, self.step = trainer, root, 0
        self.device = best_device()
        self.half = trainer.precision == "bfloat16" and (self.device != "cpu" or runs_bfloat16())
        self.facts = trainer.facts(data)
        examples = trainer.examples(data, self.facts)
        if len({len(values) for values in examples.values()}) != 1:
            raise UsageError(
                f"a training needs as many of each: {', '.join(f'{len(v)} {k}' for k, v in examples.items())}"
            )
        self.examples = {key: torch.as_tensor(np.asarray(values)) for key, values in examples.items()}
        self.size = len(next(iter(examples.values())))
        self.per_epoch = -(-self.size // trainer.batch)
        self.steps = self.per_epoch * trainer.epochs
        with forked(root, "network"):  # layers draw their first weights from the global state
            self.network = trainer.network(self.facts).to(self.device)
        self.learning = {key: value for key, value in self.network.named_parameters() if value.requires_grad}
        self.adam = torch.optim.Adam(
            self.learning.values(), lr=trainer.rate, weight_decay=trainer.weight_decay, fused=True
        )
        self.average = {key: value.detach().clone() for key, value in self.learning.items()}
        self.order: tuple[int, torch.Tensor] | None = None

    def advance(self, count: int) -> dict[str, float]:
        r"""Takes some steps; returns the means of their losses."""
        import torch

        total: dict[str, torch.Tensor] = {}
        for _ in range(count):
            epoch, place = divmod(self.step, self.per_epoch)
            rows = self._order(epoch)[place * self.trainer.batch : (place + 1) * self.trainer.batch]
            losses = self._learn(rows, self.step)
            total = {key: total.get(key, 0.0) + value.detach().double() for key, value in losses.items()}
            self.step += 1
        means = {key: float(value) / count for key, value in total.items()}
        if not math.isfinite(means["loss"]):
            raise RunError(f"the loss is {means['loss']} after {self.step} steps; try a lower rate={self.trainer.rate}")
        return means

    def try_out(self, size: int) -> float:
        r"""Returns the seconds of a step with a batch of some size."""
        import torch

        start = time.perf_counter()
        self._learn(torch.arange(size), 0)
        return time.perf_counter() - start

    def _learn(self, rows: "torch.Tensor", step: int) -> Losses:
        import torch

        trainer = self.trainer
        batch = {key: values[rows].to(self.device) for key, values in self.examples.items()}
        noise = torch.Generator().manual_seed(int(generator(self.root, "noise", step).integers(2**63)))
        with torch.autocast(self.device, torch.bfloat16, enabled=self.half):
            losses = trainer.loss(self.network, batch, noise, step / self.per_epoch)
        torch.autograd.backward(losses["loss"])
        if trainer.clip:
            torch.nn.utils.clip_grad_norm_(self.learning.values(), trainer.clip)
        for group in self.adam.param_groups:
            group["lr"] = trainer.rate_at(step, self.steps)
        self.adam.step()
        self.adam.zero_grad()
        with torch.no_grad():
            decay = min(trainer.ema, (1 + step) / (10 + step))
            for key, value in self.learning.items():
                self.average[key].lerp_(value, 1 - decay)
        return losses

    def _order(self, epoch: int) -> "torch.Tensor":
        import torch

        if self.order is None or self.order[0] != epoch:
            self.order = epoch, torch.as_tensor(generator(self.root, "order", epoch).permutation(self.size))
        return self.order[1]

    def weights(self) -> dict[str, NDArray]:
        r"""Returns the average of the weights, and what the network has to know of the data."""
        found = {**self.network.state_dict(), **self.average}
        return {**self.facts, **{f"{NETWORK}{key}": _array(value) for key, value in found.items()}}

    def memory(self) -> dict[str, NDArray]:
        r"""Returns all that `recall` needs."""
        kept = {"step": np.array(self.step)}
        for key, value in self.network.state_dict().items():
            kept[f"now {key}"] = _array(value)
        for key, value in self.learning.items():
            kept[f"average {key}"] = _array(self.average[key])
            for name, moment in self.adam.state[value].items():
                kept[f"{name} {key}"] = _array(moment)
        return kept

    def recall(self, memory: State) -> None:
        r"""Goes to where another run was."""
        import torch

        self.step = int(memory["step"])
        self.network.load_state_dict(_tensors(memory, "now "))
        average = _tensors(memory, "average ")
        for key, value in self.learning.items():
            self.average[key].copy_(average[key])
            moments = {name: torch.as_tensor(memory[f"{name} {key}"], device=self.device) for name in MOMENTS}
            # In the layout of the weights, whose memory the fused Adam walks through side by side.
            self.adam.state[value] = {
                name: torch.empty_like(value if moment.ndim else moment).copy_(moment)
                for name, moment in moments.items()
            }


def train(trainer: Any, data: State, rng: np.random.Generator) -> State:
    r"""Returns the weights at the end of a training that nobody keeps or interrupts."""
    *_, last = trainer.stages(data, rng, None)
    return last.weights()


def network_of(trainer: GradientTrainer, state: State) -> "nn.Module":
    r"""Returns the network that a training's weights belong to, ready for use."""
    with forked(0, "network"):  # the first weights are drawn, and replaced
        network = trainer.network(state)
    network.load_state_dict(_tensors(state, NETWORK))
    return network.eval().requires_grad_(False).to(best_device())


def best_device() -> str:
    r"""Returns where networks run: on a GPU, if there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def one_thread() -> Iterator[None]:
    r"""Runs torch on one thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _array(value: "torch.Tensor") -> NDArray:
    return value.detach().cpu().numpy().copy()


def _tensors(state: State, prefix: str) -> dict[str, "torch.Tensor"]:
    import torch

    named = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
    return {key: torch.from_numpy(np.array(value)) for key, value in named.items()}
