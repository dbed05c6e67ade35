"""What a run is doing now: its progress by its events, read as they come, and the words for what came of a stage."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from skillopt.files import inside
from skillopt.report.files import new_lines, parse_row
from skillopt.run.events import EVENTS
from skillopt.run.folder import in_use
from skillopt.run.progress import Fields, Progress, Stage, after
from skillopt.values import fraction, text, whole

_FIRST_BYTES = 4 << 20
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class LiveState:
    """Progress, and how far the events have been read. ``version`` changes when a page of the run should be renewed;
    ``running`` says that a process holds the run's lock."""

    progress: Progress
    position: int
    running: bool
    version: str


def read_live(root: Path, before: LiveState | None = None) -> LiveState:
    """The state of the run in ``root``, from where ``before`` stopped reading."""
    path = inside(root, EVENTS)
    size = path.stat().st_size if path is not None else 0
    if before is not None and size >= before.position:
        progress, position = before.progress, before.position
    else:
        position = max(0, size - _FIRST_BYTES)
        progress = Progress(planned=None) if position else Progress()  # the plan stands at the start
    while position < size:
        lines, end = new_lines(root, EVENTS, position, _CHUNK)
        for event in filter(None, map(parse_row, lines)):
            progress = after(progress, fraction(event.get("at")), text(event.get("event")), event)
        if end <= position:
            break
        position = end
    running = in_use(root)
    return LiveState(progress, position, running, _version(root, running))


def result_words(stage: Stage) -> str:
    """What came of a stage, in a few words; '' while it goes on."""
    words = _RESULTS.get(stage.name)
    return words(stage.result) if words is not None and stage.state == "done" and stage.result else ""


def _rolled_out(told: Fields) -> str:
    hard = fraction(told.get("hard"))
    return "" if hard is None else f"{hard:.0%} right"


_RESULTS: Mapping[str, Callable[[Fields], str]] = {
    "rollout": _rolled_out,
    "reflect": lambda told: f"{whole(told.get('failure_patches')) + whole(told.get('success_patches'))} patches",
    "aggregate": lambda told: f"{whole(told.get('merged'))} merged",
    "select": lambda told: f"{whole(told.get('ranked'))} of {whole(told.get('merged'))} edits",
    "update": lambda told: f"{whole(told.get('after')) - whole(told.get('before')):+,} characters",
    "evaluate": lambda told: text(told.get("action")).replace("_", " "),
}


def _version(root: Path, running: bool) -> str:
    parts = [str(int(running))]
    for name in ("history.json", "summary.json", "runtime_state.json", "eval_summary.json"):
        try:
            told = os.stat(f"{root}/{name}")
            parts.append(f"{told.st_size:x}.{told.st_mtime_ns:x}")
        except OSError:
            parts.append("")
    return "-".join(parts)
