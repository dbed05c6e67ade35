"""Azure OpenAI: places of requests over settings, and tokens that go nowhere else."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from skillopt.config import load_config
from skillopt.engine.prepare import role_of
from skillopt.extras import install_hint
from skillopt.models.azure import AzureToken, Token, check_token_url, cli_token, read_cli_token, token_getter
from skillopt.models.errors import ModelError, ProviderError
from skillopt.models.profile import ResolvedRole
from skillopt.models.resolve import resolve_role
from skillopt.models.urls import operation_url

HOST = "https://mine.openai.azure.com"
ENDPOINT = {"AZURE_OPENAI_ENDPOINT": HOST}
KEYED = {**ENDPOINT, "AZURE_OPENAI_API_KEY": "azure-key"}
OLD = "api-version=2024-12-01-preview"
SCOPE = "https://cognitiveservices.azure.com/.default"


def resolved(environ: Mapping[str, str], **arguments: Any) -> ResolvedRole:
    return resolve_role("target", environ=environ, **{"model": "gpt-5.5", **arguments})


# environment, arguments -> URL of a chat request, auth, credential, key
PLACES: list[tuple[dict[str, str], dict[str, Any], tuple[str, str, str, str | None]]] = [
    (KEYED, {}, (f"{HOST}/openai/deployments/gpt-5.5/chat/completions?{OLD}", "api-key", "key", "azure-key")),
    (
        {**KEYED, "AZURE_OPENAI_API_VERSION": "v2"},
        {"model": "my deploy/1"},
        (f"{HOST}/openai/deployments/my%20deploy%2F1/chat/completions?api-version=v2", "api-key", "key", "azure-key"),
    ),
    (  # the address of an operation, as the portal shows it
        {**KEYED, "AZURE_OPENAI_ENDPOINT": f"{HOST}/openai/deployments/other/chat/completions?api-version=v3"},
        {},
        (f"{HOST}/openai/deployments/gpt-5.5/chat/completions?api-version=v3", "api-key", "key", "azure-key"),
    ),
    (  # a gateway, and a server of one's own
        {**KEYED, "AZURE_OPENAI_ENDPOINT": "http://127.0.0.1:9/stem/"},
        {},
        (f"http://127.0.0.1:9/stem/openai/deployments/gpt-5.5/chat/completions?{OLD}", "api-key", "key", "azure-key"),
    ),
    (
        {**KEYED, "AZURE_OPENAI_ENDPOINT": f"{HOST}/openai/v1/"},
        {},
        (f"{HOST}/openai/v1/chat/completions", "api-key", "key", "azure-key"),
    ),
    (
        {**KEYED, "AZURE_OPENAI_AUTH_MODE": "key", "TARGET_AZURE_OPENAI_API_KEY": "own"},
        {},
        (f"{HOST}/openai/deployments/gpt-5.5/chat/completions?{OLD}", "api-key", "key", "own"),
    ),
    (  # prefix, then infix, then what both roles have
        {**KEYED, "AZURE_OPENAI_TARGET_API_KEY": "infix", "AZURE_OPENAI_OPTIMIZER_API_KEY": "not mine"},
        {},
        (f"{HOST}/openai/deployments/gpt-5.5/chat/completions?{OLD}", "api-key", "key", "infix"),
    ),
    (
        {**KEYED, "AZURE_OPENAI_TARGET_API_KEY": "infix", "TARGET_AZURE_OPENAI_API_KEY": "prefix"},
        {},
        (f"{HOST}/openai/deployments/gpt-5.5/chat/completions?{OLD}", "api-key", "key", "prefix"),
    ),
    (
        {**KEYED, "AZURE_OPENAI_AUTH_MODE": "compat", "AZURE_OPENAI_ENDPOINT": "http://gate.example/v1"},
        {},
        ("http://gate.example/v1/chat/completions", "bearer", "key", "azure-key"),
    ),
    (
        {"AZURE_OPENAI_AUTH_MODE": "openai", "AZURE_OPENAI_ENDPOINT": "http://gate.example/v1"},
        {},
        ("http://gate.example/v1/chat/completions", "bearer", "key", None),
    ),
    (ENDPOINT, {}, (f"{HOST}/openai/deployments/gpt-5.5/chat/completions?{OLD}", "bearer", "azure_cli", None)),
    (
        {**KEYED, "AZURE_OPENAI_AUTH_MODE": "aad", "AZURE_OPENAI_MANAGED_IDENTITY_CLIENT_ID": "me"},
        {},
        (f"{HOST}/openai/deployments/gpt-5.5/chat/completions?{OLD}", "bearer", "managed_identity", None),
    ),
    (
        {**KEYED, "TARGET_DEPLOYMENT": "mine", "OPTIMIZER_DEPLOYMENT": "other"},
        {},
        (f"{HOST}/openai/deployments/mine/chat/completions?{OLD}", "api-key", "key", "azure-key"),
    ),
    (
        {**KEYED, "TARGET_DEPLOYMENT": "mine"},
        {"model": "named"},
        (f"{HOST}/openai/deployments/named/chat/completions?{OLD}", "api-key", "key", "azure-key"),
    ),
]


@pytest.mark.parametrize("backend", ["auto", "openai_chat", "azure"])
@pytest.mark.parametrize(("environ", "arguments", "expected"), PLACES)
def test_places(
    backend: str, environ: dict[str, str], arguments: dict[str, Any], expected: tuple[str, str, str, str | None]
) -> None:
    found = resolved(environ, backend=backend, **arguments)
    url = operation_url(found.spec.base_url, "/chat/completions")
    assert (url, found.profile.auth, found.credential, found.api_key) == expected
    assert found.spec.provider == "azure_openai"
    assert found.profile.max_tokens_field == "max_completion_tokens"
    assert found.ad_scope == ("" if found.credential == "key" else SCOPE)
    assert found.client_id == ("me" if found.credential == "managed_identity" else "")


def test_responses_name_the_deployment_in_their_body() -> None:
    found = resolved(KEYED, model="gpt-5.3-codex")
    assert found.profile.protocol == "responses"
    url = operation_url(found.spec.base_url, "/responses")
    assert url == f"{HOST}/openai/responses?api-version=2025-04-01-preview"
    old = resolved({**KEYED, "AZURE_OPENAI_API_VERSION": "v9"}, model="gpt-5.3-codex")
    assert old.spec.base_url.endswith("?api-version=v9")


@pytest.mark.parametrize(
    ("environ", "backend", "provider"),
    [
        ({**KEYED, "OPENAI_API_KEY": "k"}, "auto", "openai"),
        ({**KEYED, "OPENAI_API_KEY": "k"}, "openai_chat", "openai"),
        ({**KEYED, "OPENAI_API_KEY": "k"}, "azure-openai", "azure_openai"),
        ({**KEYED, "ANTHROPIC_API_KEY": "k"}, "auto", "azure_openai"),
        ({**ENDPOINT, "GROQ_API_KEY": "k"}, "auto", "azure_openai"),
        ({**KEYED, "TARGET_GROQ_API_KEY": "k"}, "auto", "groq"),
        ({"AZURE_OPENAI_API_KEY": "k", "OPENAI_API_KEY": "k"}, "auto", "openai"),
    ],
)
def test_azure_beside_others(environ: dict[str, str], backend: str, provider: str) -> None:
    assert resolved(environ, backend=backend).spec.provider == provider


REFUSED = [
    ({"AZURE_OPENAI_API_KEY": "k"}, "azure", "target: Azure OpenAI needs an endpoint: set AZURE_OPENAI_ENDPOINT"),
    ({**ENDPOINT, "AZURE_OPENAI_AUTH_MODE": "api_key"}, "azure", "no key for Azure OpenAI .*AZURE_OPENAI_API_KEY"),
    ({**KEYED, "AZURE_OPENAI_AUTH_MODE": "hope"}, "azure", "AZURE_OPENAI_AUTH_MODE='hope' must be one of api_key"),
    ({"AZURE_OPENAI_ENDPOINT": "http://mine.openai.azure.com"}, "auto", "only sent to https hosts of Azure"),
    ({"AZURE_OPENAI_ENDPOINT": "https://evil.example"}, "auto", "not to evil.example"),
    ({"AZURE_OPENAI_ENDPOINT": "https://openai.azure.com.evil.example"}, "azure", "only sent to https hosts"),
    ({"AZURE_OPENAI_ENDPOINT": "https://evilopenai.azure.com"}, "azure", "only sent to https hosts"),
    ({**KEYED, "AZURE_OPENAI_API_KEY": "a b"}, "azure", "AZURE_OPENAI_API_KEY holds characters"),
]


@pytest.mark.parametrize(("environ", "backend", "words"), REFUSED)
def test_refusals(environ: dict[str, str], backend: str, words: str) -> None:
    with pytest.raises(ProviderError, match=words):
        resolved(environ, backend=backend)


@pytest.mark.parametrize("prefix", ["azure_", "azure_openai_", "target_azure_openai_"])
def test_the_configuration_before_the_environment(prefix: str) -> None:
    overrides = [f"model.{prefix}endpoint=https://c.openai.azure.com", f"model.{prefix}api_key=from-the-file"]
    config = load_config(None, ["env.name=x", f"model.{prefix}api_version=v", *overrides])
    found = role_of(config, "target", {})
    assert (found.spec.base_url, found.api_key) == (
        "https://c.openai.azure.com/openai/deployments/gpt-5.5?api-version=v",
        "from-the-file",
    )
    assert role_of(config, "target", KEYED).spec.base_url == found.spec.base_url
    assert "from-the-file" not in repr(found) + repr(config)


def test_the_new_name_of_a_key_outranks_the_old_one() -> None:
    both = [
        "model.azure_endpoint=https://old.openai.azure.com",
        "model.azure_openai_endpoint=https://new.openai.azure.com",
    ]
    config = load_config(None, ["env.name=x", "model.azure_api_key=key-1234", *both])
    assert role_of(config, "target", {}).spec.base_url.startswith("https://new.")


# tokens


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_a_token_is_got_once_and_renewed_five_minutes_before_it_expires() -> None:
    clock, given = Clock(), [Token("first-token", 4600.0), Token("second-token", 9000.0)]
    calls: list[float] = []

    def get() -> Token:
        calls.append(clock.now)
        return given[len(calls) - 1]

    async def use() -> None:
        tokens = AzureToken(get, f"{HOST}/openai", now=clock)
        many = await asyncio.gather(*(tokens.headers() for _ in range(20)))
        assert many == [{"Authorization": "Bearer first-token"}] * 20
        clock.now = 4300.0
        assert await tokens.headers() == {"Authorization": "Bearer first-token"}
        clock.now = 4301.0
        assert await tokens.headers() == {"Authorization": "Bearer second-token"}
        assert tokens.secrets() == ("second-token",)
        assert "token" not in repr(tokens)

    asyncio.run(use())
    assert calls == [1000.0, 4301.0]


def test_a_token_that_cannot_be_got_is_asked_for_again_next_time() -> None:
    answers: list[Token | ModelError] = [ModelError("auth", "not logged in"), Token("t", 1e12)]

    def get() -> Token:
        answer = answers.pop(0)
        if isinstance(answer, ModelError):
            raise answer
        return answer

    async def use() -> None:
        tokens = AzureToken(get, HOST)
        with pytest.raises(ModelError, match="not logged in"):
            await tokens.headers()
        assert await tokens.headers() == {"Authorization": "Bearer t"}

    asyncio.run(use())


@pytest.mark.parametrize(
    "url",
    [
        HOST,
        "https://a.cognitiveservices.azure.com/x",
        "https://a.services.ai.azure.com",
        "https://A.OpenAI.Azure.us:443",
    ],
)
def test_hosts_that_may_get_a_token(url: str) -> None:
    check_token_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://a.openai.azure.com",
        "https://openai.azure.com",
        "https://a.openai.azure.com@evil.example/",
        "https://evil.example/a.openai.azure.com",
        "https://evil.example#.openai.azure.com",
        "https://127.0.0.1",
        "",
    ],
)
def test_hosts_that_may_not(url: str) -> None:
    def never() -> Token:
        raise AssertionError("no token may be asked for")

    with pytest.raises(ProviderError, match="only sent to https hosts of Azure"):
        AzureToken(never, url)


@pytest.mark.parametrize(
    ("answer", "token"),
    [
        ({"accessToken": "t", "expires_on": 5000}, Token("t", 5000.0)),
        ({"accessToken": "t", "expires_on": "5000"}, Token("t", 5000.0)),
        ({"accessToken": "t", "expiresOn": "2026-01-01 10:00:00.000000"}, Token("t", 3100.0)),
        ({"accessToken": "t", "expires_on": "soon"}, Token("t", 3100.0)),
    ],
)
def test_what_the_azure_cli_prints(answer: dict[str, Any], token: Token) -> None:
    assert read_cli_token(json.dumps(answer), 100.0) == token


@pytest.mark.parametrize("output", ["", "[]", "null", "{}", "Please run az login"])
def test_output_without_a_token(output: str) -> None:
    with pytest.raises(ModelError, match="holds none") as refused:
        read_cli_token(output, 0.0)
    assert refused.value.kind == "auth"


def program(folder: Path, body: str) -> str:
    path = folder / "az"
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_the_azure_cli_is_asked_for_the_resource_of_the_scope(tmp_path: Path) -> None:
    expected = "account get-access-token --resource https://cognitiveservices.azure.com --output json"
    body = f'[ "$*" = "{expected}" ] || exit 9\necho \'{{"accessToken": "from-az", "expires_on": 77}}\''
    az = program(tmp_path, body)
    assert cli_token(az, SCOPE, {}) == Token("from-az", 77.0)


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_what_the_azure_cli_complains_of_is_shown(tmp_path: Path) -> None:
    az = program(tmp_path, "echo 'ERROR: run az login first' >&2\necho more >&2\nexit 1")
    with pytest.raises(ModelError, match=r"az says: ERROR: run az login first \(try: az login\)"):
        cli_token(az, SCOPE, {})
    with pytest.raises(ModelError, match="az cannot be run"):
        cli_token(str(tmp_path / "nowhere"), SCOPE, {})


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_where_tokens_come_from_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillopt.models.azure._has_library", lambda: False)
    role = resolved(ENDPOINT)
    with pytest.raises(ProviderError, match="the Azure CLI is not here: set AZURE_OPENAI_API_KEY"):
        token_getter(role, {"PATH": str(tmp_path)})
    program(tmp_path, 'echo \'{"accessToken": "from-az", "expires_on": 77}\'')
    assert token_getter(role, {"PATH": str(tmp_path)})() == Token("from-az", 77.0)
    identity = resolved({**ENDPOINT, "AZURE_OPENAI_AUTH_MODE": "managed_identity"})
    with pytest.raises(ProviderError, match=f"needs azure-identity: {re.escape(install_hint('azure'))}"):
        AzureToken.of(identity, {})
