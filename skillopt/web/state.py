"""What a run is doing now, told by its events: the six stages, the items in flight, the last note."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skillopt.report.files import inside, new_lines, parse_row
from skillopt.report.folder import EVENTS, in_use
from skillopt.report.values import fraction, text, whole

STAGES = ("Rollout", "Reflect", "Aggregate", "Select", "Update", "Evaluate")
_FIRST_BYTES = 4 << 20
_CHUNK = 1 << 20
_MOST_PASSES = 8


@dataclass(frozen=True, slots=True)
class Stage:
    """One of the six stages: ``state`` is '' (to come), ``now`` or ``done``."""

    name: str
    state: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Pass:
    """Items in flight: ``done`` of ``total``; ``accuracy`` so far."""

    label: str
    done: int
    total: int
    accuracy: float | None = None


def _stages() -> tuple[Stage, ...]:
    return tuple(map(Stage, STAGES))


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is. ``phase`` is what it does outside of the steps ('' within them), ``over`` the event
    that ended it ('' while it goes on)."""

    step: int = 0
    steps: int = 0
    epoch: int = 0
    epochs: int = 0
    phase: str = ""
    stages: tuple[Stage, ...] = field(default_factory=_stages)
    passes: tuple[Pass, ...] = ()
    note: str = ""
    over: str = ""
    at: float = 0.0


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
    if before is None or size < before.position:
        progress, position = Progress(), max(0, size - _FIRST_BYTES)
    else:
        progress, position = before.progress, before.position
    while position < size:
        lines, after = new_lines(root, EVENTS, position, _CHUNK)
        progress = fold(progress, (event for event in map(parse_row, lines) if event is not None))
        if after <= position:
            break
        position = after
    running = in_use(root)
    if not running and progress.passes:
        progress = replace(progress, passes=())
    return LiveState(progress, position, running, _version(root, running))


def fold(progress: Progress, events: Iterable[Mapping[str, Any]]) -> Progress:
    """The progress after some more events. Pure."""
    for event in events:
        change = _CHANGES.get(text(event.get("event")))
        if change is not None:
            progress = change(progress, event)
        at = fraction(event.get("at"))
        if at is not None:
            progress = replace(progress, at=at)
    return progress


def _started(_: Progress, event: Mapping[str, Any]) -> Progress:
    return Progress(steps=whole(event.get("steps")), epochs=whole(event.get("epochs")), phase="starting")


def _ended(now: Progress, event: Mapping[str, Any]) -> Progress:
    over = text(event.get("event"))
    return replace(
        now, over=over, passes=(), phase="", stages=tuple(replace(s, state=s.state and "done") for s in now.stages)
    )


def _phase(name: str) -> Any:
    return lambda now, event: replace(now, phase=name)


def _epoch(now: Progress, event: Mapping[str, Any]) -> Progress:
    return replace(now, epoch=whole(event.get("epoch")), epochs=whole(event.get("epochs")))


def _step(now: Progress, event: Mapping[str, Any]) -> Progress:
    passes = tuple(each for each in now.passes if each.done < each.total)
    epoch = whole(event.get("epoch")) or now.epoch
    new = replace(now, step=whole(event.get("step")), steps=whole(event.get("steps")), epoch=epoch, phase="")
    return replace(new, stages=_stages(), passes=passes)


def _replayed(now: Progress, event: Mapping[str, Any]) -> Progress:
    row = event.get("row")
    step = whole(row.get("step")) if isinstance(row, dict) else 0
    return replace(now, step=step, steps=whole(event.get("steps")) or now.steps, phase="")


def _stage_started(now: Progress, event: Mapping[str, Any]) -> Progress:
    return _with_stage(now, whole(event.get("stage")), "now", "")


def _stage_done(now: Progress, event: Mapping[str, Any]) -> Progress:
    number = whole(event.get("stage"))
    return _with_stage(now, number, "done", _detail(number, event))


def _step_done(now: Progress, event: Mapping[str, Any]) -> Progress:
    return replace(now, stages=tuple(replace(s, state="done") if s.state == "now" else s for s in now.stages))


def _with_stage(now: Progress, number: int, state: str, detail: str) -> Progress:
    stages = list(now.stages)
    if not 1 <= number <= len(stages):
        return now
    stages[number - 1] = replace(stages[number - 1], state=state, detail=detail)
    return replace(now, stages=tuple(stages), phase="")


def _pass_started(now: Progress, event: Mapping[str, Any]) -> Progress:
    label = text(event.get("label"))
    passes = [each for each in now.passes if each.label != label]
    passes.append(Pass(label, 0, whole(event.get("total"))))
    return replace(now, passes=tuple(passes[-_MOST_PASSES:]))


def _item(now: Progress, event: Mapping[str, Any]) -> Progress:
    label, done, total = text(event.get("label")), whole(event.get("done")), whole(event.get("total"))
    passes = [each for each in now.passes if each.label != label]
    if done < total:
        passes.append(Pass(label, done, total, fraction(event.get("accuracy"))))
    return replace(now, passes=tuple(sorted(passes, key=lambda each: each.label)[-_MOST_PASSES:]))


def _note(now: Progress, event: Mapping[str, Any]) -> Progress:
    return replace(now, note=text(event.get("text"))[:300])


def _detail(stage: int, event: Mapping[str, Any]) -> str:
    if stage == 1:
        hard = fraction(event.get("hard"))
        return "" if hard is None else f"{hard:.0%} right"
    if stage == 2:
        return f"{whole(event.get('failure_patches')) + whole(event.get('success_patches'))} patches"
    if stage == 3:
        return f"{whole(event.get('merged'))} merged"
    if stage == 4:
        return f"{whole(event.get('ranked'))} of {whole(event.get('merged'))} edits"
    if stage == 5:
        return f"{whole(event.get('after')) - whole(event.get('before')):+,} characters"
    return text(event.get("action")).replace("_", " ")


_CHANGES: Mapping[str, Any] = {
    "run_started": _started,
    "run_finished": _ended,
    "run_stopped": _ended,
    "baseline_started": _phase("measuring the seed"),
    "epoch_started": _epoch,
    "step_started": _step,
    "step_replayed": _replayed,
    "stage_started": _stage_started,
    "stage_done": _stage_done,
    "step_done": _step_done,
    "slow_update_done": _phase("end of the epoch"),
    "meta_skill_done": _phase("end of the epoch"),
    "test_started": _phase("final test"),
    "pass_started": _pass_started,
    "item_done": _item,
    "note": _note,
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
