r"""Denoisers $E[y \mid y + \sigma \epsilon]$: what surrounds a network so that it learns one at every noise level."""

__all__ = ["Denoiser", "Folded", "LatentNetwork", "Preconditioned", "VarianceExploding", "ncsnpp"]

import math
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional


class Denoiser(Protocol):
    r"""Whatever returns the expected clean points of noisy ones."""

    def denoise(self, x: Tensor, sigma: Tensor, condition: Tensor | None = None) -> Tensor:
        r"""Returns $E[y \mid x]$ for $x = y + \sigma \epsilon$.

        Arguments:
            x: Noisy points, with shape $(B, *event)$.
            sigma: The noise of each, with shape $(B,)$.
            condition: The class of each, with shape $(B,)$, if the prior has classes.
        """


def per_row(values: Tensor, like: Tensor) -> Tensor:
    r"""Returns one number per row with the dimensions of the rows."""
    return values.reshape(-1, *(1 for _ in like.shape[1:]))


class Preconditioned(nn.Module):
    r"""The denoiser of Karras et al. (2022) around a network.

    $$ D(x, \sigma) = \frac{s^2}{\sigma^2 + s^2} x
       + \frac{\sigma s}{\sqrt{\sigma^2 + s^2}} F\Big(\frac{x}{\sqrt{\sigma^2 + s^2}}, \frac{\log \sigma}{4}\Big) $$

    What the network $F$ has to give then has the variance of one at every noise level.

    Arguments:
        network: The network, a function of `(t, x)` or of `(t, x, condition)`, as those of score-models.
        spread: The standard deviation $s$ of the data.
    """

    def __init__(self, network: nn.Module, spread: float = 0.5) -> None:
        super().__init__()
        self.network, self.spread = network, spread

    def denoise(self, x: Tensor, sigma: Tensor, condition: Tensor | None = None) -> Tensor:
        total = sigma.square() + self.spread**2
        given = () if condition is None else (condition,)
        found = self.network(sigma.log() / 4, x * per_row(total.rsqrt(), x), *given)
        return per_row(self.spread**2 / total, x) * x + per_row(sigma * self.spread * total.rsqrt(), x) * found.to(
            x.dtype
        )

    def loss(self, y: Tensor, noise: torch.Generator, condition: Tensor | None = None) -> Tensor:
        r"""Returns the mean over entries of $\lambda(\sigma) (D(y + \sigma \epsilon, \sigma) - y)^2$.

        Noise levels are log-normal, $\log \sigma \sim N(-1.2, 1.2^2)$, as for images in the source.
        """

        level = torch.randn(len(y), generator=noise)
        shift = torch.randn(y.shape, generator=noise)
        sigma = (1.2 * level - 1.2).exp().to(y.device)
        error = self.denoise(y + per_row(sigma, y) * shift.to(y.device), sigma, condition) - y
        weight = (sigma.square() + self.spread**2) / (sigma * self.spread).square()
        return (per_row(weight, y) * error.square()).mean()


class VarianceExploding(nn.Module):
    r"""The denoiser that score-models trains, $D(x, \sigma) = x + \sigma F(t(\sigma), x)$, by plain score matching.

    The loss is its own, whose noise levels are log-uniform between the smallest and the largest.

    Arguments:
        network: The network, a function of `(t, x)` or of `(t, x, condition)`.
        smallest: The smallest noise.
        largest: The largest noise.
    """

    def __init__(self, network: nn.Module, smallest: float, largest: float) -> None:
        from score_models import ScoreModel

        super().__init__()
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.network = ScoreModel(network, sde="ve", sigma_min=smallest, sigma_max=largest, device=device)
        self.smallest, self.largest = smallest, largest

    def denoise(self, x: Tensor, sigma: Tensor, condition: Tensor | None = None) -> Tensor:
        t = (sigma / self.smallest).log() / math.log(self.largest / self.smallest)
        given = () if condition is None else (condition,)
        return x + per_row(sigma, x) * self.network.model(t, x, *given).to(x.dtype)

    def loss(self, y: Tensor, noise: torch.Generator, condition: Tensor | None = None) -> Tensor:
        r"""Returns the loss of score-models, $\sum (\epsilon + F)^2$, as a mean over entries."""
        given = () if condition is None else (condition,)
        devices = [y.device] if y.device.type == "cuda" else []
        with torch.random.fork_rng(devices):  # score-models draws from the global state
            torch.random.manual_seed(noise.initial_seed())
            return self.network.loss_fn(y, *given) / y[0].numel()


class Folded(nn.Module):
    r"""A network that sees each square of pixels as channels of one, on an image with fewer pixels.

    Images are padded by zeros first, if they are, so that a network that halves them several times can do so.

    Arguments:
        network: A network of images with `fold**2` as many channels.
        fold: The pixels on a side of the square.
        pad: The pixels that are added on each side of the image.
    """

    def __init__(self, network: nn.Module, fold: int, pad: int = 0) -> None:
        super().__init__()
        self.network, self.fold, self.pad = network, fold, pad

    def forward(self, t: Tensor, x: Tensor, *condition: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        small = functional.pixel_unshuffle(functional.pad(x, [self.pad] * 4), self.fold)
        large = functional.pixel_shuffle(self.network(t, small, *condition), self.fold)
        return large[..., self.pad : self.pad + height, self.pad : self.pad + width]


def ncsnpp(channels: int, classes: int, settings: Mapping[str, Any]) -> nn.Module:
    r"""Returns the NCSN++ of score-models for images with some channels, conditional on a class if there are any.

    Arguments:
        channels: The channels of the images.
        classes: The number of classes, or 0.
        settings: Other arguments of `score_models.NCSNpp`.
    """

    from score_models import NCSNpp

    conditional = {"condition": ["discrete_timelike"], "condition_num_embedding": [classes]} if classes else {}
    return NCSNpp(channels=channels, **conditional, **settings)


class LatentNetwork(nn.Module):
    r"""A residual network of vectors that knows noise level and class, for few dimensions.

    Arguments:
        size: The number of dimensions.
        classes: The number of classes, or 0.
        width: The width of its layers.
        blocks: The number of residual blocks.
    """

    frequencies: Tensor

    def __init__(self, size: int, classes: int, width: int = 256, blocks: int = 3) -> None:
        super().__init__()
        self.register_buffer("frequencies", 2.0 ** torch.linspace(-2, 4, 16), persistent=False)
        self.time = nn.Linear(32, width)
        self.condition = nn.Embedding(classes, width) if classes else None
        self.first, self.last = nn.Linear(size, width), nn.Linear(width, size)
        self.blocks = nn.ModuleList(ResidualBlock(width) for _ in range(blocks))
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, t: Tensor, x: Tensor, *condition: Tensor) -> Tensor:
        angles = t[:, None] * self.frequencies
        known = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        if self.condition is not None:
            known = known + self.condition(*condition)
        known = functional.silu(known)
        hidden = self.first(x)
        for block in self.blocks:
            hidden = block(hidden, known)
        return self.last(hidden)


class ResidualBlock(nn.Module):
    r"""Two layers that add to what comes in, knowing noise level and class.

    Arguments:
        width: The width of all that goes in and out.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.tell = nn.LayerNorm(width), nn.Linear(width, width)
        self.inward, self.outward = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, hidden: Tensor, known: Tensor) -> Tensor:
        seen = functional.silu(self.norm(hidden) + self.tell(known))
        return hidden + self.outward(functional.silu(self.inward(seen)))
