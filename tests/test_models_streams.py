"""Replies that come as events although nobody asked for them so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes.odd import variants

from skillopt.models import anthropic, chat, responses
from skillopt.models.faults import read_response
from skillopt.models.streams import whole
from skillopt.models.types import Message, Request, Tool, ToolCall, Usage
from skillopt.models.wire import Answered, Fault

ASK = Request((Message("user", "Hi"),), tools=(Tool("look_up", "", {"type": "object"}),))


def stream(*events: Any, named: bool = False, end: str = "\n\n") -> bytes:
    lines = [(f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}" for event in events]
    return (": a comment\n\n" + end.join(lines) + end).encode()


MESSAGES = (
    {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}},
    {"type": "ping"},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hel"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "lo"}},
    {"type": "content_block_stop", "index": 1},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "t", "name": "look_up", "input": {}},
    },
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"a":'}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": " 1}"}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
)
CHAT = (
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}}]},
    {"choices": [{"index": 0, "delta": {"content": "lo"}}]},
    {
        "choices": [
            {"delta": {"tool_calls": [{"index": 0, "id": "t", "function": {"name": "look_up", "arguments": '{"a":'}}]}}
        ]
    },
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": " 1}"}}]}}]},
    {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 7}},
)
OUTPUT = [
    {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]},
    {"type": "function_call", "call_id": "t", "name": "look_up", "arguments": '{"a": 1}'},
]
RESPONSE = {"status": "completed", "output": OUTPUT, "usage": {"input_tokens": 9, "output_tokens": 7}}
RESPONSES = (
    {"type": "response.created", "response": {"status": "in_progress", "output": []}},
    {"type": "response.output_text.delta", "delta": "Hello"},
    {"type": "response.completed", "response": RESPONSE},
)
ALL = [(anthropic, MESSAGES), (chat, CHAT), (responses, RESPONSES)]


@pytest.mark.parametrize(("module", "events"), ALL, ids=["messages", "chat", "responses"])
@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n"])
def test_events_amount_to_a_reply(module: Any, events: tuple[Any, ...], end: str) -> None:
    raw = stream(*events, named=module is not chat, end=end) + (b"data: [DONE]\n\n" if module is chat else b"")
    found = read_response(200, {}, raw, ASK, 0.0, module.read_completion)
    assert found == Answered("Hello", Usage(9, 7), (ToolCall("t", "look_up", '{"a": 1}'),))


@pytest.mark.parametrize(("module", "events"), ALL, ids=["messages", "chat", "responses"])
def test_a_stream_that_stops_early_is_no_reply(module: Any, events: tuple[Any, ...]) -> None:
    for stop in range(len(events)):
        raw = stream(*events[:stop])
        found = read_response(200, {}, raw, ASK, 0.0, module.read_completion)
        if module is chat and stop == len(events) - 1:
            assert isinstance(found, Answered), "only the usage is missing"
        else:
            assert isinstance(found, Fault), stop
            assert (found.kind, found.then) == ("provider", "count")


def test_an_error_within_a_stream_is_that_error() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    found = read_response(200, {}, stream(*MESSAGES[:4], error), ASK, 0.0, anthropic.read_completion)
    assert isinstance(found, Fault)
    assert (found.status, found.message) == (529, "Overloaded")


@pytest.mark.parametrize("raw", [b"", b"{}", b"<html>", b"data: {broken\n\n", b"data: [1]\n\n", b"event: x\n\n"])
def test_what_is_no_stream(raw: bytes) -> None:
    assert whole(raw) is None


@pytest.mark.parametrize(("module", "events"), ALL, ids=["messages", "chat", "responses"])
def test_no_odd_event_breaks_the_reader(module: Any, events: tuple[Any, ...]) -> None:
    for variant in variants(list(events)):
        chunks = stream(*(variant if isinstance(variant, list) else [variant]))
        assert isinstance(read_response(200, {}, chunks, ASK, 0.0, module.read_completion), Answered | Fault)
