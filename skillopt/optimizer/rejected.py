"""The step buffer: what the steps of this epoch tried, kept so that the optimizer does not try it again.

An entry is stored as JSON with the run's state and shown to the optimizer as prose: never as JSON, never as ``[n]``
lines and never so that a quoted rule could be taken for a rule of the skill.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from skillopt.optimizer.items import EditItem, Patch, Suggestion, UpdateItem
from skillopt.optimizer.minibatch import is_failure
from skillopt.optimizer.prompting import estimate_tokens
from skillopt.optimizer.reflect import Reflection, in_plan_order
from skillopt.types import Rollout

MAX_RENDERED_TOKENS = 2000
_QUOTE_CHARS = 240
_PATTERNS_SHOWN = 6
_LINE_START = re.compile(r"^(?:(?:[-*+>]|#{1,6}|\d{1,3}[.)])\s+)+")


class Pattern(BaseModel):
    """A cause of failure: ``count`` trajectories show it, among those of ``task_ids``."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    pattern: str
    count: int
    task_ids: tuple[str, ...] = ()


class StepEntry(BaseModel):
    """One step as the buffer keeps it. The scores are gate scores, None where nothing was measured."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    step: int
    action: str
    n_total: int
    n_fail: int
    failure_patterns: tuple[Pattern, ...] = ()
    score_before: float | None = None
    score_after: float | None = None
    rejected_edits: tuple[Mapping[str, Any], ...] = ()
    unapplied: tuple[str, ...] = ()

    @property
    def rejected(self) -> bool:
        return "reject" in self.action

    def digest(self) -> dict[str, Any]:
        """The content of ``trajectory_digest.json``: scores and edits only of a rejected step."""
        content = self.model_dump(mode="json")
        if not self.rejected:
            for key in ("score_before", "score_after", "rejected_edits"):
                del content[key]
        return content


def make_entry(
    *,
    step: int,
    action: str,
    rollouts: Sequence[Rollout],
    reflections: Sequence[Reflection],
    selected: Patch,
    unapplied: Sequence[str] = (),
    score_before: float | None = None,
    score_after: float | None = None,
) -> StepEntry:
    """The entry of a step. ``rollouts`` are all of the step, ``selected`` what was applied."""
    measured = [rollout for rollout in rollouts if rollout.score is not None]
    rejected = "reject" in action
    return StepEntry(
        step=step,
        action=action,
        n_total=len(measured),
        n_fail=sum(map(is_failure, measured)),
        failure_patterns=failure_patterns(measured, reflections),
        score_before=score_before if rejected else None,
        score_after=score_after if rejected else None,
        rejected_edits=tuple(compact_item(item) for item in selected.items) if rejected else (),
        unapplied=tuple(unapplied),
    )


def to_json(entries: Iterable[StepEntry]) -> tuple[dict[str, Any], ...]:
    """The buffer as plain data, for the run's state."""
    return tuple(entry.model_dump(mode="json") for entry in entries)


def from_json(entries: Iterable[Mapping[str, Any]]) -> tuple[StepEntry, ...]:
    """The buffer out of ``to_json``. Raises pydantic's ``ValidationError`` for anything else."""
    return tuple(StepEntry.model_validate(dict(entry)) for entry in entries)


def failure_patterns(rollouts: Sequence[Rollout], reflections: Sequence[Reflection]) -> tuple[Pattern, ...]:
    """What the analysts saw, each cause with the items of the minibatches it was seen in; equal ones are joined.

    Failures that no analyst described are grouped by the first words of their reason (up to a colon). The most frequent
    come first.
    """
    texts: dict[str, str] = {}
    counts: dict[str, int] = {}
    ids: dict[str, dict[str, None]] = {}

    def book(key: str, text: str, count: int, item_ids: Iterable[str]) -> None:
        texts.setdefault(key, text)
        counts[key] = counts.get(key, 0) + count
        ids.setdefault(key, {}).update(dict.fromkeys(item_ids))

    described: set[str] = set()
    for reflection in in_plan_order(reflections):
        for seen in reflection.failure_summary:
            name, description = one_line(seen.failure_type), one_line(seen.description)
            if name or description:
                text = ": ".join(filter(None, [name, description]))
                book(f"analyst {text}".casefold(), text, max(seen.count, 1), reflection.item_ids)
                described.update(reflection.item_ids)
    for rollout in rollouts:
        if is_failure(rollout) and rollout.item.id not in described:
            reason = one_line(rollout.score.reason if rollout.score else "").partition(":")[0].strip()
            book(f"reason {reason}".casefold(), reason or "no reason given", 1, [rollout.item.id])
    found = [Pattern(pattern=texts[key], count=counts[key], task_ids=tuple(ids[key])) for key in texts]
    return tuple(sorted(found, key=lambda pattern: -pattern.count))


