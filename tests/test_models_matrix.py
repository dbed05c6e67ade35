"""Provider × what can happen, against servers that check every byte."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from fakes.openai_server import HANG, FakeOpenAI, Step, status, text
from fakes.provider_server import KEY, MODEL, SPEAKERS, USED, Fails, Outcome, ProviderServer, Says
from pydantic import BaseModel, ConfigDict

from skillopt.models.errors import ErrorKind, ModelError
from skillopt.models.http import HttpChat, open_session
from skillopt.models.limiter import Limiter
from skillopt.models.probe import probe
from skillopt.models.profile import ResolvedRole
from skillopt.models.providers import PROVIDERS
from skillopt.models.resolve import resolve_role
from skillopt.models.structured import ask
from skillopt.models.types import Attempt, Image, Message, Reply, Request, Tool
from skillopt.types import Role

ROWS = tuple(SPEAKERS)
ASK = Request((Message("system", "Be brief."), Message("user", "What is „Ж“?")), max_tokens=400, timeout=5.0)
PNG = Image("image/png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
LOOK = Tool("look_up", "Looks a word up.", {"type": "object", "properties": {"word": {"type": "string"}}})


def settings(provider: str, url: str, key: str = KEY) -> dict[str, Any]:
    """What a user would set."""
    prefix, backend, more = {
        "openai": ("OPENAI", "openai", {}),
        "responses": ("OPENAI", "openai", {}),
        "azure": ("AZURE_OPENAI", "azure_openai", {}),
        "anthropic": ("ANTHROPIC", "anthropic", {}),
        "qwen": ("QWEN_CHAT", "qwen_chat", {"QWEN_CHAT_THINKING_MODE": "disabled"}),
        "minimax": ("MINIMAX", "minimax_chat", {}),
    }[provider]
    where = "ENDPOINT" if provider == "azure" else "BASE_URL"
    environ = {f"{prefix}_API_KEY": key, f"{prefix}_{where}": url, **more}
    api = {"api": "responses"} if provider == "responses" else {}
    return {"environ": environ, "backend": backend, "model": MODEL, **api}


class Ledger:
    def __init__(self) -> None:
        self.attempts: list[Attempt] = []

    def admit(self) -> None: ...

    def record(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)


class Bench:
    """A client of a resolved role that does not really sleep."""

    def __init__(self, role: ResolvedRole, session: Any, **more: Any) -> None:
        self.ledger, self.slept = Ledger(), list[float]()
        self.model = HttpChat.of(role, session, Limiter({role.spec.role: 4}), self.ledger, **more)
        self.model._sleep = self._sleep
        self.model._draw = random.Random(1).random

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


Job = Callable[[HttpChat], Coroutine[Any, Any, Any]]


def on(role: ResolvedRole, job: Job, **more: Any) -> tuple[Any, Bench]:
    """What ``job`` returns or raises, and the bench it ran on."""

    async def main() -> tuple[Any, Bench]:
        async with open_session() as session:
            bench = Bench(role, session, **more)
            try:
                return await job(bench.model), bench
            except ModelError as error:
                return error, bench

    return asyncio.run(main())


def run(
    provider: str,
    script: list[Outcome],
    job: Job | Request = ASK,
    *,
    role: Role = "target",
    key: str = KEY,
    **more: Any,
) -> tuple[Any, Bench, ProviderServer]:
    """One job at a server of ``provider``."""
    request = job
    work: Job = (lambda model: model.complete(request)) if isinstance(request, Request) else request
    with ProviderServer(provider, script) as server:
        resolved = resolve_role(role, **{**settings(provider, server.url, key), **more})
        result, bench = on(resolved, work)
    assert key not in str(result)
    return result, bench, server


@pytest.mark.parametrize("role", ["target", "optimizer"])
@pytest.mark.parametrize("provider", ROWS)
def test_text(provider: str, role: Role) -> None:
    got, bench, server = run(provider, [Says("A letter, „Ж“.")], role=role)
    assert server.complaints == []
    assert isinstance(got, Reply)
    assert (got.text, got.tool_calls) == ("A letter, „Ж“.", ())
    (asked,) = server.asked
    assert (asked.system, asked.turns, asked.max_tokens) == ("Be brief.", [("user", "What is „Ж“?")], 400)
    assert [(attempt.role, attempt.kind) for attempt in bench.ledger.attempts] == [(role, "ok")]
    assert bench.model.adaptations == ()


@pytest.mark.parametrize("provider", ROWS)
def test_usage(provider: str) -> None:
    got, bench, _ = run(provider, [Says("Yes.")])
    assert (got.usage.prompt_tokens, got.usage.completion_tokens) == (USED["prompt"], USED["completion"])
    assert got.usage.cached_tokens == USED["cached"]
    assert got.usage.reasoning_tokens == (0 if provider == "anthropic" else USED["reasoning"])
    assert bench.ledger.attempts[0].usage == got.usage


@pytest.mark.parametrize("provider", ROWS)
def test_tools(provider: str) -> None:
    async def job(model: HttpChat) -> Reply:
        request = Request(ASK.messages, max_tokens=400, tools=(LOOK,), tool_choice="required")
        first = await model.complete(request)
        assert [(call.name, json.loads(call.arguments)) for call in first.tool_calls] == [
            ("look_up", {"word": "Ж"}),
            ("look_up", {"word": "Z"}),
        ]
        assert first.text in ("", "I look.")
        results = tuple(Message("tool", f"result {call.id}", tool_call_id=call.id) for call in first.tool_calls)
        said = Message("assistant", first.text, tool_calls=first.tool_calls)
        return await model.complete(Request((*ASK.messages, said, *results), max_tokens=400, tools=(LOOK,)))

    calls = [("look_up", {"word": "Ж"}), ("look_up", {"word": "Z"})]
    for words in ("", "I look."):
        got, _, server = run(provider, [Says(words, calls=calls), Says("A letter.")], job)
        assert server.complaints == []
        assert got.text == "A letter."
        first, second = server.asked
        assert (first.tools, first.choice, second.choice) == (["look_up"], "required", "auto")
        assert [(name, arguments) for _, name, arguments in second.calls] == calls
        ids = [id_ for id_, _, _ in second.calls]
        assert second.results == [(id_, f"result {id_}") for id_ in ids]


@pytest.mark.parametrize("provider", ROWS)
def test_image(provider: str) -> None:
    request = Request((Message("user", "What is this?", images=(PNG, PNG)),), max_tokens=400)
    got, _, server = run(provider, [Says("Stripes.")], request)
    assert server.complaints == []
    assert got.text == "Stripes."
    assert server.asked[0].images == [PNG.data, PNG.data]
    assert server.asked[0].turns == [("user", "What is this?")]


class Verdict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    answer: str


@pytest.mark.parametrize("provider", ROWS)
def test_structured(provider: str) -> None:
    got, _, server = run(provider, [Says('{"answer": "Ж"}')], lambda model: ask(model, ASK, Verdict))
    assert server.complaints == []
    assert got.value == Verdict(answer="Ж")
    assert server.asked[0].schema == (None if provider == "minimax" else Verdict.model_json_schema())


@pytest.mark.parametrize("provider", ROWS)
def test_a_wrong_key_costs_one_request(provider: str) -> None:
    got, _, server = run(provider, [Says("never")], key="sk-something-else")
    assert (got.kind, len(server.requests)) == ("auth", 1)
    assert "API_KEY" in str(got), "where the key came from"


@pytest.mark.parametrize("provider", ROWS)
def test_a_rate_limit_is_waited_out_as_told(provider: str) -> None:
    got, bench, server = run(provider, [*[Fails("rate", "0.01")] * 5, Says("At last.")])
    assert got.text == "At last."
    assert bench.slept == [0.01] * 5
    assert len(server.requests) == 6


@pytest.mark.parametrize("provider", [row for row in ROWS if row != "minimax"])  # it has no such error
def test_an_overloaded_server_with_a_date_is_a_rate_limit(provider: str) -> None:
    got, bench, _ = run(provider, [*[Fails("overloaded", "0.01")] * 5, Fails("overloaded"), Says("At last.")])
    assert got.text == "At last."
    assert bench.slept[:5] == [0.01] * 5
    assert [attempt.kind for attempt in bench.ledger.attempts] == ["rate_limited"] * 5 + ["provider", "ok"]


# what the server does -> the kind of the error, how many requests it costs
ENDS: list[tuple[str, Outcome, ErrorKind, int]] = [
    ("500", Fails("server"), "provider", 4),
    ("timeout", HANG, "timeout", 4),
    ("truncated", Says("half a rep", cut=True), "truncated", 4),
    ("empty", Says(" \n"), "empty", 4),
    ("overflow", Fails("overflow"), "context_overflow", 1),
    ("refused", Says("", refused=True), "refused", 1),
    ("no money", Fails("money"), "rate_limited", 1),
]


@pytest.mark.parametrize("provider", ROWS)
@pytest.mark.parametrize(("outcome", "kind", "requests"), [pytest.param(*row[1:], id=row[0]) for row in ENDS])
def test_what_ends_a_call(provider: str, outcome: Outcome, kind: ErrorKind, requests: int) -> None:
    patience = 0.4 if kind == "timeout" else 10.0  # a busy machine is slow to answer
    got, bench, server = run(provider, [outcome], Request(ASK.messages, max_tokens=400, timeout=patience))
    assert isinstance(got, ModelError)
    assert (got.kind, len(server.requests)) == (kind, requests)
    assert server.complaints == []
    assert [attempt.kind for attempt in bench.ledger.attempts] == [kind] * requests
    assert len(bench.slept) == requests - 1
    if kind == "truncated":
        assert got.raw == "half a rep"
        assert bench.ledger.attempts[0].usage.completion_tokens == USED["completion"], "it is paid"


@pytest.mark.parametrize("provider", ROWS)
def test_what_passes_is_tried_again(provider: str) -> None:
    got, _, server = run(provider, [Fails("server"), Says("  "), Fails("server"), Says("Yes.")])
    assert (got.text, len(server.requests)) == ("Yes.", 4)


@pytest.mark.parametrize("provider", ROWS)
def test_the_probe(provider: str) -> None:
    for outcome in (Says("OK"), Says("O", cut=True)):
        got, _, server = run(provider, [outcome], probe)
        assert got is None
        assert len(server.requests) == 1
        assert server.complaints == []


@pytest.mark.parametrize("provider", ROWS)
def test_a_path_that_leads_nowhere_is_final(provider: str) -> None:
    with ProviderServer(provider, [Says("never")]) as server:
        got, _ = on(resolve_role("target", **settings(provider, f"{server.url}/else")), lambda m: m.complete(ASK))
    assert (got.kind, got.status, len(server.requests)) == ("provider", 404, 1)


# settings that have their own way to a provider


def test_caps_of_the_role_hold() -> None:
    for provider, prefix in (("qwen", "QWEN_CHAT"), ("minimax", "MINIMAX"), ("anthropic", "ANTHROPIC")):
        with ProviderServer(provider, [Says("Yes.")]) as server:
            given = settings(provider, server.url)
            given["environ"][f"{prefix}_MAX_TOKENS"] = "123"
            got, bench = on(resolve_role("target", **given), lambda model: model.complete(ASK))
        assert got.text == "Yes."
        assert server.asked[0].max_tokens == 123
        assert bench.model.adaptations == (), "the user's own cap is nothing to tell"


def test_a_timeout_of_the_role_replaces_that_of_requests() -> None:
    with ProviderServer("qwen", [HANG]) as server:
        given = settings("qwen", server.url)
        given["environ"]["QWEN_CHAT_TIMEOUT_SECONDS"] = "0.1"
        got, _ = on(resolve_role("target", **given), lambda model: model.complete(ASK))
    assert got.kind == "timeout"
    assert "0.1 s" in str(got)


def test_a_probe_keeps_its_own_timeout() -> None:
    with ProviderServer("qwen", [HANG]) as server:
        given = settings("qwen", server.url)
        given["environ"]["QWEN_CHAT_TIMEOUT_SECONDS"] = "600"
        got, _ = on(resolve_role("target", **given), lambda model: probe(model, timeout=0.1))
    assert got.kind == "timeout"


def test_thinking_switches_reach_the_server() -> None:
    for mode, sent in (("enabled", True), ("disabled", False), ("server_default", None)):
        with ProviderServer("qwen", [Says("Yes.")]) as server:
            given = settings("qwen", server.url)
            given["environ"]["QWEN_CHAT_THINKING_MODE"] = mode
            on(resolve_role("target", **given), lambda model: model.complete(ASK))
        assert server.asked[0].thinking == (None if sent is None else {"enable_thinking": sent})
    for value, kind in (("true", "adaptive"), ("false", "disabled")):
        with ProviderServer("minimax", [Says("Yes.")]) as server:
            given = settings("minimax", server.url)
            given["environ"]["MINIMAX_ENABLE_THINKING"] = value
            on(resolve_role("target", **given), lambda model: model.complete(ASK))
        assert server.asked[0].thinking == {"type": kind}


def test_anthropic_thinks_within_its_budget() -> None:
    async def job(model: HttpChat) -> Reply:
        first = await model.complete(Request(ASK.messages, max_tokens=400, temperature=0.5, tools=(LOOK,)))
        said = Message("assistant", first.text, tool_calls=first.tool_calls)
        result = Message("tool", "", tool_call_id=first.tool_calls[0].id)
        return await model.complete(Request((*ASK.messages, said, result), max_tokens=400, tools=(LOOK,)))

    thinking = {"thinking": {"type": "enabled", "budget_tokens": 2048}}
    script = [Says("I look.", calls=[("look_up", {})]), Says("Yes.")]
    got, _, server = run("anthropic", [*script], job, parameters=thinking)
    assert server.complaints == []
    assert got.text == "Yes."
    assert [asked.max_tokens for asked in server.asked] == [2448, 400]
    assert server.asked[0].thinking == thinking["thinking"]


def test_anthropic_may_stream() -> None:
    request = Request(ASK.messages, max_tokens=400, tools=(LOOK,))
    script = [Says("A letter, „Ж“.", calls=[("look_up", {"word": "Ж"})])]
    whole, _, _ = run("anthropic", [*script], request)
    streamed, _, server = run("anthropic", [*script], request, parameters={"stream": True})
    assert server.asked[0].stream
    assert streamed == whole


def test_anthropic_keeps_the_shared_prefix() -> None:
    skill = Message("system", "The skill. " * 400)
    got, _, server = run("anthropic", [Says("Yes.")], Request((skill, ASK.messages[1]), max_tokens=400))
    assert server.asked[0].cached == 1
    assert got.usage.cache_write_tokens == 16


def test_what_anthropic_refuses_is_learnt_once() -> None:
    def script(asked: Any) -> Outcome:
        if asked.effort:
            return refused("output_config.effort: Extra inputs are not permitted")
        if asked.schema:
            return refused("output_config.format: Extra inputs are not permitted")
        return Says('{"answer": "Ж"}')

    async def job(model: HttpChat) -> list[Any]:
        return [await ask(model, ASK, Verdict) for _ in range(3)]

    with ProviderServer("anthropic", script) as server:
        role = resolve_role("target", **settings("anthropic", server.url), reasoning_effort="high")
        got, bench = on(role, job)
    assert [each.value for each in got] == [Verdict(answer="Ж")] * 3
    assert len(server.requests) == 5
    assert len(bench.model.adaptations) == 2


def refused(said: str) -> Any:
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    return Step(400, json.dumps(body).encode())


class Token:
    """A credential as Azure's: it counts how often it is asked."""

    def __init__(self, error: ModelError | None = None) -> None:
        self.asked = 0
        self._error = error

    async def headers(self) -> dict[str, str]:
        self.asked += 1
        if self._error is not None:
            raise self._error
        return {"Authorization": "Bearer the-access-token"}

    def secrets(self) -> tuple[str, ...]:
        return ("the-access-token",)


