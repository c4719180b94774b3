r"""Progress: on a terminal a bar per candidate and the time left for all of them; elsewhere a line a minute."""

__all__ = ["Progress"]

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars
from rich.progress import Task as Bar
from rich.text import Text


class _Rate(TextColumn):
    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: Bar) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed and speed >= 10 else f"{speed:.2g}/s" if speed else "")


class _Time(TextColumn):
    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: Bar) -> Text:
        seconds, word = (task.elapsed, "") if task.finished else (task.fields.get("left"), " left")
        return Text("" if seconds is None else f"{_clock(seconds)}{word}")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


EVERYTHING = "all"
QUIET = 60  # seconds between two lines where there is no terminal


class Progress:
    r"""A context that shows how far a run is, if it is enabled.

    Arguments:
        enabled: Whether to show anything.
        workers: How many work at a time: the time left is that of the work left, shared by them.
    """

    def __init__(self, enabled: bool, workers: int = 1) -> None:
        console = Console(stderr=True)
        self._bars: Bars | None = None
        self._ids: dict[str, int] = {}
        self._workers = workers
        self._done: dict[str, int] = {}
        self._total: dict[str, int] = {}
        self._cost: dict[str, tuple[float, int]] = {}  # seconds, and the fiducials that took them
        self._lines = enabled and not console.is_terminal
        self._tick = self._said = time.monotonic()
        if enabled and console.is_terminal:
            self._bars = Bars(
                TextColumn("{task.description:<18}"), BarColumn(bar_width=30), MofNCompleteColumn(),
                _Rate(), _Time(), console=console,
            )  # fmt: skip

    def __enter__(self) -> "Progress":
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def add(self, name: str, total: int) -> None:
        r"""Adds the bar of a candidate that has `total` fiducials."""
        if self._bars is not None:
            self._ids[name] = self._bars.add_task(name, total=total, start=False)
        self._done[name], self._total[name] = 0, total

    def add_sum(self) -> None:
        r"""Adds a bar for all that was added and is not done."""
        if self._bars is not None and len(self._open()) > 1:
            total = sum(self._total[name] for name in self._open())
            self._ids[EVERYTHING] = self._bars.add_task(EVERYTHING, total=total, start=False)

    def advance(self, name: str, count: int, seconds: float | None = None) -> None:
        r"""Moves a bar by `count` fiducials.

        Arguments:
            name: Whose.
            count: How many.
            seconds: How long they kept a worker busy; zero if they were in the store, by default the time since the
                last call.
        """
        if name not in self._total:  # a pass that nobody asked to see
            return
        now = time.monotonic()
        self._done[name] += count
        if seconds is None:
            seconds, self._tick = (now - self._tick) * self._workers, now
        if seconds:
            spent, fiducials = self._cost.get(name, (0.0, 0))
            self._cost[name] = spent + seconds, fiducials + count
        everything = sum(self._left(key) for key in self._open())
        if self._bars is not None:
            for key in self._open():
                self._bars.update(self._ids[key], left=self._left(key) if self._cost else None)  # type: ignore[arg-type]
            for key in (name, EVERYTHING):
                if key in self._ids:
                    self._bars.start_task(self._ids[key])  # type: ignore[arg-type]
                    self._bars.advance(self._ids[key], count)  # type: ignore[arg-type]
            if EVERYTHING in self._ids:
                self._bars.update(self._ids[EVERYTHING], left=everything)  # type: ignore[arg-type]
        elif self._lines and now - self._said > QUIET:
            self._said = now
            rest = f"about {_clock(everything)} left for all"
            print(f"{name}: {self._done[name]} of {self._total[name]}; {rest}", file=sys.stderr)

    def _open(self) -> list[str]:
        return [name for name, total in self._total.items() if self._done[name] < total]

    def _left(self, name: str) -> float:
        r"""The time for the rest of a candidate; one that has not begun is taken to cost what the others do."""
        known = [self._cost[name]] if name in self._cost else list(self._cost.values())
        each = sum(s for s, _ in known) / max(sum(n for _, n in known), 1)
        return (self._total[name] - self._done[name]) * each / self._workers

    def fail(self, name: str) -> None:
        r"""Marks a bar whose candidate failed."""
        self._total[name] = self._done.get(name, 0)
        if self._bars is not None:
            self._bars.update(self._ids[name], description=f"[red]{name} failed[/red]")  # type: ignore[arg-type]
            self._bars.stop_task(self._ids[name])  # type: ignore[arg-type]
