r"""From a posterior that can be sampled to the array of samples that is scored."""

__all__ = ["draw"]

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, as_array
from ..errors import UsageError
from ..streams import forked, generator

BATCH = 100  # observations that are sampled at once


def draw(posterior: Any, x: Array, samples: int, *, seed: int = 0) -> NDArray[np.floating]:
    r"""Returns samples of a posterior for each observation, with shape $(L, S, *event)$.

    Random states that libraries share are forked: the same seed gives the same samples, and nobody else's change.

    Arguments:
        posterior: A posterior of sbi; something with `sample(x, count, rng)`, as candidates of mira_bench build; or a
            function of `(x, count)` that returns `count` samples for each of the observations, $(L, S, *event)$.
        x: The observations, with shape $(L, *data)$.
        samples: The number of samples per observation $S$.
        seed: The seed: the same one gives the same samples.

    Example:
        >>> noise = np.random.default_rng(0)
        >>> x = noise.normal(size=(100, 2))
        >>> y = x + noise.normal(size=(100, 2))
        >>> good = draw(lambda x, count: x[:, None] + np.random.normal(size=(len(x), count, 2)), x, 50)
        >>> good.shape
        (100, 50, 2)
    """

    if int(samples) < 1:
        raise UsageError(f"samples={samples}: at least one is needed")
    if len(x) == 0:
        raise UsageError("x holds no observations")
    parts = []
    # Blocks bound the memory of networks, and a longer x extends a shorter one.
    for start in range(0, len(x), BATCH):
        part = x[start : start + BATCH]
        with forked(seed, "draw", start):
            values = _draw(posterior, part, int(samples), generator(seed, "draw samples", start))
        values = np.asarray(as_array(values, "the posterior's samples"))
        if values.shape[:2] != (len(part), samples):
            raise UsageError(
                f"the posterior gave samples of shape {values.shape} for {len(part)} observations; "
                f"({len(part)}, {samples}, *event) is needed"
            )
        parts.append(values)
    if all(len(values) == samples > 1 for values in parts) and not _is_sbi(posterior):
        _refuse_swapped(posterior, x, int(samples), seed)
    return np.concatenate(parts)


def _refuse_swapped(posterior: Any, x: Array, count: int, seed: int) -> None:
    r"""Raises a sentence if a posterior gives samples first, where all blocks have as many observations as samples.

    It is asked once more, for other numbers of both, after all that counts was drawn: a random state that it keeps by
    itself moves on for nobody.
    """
    few, wanted = x[:2], 3
    try:
        with forked(seed, "draw", "layout"):
            values = _draw(posterior, few, wanted, generator(seed, "draw layout"))
        shape = tuple(np.shape(as_array(values, "the posterior's samples")))
    except Exception as error:
        raise UsageError(
            f"the posterior gave ({count}, {count}, *event) for {count} observations, and whether samples or "
            f"observations come first cannot be seen, for it fails with {len(few)} observations and {wanted} samples "
            f"({type(error).__name__}: {error}): ask for another number of samples"
        ) from error
    if shape[:1] != (len(few),):
        raise UsageError(
            f"the posterior gave samples of shape {shape} for {len(few)} observations and {wanted} samples; "
            f"({len(few)}, {wanted}, *event) is needed: swap its axes"
        )


def _draw(posterior: Any, x: Array, count: int, rng: np.random.Generator) -> Array:
    sample = getattr(posterior, "sample", None)
    if sample is None:
        if not callable(posterior):
            raise UsageError(f"{type(posterior).__name__} has no sample(), and it is not a function of (x, count)")
        return posterior(x, count)
    return _draw_sbi(posterior, x, count) if _is_sbi(posterior) else sample(x, count, rng)


def _is_sbi(posterior: Any) -> bool:
    r"""Whether a posterior has the signatures of sbi, whose layout is known."""
    sample = getattr(posterior, "sample", None)
    if sample is None:
        return False
    return hasattr(posterior, "sample_batched") or "sample_shape" in inspect.signature(sample).parameters


def _draw_sbi(posterior: Any, x: Array, count: int) -> Array:
    import torch

    observed = torch.as_tensor(np.asarray(as_array(x, "x")), dtype=torch.float32)
    observed = observed.to(getattr(posterior, "_device", "cpu"))
    with torch.no_grad():
        if hasattr(posterior, "sample_batched"):
            try:
                values = posterior.sample_batched((count,), x=observed, show_progress_bars=False)
                return values.transpose(0, 1).cpu()
            except NotImplementedError:
                pass  # some posteriors of sbi have the method and do not support it
        return torch.stack(list(_one_by_one(posterior, observed, count))).cpu()


def _one_by_one(posterior: Any, x: Array, count: int) -> Iterator[Array]:
    for one in x:
        yield posterior.sample((count,), x=one[None], show_progress_bars=False)