def compact_item(item: UpdateItem) -> dict[str, Any]:
    """An item without what only merging needs."""
    if isinstance(item, EditItem):
        return {"op": item.op, "content": item.content or "", "target": item.target}
    if isinstance(item, Suggestion):
        return {"type": item.type, "title": item.title, "instruction": item.instruction}
    return {"title": item.title, "change_summary": list(item.change_summary), "source_type": item.source_type}


def render(entries: Sequence[StepEntry], max_tokens: int = MAX_RENDERED_TOKENS) -> str:
    """The buffer as the body of ``## Previous Steps``: one bullet a step, oldest first, '' when there is none.

    In at most ``max_tokens`` estimated tokens (the newest step always whole): the oldest go first, and it is said.
    """
    bullets: list[str] = []
    room = max_tokens
    for entry in reversed(entries):
        bullet = _bullet(entry)
        room -= estimate_tokens(bullet)
        if bullets and room < 0:
            break
        bullets.insert(0, bullet)
    left_out = len(entries) - len(bullets)
    note = [f"- {left_out} older step{'s' if left_out > 1 else ''} of this epoch left out here."] if left_out else []
    return "\n".join([*note, *bullets])


def _bullet(entry: StepEntry) -> str:
    lines = [f"- Step {entry.step} ended with {entry.action}: {entry.n_fail} of {entry.n_total} trajectories failed."]
    if entry.failure_patterns:
        seen = "; ".join(f"{quoted(p.pattern)} ({p.count})" for p in entry.failure_patterns[:_PATTERNS_SHOWN])
        lines.append(f"  - Causes seen: {seen}.")
    if entry.rejected:
        lines.append(f"  - The validation gate rejected the changes below ({_scores(entry)}).")
        lines += [f"  - Rejected: {describe_dict(edit)}." for edit in entry.rejected_edits]
    lines += [f"  - Did not apply: {one_line(text)}." for text in entry.unapplied]
    return "\n".join(lines)


def _scores(entry: StepEntry) -> str:
    if entry.score_before is None or entry.score_after is None:
        return "score not measured"
    return f"score {entry.score_before:.4f} before, {entry.score_after:.4f} with them"


def describe(item: UpdateItem) -> str:
    """An item in one sentence of prose."""
    return describe_dict(compact_item(item))


def describe_dict(item: Mapping[str, Any]) -> str:
    """The form of ``compact_item`` in one sentence of prose."""
    if "op" in item:
        content, target = quoted(item.get("content")), quoted(item.get("target"))
        known = {
            "append": f"append {content}",
            "insert_after": f"insert {content} after {target}",
            "replace": f"replace {target} with {content}",
            "delete": f"delete {target}",
        }
        return known.get(str(item["op"]).strip().lower(), f"operation {quoted(item['op'])} with {content}")
    if "instruction" in item:
        return f"suggestion {quoted(item.get('title'))}, namely {quoted(item.get('instruction'))}"
    changes = "; ".join(quoted(change) for change in item.get("change_summary") or ())
    return f"a rewrite {quoted(item.get('title'))} with these changes: {changes or 'not described'}"


def quoted(text: object) -> str:
    """A text inside a sentence: one line, no list or heading marker at its start, cut where it is long."""
    flat = _LINE_START.sub("", one_line(str(text or "")))
    if len(flat) > _QUOTE_CHARS:
        flat = flat[:_QUOTE_CHARS].rstrip() + "…"
    return f"“{flat}”"


def one_line(text: str) -> str:
    return " ".join(text.split())
