r"""What runs and given samples share: metrics look at blocks, and what they saw becomes a candidate's standing.

A metric that fails does so alone: its reason stands in its own row, and the others have theirs.
"""

__all__ = ["FAILED", "Outcome", "observe", "standing"]

import dataclasses
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import UsageError
from ..metric import MISSING, Block, Metric, Record, Scores
from ..ranking.tiers import Standing
from ..ranks.scaling import Scaling
from .training import reason_of

log = logging.getLogger("mira_bench")

FAILED = "failed: "  # the first word of a reason if a metric failed, and not just does not apply
Outcome = Record | str  # what a metric saw in a block, or why it cannot be computed


def _as_record(seen: Any) -> Record:
    r"""What a metric kept of a block, after a check: others' records must not suffer from what cannot be stored."""
    if not isinstance(seen, Mapping):
        raise TypeError(f"observe returned a {type(seen).__name__}; a mapping of names to arrays is needed")
    record = {str(key): np.asarray(value) for key, value in seen.items()}
    bad = next((key for key, value in record.items() if value.dtype == object), None)
    if bad is not None:
        raise TypeError(f"observe returned {bad!r}, a {type(seen[bad]).__name__}; an array of numbers is needed")
    return record


def observe(block: Block, metrics: Mapping[str, Metric]) -> dict[str, Outcome]:
    r"""Lets metrics look at a block. A metric that does not apply gives its reason in place of a record."""

    outcomes: dict[str, Outcome] = {}
    for name, metric in metrics.items():
        lacking = next((need for need in metric.needs if getattr(block, need) is None), None)
        if lacking is not None:
            outcomes[name] = MISSING[lacking]
            continue
        try:
            outcomes[name] = _as_record(metric.observe(block))
        except UsageError as error:
            outcomes[name] = str(error)
        except Exception as error:  # a metric fails alone, and says so in its own row
            log.error("metric %s failed for %s: %s", name, block.name, reason_of(error))
            outcomes[name] = f"{FAILED}{reason_of(error).splitlines()[0]}"
    return outcomes


def _as_scores(made: Any) -> Scores:
    r"""What a metric says, after a check: the tables of all metrics are made of it."""
    if not isinstance(made, Scores):
        raise TypeError(f"reduce returned a {type(made).__name__}; mira_bench.Scores is needed")
    numbers = {key: float(getattr(made, key)) for key in ("score", "stderr", "expected", "pvalue")}
    each = None if made.per_fiducial is None else np.asarray(made.per_fiducial, np.float64)
    if each is not None and each.ndim != 1:
        raise TypeError(f"reduce returned per_fiducial of shape {each.shape}; one number per fiducial is needed")
    parts = {str(key): _as_scores(part) for key, part in made.parts.items()}
    return dataclasses.replace(made, **numbers, note=str(made.note), per_fiducial=each, parts=parts)


def standing(
    name: str,
    role: str,
    blocks: Sequence[Mapping[str, Outcome]],
    metrics: Mapping[str, Metric],
    scaling: Scaling,
    shared: bool = False,
) -> Standing:
    r"""Reduces what metrics saw in all blocks of a candidate to its scores.

    If fiducials share a sample set, p-values that take them for independent are left out.
    """

    scores = {}
    for key, metric in metrics.items():
        outcomes = [block[key] for block in blocks]
        reason = next((o for o in outcomes if isinstance(o, str)), None)
        if reason is None:
            try:
                scores[key] = _as_scores(metric.reduce([o for o in outcomes if not isinstance(o, str)], scaling))
            except Exception as error:  # a metric fails alone, and says so in its own row
                log.error("metric %s failed for candidate %s: %s", key, name, reason_of(error))
                scores[key] = Scores(note=f"{FAILED}{reason_of(error).splitlines()[0]}")
                continue
            if shared and metric.independent:
                note = f"{scores[key].note}; no p-value: fiducials share a sample set"
                scores[key] = dataclasses.replace(scores[key], pvalue=math.nan, note=note)
        else:
            scores[key] = Scores(note=reason if reason.startswith(FAILED) else f"not computed: {reason}")
    return Standing(name, role, scores, shared=shared)
