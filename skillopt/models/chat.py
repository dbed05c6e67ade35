"""OpenAI's chat protocol as pure functions: a request to bytes, a response to an answer or a fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skillopt.models.types import Message, ModelSpec, Request, ToolCall
from skillopt.models.wire import (
    Answered,
    Dialect,
    Fault,
    JsonMode,
    clip,
    data_url,
    effort_of,
    function_of,
    json_text,
    named_schema,
    strip_thoughts,
    temperature_of,
    to_bytes,
    usage_of,
)


def request_body(request: Request, spec: ModelSpec, dialect: Dialect, room: int | None = None) -> bytes:
    """The JSON body of ``request`` in ``dialect``; ``room`` bounds its completion tokens further."""
    body: dict[str, Any] = {
        "model": spec.model,
        "messages": [
            _rich_message(message)
            if message.images or message.tool_calls or message.tool_call_id
            else {"role": message.role, "content": message.content}
            for message in request.messages
        ],
    }
    limit = dialect.completion_limit(request, room)
    if limit is not None:
        body[dialect.max_tokens_field] = limit
    temperature = temperature_of(request, spec)
    if temperature is not None and dialect.temperature:
        body["temperature"] = temperature
    effort = effort_of(request, spec)
    if effort and dialect.reasoning_effort:
        body["reasoning_effort"] = effort
    if request.grammar and dialect.grammar:  # llama.cpp refuses a grammar and a schema together
        body["grammar"] = request.grammar
    elif request.json_schema is not None and dialect.json_mode != "none":
        body["response_format"] = _response_format(request.json_schema, dialect.json_mode)
    if request.tools:
        body["tools"] = [{"type": "function", "function": function_of(tool)} for tool in request.tools]
        if request.tool_choice != "auto":
            body["tool_choice"] = _tool_choice(request.tool_choice)
    body.update(spec.parameters)
    return to_bytes(body)


def _rich_message(message: Message) -> dict[str, Any]:
    """A message with a tool's result, with tool calls, or with images."""
    if message.tool_call_id:
        return {"role": message.role, "tool_call_id": message.tool_call_id, "content": message.content}
    if message.tool_calls:
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
        return {"role": message.role, "content": message.content or None, "tool_calls": calls}
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": data_url(image)}} for image in message.images
    ]
    if message.content:
        parts.append({"type": "text", "text": message.content})
    return {"role": message.role, "content": parts}


def _tool_choice(choice: str) -> str | dict[str, Any]:
    return choice if choice in ("required", "none") else {"type": "function", "function": {"name": choice}}


def _response_format(schema: Mapping[str, Any], mode: JsonMode) -> dict[str, Any]:
    if mode == "json_object":
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": named_schema(schema)}


def read_completion(body: Any, request: Request) -> Answered | Fault:
    """Reads the parsed body of a response with status 200."""
    choice = body["choices"][0] if isinstance(body, dict) and _has_choice(body) else None
    if choice is None or not isinstance(message := choice.get("message"), dict):
        return Fault("provider", "the response holds no message", "count", 200, raw=clip(body))
    text = strip_thoughts(_text_of(message.get("content")))
    calls = _calls_of(message.get("tool_calls")) if request.tools else ()
    usage = usage_of(body.get("usage"), request, text, calls)
    finish = choice.get("finish_reason")
    if finish in ("content_filter", "refusal", "safety") or (message.get("refusal") and not text.strip()):
        said = str(message.get("refusal") or "") or "the provider's content filter stopped the reply"
        return Fault("refused", said, "stop", 200, raw=text, usage=usage)
    if finish in ("length", "max_tokens", "model_length"):
        said = f"the reply was cut at {usage.completion_tokens} completion tokens"
        return Fault("truncated", said, "count", 200, raw=text, usage=usage)
    if not text.strip() and not calls:
        return Fault("empty", "the reply is empty", "count", 200, usage=usage)
    return Answered(text, usage, calls)


def _has_choice(body: dict[str, Any]) -> bool:
    choices = body.get("choices")
    return isinstance(choices, list) and bool(choices) and isinstance(choices[0], dict)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):  # parts, as some gateways write it
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return ""


def _calls_of(told: Any) -> tuple[ToolCall, ...]:
    """Tool calls of a message. Some servers give no id: the place of a call stands for it."""
    calls = []
    for place, call in enumerate(told if isinstance(told, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(name := function.get("name"), str) and name:
            calls.append(ToolCall(str(call.get("id") or f"call_{place}"), name, json_text(function.get("arguments"))))
    return tuple(calls)
