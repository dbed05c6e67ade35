"""How far a run is, as a value that each event turns into the next one. Pure.

Events come from the run itself or from its file, which may be torn or of another version: what is not as it should be
counts as not said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from skillopt.types import fate_of
from skillopt.values import fraction, mapping, text, whole

STAGES = ("rollout", "reflect", "aggregate", "select", "update", "evaluate")
"""The stages of a step, in the order of their numbers from 1."""
_ENOUGH = 5  # answers before an estimate of the time that is left means anything
_MOST_PASSES = 8
_LARGEST = 10**9
_LONGEST_NOTE = 300
Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stage:
    """One of the six stages: ``state`` is '' (to come), ``now`` or ``done``; ``result`` is what its end told."""

    name: str
    state: Literal["", "now", "done"] = ""
    result: Fields = field(default_factory=dict)


_TO_COME = tuple(map(Stage, STAGES))


@dataclass(frozen=True, slots=True)
class PassProgress:
    """One pass over items that is going on. ``lost`` items could not be measured."""

    label: str
    total: int
    done: int = 0
    accuracy: float | None = None
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """A run as a display shows it.

    ``phase`` is what it does outside of the steps ('' within them), ``over`` the event that ended it ('' while it goes
    on). ``started`` and ``at`` are the times (seconds) of this process's first event and of the last one, None before
    any. ``planned`` and ``covered`` count answers of the target: what the whole run needs about (None while nobody
    knows), and what of that is behind it; ``answered`` are those of this process. ``cost`` is in US dollars, None while
    nobody knows it.
    """

    epoch: int = 0
    epochs: int = 0
    step: int = 0
    steps: int = 0
    phase: str = ""
    stages: tuple[Stage, ...] = _TO_COME
    passes: tuple[PassProgress, ...] = ()
    note: str = ""
    over: str = ""
    current: float | None = None
    best: float | None = None
    best_step: int = 0
    accepted: int = 0
    rejected: int = 0
    skipped: int = 0
    tokens: int = 0
    cost: float | None = None
    started: float | None = None
    at: float | None = None
    planned: float | None = 0.0
    covered: float = 0.0
    answered: int = 0
    train_items: float = 0.0
    val_items: int = 0

    def seconds_left(self, now: float | None) -> float | None:
        """About how long the run still takes, seen ``now``; None while there is nothing to reckon with."""
        if self.planned is None or self.started is None or now is None:
            return None
        elapsed = now - self.started
        if self.answered < _ENOUGH or elapsed <= 0:
            return None
        return max(0.0, self.planned - self.covered) * elapsed / self.answered


def after(progress: Progress, at: float | None, kind: str, fields: Fields) -> Progress:
    """``progress`` after an event at the time ``at`` (seconds on any clock, the same for all events of a run)."""
    change = _CHANGES.get(kind)
    if change is not None:
        progress = change(progress, fields)
    if at is None:
        return progress
    return replace(progress, at=at, started=at if progress.started is None else progress.started)


def _run_started(_: Progress, f: Fields) -> Progress:
    # A process that goes on begins anew: what earlier ones did comes as steps that are replayed.
    epochs, steps, train, val, test = (_count(f.get(name)) for name in ("epochs", "steps", "train", "val", "test"))
    per_step = epochs * train / max(1, steps)
    planned = val + steps * (per_step + val) + 2 * test
    new = Progress(epochs=epochs, steps=steps, phase="starting")
    return replace(_spent(new, f), train_items=per_step, val_items=val, planned=planned)


def _ended(kind: str) -> Callable[[Progress, Fields], Progress]:
    return lambda p, f: replace(_step_over(p), over=kind, passes=(), phase="")


def _phase(name: str) -> Callable[[Progress, Fields], Progress]:
    return lambda p, f: replace(p, phase=name)


def _baseline_done(p: Progress, f: Fields) -> Progress:
    hard = fraction(f.get("hard"))
    return replace(p, current=hard, best=hard)


def _epoch_started(p: Progress, f: Fields) -> Progress:
    return replace(p, epoch=_count(f.get("epoch")), epochs=_count(f.get("epochs")) or p.epochs)


def _step_started(p: Progress, f: Fields) -> Progress:
    step, steps, epoch = (_count(f.get(name)) for name in ("step", "steps", "epoch"))
    return replace(p, step=step, steps=steps or p.steps, epoch=epoch or p.epoch, phase="", stages=_TO_COME)


def _stage_started(p: Progress, f: Fields) -> Progress:
    return _with_stage(p, f, "now", {})


def _stage_done(p: Progress, f: Fields) -> Progress:
    return _with_stage(p, f, "done", f)


def _with_stage(p: Progress, f: Fields, state: Literal["now", "done"], result: Fields) -> Progress:
    number = _count(f.get("stage"))
    if not 1 <= number <= len(STAGES):
        return p
    stage = Stage(STAGES[number - 1], state, result)
    return replace(p, stages=(*p.stages[: number - 1], stage, *p.stages[number:]), phase="")


def _pass_started(p: Progress, f: Fields) -> Progress:
    new = PassProgress(text(f.get("label")), _count(f.get("total")))
    others = tuple(each for each in p.passes if each.label != new.label)
    whole_plan = p.planned is None or p.steps  # an evaluation has no other plan than its passes
    planned = p.planned if whole_plan else (p.planned or 0.0) + new.total
    return replace(p, passes=(*others, new)[-_MOST_PASSES:], planned=planned)


def _item_done(p: Progress, f: Fields) -> Progress:
    label, done, total = text(f.get("label")), _count(f.get("done")), _count(f.get("total"))
    known = {each.label: each for each in p.passes}
    lost = known[label].lost if label in known else 0
    lost += fraction(f.get("hard")) is None
    known[label] = PassProgress(label, total, done, fraction(f.get("accuracy")), lost)
    passes = tuple(each for each in known.values() if each.done < each.total)
    counted = not label.startswith("epoch")  # how many items an epoch's end takes, nobody knows before
    moved = replace(p, passes=passes[-_MOST_PASSES:], covered=p.covered + counted, answered=p.answered + 1)
    return _spent(moved, f)


def _step_done(p: Progress, f: Fields) -> Progress:
    row = mapping(f.get("row"))
    skipped = fate_of(text(row.get("action"))) == "skipped"
    p = _step_over(_counted(_spent(p, f), row))
    return replace(p, covered=p.covered + (p.val_items if skipped else 0))


def _step_replayed(p: Progress, f: Fields) -> Progress:
    row = mapping(f.get("row"))
    baseline = p.val_items if row.get("step") == 1 else 0
    p = replace(p, covered=p.covered + baseline + p.train_items + p.val_items, phase="")
    return _counted(replace(p, steps=_count(f.get("steps")) or p.steps), row)


def _step_over(p: Progress) -> Progress:
    return replace(p, stages=tuple(replace(each, state="done" if each.state else "") for each in p.stages))


def _counted(p: Progress, row: Fields) -> Progress:
    fate = fate_of(text(row.get("action")))
    return replace(
        p,
        epoch=_count(row.get("epoch")) or p.epoch,
        step=_count(row.get("step")) or p.step,
        current=fraction(row.get("current_score")),
        best=fraction(row.get("best_score")),
        best_step=_count(row.get("best_step")),
        accepted=p.accepted + (fate == "accepted"),
        rejected=p.rejected + (fate == "rejected"),
        skipped=p.skipped + (fate == "skipped"),
    )


def _spent(p: Progress, f: Fields) -> Progress:
    """What the run has spent so far, where the event says it."""
    tokens = whole(f["tokens"]) if "tokens" in f else p.tokens
    return replace(p, tokens=tokens, cost=fraction(f["cost_usd"]) if "cost_usd" in f else p.cost)


def _count(value: Any) -> int:
    return min(max(0, whole(value)), _LARGEST)


_CHANGES: Mapping[str, Callable[[Progress, Fields], Progress]] = {
    "run_started": _run_started,
    "run_finished": _ended("run_finished"),
    "run_stopped": _ended("run_stopped"),
    "baseline_started": _phase("measuring the seed"),
    "baseline_done": _baseline_done,
    "epoch_started": _epoch_started,
    "step_started": _step_started,
    "step_replayed": _step_replayed,
    "stage_started": _stage_started,
    "stage_done": _stage_done,
    "step_done": _step_done,
    "slow_update_done": _phase("end of the epoch"),
    "meta_skill_done": _phase("end of the epoch"),
    "test_started": _phase("final test"),
    "pass_started": _pass_started,
    "item_done": _item_done,
    "note": lambda p, f: replace(p, note=text(f.get("text"))[:_LONGEST_NOTE]),
}
