"""What a refused request teaches about the way to write the next one. Pure: no clock, no I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from skillopt.models.profile import MaxTokensField
from skillopt.models.wire import Dialect, Fault, JsonMode

_TOO_MUCH = re.compile(
    r"(?:at most|less than or equal to|must be <=|maximum (?:value )?(?:of|is|for \S+ is)|\[\s*\d+\s*,"
    r"|max_tokens: \d+ >)[\s`']*(\d+)",
    re.IGNORECASE,
)
_LIMIT = re.compile(r"max_(?:completion_|output_)?tokens|completion tokens")
_REFUSAL = re.compile(
    r"support|unrecogni[sz]ed|unknown|unexpected|unavailable|extra|not (?:permitted|allowed)|invalid|must contain"
    r"|does not|refused|deprecated",
    re.IGNORECASE,
)
_OTHER_FIELD: Mapping[MaxTokensField, MaxTokensField] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
_WEAKER: Mapping[tuple[str, JsonMode], JsonMode] = {
    ("chat", "json_schema"): "json_object",
    ("responses", "json_schema"): "json_object",
}


@dataclass(frozen=True, slots=True)
class _Lesson:
    """What to give up when an error's words match ``said`` and the request held one of the fields ``sent``."""

    said: re.Pattern[str]
    sent: tuple[str, ...]
    then: Callable[[Dialect], Dialect]


_LESSONS = (
    _Lesson(re.compile("temperature"), ("temperature",), lambda spoken: replace(spoken, temperature=False)),
    _Lesson(
        re.compile(r"(?:reasoning|output_config)[_. ]?effort|effort parameter"),
        ("reasoning_effort", "effort"),
        lambda spoken: replace(spoken, reasoning_effort=False),
    ),
    _Lesson(
        re.compile(
            r"response_format|json_schema|json_object|guided|grammar|text\.format|output_(?:config|format)|[Ss]tructured"
        ),
        ("response_format", "format"),
        lambda spoken: replace(spoken, json_mode=_WEAKER.get((spoken.protocol, spoken.json_mode), "none")),
    ),
    _Lesson(
        re.compile(r"output_config|reasoning"), ("effort",), lambda spoken: replace(spoken, reasoning_effort=False)
    ),
)


def learn(dialect: Dialect, sent: bytes, fault: Fault) -> Dialect | None:
    """The dialect that a fault of a request in ``dialect`` suggests, or None when it is about something else.

    ``sent`` is the refused body: only what it holds can be at fault.
    """
    said = f"{fault.param} {fault.message}"
    if _LIMIT.search(said) and (bound := _TOO_MUCH.search(said)):
        limit = int(bound[1])
        return replace(dialect, max_completion=limit) if 0 < limit < (dialect.max_completion or 1 << 60) else None
    if fault.kind == "context_overflow" or not (_REFUSAL.search(said) or fault.param):
        return None
    field_ = dialect.max_tokens_field
    if dialect.protocol == "chat" and _names(field_, said) and _holds(field_, sent):
        return replace(dialect, max_tokens_field=_OTHER_FIELD[field_])
    for lesson in _LESSONS:
        if lesson.said.search(said) and any(_holds(name, sent) for name in lesson.sent):
            learnt = lesson.then(dialect)
            return learnt if learnt != dialect else None
    return None


def _names(parameter: str, said: str) -> bool:
    return re.search(rf"(?<![a-z_]){parameter}(?![a-z_])", said) is not None


def _holds(parameter: str, sent: bytes) -> bool:
    return f'"{parameter}":'.encode() in sent


_WINDOW = re.compile(r"context (?:length|window|size)\D{0,40}?(\d+)", re.IGNORECASE)
_INPUT = re.compile(
    r"(\d+) (?:tokens )?(?:in|from) the (?:messages|input|prompt)|(\d+) (?:input|prompt) tokens", re.IGNORECASE
)
_SUM = re.compile(r"(\d+) \+ \d+ > (\d+)")  # prompt + completion > window, as Anthropic writes it


def completion_room(said: str, least: int = 64) -> int | None:
    """How many completion tokens a context window still has room for, where an error about its length tells: then a
    smaller ``max_tokens`` helps. None when it does not tell, or when fewer than ``least`` are left."""
    window, prompt, total = _WINDOW.search(said), _INPUT.search(said), _SUM.search(said)
    if total:
        room = int(total[2]) - int(total[1])
    elif window and prompt:
        room = int(window[1]) - int(prompt[1] or prompt[2])
    else:
        return None
    return room if room >= least else None
