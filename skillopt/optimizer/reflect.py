"""Stage 2: analysts read minibatches of trajectories and propose changes to the skill."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skillopt.models.errors import ModelError
from skillopt.models.structured import Structured, ask
from skillopt.models.types import ChatModel, Request
from skillopt.optimizer import compact
from skillopt.optimizer.context import CallError, OptimizerContext, Settings
from skillopt.optimizer.items import ITEMS_KEY, Patch, UpdateMode, with_provenance
from skillopt.optimizer.minibatch import Minibatch
from skillopt.optimizer.prompting import (
    FULL_REWRITE_MAX_TOKENS,
    MAX_TOKENS,
    Section,
    context_sections,
    demote_headings,
    estimate_tokens,
    make_request,
    system_prompt,
    user_prompt,
)
from skillopt.optimizer.replies import ANALYST_REPLY, AnyAnalystReply, FailurePattern, FailureReply, proposals
from skillopt.optimizer.trajectory import Fitted, fit_blocks, shared_system_prompt, trajectory_block, without_skill
from skillopt.types import SourceType

STAGE = "analyst"
_FILE_KIND: Mapping[SourceType, str] = {"failure": "fail", "success": "succ"}
_HEADING: Mapping[SourceType, str] = {"failure": "Failed Trajectories", "success": "Successful Trajectories"}
_PROMPT: Mapping[SourceType, str] = {"failure": "analyst_error", "success": "analyst_success"}
_ITEM_SHAPE: Mapping[UpdateMode, str] = {
    "patch": '{"op": "append", "target": "", "content": "- one rule"}',
    "rewrite_from_suggestions": (
        '{"type": "add_rule", "title": "short name", "motivation": "the evidence", '
        '"instruction": "what the rewriter is to do", "priority_hint": "high"}'
    ),
    "full_rewrite_minibatch": (
        '{"title": "short name", "change_summary": ["one line a change"], "new_skill": "the whole new document"}'
    ),
}


@dataclass(frozen=True, slots=True)
class Reflection:
    """What one analyst call gave.

    ``patch`` is None when nothing was proposed or the call failed (``error``). ``raw`` is the content of
    ``patches/<name>.json``, None when the call failed; ``raw_text`` the reply as text (of a failed call too, where
    there was one). ``trimmed`` trajectories were cut by ``tokens_left_out``; ``over_budget`` items were beyond the
    budget, ``dropped`` entries were no items.
    """

    kind: SourceType
    batch_index: int
    minibatch_index: int
    item_ids: tuple[str, ...]
    patch: Patch | None = None
    raw: Mapping[str, Any] | None = None
    raw_text: str = ""
    failure_summary: tuple[FailurePattern, ...] = ()
    error: CallError | None = None
    trimmed: int = 0
    tokens_left_out: int = 0
    over_budget: int = 0
    dropped: int = 0
    repaired: bool = False
    reasked: bool = False

    @property
    def name(self) -> str:
        """File name stem: ``minibatch_fail_000`` or ``minibatch_succ_000``."""
        return f"minibatch_{_FILE_KIND[self.kind]}_{self.minibatch_index:03d}"


async def analyse(
    model: ChatModel, context: OptimizerContext, settings: Settings, minibatch: Minibatch, *, batch_index: int = 0
) -> Reflection:
    """One analyst call. A call that fails is in ``error``; ``StopRequested`` and a refused key are raised."""
    request, fitted = (compact.analyst_request if settings.compact else _request)(context, settings, minibatch)
    reply_type = compact.AnalystReply if settings.compact else ANALYST_REPLY[minibatch.kind, settings.mode]
    begun = Reflection(
        kind=minibatch.kind,
        batch_index=batch_index,
        minibatch_index=minibatch.index,
        item_ids=tuple(rollout.item.id for rollout in minibatch.rollouts),
        trimmed=fitted.trimmed,
        tokens_left_out=fitted.tokens_left_out,
    )
    try:
        structured: Structured[Any] = await ask(model, request, reply_type)
    except ModelError as error:
        return replace(begun, error=CallError.of(STAGE, error), raw_text=error.raw)
    reply = structured.value
    named: Sequence[tuple[str, ...]] = ()
    if isinstance(reply, compact.AnalystReply):
        reply, named = compact.as_full_reply(reply, minibatch.rollouts)
    found = _with_reply(begun, reply, settings, named)
    return replace(found, repaired=structured.repaired, reasked=structured.reasked)


def _request(context: OptimizerContext, settings: Settings, minibatch: Minibatch) -> tuple[Request, Fitted]:
    mode = settings.mode
    system = system_prompt(
        _PROMPT[minibatch.kind],
        how=system_prompt(f"change_{mode}"),
        items_key=ITEMS_KEY[mode],
        item=_ITEM_SHAPE[mode],
    )
    shared = shared_system_prompt(minibatch.rollouts, context.skill)
    head = context_sections(context, _budget_section(settings))
    if shared:
        head.append(("Target System Prompt", demote_headings(shared)))
    blocks = [
        trajectory_block(
            rollout,
            number,
            system_prompt=without_skill(rollout.system_prompt, context.skill) if shared is None else "",
        )
        for number, rollout in enumerate(minibatch.rollouts, start=1)
    ]
    used = estimate_tokens(system) + estimate_tokens(user_prompt(head))
    total = max(settings.max_prompt_tokens - used, 1) if settings.max_prompt_tokens else 0
    fitted = fit_blocks(blocks, each=settings.max_trajectory_tokens, total=total)
    user = user_prompt([*head, (_HEADING[minibatch.kind], f"{len(blocks)} trajectories.\n\n{fitted.text}")])
    tokens = FULL_REWRITE_MAX_TOKENS if mode == "full_rewrite_minibatch" else MAX_TOKENS
    return make_request(settings, STAGE, system, user, max_tokens=tokens), fitted


def _budget_section(settings: Settings) -> Section:
    if settings.mode == "full_rewrite_minibatch":
        return "Update Instruction", "Return one complete candidate skill."
    return "Update Budget", f"budget={settings.learning_rate} (the most items you may propose)"


def _with_reply(
    begun: Reflection, reply: AnyAnalystReply, settings: Settings, named: Sequence[tuple[str, ...]]
) -> Reflection:
    """The reflection with what the analyst replied, at most as many items as the budget allows. ``named`` are the items
    of the dataset that each proposal is for, where the analyst says so."""
    limit = 1 if settings.mode == "full_rewrite_minibatch" else settings.learning_rate
    proposed = proposals(reply.patch)
    # The analyst's own count of what it read, but not more than it was given.
    support = min(max(reply.batch_size, 1), len(begun.item_ids))
    items = tuple(
        with_provenance(item, begun.kind, support, named[place] if named else ())
        for place, item in enumerate(proposed[:limit])
    )
    raw = reply.model_dump()
    raw["patch"][reply.patch.items_key] = raw["patch"][reply.patch.items_key][:limit]
    return replace(
        begun,
        patch=Patch(reply.patch.reasoning, items) if items else None,
        raw={**raw, "source_type": begun.kind},
        raw_text=json.dumps(reply.model_dump(), ensure_ascii=False, indent=2),
        failure_summary=tuple(reply.failure_summary) if isinstance(reply, FailureReply) else (),
        over_budget=len(proposed) - len(items),
        dropped=reply.patch.dropped,
    )


def in_plan_order(reflections: Iterable[Reflection]) -> list[Reflection]:
    """By micro-batch, then failures before successes, then by minibatch, whatever order they ended in."""
    return sorted(reflections, key=lambda each: (each.batch_index, each.kind, each.minibatch_index))


def patches_of(reflections: Iterable[Reflection], kind: SourceType) -> list[Patch]:
    """The patches of one kind in plan order."""
    return [each.patch for each in in_plan_order(reflections) if each.kind == kind and each.patch is not None]
