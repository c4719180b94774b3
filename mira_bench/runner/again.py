r"""The samples of a few fiducials after a run, for corner plots: those that the store kept, or the same drawn again."""

__all__ = ["look_again"]

import functools
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_host, flat
from ..fiducials import Fiducials
from ..ranking.standing import Standing
from ..report.glimpses import glimpses
from .engines import one_thread
from .setup import Setup
from .units import draw_again, forget

log = logging.getLogger("mira_bench")

QUICK = 3.0  # seconds that the sampling of a block may have taken if it is to be drawn again for the page
SAMPLING = 0.2  # of the time of a block, where only that is known: the rest is scoring, and compiling what scores
TOGETHER = 15.0  # seconds after which no block is drawn again


def look_again(
    setup: Setup, parts: Sequence[Fiducials], standings: Sequence[Standing], rank_by: str, seconds: Mapping[str, float]
) -> dict[str, Any]:
    r"""Returns what corner plots are drawn of, see `mira_bench.report.glimpses`; nothing if events are images.

    Arguments:
        setup: What was run.
        parts: The fiducials, block by block.
        standings: What came of it.
        rank_by: The rule of the ranking.
        seconds: The time that the run spent on each candidate.
    """

    if len(parts[0].event) > 1:
        return {}

    end = time.monotonic() + TOGETHER

    @functools.cache
    def block_of(name: str, block: int) -> NDArray | None:
        most = QUICK if time.monotonic() < end else 0.0
        try:
            draws = draw_again(setup, name, block, parts[block], most, SAMPLING * seconds[name] / len(setup.blocks))
        except Exception as error:  # the run is over, and its scores do not need this
            log.info("no corner plots of %s: %s: %s", name, type(error).__name__, error)
            return None
        return None if draws is None else flat(as_host(draws.values), 2)

    def of(name: str, i: int) -> NDArray | None:
        block, row = divmod(i, setup.size)
        values = block_of(name, block)
        return None if values is None else values[row]

    good = [s.name for s in standings if s.failure is None]
    truths = np.concatenate([part.truths for part in parts])[: setup.fiducials]
    names = getattr(setup.task, "names", None)
    try:
        with one_thread():
            own = {name: functools.partial(of, name) for name in good}
            return glimpses(standings, rank_by, setup.seed, names, truths, own)
    except Exception as error:  # neither do they need the choice of fiducials
        log.warning("there are no corner plots: %s: %s", type(error).__name__, error)
        return {}
    finally:
        forget()
