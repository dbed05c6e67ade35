"""Replies of a given shape: parsed strictly, asked again once when they are not, never shortened in silence."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from skillopt.models.errors import ModelError
from skillopt.models.types import ChatModel, Message, Request

T = TypeVar("T", bound=BaseModel)

QUOTED_CHARS = 4000
"""How much of a bad reply the second question shows to its author, in characters."""


@dataclass(frozen=True, slots=True)
class Structured(Generic[T]):
    """A validated reply. ``repaired`` says that its JSON was not
    valid as it came; ``reasked`` that the first reply could not be used."""

    value: T
    repaired: bool = False
    reasked: bool = False


@dataclass(frozen=True, slots=True)
class Parsed:
    """A JSON object out of a reply, and whether it took more than cutting off what stood around it."""

    value: dict[str, Any]
    repaired: bool = False


class ReplyError(ValueError):
    """A reply without exactly one JSON object. The message says what is wrong in words for its author."""


@cache
def _schema(reply_type: type[BaseModel]) -> dict[str, Any]:
    return reply_type.model_json_schema()


async def ask(model: ChatModel, request: Request, reply_type: type[T]) -> Structured[T]:
    """One reply of shape ``reply_type``; the model is asked a second time when the first reply cannot be used.

    Raises ``ModelError`` (``invalid_output`` with the second reply as ``raw``, when that cannot be used either).
    """
    if request.json_schema is None:
        request = replace(request, json_schema=_schema(reply_type))
    first = await model.complete(request)
    try:
        value, repaired = _read(first.text, reply_type, allow_repair=False)
        return Structured(value, repaired)
    except ReplyError as error:
        again = _again(request, first.text, str(error))
    second = await model.complete(again)
    try:
        value, repaired = _read(second.text, reply_type, allow_repair=True)
    except ReplyError as error:
        raise ModelError("invalid_output", f"the reply was unusable twice; {error}", raw=second.text) from None
    return Structured(value, repaired, reasked=True)


def parse_json_reply(text: str, allow_repair: bool = False) -> Parsed:
    """The one JSON object that ``text`` holds, alone, in a fence or in prose.

    A trailing comma and a raw line break in a string are forgiven: both lose nothing. ``allow_repair`` also mends what
    is cut or otherwise broken, which can lose content. Raises ``ReplyError``: no object, a list, two different
    objects, or a broken one.
    """
    whole = _loads(text.strip().removeprefix("\ufeff"))
    if whole is not None and isinstance(whole.value, dict):
        return Parsed(whole.value, whole.repaired)
    if whole is not None and isinstance(whole.value, list):
        raise ReplyError("the reply is a JSON list, but a JSON object is due")
    spans, cut = _top_level(text)
    try:
        return _single(text, spans, cut)
    except ReplyError:
        mended = _repair(text, spans, cut) if allow_repair else None
        if mended is None:
            raise
        return Parsed(mended, repaired=True)


def _single(text: str, spans: list[tuple[int, int]], cut: int | None) -> Parsed:
    if cut is not None:
        line = text.count("\n", 0, cut) + 1
        raise ReplyError(f"the JSON that starts in line {line} is cut or unbalanced: it never closes")
    found: list[_Loaded] = []
    for start, end in spans:
        loaded = _loads(text[start:end])
        if loaded is None:
            raise ReplyError(f"the JSON is not valid: {_complaint(text[start:end])}")
        if isinstance(loaded.value, list):
            raise ReplyError("the reply holds a JSON list, but a JSON object is due")
        if all(loaded.value != other.value for other in found):
            found.append(loaded)
    if not found:
        raise ReplyError("the reply holds no JSON object")
    if len(found) > 1:
        raise ReplyError(f"the reply holds {len(found)} different JSON objects, but exactly one is due")
    return Parsed(found[0].value, found[0].repaired)


@dataclass(frozen=True, slots=True)
class _Loaded:
    value: Any
    repaired: bool


def _loads(text: str) -> _Loaded | None:
    """``text`` as JSON, with what may be forgiven; None when it is not JSON."""
    for candidate, strict in ((text, True), (_without_trailing_commas(text), False)):
        try:
            return _Loaded(json.loads(candidate, strict=strict, parse_constant=_no_constant), repaired=not strict)
        except (ValueError, RecursionError):
            continue
    return None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_MENDABLE_CHARS = 200_000
"""Mending takes a time that grows with the square of the length."""
_STRING_OR_COMMA = re.compile(r'("(?:[^"\\]|\\.)*(?:"|\Z))|,(?=\s*[}\]])', re.DOTALL)


def _without_trailing_commas(text: str) -> str:
    return _STRING_OR_COMMA.sub(lambda match: match[1] or "", text)


def _complaint(text: str) -> str:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 30) : error.pos + 30]
        return f"{error.msg} at line {error.lineno}, column {error.colno}, near {near!r}"
    except (ValueError, RecursionError) as error:
        return str(error)
    return "it holds NaN or Infinity"


_OPENING = re.compile(r'\{(?=\s*["}\'])|\[(?=\s*\{)')
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|["{}\[\]]', re.DOTALL)


def _top_level(text: str) -> tuple[list[tuple[int, int]], int | None]:
    """The spans of the top-level JSON values in ``text``, and where one starts that never closes (None: all close).

    Only a bracket that opens as JSON does counts: prose has brackets of its own. Empty ones are prose too, unless there
    is nothing else. Brackets within strings are not counted.
    """
    spans: list[tuple[int, int]] = []
    at = 0
    while match := _OPENING.search(text, at):
        end = _closing(text, match.start())
        if end is None:
            return spans, match.start()
        spans.append((match.start(), end))
        at = end
    full = [(start, end) for start, end in spans if text[start + 1 : end - 1].strip()]
    return full or spans[:1], None


def _closing(text: str, start: int) -> int | None:
    depth = 0
    for match in _TOKEN.finditer(text, start):
        token = match[0]
        if token in "{[":
            depth += 1
        elif token in "}]":
            depth -= 1
            if depth == 0:
                return match.end()
        elif token == '"':  # a string that never ends
            return None
    return None


def _repair(text: str, spans: list[tuple[int, int]], cut: int | None) -> dict[str, Any] | None:
    """What ``json_repair`` makes of the only broken object there is; None when there is more than one, or none."""
    import json_repair  # a tenth of a second that only a broken reply should cost

    if cut is not None and not spans:
        broken = text[cut:].removesuffix("```")
    elif cut is None and len(spans) == 1:
        broken = text[spans[0][0] : spans[0][1]]
    else:
        return None
    if len(broken) > _MENDABLE_CHARS:
        return None
    try:
        mended = json_repair.loads(broken)
    except (ValueError, RecursionError):
        return None
    return mended if isinstance(mended, dict) and mended else None


def _read(text: str, reply_type: type[T], *, allow_repair: bool) -> tuple[T, bool]:
    parsed = parse_json_reply(text, allow_repair)
    try:
        return reply_type.model_validate(parsed.value), parsed.repaired
    except ValidationError as error:
        raise ReplyError(_in_words(error)) from None


def _in_words(error: ValidationError) -> str:
    """The first thing that is wrong: where, what, and what was found there."""
    first = error.errors(include_url=False)[0]
    where = ""
    for part in first["loc"]:
        where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else str(part)
    found = repr(first["input"])
    got = "" if first["type"] == "missing" else f" (found: {found[:80] + '…' if len(found) > 80 else found})"
    more = f"; {error.error_count() - 1} more" if error.error_count() > 1 else ""
    return f'"{where}": {first["msg"]}{got}{more}' if where else f"{first['msg']}{got}{more}"


def _again(request: Request, bad: str, error: str) -> Request:
    if len(bad) > QUOTED_CHARS:
        half = QUOTED_CHARS // 2
        bad = f"{bad[:half]}\n[… {len(bad) - 2 * half} characters left out …]\n{bad[-half:]}"
    demand = (
        f"That reply cannot be used: {error}.\n"
        "Send the whole answer again, as exactly one complete and valid JSON object of the shape asked for, "
        "with nothing before or after it. Leave nothing out."
    )
    return replace(request, messages=(*request.messages, Message("assistant", bad), Message("user", demand)))
