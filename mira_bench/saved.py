r"""The folder of a run, read again: its tables, and the posteriors that it trained."""

__all__ = ["Saved", "Trained", "load"]

import dataclasses
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .arrays import Array, as_array, as_observations
from .candidate import Draws
from .errors import UsageError
from .report.html import ranking_html, sentence
from .report.outputs import read_facts
from .report.tables import read_table
from .streams import forked, generator


@dataclass(frozen=True)
class Trained:
    r"""The posterior of one candidate of a run, to be used on other observations.

    Arguments:
        name: The name of the candidate.
        posterior: What it built or learned.
        data: The shape of one observation.
    """

    name: str
    posterior: Any
    data: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Trained({self.name!r}, x of shape {self.data})"

    def sample(self, x: Array, count: int, seed: int | np.random.Generator = 0) -> NDArray[np.floating]:
        r"""Returns samples given observations.

        Arguments:
            x: One observation, or several with shape $(L, *data)$.
            count: The number of samples of each.
            seed: The seed, or a generator.

        Returns:
            The samples, with shape $(S, *event)$ for one observation, $(L, S, *event)$ for several.
        """

        several, alone = self._several(x)
        if count < 1:
            raise UsageError(f"count is {count}; it must be at least 1")
        rng = seed if isinstance(seed, np.random.Generator) else generator(seed, "trained", self.name)
        with forked(int(rng.integers(2**31)), "trained", self.name):
            values = Draws.of(self.posterior.sample(several, count, rng)).values
        out = np.asarray(as_array(values, "the posterior's samples"))
        return out[0] if alone else out

    def log_prob(self, y: Array, x: Array) -> NDArray[np.float64]:
        r"""Returns the log-density of points given observations.

        Arguments:
            y: The points, with shape $(K, *event)$ for one observation, $(L, K, *event)$ for several.
            x: One observation, or several with shape $(L, *data)$.

        Returns:
            The log-densities, with shape $(K,)$ or $(L, K)$.
        """

        if not hasattr(self.posterior, "log_prob"):
            raise UsageError(f"{self.name} has no density: it can be sampled alone")
        several, alone = self._several(x)
        points = np.asarray(as_array(y, "y"))
        values = np.asarray(self.posterior.log_prob(points[None] if alone else points, several))
        return values[0] if alone else values

    @property
    def sbi(self) -> Any:
        r"""The posterior as sbi's `DirectPosterior`, if sbi made it by NPE."""
        from .inference.as_sbi import as_sbi

        return as_sbi(self.posterior)

    def _several(self, x: Array) -> tuple[Array, bool]:
        values = np.asarray(as_array(x, "x"))
        alone = values.shape == self.data
        if not alone and values.shape[1:] != self.data:
            raise UsageError(f"x has shape {values.shape}; {self.name} was given observations of shape {self.data}")
        several = values[None] if alone else values
        return as_observations(several, len(several)), alone


@dataclass(frozen=True)
class Saved:
    r"""What the folder of a run holds.

    Arguments:
        folder: The folder.
    """

    folder: Path

    def __post_init__(self) -> None:
        if not (self.folder / "ranking.csv").is_file():
            raise UsageError(f"{self.folder} is not the folder of a run: it has no ranking.csv")

    def __repr__(self) -> str:
        return f"Saved({str(self.folder)!r}, task={self.task!r}): {sentence(self.ranking)}"

    def _repr_html_(self) -> str:
        return ranking_html(self.task, self.ranking, {})

    @cached_property
    def ranking(self) -> pd.DataFrame:
        r"""The ranking, as `Result.ranking`."""
        return read_table(self.folder / "ranking.csv")

    @cached_property
    def summary(self) -> pd.DataFrame:
        r"""Every metric of every candidate, as `Result.summary`."""
        return read_table(self.folder / "summary.csv")

    @cached_property
    def scores(self) -> pd.DataFrame:
        r"""Every fiducial, as `Result.scores`."""
        return pd.read_parquet(self.folder / "scores.parquet")

    @cached_property
    def provenance(self) -> dict[str, Any]:
        r"""Versions, hashes, times and what else is known about how it was made."""
        return dict(read_facts(self.folder))

    @property
    def task(self) -> str:
        r"""The name of the task."""
        return str(self.provenance.get("task", self.folder.name))

    def posterior(self, name: str) -> Trained:
        r"""Returns the posterior of a candidate, with the network that the run trained, from its store.

        Arguments:
            name: The name of the candidate, `npe/0` if it was trained several times.
        """

        from .config import asked
        from .runner.setup import Setup
        from .runner.training import recall, recall_task
        from .runner.units import build

        cfg = self._config()
        try:
            setup = Setup.of(*asked(cfg, self.task))
        except UsageError as error:
            where = f"paths in {self.folder / 'config.yaml'} begin where the run was started: start Python there"
            raise UsageError(f"{error} ({where})") from error
        if name not in setup.candidates:
            raise UsageError(f"{self.folder} has no candidate {name!r}; it has: {', '.join(setup.candidates)}")
        learned = recall_task(setup)
        if learned is None:
            raise self._gone(f"the task {self.task}", cfg.store)
        setup = learned
        if name in setup.trainings:
            state = recall(setup, name)
            if state is None:
                raise self._gone(name, cfg.store)
            setup = dataclasses.replace(setup, fits={name: state})
        x = setup.task.simulate(1, np.random.default_rng(0)).x
        return Trained(name, build(setup, name)[0], () if x is None else tuple(np.shape(x))[1:])

    def _config(self) -> Any:
        from omegaconf import OmegaConf

        if not (self.folder / "config.yaml").is_file():
            raise UsageError(f"{self.folder} has no config.yaml, which says how posteriors were made")
        cfg: Any = OmegaConf.load(self.folder / "config.yaml")
        if "model" not in cfg.get("task", {}):
            raise UsageError(f"{self.folder} has scores of samples that were given: there is no posterior to sample")
        return cfg

    def _gone(self, what: str, store: Any) -> UsageError:
        return UsageError(
            f"the store {store} has no training of {what} as {self.folder} describes it: it was removed, code or "
            "libraries were changed, or this is another directory; the command of the run makes it again"
        )


def load(folder: str | os.PathLike[str]) -> Saved:
    r"""Reads the folder of a run.

    Arguments:
        folder: The folder, which `python -m mira_bench` or `Result.save` wrote.
    """

    return Saved(Path(folder))
