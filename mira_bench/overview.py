r"""One live overview of a sweep on a terminal; elsewhere one line per job that ends.

It reads the `job.json` files, so it sees jobs in this process, in others and on other machines alike.
"""

__all__ = ["Overview", "duration"]

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

from .jobs import Job, read_job

SHOWN = 8  # running or failed jobs that are listed; more would flood the screen


def duration(seconds: float) -> str:
    r"""Returns a time as people write it, e.g. 1:05 or 2:03:10."""

    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Overview:
    r"""Watches jobs until the context ends.

    Arguments:
        folder: The folder of the sweep.
        names: The jobs that will run.
        skipped: The number of jobs that were done before.
    """

    def __init__(self, folder: Path, names: Sequence[str], skipped: int) -> None:
        self._folder, self._names, self._skipped = folder, list(names), skipped
        self._jobs: dict[str, Job] = {}
        self._start = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        # Jobs in this process have their output redirected; the overview keeps the stream that it was born with.
        self._console = Console(file=sys.stderr)
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None

    def __enter__(self) -> "Overview":
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
                line = f"[{ended}/{len(self._names)}] {job.status} {name} ({duration(job.seconds)})"
                print(f"{line}: {job.reason}" if job.reason else line, file=self._console.file, flush=True)
        if self._live is not None:
            self._live.update(self.render(), refresh=True)

    def render(self) -> RenderableType:
        r"""Returns what a terminal shows now."""

        jobs = list(self._jobs.values())
        running = [job for job in jobs if job.status == "running"]
        failed = [job for job in jobs if job.status in ("failed", "interrupted")]
        done = sum(job.status == "done" for job in jobs)
        elapsed = time.monotonic() - self._start
        share = sum(1.0 if job.ended else job.progress for job in jobs)
        left = len(self._names) - len(running) - len(failed) - done
        times = f"{duration(elapsed)} so far"
        if 0 < share < len(self._names):
            times += f", {duration(elapsed * (len(self._names) / share - 1))} left"
        before = f" + {self._skipped} before" if self._skipped else ""
        head = f"{done} done{before}, {len(running)} running, {len(failed)} failed, {left} waiting; {times}"
        table = Table.grid(padding=(0, 2))
        for job in running[:SHOWN]:
            bar = ProgressBar(total=1.0, completed=job.progress, width=20)
            table.add_row(job.name, bar, f"{job.progress:.0%}", job.host)
        for job in failed[-SHOWN:]:
            table.add_row(f"[red]{job.name}[/red]", f"[red]{job.status}[/red]", "", Text(job.reason[:100]))
        return Group(Text(f"{self._folder}: {len(self._names)} jobs"), Text(head), table)
