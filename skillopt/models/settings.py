"""Where a provider's settings come from: the configuration and the environment, for one role or for both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

from pydantic import SecretStr
from pydantic_core import PydanticCustomError

from skillopt.config.values import read_bool, read_float, read_int
from skillopt.models.errors import ProviderError
from skillopt.spelling import nearest
from skillopt.types import Role

T = TypeVar("T")

_OLD_NAMES: Mapping[str, str] = {
    "azure_endpoint": "azure_openai_endpoint",
    "azure_api_version": "azure_openai_api_version",
    "azure_api_key": "azure_openai_api_key",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A setting as it was given. ``source`` names its variable or configuration key ('' when nobody set it); ``own``
    says that it was given for the role alone."""

    text: str = field(default="", repr=False)
    source: str = ""
    own: bool = False

    def __bool__(self) -> bool:
        return bool(self.source)


NOTHING = Found()


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of all providers for ``role``. ``configured`` holds keys of the section ``model`` by name; null and
    blank ones leave the environment in control."""

    role: Role
    environ: Mapping[str, str] = field(repr=False)
    configured: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def find(self, prefixes: Sequence[str], *names: str) -> Found:
        """The setting of the provider with one of ``prefixes`` that has one of ``names``.

        A setting S of the provider P for the role R is looked for in this order: configuration ``R_P_S``, environment
        ``R_P_S``, configuration ``P_S``, environment ``P_S``; ``P_R_S`` is another spelling of ``R_P_S``. In the
        configuration the name is in small letters.
        """
        return next(self._given(prefixes, names), NOTHING)

    def find_for(self, *, own: bool, prefixes: Sequence[str], names: Sequence[str]) -> Found:
        """The same, but only what was given for the role alone, or only what was given for both roles."""
        return next((found for found in self._given(prefixes, names) if found.own is own), NOTHING)

    def _given(self, prefixes: Sequence[str], names: Sequence[str]) -> Iterator[Found]:
        role = self.role.upper()
        pairs = [(prefix, name) for prefix in prefixes for name in names]
        own = [form for prefix, name in pairs for form in (f"{role}_{prefix}_{name}", f"{prefix}_{role}_{name}")]
        for only, variables in ((True, own), (False, [f"{prefix}_{name}" for prefix, name in pairs])):
            yield from (Found(text, f"model.{v.lower()}", only) for v in variables if (text := self._in_config(v)))
            yield from (Found(text, v, only) for v in variables if (text := self.environ.get(v, "").strip()))

    def variable(self, name: str) -> Found:
        """An environment variable by its whole name."""
        text = self.environ.get(name, "").strip()
        return Found(text, name) if text else NOTHING

    def _in_config(self, variable: str) -> str:
        name = variable.lower()
        old = next((old for old, new in _OLD_NAMES.items() if new == name), "")
        return _text(self.configured.get(name)) or _text(self.configured.get(old))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def is_none(found: Found) -> bool:
    """Whether a setting says in a word that nothing is to be sent."""
    return found.text.lower() in ("none", "off", "null")


def number(found: Found, *, least: float = 0.0) -> float | None:
    """The number in a setting; None when it is not set. Raises ``ProviderError``."""
    value = _read(found, read_float, "a number", "1")
    if value is not None and value < least:
        raise ProviderError(
            f"{found.source}={found.text!r} must be at least {least:g}",
            setting=found.source,
            choices=(f"{max(least, 1.0):g}",),
        )
    return value


def whole(found: Found, *, least: int) -> int | None:
    """The whole number in a setting; None when it is not set. Raises ``ProviderError``."""
    value = _read(found, read_int, "a whole number", str(max(least, 1)))
    if value is not None and value < least:
        raise ProviderError(
            f"{found.source}={found.text!r} must be at least {least}", setting=found.source, choices=(str(least),)
        )
    return value


def switch(found: Found) -> bool | None:
    """The switch in a setting; None when it is not set. Raises ``ProviderError``."""
    return _read(found, read_bool, "true or false", "true")


def choice(found: Found, kind: Any, aliases: Mapping[str, str] | None = None) -> str:
    """The choice in a setting, one of the ``Literal`` ``kind``; '' when it is not set. Raises ``ProviderError``."""
    choices = [each for each in get_args(kind) if each]
    text = found.text.lower()
    text = (aliases or {}).get(text, text)
    if found and text not in choices:
        raise ProviderError(
            f"{found.source}={found.text!r} must be one of {', '.join(choices)}",
            setting=found.source,
            choices=_nearest_first(text, choices),
        )
    return text


def _nearest_first(text: str, choices: Sequence[str]) -> list[str]:
    meant = nearest(text, choices)
    return sorted(choices, key=lambda each: each != meant)


def _read(found: Found, reader: Callable[[str], T], what: str, example: str) -> T | None:
    if not found:
        return None
    try:
        return reader(found.text)
    except PydanticCustomError:
        raise ProviderError(
            f"{found.source}={found.text!r} is not {what}", setting=found.source, choices=(example,)
        ) from None
