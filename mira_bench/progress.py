r"""Progress on a terminal: one bar per candidate, with rate and time left. Silent elsewhere."""

__all__ = ["Progress"]

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
        seconds, word = (task.elapsed, "") if task.finished else (task.time_remaining, " left")
        if seconds is None:
            return Text("")
        minutes, rest = divmod(int(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return Text(f"{hours}:{minutes:02d}:{rest:02d}{word}" if hours else f"{minutes}:{rest:02d}{word}")


class Progress:
    r"""A context that shows bars if it is enabled and the console is a terminal."""

    def __init__(self, enabled: bool) -> None:
        console = Console(stderr=True)
        self._bars: Bars | None = None
        self._ids: dict[str, int] = {}
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

    def advance(self, name: str, count: int) -> None:
        r"""Moves a bar by `count` fiducials."""
        if self._bars is not None:
            self._bars.start_task(self._ids[name])  # type: ignore[arg-type]
            self._bars.advance(self._ids[name], count)  # type: ignore[arg-type]

    def tell(self, name: str, what: str, done: int, total: int | None) -> None:
        r"""Shows on a bar how far a training is: `done` of `total` simulations, then epochs."""
        if self._bars is not None:
            bar, label = self._ids[name], f"{name}, {what}"
            if self._bars.tasks[bar].description != label:  # another thing is counted, at another rate
                self._bars.reset(bar, total=total, description=label)  # type: ignore[arg-type]
            self._bars.update(bar, completed=done, total=total)  # type: ignore[arg-type]

    def finish(self, name: str) -> None:
        r"""Fills the bar of a training."""
        if self._bars is not None:
            bar = self._ids[name]
            self._bars.start_task(bar)  # type: ignore[arg-type]
            self._bars.update(bar, description=name, completed=1, total=1)  # type: ignore[arg-type]
            self._bars.stop_task(bar)  # type: ignore[arg-type]

    def fail(self, name: str) -> None:
        r"""Marks a bar whose candidate failed."""
        if self._bars is not None:
            self._bars.update(self._ids[name], description=f"[red]{name} failed[/red]")  # type: ignore[arg-type]
            self._bars.stop_task(self._ids[name])  # type: ignore[arg-type]
