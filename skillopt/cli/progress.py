"""How far a run is, as a value that each event turns into the next one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

STAGES = ("1/6 ROLLOUT", "2/6 REFLECT", "3/6 AGGREGATE", "4/6 SELECT", "5/6 UPDATE", "6/6 EVALUATE")
_ENOUGH = 5  # answers before an estimate of the time that is left means anything


@dataclass(frozen=True)
class PassProgress:
    """One pass over items that is going on. ``lost`` items could not be measured."""

    label: str
    total: int
    done: int = 0
    accuracy: float | None = None
    lost: int = 0


@dataclass(frozen=True)
class Progress:
    """A run as a display shows it. ``started`` is the clock (seconds) at the start of this process.

    ``planned`` and ``covered`` count answers of the target: what the whole run needs about, and what of that is behind
    it; ``answered`` are those of this process. ``cost`` is in US dollars, None while nobody knows it.
    """

    started: float = 0.0
    epoch: int = 0
    epochs: int = 0
    step: int = 0
    steps: int = 0
    stage: str = ""
    running: tuple[PassProgress, ...] = ()
    current: float | None = None
    best: float | None = None
    best_step: int = 0
    accepted: int = 0
    rejected: int = 0
    skipped: int = 0
    tokens: int = 0
    cost: float | None = None
    planned: float = 0.0
    covered: float = 0.0
    answered: int = 0
    train_items: float = 0.0
    val_items: int = 0


def after(progress: Progress, kind: str, fields: Mapping[str, Any]) -> Progress:
    """``progress`` after an event."""
    change = _CHANGES.get(kind)
    return progress if change is None else change(progress, fields)


def seconds_left(progress: Progress, now: float) -> float | None:
    """About how long the run still takes; None while there is nothing to reckon with."""
    elapsed = now - progress.started
    if progress.answered < _ENOUGH or elapsed <= 0:
        return None
    return max(0.0, progress.planned - progress.covered) * elapsed / progress.answered


def _run_started(p: Progress, f: Mapping[str, Any]) -> Progress:
    per_step = f["epochs"] * f["train"] / max(1, f["steps"])
    planned = f["val"] + f["steps"] * (per_step + f["val"]) + 2 * f["test"]
    p = replace(p, epochs=f["epochs"], steps=f["steps"], stage="START")
    return replace(_spent(p, f), train_items=per_step, val_items=f["val"], planned=planned)


def _pass_started(p: Progress, f: Mapping[str, Any]) -> Progress:
    new = PassProgress(f["label"], f["total"])
    planned = p.planned if p.steps else p.planned + f["total"]  # an evaluation has no other plan
    return replace(p, running=(*(each for each in p.running if each.label != new.label), new), planned=planned)


def _item_done(p: Progress, f: Mapping[str, Any]) -> Progress:
    lost = f["hard"] is None

    def moved(each: PassProgress) -> PassProgress:
        return replace(each, done=f["done"], accuracy=f["accuracy"], lost=each.lost + lost)

    running = tuple(moved(each) if each.label == f["label"] else each for each in p.running)
    running = tuple(each for each in running if each.done < each.total)
    planned = not f["label"].startswith("epoch")  # how many items an epoch's end takes, nobody knows before
    covered = min(p.covered + planned, p.planned)
    return _spent(replace(p, running=running, covered=covered, answered=p.answered + 1), f)


def _spent(p: Progress, f: Mapping[str, Any]) -> Progress:
    """What the run has spent so far, where the event says it."""
    return replace(p, tokens=f.get("tokens", p.tokens), cost=f.get("cost_usd", p.cost))


def _step_started(p: Progress, f: Mapping[str, Any]) -> Progress:
    return replace(p, step=f["step"], epoch=f["epoch"])


def _step_done(p: Progress, f: Mapping[str, Any]) -> Progress:
    p = replace(_counted(_spent(p, f), f["row"]), stage="")
    skipped = str(f["row"]["action"]).startswith("skip")
    return replace(p, covered=p.covered + (p.val_items if skipped else 0))


def _step_replayed(p: Progress, f: Mapping[str, Any]) -> Progress:
    baseline = p.val_items if f["row"]["step"] == 1 else 0
    return _counted(replace(p, covered=p.covered + baseline + p.train_items + p.val_items), f["row"])


def _counted(p: Progress, row: Mapping[str, Any]) -> Progress:
    action = str(row["action"])
    return replace(
        p,
        epoch=row["epoch"],
        step=row["step"],
        current=row["current_score"],
        best=row["best_score"],
        best_step=row["best_step"],
        accepted=p.accepted + ("accept" in action),
        rejected=p.rejected + (action == "reject"),
        skipped=p.skipped + action.startswith("skip"),
    )


_CHANGES: Mapping[str, Callable[[Progress, Mapping[str, Any]], Progress]] = {
    "run_started": _run_started,
    "baseline_done": lambda p, f: replace(p, current=f["hard"], best=f["hard"]),
    "epoch_started": lambda p, f: replace(p, epoch=f["epoch"]),
    "pass_started": _pass_started,
    "item_done": _item_done,
    "step_started": _step_started,
    "stage_started": lambda p, f: replace(p, stage=STAGES[f["stage"] - 1]),
    "step_done": _step_done,
    "step_replayed": _step_replayed,
    "test_started": lambda p, f: replace(p, stage="TEST"),
}
