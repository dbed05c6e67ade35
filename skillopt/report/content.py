"""All that a report says of a training run, as one value: ``read_report`` reads it, pages and texts are made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillopt.report.bounds import FLIP_BYTES, BoundedDiff, ChangedItems, bounded_diffs, changed_items
from skillopt.report.comparison import ArmResult
from skillopt.report.curves import Curves
from skillopt.report.evolution import BlameBlock, Diff, blame_blocks, diff, masked
from skillopt.report.final import FinalComparison, curves_of, read_final, read_flips
from skillopt.report.lineage import blame_of
from skillopt.report.run import RunView, Split
from skillopt.report.spending import Spending
from skillopt.report.step_lines import StepLine, lines_of
from skillopt.report.steps import StepEdit
from skillopt.run.folder import FolderError
from skillopt.values import fraction, text

SPLITS: tuple[Split, ...] = ("test", "val")
_BLAME_LINES = 1_500
_DIFF_LINES = 2_000
"""Lines of a skill that the diffs of a report are made of: a skill has some hundreds."""
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
class VersionChange:
    """What a step and the slow update behind it did: the edits that it proposed, and the difference that it made to the
    skill (None: none). ``slow`` is the line of the slow update, None without one, ``guidance`` what it wrote."""

    line: StepLine
    edits: tuple[StepEdit, ...]
    slow: StepLine | None
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
    steps_done: int
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

    @property
    def fates(self) -> str:
        """How many steps ended how: ``3 accepted, 1 rejected``."""
        found = [line.fate for line in self.steps]
        return ", ".join(f"{found.count(fate)} {fate}" for fate in sorted(set(found)))


def read_report(view: RunView, mask: Callable[[str], str] = str) -> Report:
    """The report of a training run, finished or not; ``mask`` hides secrets in what is cut or compared by words. Raises
    ``FolderError`` for an evaluation: it has no steps."""
    if view.kind == "evaluation":
        raise FolderError(f"{view.root} is an evaluation; a report is of a training run (skillopt compare reads both)")
    finals = tuple(found for split in SPLITS if (found := read_final(view, split)))
    lines = lines_of(view)
    changes, whole_diff = _changes(view, lines, mask)
    return Report(
        name=view.name,
        root=str(view.root),
        status=view.status,
        stop_reason=view.stop_reason,
        detail=view.detail,
        version=text(view.summary.get("version")),
        steps_done=view.steps_done,
        total_steps=view.total_steps,
        facts=tuple((name, text(view.config[key])) for key, name in _NAMES.items() if text(view.config.get(key))),
        finals=finals,
        verdicts=tuple(verdict(found) for found in finals),
        flips=_flips(view, mask),
        curves=curves_of(view),
        steps=tuple(line for line in lines if line.kind == "step"),
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
    if best.lift.shown is None:
        return f"No difference between the best skill and the baseline has been shown on the {where}."
    return f"The best skill is {best.lift.shown} than the baseline on the {where}."


def _flips(view: RunView, mask: Callable[[str], str]) -> tuple[ChangedItems, ...]:
    found = [(split, flips) for split in SPLITS if (flips := read_flips(view, split))]
    return tuple(changed_items(split, "seed", "best", flips, FLIP_BYTES // len(found), mask) for split, flips in found)


def _changes(
    view: RunView, lines: Sequence[StepLine], mask: Callable[[str], str]
) -> tuple[tuple[VersionChange, ...], BoundedDiff | None]:
    """What each step did to the skill, and the difference of the best one from the seed."""
    seed, best = view.seed, view.best
    whole_one = [diff(_head(seed), _head(best), "seed", "best")] if seed is not None and best is not None else []
    steps = [line for line in lines if line.kind == "step"]
    slow = {line.step: line for line in lines if line.kind == "slow_update"}
    diffs = _diffs(view, [line.step for line in steps])
    known = [*whole_one, *(each for each in diffs if each is not None)]
    bounded = iter(bounded_diffs([masked(each, mask) for each in known]))
    whole_diff = next(bounded) if whole_one else None
    changes = []
    for line, each in zip(steps, diffs, strict=True):
        kept = next(bounded) if each is not None else None
        changes.append(_change(view, line, slow.get(line.step), kept))
    return tuple(changes), whole_diff


def _diffs(view: RunView, steps: Sequence[int]) -> list[Diff | None]:
    """What each step changed in the skill; None where nothing."""
    before, name = view.seed, "seed"
    found: list[Diff | None] = []
    for step in steps:
        after = view.skill(step)
        changed = after is not None and before is not None and after != before
        found.append(diff(_head(before or ""), _head(after or ""), name, f"version {step}") if changed else None)
        if after is not None and after != before:
            before, name = after, f"version {step}"
    return found


def _head(skill: str) -> str:
    """A skill, or the start of one that is too long for a diff of every step to be made of it."""
    lines = skill.splitlines(keepends=True)
    left = len(lines) - _DIFF_LINES
    return skill if left <= 0 else f"{''.join(lines[:_DIFF_LINES])}… {left:,} more lines\n"


def _change(view: RunView, line: StepLine, slow: StepLine | None, made: BoundedDiff | None) -> VersionChange:
    step = view.step(line.step)
    written = view.slow_update(slow.epoch).get("slow_update_content") if slow is not None and slow.epoch else None
    return VersionChange(line, step.edits if step is not None else (), slow, text(written), made)


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
