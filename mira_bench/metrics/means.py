r"""Scores that are a mean over fiducials."""

__all__ = ["MeanScore"]

import numpy as np
from numpy.typing import NDArray

from ..statistics import mean_stderr


class MeanScore:
    r"""The base of results whose score is the mean of one number per fiducial.

    Attributes:
        per_fiducial: The score of each fiducial, with shape $(L,)$.
    """

    per_fiducial: NDArray[np.float64]

    @property
    def score(self) -> float:
        r"""The mean over fiducials."""
        return float(self.per_fiducial.mean())

    @property
    def stderr(self) -> float:
        r"""The standard error over fiducials."""
        return mean_stderr(self.per_fiducial)[1]
