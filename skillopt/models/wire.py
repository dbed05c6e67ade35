"""What all protocols have in common: dialects, answers, faults, and the parts that requests and replies are made of."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from skillopt.models.errors import About, ErrorKind
from skillopt.models.profile import MaxTokensField, Provider
from skillopt.models.profile import Protocol as ProtocolName
from skillopt.models.types import Image, ModelSpec, Request, Tool, ToolCall, Usage

JsonMode = Literal["json_schema", "json_object", "none"]
NO_USAGE = Usage()
MOST_TOKENS = 10**12
"""No request has so many: a server that says so has not counted."""
IMAGE_CHARS = 4000
"""What an image counts as, where the server does not tell how many tokens it took: about 1000 tokens."""
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a request has to be written for one model. ``max_completion`` is the most completion tokens it takes."""

    max_tokens_field: MaxTokensField = "max_tokens"
    temperature: bool = True
    reasoning_effort: bool = True
    json_mode: JsonMode = "json_schema"
    max_completion: int | None = None
    protocol: ProtocolName = "chat"
    grammar: bool = False

    @classmethod
    def of(cls, profile: Provider, max_completion: int | None = None) -> Dialect:
        """The dialect that a provider's row promises, with the user's cap on completion tokens if there is one."""
        return cls(
            profile.max_tokens_field,
            reasoning_effort=profile.reasoning_effort,
            json_mode="json_schema" if profile.json_schema else "none",
            max_completion=max_completion,
            protocol=profile.protocol,
            grammar=profile.grammar,
        )

    def completion_limit(self, request: Request, room: int | None) -> int | None:
        """The most completion tokens to ask for: the least of what is wanted, taken, and left in the window."""
        return min(
            (limit for limit in (request.max_tokens, self.max_completion, room) if limit is not None), default=None
        )


def adaptations(asked: Dialect, spoken: Dialect) -> tuple[str, ...]:
    """What ``spoken`` gives up of ``asked``, in words for the user."""
    words = {
        "temperature is not sent: the server refuses it": asked.temperature and not spoken.temperature,
        "reasoning_effort is not sent: the server refuses it": asked.reasoning_effort and not spoken.reasoning_effort,
        f"JSON replies are asked for with {spoken.json_mode}": asked.json_mode != spoken.json_mode,
        f"replies have at most {spoken.max_completion} tokens": asked.max_completion != spoken.max_completion,
    }
    return tuple(text for text, given_up in words.items() if given_up)


@dataclass(frozen=True, slots=True)
class Answered:
    """A complete reply: it has a text or asks for tool calls."""

    text: str
    usage: Usage
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """A response that is no reply. ``then`` says what it deserves: ``stop`` is final, ``count`` may pass and is tried
    again a few times, ``wait`` is a rate limit, ``rewrite`` may be how the request was written.

    ``message`` is the server's, ``param`` the request field it names; ``retry_after`` (seconds) is what it asked for;
    ``raw`` the text of an unusable reply; ``about`` as in ``ModelError``.
    """

    kind: ErrorKind
    message: str
    then: Literal["stop", "count", "wait", "rewrite"]
    status: int | None = None
    retry_after: float | None = None
    raw: str = ""
    usage: Usage = NO_USAGE
    param: str = ""
    about: About = ""


def temperature_of(request: Request, spec: ModelSpec) -> float | None:
    """The temperature of one call: its own, else the model's."""
    return spec.temperature if request.temperature is None else request.temperature


def effort_of(request: Request, spec: ModelSpec) -> str | None:
    """The reasoning effort of one call: its own, else the model's."""
    return request.reasoning_effort or spec.reasoning_effort


def to_bytes(body: Mapping[str, Any]) -> bytes:
    """The JSON text of a request. A lone surrogate has no bytes: it becomes "?"."""
    return _ENCODE(body).encode("utf-8", "replace")


def base64_of(image: Image) -> str:
    """The bytes of ``image`` as ASCII."""
    return base64.b64encode(image.data).decode("ascii")


def data_url(image: Image) -> str:
    """``image`` as a URL that holds it."""
    return f"data:{image.media_type};base64,{base64_of(image)}"


def function_of(tool: Tool) -> dict[str, Any]:
    """A tool as OpenAI's protocols describe a function."""
    return {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}


def named_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as OpenAI's protocols take it: with a name, and strict where it may be."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", str(schema.get("title") or "reply"))[:64]
    return {"name": name, "schema": dict(schema), "strict": strict_ready(schema)}


def strict_ready(schema: Any) -> bool:
    """Whether OpenAI's strict mode would take ``schema``: each object closed, and all of its properties required."""
    if isinstance(schema, list):
        return all(map(strict_ready, schema))
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, Mapping):
        names = set(properties or ())
        if schema.get("additionalProperties") is not False or set(schema.get("required") or ()) != names:
            return False
    nested = [
        value for key, value in schema.items() if key not in ("properties", "$defs", "required", "enum", "default")
    ]
    tables = [table.values() for key in ("properties", "$defs") if isinstance(table := schema.get(key), Mapping)]
    return "default" not in schema and strict_ready(nested) and all(strict_ready(list(table)) for table in tables)


def json_text(arguments: Any) -> str:
    """Arguments of a call as JSON text, also where a server sends them parsed or leaves them out."""
    if isinstance(arguments, str):
        return arguments or "{}"
    return json.dumps({} if arguments is None else arguments, ensure_ascii=False)


def clip(body: Any) -> str:
    return str(body)[:500]


_THOUGHT = re.compile(r"\s*<think>.*?(?:</think>\s*|\Z)", re.DOTALL)


def strip_thoughts(text: str) -> str:
    """``text`` without the thinking that some servers leave before the answer: ``<think>…</think>``, an unclosed
    ``<think>`` (all of it is thinking), or an end tag whose start stood in the prompt."""
    if "think>" not in text:
        return text
    rest = text
    while match := _THOUGHT.match(rest):
        rest = rest[match.end() :]
    if rest is text and "</think>" in rest and not rest.lstrip().startswith(("{", "[", "```")):
        thought, _, answer = rest.partition("</think>")
        if "<think>" not in thought:
            rest = answer.lstrip()
    return rest


def usage_of(usage: Any, request: Request, text: str, calls: tuple[ToolCall, ...] = ()) -> Usage:
    """Tokens of a response. What the server does not tell is estimated (4 characters a token): a token cap has to hold
    there too, and 0 would disable it."""
    told = usage if isinstance(usage, dict) else {}
    prompt, completion = count(told.get("prompt_tokens")), count(told.get("completion_tokens"))
    if prompt is None:
        prompt = sum(len(message.content) + IMAGE_CHARS * len(message.images) for message in request.messages) // 4 + 1
    if completion is None:
        completion = (len(text) + sum(len(call.name) + len(call.arguments) for call in calls) + 3) // 4
    cached = count(_inner(told, "prompt_tokens_details", "cached_tokens"))
    if cached is None:
        cached = count(told.get("prompt_cache_hit_tokens"))
    reasoning = count(_inner(told, "completion_tokens_details", "reasoning_tokens"))
    cached = min(cached or 0, prompt)
    written = count(_inner(told, "prompt_tokens_details", "cache_write_tokens"))
    return Usage(prompt, completion, cached, min(reasoning or 0, completion), min(written or 0, prompt - cached))


def _inner(told: dict[str, Any], group: str, name: str) -> Any:
    details = told.get(group)
    return details.get(name) if isinstance(details, dict) else None


def count(value: Any) -> int | None:
    """A number of tokens, or None for anything that is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS else None
