"""The compact contract for small local models: one flat reply of rules, and no model call where code can decide.

A small model writes valid JSON under a schema but weak prose; what helps most is the pair of a wrong and a right answer
taken from a failure. So its analyst replies a list of ``{rule, wrong, right}``, each becomes one appended line of the
skill, merging removes what is said twice, and ranking counts support. Everything to tune for such models is here, in
``prompts/*_compact.md`` and in ``minibatch.COMPACT_SIZE``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field

from skillopt.models.types import Request
from skillopt.optimizer.context import OptimizerContext, Settings
from skillopt.optimizer.items import EditItem, Model, Patch, Text, UpdateItem
from skillopt.optimizer.minibatch import Minibatch
from skillopt.optimizer.prompting import (
    COMPACT_MAX_TOKENS,
    context_sections,
    make_request,
    system_prompt,
    user_prompt,
)
from skillopt.optimizer.replies import FailureEdits
from skillopt.optimizer.trajectory import Block, Fitted, fit_blocks, outcome_fields, question_of, trim_middle
from skillopt.skill import Skill

_TRAJECTORY_TOKENS = 300
_MEMORY_TOKENS = 200
_EXAMPLE = " Wrong: "


class Rule(Model):
    """One rule with the answer that broke it and the answer that keeps it."""

    rule: Text
    wrong: Text = ""
    right: Text = ""


class AnalystReply(Model):
    """What the compact analyst replies."""

    rules: list[Rule] = Field(default_factory=list)


def analyst_request(context: OptimizerContext, settings: Settings, minibatch: Minibatch) -> tuple[Request, Fitted]:
    """One short call: a demonstration, the skill, and question, answer and feedback of each failure."""
    blocks = [
        Block(f"Trajectory {number}", (f"question: {question_of(rollout)}", *outcome_fields(rollout)), "")
        for number, rollout in enumerate(minibatch.rollouts, start=1)
    ]
    each = min(settings.max_trajectory_tokens or _TRAJECTORY_TOKENS, _TRAJECTORY_TOKENS)
    fitted = fit_blocks(blocks, each=each, total=settings.max_prompt_tokens)
    short = replace(
        context,
        memory=trim_middle(context.memory, _MEMORY_TOKENS)[0],
        previous_steps=trim_middle(context.previous_steps, _MEMORY_TOKENS)[0],
    )
    budget = ("Update Budget", f"budget={settings.learning_rate} (the most rules you may write)")
    sections = [*context_sections(short, budget), ("Failed Trajectories", fitted.text)]
    system = system_prompt("analyst_error_compact")
    return make_request(settings, "analyst", system, user_prompt(sections), max_tokens=COMPACT_MAX_TOKENS), fitted


def as_full_reply(reply: AnalystReply, batch_size: int) -> FailureEdits:
    """The rules as a full analyst's reply: one appended line each."""
    said = [(rule, line) for rule in reply.rules if (line := rule_line(rule))]
    causes = [
        {"failure_type": "rule_missing", "description": rule.rule.strip()} for rule, _ in said if rule.rule.strip()
    ]
    edits = [{"op": "append", "content": line} for _, line in said]
    return FailureEdits.model_validate(
        {"batch_size": batch_size, "failure_summary": causes, "patch": {"reasoning": "", "edits": edits}}
    )


def rule_line(rule: Rule) -> str:
    """``- <rule> Wrong: <wrong>. Right: <right>``, a form that small targets follow; '' if there is nothing to say."""
    text, wrong, right = (_one_line(part) for part in (rule.rule, rule.wrong, rule.right))
    text = re.sub(r"^(?:[-*•]\s+)+", "", text)
    example = f"{_EXAMPLE}{wrong}. Right: {right}" if right and wrong and right != wrong else ""
    if text and text[-1] not in ".!?:":
        text += "."
    return f"- {text}{example}".replace("-  ", "- ") if text or example else ""


def merge(patches: Sequence[Patch], skill: Skill) -> tuple[Patch, int]:
    """All items in order, each rule once with its support added up, and none that the skill holds already.

    Returns the patch and how many items were left out or joined.
    """
    have = f" {_words(skill.text)} "
    merged: dict[str, UpdateItem] = {}
    total = 0
    for item in (item for patch in patches for item in patch.items):
        total += 1
        key = _rule_key(item)
        if f" {key} " in have:
            continue
        if key not in merged:
            merged[key] = item
        else:
            both = merged[key].support_count + item.support_count
            merged[key] = merged[key].model_copy(update={"support_count": both, "merge_level": 1})
    reasoning = f"{total} proposed rules, {len(merged)} distinct and new."
    return Patch(reasoning, tuple(merged.values())), total - len(merged)


def rank(items: Sequence[UpdateItem], budget: int) -> list[int]:
    """Indices of the best ``budget`` items: most support first, then in order."""
    return sorted(range(len(items)), key=lambda index: (-items[index].support_count, index))[:budget]


def _rule_key(item: UpdateItem) -> str:
    text = (item.content or "") if isinstance(item, EditItem) else ""
    return _words(text.split(_EXAMPLE)[0]) or _words(text)


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _one_line(text: str) -> str:
    return " ".join(text.split())
