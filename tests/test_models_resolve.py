"""Every provider over environments and configurations: which is chosen, and what is settled about it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from fakes.folders import read_json
from fakes.world import World, prepared, run
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from skillopt.config import load_config
from skillopt.config.provider_names import ALIASES, ProviderName
from skillopt.engine.prepare import role_of, thinking_modes
from skillopt.envs.base import Env
from skillopt.models.errors import ProviderError
from skillopt.models.profile import ResolvedRole
from skillopt.models.providers import PROVIDERS
from skillopt.models.resolve import require, resolve_role
from skillopt.models.settings import Settings
from skillopt.types import Role

KEY = "a-key-of-mine"
ROOT = Path(__file__).parent.parent
ROLES: tuple[Role, ...] = ("optimizer", "target")
KEYED = [row for row in PROVIDERS.values() if row.needs_key and row.name != "azure_openai"]
AGENTS = ["claude_code_exec", "cursor_exec", "copilot_exec"]


def resolved(role: Role = "target", environ: Mapping[str, str] | None = None, **arguments: Any) -> ResolvedRole:
    return resolve_role(role, environ=environ or {}, **{"model": "gpt-5.5", **arguments})


def configured(role: Role, environ: Mapping[str, str], *overrides: str) -> ResolvedRole:
    """A role as a configuration file resolves it."""
    return role_of(load_config(None, ["env.name=x", *overrides]), role, environ)


# the table


def test_the_table_has_a_row_for_every_name_and_no_other() -> None:
    assert sorted(PROVIDERS) == sorted(get_args(ProviderName))
    assert all(row.name == name and row.note for name, row in PROVIDERS.items())


def test_no_two_providers_share_a_setting() -> None:
    prefixes = [row.prefix for row in PROVIDERS.values() if row.prefix]
    assert len(prefixes) == len(set(prefixes))


def test_every_provider_is_in_the_documentation_and_every_variable_in_the_example() -> None:
    page = (ROOT / "docs/providers.md").read_text(encoding="utf-8")
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    for row in PROVIDERS.values():
        assert f"| `{row.name}` |" in page
        if row.needs_key:
            assert f"\n#{row.prefix}_API_KEY=" in example
    assert [alias for alias in ALIASES if f"`{alias}`" not in page] == []


# which provider


@pytest.mark.parametrize("row", KEYED, ids=lambda row: row.name)
@pytest.mark.parametrize("role", ROLES)
def test_the_only_key_chooses_its_provider(row: Any, role: Role) -> None:
    for variable in (f"{row.prefix}_API_KEY", f"{role.upper()}_{row.prefix}_API_KEY"):
        model = "" if row.default_model else "some-model"
        found = resolved(role, {variable: KEY}, model=model)
        assert (found.spec.provider, found.api_key, found.key_source) == (row.name, KEY, variable)
        assert found.spec.model == (row.default_model or model)
        assert found.spec.base_url == row.base_url
        assert "several keys" not in " ".join(found.notes)


@pytest.mark.parametrize("row", KEYED, ids=lambda row: row.name)
def test_a_provider_that_is_named_needs_its_own_key(row: Any) -> None:
    environ = {f"{other.prefix}_API_KEY": "other" for other in KEYED if other is not row}
    environ["OPTIMIZER_" + row.prefix + "_API_KEY"] = "for the other role"
    with pytest.raises(ProviderError, match=rf"target: no key for {row.name} .*{row.prefix}_API_KEY") as refused:
        resolved(environ=environ, backend=row.name)
    assert "--backend local" in str(refused.value)


SEVERAL = [
    ("OPENAI ANTHROPIC", "openai"),
    ("ANTHROPIC OPENROUTER", "openrouter"),
    ("ANTHROPIC GROQ MINIMAX", "minimax_chat"),
    ("ANTHROPIC TARGET_ANTHROPIC OPENAI", "anthropic"),
    ("OPENAI OPTIMIZER_GROQ", "openai"),
    ("GEMINI OPENAI_COMPATIBLE", "openai_compatible"),
]


@pytest.mark.parametrize(("prefixes", "expected"), SEVERAL)
def test_of_several_keys_an_openai_style_one_comes_first_and_it_is_said(prefixes: str, expected: str) -> None:
    environ = {f"{prefix}_API_KEY": f"key-{prefix}" for prefix in prefixes.split()}
    found = resolved(environ=environ)
    assert found.spec.provider == expected
    own = "TARGET_ANTHROPIC" in prefixes or "OPTIMIZER" in prefixes
    assert ("several keys are set" in " ".join(found.notes)) is not own
    assert resolved(environ=environ, role_backend=PROVIDERS[expected].name).notes == tuple(
        note for note in found.notes if "several" not in note
    )


ANTHROPIC, OPENAI = {"ANTHROPIC_API_KEY": KEY}, {"OPENAI_API_KEY": KEY}
ROUTER = {"OPENROUTER_API_KEY": KEY}
GATE = "http://gate.example/v1"

# environment, arguments -> provider, model
CHOICES: list[tuple[dict[str, str], dict[str, Any], tuple[str, str]]] = [
    # a name with its provider
    (ANTHROPIC, {"model": "anthropic/claude-x"}, ("anthropic", "claude-x")),
    ({**OPENAI, **ANTHROPIC}, {"model": "anthropic/claude-x"}, ("anthropic", "claude-x")),
    (ROUTER, {"model": "anthropic/claude-x"}, ("openrouter", "anthropic/claude-x")),
    ({**ROUTER, **OPENAI}, {"model": "openai/gpt-x"}, ("openai", "gpt-x")),
    (ROUTER, {"model": "openrouter/meta/llama"}, ("openrouter", "meta/llama")),
    (ROUTER, {"model": "openrouter/auto"}, ("openrouter", "openrouter/auto")),
    ({**ROUTER, **OPENAI}, {"model": "openrouter/meta/llama"}, ("openrouter", "meta/llama")),
    ({"GROQ_API_KEY": KEY}, {"model": "qwen/qwen3-32b"}, ("groq", "qwen/qwen3-32b")),
    (OPENAI, {"model": "ollama/llama3"}, ("ollama", "llama3")),
    (ROUTER, {"model": "ollama/llama3"}, ("ollama", "llama3")),
    ({}, {"model": "vllm/gpt-5.5"}, ("vllm", "gpt-5.5")),
    ({}, {"model": "claude_chat/claude-x"}, ("claude_chat", "claude-x")),
    (OPENAI, {"model": "codex/gpt-x"}, ("codex_exec", "gpt-x")),
    (OPENAI, {"model": "google/x", "backend": "openrouter", "base_url": GATE}, ("openrouter", "google/x")),
    # names by label and by role
    (OPENAI, {"backend": "claude"}, ("claude_chat", "claude-sonnet-4-6")),
    (ANTHROPIC, {"backend": "anthropic"}, ("anthropic", "claude-sonnet-4-6")),
    (OPENAI, {"backend": "codex"}, ("codex_exec", "gpt-5.5")),
    (OPENAI, {"backend": "openai_chat"}, ("openai", "gpt-5.5")),
    (OPENAI, {"backend": "qwen", "role_backend": "openai_chat"}, ("qwen_chat", "Qwen/Qwen3.5-4B")),
    (OPENAI, {"backend": "qwen", "role_backend": "openai"}, ("openai", "gpt-5.5")),
    (OPENAI, {"backend": "cursor"}, ("cursor_exec", "composer-2.5")),
    (OPENAI, {"backend": "copilot"}, ("copilot_chat", "")),
    (OPENAI, {"backend": "copilot_exec"}, ("copilot_exec", "")),
    ({**OPENAI, "TARGET_BACKEND": "cursor"}, {}, ("cursor_exec", "composer-2.5")),
    ({**OPENAI, "TARGET_BACKEND": "cursor"}, {"backend": "codex"}, ("codex_exec", "gpt-5.5")),
    ({**OPENAI, "OPTIMIZER_BACKEND": "codex"}, {}, ("openai", "gpt-5.5")),
    (OPENAI, {"backend": "openai", "model": "local/qwen2.5-coder-1.5b"}, ("openai", "gpt-5.5")),
    # an address
    ({"OLLAMA_BASE_URL": "http://box:11434/v1"}, {"model": "llama3"}, ("ollama", "llama3")),
    ({**ANTHROPIC, "OPENAI_BASE_URL": GATE}, {"model": "m"}, ("openai", "m")),
    ({**ANTHROPIC, "QWEN_CHAT_BASE_URL": GATE}, {}, ("qwen_chat", "Qwen/Qwen3.5-4B")),
    (ANTHROPIC, {"base_url": GATE, "model": "m"}, ("openai_compatible", "m")),
    (ANTHROPIC, {"base_url": "https://api.anthropic.com"}, ("anthropic", "claude-sonnet-4-6")),
    ({**ROUTER, **OPENAI}, {"base_url": "https://openrouter.ai/api/v1", "model": "m"}, ("openrouter", "m")),
    (OPENAI, {"base_url": "https://openrouter.ai/api/v1", "model": "m"}, ("openai", "m")),
    # a model that nobody named
    (ANTHROPIC, {"model": "gpt-5.4"}, ("anthropic", "claude-sonnet-4-6")),
    (OPENAI, {"model": "gpt-5.4"}, ("openai", "gpt-5.4")),
    (OPENAI, {"model": "openai/gpt-5.5"}, ("openai", "gpt-5.5")),
    (
        {"OPENAI_COMPATIBLE_BASE_URL": GATE, "OPENAI_COMPATIBLE_MODEL": "served"},
        {},
        ("openai_compatible", "served"),
    ),
    ({"OPENAI_COMPATIBLE_BASE_URL": GATE}, {}, ("openai_compatible", "gpt-5.5")),
    ({"MINIMAX_API_KEY": KEY, "MINIMAX_MODEL": "MiniMax-M9"}, {}, ("minimax_chat", "MiniMax-M9")),
    ({"MINIMAX_API_KEY": KEY, "MINIMAX_MODEL": "MiniMax-M9"}, {"model": "mine"}, ("minimax_chat", "mine")),
    ({"COPILOT_CHAT_TARGET_MODEL": "gpt-x"}, {"backend": "copilot"}, ("copilot_chat", "gpt-x")),
    ({"COPILOT_CHAT_OPTIMIZER_MODEL": "gpt-x"}, {"backend": "copilot"}, ("copilot_chat", "")),
]


@pytest.mark.parametrize(("environ", "arguments", "expected"), CHOICES)
def test_choices(environ: dict[str, str], arguments: dict[str, Any], expected: tuple[str, str]) -> None:
    found = resolved(environ=environ, **arguments)
    assert (found.spec.provider, found.spec.model) == expected


REFUSED: list[tuple[Role, dict[str, str], dict[str, Any], str]] = [
    ("target", {}, {"model": "anthropic/claude-x"}, "no key for anthropic .*ANTHROPIC_API_KEY"),
    ("target", OPENAI, {"model": "anthropic/claude-x"}, "no key for anthropic"),
    ("target", {}, {"model": "openrouter/x"}, "OPENROUTER_API_KEY"),
    ("target", {}, {"backend": "ollama"}, "no model is named for ollama: set model.target"),
    (
        "target",
        OPENAI,
        {"model": "anthropic/claude-x", "backend": "openai"},
        "names the provider anthropic, but openai",
    ),
    (
        "optimizer",
        OPENAI,
        {"role_backend": "cursor_exec"},
        "optimizer: cursor_exec works as a target only; .*codex_exec",
    ),
    ("optimizer", OPENAI, {"model": "cursor_exec/x"}, "cursor_exec works as a target only"),
    ("optimizer", {}, {"backend": "claude_code_exec"}, "no model provider is set"),
    ("target", {**OPENAI, "TARGET_BACKEND": "opnai"}, {}, "unknown backend 'opnai'"),
    (
        "target",
        {"MINIMAX_API_KEY": KEY, "MINIMAX_REGION": "mars"},
        {},
        "MINIMAX_REGION='mars' must be one of global_en",
    ),
    ("target", {"QWEN_CHAT_THINKING_MODE": "maybe"}, {"backend": "qwen"}, "QWEN_CHAT_THINKING_MODE='maybe'"),
    ("target", {"QWEN_CHAT_MAX_TOKENS": "0"}, {"backend": "qwen"}, "QWEN_CHAT_MAX_TOKENS='0' must be at least 1"),
    ("target", {"QWEN_CHAT_TIMEOUT_SECONDS": "0"}, {"backend": "qwen"}, "must be more than 0"),
    ("target", {"QWEN_CHAT_TEMPERATURE": "hot"}, {"backend": "qwen"}, "QWEN_CHAT_TEMPERATURE='hot' is not a number"),
    ("target", {"CODEX_EXEC_SANDBOX": "none"}, {"backend": "codex"}, "CODEX_EXEC_SANDBOX='none' must be one of"),
    ("target", {"CODEX_EXEC_USE_SDK": "true"}, {"backend": "codex"}, "CODEX_EXEC_USE_SDK='true' must be one of auto"),
    ("target", {**ANTHROPIC, "ANTHROPIC_THINKING_TOKENS": "12"}, {}, "ANTHROPIC_THINKING_TOKENS=12 must be 0"),
    ("target", {"ANTHROPIC_API_KEY": "two words"}, {}, "ANTHROPIC_API_KEY holds characters"),
]


@pytest.mark.parametrize(("role", "environ", "arguments", "words"), REFUSED)
def test_refusals(role: Role, environ: dict[str, str], arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ProviderError, match=words):
        resolved(role, environ, **arguments)


@pytest.mark.parametrize("agent", AGENTS)
def test_a_label_that_is_a_target_only_leaves_the_optimizer_to_auto(agent: str) -> None:
    target = configured("target", OPENAI, f"model.backend={agent}")
    optimizer = configured("optimizer", OPENAI, f"model.backend={agent}")
    assert (target.spec.provider, optimizer.spec.provider) == (agent, "openai")
    assert f"optimizer: {agent} works as a target only" in " ".join(optimizer.notes)
    assert target.profile.agent
    assert (target.spec.base_url, target.api_key) == ("", None)


@settings(max_examples=60, deadline=None)
@given(st.sets(st.sampled_from(sorted(row.prefix for row in PROVIDERS.values() if row.prefix)), max_size=4))
def test_local_is_never_chosen_by_itself(prefixes: set[str]) -> None:
    environ = {f"{prefix}_{what}": KEY for prefix in prefixes for what in ("API_KEY", "MODEL")}
    keyed = prefixes - {row.prefix for row in PROVIDERS.values() if row.protocol == "cli" or row.name == "azure_openai"}
    if keyed:
        assert resolved(environ=environ).profile.prefix in keyed
    else:
        with pytest.raises(ProviderError, match="--backend local"):
            resolved(environ=environ)


# where a setting comes from

_TIERS = (
    ("configuration", "target_qwen_chat_base_url"),
    ("environment", "TARGET_QWEN_CHAT_BASE_URL"),
    ("configuration", "qwen_chat_base_url"),
    ("environment", "QWEN_CHAT_BASE_URL"),
)


@given(st.sets(st.integers(0, 3)), st.sampled_from(["", " ", None]))
def test_precedence_of_the_places_of_a_setting(places: set[int], blank: str | None) -> None:
    config: dict[str, Any] = {}
    environ: dict[str, str] = {}
    for number, (where, name) in enumerate(_TIERS):
        value = f"http://place{number}/v1" if number in places else blank
        if where == "configuration":
            config[name] = value
        elif value is not None:
            environ[name] = value
    found = resolved(environ=environ, configured=config, backend="qwen_chat")
    expected = f"http://place{min(places)}/v1" if places else PROVIDERS["qwen_chat"].base_url
    assert found.spec.base_url == expected


def test_a_setting_tells_its_source_and_whether_it_is_the_roles_own() -> None:
    config = {"qwen_chat_api_key": SecretStr(" shared "), "minimax_enable_thinking": False, "qwen_chat_max_tokens": 0}
    found = Settings("target", {"TARGET_MINIMAX_API_KEY": KEY}, config)
    key = found.find(("QWEN_CHAT",), "API_KEY")
    assert (key.text, key.source, key.own) == ("shared", "model.qwen_chat_api_key", False)
    assert (found.find(("MINIMAX",), "ENABLE_THINKING").text, bool(found.find(("MINIMAX",), "MODEL"))) == (
        "false",
        False,
    )
    own = found.find(("MINIMAX",), "API_KEY")
    assert (own.source, own.own) == ("TARGET_MINIMAX_API_KEY", True)
    assert "shared" not in repr(found) + repr(key)
    assert KEY not in repr(found) + repr(own)


def test_keys_in_the_configuration_serve_both_roles_or_one() -> None:
    overrides = ["model.backend=minimax", "model.minimax_api_key=both", "model.optimizer_minimax_api_key=own"]
    assert configured("target", {"MINIMAX_API_KEY": "environment"}, *overrides).api_key == "both"
    found = configured("optimizer", {"MINIMAX_API_KEY": "environment"}, *overrides)
    assert (found.api_key, found.key_source) == ("own", "model.optimizer_minimax_api_key")
    assert "own" not in repr(found.spec)


def test_roles_are_mixed() -> None:
    environ = {**ANTHROPIC, "TARGET_QWEN_CHAT_BASE_URL": "http://q:1/v1", "TARGET_QWEN_CHAT_API_KEY": "q"}
    overrides = ["model.optimizer_backend=anthropic", "model.target_backend=qwen"]
    optimizer, target = (configured(role, environ, *overrides) for role in ROLES)
    assert (optimizer.spec.provider, optimizer.api_key) == ("anthropic", KEY)
    assert (target.spec.provider, target.api_key, target.spec.base_url) == ("qwen_chat", "q", "http://q:1/v1")


# what single providers are sent


@pytest.mark.parametrize(
    ("environ", "sent"),
    [
        ({}, None),
        ({"QWEN_CHAT_THINKING_MODE": "server_default"}, None),
        ({"QWEN_CHAT_THINKING_MODE": "enabled"}, True),
        ({"QWEN_CHAT_THINKING_MODE": "Disabled"}, False),
        ({"QWEN_CHAT_ENABLE_THINKING": "true"}, True),
        ({"QWEN_CHAT_ENABLE_THINKING": "0"}, None),
        ({"QWEN_CHAT_ENABLE_THINKING": "true", "QWEN_CHAT_THINKING_MODE": "enabled"}, True),
        ({"QWEN_CHAT_ENABLE_THINKING": "false", "QWEN_CHAT_THINKING_MODE": "disabled"}, False),
        ({"QWEN_CHAT_ENABLE_THINKING": "true", "TARGET_QWEN_CHAT_THINKING_MODE": "disabled"}, False),
        ({"QWEN_CHAT_THINKING_MODE": "disabled", "TARGET_QWEN_CHAT_ENABLE_THINKING": "true"}, True),
    ],
)
def test_the_three_states_of_qwens_thinking(environ: dict[str, str], sent: bool | None) -> None:
    found = resolved(environ=environ, backend="qwen")
    expected = {} if sent is None else {"chat_template_kwargs": {"enable_thinking": sent}}
    assert found.spec.parameters == expected
    mode = {None: "server_default", True: "enabled", False: "disabled"}[sent]
    assert thinking_modes({"target": found}) == {"target": mode}
    assert ("the server decides" in " ".join(found.notes)) is (sent is None)


@pytest.mark.parametrize(("old", "new"), [("true", "disabled"), ("true", "server_default"), ("false", "enabled")])
def test_contradictions_about_thinking_are_refused(old: str, new: str) -> None:
    environ = {"QWEN_CHAT_ENABLE_THINKING": old}
    with pytest.raises(ProviderError, match=rf"thinking_mode={new} contradicts QWEN_CHAT_ENABLE_THINKING={old}"):
        configured("target", environ, "model.backend=qwen", f"model.qwen_chat_thinking_mode={new}")


@pytest.mark.parametrize(
    ("environ", "arguments", "sent"),
    [
        ({}, {}, 0.7),
        ({"QWEN_CHAT_TEMPERATURE": "0"}, {}, 0.0),
        ({"QWEN_CHAT_TEMPERATURE": "off"}, {}, None),
        ({"QWEN_CHAT_TEMPERATURE": "None"}, {}, None),
        ({"QWEN_CHAT_TEMPERATURE": ""}, {}, 0.7),
        ({"QWEN_CHAT_TEMPERATURE": "0.2", "TARGET_QWEN_CHAT_TEMPERATURE": "none"}, {}, None),
        ({"QWEN_CHAT_TEMPERATURE": "0.2"}, {"temperature": 0.4}, 0.4),
    ],
)
def test_temperature(environ: dict[str, str], arguments: dict[str, Any], sent: float | None) -> None:
    assert resolved(environ=environ, backend="qwen", **arguments).spec.temperature == sent


def test_caps_time_limits_and_the_name_of_the_cap() -> None:
    plain = resolved(backend="qwen")
    assert (plain.max_tokens, plain.timeout, plain.profile.max_tokens_field) == (8000, None, "max_tokens")
    environ = {
        "QWEN_CHAT_USE_MAX_COMPLETION_TOKENS": "true",
        "TARGET_QWEN_CHAT_MAX_TOKENS": "9",
        "QWEN_CHAT_TIMEOUT_SECONDS": "1.5",
    }
    found = resolved(environ=environ, backend="qwen")
    assert (found.max_tokens, found.timeout, found.profile.max_tokens_field) == (9, 1.5, "max_completion_tokens")
    assert resolved("optimizer", environ, backend="qwen").max_tokens == 8000
    assert resolved(environ={"COPILOT_CHAT_TIMEOUT": "9"}, backend="copilot").timeout == 9
    assert resolved(environ=OPENAI).max_tokens is None


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, "https://api.minimax.io/v1"),
        ({"MINIMAX_REGION": "global_en"}, "https://api.minimax.io/v1"),
        ({"MINIMAX_REGION": "cn_zh"}, "https://api.minimaxi.com/v1"),
        ({"MINIMAX_REGION": "cn_zh", "MINIMAX_BASE_URL": "http://m/v1/"}, "http://m/v1"),
        ({"TARGET_MINIMAX_REGION": "cn_zh", "MINIMAX_BASE_URL": "http://m/v1"}, "http://m/v1"),
        ({"TARGET_MINIMAX_BASE_URL": "http://t/v1", "MINIMAX_BASE_URL": "http://m/v1"}, "http://t/v1"),
    ],
)
def test_regions_of_minimax(environ: dict[str, str], url: str) -> None:
    assert resolved(environ={"MINIMAX_API_KEY": KEY, **environ}).spec.base_url == url


@pytest.mark.parametrize(
    ("model", "switch", "kind"),
    [
        ("MiniMax-M3", "", "disabled"),
        ("MiniMax-M3", "true", "adaptive"),
        ("MiniMax-M2", "", "adaptive"),
        ("MiniMax-M2.5-highspeed", "false", "adaptive"),
    ],
)
def test_thinking_of_minimax(model: str, switch: str, kind: str) -> None:
    found = resolved(environ={"MINIMAX_API_KEY": KEY, "MINIMAX_ENABLE_THINKING": switch}, model=model)
    assert found.spec.parameters == {"thinking": {"type": kind}}
    assert ("always thinks" in " ".join(found.notes)) is (switch == "false")


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("", "https://api.anthropic.com/v1"),
        ("https://api.anthropic.com", "https://api.anthropic.com/v1"),
        ("http://127.0.0.1:9/", "http://127.0.0.1:9/v1"),
        ("http://127.0.0.1:9/v1/messages", "http://127.0.0.1:9/v1"),
        ("https://gate.example/anthropic", "https://gate.example/anthropic/v1"),
    ],
)
def test_addresses_of_anthropic(given: str, url: str) -> None:
    found = resolved(environ={**ANTHROPIC, "ANTHROPIC_BASE_URL": given})
    assert (found.spec.base_url, found.profile.protocol, found.profile.auth) == (url, "messages", "x-api-key")


def test_thinking_of_anthropic() -> None:
    environ = {**ANTHROPIC, "ANTHROPIC_THINKING_TOKENS": "4096"}
    found = configured("target", environ, "model.temperature=0", "model.reasoning_effort=high")
    assert found.spec.parameters == {"thinking": {"type": "enabled", "budget_tokens": 4096}}
    assert (found.spec.temperature, found.spec.reasoning_effort) == (None, "high")
    assert "no temperature is sent" in " ".join(found.notes)
    off = configured("target", environ, "model.target_anthropic_thinking_tokens=0", "model.temperature=0")
    assert (off.spec.parameters, off.spec.temperature) == ({}, 0)


@pytest.mark.parametrize(
    ("environ", "arguments", "protocol"),
    [
        (OPENAI, {"model": "gpt-5.5"}, "chat"),
        (OPENAI, {"model": "gpt-5.3-codex"}, "responses"),
        (OPENAI, {"model": "gpt-5-codex-2026-01-01"}, "responses"),
        (OPENAI, {"model": "codex-mini-latest"}, "responses"),
        (OPENAI, {"model": "gpt-5.4-pro"}, "responses"),
        (OPENAI, {"model": "gpt-5.4-professor"}, "chat"),
        ({**OPENAI, "OPENAI_BASE_URL": GATE}, {"model": "gpt-5.3-codex"}, "responses"),
        (OPENAI, {"model": "gpt-5.3-codex", "api": "chat"}, "chat"),
        (OPENAI, {"model": "gpt-5.5", "api": "responses"}, "responses"),
        (ROUTER, {"model": "openai/gpt-5.3-codex"}, "chat"),
        ({"OPENAI_COMPATIBLE_BASE_URL": GATE}, {"model": "gpt-5.3-codex"}, "chat"),
        ({"OPENAI_COMPATIBLE_BASE_URL": GATE}, {"model": "m", "api": "responses"}, "responses"),
        (ANTHROPIC, {"api": "responses"}, "messages"),
        ({}, {"backend": "local", "api": "responses"}, "chat"),
        ({}, {"backend": "codex"}, "cli"),
    ],
)
def test_the_api(environ: dict[str, str], arguments: dict[str, Any], protocol: str) -> None:
    found = resolved(environ=environ, **arguments)
    assert found.profile.protocol == protocol
    unheeded = arguments.get("api") == "responses" and protocol != "responses"
    assert ("model.api=responses does not concern" in " ".join(found.notes)) is unheeded


# programs

CODEX = {
    "sandbox": "workspace-write",
    "approval_policy": "never",
    "profile": "",
    "reasoning_effort": "",
    "network_access": False,
    "web_search": False,
}
CLAUDE = {
    "permission_mode": "dontAsk",
    "setting_sources": "",
    "effort": "medium",
    "max_thinking_tokens": 16384,
    "profile": "",
    "tools": "Read,Bash",
}
CLAUDE_CHAT = {"permission_mode": "dontAsk", "setting_sources": "", "effort": "high", "tools": ""}

# backend, environment -> program, parameters
PROGRAMS: list[tuple[str, dict[str, str], str, dict[str, Any]]] = [
    ("codex", {}, "codex", CODEX),
    ("codex", {"CODEX_CLI_BIN": "/x/codex"}, "/x/codex", CODEX),
    ("codex", {"CODEX_CLI_BIN": "/x/codex", "CODEX_EXEC_PATH": "/y/codex"}, "/y/codex", CODEX),
    ("codex", {"CODEX_SANDBOX_MODE": "read-only"}, "codex", {**CODEX, "sandbox": "read-only"}),
    ("codex", {"CODEX_SANDBOX": "read-only"}, "codex", {**CODEX, "sandbox": "read-only"}),
    ("codex", {"CODEX_EXEC_REASONING_EFFORT": "none"}, "codex", CODEX),
    ("codex", {"CODEX_EXEC_REASONING_EFFORT": "high"}, "codex", {**CODEX, "reasoning_effort": "high"}),
    ("codex", {"CODEX_EXEC_WEB_SEARCH": "1"}, "codex", {**CODEX, "web_search": True}),
    ("claude_code_exec", {}, "claude", CLAUDE),
    ("claude_code_exec", {"CLAUDE_CODE_EXEC_PATH": "/x"}, "/x", CLAUDE),
    ("claude_code_exec", {"CLAUDE_CODE_EXEC_EFFORT": "none"}, "claude", {**CLAUDE, "effort": ""}),
    ("claude_code_exec", {"CLAUDE_PERMISSION_MODE": "plan"}, "claude", {**CLAUDE, "permission_mode": "plan"}),
    ("claude_chat", {}, "claude", CLAUDE_CHAT),
    ("claude_chat", {"CLAUDE_CLI_BIN": "/x"}, "/x", CLAUDE_CHAT),
    ("claude_chat", {"CLAUDE_SETTING_SOURCES": "user"}, "claude", {**CLAUDE_CHAT, "setting_sources": "user"}),
    ("cursor_exec", {}, "cursor-agent", {"sandbox": "enabled"}),
    ("cursor_exec", {"CURSOR_EXEC_SANDBOX": "disabled"}, "cursor-agent", {"sandbox": "disabled"}),
    ("copilot_exec", {"COPILOT_EXEC_PATH": "/x"}, "/x", {"allow_all_tools": False}),
    ("copilot_exec", {"COPILOT_EXEC_ALLOW_ALL_TOOLS": "1"}, "copilot", {"allow_all_tools": True}),
    ("copilot_chat", {"COPILOT_EXEC_PATH": "/x"}, "/x", {}),
]


@pytest.mark.parametrize(("backend", "environ", "program", "parameters"), PROGRAMS)
def test_programs(backend: str, environ: dict[str, str], program: str, parameters: dict[str, Any]) -> None:
    found = resolved(environ=environ, backend=backend, reasoning_effort="high")
    assert (found.program, found.spec.parameters) == (program, parameters)
    assert (found.profile.protocol, found.spec.base_url, found.api_key) == ("cli", "", None)


def test_codex_as_an_optimizer_only_reads() -> None:
    assert resolved("optimizer", backend="codex").spec.parameters["sandbox"] == "read-only"


def test_what_a_program_does_not_take_is_said() -> None:
    found = configured("target", {}, "model.backend=codex", "model.codex_exec_full_auto=true", "model.temperature=0")
    assert "codex_exec_full_auto is retired" in " ".join(found.notes)
    assert "codex_exec takes no temperature" in " ".join(found.notes)
    assert found.spec.temperature is None


def test_the_home_of_copilot() -> None:
    environ = {"COPILOT_EXEC_HOME": "/home/of/copilot"}
    assert resolved(environ=environ, backend="copilot_exec").home == "/home/of/copilot"
    assert resolved(environ=environ, backend="codex").home == ""


# what an environment needs


@pytest.mark.parametrize(
    ("backend", "able"),
    [
        ("openai", {"tools", "images"}),
        ("anthropic", {"tools", "images"}),
        ("qwen_chat", {"tools", "images"}),
        ("deepseek", {"tools"}),
        ("claude_chat", set()),
        ("local", set()),
        ("codex_exec", {"agent", "images"}),
        ("claude_code_exec", {"agent", "images"}),
    ],
)
def test_what_is_needed_and_not_there_is_refused(backend: str, able: set[str]) -> None:
    environ = {f"{PROVIDERS[backend].prefix}_API_KEY": KEY}
    found = resolved(environ=environ, backend=backend)
    require(found, frozenset(able))
    for need in {"tools", "images", "agent", "telepathy"} - able:
        with pytest.raises(ProviderError) as refused:
            require(found, frozenset({need, *able}))
        message = str(refused.value)
        assert message.startswith(f"target: the environment needs {need}, and {backend} has none")
        assert ("codex_exec" in message.partition("providers")[2]) is (need in ("images", "agent"))


class Pictures:
    """An environment whose items hold pictures."""

    needs = frozenset({"images"})

    def __init__(self, env: Env) -> None:
        self.name, self.version = env.name, env.version
        self.load, self.prompt, self.score = env.load, env.prompt, env.score


def test_a_target_without_what_an_environment_needs_is_refused_before_any_call(tmp_path: Path) -> None:
    world = World()
    prepared(world, tmp_path / "run", env=Pictures(world.env()))
    with pytest.raises(ProviderError, match="target: the environment needs images, and claude_chat has none"):
        prepared(world, tmp_path / "run", {"model.target_backend": "claude"}, env=Pictures(world.env()))
    prepared(world, tmp_path / "run", {"model.optimizer_backend": "claude"}, env=Pictures(world.env()))
    assert not world.calls


def test_how_qwen_thought_is_recorded(tmp_path: Path) -> None:
    overrides = {"model.target_backend": "qwen", "model.qwen_chat_thinking_mode": "disabled", "train.num_epochs": 1}
    run(World(), tmp_path / "run", overrides)
    assert read_json(tmp_path / "run" / "config.json")["resolved_qwen_thinking_modes"] == {"target": "disabled"}
