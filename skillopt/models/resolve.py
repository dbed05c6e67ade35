"""Which model serves a role, where, and with what. Pure: the environment is passed in and never written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from skillopt.config.model_keys import Region
from skillopt.models.azure import azure_place
from skillopt.models.choose import Choice, choose
from skillopt.models.errors import ProviderError
from skillopt.models.parameters import Extras, extras_of
from skillopt.models.profile import MaxTokensField, Protocol, Provider, ResolvedRole
from skillopt.models.providers import PROVIDERS
from skillopt.models.settings import Found, Settings, choice, is_none, number, switch, whole
from skillopt.models.types import ModelSpec
from skillopt.models.urls import OPENAI_HOST, host_of, normalise_base_url, proxy_for
from skillopt.types import Role

Api = Literal["auto", "chat", "responses"]

_DEFAULT_MODEL = "gpt-5.5"
_UNNAMED_ELSEWHERE = (_DEFAULT_MODEL, "gpt-5.4")
"""What the model is called when nobody named one: the default of the configuration, now and before."""
_ONLY_RESPONSES = (
    *("gpt-5.3-codex", "gpt-5.2-codex", "gpt-5.1-codex", "gpt-5-codex", "codex-mini"),
    *("gpt-5.5-pro", "gpt-5.4-pro", "gpt-5.2-pro", "gpt-5-pro", "o3-pro", "o1-pro"),
)
_REGIONS: Mapping[str, str] = {"global_en": "https://api.minimax.io/v1", "cn_zh": "https://api.minimaxi.com/v1"}


def resolve_role(
    role: Role,
    *,
    environ: Mapping[str, str],
    backend: str = "auto",
    role_backend: str = "",
    model: str = "",
    base_url: str = "",
    temperature: float | None = None,
    reasoning_effort: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    configured: Mapping[str, Any] | None = None,
    api: Api = "auto",
) -> ResolvedRole:
    """Settle provider, model, URL, key and settings of ``role``.

    ``role_backend`` wins over ``backend``; ``auto`` takes the provider whose key is in ``environ``, a role-prefixed one
    first, and among several an OpenAI-style one. ``local`` is never chosen by itself. ``configured`` holds the
    providers' keys of the section ``model`` by name (``Settings``). ``temperature`` outranks what is set for the
    provider, ``base_url`` any other address. Raises ``ProviderError``.
    """
    settings = Settings(role, environ, configured or {})
    chosen = choose(settings, backend, role_backend, model.strip(), base_url)
    row = PROVIDERS[chosen.provider]
    if row.protocol == "cli":
        return _program(settings, row, chosen, temperature, reasoning_effort, parameters or {})
    if row.name == "azure_openai":
        found = _azure(settings, row, chosen, base_url, api)
    else:
        found = _endpoint(settings, row, chosen, base_url, api)
    extras = extras_of(settings, row, found.spec.model, reasoning_effort)
    heat, heat_notes = _temperature(settings, row, temperature, extras)
    spec = replace(
        found.spec,
        temperature=heat,
        reasoning_effort=(reasoning_effort or None) if row.reasoning_effort else None,
        reply_style=row.reply_style,
        parameters={**extras.parameters, **(parameters or {})},
    )
    return replace(
        found,
        spec=spec,
        notes=(*found.notes, *extras.notes, *heat_notes),
        proxy=proxy_for(spec.base_url, environ),
        max_tokens=_cap(settings, row),
        timeout=_timeout(settings, row),
    )


def require(role: ResolvedRole, needs: frozenset[str]) -> None:
    """Raises ``ProviderError`` when the model of ``role`` cannot do what an environment needs: ``tools`` (calls of
    functions), ``images`` (in a prompt), ``agent`` (work in a folder)."""
    for need in sorted(needs):
        if not _can(role.profile, need):
            able = [row.name for row in PROVIDERS.values() if _can(row, need) and role.spec.role in row.roles]
            name = role.spec.role
            raise ProviderError(
                f"{name}: the environment needs {need}, and {role.profile.name} has none; providers that do: "
                f"{', '.join(able) or 'none'} (set model.{name}_backend)",
                setting=f"model.{name}_backend",
                choices=able,
                kind="ability",
            )


def _can(row: Provider, need: str) -> bool:
    return {"tools": row.tools, "images": row.images, "agent": row.agent}.get(need, False)


def _endpoint(settings: Settings, row: Provider, chosen: Choice, base_url: str, api: Api) -> ResolvedRole:
    """The role at an HTTP endpoint: its model, URL and key."""
    role = settings.role
    key = settings.find(row.prefixes, "API_KEY")
    url = _base_url(settings, row, base_url)
    notes = chosen.notes
    if row.name != "local":
        _check_key(role, row, key, url)
        if not key and row.needs_key:
            notes += (_keyless(role, url),)
    model, model_notes = _model_name(settings, row, chosen, url)
    protocol, api_notes = _protocol(role, row, model, api)
    spec = ModelSpec(role, row.name, model, url)
    settled = replace(row, base_url=url, protocol=protocol, max_tokens_field=_max_tokens_field(settings, row, url))
    notes += model_notes + api_notes
    return ResolvedRole(spec, settled, key.text or None, key.source, notes=notes)


def _azure(settings: Settings, row: Provider, chosen: Choice, base_url: str, api: Api) -> ResolvedRole:
    role = settings.role
    model, model_notes = _model_name(settings, row, chosen, "")
    protocol, api_notes = _protocol(role, row, model, api)
    place = azure_place(settings, model, base_url, responses=protocol == "responses")
    _check_characters(Found(place.api_key, place.key_source))
    spec = ModelSpec(role, row.name, model, place.base_url)
    notes = chosen.notes + model_notes + api_notes
    if place.credential == "key" and not place.api_key:
        notes += (_keyless(role, place.base_url),)
    return ResolvedRole(
        spec,
        replace(row, base_url=place.base_url, protocol=protocol, auth=place.auth),
        place.api_key or None,
        place.key_source,
        notes=notes,
        credential=place.credential,
        ad_scope=place.ad_scope,
        client_id=place.client_id,
    )


def _program(
    settings: Settings,
    row: Provider,
    chosen: Choice,
    temperature: float | None,
    reasoning_effort: str | None,
    parameters: Mapping[str, Any],
) -> ResolvedRole:
    """The role behind a program: no URL and no key of ours."""
    model, notes = _model_name(settings, row, chosen, "")
    extras = extras_of(settings, row, model, reasoning_effort)
    notes = chosen.notes + notes + extras.notes
    if temperature is not None:
        notes += (f"{settings.role}: {row.name} takes no temperature",)
    spec = ModelSpec(settings.role, row.name, model, "", parameters={**extras.parameters, **parameters})
    return ResolvedRole(
        spec,
        row,
        None,
        notes=notes,
        timeout=_timeout(settings, row),
        program=settings.find(row.prefixes, "PATH", "CLI_BIN").text or row.program,
        home=settings.find(("COPILOT_EXEC",), "HOME").text if row.program == "copilot" else "",
    )


def _base_url(settings: Settings, row: Provider, base_url: str) -> str:
    if row.name == "local":
        return ""
    found = settings.find(row.prefixes, "BASE_URL")
    source = "base_url" if base_url else found.source
    text = base_url or found.text or row.base_url
    if row.name == "minimax_chat":
        region = choice(settings.find(row.prefixes, "REGION"), Region)
        text = base_url or found.text or _REGIONS.get(region, row.base_url)
    url = normalise_base_url(text, where=source)
    if row.protocol == "messages" and not url.endswith("/v1"):
        url = f"{url}/v1"  # Anthropic's own clients take the address without it
    return url


def _check_key(role: Role, row: Provider, key: Found, url: str) -> None:
    _check_characters(key)
    if not key and row.needs_key and host_of(url) == host_of(row.base_url):
        shared = f"{row.prefix}_API_KEY"
        raise ProviderError(
            f"{role}: no key for {row.name} at {host_of(url)}: set {shared} (or {role.upper()}_{shared} for this role "
            "alone), or use --backend local to run a model on this machine",
            setting=shared,
        )


def _keyless(role: Role, url: str) -> str:
    return f"{role}: no key is set, so requests to {host_of(url)} carry none"


def _check_characters(key: Found) -> None:
    if key.text and not (key.text.isascii() and key.text.isprintable() and " " not in key.text):
        raise ProviderError(
            f"{key.source} holds characters that a key cannot have (a line break, a space, an accent)",
            setting=key.source,
        )


def _model_name(settings: Settings, row: Provider, chosen: Choice, url: str) -> tuple[str, tuple[str, ...]]:
    """The model as the provider knows it. What the configuration says when nobody named one is none of the models of
    another provider."""
    role, model = settings.role, chosen.model
    if model and (chosen.certain or not _unnamed(row, model)):
        return model, ()
    found = settings.find(row.prefixes, "MODEL")
    if row.name == "azure_openai":
        found = settings.variable(f"{role.upper()}_DEPLOYMENT") or settings.find(row.prefixes, "DEPLOYMENT") or found
    if found:
        return found.text, (f"{role}: the model is {found.text} ({found.source})",)
    if row.openai_models and (model or (url and host_of(url) != OPENAI_HOST)):
        if not model:
            raise _unnamed_model(role, url)
        return model, ()
    if row.default_model:
        notes = (f"{role}: no model is named, so {row.default_model} is used (set model.{role})",) if model else ()
        return row.default_model, notes
    if row.protocol == "cli":
        return "", ()  # the program's own default
    raise _unnamed_model(role, row.name)


def _unnamed_model(role: Role, place: str) -> ProviderError:
    return ProviderError(f"{role}: no model is named for {place}: set model.{role}", setting=f"model.{role}")


def _unnamed(row: Provider, model: str) -> bool:
    if row.name == "openai":
        return False
    return model == _DEFAULT_MODEL if row.openai_models else model in _UNNAMED_ELSEWHERE


def _protocol(role: Role, row: Provider, model: str, api: Api) -> tuple[Protocol, tuple[str, ...]]:
    if row.protocol != "chat" or row.name == "local":
        return row.protocol, (f"{role}: model.api={api} does not concern {row.name}",) if api == "responses" else ()
    if api != "auto":
        return api, ()
    needed = any(model == name or model.startswith(f"{name}-") for name in _ONLY_RESPONSES)
    return ("responses" if needed and row.responses else "chat"), ()


def _max_tokens_field(settings: Settings, row: Provider, url: str) -> MaxTokensField:
    asked = switch(settings.find(row.prefixes, "USE_MAX_COMPLETION_TOKENS"))
    if asked is not None:
        return "max_completion_tokens" if asked else "max_tokens"
    if row.any_endpoint:
        return "max_completion_tokens" if host_of(url) == OPENAI_HOST else "max_tokens"
    return row.max_tokens_field


def _temperature(
    settings: Settings, row: Provider, given: float | None, extras: Extras
) -> tuple[float | None, tuple[str, ...]]:
    found = settings.find(row.prefixes, "TEMPERATURE")
    heat = given
    if heat is None and found:
        heat = None if is_none(found) else number(found)
    elif heat is None:
        heat = row.temperature
    if heat is not None and row.name == "anthropic" and "thinking" in extras.parameters:
        return None, (f"{settings.role}: no temperature is sent, since anthropic takes none while it thinks",)
    return heat, ()


def _cap(settings: Settings, row: Provider) -> int | None:
    cap = whole(settings.find(row.prefixes, "MAX_TOKENS"), least=1)
    return row.max_tokens if cap is None else cap


def _timeout(settings: Settings, row: Provider) -> float | None:
    found = settings.find(row.prefixes, "TIMEOUT_SECONDS", "TIMEOUT")
    seconds = number(found)
    if seconds == 0:
        raise ProviderError(
            f"{found.source}={found.text!r} must be more than 0", setting=found.source, choices=("300",)
        )
    return seconds
