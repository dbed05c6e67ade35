"""The live view of a run on a terminal: what happened above, what is going on below, from the same events."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from skillopt.cli.console import lines_of, number
from skillopt.models.pricing import money
from skillopt.run.progress import PassProgress, Progress, after

_ABOVE = frozenset(
    {"run_started", "note", "baseline_done", "step_replayed", "step_done", "slow_update_done", "meta_skill_done"}
)


class LiveView:
    """Event listener that draws a run on ``console`` as long as it is entered. ``mask`` hides secrets."""

    def __init__(
        self, console: Console, mask: Callable[[str], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._mask = mask
        self._clock = clock
        self._began = clock()
        self._progress = Progress()
        # The view is drawn by a thread; it reads one reference to a value that never changes.
        self._live = Live(console=console, get_renderable=self.render, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, kind: str, fields: Mapping[str, Any]) -> None:
        self._progress = after(self._progress, self._clock(), kind, fields)
        if kind in _ABOVE:
            for line in lines_of(kind, fields)[: 1 if kind == "step_done" else None]:
                self._console.print(Text(self._mask(line)))

    def render(self) -> RenderableType:
        """The view as it is now."""
        progress, now = self._progress, self._clock()
        rows = [_head(progress, now, self._began), *(_bar(each) for each in progress.passes[:3])]
        return Group(*rows, *([Text(_scores(progress))] if progress.steps else []), Text(_spending(progress)))


def _head(progress: Progress, now: float, began: float) -> RenderableType:
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    grid.add_column(no_wrap=True, justify="right")
    where = "evaluating"
    if progress.steps:
        where = f"epoch {progress.epoch}/{progress.epochs}  step {progress.step}/{progress.steps}  {_doing(progress)}"
    left = progress.seconds_left(now)
    ahead = "" if left is None else f", about {duration(left)} left"
    grid.add_row(Text(where, style="bold"), Text(f"  {duration(now - began)}{ahead}"))
    return grid


def _doing(progress: Progress) -> str:
    """What the run does outside of the steps, or the stage of the step: ``1/6 ROLLOUT``."""
    stages = [f"{n}/6 {each.name.upper()}" for n, each in enumerate(progress.stages, 1) if each.state == "now"]
    return progress.phase or next(reversed(stages), "")


def _bar(each: PassProgress) -> RenderableType:
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(width=24, no_wrap=True, overflow="ellipsis")
    grid.add_column(ratio=1)
    grid.add_column(no_wrap=True, justify="right")
    accuracy = "" if each.accuracy is None else f"  acc {each.accuracy:.3f}"
    lost = f"  {each.lost} lost" if each.lost else ""
    bar = ProgressBar(total=max(1, each.total), completed=each.done)
    grid.add_row(Text(each.label), bar, Text(f"{each.done}/{each.total}{accuracy}{lost}"))
    return grid


def _scores(progress: Progress) -> str:
    best = f"best {number(progress.best)}" + (f" (step {progress.best_step})" if progress.best is not None else "")
    accepted, rejected, skipped = progress.accepted, progress.rejected, progress.skipped
    return f"current {number(progress.current)}  {best}   accept {accepted}  reject {rejected}  skip {skipped}"


def _spending(progress: Progress) -> str:
    return f"tokens {progress.tokens:,}   cost {money(progress.cost)}"


def duration(seconds: float) -> str:
    """``1:02:03``, ``2:03``."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
