r"""Progress: on a terminal a bar per candidate and the time left for all of them; elsewhere a line a minute."""

__all__ = ["Progress", "watched"]

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars
from rich.progress import Task as Bar
from rich.text import Text

from ..durations import clock

_watcher: ContextVar[Callable[[float], None] | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(tell: Callable[[float], None]) -> Iterator[None]:
    r"""Tells somebody the part that is done, between 0 and 1, whether bars are shown or not."""
    token = _watcher.set(tell)
    try:
        yield
    finally:
        _watcher.reset(token)


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
        left = task.fields.get("left")
        elapsed = task.finished_time if task.finished else task.elapsed
        seconds, word = (elapsed, "") if task.finished or left is None else (left, " left")
        return Text("" if seconds is None else f"{clock(seconds)}{word}")


EVERYTHING = "all"
TRAININGS = "trainings"
QUIET = 60  # seconds between two lines where there is no terminal


class Progress:
    r"""A context that shows how far a run is, if it is enabled.

    Arguments:
        enabled: Whether bars or lines are shown.
        workers: How many work at a time: the time left is that of the work left, shared by them.
    """

    def __init__(self, enabled: bool, workers: int = 1) -> None:
        console = Console(stderr=True)
        self._bars: Bars | None = None
        self._ids: dict[str, int] = {}
        self._workers = workers
        self._done: dict[str, int] = {}
        self._total: dict[str, int] = {}
        self._unfinished: dict[str, str] = {}  # how far the networks are that are not trained yet
        self._begun = 0.0
        self._lock = threading.Lock()
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
            name: The name of the bar that moves.
            count: The number of fiducials that were finished.
            seconds: How long these fiducials kept a worker busy; zero if they were in the store, by default the time
                since the last call.
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
        # How long a training takes is not known, so nobody knows the rest either.
        known = bool(self._cost) and not self._unfinished
        everything = sum(self._left(key) for key in self._open()) if known else None
        tell = _watcher.get()
        if tell is not None:
            tell(sum(self._done.values()) / max(sum(self._total.values()), 1))
        if self._bars is not None:
            for key in self._open():
                self._bars.update(self._ids[key], left=self._left(key) if known else None)  # type: ignore[arg-type]
            for key in (name, EVERYTHING):
                if key in self._ids:
                    self._bars.start_task(self._ids[key])  # type: ignore[arg-type]
                    self._bars.advance(self._ids[key], count)  # type: ignore[arg-type]
            if EVERYTHING in self._ids:
                self._bars.update(self._ids[EVERYTHING], left=everything)  # type: ignore[arg-type]
        elif self._lines and now - self._said > QUIET:
            self._said = now
            rest = "" if everything is None else f"; about {clock(everything)} left for all"
            print(f"{name}: {self._done[name]} of {self._total[name]}{rest}", file=sys.stderr)

    def _open(self) -> list[str]:
        return [name for name, total in self._total.items() if self._done[name] < total]

    def _left(self, name: str) -> float:
        r"""The time for the rest of a candidate; one that has not begun is taken to cost what the others do."""
        known = [self._cost[name]] if name in self._cost else list(self._cost.values())
        each = sum(s for s, _ in known) / max(sum(n for _, n in known), 1)
        return (self._total[name] - self._done[name]) * each / self._workers

    def add_trainings(self, names: Sequence[str]) -> None:
        r"""Adds a bar for each training, and one that counts those that are done if there are several."""
        for name in names:
            self.add(f"fit {name}", 1)
        self._begun, self._unfinished = time.monotonic(), dict.fromkeys(names, "")
        if self._bars is not None and len(names) > 1:
            self._ids[TRAININGS] = self._bars.add_task(TRAININGS, total=len(names))

    def tell(self, name: str, what: str, done: float, total: float | None) -> None:
        r"""Shows how far a training is: `done` of `total` simulations, then epochs."""
        with self._lock:  # another thread may tell it
            if name not in self._unfinished:  # it is done, and this is old news
                return
            self._unfinished[name] = f"{done:.4g}{f' of {total:g}' if total else ''} {what}"
            if self._lines and time.monotonic() - self._said > QUIET:
                self._said = time.monotonic()
                print(self._sentence(), file=sys.stderr)
            if self._bars is not None:
                bar, label = self._ids[f"fit {name}"], f"fit {name}, {what}"
                if self._bars.tasks[bar].description != label:  # another thing is counted, at another rate
                    self._bars.reset(bar, total=total, description=label)  # type: ignore[arg-type]
                self._bars.update(bar, completed=done, total=total)  # type: ignore[arg-type]

    def _sentence(self) -> str:
        r"""Which networks are being trained, and how many are done, in a line."""
        count = sum(name.startswith("fit ") for name in self._total)
        now = ", ".join(f"{name} ({far})" for name, far in self._unfinished.items() if far) or "..."
        elapsed = clock(time.monotonic() - self._begun)
        return f"training: {now}; {count - len(self._unfinished)} of {count} done, {elapsed}"

    def trained(self, name: str, failed: bool = False) -> None:
        r"""Fills the bar of a training, or marks it as failed."""
        with self._lock:
            self._unfinished.pop(name, None)
        bar = f"fit {name}"
        if failed:
            self.fail(bar)
        else:
            self._done[bar] = self._total[bar]
        if self._bars is not None:
            if not failed:
                self._bars.start_task(self._ids[bar])  # type: ignore[arg-type]
                self._bars.update(self._ids[bar], description=bar, completed=1, total=1)  # type: ignore[arg-type]
                self._bars.stop_task(self._ids[bar])  # type: ignore[arg-type]
            if TRAININGS in self._ids:
                self._bars.advance(self._ids[TRAININGS], 1)  # type: ignore[arg-type]

    def fail(self, name: str) -> None:
        r"""Marks a bar whose candidate failed."""
        self._total[name] = self._done.get(name, 0)
        if self._bars is not None:
            self._bars.update(self._ids[name], description=f"[red]{name} failed[/red]")  # type: ignore[arg-type]
            self._bars.stop_task(self._ids[name])  # type: ignore[arg-type]
