"""Stage 3: many patches into one, level by level, failures and successes side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skillopt.concurrency import gather_all
from skillopt.models.errors import ModelError
from skillopt.models.structured import Structured, ask
from skillopt.models.types import ChatModel
from skillopt.optimizer import compact
from skillopt.optimizer.context import CallError, OptimizerContext, Settings
from skillopt.optimizer.items import ITEMS_KEY, Origin, Patch, UpdateItem, UpdateMode
from skillopt.optimizer.prompting import (
    FULL_REWRITE_MAX_TOKENS,
    MAX_TOKENS,
    Section,
    context_sections,
    make_request,
    system_prompt,
    user_prompt,
)
from skillopt.optimizer.replies import MERGE_REPLY, merged_items
from skillopt.types import SourceType

STAGE = "merge"
_ITEM_SHAPE: Mapping[UpdateMode, str] = {
    "patch": '{"op": "append", "target": "", "content": "- one rule", "support_count": 2, "source_type": "failure"}',
    "rewrite_from_suggestions": (
        '{"type": "add_rule", "title": "…", "motivation": "…", "instruction": "…", "priority_hint": "high", '
        '"support_count": 2, "source_type": "failure"}'
    ),
    "full_rewrite_minibatch": (
        '{"title": "…", "change_summary": ["…"], "new_skill": "…", "support_count": 2, "source_type": "failure"}'
    ),
}


@dataclass(frozen=True, slots=True)
class Merged:
    """The one patch of a step. ``fallbacks`` are the merge calls that failed: their inputs were concatenated.

    ``dropped`` counts the entries of replies that were no items (in the compact contract: the rules that were joined
    or known).
    """

    patch: Patch
    fallbacks: tuple[CallError, ...] = ()
    dropped: int = 0

    def then(self, later: Merged) -> Merged:
        """``later``, with what this one cost added."""
        return Merged(
            later.patch,
            self.fallbacks + later.fallbacks,
            self.dropped + later.dropped,
        )


@dataclass(frozen=True, slots=True)
class _Stage:
    """What the merge calls of a step share."""

    model: ChatModel
    context: OptimizerContext
    settings: Settings


async def aggregate(
    model: ChatModel,
    context: OptimizerContext,
    settings: Settings,
    failure_patches: Sequence[Patch],
    success_patches: Sequence[Patch],
) -> Merged:
    """Joins all patches of a step, given in plan order. Without any, the result is an empty patch.

    Calls that fail fall back on concatenation; ``StopRequested`` and a refused key are raised.
    """
    if settings.compact:
        patch, joined = compact.merge([*failure_patches, *success_patches], context.skill)
        return Merged(patch, dropped=joined)
    stage = _Stage(model, context, settings)
    (failures, failure_level), (successes, success_level) = await gather_all(
        [_merge_side(stage, failure_patches, "failure"), _merge_side(stage, success_patches, "success")]
    )
    paid = failures.then(successes)
    if not successes.patch.items:
        return replace(paid, patch=failures.patch)
    if not failures.patch.items:
        return paid
    level = max(failure_level, success_level) + 1
    return paid.then(await _merge_final(stage, failures.patch, successes.patch, level))


async def merge_side(
    model: ChatModel, context: OptimizerContext, settings: Settings, patches: Sequence[Patch], side: SourceType
) -> None:
    """Asks what ``aggregate`` asks of one side alone, whose answers it then finds in the journal."""
    if not settings.compact:
        await _merge_side(_Stage(model, context, settings), patches, side)


async def _merge_side(stage: _Stage, patches: Sequence[Patch], side: SourceType) -> tuple[Merged, int]:
    """One side down to one patch, and the last level used (0: no merge was needed)."""
    done = Merged(Patch())
    level = 0
    left = list(patches)
    size = max(stage.settings.merge_batch_size, 2)
    while len(left) > 1:
        level += 1
        chunks = [left[start : start + size] for start in range(0, len(left), size)]
        merged = await gather_all([_merge_chunk(stage, chunk, side, level) for chunk in chunks])
        for each in merged:
            done = done.then(each)
        left = [each.patch for each in merged]
    return done.then(Merged(left[0])) if left else done, level


async def _merge_chunk(stage: _Stage, chunk: Sequence[Patch], side: SourceType, level: int) -> Merged:
    if len(chunk) == 1:
        return Merged(chunk[0])
    mode = stage.settings.mode
    patches = f"{len(chunk)} patches from {side} trajectories, merge level {level}.\n\n{_json_of(chunk, mode)}"
    return await _call(stage, f"merge_{side}", [("Patches", patches)], chunk, level, side)


async def _merge_final(stage: _Stage, failures: Patch, successes: Patch, level: int) -> Merged:
    mode = stage.settings.mode
    counts = f"{len(failures.items)} items from failures and {len(successes.items)} from successes."
    sections = [
        ("Patches From Failures", f"{counts}\n\n{_json_of([failures], mode)}"),
        ("Patches From Successes", _json_of([successes], mode)),
    ]
    return await _call(stage, "merge_final", sections, [failures, successes], level, None)


async def _call(
    stage: _Stage, prompt: str, sections: list[Section], inputs: Sequence[Patch], level: int, side: SourceType | None
) -> Merged:
    """One merge call. ``side`` is None for the final merge, whose items say themselves where they come from."""
    settings, mode = stage.settings, stage.settings.mode
    system = system_prompt(
        prompt, how=system_prompt(f"change_{mode}"), items_key=ITEMS_KEY[mode], item=_ITEM_SHAPE[mode]
    )
    user = user_prompt([*context_sections(stage.context), *sections])
    tokens = FULL_REWRITE_MAX_TOKENS if mode == "full_rewrite_minibatch" else MAX_TOKENS
    request = make_request(settings, STAGE, system, user, max_tokens=tokens)
    try:
        structured: Structured[Any] = await ask(stage.model, request, MERGE_REPLY[mode])
    except ModelError as error:
        fallback = CallError.of(f"{prompt}, level {level}", error)
        return Merged(concatenated(inputs), (fallback,))
    reply = structured.value
    items = tuple(_stamped(item, level, side) for item in merged_items(reply))
    return Merged(Patch(reply.reasoning, items), dropped=reply.dropped)


def concatenated(patches: Sequence[Patch]) -> Patch:
    """All items one after the other, as they are."""
    reasoning = "\n".join(patch.reasoning for patch in patches if patch.reasoning)
    return Patch(reasoning, tuple(item for patch in patches for item in patch.items))


def _stamped(item: UpdateItem, level: int, side: SourceType | None) -> UpdateItem:
    source: Origin = side or item.source_type or "mixed"
    return item.model_copy(update={"merge_level": level, "source_type": source})


def _json_of(patches: Sequence[Patch], mode: UpdateMode) -> str:
    """The patches as a merge reads them; at which level an item was joined is nothing to it."""
    content = [patch.to_dict(mode) for patch in patches]
    for patch in content:
        for item in patch[ITEMS_KEY[mode]]:
            item.pop("merge_level", None)
    return json.dumps(content, ensure_ascii=False, indent=1)
