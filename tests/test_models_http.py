"""The HTTP client against a real server on this machine: every fault, every count, every byte."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp
import pytest
from fakes.openai_server import (
    BAD_BODY,
    CUT_BODY,
    HANG,
    RESET,
    FakeOpenAI,
    Received,
    Step,
    completion,
    reply,
    status,
    text,
)

from skillopt.models import http
from skillopt.models.errors import ErrorKind, ModelError, StopRequested
from skillopt.models.http import HttpChat, open_session
from skillopt.models.limiter import Limiter
from skillopt.models.probe import probe, probe_request
from skillopt.models.providers import PROVIDERS
from skillopt.models.resolve import resolve_role
from skillopt.models.retries import Retries
from skillopt.models.types import Attempt, Message, ModelSpec, Reply, Request, Usage

KEY = "the-secret-key"
ASK = Request((Message("system", "Be brief."), Message("user", "What is „Ж“?")), max_tokens=50, timeout=5.0)


class Ledger:
    """A meter that keeps what it books, and stops after ``limit`` requests."""

    def __init__(self, limit: int = 10_000) -> None:
        self.admitted = 0
        self.limit = limit
        self.attempts: list[Attempt] = []

    def admit(self) -> None:
        if self.admitted >= self.limit:
            raise StopRequested("budget")
        self.admitted += 1

    def record(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)

    @property
    def kinds(self) -> list[str]:
        return [attempt.kind for attempt in self.attempts]


class Bench:
    """One model at a server, and all it leaves behind."""

    def __init__(self, url: str, session: aiohttp.ClientSession, workers: int, limit: int, **settings: Any) -> None:
        environ = {"OPENAI_COMPATIBLE_BASE_URL": url, "TARGET_OPENAI_COMPATIBLE_API_KEY": KEY}
        role = resolve_role("target", environ=environ, model="m", **settings)
        self.meter, self.limiter = Ledger(limit), Limiter({"target": workers})
        self.slept: list[float] = []
        self.model = HttpChat(
            role.spec,
            role.profile,
            role.api_key,
            session,
            self.limiter,
            self.meter,
            key_source=role.key_source,
            sleep=self._sleep,
            jitter=random.Random(1),
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(min(seconds, 0.05))


def on(
    url: str, job: Callable[[Bench], Coroutine[Any, Any, Any]], workers: int = 8, limit: int = 10_000, **settings: Any
) -> tuple[Any, Bench]:
    """Runs ``job`` with a bench at ``url``; what it raised comes back as its result."""

    async def main() -> tuple[Any, Bench]:
        async with open_session() as session:
            bench = Bench(url, session, workers, limit, **settings)
            try:
                result = await job(bench)
            except (ModelError, StopRequested) as error:
                result = error
            state = bench.limiter.state()
            assert (state.in_flight, state.waiting) == (0, 0)
            assert len(bench.meter.attempts) == bench.meter.admitted
            return result, bench

    return asyncio.run(main())


def one(request: Request = ASK) -> Callable[[Bench], Coroutine[Any, Any, Reply]]:
    return lambda bench: bench.model.complete(request)


def test_a_reply_and_every_byte_of_its_request() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
    with FakeOpenAI([text("Zhe.", usage=usage)]) as server:
        got, bench = on(server.url, one(), parameters={"top_k": 1})
    assert got == Reply("Zhe.", Usage(9, 3, 4))
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"] == "SkillOpt"
    assert "cookie" not in request.headers
    assert (
        request.raw
        == (
            '{"model":"m","messages":[{"role":"system","content":"Be brief."},'
            '{"role":"user","content":"What is „Ж“?"}],"max_tokens":50,"top_k":1}'
        ).encode()
    )
    (attempt,) = bench.meter.attempts
    assert (attempt.role, attempt.stage, attempt.kind, attempt.usage) == ("target", "rollout", "ok", Usage(9, 3, 4))
    assert 0 < attempt.seconds < 5
    assert bench.slept == []


def test_without_a_key_no_key_is_sent() -> None:
    async def job(url: str) -> None:
        role = resolve_role("target", environ={}, base_url=url, model="m")
        async with open_session() as session:
            await HttpChat.of(role, session, Limiter({"target": 1}), Ledger()).complete(ASK)

    with FakeOpenAI([text("hi")]) as server:
        asyncio.run(job(server.url))
    assert "authorization" not in server.requests[0].headers


OVERFLOW = status(400, "This model's maximum context length is 8 tokens.", code="context_length_exceeded")

# what the server does -> kind, requests, what the message says
FINAL: list[tuple[str, Step, ErrorKind, int, str]] = [
    (
        "401",
        status(401, f"Incorrect API key provided: {KEY}"),
        "auth",
        1,
        "refused the key from TARGET_OPENAI_COMPATIBLE_API_KEY",
    ),
    ("403", status(403, "no access"), "auth", 1, "no access"),
    ("404", status(404, "no such model"), "provider", 1, "no such model, or the base URL is wrong: no such"),
    ("400", status(400, "strange request"), "provider", 1, "strange request"),
    ("overflow", OVERFLOW, "context_overflow", 1, "maximum context length"),
    ("refusal", text(None, refusal="I will not."), "refused", 1, "I will not."),
    ("filter", text("", finish="content_filter"), "refused", 1, "content filter"),
    ("quota", status(429, "You exceeded it", code="insufficient_quota"), "rate_limited", 1, "billing"),
    ("redirect", status(308, "", {"Location": "http://127.0.0.1:1/v1"}), "provider", 1, "redirects"),
    ("500", status(500, "broken inside"), "provider", 4, "broken inside"),
    ("503", status(503, "no upstream"), "provider", 4, "no upstream"),
    ("reset", RESET, "provider", 4, "connection was lost"),
    ("cut body", CUT_BODY, "provider", 4, "cut"),
    ("bad body", BAD_BODY, "provider", 4, "not valid JSON"),
    ("bad HTTP", Step(payload=b"", headers={"Content-Length": "x"}), "provider", 4, "HTTP"),
    ("no choices", reply({"choices": []}), "provider", 4, "no message"),
    ("truncated", text("half a rep", finish="length"), "truncated", 4, "cut at 5 completion tokens"),
    ("empty", text(""), "empty", 4, "empty"),
    ("only thoughts", text("<think>hm</think>"), "empty", 4, "empty"),
    ("tomorrow", status(429, "daily limit", {"Retry-After": "86400"}), "rate_limited", 1, "daily limit"),
]


@pytest.mark.parametrize(("step", "kind", "requests", "word"), [pytest.param(*row[1:], id=row[0]) for row in FINAL])
def test_what_ends_a_call(step: Step, kind: ErrorKind, requests: int, word: str) -> None:
    with FakeOpenAI([step]) as server:
        error, bench = on(server.url, one())
    assert isinstance(error, ModelError)
    assert error.kind == kind
    assert word in str(error)
    assert "target model 'm'" in str(error)
    assert KEY not in str(error)
    assert len(server.requests) == requests
    assert bench.meter.kinds == [kind] * requests
    assert len(bench.slept) == requests - 1, "no sleep after the last request"
    assert (f"({requests} requests)" in str(error)) == (requests > 1)


def test_a_truncated_reply_is_kept_and_paid_for() -> None:
    with FakeOpenAI([text("half a rep", finish="length")]) as server:
        error, bench = on(server.url, one())
    assert error.raw == "half a rep"
    assert sum(attempt.usage.total_tokens for attempt in bench.meter.attempts) == 60


@pytest.mark.parametrize("step", [status(500), status(502), status(408), RESET, CUT_BODY, BAD_BODY, text("")])
def test_what_can_pass_passes(step: Step) -> None:
    with FakeOpenAI([step, step, step, text("at last")]) as server:
        got, bench = on(server.url, one())
    assert got.text == "at last"
    assert bench.meter.kinds[-1] == "ok"
    assert len(server.requests) == 4
    for nth, pause in enumerate(bench.slept):
        assert 0 <= pause <= 0.25 * 2**nth
    assert len({request.raw for request in server.requests}) == 1


def test_a_rate_limit_waits_as_told_and_does_not_count() -> None:
    limited = status(429, "slow down", {"Retry-After": "0.02"})
    busy = status(503, "busy", {"Retry-After": "0.01"})
    with FakeOpenAI([*[limited] * 5, busy, status(500), status(500), status(500), text("ok")]) as server:
        got, bench = on(server.url, one())
    assert got.text == "ok"
    assert bench.slept[:6] == [0.02] * 5 + [0.01]
    assert bench.meter.kinds == ["rate_limited"] * 6 + ["provider"] * 3 + ["ok"]


def test_patience_with_rate_limits_ends() -> None:
    with FakeOpenAI([status(429, "slow down", {"Retry-After": "0.03"})]) as server:
        error, _ = on(server.url, lambda bench: bench.model.complete(ASK, Retries(patience=0.2)))
    assert error.kind == "rate_limited"
    assert 3 <= len(server.requests) <= 10


def test_a_storm_does_not_make_every_caller_send() -> None:
    began = time.monotonic()

    def weather(request: Received) -> Step:
        storm = request.at - began < 0.8
        return status(429, headers={"Retry-After": "0.1"}) if storm else text("ok", delay=0.002)

    async def job(bench: Bench) -> list[Reply]:
        return list(await asyncio.gather(*[bench.model.complete(ASK) for _ in range(60)]))

    with FakeOpenAI(weather) as server:
        got, bench = on(server.url, job, workers=16)
    assert [reply.text for reply in got] == ["ok"] * 60
    refused = bench.meter.kinds.count("rate_limited")
    assert refused <= 16 + 8 + 4 + 2 + 10, f"{refused} requests into the storm"
    assert server.peak <= 16


def test_a_hung_server_times_out_and_counts() -> None:
    with FakeOpenAI([HANG, HANG, text("ok")]) as server:
        got, bench = on(server.url, one(Request(ASK.messages, timeout=0.4)))
    assert got.text == "ok"
    assert bench.meter.kinds == ["timeout", "timeout", "ok"]
    assert all(attempt.seconds < 1 for attempt in bench.meter.attempts)


def test_the_timeout_covers_the_body_too() -> None:
    with FakeOpenAI([Step(fault="cut", payload=b"{", headers={"Connection": "keep-alive"})]) as server:
        # the promised rest of the body never comes, and here the connection stays open as well
        server._answer = _never_closing(server)  # type: ignore[method-assign]
        error, _ = on(server.url, lambda bench: bench.model.complete(Request(ASK.messages, timeout=0.15)))
    assert error.kind == "timeout"
    assert "0.15 s" in str(error)


def _never_closing(server: FakeOpenAI) -> Callable[..., Coroutine[Any, Any, bool]]:
    answer = FakeOpenAI._answer

    async def wrapped(step: Step, writer: asyncio.StreamWriter) -> bool:
        await answer(server, step, writer)
        return True

    return wrapped


def test_a_dead_port_is_named() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    error, bench = on(f"http://127.0.0.1:{port}/v1", one())
    assert error.kind == "provider"
    assert "cannot connect" in str(error)
    assert f"http://127.0.0.1:{port}/v1/chat/completions" in str(error)
    assert len(bench.meter.attempts) == 4


def test_cancelling_frees_the_place_and_is_booked() -> None:
    async def job(bench: Bench) -> None:
        task = asyncio.create_task(bench.model.complete(ASK))
        while not bench.meter.admitted:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with FakeOpenAI([HANG]) as server:
        _, bench = on(server.url, job, workers=1)
    assert bench.meter.kinds == ["cancelled"]


def test_a_spent_budget_sends_nothing_more() -> None:
    with FakeOpenAI([status(500)]) as server:
        stopped, bench = on(server.url, one(), limit=2)
    assert isinstance(stopped, StopRequested)
    assert len(server.requests) == 2
    assert len(bench.meter.attempts) == 2


def test_no_place_is_held_while_a_call_sleeps() -> None:
    async def job(bench: Bench) -> list[Reply]:
        return list(await asyncio.gather(bench.model.complete(ASK), bench.model.complete(ASK)))

    def script(request: Received) -> Step:
        return status(500) if request.number == 0 else text("ok")

    with FakeOpenAI(script) as server:
        got, bench = on(server.url, job, workers=1)
    assert [reply.text for reply in got] == ["ok", "ok"]
    assert bench.meter.kinds == ["provider", "ok", "ok"]


# dialects: what the server accepts, judged by the body


def picky(*refused: str) -> Callable[[Received], Step]:
    """A server that refuses the fields and response formats named."""

    def script(request: Received) -> Step:
        body = request.body
        for name in refused:
            if name in body:
                return status(400, f"Unsupported parameter: '{name}' is not supported with this model.", param=name)
            if body.get("response_format", {}).get("type") == name:
                return status(400, f"Invalid parameter: 'response_format' of type '{name}' is not supported.")
        return text("ok", delay=0.01)

    return script


FULL = Request(ASK.messages, max_tokens=50, temperature=0.5, reasoning_effort="low", json_schema={"type": "object"})


@pytest.mark.parametrize(
    ("refused", "requests", "last"),
    [
        (["max_tokens"], 2, {"max_completion_tokens": 50}),
        (["temperature"], 2, {"temperature": None}),
        (["reasoning_effort"], 2, {"reasoning_effort": None}),
        (["json_schema"], 2, {"response_format": {"type": "json_object"}}),
        (["response_format"], 3, {"response_format": None}),
        (["max_tokens", "temperature", "reasoning_effort", "json_schema", "json_object"], 6, {"temperature": None}),
    ],
)
def test_a_dialect_is_learnt_once(refused: list[str], requests: int, last: dict[str, Any]) -> None:
    async def job(bench: Bench) -> list[Reply]:
        return [await bench.model.complete(FULL) for _ in range(3)]

    with FakeOpenAI(picky(*refused)) as server:
        got, bench = on(server.url, job)
    assert [reply.text for reply in got] == ["ok"] * 3
    assert len(server.requests) == requests + 2
    assert bench.slept == []
    assert {name: server.bodies[-1].get(name) for name in last} == last
    assert bool(bench.model.adaptations) == (refused != ["max_tokens"])


def test_learning_does_not_use_up_the_four_requests() -> None:
    def script(request: Received) -> Step:
        refusal = picky("max_tokens", "temperature")(request)
        return refusal if refusal.status == 400 else text("ok") if request.number == 5 else status(500)

    with FakeOpenAI(script) as server:
        got, _ = on(server.url, one(FULL))
    assert got.text == "ok"
    assert len(server.requests) == 6


def test_a_server_that_takes_neither_field_ends_the_call() -> None:
    with FakeOpenAI(picky("max_tokens", "max_completion_tokens")) as server:
        error, _ = on(server.url, one())
    assert error.kind == "provider"
    assert len(server.requests) == 2


def test_callers_learn_together() -> None:
    async def job(bench: Bench) -> list[Reply]:
        return list(await asyncio.gather(*[bench.model.complete(FULL) for _ in range(40)]))

    with FakeOpenAI(picky("max_tokens", "temperature")) as server:
        got, _ = on(server.url, job, workers=4)
    assert len(got) == 40
    refusals = len(server.requests) - 40
    assert refusals <= 2 * 4, "only what was in flight when the lesson came"


def test_a_smaller_completion_limit_is_learnt() -> None:
    def script(request: Received) -> Step:
        if request.body["max_tokens"] > 20:
            return status(400, "max_tokens is too large: 50. This model supports at most 20 completion tokens.")
        return text("ok")

    with FakeOpenAI(script) as server:
        _, bench = on(server.url, one())
    assert [body["max_tokens"] for body in server.bodies] == [50, 20]
    assert "at most 20" in bench.model.adaptations[0]


def test_a_small_context_window_gets_what_room_it_has() -> None:
    said = "This model's maximum context length is 200 tokens and your request has 110 input tokens."
    request = Request(ASK.messages, max_tokens=150)

    def script(received: Received) -> Step:
        return status(400, said) if received.body["max_tokens"] > 90 else text("ok")

    with FakeOpenAI(script) as server:
        _, bench = on(server.url, one(request))
    assert [body["max_tokens"] for body in server.bodies] == [150, 90]
    assert bench.model.adaptations == (), "it holds for this prompt only"


def test_thoughts_are_stripped_and_missing_usage_is_estimated() -> None:
    with FakeOpenAI([text("<think>\nlong\n</think>\n\nParis", usage=None, reasoning_content="more")]) as server:
        got, bench = on(server.url, one())
    assert got.text == "Paris"
    assert got.usage.prompt_tokens > 0
    assert bench.meter.attempts[0].usage == got.usage


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("code", [200, 500])
def test_a_response_that_would_fill_the_memory_is_not_read(
    code: int, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MOST_BYTES", 1 << 20)
    body = b" " * (1 << 20) + json.dumps(completion("late")).encode()
    step = Step(code, gzip.compress(body) if packed else body, {"Content-Encoding": "gzip"} if packed else {})
    with FakeOpenAI([step, text("after it")]) as server:
        got, bench = on(server.url, one())
        again, _ = on(server.url, one())
    assert isinstance(got, ModelError)
    assert (got.kind, got.status) == ("provider", code)
    assert "the response has more than 1 MiB" in str(got)
    assert (bench.slept, bench.meter.kinds) == ([], ["provider"]), "it is not asked again"
    assert again.text == "after it"


def test_a_response_of_the_greatest_length_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps(completion("x" * 300_000)).encode()
    monkeypatch.setattr(http, "MOST_BYTES", len(body))
    with FakeOpenAI([Step(payload=body)]) as server:
        got, _ = on(server.url, one())
    assert len(got.text) == 300_000


def test_a_proxy_is_used_when_there_is_one() -> None:
    async def job(url: str) -> Reply:
        environ = {"OPENAI_COMPATIBLE_BASE_URL": "http://model.example/v1", "HTTP_PROXY": url}
        role = resolve_role("target", environ=environ, model="m")
        async with open_session() as session:
            return await HttpChat.of(role, session, Limiter({"target": 1}), Ledger()).complete(ASK)

    with FakeOpenAI([text("by proxy")]) as server:
        got = asyncio.run(job(server.url.removesuffix("/v1")))
    assert got.text == "by proxy"
    assert server.requests[0].target == "http://model.example/v1/chat/completions"


def test_a_proxy_that_is_down_is_named() -> None:
    async def job() -> None:
        async with open_session() as session:
            spec, limiter = ModelSpec("target", "openai", "m", "http://model.example/v1"), Limiter({"target": 1})
            proxy = "http://u:pass-word@127.0.0.1:9"
            model = HttpChat(spec, PROVIDERS["openai"], None, session, limiter, Ledger(), proxy=proxy)
            await model.complete(ASK, Retries(attempts=1))

    with pytest.raises(ModelError, match=r"cannot connect to the proxy 127\.0\.0\.1:9: ") as down:
        asyncio.run(job())
    assert "pass-word" not in str(down.value)


# the probe


def test_the_probe_is_one_short_call() -> None:
    with FakeOpenAI([text("OK")]) as server:
        result, bench = on(server.url, lambda bench: probe(bench.model))
    assert result is None
    assert len(server.requests) == 1
    assert server.bodies[0]["max_tokens"] == 16
    assert len(server.requests[0].raw) < 200
    assert bench.meter.attempts[0].stage == "probe"


@pytest.mark.parametrize("step", [text("", finish="length"), text("O", finish="length"), text("")])
def test_a_cut_or_empty_probe_still_proves_an_answer(step: Step) -> None:
    with FakeOpenAI([step]) as server:
        result, _ = on(server.url, lambda bench: probe(bench.model))
    assert result is None
    assert len(server.requests) == 1


def test_the_probe_names_what_is_wrong() -> None:
    with FakeOpenAI([status(401, "bad key")]) as server:
        error, _ = on(server.url, lambda bench: probe(bench.model))
    assert isinstance(error, ModelError)
    assert error.kind == "auth"
    assert len(server.requests) == 1


def test_the_probe_bears_one_bad_moment() -> None:
    with FakeOpenAI([status(500), status(429, headers={"Retry-After": "0.01"}), text("OK")]) as server:
        result, _ = on(server.url, lambda bench: probe(bench.model))
    assert result is None


def test_the_probe_gives_a_hung_server_one_chance() -> None:
    async def job(bench: Bench) -> None:
        await bench.model.complete(probe_request(timeout=0.2), Retries(deadline=0.1))

    with FakeOpenAI([HANG]) as server:
        error, _ = on(server.url, job)
    assert error.kind == "timeout"
    assert len(server.requests) == 1


def test_the_probe_works_with_any_model() -> None:
    class Other:
        spec = resolve_role("target", environ={}, backend="local").spec

        async def complete(self, request: Request) -> Reply:
            raise ModelError("empty", "nothing")

    asyncio.run(probe(Other()))


def test_the_server_thread_ends_with_its_block() -> None:
    before = threading.active_count()
    with FakeOpenAI([HANG]):
        pass
    assert threading.active_count() == before
