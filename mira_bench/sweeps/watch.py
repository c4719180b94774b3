r"""A live view of a sweep on a terminal; elsewhere one line per job that ends.

It reads the `job.json` files, so it sees jobs in this process, in others and on other machines alike.
"""

__all__ = ["Watch"]

import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..durations import clock
from .jobs import Job, read_job

SHOWN = 8  # running or failed jobs that are listed; more would flood the screen


class Watch:
    r"""Watches jobs until the context ends.

    Arguments:
        folder: The folder of the sweep.
        names: The jobs that will run.
        skipped: The number of jobs that were done before.
    """

    def __init__(self, folder: Path, names: Sequence[str], skipped: int) -> None:
        self._folder, self._names, self._skipped = folder, list(names), skipped
        self._jobs: dict[str, Job] = {}
        self._most = 1  # jobs that were seen to run at a time
        self._start = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        # Jobs in this process have their output redirected; the watch keeps the stream that it was born with.
        self._console = Console(file=sys.stderr)
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None

    def __enter__(self) -> "Watch":
        if self._live is not None:
            self._live.start()
        elif self._skipped:
            print(f"{self._skipped} job(s) are done already and are skipped", file=self._console.file, flush=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._look()
        if self._live is not None:
            self._live.update(Text(self._head()), refresh=True)  # what failed is listed by the sweep, with its reason
            self._live.stop()

    def _watch(self) -> None:
        # A look reads one small file per job that has not ended; a large sweep is looked at less often.
        while not self._stop.wait(max(0.5, len(self._names) / 1000)):
            self._look()

    def _look(self) -> None:
        for name in self._names:
            if name in self._jobs and self._jobs[name].ended:
                continue
            job = read_job(self._folder / name)
            if job is None:
                continue
            self._jobs[name] = job
            if job.ended and self._live is None:
                ended = sum(one.ended for one in self._jobs.values())
                line = f"[{ended}/{len(self._names)}] {job.status} {name} ({clock(job.seconds)})"
                print(f"{line}: {job.reason}" if job.reason else line, file=self._console.file, flush=True)
        self._most = max(self._most, len(self._with("running")))
        if self._live is not None:
            self._live.update(self.render(), refresh=True)

    def _with(self, *status: str) -> list[Job]:
        return [job for job in self._jobs.values() if job.status in status]

    def _left(self) -> float | None:
        r"""The time left, if jobs take as long as those that are done; none before the first one tells."""
        running = self._with("running")
        lengths = [job.seconds for job in self._with("done")]
        lengths = lengths or [job.seconds / job.progress for job in running if job.progress > 0]
        if not lengths:
            return None
        waiting = len(self._names) - sum(job.ended for job in self._jobs.values()) - len(running)
        open_jobs = waiting + sum(1 - job.progress for job in running)
        return open_jobs * sum(lengths) / len(lengths) / self._most

    def _head(self) -> str:
        done, running, failed = (len(self._with(*s)) for s in (["done"], ["running"], ["failed", "interrupted"]))
        before = f" + {self._skipped} before" if self._skipped else ""
        waiting = len(self._names) - done - running - failed
        times = f"{clock(time.monotonic() - self._start)} so far"
        left = self._left() if running + waiting else None
        times += "" if left is None else f", about {clock(left)} left"
        return f"{done} done{before}, {running} running, {failed} failed, {waiting} waiting; {times}"

    def render(self) -> RenderableType:
        r"""Returns what a terminal shows now."""

        running, failed = self._with("running"), self._with("failed", "interrupted")
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, overflow="ellipsis")
        for width in (20, 4, None):
            table.add_column(no_wrap=True, min_width=width)
        for job in running[:SHOWN]:
            bar = ProgressBar(total=1.0, completed=job.progress, width=20)
            table.add_row(Text(job.name), bar, f"{job.progress:.0%}", job.host)
        lines = [f"and {len(running) - SHOWN} more that run"] if len(running) > SHOWN else []
        lines += [f"and {len(failed) - SHOWN} that failed before"] if len(failed) > SHOWN else []
        reasons = [f"{job.status} {job.name}{': ' * bool(job.reason)}{job.reason}" for job in failed[-SHOWN:]]
        return Group(
            Text(f"{self._folder}: {len(self._names)} jobs"),
            Text(self._head()),
            table,
            *map(Text, lines),
            *(Text(reason, "red", no_wrap=True, overflow="ellipsis") for reason in reasons),
        )
