"""Rollouts as text for prompts, cut to a token budget. Pure.

What is cut: the middle of a trajectory (its prompt and its conversation), with a line that says how much is missing.
The question, the answer, the reason and the verifier's feedback always stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillopt.optimizer.prompting import demote_headings, estimate_tokens
from skillopt.skill import Skill
from skillopt.types import Rollout

_UNBOUNDED = 10**9
_MIN_FIELD_TOKENS = 64
_MARKER_CHARS = 40
_QUESTION_KEYS = ("question", "task_description", "instruction")
_TYPE_KEYS = ("task_type", "instruction_type")
_EXTRA_SECTIONS = {
    "reference_text": "hidden reference",
    "spreadsheet_preview": "spreadsheet preview",
    "trace_summary": "trace summary",
}
SKILL_MARK = "[the current skill stands here]"


@dataclass(frozen=True, slots=True)
class Block:
    """One trajectory in parts: the fields that must survive, each one piece, and the rest that may be cut."""

    heading: str
    fields: tuple[str, ...]
    rest: str


@dataclass(frozen=True, slots=True)
class Fitted:
    """Blocks as text. ``trimmed`` of them were cut, by ``tokens_left_out`` estimated tokens together."""

    text: str
    trimmed: int = 0
    tokens_left_out: int = 0


def trim_middle(text: str, max_tokens: int) -> tuple[str, int]:
    """``text`` in at most about ``max_tokens``: head and tail, and between them how many tokens were left out."""
    size = estimate_tokens(text)
    if size <= max_tokens:
        return text, 0
    room = max(4 * max_tokens - _MARKER_CHARS, 0)
    head, tail = text[: room // 2].rstrip(), text[len(text) - (room - room // 2) :].lstrip()
    left_out = size - estimate_tokens(head) - estimate_tokens(tail)
    parts = [head, f"[… {left_out} tokens left out …]", tail]
    return "\n".join(part for part in parts if part), left_out


def fair_shares(sizes: Sequence[int], cap: int, total: int) -> list[int]:
    """How much each of ``sizes`` may keep: at most ``cap`` each and ``total`` together; what small ones leave, large
    ones share equally."""
    shares = [0] * len(sizes)
    left = max(total, 0)
    for rank, index in enumerate(sorted(range(len(sizes)), key=lambda i: (sizes[i], i))):
        shares[index] = min(sizes[index], cap, left // (len(sizes) - rank))
        left -= shares[index]
    return shares


def fit_blocks(blocks: Sequence[Block], *, each: int, total: int) -> Fitted:
    """The blocks under their headings, at most ``each`` tokens a block and ``total`` in all (0: no bound).

    Where even the fields are too much, each of them is cut in the middle, but not below 64 tokens.
    """
    sizes = [sum(map(estimate_tokens, (*block.fields, block.rest))) for block in blocks]
    shares = fair_shares(sizes, each or _UNBOUNDED, total or _UNBOUNDED)
    done = [_fit_block(block, share) for block, share in zip(blocks, shares, strict=True)]
    return Fitted(
        "\n\n".join(text for text, _ in done),
        sum(left_out > 0 for _, left_out in done),
        sum(left_out for _, left_out in done),
    )


def _fit_block(block: Block, room: int) -> tuple[str, int]:
    fields = [(field, 0) for field in block.fields]
    if sum(estimate_tokens(field) for field, _ in fields) > room:
        share = max(room // max(len(fields), 1), _MIN_FIELD_TOKENS)
        fields = [trim_middle(field, share) for field in block.fields]
    room -= sum(estimate_tokens(field) for field, _ in fields)
    rest, left_out = trim_middle(block.rest, max(room, 0))
    body = "\n".join(part for part in (*(field for field, _ in fields), rest) if part)
    return f"### {block.heading}\n{demote_headings(body)}", left_out + sum(cut for _, cut in fields)


def question_of(rollout: Rollout) -> str:
    """What the item asks: its question field, else the user prompt."""
    return _first_text(rollout.item.data, _QUESTION_KEYS) or rollout.user_prompt.strip()


def outcome_fields(rollout: Rollout) -> list[str]:
    """Answer, result, reason and feedback of a measured rollout, one field each, empty ones left out."""
    score = rollout.score
    fields = [f"answer: {rollout.answer}" if rollout.answer.strip() else "answer: (none)"]
    if score is None:
        return [*fields, "result: not measured"]
    status = "" if score.status == "ok" else f", {score.status}"
    fields.append(f"result: hard={score.hard:g} soft={score.soft:.3g}{status}")
    if score.reason.strip():
        fields.append(f"reason: {score.reason.strip()}")
    if score.feedback.strip():
        fields.append(f"verifier feedback: {score.feedback.strip()}")
    return fields


def conversation(rollout: Rollout) -> str:
    """The events, one paragraph each, without what other parts of the block already say."""
    said = {rollout.system_prompt.strip(), rollout.user_prompt.strip()}
    if rollout.score is not None:
        said.add(rollout.score.feedback.strip())
    said.discard("")
    lines = [_event_text(event) for event in rollout.trajectory if _plain(event.get("content")).strip() not in said]
    return "\n".join(line for line in lines if line)


def trajectory_block(rollout: Rollout, number: int, *, system_prompt: str = "") -> Block:
    """A rollout as a block. ``system_prompt`` is given where the target's differs between the rollouts of a prompt."""
    question = question_of(rollout)
    kind = _first_text(rollout.item.data, _TYPE_KEYS)
    fields = [f"task type: {kind}" if kind else "", f"question: {question}", *outcome_fields(rollout)]
    turns = _turns(rollout)
    fields.append(f"turns: {turns}" if turns > 1 else "")
    parts = [("target system prompt", system_prompt.strip())]
    parts += [(title, _extra(rollout, key)) for key, title in _EXTRA_SECTIONS.items()]
    if rollout.user_prompt.strip() != question:
        parts.append(("task prompt", rollout.user_prompt.strip()))
    parts.append(("conversation", conversation(rollout)))
    rest = "\n".join(f"{title}:\n{body}" for title, body in parts if body)
    return Block(f"Trajectory {number} (id: {rollout.item.id})", tuple(filter(None, fields)), rest)


