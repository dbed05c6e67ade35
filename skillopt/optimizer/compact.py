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
from typing import Any

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
from skillopt.types import Rollout

_TRAJECTORY_TOKENS = 300
_MEMORY_TOKENS = 200
_RULE_CHARS = 160
_EXAMPLES = 3
_EXAMPLE = " Wrong: "
_KIND = re.compile(r"when the question (?:begins|starts) with [\"'“]?([^,\"'”]+)", re.IGNORECASE)


class Rule(Model):
    """One rule with the answer that broke it and the answer that keeps it. The rule comes last: it is written in sight
    of the two."""

    wrong: Text = ""
    right: Text = ""
    rule: Text


class AnalystReply(Model):
    """What the compact analyst replies."""

    rules: list[Rule] = Field(default_factory=list)


def analyst_request(context: OptimizerContext, settings: Settings, minibatch: Minibatch) -> tuple[Request, Fitted]:
    """One short call: a demonstration, the skill, and question, answer and feedback of each failure."""
    blocks = [
        Block(f"Trajectory {number}", _said(rollout), "") for number, rollout in enumerate(minibatch.rollouts, start=1)
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
    request = make_request(settings, "analyst", system, user_prompt(sections), max_tokens=COMPACT_MAX_TOKENS)
    return replace(request, json_schema=reply_schema(minibatch.rollouts, settings.learning_rate)), fitted


def _said(rollout: Rollout) -> tuple[str, ...]:
    """Question, answer and the right answer; the verifier's words where it names none."""
    question, right = f"question: {question_of(rollout)}", expected_of(rollout)
    return (
        (question, f"answer: {rollout.answer}", f"expected: {right}") if right else (question, *outcome_fields(rollout))
    )


def reply_schema(rollouts: Sequence[Rollout], budget: int) -> dict[str, Any]:
    """The JSON schema of a reply about ``rollouts``: at most ``budget`` rules, each about one of the wrong answers.

    Where the right answer is known, a rule can only pair the two that belong together.
    """
    pairs = dict.fromkeys((rollout.answer, expected_of(rollout)) for rollout in rollouts)
    rule = {"type": "string", "maxLength": _RULE_CHARS}
    kinds = [
        {
            "type": "object",
            "properties": {
                "wrong": {"const": wrong},
                "right": {"const": right} if right else {"type": "string", "maxLength": _RULE_CHARS},
                "rule": rule,
            },
            "required": ["wrong", "right", "rule"],
            "additionalProperties": False,
        }
        for wrong, right in pairs
    ]
    rules = {"type": "array", "minItems": 1, "maxItems": min(budget, len(kinds)), "items": {"anyOf": kinds}}
    return {"type": "object", "properties": {"rules": rules}, "required": ["rules"], "additionalProperties": False}


def expected_of(rollout: Rollout) -> str:
    """The first right answer that the row of a scored rollout names; '' when it names none."""
    detail = rollout.score.detail if rollout.score else {}
    gold = detail.get("gold_answers") or detail.get("expected") or ""
    return str(gold[0] if isinstance(gold, list | tuple) else gold)


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
    if text and text[-1] not in ".!?:":
        text += "."
    example = f"{_EXAMPLE}{wrong}. Right: {right}." if right and wrong and right != wrong else ""
    return f"- {text}{example}".replace("-  ", "- ") if text or example else ""


def merge(patches: Sequence[Patch], skill: Skill) -> tuple[Patch, int]:
    """All items in order, one for each kind of question: supports are added up and examples put together. A rule for a
    kind that the skill has a line for takes the place of that line and keeps its examples; what the skill says already
    is left out.

    Returns the patch and how many items were left out or joined.
    """
    lines = [line.strip() for line in skill.body.splitlines() if line.strip()]
    merged: list[UpdateItem] = []
    total = 0
    for item in (item for patch in patches for item in patch.items):
        total += 1
        same = next((index for index, other in enumerate(merged) if _same_kind(_content(other), _content(item))), None)
        if same is not None:
            both = merged[same].support_count + item.support_count
            content = _with_examples(_content(merged[same]), _content(item))
            merged[same] = merged[same].model_copy(update={"content": content, "support_count": both, "merge_level": 1})
            continue
        line = next((line for line in lines if _same_kind(line, _content(item))), None)
        if line is None:
            merged.append(item)
        elif (content := _with_examples(_content(item), line)) != line:
            merged.append(item.model_copy(update={"op": "replace", "target": line, "content": content}))
    reasoning = f"{total} proposed rules, {len(merged)} distinct and new."
    return Patch(reasoning, tuple(merged)), total - len(merged)


def _content(item: UpdateItem) -> str:
    return (item.content or "") if isinstance(item, EditItem) else ""


def _same_kind(rule: str, other: str) -> bool:
    """Whether two rules are about the same questions: the first words that one names begin those of the other. Rules
    that name none are the same when their words are."""
    named, other_named = _KIND.search(rule), _KIND.search(other)
    if named is None or other_named is None:
        return named is other_named and _words(rule.split(_EXAMPLE)[0]) == _words(other.split(_EXAMPLE)[0])
    first, second = _words(named.group(1)).split(), _words(other_named.group(1)).split()
    shared = min(len(first), len(second))
    return first[:shared] == second[:shared]


def _with_examples(rule: str, other: str) -> str:
    """``rule`` with the examples of ``other`` that it does not hold yet, at most three in all. Of two rules the shorter
    beginning of a question stands for both."""
    examples = list(dict.fromkeys([*rule.split(_EXAMPLE)[1:], *other.split(_EXAMPLE)[1:]]))
    heads = rule.split(_EXAMPLE)[0], other.split(_EXAMPLE)[0]
    named = [_KIND.search(head) for head in heads]
    head = heads[0]
    if named[0] and named[1] and len(named[1].group(1)) < len(named[0].group(1)):
        head = head.replace(named[0].group(1), named[1].group(1), 1)
    return _EXAMPLE.join([head, *examples[:_EXAMPLES]])


def rank(items: Sequence[UpdateItem], budget: int) -> list[int]:
    """Indices of the best ``budget`` items: most support first, then in order."""
    return sorted(range(len(items)), key=lambda index: (-items[index].support_count, index))[:budget]


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _one_line(text: str) -> str:
    return " ".join(text.split())
