"""Tools, images and settings in each protocol, byte by byte; and the errors of each provider."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fakes.odd import variants
from fakes.openai_server import completion
from fakes.provider_requests import Asked, ChatRequest, MessagesRequest, ResponsesRequest

from skillopt.models import anthropic, chat, responses
from skillopt.models.errors import ErrorKind
from skillopt.models.faults import read_response
from skillopt.models.lessons import completion_room, learn
from skillopt.models.types import Image, Message, ModelSpec, Request, Tool, ToolCall, Usage
from skillopt.models.wire import Answered, Dialect, Fault

PNG = Image("image/png", b"\x89PNG\r\n\x1a\n rest")
LOOK = Tool("look_up", "Looks a word up.", {"type": "object", "properties": {"word": {"type": "string"}}})
CLOSED = {
    "title": "Pick",
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
TALK = Request(
    (
        Message("system", "Be brief."),
        Message("user", "What is this?", images=(PNG,)),
        Message(
            "assistant", "", tool_calls=(ToolCall("c1", "look_up", '{"word":"Ж"}'), ToolCall("c2", "look_up", "{}"))
        ),
        Message("tool", "a letter", tool_call_id="c1"),
        Message("tool", "", tool_call_id="c2"),
    ),
    max_tokens=500,
    tools=(LOOK,),
)
ASK = Request((Message("system", "Be brief."), Message("user", "Hi")), max_tokens=500)
SPEC = ModelSpec("target", "x", "m", "http://h/v1")


def body(
    module: Any, request: Request, spec: ModelSpec = SPEC, room: int | None = None, **dialect: Any
) -> dict[str, Any]:
    protocol = {chat: "chat", responses: "responses", anthropic: "messages"}[module]
    raw = module.request_body(request, spec, Dialect(protocol=protocol, **dialect), room)
    parsed: dict[str, Any] = json.loads(raw)
    return parsed


def test_a_chat_with_tools_and_an_image() -> None:
    found = body(chat, TALK)
    call = {"type": "function", "function": {"name": "look_up", "arguments": '{"word":"Ж"}'}}
    assert found["messages"][1:4] == [
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgogcmVzdA=="}},
                {"type": "text", "text": "What is this?"},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", **call},
                {"id": "c2", "type": "function", "function": {"name": "look_up", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a letter"},
    ]
    assert found["tools"] == [
        {
            "type": "function",
            "function": {"name": "look_up", "description": "Looks a word up.", "parameters": LOOK.parameters},
        }
    ]
    assert "tool_choice" not in found
    assert body(chat, replace(TALK, tool_choice="required"))["tool_choice"] == "required"
    named = {"type": "function", "function": {"name": "look_up"}}
    assert body(chat, replace(TALK, tool_choice="look_up"))["tool_choice"] == named


def test_the_responses_api() -> None:
    request = replace(TALK, temperature=0.5, reasoning_effort="low", json_schema=CLOSED, tool_choice="look_up")
    assert body(responses, request) == {
        "model": "m",
        "instructions": "Be brief.",
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgogcmVzdA=="},
                    {"type": "input_text", "text": "What is this?"},
                ],
            },
            {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"word":"Ж"}'},
            {"type": "function_call", "call_id": "c2", "name": "look_up", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "a letter"},
            {"type": "function_call_output", "call_id": "c2", "output": ""},
        ],
        "store": False,
        "max_output_tokens": 500,
        "temperature": 0.5,
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "Pick", "schema": CLOSED, "strict": True}},
        "tools": [
            {
                "type": "function",
                "name": "look_up",
                "description": "Looks a word up.",
                "parameters": LOOK.parameters,
                "strict": False,
            }
        ],
        "tool_choice": {"type": "function", "name": "look_up"},
    }
    small = body(responses, replace(ASK, max_tokens=1, json_schema=CLOSED), json_mode="json_object")
    assert (small["max_output_tokens"], small["text"]) == (16, {"format": {"type": "json_object"}})
    given_up = body(responses, request, temperature=False, reasoning_effort=False, json_mode="none", max_completion=99)
    assert not {"temperature", "reasoning", "text"} & set(given_up)
    assert given_up["max_output_tokens"] == 99
    alone = body(responses, Request((Message("system", "Speak."),)))
    assert alone == {"model": "m", "input": [{"role": "system", "content": "Speak."}], "store": False}


def test_the_messages_api() -> None:
    request = replace(TALK, temperature=1.5, reasoning_effort="low", json_schema=CLOSED, tool_choice="required")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgogcmVzdA=="}}
    assert body(anthropic, request) == {
        "model": "m",
        "max_tokens": 500,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [image, {"type": "text", "text": "What is this?"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"word": "Ж"}},
                    {"type": "tool_use", "id": "c2", "name": "look_up", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "a letter"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": ""},
                ],
            },
        ],
        "temperature": 1.0,
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": CLOSED}},
        "tools": [{"name": "look_up", "description": "Looks a word up.", "input_schema": LOOK.parameters}],
        "tool_choice": {"type": "any"},
    }
    for choice, sent in [("auto", None), ("none", {"type": "none"}), ("look_up", {"type": "tool", "name": "look_up"})]:
        assert body(anthropic, replace(TALK, tool_choice=choice)).get("tool_choice") == sent
    assert body(anthropic, replace(ASK, max_tokens=None))["max_tokens"] == anthropic.DEFAULT_MAX_TOKENS
    assert body(anthropic, replace(ASK, max_tokens=None), max_completion=4096)["max_tokens"] == 4096
    for schema, dialect in [(OPEN, {}), (CLOSED, {"json_mode": "none"})]:
        assert "output_config" not in body(anthropic, replace(ASK, json_schema=schema), **dialect)
    assert "output_config" not in body(anthropic, replace(ASK, reasoning_effort="minimal"))
    alone = body(anthropic, Request((Message("system", "Speak."),)))
    assert alone["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Speak."}]}]
    assert "system" not in alone


def test_turns_alternate_and_blank_text_is_left_out() -> None:
    said = [("user", "a"), ("user", "b"), ("assistant", " \n"), ("user", "c"), ("assistant", "d"), ("assistant", "e")]
    found = body(anthropic, Request(tuple(Message(*each) for each in said)))
    assert [(turn["role"], [block["text"] for block in turn["content"]]) for turn in found["messages"]] == [
        ("user", ["a", "b", "c"]),
        ("assistant", ["d", "e"]),
    ]


def test_broken_arguments_still_make_an_object() -> None:
    for text in ("{broken", "[1]"):
        call = Message("assistant", "", tool_calls=(ToolCall("c", "f", text),))
        (turn,) = body(anthropic, Request((call,)))["messages"]
        assert turn["content"][0]["input"] == {"arguments": text}


def test_long_prefixes_are_marked_for_the_cache() -> None:
    skill = Message("system", "x" * 4096)
    plain = body(anthropic, Request((skill, Message("user", "y" * 9000))))
    assert plain["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in plain["messages"][0]["content"][0], "no other call begins with it"
    short = body(anthropic, Request((Message("system", "x" * 4095), Message("user", "y" * 9000))))
    assert "cache_control" not in short["system"][0]
    talk = body(anthropic, replace(TALK, messages=(skill, *TALK.messages[1:])))
    assert talk["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in json.dumps(body(anthropic, TALK))


THINK = {"thinking": {"type": "enabled", "budget_tokens": 4096}}


@pytest.mark.parametrize(
    ("asked", "bounds", "max_tokens", "budget"),
    [
        (500, {}, 4596, 4096),  # the budget comes on top
        (None, {}, 16384 + 4096, 4096),
        (500, {"max_completion": 4000}, 4000, 3500),
        (8000, {"max_completion": 8000}, 8000, 4000),
        (500, {"room": 2400}, 2400, 1900),
        (500, {"max_completion": 1200}, 500, None),  # too little for thoughts
        (16, {}, 4112, 4096),
    ],
)
def test_the_thinking_budget_fits(
    asked: int | None, bounds: dict[str, int], max_tokens: int, budget: int | None
) -> None:
    spec = replace(SPEC, parameters=THINK, temperature=0.2)
    found = body(anthropic, replace(ASK, max_tokens=asked), spec, **bounds)
    assert found["max_tokens"] == max_tokens
    assert found.get("thinking", {}).get("budget_tokens") == budget
    assert ("temperature" in found) == (budget is None)


def test_thinking_and_tools() -> None:
    spec = replace(SPEC, parameters=THINK)
    first = replace(TALK, messages=TALK.messages[:2], tool_choice="required")
    assert "thinking" in body(anthropic, first, spec)
    assert "tool_choice" not in body(anthropic, first, spec), "a model that thinks cannot be forced"
    assert "thinking" not in body(anthropic, TALK, spec), "its signed thoughts are not there"
    later = replace(TALK, messages=(*TALK.messages, Message("assistant", "A letter."), Message("user", "And this?")))
    assert "thinking" in body(anthropic, later, spec)
    adaptive = replace(SPEC, parameters={"thinking": {"type": "adaptive"}})
    assert body(anthropic, TALK, adaptive)["thinking"] == {"type": "adaptive"}
    off = replace(SPEC, parameters={"thinking": {"type": "disabled"}, "top_k": 5})
    found = body(anthropic, TALK, off)
    assert "thinking" not in found
    assert found["top_k"] == 5


CHECKERS: list[tuple[Any, Callable[[Any], Any]]] = [
    (chat, ChatRequest.model_validate),
    (responses, ResponsesRequest.model_validate),
    (anthropic, MessagesRequest.model_validate),
]


@pytest.mark.parametrize(("module", "check"), CHECKERS, ids=["chat", "responses", "messages"])
def test_all_protocols_say_the_same(module: Any, check: Callable[[Any], Any]) -> None:
    asked: Asked = check(body(module, replace(TALK, json_schema=CLOSED, reasoning_effort="low"))).asked()
    assert (asked.system, asked.images, asked.tools, asked.schema) == ("Be brief.", [PNG.data], ["look_up"], CLOSED)
    assert asked.calls == [("c1", "look_up", {"word": "Ж"}), ("c2", "look_up", {})]
    assert asked.results == [("c1", "a letter"), ("c2", "")]
    assert (asked.max_tokens, asked.effort) == (500, "low")


# replies


def test_a_chat_reply_with_tool_calls() -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "x"}'}},
        {"function": {"name": "look_up", "arguments": {"word": "y"}}},
        {"id": "c", "function": {"name": "look_up", "arguments": None}},
        {"id": "d", "function": {"arguments": "{}"}},
        None,
    ]
    found = chat.read_completion(completion(None, finish="tool_calls", tool_calls=calls), TALK)
    assert isinstance(found, Answered)
    assert found.text == ""
    assert found.tool_calls == (
        ToolCall("a", "look_up", '{"word": "x"}'),
        ToolCall("call_1", "look_up", '{"word": "y"}'),
        ToolCall("c", "look_up", "{}"),
    )
    assert found.usage.completion_tokens > 10, "estimated from the calls"
    cut = chat.read_completion(completion(None, finish="length", tool_calls=calls), TALK)
    assert isinstance(cut, Fault)
    assert cut.kind == "truncated"
    unasked = chat.read_completion(completion(None, tool_calls=calls), ASK)
    assert isinstance(unasked, Fault)
    assert unasked.kind == "empty"


def response(*output: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"object": "response", "status": status, "error": None, "output": list(output), **more}


def message(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(parts)}


SAID = message({"type": "output_text", "text": "Hel"}, {"type": "output_text", "text": "lo"})
CALL = {"type": "function_call", "id": "fc", "call_id": "c9", "name": "look_up", "arguments": "{}"}


def test_a_response_is_read() -> None:
    usage = {
        "input_tokens": 50,
        "input_tokens_details": {"cached_tokens": 30},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 12},
    }
    found = responses.read_completion(response({"type": "reasoning", "summary": []}, SAID, CALL, usage=usage), TALK)
    assert found == Answered("Hello", Usage(50, 20, 30, 12), (ToolCall("c9", "look_up", "{}"),))
    only_call = responses.read_completion(response(CALL), TALK)
    assert isinstance(only_call, Answered)


def cut(reason: str) -> dict[str, Any]:
    return response(SAID, status="incomplete", incomplete_details={"reason": reason})


@pytest.mark.parametrize(
    ("found", "kind", "then"),
    [
        (response(), "empty", "count"),
        (response(CALL), "empty", "count"),
        (cut("max_output_tokens"), "truncated", "count"),
        (cut("content_filter"), "refused", "stop"),
        (response(message({"type": "refusal", "refusal": "No."})), "refused", "stop"),
        (response(status="queued"), "provider", "count"),
        ({"status": "completed"}, "provider", "count"),
        ([], "provider", "count"),
    ],
)
def test_a_response_that_is_no_reply(found: Any, kind: ErrorKind, then: str) -> None:
    fault = responses.read_completion(found, ASK)
    assert isinstance(fault, Fault)
    assert (fault.kind, fault.then) == (kind, then)


def claude(*content: dict[str, Any], stop: str = "end_turn", **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(content), "stop_reason": stop, **more}


HELLO = {"type": "text", "text": "Hello"}


def test_a_message_is_read() -> None:
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 30,
        "output_tokens": 5,
    }
    use = {"type": "tool_use", "id": "t1", "name": "look_up", "input": {"word": "Ж"}}
    found = anthropic.read_completion(claude({"type": "thinking"}, HELLO, use, stop="tool_use", usage=usage), TALK)
    assert found == Answered("Hello", Usage(60, 5, 30, 0, 20), (ToolCall("t1", "look_up", '{"word": "Ж"}'),))
    assert isinstance(anthropic.read_completion(claude(HELLO, stop="stop_sequence"), ASK), Answered)


@pytest.mark.parametrize(
    ("found", "kind", "then"),
    [
        (claude(), "empty", "count"),
        (claude({"type": "thinking"}), "empty", "count"),
        (claude(HELLO, stop="max_tokens"), "truncated", "count"),
        (claude(HELLO, stop="refusal"), "refused", "stop"),
        (claude(HELLO, stop="model_context_window_exceeded"), "context_overflow", "stop"),
        ({"type": "message"}, "provider", "count"),
        ([], "provider", "count"),
    ],
)
def test_a_message_that_is_no_reply(found: Any, kind: ErrorKind, then: str) -> None:
    fault = anthropic.read_completion(found, ASK)
    assert isinstance(fault, Fault)
    assert (fault.kind, fault.then) == (kind, then)


# errors


def claude_error(type_: str, said: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": type_, "message": said}}


def minimax_error(code: int, said: str = "x") -> dict[str, Any]:
    return {"base_resp": {"status_code": code, "status_msg": said}}


LONG = "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length"

ERRORS: list[tuple[int, dict[str, str], Any, ErrorKind, str]] = [
    (401, {}, claude_error("authentication_error", "invalid x-api-key"), "auth", "stop"),
    (403, {}, claude_error("permission_error", "no"), "auth", "stop"),
    (404, {}, claude_error("not_found_error", "model: x"), "provider", "stop"),
    (413, {}, claude_error("request_too_large", "Request exceeds the maximum size"), "context_overflow", "rewrite"),
    (400, {}, claude_error("invalid_request_error", "prompt is too long: 2 > 1"), "context_overflow", "rewrite"),
    (400, {}, claude_error("invalid_request_error", LONG), "context_overflow", "rewrite"),
    (400, {}, claude_error("invalid_request_error", "Your credit balance is too low"), "rate_limited", "stop"),
    (429, {"retry-after": "7"}, claude_error("rate_limit_error", "slow"), "rate_limited", "wait"),
    (529, {}, claude_error("overloaded_error", "Overloaded"), "provider", "count"),
    (529, {"retry-after": "7"}, claude_error("overloaded_error", "Overloaded"), "rate_limited", "wait"),
    (500, {}, claude_error("api_error", "oops"), "provider", "count"),
    (200, {}, claude_error("overloaded_error", "Overloaded"), "provider", "count"),
    (200, {}, {"status": "failed", "error": {"code": "server_error", "message": "x"}}, "provider", "count"),
    (200, {}, {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "x"}}, "rate_limited", "wait"),
    (200, {}, minimax_error(1000), "provider", "count"),
    (200, {}, minimax_error(1001), "timeout", "count"),
    (200, {}, minimax_error(1002), "rate_limited", "wait"),
    (200, {}, minimax_error(1004), "auth", "stop"),
    (200, {}, minimax_error(1008), "rate_limited", "stop"),
    (200, {}, minimax_error(1027), "refused", "stop"),
    (200, {}, minimax_error(2013), "provider", "rewrite"),
    (200, {}, minimax_error(2013, "context window exceeds limit"), "context_overflow", "rewrite"),
    (400, {}, {"error": {"code": "data_inspection_failed", "message": "x"}}, "refused", "stop"),
    (400, {}, {"error": {"code": "Arrearage", "message": "x"}}, "rate_limited", "stop"),
    (400, {}, [{"error": {"code": 400, "message": "odd", "status": "INVALID_ARGUMENT"}}], "provider", "rewrite"),
    (401, {}, {"error": {"code": "401", "message": "Access denied"}}, "auth", "stop"),
    (404, {}, {"error": {"code": "DeploymentNotFound", "message": "x"}}, "provider", "stop"),
]


@pytest.mark.parametrize(("status", "headers", "said", "kind", "then"), ERRORS)
def test_errors_of_providers(status: int, headers: dict[str, str], said: Any, kind: ErrorKind, then: str) -> None:
    from multidict import CIMultiDict

    fault = read_response(status, CIMultiDict(headers), json.dumps(said).encode(), ASK, 0.0, anthropic.read_completion)
    assert isinstance(fault, Fault)
    assert (fault.kind, fault.then) == (kind, then)
    assert "{" not in fault.message, "the words of the error alone"
    assert fault.retry_after == (7.0 if headers else None)


def test_room_in_anthropics_window() -> None:
    assert completion_room(LONG) == 11760


# protocol, what is said -> what is learnt
LESSONS: list[tuple[str, str, dict[str, Any]]] = [
    (
        "messages",
        "max_tokens: 99999 > 8192, which is the maximum allowed number of output tokens",
        {"max_completion": 8192},
    ),
    ("messages", "output_config.effort: Extra inputs are not permitted", {"reasoning_effort": False}),
    ("messages", "This model does not support the effort parameter.", {"reasoning_effort": False}),
    ("messages", "output_config.format: Extra inputs are not permitted", {"json_mode": "none"}),
    ("messages", "output_config: Extra inputs are not permitted", {"json_mode": "none"}),
    ("messages", "`temperature` is deprecated for this model.", {"temperature": False}),
    (
        "responses",
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        {"reasoning_effort": False},
    ),
    ("responses", "Invalid value for text.format", {"json_mode": "json_object"}),
    ("responses", "Unsupported parameter: 'temperature'", {"temperature": False}),
]


@pytest.mark.parametrize(("protocol", "said", "lesson"), LESSONS)
def test_lessons_of_other_protocols(protocol: Any, said: str, lesson: dict[str, Any]) -> None:
    module = {"messages": anthropic, "responses": responses}[protocol]
    spoken = Dialect(protocol=protocol)
    asked = replace(ASK, max_tokens=99999, temperature=0.2, reasoning_effort="low", json_schema=CLOSED)
    sent = module.request_body(asked, SPEC, spoken)
    learnt = learn(spoken, sent, Fault("provider", said, "rewrite", 400))
    assert learnt == replace(spoken, **lesson)
    assert learn(learnt, module.request_body(asked, SPEC, learnt), Fault("provider", said, "rewrite")) != learnt


def test_a_server_without_output_config_is_learnt_in_two_steps() -> None:
    spoken, asked = Dialect(protocol="messages"), replace(ASK, reasoning_effort="low", json_schema=CLOSED)
    for _ in range(2):
        sent = anthropic.request_body(asked, SPEC, spoken)
        found = learn(spoken, sent, Fault("provider", "output_config: Extra inputs are not permitted", "rewrite", 400))
        assert found is not None
        spoken = found
    assert b"output_config" not in anthropic.request_body(asked, SPEC, spoken)


USED = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
CHAT_CALL = {"id": "a", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
TOOL_USE = {"type": "tool_use", "id": "t1", "name": "look_up", "input": {"word": "x"}}
BODIES = (
    completion("Hello", usage=USED, tool_calls=[CHAT_CALL], refusal=None),
    response(SAID, CALL, incomplete_details={"reason": "x"}, usage={"input_tokens": 5, "input_tokens_details": {}}),
    claude(HELLO, TOOL_USE, usage={"input_tokens": 10, "cache_read_input_tokens": 3, "output_tokens": 5}),
    {"error": {"message": "m", "type": "t", "code": "c", "param": "p"}},
    {"base_resp": {"status_code": 1002, "status_msg": "m"}},
)


@pytest.mark.parametrize("said", BODIES, ids=["chat", "responses", "messages", "error", "base_resp"])
def test_nothing_that_a_server_says_breaks_a_reader(said: Any) -> None:
    for variant in variants(said):
        raw = json.dumps(variant).encode()
        for module in (chat, responses, anthropic):
            assert isinstance(read_response(200, {}, raw, TALK, 0.0, module.read_completion), Answered | Fault)
        assert isinstance(read_response(400, {}, raw, TALK, 0.0, chat.read_completion), Fault)