def shared_system_prompt(rollouts: Sequence[Rollout], skill: Skill) -> str | None:
    """The target's system prompt if it is one and the same for all (the skill in it not repeated), else None."""
    prompts = {without_skill(rollout.system_prompt, skill) for rollout in rollouts}
    return prompts.pop() if len(prompts) == 1 else None


def without_skill(prompt: str, skill: Skill) -> str:
    """A target's prompt with a mark where the skill stood: the optimizer reads the skill elsewhere."""
    for text in (skill.text.strip(), skill.body.strip()):
        if text and text in prompt:
            return prompt.replace(text, SKILL_MARK)
    return prompt


def _event_text(event: Mapping[str, Any]) -> str:
    step = f"step {event['step']} " if "step" in event else ""
    if event.get("type") == "tool_call":
        failed = f" (exit status {event['exit_code']})" if event.get("exit_code") else ""
        return f"[{step}action] {_plain(event.get('cmd'))}\n[{step}observation{failed}] {_plain(event.get('obs'))}"
    if event.get("type") == "file_edit":
        return f"[{step}file] {_plain(event.get('kind')) or 'edit'} {_plain(event.get('path'))}"
    if "action" in event:
        think = _plain(event.get("reasoning"))
        lines = [f"[{step}think] {think}" if think else "", f"[{step}action] {_plain(event['action'])}"]
        seen = _plain(event.get("env_feedback"))
        return "\n".join(filter(None, [*lines, f"[{step}observation] {seen}" if seen else ""]))
    role, content = str(event.get("role") or "event"), _plain(event.get("content"))
    return f"[{'verification' if role == 'system' else role}] {content}" if content else ""


def _plain(value: object) -> str:
    """A value of an event as text; what is no text is shown as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _first_text(data: Mapping[str, Any], keys: Sequence[str]) -> str:
    texts = (data.get(key) for key in keys)
    return next((text.strip() for text in texts if isinstance(text, str) and text.strip()), "")


def _extra(rollout: Rollout, key: str) -> str:
    """An optional part of the block, from the score's detail or else from the item."""
    detail = rollout.score.detail if rollout.score is not None else {}
    return _first_text(detail, [key]) or _first_text(rollout.item.data, [key])


def _turns(rollout: Rollout) -> int:
    return sum(
        event.get("role") == "assistant" or event.get("type") == "tool_call" or "action" in event
        for event in rollout.trajectory
    )
