r"""Samples of an image given data, by a diffusion prior and the convolved likelihood.

The reverse of the variance exploding process is solved by predictor and corrector (Song et al., 2021), with the score
of the data that `Spectrum.pull` has (Barco et al., 2025).
"""

__all__ = ["PredictorCorrector"]

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from ..gradient_training import best_device, one_thread
from .mixture import Mixture
from .operators import ChannelOperator

if TYPE_CHECKING:
    import torch
    from torch import Tensor

BATCH = 64  # images that are denoised together


@dataclass(frozen=True)
class PredictorCorrector:
    r"""A sampler of $p(y \mid x)$ for a prior that has a denoiser and an operator that has a spectrum.

    How far it is from the posterior depends on the operator: where much of an image is not seen at all, it may be far
    too wide. Compare with `MixturePosterior` on a mixture (`mb.moments`) before you trust it.

    Arguments:
        steps: The number of noise levels, from the largest to the smallest in equal ratios.
        corrections: The number of Langevin steps at each level.
        snr: The ratio of the step that a correction takes to its noise, where the noise of the level is all that there
            is.
        smallest: The smallest noise, in the units of the images. What is left of it in the end is taken away by the
            denoiser.
        largest: The largest noise.
    """

    steps: int = 100
    corrections: int = 1
    snr: float = 0.16
    smallest: float = 0.002
    largest: float = 50.0

    version = 2

    def __post_init__(self) -> None:
        if self.steps < 2 or self.corrections < 0:
            raise UsageError(f"steps={self.steps}, corrections={self.corrections}: at least 2 and 0 are needed")
        if not 0 < self.smallest < self.largest:
            raise UsageError(f"smallest={self.smallest}, largest={self.largest}: noise must fall from one to the other")

    @property
    def calls(self) -> int:
        r"""How often the denoiser is asked for each sample."""
        return self.steps * (1 + self.corrections)

    def sample(
        self,
        prior: Any,
        operator: ChannelOperator,
        x: NDArray,
        count: int,
        rng: np.random.Generator,
        condition: int | None = None,
        batch: int = BATCH,
    ) -> NDArray[np.float32]:
        r"""Returns images with shape $(L, count, *event)$.

        Arguments:
            prior: A mixture, or whatever has `denoise(y, sigma, condition)`.
            operator: The operator.
            x: The data, with shape $(L, *data)$.
            count: The number of samples of each.
            rng: The generator.
            condition: The class of the prior, if it has classes.
            batch: The number of images that are denoised together. The result is the same, up to rounding.
        """

        import torch

        spectrum = operator.spectrum
        if spectrum is None:
            raise UsageError(
                "the convolved likelihood needs the spectrum of the operator: "
                "operator.with_spectrum(Spectrum.of(operator.matrix))"
            )
        inside = isinstance(prior, Mixture)
        known = _rotated(prior, spectrum.right) if inside else prior
        shape = (operator.event[0], len(spectrum.values))
        checked = operator.checked(x).reshape(len(x), 1, operator.data[0], -1)
        found = np.empty((len(x), count, *operator.event), np.float32)
        device = best_device()
        right = torch.as_tensor(spectrum.right, device=device)
        with torch.inference_mode(), one_thread():
            for l in range(len(x)):
                # One by one: a product of several has other last digits, and samples would know how many there are.
                observed = torch.as_tensor(spectrum.data(checked[l])[0], device=device)
                noise = torch.Generator().manual_seed(int(rng.integers(2**63)))

                def score(y: "Tensor", sigma: float, observed: "Tensor" = observed) -> "Tensor":
                    if inside:
                        return known.score(y, sigma) + spectrum.pull(y, observed, sigma, operator.noise)
                    pixels = y.reshape(len(y), *operator.event)
                    classes = None if condition is None else torch.full((len(y),), condition, device=y.device)
                    clean = known.denoise(pixels, y.new_full((len(y),), sigma), classes)
                    pull = spectrum.pull(y @ right, observed, sigma, operator.noise) @ right.T
                    return (clean - pixels).reshape(y.shape) / sigma**2 + pull

                drawn = self._solve(score, (count, *shape), noise, device, batch).cpu().numpy()
                images = spectrum.images(drawn) if inside else drawn
                found[l] = images.reshape(count, *operator.event)
        return found

    def _solve(
        self,
        score: "Callable[[Tensor, float], Tensor]",
        shape: tuple[int, ...],
        noise: "torch.Generator",
        device: Any,
        batch: int,
    ) -> "Tensor":
        r"""Follows the reverse process from the largest noise to the smallest, and takes what is left away."""
        import torch

        def draw() -> "Tensor":  # for all samples, whatever the batch is
            return torch.randn(shape, generator=noise).to(device)

        def everywhere(y: "Tensor", sigma: float) -> "Tensor":
            return torch.cat([score(y[first : first + batch], sigma) for first in range(0, len(y), batch)])

        levels = np.geomspace(self.largest, self.smallest, self.steps)
        y = self.largest * draw()
        for here, there in zip(levels, [*levels[1:], 0.0], strict=True):
            for _ in range(self.corrections):
                # The score of many pixels is about as long as their noise over sigma. Its own length would make a step
                # that depends on where it starts, and few dimensions too wide: by a factor of two in six of them.
                step = 2 * (self.snr * here) ** 2
                y = y + step * everywhere(y, here) + (2 * step) ** 0.5 * draw()
            gap = here**2 - there**2
            y = y + gap * everywhere(y, here)
            if there > 0:
                # Exact if the clean image were known, where plain steps have the noise of a level before.
                y = y + (gap**0.5 * there / here) * draw()
        return y


def _rotated(prior: Mixture, right: NDArray[np.float32]) -> Mixture:
    r"""Returns a mixture of images in the coordinates of singular vectors, the same for all channels."""
    channels = prior.event[0]

    def turn(images: NDArray) -> NDArray:
        rows = images.reshape(-1, channels, len(right))
        return np.asarray(rows @ right.astype(np.float64)).reshape(images.shape)

    subspace = replace(prior.subspace, mean=turn(prior.subspace.mean), components=turn(prior.subspace.components))
    return replace(prior, subspace=subspace, event=(channels, len(right)))
