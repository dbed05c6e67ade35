"""Anthropic's Messages API as pure functions: a request to bytes, a response to an answer or a fault."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from skillopt.config.model_keys import LEAST_THINKING
from skillopt.models.types import Image, Message, ModelSpec, Request, Tool, ToolCall
from skillopt.models.wire import (
    Answered,
    Dialect,
    Fault,
    base64_of,
    clip,
    count,
    effort_of,
    json_text,
    strict_ready,
    temperature_of,
    to_bytes,
    usage_of,
)

VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 16_384
"""The API has to be told a limit; this one is for requests that have none."""
_CACHED_FROM = 4096
"""Characters from which on a prefix is worth a mark: about 1024 tokens, the fewest that are ever cached."""
_CACHE = {"type": "ephemeral"}
EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})

Block = dict[str, Any]


def request_body(request: Request, spec: ModelSpec, dialect: Dialect, room: int | None = None) -> bytes:
    """The JSON body of ``request`` in ``dialect``; ``room`` bounds its completion tokens further."""
    thinking = _thinking(request, spec)
    limit, thinking = _limits(dialect.completion_limit(request, room), thinking, dialect, room)
    body: dict[str, Any] = {"model": spec.model, "max_tokens": limit}
    system, messages = _system(request), _messages(request)
    if not messages:  # the API needs one message at least
        system, messages = [], [{"role": "user", "content": system}]
    _mark_prefix(request, system, messages)
    if system:
        body["system"] = system
    body["messages"] = messages
    temperature = temperature_of(request, spec)
    if temperature is not None and dialect.temperature and not thinking:
        body["temperature"] = min(temperature, 1.0)
    output = _output_config(request, spec, dialect)
    if output:
        body["output_config"] = output
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        choice = _tool_choice(request.tool_choice, forced=not thinking)
        if choice:
            body["tool_choice"] = choice
    body.update(spec.parameters)
    body.pop("thinking", None)
    if thinking:
        body["thinking"] = thinking
    return to_bytes(body)


def _thinking(request: Request, spec: ModelSpec) -> dict[str, Any] | None:
    """How the model is to think, or None when it is not.

    An answer to a tool's result belongs to the turn that asked for it, and with a budget the API takes such a turn only
    together with its signed thoughts. Those are not kept, so the rest of the turn goes without.
    """
    asked = spec.parameters.get("thinking")
    if not isinstance(asked, Mapping) or asked.get("type") == "disabled":
        return None
    last = next((message for message in reversed(request.messages) if message.role == "assistant"), None)
    if last is not None and last.tool_calls and asked.get("type") == "enabled":
        return None
    return dict(asked)


def _limits(
    limit: int | None, thinking: dict[str, Any] | None, dialect: Dialect, room: int | None
) -> tuple[int, dict[str, Any] | None]:
    """``max_tokens``, and the thinking that fits into it.

    The API counts thoughts among the completion's tokens: the budget comes on top of what is asked for the answer, and
    is cut where the model or its window cannot take both.
    """
    answer = DEFAULT_MAX_TOKENS if limit is None else limit
    budget = count(thinking.get("budget_tokens")) if thinking else None
    if thinking is None or budget is None:
        return answer, thinking
    most = min((bound for bound in (dialect.max_completion, room) if bound is not None), default=answer + budget)
    if answer + budget > most:
        budget = max(most - answer, most // 2)
    if budget < LEAST_THINKING:
        return answer, None
    return min(answer + budget, most), {**thinking, "budget_tokens": budget}


def _system(request: Request) -> list[Block]:
    return [_text(message.content) for message in request.messages if message.role == "system" and message.content]


def _messages(request: Request) -> list[dict[str, Any]]:
    """Turns that alternate: neighbours of one role are one turn, a tool's result is the user's."""
    turns: list[dict[str, Any]] = []
    for message in request.messages:
        blocks = _blocks(message) if message.role != "system" else []
        if not blocks:
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message) -> list[Block]:
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}]
    blocks = [image_block(image) for image in message.images]
    if message.content.strip():  # the API refuses blank text
        blocks.append(_text(message.content))
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _arguments(call)} for call in message.tool_calls
    ]
    return blocks


def image_block(image: Image) -> Block:
    """A picture in a message."""
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": base64_of(image)}}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments as the object that the API wants, also where the model's text is none."""
    try:
        parsed = json.loads(call.arguments)
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {"arguments": call.arguments}


