"""OpenAI's chat protocol as pure functions: a request to bytes, a response to an answer or a fault."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from skillopt.models.errors import ErrorKind
from skillopt.models.providers import MaxTokensField, Provider
from skillopt.models.types import ModelSpec, Request, Usage

JsonMode = Literal["json_schema", "json_object", "none"]
NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a request has to be written for one model. ``max_completion`` is the most completion tokens it takes."""

    max_tokens_field: MaxTokensField = "max_tokens"
    temperature: bool = True
    reasoning_effort: bool = True
    json_mode: JsonMode = "json_schema"
    max_completion: int | None = None

    @classmethod
    def of(cls, profile: Provider) -> Dialect:
        """The dialect that a provider's row promises."""
        return cls(profile.max_tokens_field, json_mode="json_schema" if profile.json_schema else "none")


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
    """A complete, non-empty reply."""

    text: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Fault:
    """A response that is no reply. ``then`` says what it deserves: ``stop`` is final, ``count`` may pass and is tried
    again a few times, ``wait`` is a rate limit, ``rewrite`` may be how the request was written.

    ``message`` is the server's, ``param`` the request field it names; ``retry_after`` (seconds) is what it asked for;
    ``raw`` the text of an unusable reply.
    """

    kind: ErrorKind
    message: str
    then: Literal["stop", "count", "wait", "rewrite"]
    status: int | None = None
    retry_after: float | None = None
    raw: str = ""
    usage: Usage = NO_USAGE
    param: str = ""


def request_body(
    request: Request, spec: ModelSpec, profile: Provider, dialect: Dialect, room: int | None = None
) -> bytes:
    """The JSON body of ``request`` in ``dialect``; ``room`` bounds its completion tokens further."""
    body: dict[str, Any] = {
        "model": spec.model,
        "messages": [{"role": message.role, "content": message.content} for message in request.messages],
    }
    limits = [limit for limit in (request.max_tokens, dialect.max_completion, room) if limit is not None]
    if request.max_tokens is not None:
        body[dialect.max_tokens_field] = min(limits)
    temperature = spec.temperature if request.temperature is None else request.temperature
    if temperature is not None and dialect.temperature:
        body["temperature"] = temperature
    effort = request.reasoning_effort or spec.reasoning_effort
    if effort and dialect.reasoning_effort:
        body["reasoning_effort"] = effort
    if request.grammar and profile.grammar:  # llama.cpp refuses a grammar and a schema together
        body["grammar"] = request.grammar
    elif request.json_schema is not None and dialect.json_mode != "none":
        body["response_format"] = _response_format(request.json_schema, dialect.json_mode)
    body.update(spec.parameters)
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")  # a lone surrogate has no bytes: it becomes "?"


def _response_format(schema: Mapping[str, Any], mode: JsonMode) -> dict[str, Any]:
    if mode == "json_object":
        return {"type": "json_object"}
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", str(schema.get("title") or "reply"))[:64]
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": dict(schema), "strict": strict_ready(schema)},
    }


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


def read_completion(body: Any, request: Request) -> Answered | Fault:
    """Reads the parsed body of a response with status 200."""
    choice = body["choices"][0] if isinstance(body, dict) and _has_choice(body) else None
    if choice is None or not isinstance(message := choice.get("message"), dict):
        return Fault("provider", "the response holds no message", "count", 200, raw=_clip(body))
    text = strip_thoughts(_text_of(message.get("content")))
    usage = usage_of(body.get("usage"), request, text)
    finish = choice.get("finish_reason")
    if finish in ("content_filter", "refusal", "safety") or (message.get("refusal") and not text.strip()):
        said = str(message.get("refusal") or "") or "the provider's content filter stopped the reply"
        return Fault("refused", said, "stop", 200, raw=text, usage=usage)
    if finish in ("length", "max_tokens", "model_length"):
        said = f"the reply was cut at {usage.completion_tokens} completion tokens"
        return Fault("truncated", said, "count", 200, raw=text, usage=usage)
    if not text.strip():
        return Fault("empty", "the reply is empty", "count", 200, usage=usage)
    return Answered(text, usage)


def _has_choice(body: dict[str, Any]) -> bool:
    choices = body.get("choices")
    return isinstance(choices, list) and bool(choices) and isinstance(choices[0], dict)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):  # parts, as some gateways write it
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return ""


def _clip(body: Any) -> str:
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


def usage_of(usage: Any, request: Request, text: str) -> Usage:
    """Tokens of a response. What the server does not tell is estimated (4 characters a token): a token cap has to hold
    there too, and 0 would disable it."""
    told = usage if isinstance(usage, dict) else {}
    prompt, completion = _count(told.get("prompt_tokens")), _count(told.get("completion_tokens"))
    if prompt is None:
        prompt = sum(len(message.content) for message in request.messages) // 4 + 1
    if completion is None:
        completion = (len(text) + 3) // 4
    cached = _count(_inner(told, "prompt_tokens_details", "cached_tokens"))
    if cached is None:
        cached = _count(told.get("prompt_cache_hit_tokens"))
    reasoning = _count(_inner(told, "completion_tokens_details", "reasoning_tokens"))
    return Usage(prompt, completion, min(cached or 0, prompt), min(reasoning or 0, completion))


def _inner(told: dict[str, Any], group: str, name: str) -> Any:
    details = told.get(group)
    return details.get(name) if isinstance(details, dict) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
