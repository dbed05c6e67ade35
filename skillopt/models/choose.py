"""Which provider serves a role. Pure: the environment is passed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from skillopt.config.provider_names import ALIASES, OPENAI_CHAT
from skillopt.models.errors import ProviderError
from skillopt.models.profile import Provider
from skillopt.models.providers import PROVIDERS
from skillopt.models.settings import Found, Settings
from skillopt.models.urls import OPENAI_HOST, host_of, normalise_base_url
from skillopt.spelling import nearest

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Choice:
    """The provider, and the model there ('' when none was named). ``notes`` say what was chosen for the user;
    ``certain`` that the model was written with its provider, so that it is meant as it stands."""

    provider: str
    model: str
    notes: tuple[str, ...] = ()
    certain: bool = False


def choose(settings: Settings, backend: str, role_backend: str, model: str, base_url: str) -> Choice:
    """The provider that was named for the role, or for both, or with the model (``provider/model``), or else the one
    that the environment has a key for: OpenAI-style first among several. ``local`` is never chosen by itself.

    Raises ``ProviderError``.
    """
    role = settings.role
    notes: tuple[str, ...] = ()
    named = canonical(role_backend, f"model.{role}_backend", unset=(OPENAI_CHAT,))
    if named != AUTO:
        _check_role(settings, named)
    else:
        named = _general(settings, backend, "model.backend")
        if named != AUTO and role not in PROVIDERS[named].roles:
            notes = (f"{role}: {named} works as a target only; the {role} follows auto",)
            named = AUTO
        if named == AUTO and (asked := settings.variable(f"{role.upper()}_BACKEND")):
            named = _general(settings, asked.text, asked.source)
            _check_role(settings, named)
    prefix, _, rest = model.partition("/")
    known = ALIASES.get(prefix, prefix) if rest else ""
    known = known if known in PROVIDERS else ""
    if named == AUTO:
        return _automatic(settings, model, prefix, known, base_url, notes)
    if known == "local" != named:  # the demo's own model, with another provider named beside it
        return Choice(named, "", (*notes, f"{role}: {model} is not at {named}, which gets its default (model.{role})"))
    if known and known != named and not _routes(settings, named, base_url):
        raise ProviderError(
            f"{role}: the model {model} names the provider {known}, but {named} was asked for: "
            f"name the model without {prefix}/, or set {role}_backend",
            setting=f"model.{role}_backend",
            choices=(known,),
        )
    return Choice(named, *_strip(settings, named, known, model, base_url, notes))


def canonical(backend: str, setting: str, unset: Sequence[str] = ()) -> str:
    """The name of the provider that a backend stands for, or ``auto``; ``setting`` is where it was given. Raises
    ``ProviderError``."""
    name = backend.strip().lower().replace("-", "_") or AUTO
    name = ALIASES.get(name, name)
    if name in (AUTO, *unset):
        return AUTO
    if name in PROVIDERS or name == OPENAI_CHAT:
        return name
    raise ProviderError(
        f"unknown backend {backend!r}; choose one of {', '.join((AUTO, *PROVIDERS))}",
        setting=setting,
        choices=(nearest(backend, (*PROVIDERS, *ALIASES)) or "openai",),
    )


def _general(settings: Settings, backend: str, setting: str) -> str:
    name = canonical(backend, setting)
    if name != OPENAI_CHAT:
        return name
    openai = settings.find(("OPENAI",), "API_KEY", "BASE_URL")
    return "azure_openai" if settings.find(("AZURE_OPENAI",), "ENDPOINT") and not openai else "openai"


def _check_role(settings: Settings, name: str) -> None:
    if name != AUTO and settings.role not in PROVIDERS[name].roles:
        able = [row.name for row in PROVIDERS.values() if settings.role in row.roles]
        raise ProviderError(
            f"{settings.role}: {name} works as a target only; choose one of {', '.join(able)}",
            setting=f"model.{settings.role}_backend",
            choices=able,
        )


def _automatic(
    settings: Settings, model: str, prefix: str, known: str, base_url: str, notes: tuple[str, ...]
) -> Choice:
    if model.lower().endswith(".gguf"):
        return Choice("local", model.removeprefix("local/"), notes, certain=True)
    there = present(settings, base_url)
    if known and not _taken_by_router(settings, there, prefix, known, base_url):
        _check_role(settings, known)
        return Choice(known, *_strip(settings, known, known, model, base_url, notes))
    if known:
        there = [name for name in there if _routes(settings, name, base_url)]
    if not there:
        raise _nothing_set(settings)
    return Choice(there[0], model, notes + _several(settings, there))


def _taken_by_router(settings: Settings, there: Sequence[str], prefix: str, known: str, base_url: str) -> bool:
    """Whether ``known/model`` is the name that a model has at a provider that serves those of others."""
    if known in there or (prefix == known and not PROVIDERS[known].needs_key):
        return False
    return any(_routes(settings, name, base_url) for name in there)


def _routes(settings: Settings, name: str, base_url: str) -> bool:
    """Whether the provider's models have names such as ``openai/gpt-x``: OpenAI's do where its URL is another's."""
    if name != "openai":
        return PROVIDERS[name].router
    found = Found(base_url, "base_url") if base_url else settings.find(("OPENAI",), "BASE_URL")
    return bool(found) and host_of(normalise_base_url(found.text, where=found.source)) != OPENAI_HOST


