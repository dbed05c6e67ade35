"""Stage 4: which items are applied, and, in autonomous mode, how many."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from skillopt.models.errors import ModelError
from skillopt.models.structured import ask
from skillopt.models.types import ChatModel
from skillopt.optimizer import compact
from skillopt.optimizer.context import CallError, OptimizerContext, Settings
from skillopt.optimizer.items import (
    EditItem,
    Lines,
    Model,
    Patch,
    Suggestion,
    Text,
    UpdateItem,
    UpdateMode,
)
from skillopt.optimizer.prompting import (
    context_sections,
    make_request,
    system_prompt,
    user_prompt,
)

RANKING_STAGE = "ranking"
LR_STAGE = "lr_autonomous"


def _whole_numbers(value: object) -> object:
    """Whole numbers of a list, in order; booleans and anything else are no indices. null is an empty list."""
    if value is None:
        return []
    if not isinstance(value, list):
        return value
    texts = [str(entry).strip() for entry in value if not isinstance(entry, bool)]
    return [int(float(text)) for text in texts if re.fullmatch(r"-?\d{1,9}(\.0+)?", text)]


class RankingReply(Model):
    reasoning: Text = ""
    selected_indices: Annotated[list[int], BeforeValidator(_whole_numbers)]


@dataclass(frozen=True, slots=True)
class Selection:
    """The items to apply, best first. ``indices`` into the merged items; None when nothing had to be chosen.

    ``reasoning`` is the ranking's own. ``fallback`` says why the first items were taken instead of a ranking's choice.
    """

    patch: Patch
    indices: tuple[int, ...] | None = None
    reasoning: str = ""
    fallback: CallError | None = None

    def to_dict(self, mode: UpdateMode) -> dict[str, Any]:
        """The content of ``ranked_edits.json``."""
        content = self.patch.to_dict(mode)
        if self.indices is not None:
            content["ranking_details"] = {"reasoning": self.reasoning, "selected_indices": list(self.indices)}
        return content


async def select(
    model: ChatModel, context: OptimizerContext, settings: Settings, merged: Patch, budget: int | None
) -> Selection:
    """The best ``budget`` items of ``merged``; no call when nothing has to be chosen. None: no budget, all are kept.

    A ranking that fails, or names no valid item, leaves the first ``budget`` items (``fallback``). ``StopRequested``
    and a refused key are raised.
    """
    if budget is not None and budget < 0:
        raise ValueError(f"an edit budget cannot be negative: {budget}")
    if budget is None or len(merged.items) <= budget:
        return Selection(merged)
    if budget == 0:
        return _selected(merged, [])
    if settings.compact:
        return _selected(merged, compact.rank(merged.items, budget), "by support")
    try:
        structured = await ask(model, _ranking_request(context, settings, merged, budget), RankingReply)
    except ModelError as error:
        return _first(merged, budget, CallError.of(RANKING_STAGE, error))
    reply = structured.value
    indices = valid_indices(reply.selected_indices, len(merged.items), budget)
    if not indices:
        error_of_reply = CallError(RANKING_STAGE, "invalid_output", "the reply names no valid index")
        return _first(merged, budget, error_of_reply)
    return _selected(merged, indices, reply.reasoning)


def valid_indices(indices: Sequence[int], n_items: int, budget: int) -> list[int]:
    """Those within range, each once, in order, at most ``budget``."""
    return list(dict.fromkeys(index for index in indices if 0 <= index < n_items))[:budget]


def _selected(merged: Patch, indices: Sequence[int], reasoning: str = "") -> Selection:
    items = tuple(merged.items[index] for index in indices)
    note = f"[note: selected {len(items)}/{len(merged.items)}]"
    patch = Patch(f"{merged.reasoning} {note}".strip(), items)
    return Selection(patch, tuple(indices), reasoning)


def _first(merged: Patch, budget: int, error: CallError) -> Selection:
    note = f"[note: ranking failed, first {budget}/{len(merged.items)} kept]"
    return Selection(Patch(f"{merged.reasoning} {note}".strip(), merged.items[:budget]), fallback=error)


def _ranking_request(context: OptimizerContext, settings: Settings, merged: Patch, budget: int) -> Any:
    pool = f"{len(merged.items)} items, budget={budget}.\n\n{render_pool(merged.items)}"
    sections = [*context_sections(context), ("Proposed Items", pool)]
    return make_request(settings, RANKING_STAGE, system_prompt("ranking"), user_prompt(sections))


def render_pool(items: Sequence[UpdateItem]) -> str:
    """One entry an item, ``[0] …``; further lines are indented, so that an index only ever opens an entry."""
    return "\n".join(f"[{index}] {_entry(item)}" for index, item in enumerate(items))


def _entry(item: UpdateItem) -> str:
    support = f"support={item.support_count} source={item.source_type or 'unknown'}"
    if isinstance(item, EditItem):
        fields = {"target": item.target, "content": item.content or ""}
        head = f"op={item.op} {support}"
    elif isinstance(item, Suggestion):
        fields = {"title": item.title, "motivation": item.motivation, "instruction": item.instruction}
        head = f"type={item.type} priority={item.priority_hint} {support}"
    else:
        fields = {"title": item.title, "changes": "\n".join(item.change_summary), "new skill": item.new_skill}
        head = f"candidate {support}"
    lines = [f"{name}: {_indented(text)}" for name, text in fields.items() if text.strip()]
    return "\n    ".join([head, *lines])


def _indented(text: str) -> str:
    return text.strip().replace("\n", "\n      ")


def _leading_number(value: object) -> object:
    """The first whole number of a reply's ``learning_rate``; below 0 is 0."""
    if isinstance(value, bool):
        raise ValueError("a number is due, not a boolean")
    found = re.search(r"-?\d{1,9}", str(value))
    return max(int(found.group()), 0) if found else value


