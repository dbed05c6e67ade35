"""A skill as other agents read it: a ``SKILL.md`` of the Agent Skills format (agentskills.io), made and checked. Pure.

The format: a YAML frontmatter with ``name`` and ``description``, then Markdown. The file is called ``SKILL.md`` and
lies in a folder of the skill's name.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from skillopt.skill import APPENDIX_END, APPENDIX_START, GUIDANCE_END, GUIDANCE_START, Skill
from skillopt.skill.document import SegmentKind, blank_line_after, encodable, scrub, with_line_ending

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
_BREAK = re.compile(r"\r\n|\r|\n")
_FENCED = re.compile(r"\ufeff?---[ \t]*\n(?P<inner>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY_AND_VALUE = re.compile(r"(?P<key>[^\s#:'\"-][^:]*):[ \t]+(?P<value>\S.*)")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(?P<title>.+?)[ \t]*#*[ \t]*$", re.MULTILINE)
_TITLES: Mapping[SegmentKind, str] = {"guidance": "## General guidance", "appendix": "## Execution notes"}
_MARKERS = (GUIDANCE_START, GUIDANCE_END, APPENDIX_START, APPENDIX_END)


class FrontmatterError(ValueError):
    """A frontmatter that is no YAML mapping; the message says what is wrong."""


class _Loader(yaml.SafeLoader):
    """YAML without aliases: nothing in a frontmatter needs them, and nested ones grow beyond any memory."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that the format forbids (``error``) or advises against (``warning``)."""

    level: Literal["error", "warning"]
    message: str


@dataclass(frozen=True, slots=True)
class AgentSkill:
    """A finished ``SKILL.md``. ``notes`` are sentences about what was made up or changed."""

    name: str
    description: str
    text: str
    notes: tuple[str, ...]


def is_name(text: str) -> bool:
    """Whether ``text`` may be the name of a skill."""
    return len(text) <= NAME_LIMIT and _NAME.fullmatch(text) is not None


def slug(text: str) -> str:
    """The name that is nearest to ``text``; '' when nothing of it can stand in a name."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:NAME_LIMIT].rstrip("-")


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
    problems += _name_problems(fields, folder) + _description_problems(fields) + _other_problems(fields)
    return tuple(problems + _body_problems(text[match.end() :]))


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


_SHORTENED = f"the description was made to fit: one line, no angle brackets, at most {DESCRIPTION_LIMIT} characters"


def _description_fits(value: Any) -> bool:
    return isinstance(value, str) and not _description_problems({"description": value})


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


def _description_problems(fields: Mapping[str, Any]) -> list[Problem]:
    text = fields.get("description")
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
    lines = len(_BREAK.split(body.strip()))
    tokens = len(body) // _CHARACTERS_PER_TOKEN
    if lines > _BODY_LINES:
        found.append(Problem("warning", f"the body has {lines:,} lines; {_BODY_LINES} are advised: {_SPLIT}"))
    if tokens > _BODY_TOKENS:
        found.append(
            Problem("warning", f"the body has about {tokens:,} tokens; {_BODY_TOKENS:,} are advised: {_SPLIT}")
        )
    found += [Problem("warning", f"it holds a marker of SkillOpt: {mark}") for mark in _MARKERS if mark in body]
    return found


_SPLIT = "the whole body is read each time; move details into files beside it"


def provenance_of(
    name: str, config: Mapping[str, Any], summary: Mapping[str, Any], pointers: Mapping[str, Any], date: str
) -> str:
    """Where a skill comes from, in a sentence: the run, its step, its scores, its date ('' when nobody knows)."""
    version = str(summary.get("version") or "").removeprefix("skillopt-")
    step = pointers.get("best_step", summary.get("best_step"))
    parts: list[str] = [f"run {name}"]
    if isinstance(step, int):
        parts.append(f"step {step}" if step else "the first skill")
    if config.get("env"):
        parts.append(f"trained on {config['env']}")
    validation = _change(summary.get("baseline_selection_hard"), pointers.get("best_score"))
    parts += [f"validation {validation}"] if validation else []
    test = _change(summary.get("baseline_test_hard"), summary.get("test_hard"))
    parts += [f"test {test}"] if test else []
    parts += [date] if date else []
    return f"Trained with SkillOpt{' ' + version if version else ''}: {', '.join(parts)}."


def _change(before: Any, after: Any) -> str:
    numbers: Sequence[Any] = (before, after)
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in numbers):
        return ""
    return f"{before:.4f} to {after:.4f}"
