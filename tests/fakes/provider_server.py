"""Local servers that speak a provider's protocol, check every byte of a request, and answer by script.

    with ProviderServer("anthropic", [Says("hello")]) as server:
        ...  # requests to server.url with server.key; then server.asked, server.complaints

A script is a list of outcomes, one a request (the last one is repeated), or a function from an ``Asked`` to an outcome.
What a request has wrong is answered with the provider's own error and kept in ``complaints``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fakes.openai_server import FakeOpenAI, Received, Step
from fakes.provider_requests import (
    Asked,
    AzureRequest,
    ChatRequest,
    MessagesRequest,
    MiniMaxRequest,
    QwenRequest,
    ResponsesRequest,
)
from pydantic import ValidationError

KEY = "sk-of-the-fake-server"
MODEL = "the-model"


@dataclass(frozen=True)
class Says:
    """A reply of ``text``, or ``calls`` (name, arguments). ``cut``: at the token limit; ``refused``: by a filter."""

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    cut: bool = False
    refused: bool = False


@dataclass(frozen=True)
class Fails:
    """An error. ``how``: ``server``, ``key``, ``rate``, ``overloaded``, ``overflow``, ``money``."""

    how: str
    retry_after: str = ""


Outcome = Says | Fails | Step
Script = Sequence[Outcome] | Callable[[Asked], Outcome]
USED = {"prompt": 120, "cached": 64, "completion": 30, "reasoning": 8}
"""Tokens that every reply reports."""


@dataclass(frozen=True)
class Failure:
    """An error as a provider writes it."""

    status: int
    type: str
    message: str
    code: str | None = None


def _openai_error(failure: Failure, param: str | None = None) -> dict[str, Any]:
    code = failure.code or failure.type
    return {"error": {"message": failure.message, "type": failure.type, "param": param, "code": code}}


def _anthropic_error(failure: Failure, param: str | None = None) -> dict[str, Any]:
    return {"type": "error", "error": {"type": failure.type, "message": failure.message}, "request_id": "req_1"}


def _minimax_error(failure: Failure, param: str | None = None) -> dict[str, Any]:
    """As MiniMax does it: the HTTP status is 200 for all that has a number of its own."""
    return {"base_resp": {"status_code": int(failure.code or 2013), "status_msg": failure.message}, "choices": None}


_OPENAI_FAILURES = {
    "server": Failure(500, "server_error", "The server had an error while processing your request"),
    "key": Failure(401, "invalid_request_error", f"Incorrect API key provided: {KEY[:6]}***", "invalid_api_key"),
    "rate": Failure(429, "requests", "Rate limit reached for requests", "rate_limit_exceeded"),
    "overloaded": Failure(503, "server_error", "The engine is currently overloaded"),
    "money": Failure(429, "insufficient_quota", "You exceeded your current quota", "insufficient_quota"),
    "overflow": Failure(
        400,
        "invalid_request_error",
        "This model's maximum context length is 1000 tokens. However, your messages resulted in 5000 tokens.",
        "context_length_exceeded",
    ),
    "bad": Failure(400, "invalid_request_error", "", "invalid_value"),
    "path": Failure(404, "invalid_request_error", "Invalid URL"),
}
_AZURE_FAILURES = {
    **_OPENAI_FAILURES,
    "key": Failure(401, "401", "Access denied due to invalid subscription key or wrong API endpoint."),
    "rate": Failure(429, "429", "Requests to the API have exceeded the call rate limit of your pricing tier."),
    "path": Failure(404, "DeploymentNotFound", "The API deployment for this resource does not exist."),
}
_ANTHROPIC_FAILURES = {
    "server": Failure(500, "api_error", "Internal server error"),
    "key": Failure(401, "authentication_error", "invalid x-api-key"),
    "rate": Failure(429, "rate_limit_error", "This request would exceed your organization's rate limit"),
    "overloaded": Failure(529, "overloaded_error", "Overloaded"),
    "money": Failure(400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
    "overflow": Failure(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
    "bad": Failure(400, "invalid_request_error", ""),
    "path": Failure(404, "not_found_error", "Not Found"),
}
_QWEN_FAILURES = {
    **_OPENAI_FAILURES,
    "overflow": Failure(
        400,
        "BadRequestError",
        "This model's maximum context length is 1000 tokens. However, your request has 5000 input tokens.",
        "400",
    ),
}
_MINIMAX_FAILURES = {
    **_OPENAI_FAILURES,
    "server": Failure(200, "", "unknown error, please retry later", "1000"),
    "key": Failure(200, "", "invalid api key", "2049"),
    "rate": Failure(200, "", "rate limit exceeded(RPM)", "1002"),
    "money": Failure(200, "", "insufficient balance", "1008"),
    "overflow": Failure(200, "", "invalid params, context window exceeds limit", "2013"),
    "bad": Failure(200, "", "", "2013"),
}


def _chat_reply(said: Says, asked: Asked) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if said.calls:
        message["tool_calls"] = [
            {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for n, (name, arguments) in enumerate(said.calls)
        ]
    finish = "length" if said.cut else "content_filter" if said.refused else "tool_calls" if said.calls else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": asked.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {
            "prompt_tokens": USED["prompt"],
            "completion_tokens": USED["completion"],
            "total_tokens": USED["prompt"] + USED["completion"],
            "prompt_tokens_details": {"cached_tokens": USED["cached"]},
            "completion_tokens_details": {"reasoning_tokens": USED["reasoning"]},
        },
    }


def _minimax_reply(said: Says, asked: Asked) -> dict[str, Any]:
    body = _chat_reply(said, asked)
    if said.text and not said.cut:
        body["choices"][0]["message"]["content"] = f"<think>\nLet me see.\n</think>\n\n{said.text}"
    return {**body, "base_resp": {"status_code": 0, "status_msg": ""}}


def _responses_reply(said: Says, asked: Asked) -> dict[str, Any]:
    output: list[dict[str, Any]] = [{"type": "reasoning", "id": "rs_1", "summary": []}]
    if said.text:
        part = {"type": "output_text", "text": said.text, "annotations": []}
        output.append({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]})
    for n, (name, arguments) in enumerate(said.calls):
        call = {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": name, "status": "completed"}
        output.append({**call, "arguments": json.dumps(arguments)})
    reason = "max_output_tokens" if said.cut else "content_filter" if said.refused else ""
    return {
        "id": "resp_1",
        "object": "response",
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": asked.model,
        "output": output,
        "usage": {
            "input_tokens": USED["prompt"],
            "input_tokens_details": {"cached_tokens": USED["cached"]},
            "output_tokens": USED["completion"],
            "output_tokens_details": {"reasoning_tokens": USED["reasoning"]},
            "total_tokens": USED["prompt"] + USED["completion"],
        },
    }


def _messages_reply(said: Says, asked: Asked) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    if asked.thinking:
        blocks.append({"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"})
    if said.text:
        blocks.append({"type": "text", "text": said.text})
    for n, (name, arguments) in enumerate(said.calls):
        blocks.append({"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": arguments})
    reason = "max_tokens" if said.cut else "refusal" if said.refused else "tool_use" if said.calls else "end_turn"
    written = 16
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": USED["prompt"] - USED["cached"] - written,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": USED["cached"],
            "output_tokens": USED["completion"],
        },
    }


@dataclass(frozen=True)
class Speaker:
    """A provider: where it takes requests, how it wants them authorised, what it accepts and how it answers."""

    path: str
    request: type[ChatRequest] | type[ResponsesRequest] | type[MessagesRequest]
    reply: Callable[[Says, Asked], dict[str, Any]] = _chat_reply
    error: Callable[..., dict[str, Any]] = _openai_error
    failures: Mapping[str, Failure] = field(default_factory=lambda: _OPENAI_FAILURES)
    key_header: str = "authorization"
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    root: str = "/v1"

    @property
    def key_value(self) -> str:
        return f"Bearer {KEY}" if self.key_header == "authorization" else KEY


_KEY_HEADERS = ("authorization", "api-key", "x-api-key")
SPEAKERS: Mapping[str, Speaker] = {
    "openai": Speaker("/v1/chat/completions", ChatRequest),
    "azure": Speaker(
        f"/openai/deployments/{MODEL}/chat/completions",
        AzureRequest,
        failures=_AZURE_FAILURES,
        key_header="api-key",
        query={"api-version": "2024-12-01-preview"},
        root="",
    ),
    "responses": Speaker("/v1/responses", ResponsesRequest, _responses_reply),
    "anthropic": Speaker(
        "/v1/messages",
        MessagesRequest,
        _messages_reply,
        _anthropic_error,
        _ANTHROPIC_FAILURES,
        key_header="x-api-key",
        headers={"anthropic-version": "2023-06-01"},
        root="",
    ),
    "qwen": Speaker("/v1/chat/completions", QwenRequest, failures=_QWEN_FAILURES),
    "minimax": Speaker("/v1/chat/completions", MiniMaxRequest, _minimax_reply, _minimax_error, _MINIMAX_FAILURES),
}


class ProviderServer(FakeOpenAI):
    """A server that speaks as ``provider`` does. ``asked`` are the requests that it took, ``complaints`` what was wrong
    with the others."""

    def __init__(self, provider: str, script: Script) -> None:
        super().__init__(self._serve_one)
        self.speaker = SPEAKERS[provider]
        self.asked: list[Asked] = []
        self.complaints: list[str] = []
        self._outcomes = script

    def __enter__(self) -> ProviderServer:
        super().__enter__()
        return self

    @property
    def url(self) -> str:
        """The base URL, or the endpoint, as a user would write it."""
        return f"http://127.0.0.1:{self.port}{self.speaker.root}"

    def _serve_one(self, received: Received) -> Step:
        refusal = self._check_head(received)
        if refusal is not None:
            return refusal
        try:
            asked = self.speaker.request.model_validate(_parsed(received.raw)).asked()
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"] if not str(part).startswith("_"))
            return self._refuse("bad", f"{place}: {first['msg']}", place)
        except ValueError as error:
            return self._refuse("bad", str(error))
        script = self._outcomes
        outcome = script(asked) if callable(script) else script[min(len(self.asked), len(script) - 1)]
        self.asked.append(asked)
        return self._step(outcome, asked)

    def _check_head(self, received: Received) -> Step | None:
        speaker, target = self.speaker, urlsplit(received.target)
        if (received.method, target.path) != ("POST", speaker.path):
            return self._refuse("path", f"{received.method} {received.target}")
        if {name: values[0] for name, values in parse_qs(target.query).items()} != dict(speaker.query):
            return self._refuse("path", f"query {target.query!r}")
        sent = {name: received.headers[name] for name in _KEY_HEADERS if name in received.headers}
        if sent != {speaker.key_header: speaker.key_value}:
            return self._refuse("key", f"key headers {sorted(sent)}")
        due = {"content-type": "application/json", **speaker.headers}
        wrong = [name for name, value in due.items() if received.headers.get(name) != value]
        return self._refuse("bad", f"header {wrong[0]}") if wrong else None

    def _refuse(self, how: str, what: str, param: str | None = None) -> Step:
        self.complaints.append(what)
        failure = self.speaker.failures[how]
        said = Failure(failure.status, failure.type, f"{failure.message} {what}".strip(), failure.code)
        return _json_step(said.status, self.speaker.error(said, param))

    def _step(self, outcome: Outcome, asked: Asked) -> Step:
        if isinstance(outcome, Step):
            return outcome
        if isinstance(outcome, Says):
            body = self.speaker.reply(outcome, asked)
            return _stream_step(body) if asked.stream else _json_step(200, body)
        failure = self.speaker.failures[outcome.how]
        headers = {"Retry-After": outcome.retry_after} if outcome.retry_after else {}
        return _json_step(failure.status, self.speaker.error(failure), headers)


def _json_step(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Step:
    return Step(status, json.dumps(body).encode(), headers or {})


def _stream_step(body: Mapping[str, Any]) -> Step:
    """A message of Anthropic's as the events that it comes in when ``stream`` is asked for."""
    usage = {**body["usage"], "output_tokens": 1}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**body, "content": [], "usage": usage}}]
    for index, block in enumerate(body["content"]):
        name, text = {
            "text": ("text_delta", "text"),
            "thinking": ("thinking_delta", "thinking"),
            "tool_use": ("input_json_delta", "partial_json"),
        }[block["type"]]
        whole = json.dumps(block["input"]) if block["type"] == "tool_use" else block[text]
        empty = {**block, **({"input": {}} if block["type"] == "tool_use" else {text: ""})}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        for part in (whole[:3], whole[3:]):
            events.append({"type": "content_block_delta", "index": index, "delta": {"type": name, text: part}})
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    used = {"output_tokens": body["usage"]["output_tokens"]}
    events += [{"type": "message_delta", "delta": end, "usage": used}, {"type": "message_stop"}]
    sent = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Step(200, sent.encode(), {"Content-Type": "text/event-stream"})


def _parsed(raw: bytes) -> Any:
    """The JSON of a request: UTF-8, no key twice, no NaN. Raises ``ValueError``."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError(f"a field stands twice among {[name for name, _ in pairs]}")
        return found

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is not JSON")

    return json.loads(raw.decode("utf-8"), object_pairs_hook=once, parse_constant=refuse)