class LrReply(Model):
    learning_rate: Annotated[int, BeforeValidator(_leading_number)]
    reasoning: Text = ""
    confidence: Text = ""
    risk_notes: Lines = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LrDecision:
    """How many items the optimizer itself wants applied. ``error`` (then the rate is 0) when it could not say."""

    learning_rate: int
    raw_learning_rate: int | None
    available: int
    reasoning: str = ""
    confidence: str = ""
    risk_notes: tuple[str, ...] = ()
    raw_response: str = ""
    error: CallError | None = None

    def to_dict(self) -> dict[str, Any]:
        """The content of ``lr_decision.json``."""
        content: dict[str, Any] = {
            "learning_rate": self.learning_rate,
            "raw_learning_rate": self.raw_learning_rate,
            "available_update_items": self.available,
            "clamped": self.raw_learning_rate is not None and self.raw_learning_rate != self.learning_rate,
            "fallback": self.error is not None,
            "reasoning": self.reasoning,
            "confidence": self.confidence,
            "risk_notes": list(self.risk_notes),
            "raw_response": self.raw_response,
        }
        return content if self.error is None else {**content, "error": self.error.message}


async def decide_learning_rate(
    model: ChatModel,
    context: OptimizerContext,
    settings: Settings,
    merged: Patch,
    *,
    rollout_n: int,
    rollout_hard: float,
    rollout_soft: float,
) -> LrDecision:
    """Asks the optimizer how many of the merged items to apply (``lr_control_mode: autonomous``).

    Without items there is nothing to ask. A call that fails gives 0; ``StopRequested`` and a refused key are raised.
    """
    available = len(merged.items)
    if not available:
        return LrDecision(0, None, 0, "no items to apply")
    rollout = f"n={rollout_n} hard={rollout_hard:.4f} soft={rollout_soft:.4f}"
    sections = [
        *context_sections(context),
        ("Rollout", rollout),
        ("Proposed Items", f"{available} items.\n\n{render_pool(merged.items)}"),
    ]
    request = make_request(settings, LR_STAGE, system_prompt("lr_autonomous"), user_prompt(sections))
    try:
        structured = await ask(model, request, LrReply)
    except ModelError as error:
        return LrDecision(0, None, available, raw_response=error.raw, error=CallError.of(LR_STAGE, error))
    reply = structured.value
    return LrDecision(
        min(reply.learning_rate, available),
        reply.learning_rate,
        available,
        reply.reasoning,
        reply.confidence,
        tuple(reply.risk_notes),
        json.dumps(reply.model_dump(), ensure_ascii=False),
    )
