"""OpenAI's Responses API as pure functions: a request to bytes, a response to an answer or a fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skillopt.models.types import Message, ModelSpec, Request, Tool, ToolCall
from skillopt.models.wire import (
    Answered,
    Dialect,
    Fault,
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

_LEAST_OUTPUT = 16
"""The API refuses to be asked for fewer tokens."""


def request_body(request: Request, spec: ModelSpec, dialect: Dialect, room: int | None = None) -> bytes:
    """The JSON body of ``request`` in ``dialect``; ``room`` bounds its completion tokens further."""
    instructions = "\n\n".join(message.content for message in request.messages if message.role == "system")
    items = [item for message in request.messages if message.role != "system" for item in _items(message)]
    body: dict[str, Any] = {"model": spec.model}
    if instructions and items:
        body["instructions"] = instructions
    body["input"] = items or [{"role": "system", "content": instructions}]
    body["store"] = False
    limit = dialect.completion_limit(request, room)
    if limit is not None:
        body["max_output_tokens"] = max(_LEAST_OUTPUT, limit)
    temperature = temperature_of(request, spec)
    if temperature is not None and dialect.temperature:
        body["temperature"] = temperature
    effort = effort_of(request, spec)
    if effort and dialect.reasoning_effort:
        body["reasoning"] = {"effort": effort}
    if request.json_schema is not None and dialect.json_mode != "none":
        body["text"] = {"format": _format(request.json_schema, dialect)}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice != "auto":
            body["tool_choice"] = _tool_choice(request.tool_choice)
    body.update(spec.parameters)
    return to_bytes(body)


def _items(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        yield {"type": "function_call_output", "call_id": message.tool_call_id, "output": message.content}
        return
    if message.images:
        parts = [{"type": "input_image", "image_url": data_url(image)} for image in message.images]
        text = [{"type": "input_text", "text": message.content}] if message.content else []
        yield {"role": message.role, "content": [*parts, *text]}
    elif message.content or not message.tool_calls:
        yield {"role": message.role, "content": message.content}
    for call in message.tool_calls:
        yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}


def _tool(tool: Tool) -> dict[str, Any]:
    # Left out, `strict` means true here, and the API then rewrites or refuses schemas that are not made for it.
    return {"type": "function", **function_of(tool), "strict": False}


def _tool_choice(choice: str) -> str | dict[str, Any]:
    return choice if choice in ("required", "none") else {"type": "function", "name": choice}


def _format(schema: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
    if dialect.json_mode == "json_object":
        return {"type": "json_object"}
    return {"type": "json_schema", **named_schema(schema)}


def read_completion(body: Any, request: Request) -> Answered | Fault:
    """Reads the parsed body of a response with status 200 that reports no error."""
    output = body.get("output") if isinstance(body, dict) else None
    if not isinstance(output, list):
        return Fault("provider", "the response holds no output", "count", 200, raw=clip(body))
    items = [item for item in output if isinstance(item, dict)]
    parts = [part for item in items if item.get("type") == "message" for part in _parts(item)]
    text = strip_thoughts("".join(str(part.get("text") or "") for part in parts if part.get("type") == "output_text"))
    refusal = "".join(str(part.get("refusal") or "") for part in parts if part.get("type") == "refusal")
    calls = tuple(_calls(items)) if request.tools else ()
    usage = usage_of(_as_chat(body.get("usage")), request, text, calls)
    status, details = body.get("status"), body.get("incomplete_details")
    reason = str(details.get("reason") or "") if isinstance(details, dict) else ""
    if reason == "content_filter" or (refusal and not text.strip()):
        said = refusal or "the provider's content filter stopped the reply"
        return Fault("refused", said, "stop", 200, raw=text, usage=usage)
    if status == "incomplete":
        said = f"the reply was cut at {usage.completion_tokens} completion tokens"
        return Fault("truncated", said, "count", 200, raw=text, usage=usage)
    if status not in (None, "completed"):
        return Fault("provider", f"the response is {status}", "count", 200, raw=text, usage=usage)
    if not text.strip() and not calls:
        return Fault("empty", "the reply is empty", "count", 200, usage=usage)
    return Answered(text, usage, calls)


def _parts(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = item.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _calls(items: list[dict[str, Any]]) -> Iterator[ToolCall]:
    for place, item in enumerate(items):
        if item.get("type") == "function_call" and isinstance(name := item.get("name"), str) and name:
            yield ToolCall(str(item.get("call_id") or f"call_{place}"), name, json_text(item.get("arguments")))


def _as_chat(usage: Any) -> dict[str, Any] | None:
    """The usage under the names of the chat protocol."""
    if not isinstance(usage, dict):
        return None
    return {
        "prompt_tokens": usage.get("input_tokens"),
        "completion_tokens": usage.get("output_tokens"),
        "prompt_tokens_details": usage.get("input_tokens_details"),
        "completion_tokens_details": usage.get("output_tokens_details"),
    }
