"""The meta skill: at the end of an epoch the optimizer writes advice to itself for the next one."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic.json_schema import SkipJsonSchema

from skillopt.models.errors import ModelError
from skillopt.models.structured import ask
from skillopt.models.types import ChatModel
from skillopt.optimizer.context import CallError, Settings
from skillopt.optimizer.items import Model, Text
from skillopt.optimizer.pairs import Pairing
from skillopt.optimizer.prompting import (
    COMPACT_MAX_TOKENS,
    MAX_TOKENS,
    demote_headings,
    make_request,
    skill_section,
    system_prompt,
)
from skillopt.optimizer.slow_update import with_comparison
from skillopt.skill import Skill

STAGE = "meta_skill"


class MetaSkillReply(Model):
    reasoning: Text = ""
    meta_skill_content: Text


class CompactMetaSkillReply(MetaSkillReply):
    reasoning: SkipJsonSchema[Text] = ""  # not asked for: a small model's reasoning costs time and helps nobody


@dataclass(frozen=True, slots=True)
class MetaSkill:
    """``content`` is what this call wrote, None when it wrote nothing (an empty reply, or ``error``).

    ``memory`` is what the next epoch is to read: the content, or else the last memory, which is never lost.
    """

    content: str | None
    memory: str
    reasoning: str = ""
    error: CallError | None = None
    trimmed: int = 0
    tokens_left_out: int = 0


async def meta_skill(
    model: ChatModel, settings: Settings, prev: Skill, curr: Skill, memory: str, pairing: Pairing
) -> MetaSkill:
    """New advice from what the epoch's edits did to the same items.

    ``prev`` is the skill at the end of the last epoch, ``curr`` this epoch's last one before its slow update,
    ``memory`` the advice so far. ``StopRequested`` and a refused key are raised.
    """
    compact = settings.style == "compact"
    system = system_prompt("meta_skill_compact" if compact else "meta_skill")
    head = [skill_section(prev, "Previous Skill"), skill_section(curr)]
    if memory.strip():
        head.append(("Optimizer Meta Skill", demote_headings(memory.strip())))
    user, fitted = with_comparison(settings, system, head, pairing)
    tokens = COMPACT_MAX_TOKENS if compact else MAX_TOKENS
    request = make_request(settings, STAGE, system, user, max_tokens=tokens)
    try:
        structured = await ask(model, request, CompactMetaSkillReply if compact else MetaSkillReply)
    except ModelError as error:
        return MetaSkill(
            None,
            memory,
            error=CallError.of(STAGE, error),
            trimmed=fitted.trimmed,
            tokens_left_out=fitted.tokens_left_out,
        )
    reply = structured.value
    content = reply.meta_skill_content.strip() or None
    return MetaSkill(
        content,
        content or memory,
        reply.reasoning,
        trimmed=fitted.trimmed,
        tokens_left_out=fitted.tokens_left_out,
    )
