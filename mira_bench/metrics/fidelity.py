r"""How good an image the posterior mean is, and how well samples fit the data: what reconstructions are judged by.

None of it knows whether the spread of the samples is right. A sampler that always finds the posterior mean has the best
of all PSNR, and no uncertainty at all.
"""

__all__ = ["Fidelity", "FidelityResult", "fidelity"]

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import as_array, as_host, refuse_non_finite
from ..errors import UsageError
from ..metric import MISSING, Block, Context, Metric, Record, Scores
from ..ranks.scaling import Scaling
from ..statistics import mean_stderr
from .means import MeanScore
from .records import joined

WINDOW = 7  # pixels on a side
STABILITY = (0.01, 0.03)  # the constants of Wang et al. (2004), in units of the range

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FidelityResult(MeanScore):
    r"""The quality of posterior means as images.

    Arguments:
        per_fiducial: The peak signal to noise ratio of each fiducial in decibels, with shape $(L,)$.
        ssim: Its structural similarity, with shape $(L,)$; nan where events are no images.
    """

    per_fiducial: Floats
    ssim: Floats

    def __repr__(self) -> str:
        return f"FidelityResult(score={self.score:.2f} dB +- {self.stderr:.2f}, ssim={self.ssim.mean():.3f})"


def fidelity(truths: ArrayLike, samples: ArrayLike) -> FidelityResult:
    r"""Compares the mean of samples with the truth, as images are compared.

    The peak is the range of each truth, over all of its channels. The structural similarity has windows of 7 x 7 pixels
    of equal weight, and is the mean over pixels and channels. An image with the smallest side below 7 has none.

    Arguments:
        truths: The truths, with shape $(L, *event)$, images $(H, W)$ or $(C, H, W)$.
        samples: The samples, with shape $(L, S, *event)$.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truths = rng.random((4, 16, 16))
        >>> fidelity(truths, truths[:, None] + 0.1 * rng.normal(size=(4, 100, 16, 16)))
        FidelityResult(score=40.03 dB +- 0.12, ssim=0.999)

    References:
        | Image quality assessment: from error visibility to structural similarity (Wang et al. 2004)
        | https://doi.org/10.1109/TIP.2003.819861
    """

    y, values = (as_host(as_array(a, name)) for a, name in ((truths, "truths"), (samples, "samples")))
    if y.ndim < 2 or values.shape[:1] + values.shape[2:] != y.shape:
        raise UsageError(f"truths {y.shape} and samples {values.shape}: (L, *event) and (L, S, *event) are needed")
    refuse_non_finite(values.reshape(*values.shape[:2], -1), "samples")
    means = values.mean(axis=1, dtype=np.float64)
    pairs = [(t.astype(np.float64), m) for t, m in zip(y, means, strict=True)]
    return FidelityResult(np.array([_psnr(*pair) for pair in pairs]), np.array([_ssim(*pair) for pair in pairs]))


def _range(truth: Floats) -> float:
    return float(np.ptp(truth)) or 1.0


def _psnr(truth: Floats, image: Floats) -> float:
    error = float(np.square(image - truth).mean())
    return math.inf if error == 0 else 10 * math.log10(_range(truth) ** 2 / error)


def _ssim(truth: Floats, image: Floats) -> float:
    from scipy.ndimage import uniform_filter

    if truth.ndim < 2 or min(truth.shape[-2:]) < WINDOW:
        return math.nan
    a, b = (v.reshape(-1, *v.shape[-2:]) for v in (truth, image))

    def local(values: Floats) -> Floats:
        found = uniform_filter(values, size=(1, WINDOW, WINDOW))
        half = WINDOW // 2
        return np.asarray(found[:, half:-half, half:-half])  # windows that lie inside of the image

    mean_a, mean_b = local(a), local(b)
    unbiased = WINDOW**2 / (WINDOW**2 - 1)
    var_a, var_b = unbiased * (local(a * a) - mean_a**2), unbiased * (local(b * b) - mean_b**2)
    both = unbiased * (local(a * b) - mean_a * mean_b)
    c1, c2 = ((k * _range(truth)) ** 2 for k in STABILITY)
    similar = (2 * mean_a * mean_b + c1) * (2 * both + c2)
    return float((similar / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))).mean())


@dataclass(frozen=True)
class Fidelity(Metric):
    r"""The quality of posterior means as a metric of the runner; see `fidelity`.

    Its score is the peak signal to noise ratio. Structural similarity, and the misfit of samples to the data where the
    task knows it, have rows of their own in the summary. Samples of the exact posterior have the misfit of the truth,
    one on average.
    """

    name = "fidelity"
    needs = ("event",)
    column = "PSNR"

    def depends_on(self, context: Context) -> Sequence[NDArray]:
        return ()

    def observe(self, block: Block) -> Record:
        if block.event is None:
            raise UsageError(MISSING["event"])
        samples = as_host(block.samples)
        count = len(block.truths)
        found = fidelity(
            block.truths.reshape(count, *block.event), samples.reshape(count, samples.shape[1], *block.event)
        )
        record = {"psnr": found.per_fiducial, "ssim": found.ssim}
        return record if block.misfit is None else record | {"misfit": block.misfit().mean(axis=1)}

    def reduce(self, records: list[Record], scaling: Scaling) -> Scores:
        result = FidelityResult(joined(records, "psnr"), joined(records, "ssim"))
        parts = {}
        if not np.isnan(result.ssim).all():
            parts["ssim"] = Scores(*mean_stderr(result.ssim), note="of the posterior mean", per_fiducial=result.ssim)
        if "misfit" in records[0]:
            each = joined(records, "misfit")
            note = "mean square of the residuals of samples in units of the noise"
            parts["misfit"] = Scores(*mean_stderr(each), 1.0, note=note, per_fiducial=each)
        return Scores(
            result.score, result.stderr, note="decibels, of the posterior mean",
            per_fiducial=result.per_fiducial, result=result, parts=parts,
        )  # fmt: skip
