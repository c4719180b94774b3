r"""Scores samples that already exist: arrays in, tables and a ranking out."""

__all__ = ["score"]

from collections.abc import Mapping, Sequence

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike

from .arrays import as_array, as_host, as_samples, as_truths, refuse_non_finite
from .errors import UsageError
from .metric import Block, Metric
from .metrics import choose_metrics
from .ranking import RANKINGS, Standing
from .ranks import available_threads
from .result import Result
from .run import observe, standing
from .scaling import Scaling, as_bounds, sample_range
from .task import BLOCK


def score(
    truths: ArrayLike,
    candidates: Mapping[str, ArrayLike],
    *,
    x: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    metrics: Mapping[str, Metric] | Sequence[str] | None = None,
    regions: int = 100,
    seed: int = 0,
    normalize: str = "auto",
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    groups: ArrayLike | None = None,
    reference: ArrayLike | None = None,
    rank_by: str = "tiers",
    threads: int | None = None,
) -> Result:
    r"""Scores and ranks the samples of several candidates on the same fiducials.

    Arguments:
        truths: The truths, with shape $(L, *event)$.
        candidates: The samples of each candidate, with shape $(L, S, *event)$; $S$ may differ.
        x: The observations, with shape $(L, *data)$, for metrics that look at them.
        names: The names of the parameters.
        metrics: The metrics by name, or names of default ones; by default MIRA, the calibration test, TARP, SBC, the
            energy score, C2ST and MMD.
        regions: The number of regions per fiducial, for the default metrics.
        seed: The seed of centers, ties and tests.
        normalize: The scale of the distances for the default metrics, see `mira_bench.scaling`.
        bounds: The range `(low, high)` of the parameters, e.g. the prior box: the scale if it is given.
        groups: Labels with shape $(L,)$ of fiducials that share one sample set.
        reference: Samples of a reference posterior, with shape $(L, S', *event)$, for metrics that compare with it.
        rank_by: `"tiers"` or `"mira"`, see `mira_bench.ranking`.
        threads: The number of threads, by default all cores. The result does not depend on it.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truths = rng.normal(size=(300, 2))
        >>> good, narrow = rng.normal(size=(300, 100, 2)), 0.5 * rng.normal(size=(300, 100, 2))
        >>> result = score(truths, {"good": good, "narrow": narrow})
        >>> result.summary.query("metric == 'mira'").score.round(1).tolist()
        [0.7, 0.6]
    """

    if not isinstance(candidates, Mapping):
        raise UsageError("candidates must be a mapping of names to samples, such as {'npe': samples}")
    if not candidates:
        raise UsageError("there are no candidates to score: the mapping is empty")
    if rank_by not in RANKINGS:
        raise UsageError(f"rank_by={rank_by!r} is not one of {', '.join(RANKINGS)}")
    raw = as_array(truths, "truths")
    y = as_truths(raw)
    event = tuple(raw.shape[1:])
    samples = {name: as_samples(values, len(y), event, f"candidate {name!r}") for name, values in candidates.items()}
    observations = None if x is None else as_array(x, "x")
    if observations is not None and len(observations) != len(y):
        raise UsageError(f"x has {len(observations)} observations, the truths have {len(y)} fiducials")
    exact = None if reference is None else as_samples(reference, len(y), event, "reference")
    if names is not None and len(names) != y.shape[1]:
        raise UsageError(f"there are {len(names)} names for {y.shape[1]} dimensions")
    labels = None if groups is None else np.asarray(groups)
    if labels is None and any(len(as_array(s, name)) == 1 < len(y) for name, s in candidates.items()):
        labels = np.zeros(len(y), int)
    if labels is not None and labels.shape != (len(y),):
        raise UsageError(f"groups has shape {labels.shape}; one label per fiducial is needed: ({len(y)},)")

    chosen = choose_metrics(metrics, regions, normalize)
    pooled = None
    if any(getattr(m, "normalize", None) == "pooled" for m in chosen.values()):
        ranges = [sample_range(values) for values in samples.values()]
        pooled = (
            np.minimum.reduce([y, *(low for low, _ in ranges)]),
            np.maximum.reduce([y, *(high for _, high in ranges)]),
        )
    scaling = Scaling(y, task=as_bounds(bounds, y.shape[1]), pooled=pooled)
    for metric in chosen.values():
        scaling.resolve(getattr(metric, "normalize", "auto"))

    blocks = [slice(i, min(i + BLOCK, len(y))) for i in range(0, len(y), BLOCK)]

    def work(name: str, rows: slice) -> dict:
        values = samples[name][rows]
        block = Block(
            truths=y[rows],
            samples=values,
            index=np.arange(rows.start, rows.stop),
            scaling=scaling,
            seed=seed,
            name=f"candidate {name!r}",
            groups=None if labels is None else labels[rows],
            x=None if observations is None else observations[rows],
            reference=None if exact is None else lambda: as_host(exact[rows]),
        )
        if isinstance(values, np.ndarray):
            refuse_non_finite(values, block.name, rows.start)
        return observe(block, chosen)

    pool = Parallel(n_jobs=threads or available_threads(), backend="threading")
    outcomes = pool(delayed(work)(name, rows) for name in samples for rows in blocks)
    standings: list[Standing] = []
    for i, name in enumerate(samples):
        mine = outcomes[i * len(blocks) : (i + 1) * len(blocks)]
        standings.append(standing(name, "candidate", mine, chosen, scaling))
    return Result(
        task="samples",
        standings=standings,
        metrics=list(chosen),
        names=None if names is None else list(names),
        rank_by=rank_by,
        seed=seed,
    )
