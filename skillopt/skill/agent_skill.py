"""A skill as other agents read it: the ``SKILL.md`` that is made of one. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from skillopt.skill.agent_format import (
    DESCRIPTION_LIMIT,
    NAME_RULE,
    FrontmatterError,
    description_problems,
    fields_of,
    is_name,
    slug,
)
from skillopt.skill.document import SegmentKind, Skill, blank_line_after, encodable, scrub, with_line_ending

_TITLES: Mapping[SegmentKind, str] = {"guidance": "## General guidance", "appendix": "## Execution notes"}
_SHORTENED = f"the description was made to fit: one line, no angle brackets, at most {DESCRIPTION_LIMIT} characters"
_BREAK = re.compile(r"\r\n|\r|\n")
_KEY_AND_VALUE = re.compile(r"(?P<key>[^\s#:'\"-][^:]*):[ \t]+(?P<value>\S.*)")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(?P<title>.+?)[ \t]*#*[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class AgentSkill:
    """A finished ``SKILL.md``. ``notes`` are sentences about what was made up or changed."""

    name: str
    description: str
    text: str
    notes: tuple[str, ...]


def choose_name(skill: Skill, *others: str) -> str:
    """The name in the skill's frontmatter, else the first of ``others`` that can be one, else ``trained-skill``."""
    try:
        given = fields_of(_quoted(_inner(skill.frontmatter))).get("name")
    except FrontmatterError:
        given = None
    candidates = (given if isinstance(given, str) else "", *others)
    return next(filter(None, map(slug, candidates)), "trained-skill")


def agent_skill(skill: Skill, name: str, *, description: str = "", task: str = "", provenance: str = "") -> AgentSkill:
    """``skill`` as a ``SKILL.md``.

    Its frontmatter is kept and completed with ``name`` and, where it has no valid one or another is given, a
    description (made from the text and ``task``, the name of what it was trained on). Its protected regions become
    sections. ``provenance`` goes into a comment at the end. Raises ``FrontmatterError``, also for a ``name`` that is
    none.
    """
    if not is_name(name):
        raise FrontmatterError(f"{name!r} is no name for a skill: {NAME_RULE}")
    inner = _quoted(_inner(skill.frontmatter))
    old = fields_of(inner)
    body = clean_body(skill)
    chosen, notes = _description(old.get("description"), description, body, task)
    if "name" in old and old["name"] != name:
        notes.append(f"the name in the frontmatter was {old['name']!r:.60}; it is now {name!r}")
    new = {**old, "name": name, "description": chosen}
    inner = _with_field(_with_field(inner, "name", name, 0), "description", chosen, 1)
    if fields_of(inner) != new:
        raise FrontmatterError("name and description cannot be set in the frontmatter of the skill; write it plainer")
    eol = skill.line_ending
    text = eol.join(["---", *_lines(inner), "---", "", ""]) + body
    if provenance:
        text += f"{blank_line_after(text, eol)}<!-- {_comment(provenance)} -->{eol}"
    return AgentSkill(name, chosen, encodable(text), tuple(notes))


def clean_body(skill: Skill) -> str:
    """The skill without frontmatter and region markers: a protected region becomes a section, an empty one nothing. It
    begins with a word and ends with one line break; '' for a skill without words."""
    eol = skill.line_ending
    out = ""
    after_region = False
    for segment in skill.segments:
        if segment.kind == "frontmatter":
            continue
        if segment.kind == "body":
            out += _joined(out, segment.text) if after_region else segment.text
            after_region = False
            continue
        inner = "" if segment.kind == "marker" else scrub(segment.text).strip()
        if inner:
            title = "" if inner.startswith("#") else _TITLES[segment.kind] + eol * 2
            out = out.rstrip(" \t")
            out += blank_line_after(out, eol) + title + with_line_ending(inner, eol) + eol * 2
        after_region = True
    out = scrub(out).strip()
    return out + eol if out else ""


def _inner(frontmatter: str) -> str:
    """What stands between the ``---`` lines."""
    return "\n".join(_BREAK.split(frontmatter.strip("\ufeff\r\n"))[1:-1])


