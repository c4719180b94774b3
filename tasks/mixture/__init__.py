r"""Gaussian mixtures without an observation: one set of samples for all truths."""

__all__ = ["Mixture", "ShiftedMixture"]

from .mixture import Mixture, ShiftedMixture
