"""From a run to the history of its skill: the versions by name, and where each line of the best one comes from."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from skillopt.report.evolution import BlameLine, Change, StepChange, blame, lineage
from skillopt.report.files import read_text
from skillopt.report.run import RunView
from skillopt.run.folder import FolderError
from skillopt.types import fate_of
from skillopt.values import label, whole

_NUMBER = re.compile(r"(?:v|version_?|skill_v)?0*(\d+)(?:\.md)?")
_STEP = re.compile(r"step[_ ]?0*(\d+)")
_EPOCH = re.compile(r"(?:slow_update_)?epoch[_ ]?0*(\d+)")
_REWRITES = ("rewrite_from_suggestions", "full_rewrite_minibatch")


@dataclass(frozen=True, slots=True)
class NamedSkill:
    """A skill of a run; ``name`` says which one."""

    name: str
    text: str


def skill_named(view: RunView, word: str) -> NamedSkill:
    """The skill that a word means: ``seed``, ``best``, ``final``; a version number (``3``, ``v3``: the skill after step
    3); ``step_3`` (what step 3 proposed); ``epoch_2`` (what the slow update of epoch 2 proposed).

    Raises ``FolderError`` when the run has none of that name.
    """
    name = word.strip().lower()
    for pattern, find in ((_NUMBER, _version), (_STEP, _candidate), (_EPOCH, _guided)):
        match = pattern.fullmatch(name)
        if match:
            return find(view, int(match[1]))
    if name not in ("seed", "best", "final"):
        known = "seed, best, final, a version number, step_N or epoch_N"
        raise FolderError(f"{word!r} names no skill of a run; use {known}")
    text = {"seed": view.seed, "best": view.best, "final": view.final}[name]
    if text is None:
        raise FolderError(f"{view.root} has no {name} skill{_yet(view)}")
    return NamedSkill(name, text)


def proposal_named(view: RunView, word: str) -> tuple[NamedSkill, NamedSkill] | None:
    """What the step or the slow update that a word means made its candidate of, and the candidate; None when the word
    means something else. Raises ``FolderError`` when there is no such candidate."""
    name = word.strip().lower()
    step, epoch = _STEP.fullmatch(name), _EPOCH.fullmatch(name)
    if step:
        candidate = _candidate(view, int(step[1]))
        return _version(view, int(step[1]) - 1), candidate
    if epoch is None:
        return None
    candidate = _guided(view, int(epoch[1]))
    last = max((whole(row.get("step")) for row in view.rows if row.get("epoch") == int(epoch[1])), default=0)
    ended = view.step(last)
    # The version of the last step is the one after the slow update.
    if ended is not None and ended.accepted and ended.candidate is not None:
        return NamedSkill(f"candidate of step {last}", ended.candidate), candidate
    return _version(view, max(last - 1, 0)), candidate


def read_lineage(view: RunView) -> tuple[Change, ...]:
    """The versions that lead from the seed to the best skill. Raises ``FolderError`` when the run has none yet."""
    best, seed = view.best, view.seed
    if best is None:
        raise FolderError(f"{view.root} has no skill{_yet(view)}")
    known = set(view.versions)
    changes = (_change(view, number, known) for number in view.steps)
    return lineage(best if seed is None else seed, changes, best)


def blame_of(view: RunView) -> tuple[BlameLine, ...]:
    """Where each line of the best skill comes from. Raises ``FolderError`` when the run has no skill yet."""
    return blame(read_lineage(view))


def _change(view: RunView, number: int, versions: Collection[int]) -> StepChange:
    after = view.skill(number) if number in versions else None
    row = view.row(number)
    step = view.step(number) if fate_of(label(row.get("action"))) == "accepted" else None
    if step is None:  # nothing of it is in the skill
        return StepChange(number, whole(row.get("epoch")) or None, None, False, (), False, after)
    mode = view.config.get("skill_update_mode")
    return StepChange(
        number=step.number,
        epoch=whole(step.row.get("epoch")) or None,
        candidate=step.candidate,
        accepted=step.accepted,
        edits=step.edits,
        rewrote=bool(step.rewrite) or mode in _REWRITES,
        after=after,
    )


def _version(view: RunView, number: int) -> NamedSkill:
    text = view.skill(number)
    if text is None:
        raise FolderError(f"{view.root} has no version {number}{_known(view)}")
    return NamedSkill(f"version {number}", text)


def _candidate(view: RunView, number: int) -> NamedSkill:
    text = read_text(view.root, f"steps/step_{number:04d}/candidate_skill.md")
    if text is None:
        action = view.row(number).get("action")
        raise FolderError(f"step {number} of {view.root} has no candidate skill" + (f" ({action})" if action else ""))
    return NamedSkill(f"candidate of step {number}", text)


def _guided(view: RunView, number: int) -> NamedSkill:
    epoch = view.epoch(number)
    if epoch.candidate is None:
        action = epoch.slow.get("action")
        said = f" ({action})" if action else ""
        raise FolderError(f"the slow update of epoch {number} of {view.root} has no candidate skill{said}")
    return NamedSkill(f"slow update of epoch {number}", epoch.candidate)


def _known(view: RunView) -> str:
    versions = view.versions
    return f"; it has {versions[0]} to {versions[-1]}" if versions else _yet(view)


def _yet(view: RunView) -> str:
    return " yet" if view.status in ("running", "new", "stopped") else ""
