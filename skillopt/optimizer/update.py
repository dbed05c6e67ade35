"""Stage 5: from the selected items to a candidate skill."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from skillopt.models.errors import ModelError
from skillopt.models.structured import ask
from skillopt.models.types import ChatModel
from skillopt.optimizer.context import CallError, OptimizerContext, Settings
from skillopt.optimizer.items import Candidate, EditItem, Lines, Model, Patch, Text
from skillopt.optimizer.prompting import context_sections, make_request, system_prompt, user_prompt
from skillopt.optimizer.rejected import describe
from skillopt.skill import Edit, Skill, apply_edits, apply_rewrite

STAGE = "rewrite"


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("the new skill is empty")
    return text


class RewriteReply(Model):
    reasoning: Text = ""
    change_summary: Lines = Field(default_factory=list)
    new_skill: Annotated[Text, AfterValidator(_not_blank)]


@dataclass(frozen=True, slots=True)
class Update:
    """What became of the selected items.

    ``candidate`` is None when a rewrite gave nothing (``error``). ``report`` holds the rows of
    ``edit_apply_report.json`` and ``summary`` counts them (patch mode only); ``artifacts`` maps file names in the
    step's folder to their JSON content; ``unapplied`` says in prose what did not apply and why, for the optimizer's
    next step.
    """

    candidate: Skill | None
    report: tuple[Mapping[str, Any], ...] = ()
    summary: Mapping[str, int] | None = None
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    unapplied: tuple[str, ...] = ()
    change_summary: tuple[str, ...] = ()
    error: CallError | None = None


async def update(
    model: ChatModel, context: OptimizerContext, settings: Settings, selected: Patch, merged: Patch
) -> Update:
    """The candidate that ``selected`` makes of the current skill; it may be the same text.

    Only ``rewrite_from_suggestions`` calls the model. In every mode the frontmatter and the protected regions stay as
    they are. ``StopRequested`` and a refused key are raised.
    """
    if settings.mode == "patch":
        return _apply(context.skill, selected)
    if settings.mode == "rewrite_from_suggestions":
        return await _rewrite(model, context, settings, selected)
    return _pick(context.skill, selected, merged)


def _apply(skill: Skill, selected: Patch) -> Update:
    items = [item for item in selected.items if isinstance(item, EditItem)]
    applied = apply_edits(skill, [Edit(item.op, item.target, item.content) for item in items])
    rows = tuple(report.row() for report in applied.reports)
    unapplied = tuple(
        f"{describe(item)}, because: {report.detail or report.status.replace('_', ' ')}"
        for item, report in zip(items, applied.reports, strict=True)
        if not report.applied
    )
    return Update(applied.skill, rows, applied.summary(), {"edit_apply_report.json": list(rows)}, unapplied)


async def _rewrite(model: ChatModel, context: OptimizerContext, settings: Settings, selected: Patch) -> Update:
    if not selected.items:
        return Update(context.skill)
    suggestions = json.dumps([item.to_dict() for item in selected.items], ensure_ascii=False, indent=1)
    # The editor carries out what was chosen; advice on what to choose would only distract it.
    without_memory = replace(context, memory="")
    sections = [*context_sections(without_memory), ("Selected Suggestions", suggestions)]
    request = make_request(
        settings,
        STAGE,
        system_prompt("rewrite_skill"),
        user_prompt(sections),
        max_tokens=settings.rewrite_max_completion_tokens,
        reasoning_effort=settings.rewrite_reasoning_effort,
    )
    try:
        structured = await ask(model, request, RewriteReply)
    except ModelError as error:
        return Update(None, error=CallError.of(STAGE, error))
    reply = structured.value
    candidate = apply_rewrite(context.skill, reply.new_skill)
    artifact = {
        "reasoning": reply.reasoning,
        "new_skill": reply.new_skill.rstrip() + "\n",
        "change_summary": reply.change_summary,
    }
    return Update(
        candidate,
        artifacts={"rewrite_result.json": artifact},
        change_summary=tuple(reply.change_summary),
    )


def _pick(skill: Skill, selected: Patch, merged: Patch) -> Update:
    """The first candidate that has a text."""
    chosen = first_candidate(selected.items)
    if chosen is None:
        return Update(None)
    content = chosen.to_dict()
    kept = {key: content[key] for key in ("title", "change_summary", "new_skill", "merge_level") if key in content}
    artifact = {"selected_candidate": kept, "merged_patch": merged.to_dict("full_rewrite_minibatch")}
    return Update(
        apply_rewrite(skill, chosen.new_skill),
        artifacts={"full_rewrite_result.json": artifact},
        change_summary=tuple(chosen.change_summary),
    )


def first_candidate(items: Sequence[object]) -> Candidate | None:
    return next((item for item in items if isinstance(item, Candidate) and item.new_skill.strip()), None)
