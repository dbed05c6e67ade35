"""The compact contract for small local models: one flat reply of rules, and no model call where code can decide.

A small model writes valid JSON under a schema but weak prose; what helps most is the pair of a wrong and a right answer
taken from a failure. So its analyst only says, for a failure, which questions a rule is for and how they are answered;
the pair comes from the failure itself. Each rule becomes one line of the skill, merging puts rules for one kind of
question together, and ranking counts support. Everything to tune for such models is here, in ``prompts/*_compact.md``
and in ``minibatch.COMPACT_SIZE``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import Field

from skillopt.models.types import Request
from skillopt.optimizer.context import OptimizerContext, Settings
from skillopt.optimizer.items import Count, EditItem, Model, Patch, Text, UpdateItem
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
_EXAMPLES = 3
_EXAMPLE = " Wrong: "
_RIGHT = " Right: "
_IN_WORDS = {"type": "string", "pattern": "^[A-Za-z][A-Za-z ,.']{2,89}$"}
_ARTICLES = frozenset({"a", "an", "the"})
_WHEN = re.compile(r"- When (.+?), write ")
BEGINS = "the question begins with"
UNANSWERED = "the text does not hold the answer"


class Rule(Model):
    """One rule: ``when`` it holds, and how to ``write`` the answer then, for the failure of that number."""

    trajectory: Count = 0
    when: Text = ""
    write: Text


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
    """The JSON schema of a reply about ``rollouts``: at most ``budget`` rules, each about one failure. How to write is
    told in words, without numbers."""
    kinds = [
        {
            "type": "object",
            "properties": {
                "trajectory": {"const": number},
                "when": {"const": _when(rollout)},
                "write": {"const": expected_of(rollout)} if _unanswered(rollout) else _IN_WORDS,
            },
            "required": ["trajectory", "when", "write"],
            "additionalProperties": False,
        }
        for number, rollout in enumerate(rollouts, start=1)
    ]
    rules = {"type": "array", "minItems": 1, "maxItems": min(budget, len(kinds)), "items": {"anyOf": kinds}}
    return {"type": "object", "properties": {"rules": rules}, "required": ["rules"], "additionalProperties": False}


def _when(rollout: Rollout) -> str:
    return UNANSWERED if _unanswered(rollout) else f"{BEGINS} {beginning_of(question_of(rollout))}"


def _unanswered(rollout: Rollout) -> bool:
    """Whether a failure looks like an answer where none was due: it has no word in common with the right one."""
    right = set(_words(expected_of(rollout)).split())
    return bool(right) and right.isdisjoint(_words(rollout.answer).split())


def beginning_of(question: str) -> str:
    """The words that tell the kind of a question: the first three at most, up to a name, a number or an article."""
    words = re.findall(r"[\w'’-]+", question.strip().splitlines()[0] if question.strip() else "")
    kind = words[:1]
    for word in words[1:3]:
        if word[0].isupper() or word[0].isdigit() or word.lower() in _ARTICLES:
            break
        kind.append(word)
    return " ".join(kind)


def expected_of(rollout: Rollout) -> str:
    """The first right answer that the row of a scored rollout names; '' when it names none."""
    detail = rollout.score.detail if rollout.score else {}
    gold = detail.get("gold_answers") or detail.get("expected") or ""
    return str(gold[0] if isinstance(gold, list | tuple) else gold)


def as_full_reply(reply: AnalystReply, rollouts: Sequence[Rollout]) -> tuple[FailureEdits, list[tuple[str, ...]]]:
    """The rules as a full analyst's reply, one appended line each, and the ids of the items that each is for."""
    told = [(line, rule) for rule in reply.rules if (line := rule_line(rule, rollouts))]
    lines = [line for line, _ in told]
    causes = [{"failure_type": "rule_missing", "description": line.split(_EXAMPLE)[0].lstrip("- ")} for line in lines]
    edits = [{"op": "append", "content": line} for line in lines]
    full = FailureEdits.model_validate(
        {"batch_size": len(rollouts), "failure_summary": causes, "patch": {"reasoning": "", "edits": edits}}
    )
    about = (_rollout_of(rule, rollouts) for _, rule in told)
    return full, [(rollout.item.id,) if rollout else () for rollout in about]


def _rollout_of(rule: Rule, rollouts: Sequence[Rollout]) -> Rollout | None:
    """The failure that a rule is for; None where it names none."""
    return rollouts[rule.trajectory - 1] if 1 <= rule.trajectory <= len(rollouts) else None


def rule_line(rule: Rule, rollouts: Sequence[Rollout]) -> str:
    """``- When <when>, write <write>. Wrong: <wrong>. Right: <right>.``, a form that small targets follow; '' if there
    is nothing to say."""
    when, write = _one_line(rule.when).rstrip(".,"), _one_line(rule.write).rstrip(".,")
    write = re.sub(r"^write\s+", "", write, flags=re.IGNORECASE)
    if not write:
        return ""
    head = f"- When {when}, write {write}." if when else f"- Write {write}."
    rollout = _rollout_of(rule, rollouts)
    wrong, right = (_one_line(rollout.answer), _one_line(expected_of(rollout))) if rollout else ("", "")
    return f"{head}{_EXAMPLE}{wrong}. Right: {right}." if right and wrong and right != wrong else head


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
            merged[same] = _joined(merged[same], item)
            continue
        line = next((line for line in lines if _same_kind(line, _content(item))), None)
        if line is None:
            merged.append(item)
        elif (content := _with_examples(_content(item), line)) != line:
            merged.append(item.model_copy(update={"op": "replace", "target": line, "content": content}))
    reasoning = f"{total} proposed rules, {len(merged)} distinct and new."
    return Patch(reasoning, tuple(merged)), total - len(merged)


def _joined(item: UpdateItem, other: UpdateItem) -> UpdateItem:
    """Two rules for one kind of question as one. The items that it is for are known where they are of both."""
    named = item.source_items and other.source_items
    update = {
        "content": _with_examples(_content(item), _content(other)),
        "support_count": item.support_count + other.support_count,
        "merge_level": 1,
        "source_items": tuple(dict.fromkeys(item.source_items + other.source_items)) if named else (),
    }
    return item.model_copy(update=update)


def _content(item: UpdateItem) -> str:
    return (item.content or "") if isinstance(item, EditItem) else ""


def _same_kind(rule: str, other: str) -> bool:
    """Whether two rules hold for the same questions. Rules that say no ``when`` are the same when their words are."""
    found, other_found = _WHEN.match(rule), _WHEN.match(other)
    if found is None or other_found is None:
        return found is other_found and _words(rule.split(_EXAMPLE)[0]) == _words(other.split(_EXAMPLE)[0])
    return _words(found.group(1)) == _words(other_found.group(1))


def _with_examples(rule: str, other: str) -> str:
    """``rule`` with the examples of ``other`` that it does not hold yet: one for each right answer, three at most."""
    head, *examples = rule.split(_EXAMPLE)
    for example in other.split(_EXAMPLE)[1:]:
        if all(example.split(_RIGHT)[-1] != held.split(_RIGHT)[-1] for held in examples):
            examples.append(example)
    return _EXAMPLE.join([head, *examples[:_EXAMPLES]])


def rank(items: Sequence[UpdateItem], budget: int) -> list[int]:
    """Indices of the best ``budget`` items: most support first, then in order."""
    return sorted(range(len(items)), key=lambda index: (-items[index].support_count, index))[:budget]


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _one_line(text: str) -> str:
    return " ".join(text.split())
