"""Prompts and requests: files with placeholders, user messages of headed sections, one request builder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import resources
from string import Template

from skillopt.models.types import Message, Request
from skillopt.optimizer.context import OptimizerContext, Settings
from skillopt.skill import Skill

MAX_TOKENS = 16_384
FULL_REWRITE_MAX_TOKENS = 64_000
COMPACT_MAX_TOKENS = 512

Section = tuple[str, str]
"""Heading and body of one part of a user message."""


@cache
def _template(name: str) -> Template:
    text = resources.files("skillopt.optimizer").joinpath("prompts").joinpath(f"{name}.md").read_text(encoding="utf-8")
    return Template(text.strip())


def system_prompt(name: str, **values: str) -> str:
    """The prompt file ``prompts/<name>.md`` with its placeholders filled. A missing value is a KeyError."""
    return _template(name).substitute(values)


def user_prompt(sections: Iterable[Section]) -> str:
    """Sections one after the other, each under its ``## `` heading. What changes least comes first (prompt caches)."""
    return "\n\n".join(f"## {heading}\n{body}".rstrip() for heading, body in sections) + "\n"


def skill_section(skill: Skill, heading: str = "Current Skill") -> Section:
    """The skill as it stands, with ``\\n`` line ends, so that a target copied from it is found again."""
    return heading, skill.text.replace("\r\n", "\n").strip("\n")


def context_sections(context: OptimizerContext, *between: Section) -> list[Section]:
    """What the calls of a step share, the most lasting part first: memory, skill, ``between``, previous steps."""
    sections = [
        ("Optimizer Meta Skill", demote_headings(context.memory.strip())),
        skill_section(context.skill),
        *between,
        ("Previous Steps", context.previous_steps.strip()),
    ]
    memories = ("Optimizer Meta Skill", "Previous Steps")
    return [(heading, body) for heading, body in sections if body or heading not in memories]


def demote_headings(text: str) -> str:
    """Free text inside a section must not open a section of its own."""
    return re.sub(r"(?m)^[ ]{0,3}#{1,3}(?=[ \t])", "####", text)


def estimate_tokens(text: str) -> int:
    """A quarter of the characters, rounded up: near enough for English; texts in other scripts hold more tokens."""
    return (len(text) + 3) // 4


def make_request(
    settings: Settings,
    stage: str,
    system: str,
    user: str,
    *,
    max_tokens: int = MAX_TOKENS,
    reasoning_effort: str | None = None,
) -> Request:
    """One optimizer call. ``stage`` is its token-accounting label; the effort is the general one unless given."""
    effort = settings.reasoning_effort if reasoning_effort is None else reasoning_effort
    return Request(
        messages=(Message("system", system), Message("user", user)),
        max_tokens=max_tokens,
        reasoning_effort=effort or None,
        stage=stage,
        priority=settings.priority,
        timeout=settings.timeout,
    )
