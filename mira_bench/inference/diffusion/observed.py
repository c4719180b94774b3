r"""One observation and what a sampler asks of it, and a prior whose denoiser counts how often it was asked."""

__all__ = ["Asked", "Observed"]

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from .linear import Basis, LinearOperator

if TYPE_CHECKING:
    from torch import Tensor

POWER = 30  # iterations that find the largest curvature


class Asked:
    r"""A prior as samplers see it: `denoise` at one noise level for all, in batches, counted.

    Arguments:
        prior: Whatever has `denoise(y, sigma)`.
        batch: The number of images that are denoised together. The result is the same, up to rounding.
    """

    def __init__(self, prior: Any, batch: int) -> None:
        self.prior, self.batch, self.calls = prior, batch, 0

    def denoise(self, y: "Tensor", sigma: float) -> "Tensor":
        r"""Returns $E[z \mid y]$ of clean images $z$, for images $(B, *event)$ with noise $\sigma$."""
        import torch

        self.calls += 1
        return torch.cat([self._denoised(part, sigma) for part in torch.split(y, self.batch)])

    def denoise_and(
        self, y: "Tensor", sigma: float, then: "Callable[[Tensor, Callable[[Tensor], Tensor], slice], Tensor]"
    ) -> tuple["Tensor", "Tensor"]:
        r"""Returns denoised images, and what a function makes of them with the derivative of the denoiser at hand.

        Arguments:
            y: The images, with shape $(B, *event)$.
            sigma: Their noise.
            then: A function of denoised images, of the product of the transposed derivative with images, and of the
                rows that they are. Every product is counted like a call.
        """
        import torch

        found, made = [], []
        before = self.calls
        for first in range(0, len(y), self.batch):
            rows = slice(first, first + self.batch)
            self.calls = before + 1  # as many for every batch: calls are those of one sample
            with torch.enable_grad():
                noisy = y[rows].detach().requires_grad_()
                clean = self._denoised(noisy, sigma)

            def product(vector: "Tensor", clean: "Tensor" = clean, noisy: "Tensor" = noisy) -> "Tensor":
                self.calls += 1
                return torch.autograd.grad(clean, noisy, vector, retain_graph=True)[0]

            made.append(then(clean.detach(), product, rows))
            found.append(clean.detach())
        return torch.cat(found), torch.cat(made)

    def _denoised(self, y: "Tensor", sigma: float) -> "Tensor":
        clean: Tensor = self.prior.denoise(y, y.new_full((len(y),), sigma))
        return clean


class Observed:
    r"""The likelihood of one observation, for images with shape $(B, *event)$.

    Arguments:
        operator: The operator.
        x: The observation, with shape $(1, *data)$.
        middle: The mean of the prior, with shape $(1, *event)$, where steps find their length.
    """

    def __init__(self, operator: Any, x: "Tensor", middle: "Tensor") -> None:
        self.operator, self.x, self.middle = operator, x, middle
        self.size = int(operator.measurements)
        given = getattr(operator, "given", None)
        self._given = None if given is None else given(x)

    @property
    def linear(self) -> LinearOperator:
        r"""The operator, for those who need a linear one."""
        if not isinstance(self.operator, LinearOperator):
            raise UsageError(f"this sampler needs a linear operator, and {type(self.operator).__name__} is none")
        return self.operator

    @property
    def is_linear(self) -> bool:
        return isinstance(self.operator, LinearOperator)

    @cached_property
    def inside(self) -> "tuple[Observed, Basis] | None":
        r"""The observation of coordinates, and the images that they are of, where data see no other part of images.

        Of an operator that is not linear in images, but sees only as much of them as its `basis` holds.
        """
        basis = None if self.is_linear else getattr(self.operator, "basis", None)
        if basis is None:
            return None
        return Observed(self.operator.restricted(basis.vectors.numpy()), self.x, basis.along(self.middle)), basis

    def misfit(self, y: "Tensor") -> "Tensor":
        r"""Returns the mean square of the residuals in units of their noise, with shape $(B,)$."""
        found: Tensor = self.operator.misfit(y, self.x) if self._given is None else self._given.misfit(y)
        return found

    def log_likelihood(self, y: "Tensor") -> "Tensor":
        r"""Returns the log-likelihood, with shape $(B,)$."""
        if self._given is None:
            return self.operator.log_likelihood(y, self.x)
        found: Tensor = self._given.log_likelihood(y)
        return found

    def distance_gradient(self, y: "Tensor") -> "Tensor":
        r"""Returns the gradient of $\|x - A(y)\|$, in units in which the norm of the operator is one: $(B, *event)$."""
        return math.sqrt(self.size / self.curvature) * _gradient(lambda z: self.misfit(z).sqrt(), y)

    def gradient(self, y: "Tensor") -> "Tensor":
        r"""Returns the gradient of the log-likelihood, with shape $(B, *event)$."""
        if self.is_linear:
            operator = self.linear
            return operator.adjoint(self.x - operator.forward(y)) / operator.noise**2
        known = getattr(self._given, "gradient", None)
        return _gradient(self.log_likelihood, y) if known is None else known(y)

    @cached_property
    def curvature(self) -> float:
        r"""The largest curvature of the log-likelihood; at the mean of the prior, if it is not the same everywhere."""
        import torch

        if self.is_linear:
            return float(self.linear.basis.squares.max()) / self.linear.noise**2
        # By the power method. Derivatives of gradients, not differences: a likelihood may have poles nearby.
        way = torch.randn(self.middle.shape, generator=torch.Generator().manual_seed(0)).to(self.middle)
        with torch.enable_grad():
            at = self.middle.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.log_likelihood(at).sum(), at, create_graph=True)
            for _ in range(POWER):
                (way,) = torch.autograd.grad(slope, at, way / way.norm(), retain_graph=True)
        return float(way.norm())


def _gradient(function: "Callable[[Tensor], Tensor]", y: "Tensor") -> "Tensor":
    r"""Returns the gradient of a function that has one number for each row."""
    import torch

    with torch.enable_grad():
        at = y.detach().requires_grad_()
        return torch.autograd.grad(function(at).sum(), at)[0]
