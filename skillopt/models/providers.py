"""The table of providers, and which one serves a role. Pure: the environment is passed in and never written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit, urlunsplit

from skillopt.models.types import ModelSpec, ReplyStyle
from skillopt.types import Role

MaxTokensField = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True, slots=True)
class Provider:
    """What differs between endpoints that speak OpenAI's chat protocol.

    Its key and base URL come from ``{prefix}_API_KEY`` and ``{prefix}_BASE_URL``, or the same with ``TARGET_`` or
    ``OPTIMIZER_`` before it. ``max_tokens_field``, ``json_schema`` and ``grammar`` (GBNF) say how a first request is
    written; what a server refuses of it, the client learns. ``note`` is for people.
    """

    name: str
    prefix: str
    base_url: str
    max_tokens_field: MaxTokensField = "max_tokens"
    json_schema: bool = True
    grammar: bool = False
    reply_style: ReplyStyle = "full"
    needs_key: bool = True
    default_model: str = ""
    note: str = ""

    def variables(self, what: Literal["API_KEY", "BASE_URL", "MODEL", "TEMPERATURE"], role: Role) -> tuple[str, ...]:
        """The environment variables for ``what``, the one that wins first. None for a provider without a prefix."""
        return (f"{role.upper()}_{self.prefix}_{what}", f"{self.prefix}_{what}") if self.prefix else ()


PROVIDERS: Mapping[str, Provider] = {
    row.name: row
    for row in (
        Provider(
            name="openai",
            prefix="OPENAI",
            base_url="https://api.openai.com/v1",
            max_tokens_field="max_completion_tokens",
            default_model="gpt-5.5",
            note="OpenAI, or any endpoint that OPENAI_BASE_URL names",
        ),
        Provider(
            name="openai_compatible",
            prefix="OPENAI_COMPATIBLE",
            base_url="https://api.openai.com/v1",
            default_model="gpt-4o-mini",
            note="any endpoint that speaks OpenAI's chat protocol: vLLM, SGLang, Ollama, OpenRouter, LiteLLM …",
        ),
        Provider(
            name="local",
            prefix="",
            base_url="",
            grammar=True,
            reply_style="compact",
            needs_key=False,
            default_model="qwen2.5-coder-1.5b",
            note="a GGUF model on this machine, served by the embedded llama.cpp",
        ),
    )
}

_ALIASES: Mapping[str, str] = {
    "openai_chat": "openai",
    "compat": "openai_compatible",
    "openai_compatible_chat": "openai_compatible",
    "llama.cpp": "local",
    "llamacpp": "local",
}

_UNAVAILABLE: Mapping[str, str] = {  # backend name of other versions -> what it is called
    **dict.fromkeys(("azure", "azure_openai"), "Azure OpenAI"),
    **dict.fromkeys(("anthropic", "claude", "claude_chat", "claude_code", "claude_code_exec"), "Claude"),
    **dict.fromkeys(("codex", "codex_exec"), "Codex"),
    **dict.fromkeys(("qwen", "qwen_chat"), "Qwen"),
    **dict.fromkeys(("minimax", "minimax_chat"), "MiniMax"),
    **dict.fromkeys(("copilot", "copilot_chat", "copilot_cli", "github_copilot", "copilot_exec"), "GitHub Copilot"),
    **dict.fromkeys(("cursor", "cursor_agent", "cursor_exec"), "Cursor"),
}

_FOREIGN_KEYS: Mapping[str, str] = {  # a variable that shows that the user has another provider -> its name
    "ANTHROPIC_API_KEY": "Anthropic",
    "AZURE_OPENAI_API_KEY": "Azure OpenAI",
    "AZURE_OPENAI_ENDPOINT": "Azure OpenAI",
    "DEEPSEEK_API_KEY": "DeepSeek",
    "GEMINI_API_KEY": "Google Gemini",
    "GOOGLE_API_KEY": "Google Gemini",
    "GROQ_API_KEY": "Groq",
    "MINIMAX_API_KEY": "MiniMax",
    "MISTRAL_API_KEY": "Mistral",
    "OPENROUTER_API_KEY": "OpenRouter",
    "QWEN_CHAT_API_KEY": "Qwen",
    "QWEN_CHAT_BASE_URL": "Qwen",
}

_UNNAMED = ("", "gpt-5.5", "gpt-5.4")
"""What the model is called when nobody named one: no name, or the defaults of the configuration."""
_AUTO_ORDER = ("openai", "openai_compatible")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})
_OPENAI_HOST = "api.openai.com"


class ProviderError(ValueError):
    """No provider can serve a role as it was asked. The message says what is missing and what to set."""


@dataclass(frozen=True, slots=True)
class ResolvedRole:
    """Who serves a role. ``spec`` is its identity (no secret in it), ``profile`` its row with all that is settled.

    ``key_source`` names the environment variable that the key came from ('' without one). ``proxy`` is the HTTP proxy
    to go through, or None. ``notes`` are lines to show to the user: choices that were made for them.
    """

    spec: ModelSpec
    profile: Provider
    api_key: str | None = field(repr=False)
    key_source: str = ""
    proxy: str | None = None
    notes: tuple[str, ...] = ()


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
) -> ResolvedRole:
    """Settle provider, model, URL and key of ``role``.

    ``role_backend`` wins over ``backend``; ``auto`` takes the provider whose key is in ``environ``, a role-prefixed one
    first, and among several the OpenAI-style one. ``local`` is never chosen by itself. Raises ``ProviderError``.
    """
    name, model, notes = _choose(role, _named(backend, role_backend), model.strip(), base_url, environ)
    row = PROVIDERS[name]
    key, key_source = _lookup(row.variables("API_KEY", role), environ)
    found_url, url_source = _lookup(row.variables("BASE_URL", role), environ)
    url = normalise_base_url(base_url or found_url or row.base_url, where="base_url" if base_url else url_source)
    if name != "local":
        _check_key(role, row, key, key_source, url)
        notes += _key_notes(role, key, key_source, url)
        notes += _ignored(role, row, environ)
    settled: MaxTokensField = "max_completion_tokens" if _host(url) == _OPENAI_HOST else "max_tokens"
    spec = ModelSpec(
        role=role,
        provider=name,
        model=_model_name(role, row, model, url, environ),
        base_url=url,
        temperature=_temperature(row, role, temperature, environ),
        reasoning_effort=reasoning_effort or None,
        reply_style=row.reply_style,
        parameters=dict(parameters or {}),
    )
    row = replace(row, base_url=url, max_tokens_field=settled)
    return ResolvedRole(spec, row, key or None, key_source, proxy_for(url, environ), notes)


def normalise_base_url(url: str, *, where: str = "") -> str:
    """The base URL as it goes into journal keys: scheme and host in lower case, without ``/chat/completions`` or a
    slash at the end. A missing scheme is forgiven for this machine. Raises ``ProviderError``."""
    text, named = url.strip(), f" ({where})" if where else ""
    if not text:
        return ""
    if "://" not in text and _host(f"http://{text}") in _LOOPBACK:
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ProviderError(f"the base URL {text!r}{named} is not a URL: {error}") from None
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or not _good_port(parts):
        raise ProviderError(f"the base URL {text!r}{named} must look like https://host/v1")
    if "@" in parts.netloc:
        raise ProviderError(f"the base URL of {parts.hostname}{named} must not hold a user name or a password")
    if re.search(r"(?:key|token|secret|password|sig)=", parts.query, re.IGNORECASE):
        raise ProviderError(f"the base URL of {parts.hostname}{named} must not hold a key: give it as an API key")
    path = re.sub(r"/+(?:chat/+)?completions/*$", "", parts.path).rstrip("/")
    if not path and parts.hostname == _OPENAI_HOST:
        path = "/v1"
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path, parts.query, ""))


def chat_url(base_url: str) -> str:
    """Where chat requests go, for a base URL in any of the forms that ``normalise_base_url`` takes."""
    parts = urlsplit(normalise_base_url(base_url))
    return urlunsplit((parts.scheme, parts.netloc, f"{parts.path}/chat/completions", parts.query, ""))


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """The HTTP proxy for ``url`` by ``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``, in either case.

    Worked out once a model: asking the environment at every request, as HTTP clients do, costs more than the request.
    """
    proxies = {k.lower()[:-6]: v for k, v in environ.items() if k.lower().endswith("_proxy") and v}
    proxies |= {k[:-6]: v for k, v in environ.items() if k.endswith("_proxy") and v}  # lower case wins, as in curl
    host = _host(url)
    proxy = proxies.get(urlsplit(url).scheme) or proxies.get("all")
    if not proxy or not host or host in _LOOPBACK or _bypassed(host, proxies.get("no", "")):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    return proxy if proxy.startswith(("http://", "https://")) else None


def _bypassed(host: str, no_proxy: str) -> bool:
    entries = (entry.strip().lower().partition(":")[0].lstrip("*").lstrip(".") for entry in no_proxy.split(","))
    return "*" in no_proxy.split(",") or any(
        entry and (host == entry or host.endswith(f".{entry}")) for entry in entries
    )


def _named(backend: str, role_backend: str) -> str:
    """The canonical name of the provider that was asked for, or 'auto'."""
    general, own = _canonical(backend), _canonical(role_backend)
    if role_backend.strip().lower() == "openai_chat":
        own = "auto"  # the default of the configuration, and what other versions write to say "unset"
    return general if own == "auto" else own


def _canonical(backend: str) -> str:
    name = backend.strip().lower().replace("-", "_") or "auto"
    name = _ALIASES.get(name, name)
    if name == "auto" or name in PROVIDERS:
        return name
    choices = ", ".join(("auto", *PROVIDERS))
    if name in _UNAVAILABLE:
        raise ProviderError(f"backend {backend!r}: {_UNAVAILABLE[name]} is not available in this version ({choices})")
    raise ProviderError(f"unknown backend {backend!r}; choose one of {choices}")


def _choose(
    role: Role, named: str, model: str, base_url: str, environ: Mapping[str, str]
) -> tuple[str, str, tuple[str, ...]]:
    """Name of the provider, name of the model there, notes."""
    prefix, _, rest = model.partition("/")
    prefix = _ALIASES.get(prefix, prefix)
    known = prefix if rest and prefix in PROVIDERS else ""
    if named == "auto" and model.lower().endswith(".gguf"):
        return "local", model.removeprefix("local/"), ()
    if named != "auto":
        return named, _strip(role, named, known, model, rest, base_url, environ), ()
    if known == "local":
        return known, rest, ()
    present = _present(role, base_url, environ)
    if known and (known in present or not present):
        return known, _strip(role, known, known, model, rest, base_url, environ), ()
    if not present:
        raise ProviderError(_nothing_set(role, environ))
    notes: tuple[str, ...] = ()
    if len(present) > 1 and _lookup(PROVIDERS[present[1]].variables("API_KEY", role), environ)[0]:
        notes = (f"{role}: several keys are set; {present[0]} is used (--backend names another)",)
    return present[0], model, notes


def _strip(role: Role, name: str, known: str, model: str, rest: str, base_url: str, environ: Mapping[str, str]) -> str:
    """The model without the prefix that named its provider. Routers have names such as ``openai/gpt-x`` of their own:
    for the provider ``openai`` at another host the name stays whole."""
    if known != name:
        return model
    url = base_url or _lookup(PROVIDERS[name].variables("BASE_URL", role), environ)[0]
    return model if name == "openai" and url and _host(normalise_base_url(url)) != _OPENAI_HOST else rest


def _present(role: Role, base_url: str, environ: Mapping[str, str]) -> list[str]:
    """The providers that the environment has something for, the one to use first."""
    found: dict[str, None] = {}
    for own in (0, 1):  # what is given for the role alone comes before what is given for both
        for what in ("API_KEY", "BASE_URL"):
            for name in _AUTO_ORDER:
                row = PROVIDERS[name]
                variable = row.variables("API_KEY" if what == "API_KEY" else "BASE_URL", role)[own]
                value = environ.get(variable, "").strip()
                if value and (what == "API_KEY" or _host(normalise_base_url(value, where=variable)) != _OPENAI_HOST):
                    found.setdefault(name)
    if not found and base_url and _host(normalise_base_url(base_url)) != _OPENAI_HOST:
        found.setdefault("openai_compatible")
    return list(found)


def _lookup(variables: tuple[str, ...], environ: Mapping[str, str]) -> tuple[str, str]:
    """The first value that is set and not blank, and the variable it is in; ('', '') without one."""
    for variable in variables:
        value = environ.get(variable, "").strip()
        if value:
            return value, variable
    return "", ""


def _check_key(role: Role, row: Provider, key: str, key_source: str, url: str) -> None:
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise ProviderError(f"{key_source} holds characters that a key cannot have (a line break, a space, an accent)")
    if not key and row.needs_key and _host(url) == _OPENAI_HOST:
        own, shared = row.variables("API_KEY", role)
        raise ProviderError(
            f"{role}: no key for {row.name} at {_host(url)}: set {shared} (or {own} for this role alone), "
            "or use --backend local to run a model on this machine"
        )


def _key_notes(role: Role, key: str, key_source: str, url: str) -> tuple[str, ...]:
    if key or _host(url) == _OPENAI_HOST:
        return ()
    return (f"{role}: no key is set, so requests to {_host(url)} carry none",)


def _ignored(role: Role, row: Provider, environ: Mapping[str, str]) -> tuple[str, ...]:
    names = [
        f"{who}{row.prefix}_{what}" for who in (f"{role.upper()}_", "") for what in ("MAX_TOKENS", "TIMEOUT_SECONDS")
    ]
    return tuple(f"{role}: {name} is not read by this version" for name in names if environ.get(name, "").strip())


def _model_name(role: Role, row: Provider, model: str, url: str, environ: Mapping[str, str]) -> str:
    found = model or _lookup(row.variables("MODEL", role), environ)[0]
    if row.name == "local" and found in _UNNAMED:
        return row.default_model
    if not found and _host(url) == _OPENAI_HOST:
        found = row.default_model
    if not found:
        raise ProviderError(f"{role}: no model is named for {url}: set model.{role}")
    return found


def _temperature(row: Provider, role: Role, given: float | None, environ: Mapping[str, str]) -> float | None:
    text, variable = _lookup(row.variables("TEMPERATURE", role), environ)
    if given is not None or not text or text.lower() in ("none", "off", "null"):
        return given
    try:
        return float(text)
    except ValueError:
        raise ProviderError(f"{variable}={text!r} is not a number") from None


def _nothing_set(role: Role, environ: Mapping[str, str]) -> str:
    foreign = {
        who: key
        for key, who in _FOREIGN_KEYS.items()
        for name in (key, f"{role.upper()}_{key}")
        if environ.get(name, "").strip()
    }
    text = (
        f"{role}: no model provider is set. Set OPENAI_API_KEY (and OPENAI_BASE_URL for another endpoint), or "
        "OPENAI_COMPATIBLE_BASE_URL and OPENAI_COMPATIBLE_API_KEY, in the environment or in .env; "
        f"{role.upper()}_OPENAI_API_KEY and so on are for this role alone. "
        "Or use --backend local to run a model on this machine."
    )
    if not foreign:
        return text
    found = "; ".join(f"{key} is set, but {who} is not available in this version" for who, key in foreign.items())
    return f"{text} ({found}.)"


def _good_port(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
