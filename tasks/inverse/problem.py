r"""What every inverse problem has: images, data, the operator between them, and measurements."""

__all__ = ["LinearProblem", "checked", "require"]

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mira_bench.errors import UsageError
from mira_bench.inference.diffusion.linear import LinearOperator


def require(problem: Any, **least: float) -> None:
    r"""Refuses a problem whose numbers are not above a bound each, and not integers where the bound is one."""

    for name, bound in least.items():
        value = getattr(problem, name)
        kinds = int if isinstance(bound, int) else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not value > bound or not np.isfinite(value):
            kind = "an integer" if isinstance(bound, int) else "a number"
            raise UsageError(f"{name}={value!r}: {kind} above {bound:g} is needed")


class LinearProblem(ABC):
    r"""$x = A y + \sigma \epsilon$: a problem whose operator is linear, with white noise."""

    @property
    @abstractmethod
    def event(self) -> tuple[int, ...]:
        r"""The shape of an image."""

    @property
    @abstractmethod
    def data(self) -> tuple[int, ...]:
        r"""The shape of the data."""

    @abstractmethod
    def operator(self) -> LinearOperator:
        r"""Returns the operator, which is made once in a process."""

    def measure(self, y: NDArray, rng: np.random.Generator) -> NDArray[np.float32]:
        r"""Returns data with noise, with shape $(n, *data)$, of images $(n, *event)$."""
        import torch

        operator = self.operator()
        clean = operator.forward(torch.tensor(checked(y, self.event), dtype=torch.float64)).numpy()
        return np.asarray(clean + operator.noise * rng.standard_normal(clean.shape), np.float32)


def checked(y: NDArray, event: tuple[int, ...]) -> NDArray:
    r"""Returns images, whose shape must be $(n, *event)$."""

    if np.shape(y)[1:] != event:
        raise UsageError(f"images of shape {np.shape(y)}, where (n, {str(event)[1:]} is needed")
    return np.asarray(y)
