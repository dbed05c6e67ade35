"""The Agent Skills format (agentskills.io) and its check. Pure.

A ``SKILL.md`` is a YAML frontmatter with ``name`` and ``description``, then Markdown. It lies in a folder that has the
name of the skill.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from skillopt.skill.document import MARKERS, with_line_ending

FILE_NAME = "SKILL.md"
NAME_LIMIT = 64
DESCRIPTION_LIMIT = 1024
NAME_RULE = f"lowercase letters, digits and single hyphens between them, at most {NAME_LIMIT} characters"

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_RESERVED = ("anthropic", "claude")
_COMPATIBILITY_LIMIT = 500
_FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_BODY_LINES = 500
_BODY_TOKENS = 5000
_CHARACTERS_PER_TOKEN = 4
_SPLIT = "the whole body is read each time; move details into files beside it"
_FENCED = re.compile(r"\ufeff?---[ \t]*\n(?P<inner>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


class FrontmatterError(ValueError):
    """A frontmatter that is no YAML mapping; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that the format forbids (``error``) or advises against (``warning``)."""

    level: Literal["error", "warning"]
    message: str


class _Loader(yaml.SafeLoader):
    """YAML without aliases: nothing in a frontmatter needs them, and nested ones grow beyond any memory."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)


def is_name(text: str) -> bool:
    """Whether ``text`` may be the name of a skill."""
    return len(text) <= NAME_LIMIT and _NAME.fullmatch(text) is not None


def slug(text: str) -> str:
    """The name that is nearest to ``text``; '' when nothing of it can stand in a name."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:NAME_LIMIT].rstrip("-")


def fields_of(inner: str) -> dict[str, Any]:
    """The fields of a frontmatter, given without its ``---`` lines. Raises ``FrontmatterError``."""
    try:
        value = yaml.load(inner, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 2}" if mark is not None else ""
        what = getattr(error, "problem", None) or str(error)
        raise FrontmatterError(f"the frontmatter is not valid YAML{where}: {what}; quote values with : or #") from None
    except (RecursionError, ValueError):  # an absurd date, a thousand brackets
        raise FrontmatterError("the frontmatter is not valid YAML: it holds a value that cannot be read") from None
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise FrontmatterError("the frontmatter is not a mapping of names to values")
    return value


def check_skill(text: str, folder: str | None = None) -> tuple[Problem, ...]:
    """What is wrong with the text of a ``SKILL.md`` that lies in a folder of the name ``folder`` (None: not asked)."""
    text = with_line_ending(text, "\n")
    match = _FENCED.match(text)
    if match is None:
        return (Problem("error", "it has no frontmatter: it must begin with name and description between --- lines"),)
    problems = []
    if text.startswith("\ufeff"):
        problems.append(Problem("warning", "it begins with a byte order mark, behind which tools miss the frontmatter"))
    try:
        fields = fields_of(match["inner"])
    except FrontmatterError as error:
        return (*problems, Problem("error", str(error)))
    problems += (
        _name_problems(fields, folder) + description_problems(fields.get("description")) + _other_problems(fields)
    )
    return tuple(problems + _body_problems(text[match.end() :]))


def description_problems(text: object) -> list[Problem]:
    """What is wrong with the value of ``description`` (None: there is none)."""
    if text is None or (isinstance(text, str) and not text.strip()):
        return [Problem("error", "description is missing: it says what the skill does and when to use it")]
    if not isinstance(text, str):
        return [Problem("error", f"description must be text, got {text!r:.60}")]
    found = []
    if len(text) > DESCRIPTION_LIMIT:
        found.append(Problem("error", f"description has {len(text):,} characters; {DESCRIPTION_LIMIT} are allowed"))
    if "<" in text or ">" in text:
        found.append(Problem("error", "description holds an angle bracket"))
    return found


def _name_problems(fields: Mapping[str, Any], folder: str | None) -> list[Problem]:
    name = fields.get("name")
    if not isinstance(name, str) or not name:
        what = "name is missing" if name in (None, "") else f"name must be text, got {name!r:.60}"
        return [Problem("error", f"{what}: {NAME_RULE}")]
    found = []
    if not is_name(name):
        nearest = slug(name)
        hint = f"; {nearest!r} would do" if nearest else ""
        found.append(Problem("error", f"name {name!r}: it takes {NAME_RULE}{hint}"))
    if folder is not None and folder != name:
        found.append(Problem("error", f"name is {name!r}, but the folder is called {folder!r}: they must be the same"))
    found += [
        Problem("warning", f"name holds {word!r}, which Anthropic reserves") for word in _RESERVED if word in name
    ]
    return found


def _other_problems(fields: Mapping[str, Any]) -> list[Problem]:
    found = []
    for key in ("license", "compatibility"):
        if key in fields and not (isinstance(fields[key], str) and fields[key].strip()):
            found.append(Problem("error", f"{key} must be text; leave it out when there is nothing to say"))
    compatibility = fields.get("compatibility")
    if isinstance(compatibility, str) and len(compatibility) > _COMPATIBILITY_LIMIT:
        found.append(
            Problem("error", f"compatibility has {len(compatibility):,} characters; {_COMPATIBILITY_LIMIT} are allowed")
        )
    metadata = fields.get("metadata", {})
    if not isinstance(metadata, dict):
        found.append(Problem("error", "metadata must be a mapping of names to text"))
    else:
        odd = [key for key, value in metadata.items() if not isinstance(key, str) or not isinstance(value, str)]
        found += [Problem("warning", f"metadata: {key} is not text; quote it") for key in odd]
    tools = fields.get("allowed-tools", "")
    if not isinstance(tools, str):
        level: Literal["error", "warning"] = "warning" if isinstance(tools, list) else "error"
        found.append(Problem(level, "allowed-tools must be text: names of tools with spaces between them"))
    unknown = [key for key in fields if key not in _FIELDS]
    found += [Problem("warning", f"{key} is no field of the format; tools may refuse or ignore it") for key in unknown]
    return found


def _body_problems(body: str) -> list[Problem]:
    if not body.strip():
        return [Problem("warning", "there are no instructions below the frontmatter")]
    found = []
    lines = body.strip().count("\n") + 1
    tokens = len(body) // _CHARACTERS_PER_TOKEN
    if lines > _BODY_LINES:
        found.append(Problem("warning", f"the body has {lines:,} lines; {_BODY_LINES} are advised: {_SPLIT}"))
    if tokens > _BODY_TOKENS:
        found.append(
            Problem("warning", f"the body has about {tokens:,} tokens; {_BODY_TOKENS:,} are advised: {_SPLIT}")
        )
    found += [Problem("warning", f"it holds a marker of SkillOpt: {mark}") for mark in MARKERS if mark in body]
    return found
