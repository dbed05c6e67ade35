"""What single providers are sent beside the common fields, and what their programs are told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skillopt.config.model_keys import (
    LEAST_THINKING,
    NO_SDK,
    AgentEffort,
    CodexApproval,
    CodexEffort,
    CodexSandbox,
    CursorSandbox,
    ThinkingMode,
    UseSdk,
)
from skillopt.models.anthropic import EFFORTS
from skillopt.models.errors import ProviderError
from skillopt.models.profile import Provider
from skillopt.models.settings import Found, Settings, choice, is_none, switch, whole

_ALWAYS_THINKING = "minimax-m2"


@dataclass(frozen=True, slots=True)
class Extras:
    """Further request fields or settings of a program, and what the user is told about them."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def extras_of(settings: Settings, row: Provider, model: str, reasoning_effort: str | None) -> Extras:
    """The ``ModelSpec.parameters`` that a provider's own settings ask for. Raises ``ProviderError``."""
    if row.name == "qwen_chat":
        return _qwen(settings, row)
    if row.name == "minimax_chat":
        return _minimax(settings, row, model)
    if row.name == "anthropic":
        return _anthropic(settings, row)
    if row.name == "codex_exec":
        return _codex(settings, row)
    if row.program == "claude":
        return _claude(settings, row, reasoning_effort)
    if row.name == "cursor_exec":
        return Extras({"sandbox": choice(settings.find(row.prefixes, "SANDBOX"), CursorSandbox) or "enabled"})
    if row.name == "copilot_exec":
        return Extras({"allow_all_tools": switch(settings.find(row.prefixes, "ALLOW_ALL_TOOLS")) or False})
    return Extras()


def _qwen(settings: Settings, row: Provider) -> Extras:
    """The three states of thinking: switched on, switched off, or left to the server."""
    mode = _thinking_mode(settings, row)
    if mode == "server_default":
        note = f"{settings.role}: the server decides whether it thinks (qwen_chat_thinking_mode=enabled or disabled)"
        return Extras({}, (note,))
    return Extras({"chat_template_kwargs": {"enable_thinking": mode == "enabled"}})


def _thinking_mode(settings: Settings, row: Provider) -> str:
    for own in (True, False):  # a setting for the role alone outranks one for both, in either form
        mode = settings.find_for(own=own, prefixes=row.prefixes, names=("THINKING_MODE",))
        old = settings.find_for(own=own, prefixes=row.prefixes, names=("ENABLE_THINKING",))
        named, thinks = choice(mode, ThinkingMode), switch(old)
        if mode and old and thinks is not (named == "enabled"):
            raise ProviderError(
                f"{mode.source}={named} contradicts {old.source}={old.text}: leave out {old.source}, the old form",
                setting=old.source,
                kind="superfluous",
            )
        if mode:
            return named
        if old:
            return "enabled" if thinks else "server_default"
    return "server_default"


def _minimax(settings: Settings, row: Provider, model: str) -> Extras:
    found = settings.find(row.prefixes, "ENABLE_THINKING")
    thinks = switch(found)
    notes: tuple[str, ...] = ()
    if model.lower().startswith(_ALWAYS_THINKING):
        if found and not thinks:
            notes = (f"{settings.role}: {model} always thinks; {found.source}={found.text} has no effect on it",)
        thinks = True
    return Extras({"thinking": {"type": "adaptive" if thinks else "disabled"}}, notes)


def _anthropic(settings: Settings, row: Provider) -> Extras:
    found = settings.find(row.prefixes, "THINKING_TOKENS")
    tokens = whole(found, least=0)
    if not tokens:
        return Extras()
    if tokens < LEAST_THINKING:
        raise ProviderError(
            f"{found.source}={tokens} must be 0 (no thinking) or at least {LEAST_THINKING}",
            setting=found.source,
            choices=(str(LEAST_THINKING), "0"),
        )
    return Extras({"thinking": {"type": "enabled", "budget_tokens": tokens}})


def _codex(settings: Settings, row: Provider) -> Extras:
    find = settings.find
    sandbox = choice(find(row.prefixes, "SANDBOX", "SANDBOX_MODE"), CodexSandbox)
    approval = choice(find(row.prefixes, "APPROVAL_POLICY"), CodexApproval)
    effort = find(("CODEX_EXEC",), "REASONING_EFFORT")
    choice(find(("CODEX_EXEC",), "USE_SDK"), UseSdk, NO_SDK)
    retired = find(("CODEX_EXEC",), "FULL_AUTO")
    notes: tuple[str, ...] = ()
    if switch(retired):
        notes = (f"{retired.source} is retired and has no effect: use codex_exec_sandbox",)
    parameters = {
        # A model that only writes edits has nothing to write to.
        "sandbox": sandbox or ("workspace-write" if settings.role == "target" else "read-only"),
        "approval_policy": approval or "never",
        "profile": find(("CODEX_EXEC",), "PROFILE").text,
        "reasoning_effort": "" if is_none(effort) else choice(effort, CodexEffort),
        "network_access": switch(find(row.prefixes, "NETWORK_ACCESS")) or False,
        "web_search": switch(find(row.prefixes, "WEB_SEARCH")) or False,
    }
    return Extras(parameters, notes)


def _claude(settings: Settings, row: Provider, reasoning_effort: str | None) -> Extras:
    find, own = settings.find, ("CLAUDE_CODE_EXEC",)
    choice(find(own, "USE_SDK"), UseSdk, NO_SDK)
    parameters: dict[str, Any] = {
        "permission_mode": find(row.prefixes, "PERMISSION_MODE").text or "dontAsk",
        "setting_sources": _setting_sources(find(row.prefixes, "SETTING_SOURCES")),
    }
    if not row.agent:
        effort = reasoning_effort or ""
        return Extras({**parameters, "effort": effort if effort in EFFORTS else "", "tools": ""})
    effort_found = find(own, "EFFORT")
    tokens = whole(find(own, "MAX_THINKING_TOKENS"), least=0)
    parameters |= {
        "effort": "" if is_none(effort_found) else choice(effort_found, AgentEffort) or "medium",
        "max_thinking_tokens": 16384 if tokens is None else tokens,
        "profile": find(own, "PROFILE").text,
        "tools": find(own, "TOOLS").text or "Read,Bash",
    }
    return Extras(parameters)


def _setting_sources(found: Found) -> str:
    """Whose settings the program reads: none unless asked for, so that a score does not depend on whose machine it
    was measured on."""
    return "" if is_none(found) else found.text