def _mark_prefix(request: Request, system: list[Block], messages: list[dict[str, Any]]) -> None:
    """Marks what later calls share with this one: tools and system prompt, and in a conversation with tools all that
    was said so far, which its next call repeats."""
    shared = sum(len(block["text"]) for block in system)
    if shared and request.tools:
        shared += sum(len(tool.description) + len(json.dumps(dict(tool.parameters))) for tool in request.tools)
    if system and shared >= _CACHED_FROM:
        system[-1]["cache_control"] = _CACHE
    if request.tools and sum(len(message.content) for message in request.messages) >= _CACHED_FROM:
        messages[-1]["content"][-1]["cache_control"] = _CACHE


def _output_config(request: Request, spec: ModelSpec, dialect: Dialect) -> dict[str, Any]:
    config: dict[str, Any] = {}
    effort = effort_of(request, spec)
    if effort in EFFORTS and dialect.reasoning_effort:
        config["effort"] = effort
    # The API compiles closed schemas only; for any other the prompt alone has to say what is wanted.
    if request.json_schema is not None and dialect.json_mode == "json_schema" and strict_ready(request.json_schema):
        config["format"] = {"type": "json_schema", "schema": dict(request.json_schema)}
    return config


def _tool(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}


def _tool_choice(choice: str, forced: bool) -> dict[str, Any] | None:
    """None leaves it to the model, as does the API by itself. A model that thinks cannot be forced (``forced``)."""
    if choice == "none":
        return {"type": "none"}
    if choice == "auto" or not forced:
        return None
    return {"type": "any"} if choice == "required" else {"type": "tool", "name": choice}


def read_completion(body: Any, request: Request) -> Answered | Fault:
    """Reads the parsed body of a response with status 200 that reports no error."""
    content = body.get("content") if isinstance(body, dict) else None
    if not isinstance(content, list):
        return Fault("provider", "the response holds no content", "count", 200, raw=clip(body))
    blocks = [block for block in content if isinstance(block, dict)]
    text = "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")
    calls = _calls(blocks) if request.tools else ()
    usage = usage_of(_as_chat(body.get("usage")), request, text, calls)
    reason = body.get("stop_reason")
    if reason == "refusal":
        return Fault("refused", text or "the model refused to answer", "stop", 200, raw=text, usage=usage)
    if reason == "model_context_window_exceeded":
        return Fault("context_overflow", "the reply filled the context window", "stop", 200, raw=text, usage=usage)
    if reason == "max_tokens":
        said = f"the reply was cut at {usage.completion_tokens} completion tokens"
        return Fault("truncated", said, "count", 200, raw=text, usage=usage)
    if not text.strip() and not calls:
        return Fault("empty", "the reply is empty", "count", 200, usage=usage)
    return Answered(text, usage, calls)


def _calls(blocks: list[Block]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(str(block.get("id") or f"call_{place}"), name, json_text(block.get("input")))
        for place, block in enumerate(blocks)
        if block.get("type") == "tool_use" and isinstance(name := block.get("name"), str) and name
    )


def _as_chat(usage: Any) -> dict[str, Any] | None:
    """The usage under the names of the chat protocol, where cached tokens are part of the prompt's."""
    if not isinstance(usage, dict):
        return None
    fresh = count(usage.get("input_tokens"))
    written, read = count(usage.get("cache_creation_input_tokens")), count(usage.get("cache_read_input_tokens"))
    return {
        "prompt_tokens": None if fresh is None else fresh + (written or 0) + (read or 0),
        "completion_tokens": usage.get("output_tokens"),
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
    }
