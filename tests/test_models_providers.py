"""Which provider serves a role: a table over environments."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from skillopt.engine.models import RoleCheck
from skillopt.models.errors import ProviderError
from skillopt.models.providers import PROVIDERS
from skillopt.models.resolve import resolve_role
from skillopt.models.types import ModelSpec, Reply, Request
from skillopt.models.urls import normalise_base_url, operation_url, proxy_for

KEY, COMPAT = "sk-openai-secret", "compat-secret"
GATE = "http://gate.example/v1"

# environment, arguments -> provider, model, base URL, key, source of the key
CASES: list[tuple[dict[str, str], dict[str, Any], tuple[str, str, str, str | None, str]]] = [
    (
        {"OPENAI_API_KEY": KEY},
        {"model": "gpt-x"},
        ("openai", "gpt-x", "https://api.openai.com/v1", KEY, "OPENAI_API_KEY"),
    ),
    (
        {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": GATE + "/chat/completions/"},
        {"model": "m"},
        ("openai", "m", GATE, KEY, "OPENAI_API_KEY"),
    ),
    (
        {"OPENAI_COMPATIBLE_API_KEY": COMPAT, "OPENAI_COMPATIBLE_BASE_URL": GATE},
        {"model": "m"},
        ("openai_compatible", "m", GATE, COMPAT, "OPENAI_COMPATIBLE_API_KEY"),
    ),
    (
        {"OPENAI_API_KEY": KEY, "OPENAI_COMPATIBLE_API_KEY": COMPAT, "OPENAI_COMPATIBLE_BASE_URL": GATE},
        {"model": "m"},
        ("openai", "m", "https://api.openai.com/v1", KEY, "OPENAI_API_KEY"),
    ),
    (  # a role's own key wins for that role
        {"OPENAI_API_KEY": KEY, "TARGET_OPENAI_API_KEY": "own", "TARGET_OPENAI_BASE_URL": GATE},
        {"model": "m"},
        ("openai", "m", GATE, "own", "TARGET_OPENAI_API_KEY"),
    ),
    (
        {"OPENAI_API_KEY": KEY, "TARGET_OPENAI_COMPATIBLE_API_KEY": "own", "TARGET_OPENAI_COMPATIBLE_BASE_URL": GATE},
        {"model": "m"},
        ("openai_compatible", "m", GATE, "own", "TARGET_OPENAI_COMPATIBLE_API_KEY"),
    ),
    (  # the other role's key selects nothing here
        {"OPENAI_API_KEY": KEY, "OPTIMIZER_OPENAI_COMPATIBLE_API_KEY": COMPAT},
        {"model": "m"},
        ("openai", "m", "https://api.openai.com/v1", KEY, "OPENAI_API_KEY"),
    ),
    (  # many servers of one's own need no key
        {"OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"},
        {"model": "m"},
        ("openai", "m", "http://127.0.0.1:8000/v1", None, ""),
    ),
    ({}, {"model": "m", "base_url": GATE}, ("openai_compatible", "m", GATE, None, "")),
    (
        {"OPENAI_API_KEY": KEY},
        {"model": "m", "base_url": GATE},
        ("openai", "m", GATE, KEY, "OPENAI_API_KEY"),
    ),
    (
        {"OPENAI_API_KEY": KEY, "OPENAI_COMPATIBLE_BASE_URL": GATE},
        {"model": "m", "backend": "openai_compatible"},
        ("openai_compatible", "m", GATE, None, ""),
    ),
    (
        {"OPENAI_API_KEY": KEY, "OPENAI_COMPATIBLE_BASE_URL": GATE},
        {"model": "m", "backend": "openai-compatible", "role_backend": "openai_chat"},  # "openai_chat" is unset
        ("openai_compatible", "m", GATE, None, ""),
    ),
    (
        {"OPENAI_API_KEY": KEY, "OPENAI_COMPATIBLE_BASE_URL": GATE},
        {"model": "m", "backend": "openai_compatible", "role_backend": "openai"},
        ("openai", "m", "https://api.openai.com/v1", KEY, "OPENAI_API_KEY"),
    ),
    ({}, {"model": "local/qwen2.5-coder-1.5b"}, ("local", "qwen2.5-coder-1.5b", "", None, "")),
    ({"OPENAI_API_KEY": KEY}, {"model": "models/tiny.Q4.gguf"}, ("local", "models/tiny.Q4.gguf", "", None, "")),
    ({"OPENAI_API_KEY": KEY}, {"model": "", "backend": "local"}, ("local", "qwen2.5-coder-1.5b", "", None, "")),
    ({}, {"model": "gpt-5.5", "backend": "local"}, ("local", "qwen2.5-coder-1.5b", "", None, "")),
    (
        {"OPENAI_API_KEY": KEY},
        {"model": "openai/gpt-5.5-mini"},
        ("openai", "gpt-5.5-mini", "https://api.openai.com/v1", KEY, "OPENAI_API_KEY"),
    ),
    (
        {"OPENAI_API_KEY": KEY},
        {"model": "meta-llama/x"},
        ("openai", "meta-llama/x", "https://api.openai.com/v1", KEY, "OPENAI_API_KEY"),
    ),
    (  # a router has names like that of its own
        {"OPENAI_COMPATIBLE_API_KEY": COMPAT, "OPENAI_COMPATIBLE_BASE_URL": GATE},
        {"model": "openai/gpt-5.5-mini"},
        ("openai_compatible", "openai/gpt-5.5-mini", GATE, COMPAT, "OPENAI_COMPATIBLE_API_KEY"),
    ),
    (
        {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": GATE},
        {"model": "openai/gpt-5.5-mini"},
        ("openai", "openai/gpt-5.5-mini", GATE, KEY, "OPENAI_API_KEY"),
    ),
    (
        {"OPENAI_API_KEY": KEY, "OPENAI_COMPATIBLE_API_KEY": COMPAT, "OPENAI_COMPATIBLE_BASE_URL": GATE},
        {"model": "openai_compatible/meta/x"},
        ("openai_compatible", "meta/x", GATE, COMPAT, "OPENAI_COMPATIBLE_API_KEY"),
    ),
    ({"OPENAI_API_KEY": KEY}, {}, ("openai", "gpt-5.5", "https://api.openai.com/v1", KEY, "OPENAI_API_KEY")),
    (
        {"OPENAI_COMPATIBLE_BASE_URL": GATE, "OPENAI_COMPATIBLE_MODEL": "served"},
        {},
        ("openai_compatible", "served", GATE, None, ""),
    ),
    ({"OPENAI_API_KEY": f" {KEY}\n"}, {}, ("openai", "gpt-5.5", "https://api.openai.com/v1", KEY, "OPENAI_API_KEY")),
]


@pytest.mark.parametrize(("environ", "arguments", "expected"), CASES)
def test_resolution(
    environ: dict[str, str], arguments: dict[str, Any], expected: tuple[str, str, str, str | None, str]
) -> None:
    got = resolve_role("target", environ=environ, **arguments)
    assert (got.spec.provider, got.spec.model, got.spec.base_url, got.api_key, got.key_source) == expected
    assert got.spec.role == "target"
    assert got.profile.name == expected[0]


# environment, arguments -> words of the refusal
REFUSED: list[tuple[dict[str, str], dict[str, Any], list[str]]] = [
    ({}, {}, ["target", "OPENAI_API_KEY", "TARGET_OPENAI_API_KEY", "OPENAI_COMPATIBLE_BASE_URL", "--backend local"]),
    ({"OPENAI_API_KEY": "  "}, {}, ["OPENAI_API_KEY", "--backend local"]),
    ({}, {}, ["ANTHROPIC_API_KEY"]),
    (
        {"TARGET_AZURE_OPENAI_API_KEY": "a"},
        {},
        ["TARGET_AZURE_OPENAI_API_KEY is set, but AZURE_OPENAI_ENDPOINT is not"],
    ),
    ({"OPTIMIZER_OPENAI_API_KEY": KEY}, {}, ["target", "TARGET_OPENAI_API_KEY"]),
    ({}, {"backend": "openai"}, ["target", "no key", "OPENAI_API_KEY", "TARGET_OPENAI_API_KEY", "--backend local"]),
    ({}, {"model": "openai/gpt-x"}, ["no key", "OPENAI_API_KEY"]),
    ({"OPENAI_API_KEY": KEY}, {"backend": "azure_openai"}, ["target", "AZURE_OPENAI_ENDPOINT"]),
    ({"OPENAI_API_KEY": KEY}, {"backend": "opnai"}, ["unknown backend 'opnai'", "openai_compatible"]),
    ({"OPENAI_API_KEY": "two\nlines"}, {}, ["OPENAI_API_KEY", "line break"]),
    ({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "gate.example/v1"}, {}, ["OPENAI_BASE_URL", "https://host/v1"]),
    ({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://me:pw@gate/v1"}, {}, ["OPENAI_BASE_URL", "password"]),
    ({"OPENAI_BASE_URL": GATE}, {}, ["no model is named", "model.target"]),
    ({"OPENAI_COMPATIBLE_API_KEY": "k", "OPENAI_COMPATIBLE_TEMPERATURE": "warm"}, {}, ["TEMPERATURE='warm'"]),
]


@pytest.mark.parametrize(("environ", "arguments", "words"), REFUSED)
def test_refusals_say_what_to_do(environ: dict[str, str], arguments: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ProviderError) as caught:
        resolve_role("target", environ=environ, **arguments)
    message = str(caught.value)
    assert not [word for word in words if word not in message], message
    assert KEY not in message
    assert "pw" not in message


def test_a_key_is_in_no_repr() -> None:
    role = resolve_role("target", environ={"OPENAI_API_KEY": KEY})
    assert KEY not in repr(role)


def test_choices_made_for_the_user_are_told() -> None:
    both = {"OPENAI_API_KEY": KEY, "OPENAI_COMPATIBLE_API_KEY": COMPAT}
    assert "several keys" in " ".join(resolve_role("optimizer", environ=both).notes)
    keyless = resolve_role("target", environ={"OPENAI_BASE_URL": GATE}, model="m")
    assert "no key" in " ".join(keyless.notes)
    assert resolve_role("target", environ={"OPENAI_API_KEY": KEY}).notes == ()


def test_the_first_dialect_follows_the_host() -> None:
    real = resolve_role("target", environ={"OPENAI_API_KEY": KEY})
    gate = resolve_role("target", environ={"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": GATE}, model="m")
    assert real.profile.max_tokens_field == "max_completion_tokens"
    assert gate.profile.max_tokens_field == "max_tokens"


def test_the_local_row() -> None:
    local = resolve_role("target", environ={}, backend="local", model="m")
    assert local.profile.grammar
    assert local.profile.json_schema
    assert local.spec.reply_style == "compact"
    assert not PROVIDERS["local"].needs_key


def test_settings_of_the_call() -> None:
    environ = {
        "OPENAI_COMPATIBLE_BASE_URL": GATE,
        "OPENAI_COMPATIBLE_TEMPERATURE": "0.3",
        "OPENAI_COMPATIBLE_MAX_TOKENS": "100",
        "TARGET_OPENAI_COMPATIBLE_TIMEOUT_SECONDS": "7",
    }
    role = resolve_role("target", environ=environ, model="m", reasoning_effort="", parameters={"top_k": 1})
    assert role.spec.temperature == 0.3
    assert (role.max_tokens, role.timeout) == (100, 7.0)
    assert role.spec.reasoning_effort is None
    assert role.spec.parameters == {"top_k": 1}
    assert resolve_role("target", environ=environ, model="m", temperature=0.0).spec.temperature == 0.0


@pytest.mark.parametrize(
    ("given", "base", "chat"),
    [
        ("https://API.openai.com", "https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
        ("http://h/v1/", "http://h/v1", "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions", "http://h/v1", "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions/", "http://h/v1", "http://h/v1/chat/completions"),
        ("http://h:8000", "http://h:8000", "http://h:8000/chat/completions"),
        ("localhost:11434/v1", "http://localhost:11434/v1", "http://localhost:11434/v1/chat/completions"),
        (" http://h/v1 ", "http://h/v1", "http://h/v1/chat/completions"),
        ("http://h/v1?api-version=2", "http://h/v1?api-version=2", "http://h/v1/chat/completions?api-version=2"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1", "http://[::1]:8000/v1/chat/completions"),
        ("http://bücher.example/v1", "http://bücher.example/v1", "http://bücher.example/v1/chat/completions"),
    ],
)
def test_urls_are_forgiven(given: str, base: str, chat: str) -> None:
    assert normalise_base_url(given) == base
    assert operation_url(given, "/chat/completions") == chat


@pytest.mark.parametrize(
    "bad",
    [
        *("ftp://h/v1", "https://", "h:99999/v1", "http://h:99999/v1", "just words"),
        *("https://evil.example\\.openai.azure.com/v1", "https://evil.example%2f.openai.azure.com", "https://a b/v1"),
        *("https://[::1].openai.azure.com/v1", "https://a,b/v1"),
    ],
)
def test_urls_that_are_none(bad: str) -> None:
    with pytest.raises(ProviderError):
        normalise_base_url(bad)


@pytest.mark.parametrize(
    ("url", "environ", "expected"),
    [
        ("https://h/v1", {}, None),
        ("https://h/v1", {"HTTPS_PROXY": "http://p:3128"}, "http://p:3128"),
        ("http://h/v1", {"HTTPS_PROXY": "http://p:3128"}, None),
        ("http://h/v1", {"ALL_PROXY": "p:3128"}, "http://p:3128"),
        ("https://h/v1", {"ALL_PROXY": "socks5://p:1080"}, None),
        ("https://h/v1", {"HTTPS_PROXY": "http://p:1", "https_proxy": "http://q:2"}, "http://q:2"),
        ("https://api.h.example/v1", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "x.y, .h.example"}, None),
        ("https://api.h.example/v1", {"HTTPS_PROXY": "http://p:1", "no_proxy": "*"}, None),
        ("https://other/v1", {"HTTPS_PROXY": "http://p:1", "no_proxy": "h.example"}, "http://p:1"),
        ("http://127.0.0.1:8080/v1", {"HTTP_PROXY": "http://p:1"}, None),
    ],
)
def test_proxies(url: str, environ: dict[str, str], expected: str | None) -> None:
    assert proxy_for(url, environ) == expected


@pytest.mark.parametrize(
    "query", ["key=sk-live-1234567", "api_key=abc", "v=1&access_token=abc", "sig=abc", "v=1&code=abc", "auth=abc"]
)
def test_a_key_in_the_query_of_a_base_url_is_refused_and_not_shown(query: str) -> None:
    with pytest.raises(ProviderError, match="must not hold a key") as refused:
        normalise_base_url(f"https://host/v1?{query}")
    assert query not in str(refused.value)
    assert normalise_base_url("https://host/v1?api-version=2") == "https://host/v1?api-version=2"


@pytest.mark.parametrize("key", ["sk-live-1234567", "gsk_4fQx9Zt2LmNc8Rw1", "0123456789abcdef0123456789abcdef"])
def test_a_key_in_place_of_a_base_url_is_not_shown(key: str) -> None:
    with pytest.raises(ProviderError, match=r"\*\*\*.*OPENAI_BASE_URL") as refused:
        resolve_role("target", environ={"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": key})
    assert key[:6] not in str(refused.value)
    assert refused.value.setting == "OPENAI_BASE_URL"


@pytest.mark.parametrize("url", ["ftp://me:s3cret@host/v1", "http://me:s3cret@[::1", "me:s3cret@host/v1"])
def test_a_password_in_a_bad_url_is_not_shown(url: str) -> None:
    with pytest.raises(ProviderError) as caught:
        normalise_base_url(url)
    assert "s3cret" not in str(caught.value)
    assert "host" in str(caught.value) or "::1" in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "seconds"), [("openai", 30.0), ("ollama", 30.0), ("codex_exec", 120.0), ("of a plug-in", 30.0)]
)
def test_a_program_has_more_time_for_the_probe(provider: str, seconds: float) -> None:
    asked: list[float] = []

    class Client:
        spec = ModelSpec("target", provider, "m", "")

        async def complete(self, request: Request) -> Reply:
            asked.append(request.timeout)
            return Reply("OK")

    asyncio.run(RoleCheck({"target": Client()})())
    assert asked == [seconds]
