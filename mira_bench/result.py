r"""What a run or a call of `score` gives: tables, a ranking, figures, and a folder to keep them in."""

__all__ = ["Result"]

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .errors import UsageError
from .metric import Scores
from .ranking.standing import Standing, difference
from .ranking.tiers import TIERS, notices, rank, rule
from .ranking.trainings import method_table
from .ranking.verdicts import objections
from .report import tables
from .report.details import DETAILS, details, sha256_of
from .report.html import ranking_html, sentence
from .report.outputs import announce, check_style, clear, copy_code
from .report.page import try_report
from .report.trainings import Curves, training_figure, training_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

log = logging.getLogger("mira_bench")

NUMBERS = ["score", "stderr", "expected", "pvalue"]
FROM_ORACLE = ["from_oracle", "from_oracle_stderr"]
SUMMARY = ["task", "candidate", "metric", "view", *NUMBERS, *FROM_ORACLE, "note"]


def _split(metric: str) -> tuple[str, str]:
    r"""The name of a metric and the view that it looks at."""
    name, _, view = metric.partition("@")
    return name, view or "all"


def _rows(standing: Standing, metric: str) -> Iterator[tuple[tuple[str, str], Scores]]:
    r"""What a metric says about a candidate, and what its parts say, each by its name and its view."""
    if metric in standing.scores:
        scores = standing.scores[metric]
        name, view = _split(metric)
        yield (name, view), scores
        yield from (((f"{name}.{part}", view), more) for part, more in scores.parts.items())


