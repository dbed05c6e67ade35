"""The slow update: at the end of an epoch the optimizer writes lasting guidance for the target."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic.json_schema import SkipJsonSchema

from skillopt.models.errors import ModelError
from skillopt.models.structured import ask
from skillopt.models.types import ChatModel
from skillopt.optimizer.context import CallError, Settings
from skillopt.optimizer.items import Model, Text
from skillopt.optimizer.pairs import Pairing, comparison_text
from skillopt.optimizer.prompting import (
    COMPACT_MAX_TOKENS,
    MAX_TOKENS,
    Section,
    demote_headings,
    estimate_tokens,
    make_request,
    skill_section,
    system_prompt,
    user_prompt,
)
from skillopt.optimizer.trajectory import Fitted
from skillopt.skill import Skill

STAGE = "slow_update"


class SlowUpdateReply(Model):
    reasoning: Text = ""
    slow_update_content: Text


class CompactSlowUpdateReply(SlowUpdateReply):
    reasoning: SkipJsonSchema[Text] = ""  # not asked for: a small model's reasoning costs time and helps nobody


@dataclass(frozen=True, slots=True)
class SlowUpdate:
    """``content`` is the new guidance, None when there is none (an empty reply, or ``error``)."""

    content: str | None
    reasoning: str = ""
    error: CallError | None = None
    trimmed: int = 0
    tokens_left_out: int = 0


async def slow_update(model: ChatModel, settings: Settings, prev: Skill, curr: Skill, pairing: Pairing) -> SlowUpdate:
    """New guidance from two epochs' skills and their answers to the same items.

    ``prev`` is the skill at the end of the last epoch, ``curr`` today's with the guidance in force. ``StopRequested``
    and a refused key are raised.
    """
    compact = settings.style == "compact"
    system = system_prompt("slow_update_compact" if compact else "slow_update")
    head = [skill_section(prev, "Previous Skill"), skill_section(curr)]
    if curr.guidance and curr.guidance.strip():
        head.append(("Previous Guidance", demote_headings(curr.guidance.strip())))
    user, fitted = with_comparison(settings, system, head, pairing)
    tokens = COMPACT_MAX_TOKENS if compact else MAX_TOKENS
    request = make_request(settings, STAGE, system, user, max_tokens=tokens)
    try:
        structured = await ask(model, request, CompactSlowUpdateReply if compact else SlowUpdateReply)
    except ModelError as error:
        return SlowUpdate(
            None, error=CallError.of(STAGE, error), trimmed=fitted.trimmed, tokens_left_out=fitted.tokens_left_out
        )
    reply = structured.value
    return SlowUpdate(
        reply.slow_update_content.strip() or None,
        reply.reasoning,
        trimmed=fitted.trimmed,
        tokens_left_out=fitted.tokens_left_out,
    )


def with_comparison(settings: Settings, system: str, head: list[Section], pairing: Pairing) -> tuple[str, Fitted]:
    """The user message: ``head``, then the pairs in what is left of the prompt's token budget."""
    used = estimate_tokens(system) + estimate_tokens(user_prompt(head))
    total = max(settings.max_prompt_tokens - used, 1) if settings.max_prompt_tokens else 0
    fitted = comparison_text(pairing, each=settings.max_trajectory_tokens, total=total)
    return user_prompt([*head, ("Longitudinal Comparison", fitted.text)]), fitted