def _strip(
    settings: Settings, name: str, known: str, model: str, base_url: str, notes: tuple[str, ...]
) -> tuple[str, tuple[str, ...], bool]:
    """The model without the prefix that named its provider, and whether it had one."""
    rest = model.partition("/")[2]
    own = known == name and not (name == "openai" and _routes(settings, name, base_url))
    if own and name == "openrouter" and "/" not in rest:
        own = False  # its own models keep their vendor's name, as all models do there: openrouter/auto
    return (rest if own else model), notes, own


def present(settings: Settings, base_url: str) -> list[str]:
    """The providers that the configuration and the environment have something for, the one to use first.

    What is given for the role alone comes before what is given for both; then OpenAI and Azure, the others that speak
    OpenAI's protocol, the rest; and of each a key before an address. A URL that was asked for is only served by its own
    provider or by one that any endpoint can be reached with: no key of another goes there.
    """
    found: dict[str, None] = {}
    rows = [row for row in PROVIDERS.values() if row.prefix and row.protocol != "cli"]
    for own, rank, key in product((True, False), range(3), (True, False)):
        for row in rows:
            if _rank(row) == rank and _has(settings, row, own, key=key):
                found.setdefault(row.name)
    if not base_url:
        return list(found)
    host = host_of(normalise_base_url(base_url, where="base_url"))
    at_home = [row.name for row in rows if row.base_url and host_of(row.base_url) == host and row.needs_key]
    there = [name for name in at_home if name in found] or [name for name in found if PROVIDERS[name].any_endpoint]
    if there or host == OPENAI_HOST:
        return there
    return at_home[:1] or ["openai_compatible"]


def _rank(row: Provider) -> int:
    return 0 if row.openai_models else 1 if row.protocol == "chat" else 2


def _has(settings: Settings, row: Provider, own: bool, *, key: bool) -> bool:
    if row.name == "azure_openai":  # a key leads nowhere without an endpoint
        return bool(settings.find_for(own=own, prefixes=row.prefixes, names=("ENDPOINT",)))
    names = ("API_KEY",) if key else ("BASE_URL",)
    found = settings.find_for(own=own, prefixes=row.prefixes, names=names)
    if not found or key:
        return bool(found)
    return host_of(normalise_base_url(found.text, where=found.source)) != OPENAI_HOST


def _several(settings: Settings, there: Sequence[str]) -> tuple[str, ...]:
    first = PROVIDERS[there[0]]
    if len(there) == 1 or settings.find(first.prefixes, "API_KEY", "BASE_URL", "ENDPOINT").own:
        return ()
    return (
        f"{settings.role}: several keys are set ({', '.join(there)}); {there[0]} is used (--backend names another)",
    )


def _nothing_set(settings: Settings) -> ProviderError:
    role = settings.role
    text = (
        f"{role}: no model provider is set. Set OPENAI_API_KEY (and OPENAI_BASE_URL for another endpoint), "
        "ANTHROPIC_API_KEY, the key of another provider, or OPENAI_COMPATIBLE_BASE_URL and OPENAI_COMPATIBLE_API_KEY, "
        f"in the environment or in .env; {role.upper()}_OPENAI_API_KEY and so on are for this role alone. "
        "Or use --backend local to run a model on this machine."
    )
    azure = settings.find(("AZURE_OPENAI",), "API_KEY")
    if not azure:
        return ProviderError(text, kind="unset")
    lacking = "AZURE_OPENAI_ENDPOINT"
    return ProviderError(f"{text} ({azure.source} is set, but {lacking} is not.)", kind="unset", setting=lacking)