def with_token(step: Any, token: Token) -> tuple[Any, FakeOpenAI]:
    with FakeOpenAI([step]) as server:
        role = resolve_role("target", environ={}, base_url=server.url, model="m")
        got, bench = on(role, lambda model: model.complete(ASK), credential=token)
    assert len(bench.ledger.attempts) == len(server.requests)
    return got, server


def test_a_token_stands_in_for_a_key() -> None:
    token = Token()
    got, server = with_token(text("Yes."), token)
    assert (got.text, token.asked) == ("Yes.", 1)
    assert server.requests[0].headers["authorization"] == "Bearer the-access-token"
    got, _ = with_token(status(401, "the-access-token is not for this audience"), token)
    assert got.kind == "auth"
    assert "the-access-token" not in str(got)
    assert "sign-in" in str(got)
    got, server = with_token(text("never"), Token(ModelError("auth", "no Azure token: az login")))
    assert (got.kind, server.requests) == ("auth", [])
    assert "target model 'm'" in str(got)
    assert "az login" in str(got)


# every row of the table


@pytest.mark.parametrize(
    "name", [row.name for row in PROVIDERS.values() if row.protocol == "chat" and row.auth == "bearer" and row.prefix]
)
def test_every_row_of_the_chat_protocol_speaks(name: str) -> None:
    prefix = PROVIDERS[name].prefix
    with FakeOpenAI([text("Yes.")]) as server:
        environ = {f"{prefix}_API_KEY": KEY, f"{prefix}_BASE_URL": server.url}
        got, _ = on(resolve_role("optimizer", environ=environ, backend=name, model="m"), lambda m: m.complete(ASK))
    assert got.text == "Yes."
    (request,) = server.requests
    assert (request.target, request.headers["authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert request.body["model"] == "m"
