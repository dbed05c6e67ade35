"""All that a report says of a training run, as one value: ``read_report`` reads it, pages and texts are made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillopt.report.bounds import FLIP_BYTES, BoundedDiff, ChangedItems, bounded_diffs, changed_items
from skillopt.report.comparison import ArmResult
from skillopt.report.curves import Curves, MarkKind, Point, kind_of
from skillopt.report.evolution import BlameBlock, Diff, blame_blocks, diff
from skillopt.report.final import FinalComparison, curves_of, read_final, read_flips
from skillopt.report.lineage import blame_of
from skillopt.report.run import RunView, Split
from skillopt.report.spending import Spending
from skillopt.report.steps import StepEdit, StepView
from skillopt.report.values import fraction, mapping, text, whole
from skillopt.run.folder import FolderError

SPLITS: tuple[Split, ...] = ("test", "val")
_BLAME_LINES = 1_500
_NAMES = {
    "target_model": "target",
    "optimizer_model": "optimizer",
    "env": "environment",
    "num_epochs": "epochs",
    "batch_size": "batch size",
    "skill_update_mode": "update mode",
    "gate_metric": "gate metric",
    "seed": "seed",
}


@dataclass(frozen=True, slots=True)
class StepLine:
    """A step in the table: None where nothing was measured or counted. ``before`` is the score of the skill that the
    candidate would replace, in the gate's metric, ``change`` the candidate's difference from it."""

    step: int
    epoch: int | None
    action: str
    kind: MarkKind
    train: Point | None
    gate: Point | None
    before: float | None
    candidate: float | None
    wins: int | None
    losses: int | None
    budget: int | None
    proposed: int
    applied: int
    tokens: int | None
    usd: float | None
    seconds: float | None

    @property
    def change(self) -> float | None:
        return None if self.candidate is None or self.before is None else self.candidate - self.before


@dataclass(frozen=True, slots=True)
class VersionChange:
    """What a step and the slow update behind it did: the edits that it proposed, and the difference that it made to the
    skill (None: none). ``slow`` is the action of the slow update, '' without one, ``guidance`` what it wrote."""

    line: StepLine
    edits: tuple[StepEdit, ...]
    slow: str
    guidance: str
    diff: BoundedDiff | None


@dataclass(frozen=True, slots=True)
class Report:
    """A run as its report shows it. ``facts`` are the settings that one asks for first, ``config`` is all of them.
    ``whole_diff`` is the difference of the best skill from the seed. Texts are untrusted."""

    name: str
    root: str
    status: str
    stop_reason: str | None
    detail: str
    version: str
    total_steps: int | None
    facts: tuple[tuple[str, str], ...]
    finals: tuple[FinalComparison, ...]
    verdicts: tuple[str, ...]
    flips: tuple[ChangedItems, ...]
    curves: Curves
    steps: tuple[StepLine, ...]
    changes: tuple[VersionChange, ...]
    whole_diff: BoundedDiff | None
    blame: tuple[BlameBlock, ...]
    best_length: int
    spending: Spending | None
    seconds: float | None
    config: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]


def read_report(view: RunView) -> Report:
    """The report of a training run, finished or not. Raises ``FolderError`` for an evaluation: it has no steps."""
    if view.kind == "evaluation":
        raise FolderError(f"{view.root} is an evaluation; a report is of a training run (skillopt compare reads both)")
    finals = tuple(found for split in SPLITS if (found := read_final(view, split)))
    lines, views = _step_lines(view)
    changes, whole_diff = _changes(view, lines, views)
    return Report(
        name=view.name,
        root=str(view.root),
        status=view.status,
        stop_reason=view.stop_reason,
        detail=view.detail,
        version=text(view.summary.get("version")),
        total_steps=view.total_steps,
        facts=tuple((name, text(view.config[key])) for key, name in _NAMES.items() if text(view.config.get(key))),
        finals=finals,
        verdicts=tuple(verdict(found) for found in finals),
        flips=_flips(view),
        curves=curves_of(view),
        steps=tuple(lines),
        changes=changes,
        whole_diff=whole_diff,
        blame=_blame(view),
        best_length=len(view.best or ""),
        spending=view.spending(),
        seconds=_seconds(view),
        config=tuple((key, _setting(value)) for key, value in sorted(view.config.items())),
        problems=view.problems,
    )


def arm(found: FinalComparison, name: str) -> ArmResult | None:
    """The result of one skill in a final comparison. Pure."""
    return next((result for result in found.arms if result.name == name), None)


def verdict(found: FinalComparison) -> str:
    """What a final comparison shows, in a sentence. Pure."""
    where = "held-out test items" if found.split == "test" else "selection items"
    best = arm(found, "best")
    if best is None or best.lift is None:
        return f"The best skill was not compared with the baseline on the {where}."
    lift = best.lift
    if lift.low <= 0 <= lift.high:
        return f"No difference between the best skill and the baseline has been shown on the {where}."
    word = "better" if lift.lift > 0 else "worse"
    return f"The best skill is {word} than the baseline on the {where}."


def _flips(view: RunView) -> tuple[ChangedItems, ...]:
    found = [(split, flips) for split in SPLITS if (flips := read_flips(view, split))]
    return tuple(changed_items(split, "seed", "best", flips, FLIP_BYTES // len(found)) for split, flips in found)


def _step_lines(view: RunView) -> tuple[list[StepLine], list[StepView]]:
    views = [step for number in view.steps if (step := view.step(number)) is not None and step.row]
    found = curves_of(view)
    train = {point.step: point for point in found.train}
    gate = {point.step: point for point in found.gate}
    lines = []
    current = view.measured("seed", "val").hard
    for step in views:
        lines.append(_step_line(step, train.get(step.number), gate.get(step.number), current))
        current = fraction(step.row.get("current_score"))
    return lines, views


def _step_line(step: StepView, train: Point | None, gate: Point | None, current: float | None) -> StepLine:
    row, verdict = step.row, step.gate
    candidate, before = fraction(verdict.get("candidate_score")), fraction(verdict.get("current_score"))
    pairs = whole(verdict.get("pairs"))
    summary = mapping(row.get("edit_apply_summary"))
    return StepLine(
        step=step.number,
        epoch=whole(row.get("epoch")) or None,
        action=step.action,
        kind=kind_of(step.action),
        train=train,
        gate=gate,
        before=None if candidate is None else current if before is None else before,
        candidate=candidate,
        wins=whole(verdict.get("wins")) if pairs else None,
        losses=whole(verdict.get("losses")) if pairs else None,
        budget=whole(row.get("edit_budget")) or None,
        proposed=len(step.edits),
        applied=whole(summary.get("applied")) or sum(edit.applied for edit in step.edits),
        tokens=step.tokens,
        usd=fraction(row.get("cost_usd")),
        seconds=fraction(row.get("wall_time_s")),
    )


def _changes(
    view: RunView, lines: Sequence[StepLine], views: Sequence[StepView]
) -> tuple[tuple[VersionChange, ...], BoundedDiff | None]:
    """What each step did to the skill, and the difference of the best one from the seed."""
    seed, best = view.seed, view.best
    whole_one = [diff(seed, best, "seed", "best")] if seed is not None and best is not None else []
    before, name = seed, "seed"
    diffs: list[Diff | None] = []
    for step in views:
        after = view.skill(step.number)
        changed = after is not None and before is not None and after != before
        diffs.append(diff(before or "", after or "", name, f"version {step.number}") if changed else None)
        if after is not None and after != before:
            before, name = after, f"version {step.number}"
    bounded = iter(bounded_diffs([*whole_one, *(each for each in diffs if each is not None)]))
    whole_diff = next(bounded) if whole_one else None
    ends = {whole(step.row.get("epoch")): step.number for step in views}
    changes = []
    for line, step, each in zip(lines, views, diffs, strict=True):
        slow = view.epoch(line.epoch).slow if line.epoch and ends.get(line.epoch) == line.step else {}
        guidance = text(slow.get("slow_update_content"))
        kept = next(bounded) if each is not None else None
        changes.append(VersionChange(line, step.edits, text(slow.get("action")), guidance, kept))
    return tuple(changes), whole_diff


def _blame(view: RunView) -> tuple[BlameBlock, ...]:
    try:
        lines = blame_of(view)[:_BLAME_LINES]
    except FolderError:  # no skill yet
        return ()
    return blame_blocks(lines)


def _seconds(view: RunView) -> float | None:
    told = fraction(view.summary.get("total_wall_time_s"))
    spent = [fraction(row.get("wall_time_s")) for row in view.rows]
    known = [each for each in spent if each is not None]
    return told if told is not None else sum(known) if known else None


def _setting(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_setting(entry)}" for key, entry in value.items())
    return ", ".join(map(_setting, value)) if isinstance(value, list) else text(value)