@dataclass(frozen=True)
class Result:
    r"""The scores of all candidates of one task.

    Arguments:
        task: The name of the task.
        standings: The candidates with their scores, in the order in which they were given.
        metrics: The names of the metrics that were asked for.
        columns: The titles of those that the printed ranking has a column for, beside those that it always has.
        names: The names of the parameters, if they have any.
        rank_by: The rule of the ranking.
        seed: The seed of the run.
        seconds: The time spent on sampling and scoring, per candidate.
        warnings: What makes the scores less than they seem, one sentence each.
        reuse: What came from the store, and whether it is believed, one sentence each.
        remarks: What the task says to readers of its ranking, one sentence each.
        identity: Hashes that tell this task and these candidates from others of the same name.
        files: The hashes of the user's files that took part, by path.
        pictures: Draws the task's own figures, by name, if it has any.
        corners: Gives the samples of a few fiducials for corner plots, see `mira_bench.report.glimpses`, if it has any.
        curves: For candidates that were trained, their curves by name: epochs, and the values there.
        training_seconds: How long the training of each took, whenever it was made.
        preprocess: The name of what was done to truths and samples before scoring, if the task does anything.
        style: The look of its figures: `"paper"`, a column with the fonts of journals, or `"screen"`.

    Attributes:
        folder: Where it was saved last.
    """

    task: str
    standings: Sequence[Standing]
    metrics: Sequence[str]
    names: list[str] | None = None
    rank_by: str = "tiers"
    seed: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    reuse: Sequence[str] = ()
    remarks: Sequence[str] = ()
    identity: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    pictures: "Callable[[], Mapping[str, Figure]] | None" = None
    corners: Callable[[], Mapping[str, Any]] | None = None
    curves: Curves = field(default_factory=dict)
    training_seconds: Mapping[str, float] = field(default_factory=dict)
    preprocess: str = ""
    style: str = "paper"
    folder: Path | None = field(default=None, init=False)

    def in_style(self, style: str) -> "Result":
        r"""Returns the same result, whose figures have another look."""
        check_style(style)
        return replace(self, style=style)

    def __repr__(self) -> str:
        scores = [one for s in self.standings for one in s.scores.values()]
        samples = sorted({one.result.samples for one in scores if hasattr(one.result, "samples")})
        parts: dict[str, object] = {"task": self.task, "candidates": [s.name for s in self.standings]}
        lengths = [len(one.per_fiducial) for one in scores if one.per_fiducial is not None]
        parts["fiducials"] = max(lengths, default=None)
        parts["samples"] = samples[0] if len(samples) == 1 else samples or None
        parts["folder"] = None if self.folder is None else str(self.folder)
        return f"Result({', '.join(f'{key}={value!r}' for key, value in parts.items())}): {sentence(self.ranking)}"

    @property
    def notices(self) -> list[str]:
        r"""What the ranking does not say: that there are no tiers, or what speaks against a candidate of tier A."""
        told = [*self.remarks]
        told += [f"truths and samples are scored after preprocess={self.preprocess}"] if self.preprocess else []
        told += notices(self.standings, self.rank_by, self.seed)
        if self.rank_by != "tiers":
            return told
        words = rule(self.standings, self.rank_by)
        if words != TIERS:
            lacking = [metric for metric in ("calibration", "energy") if metric not in self.metrics]
            unknown = (
                "where the skill against the prior is not known: there is no prior, or there are too few fiducials"
            )
            reason = f"without the metric {' and '.join(lacking)}" if lacking else unknown
            return [f"there are no tiers {reason}; candidates are ranked by {words}", *told]
        ranked = [s for s in self.standings if s.role == "candidate" and s.failure is None]
        untested = [s.name for s in ranked if s.tier == "-"]
        told += [f"{name} has no tier, and ranks below those that passed or failed the test" for name in untested]
        for s in ranked:
            found = objections(s) if s.tier == "A" else []
            if found:
                told.append(f"{s.name} is in tier A, and yet there are objections: {'; '.join(found)}")
        return told

    @cached_property
    def ranking(self) -> pd.DataFrame:
        r"""The ranking, best first; see `mira_bench.ranking.tiers`."""
        table = rank(list(self.standings), rank_by=self.rank_by, names=self.names, seed=self.seed)
        scores = {s.name: s.scores for s in self.standings}
        for metric in (key for key in self.columns if key not in table):
            values = [scores[name][metric].score if metric in scores[name] else np.nan for name in table["candidate"]]
            table.insert(table.columns.get_loc("verdict"), metric, values)
        if self.preprocess:
            table.insert(table.columns.get_loc("verdict"), "preprocess", self.preprocess)
        return table

    @cached_property
    def methods(self) -> pd.DataFrame | None:
        r"""One row per method, if methods were trained several times; see `mira_bench.ranking.trainings`."""
        several = any(s.method not in (None, s.name) for s in self.standings)
        return method_table(self.standings, rank_by=self.rank_by) if several else None

    @cached_property
    def trainings(self) -> pd.DataFrame | None:
        r"""One row per candidate that was trained: its epochs, the minutes that they took, and the last losses."""
        return training_table(self.curves, self.training_seconds) if self.curves else None

    @cached_property
    def summary(self) -> pd.DataFrame:
        r"""One row per candidate, metric and view: score, stderr, expected, pvalue, from_oracle, note.

        Where a run has an oracle, `from_oracle` is the mean over fiducials of the candidate's score minus the oracle's.
        """
        oracle = next((s for s in self.standings if s.role == "oracle" and s.failure is None), None)
        rows = []
        for s in self.standings:
            for metric in self.metrics:
                others = {} if oracle is None else dict(_rows(oracle, metric))
                failed = Scores(note=f"failed: {s.failure}")
                for (name, view), scores in _rows(s, metric) if metric in s.scores else [(_split(metric), failed)]:
                    row: dict[str, object] = {"task": self.task, "candidate": s.name, "metric": name, "view": view}
                    row |= {key: getattr(scores, key) for key in (*NUMBERS, "note")}
                    if oracle is not None and (name, view) in others:
                        found = difference((s, scores), (oracle, others[name, view]))
                        row |= dict(zip(FROM_ORACLE, found, strict=True))
                    rows.append(row)
        return pd.DataFrame(rows, columns=SUMMARY)

    @cached_property
    def scores(self) -> pd.DataFrame:
        r"""One row per candidate, metric and fiducial: the value, for metrics that have one per fiducial."""
        parts = []
        for s in self.standings:
            for metric in s.scores:
                for (name, view), scores in _rows(s, metric):
                    if scores.per_fiducial is None:
                        continue
                    values = scores.per_fiducial
                    front = {"task": self.task, "candidate": s.name, "metric": name, "view": view}
                    parts.append(pd.DataFrame(front | {"fiducial": np.arange(len(values)), "value": values}))
        columns = ["task", "candidate", "metric", "view", "fiducial", "value"]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)

    @property
    def failures(self) -> dict[str, str]:
        r"""The candidates that failed, with the reason, and the metrics that failed for some candidate."""
        found = {s.name: s.failure for s in self.standings if s.failure is not None}
        for s in self.standings:
            for metric, scores in s.scores.items():
                if scores.note.startswith("failed: "):
                    found.setdefault(f"metric {metric}", f"{scores.note.removeprefix('failed: ')} (for {s.name})")
        return found

    def with_failures(self, failures: Mapping[str, str], names: Sequence[str]) -> "Result":
        r"""Returns the result with candidates that could not be scored, each in its place.

        Arguments:
            failures: Why they could not be scored, by name.
            names: The names of all candidates, in the order in which they were given.
        """
        scored = {one.name: one for one in self.standings}
        everyone = [scored.get(name) or Standing(name, failure=failures[name]) for name in names]
        return replace(self, standings=everyone)

    def plot(self, kind: str = "overview", ax: "Axes | None" = None) -> "Figure | Axes":
        r"""Draws a plot.

        Arguments:
            kind: `"overview"`, the paper's figure; `"sbc"`, `"convergence"`, `"training"`; or `"mira"`, `"skill"`,
                `"coverage"`, which have one panel.
            ax: The axes into which the latter are drawn, by default those of a new figure.

        Returns:
            The figure; or the axes, if they were given.
        """
        from .report.figures import drawn_in, notebooks_show_figures
        from .report.panels import draw

        notebooks_show_figures()
        with drawn_in(self.style):
            return draw(self, kind, ax)

    def _repr_html_(self) -> str:
        return ranking_html(self.task, self.ranking, self.columns)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        r"""Writes tables, figures and a page into a folder, without what an earlier result left there."""
        path = Path(folder)
        try:
            path.mkdir(parents=True, exist_ok=True)
            clear(path)
        except OSError as error:
            raise UsageError(f"the folder {path} cannot be written: {error}") from error
        texts = {name: content for name in self.files if (content := self._unchanged(name)) is not None}
        copy_code(path, texts)
        self.write(path)
        try_report(path)
        return path

    def write(self, folder: Path) -> Path:
        r"""Writes tables and figures beside what is in a folder."""
        try:
            tables.save(self, folder)
            announce(folder, DETAILS)
            told = details(self) | {"ranking": sha256_of(folder / "ranking.csv")}
            (folder / DETAILS).write_text(json.dumps(told, allow_nan=False), encoding="utf-8")
            self._try_figures(folder / "figures")
        except OSError as error:
            raise UsageError(f"the folder {folder} cannot be written: {error}") from error
        object.__setattr__(self, "folder", folder)
        return folder

    def _unchanged(self, path: str) -> bytes | None:
        r"""The text of a file of code that took part, if it is still the same."""
        try:
            text = Path(path).read_bytes() if path.endswith(".py") else None
        except OSError:
            return None
        return text if text is not None and hashlib.sha256(text).hexdigest() == self.files[path] else None

    def _try_figures(self, folder: Path) -> None:
        r"""Draws the figures of a run that is over: a bug in one must not cost the run."""
        try:
            self.save_figures(folder)
        except (OSError, UsageError):
            raise
        except Exception as error:
            told = f"not all figures could be drawn ({type(error).__name__}: {error}); the tables are there"
            log.error("%s", told)
            object.__setattr__(self, "warnings", (*self.warnings, told))

    def save_figures(self, folder: Path) -> None:
        r"""Draws what the scores give: overview, SBC ranks, convergence, and the task's own pictures."""
        from .report import figures

        def save(name: str, figure: "Figure") -> None:
            top = next((one.parent for one in (folder, *folder.parents) if one.name == "figures"), folder.parent)
            announce(top, *(f"{(folder / name).relative_to(top).as_posix()}.{kind}" for kind in ("png", "pdf")))
            figures.save(figure, folder / name)

        with figures.drawn_in(self.style):
            if any(s.mira is not None or "tarp" in s.scores for s in self.standings):
                save("overview", figures.overview(self))
            if any("sbc" in s.scores and s.scores["sbc"].result is not None for s in self.standings):
                save("sbc", figures.sbc_histograms(self))
            if any(s.convergence is not None and s.convergence.of_chains for s in self.standings):
                save("convergence", figures.convergence(self))
            if any(self.curves.values()):
                save("training", training_figure(self.curves))
            for name, figure in (self.pictures() if self.pictures is not None else {}).items():
                save(name, figure)
