r"""A line through noisy points: posterior and evidence in closed form (the paper's Bayes factors)."""

__all__ = ["LinearRegression", "NoisyPosterior", "ShiftedPosterior"]

from .regression import LinearRegression, NoisyPosterior, ShiftedPosterior