def _quoted(inner: str) -> str:
    """``inner``, or where it is no YAML, with quotes around each value that needs them: people forget them."""
    try:
        fields_of(inner)
    except FrontmatterError:
        return "\n".join(map(_quoted_line, _lines(inner)))
    return inner


def _quoted_line(line: str) -> str:
    match = _KEY_AND_VALUE.fullmatch(line)
    if match is None:
        return line
    try:
        fields_of(line)
    except FrontmatterError:
        return f"{match['key']}: {json.dumps(match['value'].rstrip(), ensure_ascii=False)}"
    return line


def _lines(inner: str) -> list[str]:
    return inner.rstrip("\n").split("\n") if inner.strip() else []


def _with_field(inner: str, key: str, value: str, place: int) -> str:
    """``inner`` with ``key: value``, where the key stands or else as line ``place``; all other lines stay."""
    lines = _lines(inner)
    opening = re.compile(rf"(['\"]?){re.escape(key)}\1[ \t]*:(?:\s|$)")
    start = next((number for number, line in enumerate(lines) if opening.match(line)), None)
    if start is None:
        start = end = min(place, len(lines))
    else:
        # What belongs to a value is indented, blank, or the end of a flow collection.
        tail = range(start + 1, len(lines))
        end = next((number for number in tail if re.match(r"[^\s\-\]}]", lines[number])), len(lines))
        if fields_of("\n".join(lines[start:end])).get(key) == value:
            return inner
    return "\n".join([*lines[:start], f"{key}: {_scalar(key, value)}", *lines[end:]])


def _scalar(key: str, value: str) -> str:
    """A YAML value on one line, plain where it can be."""
    try:
        plain = yaml.safe_load(f"{key}: {value}") == {key: value}
    except (yaml.YAMLError, ValueError):
        plain = False
    return value if plain else json.dumps(value, ensure_ascii=False)


def _description(old: Any, given: str, body: str, task: str) -> tuple[str, list[str]]:
    """The description, and what is to say about it."""
    if _fitting(given):
        return _fitting(given), [] if _fitting(given) == given.strip() else [_SHORTENED]
    if old is not None:
        kept = _fitting(str(old))
        if kept:
            return (old, []) if _description_fits(old) else (kept, [_SHORTENED])
    heading = _HEADING.search(body)
    title = _fitting(re.sub(r"[*_`]", "", heading["title"])).rstrip(".:") if heading else ""
    subject = f"{title}." if title.casefold() not in ("", "skill") else "Instructions for a task, found by training."
    use = f"Use for tasks like those of {_fitting(task)}." if _fitting(task) else "Use for the task it was trained on."
    made = _fitting(f"{subject} {use}")
    return made, [f"the description was made up ({made!r}); --description TEXT says better when to use the skill"]


def _description_fits(value: Any) -> bool:
    return isinstance(value, str) and not description_problems(value)


def _fitting(text: str) -> str:
    """``text`` on one line, without angle brackets, cut at a word."""
    plain = "".join(letter if letter.isprintable() else " " for letter in encodable(text))
    words = re.sub(r"[<>]", "", plain).split()
    line = " ".join(words)
    if len(line) <= DESCRIPTION_LIMIT:
        return line
    cut = line[: DESCRIPTION_LIMIT - 1]
    return (cut.rpartition(" ")[0] or cut).rstrip() + "…"


def _joined(out: str, text: str) -> str:
    """The part of ``text`` to add to ``out`` where a region stood between them: no blank lines too many."""
    if out and not out.endswith(("\n", "\r")):
        return text
    text = re.sub(r"\A[ \t]*(?:\r\n|\r|\n)", "", text)
    if not out or not _BREAK.split(out)[-2].strip():
        text = re.sub(r"\A(?:[ \t]*(?:\r\n|\r|\n))+", "", text)
    return text


def _comment(text: str) -> str:
    return re.sub(r"-(?=[->])", "- ", " ".join(scrub(text).split())).rstrip("-")
