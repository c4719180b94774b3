r"""What a network has learned as a posterior of sbi, for all that sbi does with one."""

__all__ = ["as_sbi"]

from typing import Any

import numpy as np
import torch
from sbi.inference.posteriors import DirectPosterior
from sbi.neural_nets.estimators.base import ConditionalDensityEstimator
from torch import Tensor
from torch.distributions import Distribution, constraints

from ..errors import UsageError
from .neural import NeuralDensity


class PhysicalDensity(ConditionalDensityEstimator):  # type: ignore[misc]
    r"""Networks that were learned in coordinates of their own, as the density of the parameters given the data.

    Arguments:
        posterior: What was learned.
    """

    def __init__(self, posterior: NeuralDensity) -> None:
        shapes = torch.Size((len(posterior.coordinates.low),)), torch.Size(posterior.data)
        super().__init__(torch.nn.ModuleList(posterior.networks), *shapes)
        self.posterior = posterior

    def sample(self, sample_shape: torch.Size, condition: Tensor, **_: Any) -> Tensor:
        # Draws follow torch's seed, as sbi's do.
        rng = np.random.default_rng(int(torch.randint(2**62, (1,)).item()))
        count = int(np.prod(sample_shape, dtype=np.int64))
        x = condition.reshape(-1, *self.condition_shape).detach().cpu().numpy()
        values = np.asarray(self.posterior.sample(x, count, rng).values).reshape(len(x), count, -1)
        drawn = torch.from_numpy(values.astype(np.float32)).transpose(0, 1)
        return drawn.reshape(*sample_shape, len(x), -1)

    def log_prob(self, input: Tensor, condition: Tensor, **_: Any) -> Tensor:  # noqa: A002
        points = input[None] if input.dim() == 2 else input  # (samples, batch, d)
        x = condition.reshape(-1, *self.condition_shape).detach().cpu().numpy()
        x = np.broadcast_to(x, (points.shape[1], *x.shape[1:])) if len(x) == 1 else x
        values = self.posterior.log_prob(points.transpose(0, 1).detach().cpu().numpy(), x)
        return torch.from_numpy(values.astype(np.float32)).T

    def loss(self, input: Tensor, condition: Tensor, **_: Any) -> Tensor:  # noqa: A002
        raise UsageError("this network is trained already: another one is another run")


class TaskPrior(Distribution):
    r"""The prior of a task as a distribution of torch, as far as the task knows it.

    Arguments:
        posterior: What was learned from it, which knows its support.
    """

    def __init__(self, posterior: NeuralDensity) -> None:
        self.task, self.low_high = posterior.task, tuple(torch.as_tensor(end).float() for end in posterior.support)
        super().__init__(event_shape=self.low_high[0].shape, validate_args=False)

    @property
    def support(self) -> Any:
        box = constraints.interval(*self.low_high)  # type: ignore[no-untyped-call]
        return constraints.independent(box, 1)  # type: ignore[no-untyped-call]

    def sample(self, sample_shape: Any = ()) -> Tensor:
        count = int(np.prod(sample_shape, dtype=np.int64))
        rng = np.random.default_rng(int(torch.randint(2**62, (1,)).item()))
        drawn = (
            self.task.prior_sample(count, rng)
            if hasattr(self.task, "prior_sample")
            else self.task.simulate(count, rng).y
        )
        return torch.from_numpy(np.asarray(drawn, np.float32)).reshape(*sample_shape, *self.event_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        if not hasattr(self.task, "prior_log_prob"):
            raise UsageError("the task has no prior_log_prob(y)")
        flat = value.reshape(-1, *self.event_shape).detach().cpu().numpy()
        return torch.from_numpy(np.asarray(self.task.prior_log_prob(flat), np.float32)).reshape(value.shape[:-1])


def as_sbi(posterior: Any) -> DirectPosterior:
    r"""Returns what NPE learned as sbi's `DirectPosterior` of the parameters given the data as they are."""

    if not isinstance(posterior, NeuralDensity):
        raise UsageError("only what NPE learned is a posterior of sbi; the other methods are sampled in their own way")
    made = DirectPosterior(PhysicalDensity(posterior), TaskPrior(posterior), enable_transform=False)
    made._x_shape = torch.Size((1, *posterior.data))
    return made
