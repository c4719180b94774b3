r"""Samples of a denoiser: noise levels, the probability flow by Heun's method, and the reverse process by steps."""

__all__ = ["ancestral", "ddpm_levels", "heun", "noise_levels"]

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

BEND = 7.0  # how much closer the levels are at small noise


def noise_levels(steps: int, smallest: float, largest: float) -> NDArray[np.float64]:
    r"""Returns the noise levels of Karras et al. (2022), from the largest to the smallest one and then zero.

    Arguments:
        steps: The number of levels without the zero.
        smallest: The smallest of them.
        largest: The largest of them.
    """

    place = np.linspace(0, 1, steps)
    levels = (largest ** (1 / BEND) + place * (smallest ** (1 / BEND) - largest ** (1 / BEND))) ** BEND
    return np.append(levels, 0.0)


def ddpm_levels(steps: int) -> NDArray[np.float64]:
    r"""Returns the noise levels of a DDPM (Ho et al., 2020), from 157 to 0.01 and then zero.

    They are $\sqrt{(1 - \bar\alpha) / \bar\alpha}$, for $\beta$ that rises from $10^{-4}$ to $.02$ in a thousand steps.

    Arguments:
        steps: How many of the thousand are taken, at equal distances.
    """

    kept = np.cumprod(1 - np.linspace(1e-4, 0.02, 1000))
    chosen = np.unique(np.round(np.linspace(0, 999, steps)).astype(int))[::-1]
    return np.append(np.sqrt((1 - kept[chosen]) / kept[chosen]), 0.0)


def ancestral(y: "Tensor", clean: "Tensor", here: float, there: float, noise: "Tensor") -> "Tensor":
    r"""Returns a step of the reverse process to a lower noise level, exact if the clean image were known.

    Arguments:
        y: Noisy images, with shape $(B, *event)$.
        clean: What they are without noise.
        here: Their noise.
        there: The lower noise.
        noise: White noise, with the shape of the images.
    """

    share = (there / here) ** 2
    return clean + share * (y - clean) + there * (1 - share) ** 0.5 * noise


def heun(denoise: Callable[["Tensor", "Tensor"], "Tensor"], x: "Tensor", levels: NDArray[np.float64]) -> "Tensor":
    r"""Returns where the probability flow $dx / d\sigma = (x - D(x, \sigma)) / \sigma$ takes noise: to samples.

    Each step costs two evaluations of the denoiser, the last one, to zero, only one.

    Arguments:
        denoise: The denoiser, a function of points $(B, *event)$ and the noise of each, $(B,)$.
        x: Points that are drawn at the largest level, with shape $(B, *event)$.
        levels: Falling noise levels.
    """

    for here, there in pairwise(levels):
        slope = (x - denoise(x, x.new_full((len(x),), here))) / here
        ahead = x + (there - here) * slope
        if there > 0:
            slope = (slope + (ahead - denoise(ahead, x.new_full((len(x),), there))) / there) / 2
            ahead = x + (there - here) * slope
        x = ahead
    return x
