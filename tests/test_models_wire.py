"""Requests to bytes, responses to answers or faults: pure tables."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes.openai_server import completion
from pydantic import BaseModel, ConfigDict

from skillopt.models.chat import read_completion, request_body
from skillopt.models.errors import ErrorKind
from skillopt.models.faults import model_error, retry_after, without_secrets
from skillopt.models.faults import read_response as read_any_response
from skillopt.models.lessons import completion_room, learn
from skillopt.models.providers import PROVIDERS
from skillopt.models.retries import Retries, Tries, next_pause
from skillopt.models.types import Message, ModelSpec, Request, Usage
from skillopt.models.wire import Answered, Dialect, Fault, adaptations, strict_ready, strip_thoughts

SPEC = ModelSpec("target", "openai_compatible", "m", "http://h/v1")
ASK = Request((Message("system", "Be brief."), Message("user", "Wie heißt „Ж“? \ud83d")))
SCHEMA = {"title": "My reply!", "type": "object", "properties": {"a": {"type": "string"}}}


def read_response(status: int, headers: dict[str, str], raw: bytes, request: Request, now: float) -> Answered | Fault:
    return read_any_response(status, headers, raw, request, now, read_completion)


def body_of(request: Request, spec: ModelSpec = SPEC, **dialect: Any) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(request_body(request, spec, Dialect(**dialect)))
    return parsed


def test_a_plain_request_holds_nothing_but_what_was_asked() -> None:
    assert body_of(ASK) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Wie heißt „Ж“? ?"},  # a lone surrogate has no UTF-8
        ],
    }


def test_every_setting_has_its_place() -> None:
    request = Request(ASK.messages, max_tokens=50, temperature=0.0, reasoning_effort="low")
    spec = ModelSpec("target", "x", "m", "", temperature=0.7, reasoning_effort="high", parameters={"top_k": 1})
    body = body_of(request, spec)
    assert (body["max_tokens"], body["temperature"], body["reasoning_effort"], body["top_k"]) == (50, 0.0, "low", 1)
    assert body_of(ASK, spec)["temperature"] == 0.7
    assert body_of(ASK, spec)["reasoning_effort"] == "high"
    assert body_of(request, max_tokens_field="max_completion_tokens")["max_completion_tokens"] == 50
    refused = body_of(request, spec, temperature=False, reasoning_effort=False, max_completion=20)
    assert set(refused) == {"model", "messages", "max_tokens", "top_k"}
    assert refused["max_tokens"] == 20
    assert json.loads(request_body(request, spec, Dialect(), 7))["max_tokens"] == 7


def test_json_replies_are_asked_for_as_the_server_can() -> None:
    request = Request(ASK.messages, json_schema=SCHEMA)
    asked = body_of(request)["response_format"]
    assert asked == {
        "type": "json_schema",
        "json_schema": {"name": "My_reply_", "schema": SCHEMA, "strict": False},
    }
    assert body_of(request, json_mode="json_object")["response_format"] == {"type": "json_object"}
    assert "response_format" not in body_of(request, json_mode="none")


def test_a_grammar_goes_only_where_it_is_understood() -> None:
    request = Request(ASK.messages, json_schema=SCHEMA, grammar='root ::= "a"')
    local = json.loads(request_body(request, SPEC, Dialect.of(PROVIDERS["local"])))
    assert local["grammar"] == 'root ::= "a"'
    assert "response_format" not in local
    assert "grammar" not in body_of(request)
    assert "response_format" in body_of(request)


def test_strict_mode_only_for_schemas_that_allow_it() -> None:
    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid")
        a: str

    class Nested(BaseModel):
        model_config = ConfigDict(extra="forbid")
        inner: list[Closed]

    class Open(BaseModel):
        a: str

    class Defaulted(BaseModel):
        model_config = ConfigDict(extra="forbid")
        a: str = ""

    class Mixed(BaseModel):
        model_config = ConfigDict(extra="forbid")
        inner: Open

    assert strict_ready(Closed.model_json_schema())
    assert strict_ready(Nested.model_json_schema())
    for loose in (Open, Defaulted, Mixed):
        assert not strict_ready(loose.model_json_schema()), loose


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        (" plain\n", " plain\n"),
        ("<think>\nhm\n</think>\n\nanswer", "answer"),
        ("\n <think>a</think><think>b</think>answer", "answer"),
        ("<think>never closed", ""),
        ("thinking that began in the prompt\n</think>\nanswer", "answer"),
        ("The tag <think> opens a thought.", "The tag <think> opens a thought."),
        ("a <think>b</think> c", "a <think>b</think> c"),
        ('{"skill": "close it with </think>"}', '{"skill": "close it with </think>"}'),
    ],
)
def test_thoughts_are_left_out(text: str, expected: str) -> None:
    assert strip_thoughts(text) == expected


USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "prompt_tokens_details": {"cached_tokens": 64},
    "completion_tokens_details": {"reasoning_tokens": 8},
}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (USAGE, Usage(100, 20, 64, 8)),
        ({"prompt_tokens": 7, "completion_tokens": 2, "prompt_cache_hit_tokens": 3}, Usage(7, 2, 3, 0)),
        ({"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": None}, Usage(7, 2)),
        (None, Usage(11, 2)),  # 40 characters asked, 8 answered
        ({"prompt_tokens": None, "completion_tokens": "2"}, Usage(11, 2)),
        ({"prompt_tokens": 7}, Usage(7, 2)),
        ({"prompt_tokens": 10**40, "completion_tokens": 2}, Usage(11, 2)),
    ],
)
def test_usage_is_read_or_estimated(usage: dict[str, Any] | None, expected: Usage) -> None:
    request = Request((Message("user", "x" * 40),))
    assert read_completion(completion("12345678", usage=usage), request) == Answered("12345678", expected)


@pytest.mark.parametrize(
    ("body", "kind", "then"),
    [
        (completion(""), "empty", "count"),
        (completion(" \n"), "empty", "count"),
        (completion(None), "empty", "count"),
        (completion("<think>only that</think>"), "empty", "count"),
        (completion("half a", finish="length"), "truncated", "count"),
        (completion(None, finish="length"), "truncated", "count"),
        (completion(None, refusal="I will not."), "refused", "stop"),
        (completion("half", finish="content_filter"), "refused", "stop"),
        ({"choices": []}, "provider", "count"),
        ({"choices": [{}]}, "provider", "count"),
        ({"choices": None}, "provider", "count"),
        ([], "provider", "count"),
        ("text", "provider", "count"),
    ],
)
def test_a_200_can_still_be_no_reply(body: Any, kind: ErrorKind, then: str) -> None:
    fault = read_completion(body, ASK)
    assert isinstance(fault, Fault)
    assert (fault.kind, fault.then) == (kind, then)


def test_replies_in_unusual_dress() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    for body in (completion(parts), completion("ab", finish=None), completion("ab", reasoning_content="long")):
        answer = read_completion(body, ASK)
        assert isinstance(answer, Answered)
        assert answer.text == "ab"


def error(message: str, **more: Any) -> bytes:
    return json.dumps({"error": {"message": message, **more}}).encode()


OVERFLOW = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"

# status, headers, body -> kind, then, a word of the message
FAILURES: list[tuple[int, dict[str, str], bytes, ErrorKind, str, str]] = [
    (401, {}, error("bad key"), "auth", "stop", "bad key"),
    (403, {}, error("no"), "auth", "stop", "no"),
    (404, {}, error("no such model"), "provider", "stop", "no such model"),
    (429, {"Retry-After": "3"}, error("slow down"), "rate_limited", "wait", "slow"),
    (429, {}, error("slow down"), "rate_limited", "wait", "slow"),
    (429, {}, error("You exceeded it", code="insufficient_quota"), "rate_limited", "stop", "billing"),
    (429, {}, error("x", type="insufficient_quota"), "rate_limited", "stop", "billing"),
    (402, {}, error("Insufficient Balance"), "rate_limited", "stop", "billing"),
    (503, {"Retry-After": "1"}, error("busy"), "rate_limited", "wait", "busy"),
    (503, {}, error("busy"), "provider", "count", "busy"),
    (500, {}, error("oops"), "provider", "count", "oops"),
    (502, {}, b"<html><head><style>p {}</style></head><p>Bad  Gateway</p></html>", "provider", "count", "Bad Gateway"),
    (504, {}, b"", "timeout", "count", ""),
    (408, {}, b"", "timeout", "count", ""),
    (409, {}, error("conflict"), "provider", "count", "conflict"),
    (400, {}, error("no", code="context_length_exceeded"), "context_overflow", "rewrite", "no"),
    (400, {}, error(OVERFLOW), "context_overflow", "rewrite", "4096"),
    (413, {}, error("prompt is too long"), "context_overflow", "rewrite", "too long"),
    (400, {}, error("exceeds", type="exceed_context_size_error"), "context_overflow", "rewrite", "exceeds"),
    (400, {}, error("bad", code="content_filter"), "refused", "stop", "bad"),
    (400, {}, error("Could not finish the message because max_tokens or ..."), "truncated", "count", "finish"),
    (400, {}, error("strange"), "provider", "rewrite", "strange"),
    (
        422,
        {},
        json.dumps({"detail": [{"loc": ["body", "x"], "msg": "extra"}]}).encode(),
        "provider",
        "rewrite",
        "extra",
    ),
    (413, {}, b"Request Entity Too Large", "provider", "stop", "Too Large"),
    (400, {}, b'{"error": "plain words"}', "provider", "rewrite", "plain words"),
    (400, {}, b'{"object": "error", "message": "vllm says", "code": 400}', "provider", "rewrite", "vllm says"),
    (307, {"Location": "https://elsewhere/v1"}, b"", "provider", "stop", "https://elsewhere/v1"),
    (418, {}, b"\xff\xfe", "provider", "stop", "\ufffd"),
    (200, {}, b"{not json", "provider", "count", "not valid JSON"),
    (200, {}, error("upstream down", code=502), "provider", "count", "upstream down"),
    (200, {}, error("slow down", code=429), "rate_limited", "wait", "slow down"),
    (200, {}, b'{"error": "gone"}', "provider", "count", "gone"),
]


@pytest.mark.parametrize(("status", "headers", "raw", "kind", "then", "word"), FAILURES)
def test_failures(status: int, headers: dict[str, str], raw: bytes, kind: ErrorKind, then: str, word: str) -> None:
    fault = read_response(status, headers, raw, ASK, now=0.0)
    assert isinstance(fault, Fault)
    assert (fault.kind, fault.then) == (kind, then)
    assert word in fault.message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "2"}, 2.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:16:50 GMT"}, 10.0),
        ({"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"retry-after-ms": "250", "Retry-After": "9"}, 0.25),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m30s"}, 90.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "7"}, 7.0),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "7s"}, None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "later"}, None),
    ],
)
def test_how_long_the_server_wants_to_be_left_alone(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=1000.0) == seconds


def fault_of(message: str, **more: Any) -> Fault:
    fault = read_response(400, {}, error(message, **more), ASK, now=0.0)
    assert isinstance(fault, Fault)
    return fault


OLD, NEW = "max_tokens", "max_completion_tokens"

# dialect, error -> what is learnt (None: nothing)
LESSONS: list[tuple[dict[str, Any], Fault, dict[str, Any] | None]] = [
    (
        {},
        fault_of(f"Unsupported parameter: '{OLD}' is not supported. Use '{NEW}' instead.", param=OLD),
        {"max_tokens_field": NEW},
    ),
    ({"max_tokens_field": NEW}, fault_of(f"Unrecognized request argument supplied: {NEW}"), {"max_tokens_field": OLD}),
    (
        {"max_tokens_field": NEW},
        fault_of("x", param=NEW),
        {"max_tokens_field": OLD},
    ),
    ({}, fault_of("'temperature' does not support 0.2 with this model."), {"temperature": False}),
    ({}, fault_of("property 'reasoning_effort' is unsupported"), {"reasoning_effort": False}),
    ({}, fault_of("Invalid parameter: 'response_format' of type 'json_schema'"), {"json_mode": "json_object"}),
    (
        {"json_mode": "json_object"},
        fault_of("'messages' must contain the word 'json', to use 'response_format'"),
        {"json_mode": "none"},
    ),
    (
        {},
        fault_of("max_tokens is too large: 9. This model supports at most 4096 completion tokens"),
        {"max_completion": 4096},
    ),
    ({}, fault_of("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"), {"max_completion": 8192}),
    (
        {},
        fault_of("`max_tokens` must be less than or equal to `8192`, less than the context_window"),
        {"max_completion": 8192},
    ),
    ({"max_completion": 8192}, fault_of("max_tokens: at most 8192"), None),
    ({}, fault_of("messages: at least one is required"), None),
    ({}, fault_of(OVERFLOW), None),
    ({}, fault_of("top_p is not supported"), None),
]


@pytest.mark.parametrize(("dialect", "fault", "lesson"), LESSONS)
def test_lessons(dialect: dict[str, Any], fault: Fault, lesson: dict[str, Any] | None) -> None:
    spoken = Dialect(**dialect)
    request = Request(ASK.messages, max_tokens=9000, temperature=0.2, reasoning_effort="low", json_schema=SCHEMA)
    learnt = learn(spoken, request_body(request, SPEC, spoken), fault)
    assert learnt == (None if lesson is None else Dialect(**{**dialect, **lesson}))


def test_only_what_was_sent_can_be_at_fault() -> None:
    sent = request_body(ASK, SPEC, Dialect())
    for message in ("max_tokens is not supported", "temperature is unsupported", "response_format is unsupported"):
        assert learn(Dialect(), sent, fault_of(message)) is None
    quoting = Request((Message("user", 'say "temperature": 1'),))
    assert learn(Dialect(), request_body(quoting, SPEC, Dialect()), fault_of("temperature unsupported")) is None


def test_what_was_given_up_is_told() -> None:
    assert adaptations(Dialect(), Dialect(max_tokens_field="max_completion_tokens")) == ()
    told = adaptations(Dialect(), Dialect("max_tokens", False, False, "none", 99))
    assert len(told) == 4
    for word in ("temperature", "reasoning_effort", "none", "99"):
        assert word in " ".join(told)


@pytest.mark.parametrize(
    ("said", "room"),
    [
        (f"{OVERFLOW} (1000 in the messages, 4000 in the completion).", 3096),
        (
            "'max_tokens' is too large. maximum context length is 8192 tokens and your request has 500 input tokens",
            7692,
        ),
        ("maximum context length is 4096 tokens. However, you requested 5000 tokens (4090 in the messages", None),
        ("the request exceeds the available context size", None),
        ("plain", None),
    ],
)
def test_room_that_is_left(said: str, room: int | None) -> None:
    assert completion_room(said) == room


COUNT, WAIT = Fault("provider", "x", "count", 500), Fault("rate_limited", "x", "wait", 429)


def test_pauses_grow_with_full_jitter_and_end_after_four() -> None:
    tries = Tries(started=0.0)
    pauses = []
    for _ in range(4):
        tries.book(COUNT, 0.0)
        pauses.append(next_pause(COUNT, tries, Retries(), 0.0, None, draw=0.5))
    assert pauses == [0.125, 0.25, 0.5, None]
    many = Tries(started=0.0, counted=9)
    assert next_pause(COUNT, many, Retries(attempts=99), 0.0, None, draw=1.0) == 8.0


def test_rate_limits_wait_as_told_and_do_not_count() -> None:
    tries = Tries(started=0.0)
    for second in range(20):
        fault = Fault("rate_limited", "x", "wait", 429, retry_after=1.0)
        tries.book(fault, float(second))
        assert next_pause(fault, tries, Retries(), float(second), None, 0.5) == 1.0
    assert tries.counted == 0


def test_untold_rate_limits_back_off() -> None:
    tries, pauses = Tries(started=0.0), []
    for _ in range(7):
        tries.book(WAIT, 0.0)
        pauses.append(next_pause(WAIT, tries, Retries(), 0.0, None, draw=1.0))
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_patience_counts_only_time_without_any_answer() -> None:
    tries = Tries(started=0.0)
    tries.book(WAIT, 100.0)
    policy = Retries(patience=60.0)
    assert next_pause(WAIT, tries, policy, 150.0, None, 0.0) == 0.5
    assert next_pause(WAIT, tries, policy, 170.0, None, 0.0) is None
    assert next_pause(WAIT, tries, policy, 170.0, 140.0, 0.0) == 0.5, "others are served: our turn comes"
    tomorrow = Fault("rate_limited", "x", "wait", 429, retry_after=86400.0)
    assert next_pause(tomorrow, tries, policy, 101.0, None, 0.0) is None


def test_final_faults_get_no_second_request() -> None:
    tries = Tries(started=0.0)
    assert next_pause(Fault("auth", "x", "stop"), tries, Retries(), 0.0, None, 0.0) is None
    assert next_pause(Fault("provider", "x", "rewrite"), tries, Retries(), 0.0, None, 0.0) is None
    assert next_pause(Fault("empty", "x", "count"), tries, Retries(final=frozenset({"empty"})), 0, None, 0) is None
    assert next_pause(COUNT, tries, Retries(deadline=5.0), 6.0, None, 0.0) is None


def test_no_secret_and_no_novel_in_a_message() -> None:
    said = f"Incorrect API key provided: sk-ab***wxyz, my-own-key, Bearer abcdef123. {'x' * 1000}"
    clean = without_secrets(said, "my-own-key")
    assert "my-own-key" not in clean
    assert "wxyz" not in clean
    assert "abcdef123" not in clean
    assert len(clean) <= 501


def test_errors_say_who_where_and_what() -> None:
    refused = model_error(Fault("auth", "bad", "stop", 401), SPEC, "http://h/v1", "key", "OPENAI_API_KEY", 1)
    assert refused.kind == "auth"
    assert refused.status == 401
    for word in ("target", "'m'", "http://h/v1", "HTTP 401", "OPENAI_API_KEY", "refused", "bad"):
        assert word in str(refused)
    keyless = model_error(Fault("auth", "bad", "stop", 401), SPEC, "http://h", None, "", 1)
    assert "without a key" in str(keyless)
    missing = model_error(Fault("provider", "gone", "stop", 404), SPEC, "http://h", None, "", 1)
    assert "does it lack /v1?" in str(missing)
    page = read_response(200, {}, b"\n<!doctype html><p>Hello", ASK, now=0.0)
    assert isinstance(page, Fault)
    assert page.then == "count"
    assert "wrong (does it lack /v1?): the response is a web page" in str(
        model_error(page, SPEC, "http://h", None, "", 4)
    )
    assert "(4 requests)" in str(model_error(COUNT, SPEC, "http://h", None, "", 4))
    cut = model_error(Fault("truncated", "cut", "count", 200, raw="half"), SPEC, "http://h", None, "", 4)
    assert cut.raw == "half"
