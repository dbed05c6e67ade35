"""What a configuration key is: how the schema declares one, and how everything else looks one up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from skillopt.config.values import Kind, Rules, hide_userinfo, kind_of, read_value

Command = Literal["train", "eval"]
On = Literal["train", "eval", "both", ""]


def key(
    default: Any,
    description: str,
    *,
    flat: str = "",
    new: bool = False,
    flag: str = "",
    on: On = "",
    aliases: Mapping[str, str] | None = None,
    later: Mapping[str, str] | None = None,
    unbuilt: str = "",
    only: tuple[Any, ...] = (),
    null: tuple[Any, ...] = (),
    resume: bool = True,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
) -> Any:
    """A field of a section.

    ``flat`` is its name in a flat configuration (default: the field's own name; a ``new`` key has its dotted name
    instead). ``on`` says which commands have an option for it, named ``flag`` (default: the flat name). ``resume``
    is False when a run may be resumed with another value. ``aliases``, ``later``, ``unbuilt``, ``only`` and ``null``
    are those of ``Rules``; ``ge``, ``gt`` and ``le`` bound a number.
    """
    extra: dict[str, Any] = {
        "flat": flat,
        "new": new,
        "flag": flag,
        "on": on,
        "aliases": dict(aliases or {}),
        "later": dict(later or {}),
        "unbuilt": unbuilt,
        "only": list(only),
        "null": list(null),
        "resume": resume,
        "bounds": _bounds(ge, gt, le),
    }
    return Field(default, description=description, json_schema_extra=extra, ge=ge, gt=gt, le=le)


def _bounds(ge: float | None, gt: float | None, le: float | None) -> str:
    lower = f"{ge:g} or more" if ge is not None else f"more than {gt:g}" if gt is not None else ""
    return f"{ge:g} to {le:g}" if ge is not None and le is not None else lower


class Section(BaseModel):
    """A section of the configuration: frozen, and no key but its own. Its values are read by ``read_value``."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=(), defer_build=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _read(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[str(info.field_name)]
        return read_value(value, kind_of(field.annotation), rules_of(field))

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # A base URL may hold a password, and a repr ends up in logs.
        for name, value in super().__repr_args__():
            yield name, hide_userinfo(value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """All that is known about one key. ``dotted`` is its name in a structured file, ``flat`` in a flat one.

    ``flag`` is the option without its dashes ("" when it has none); ``unbuilt`` says what the key needs that this
    version does not have ("" when it is built); ``bounds`` says in words what numbers it takes.
    """

    section: str
    name: str
    flat: str
    flag: str
    commands: frozenset[Command]
    kind: Kind
    rules: Rules
    default: Any
    description: str
    bounds: str
    unbuilt: str
    resume: bool

    @property
    def dotted(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def built(self) -> bool:
        return not self.unbuilt

    @property
    def may_differ(self) -> bool:
        """Whether a run may be resumed with another value."""
        return not self.resume or self.secret

    @property
    def secret(self) -> bool:
        return self.kind.base == "secret"


def rules_of(field: FieldInfo) -> Rules:
    """The rules that the declaration of a key states."""
    extra = _extra(field)
    return Rules(
        default=field.default,
        aliases=extra["aliases"],
        later=extra["later"],
        unbuilt=extra["unbuilt"],
        only=tuple(extra["only"]),
        null=tuple(extra["null"]),
    )


@cache
def keys_of(config: type[BaseModel]) -> Mapping[str, KeyInfo]:
    """Every key of a configuration class by its dotted name, in the order of the schema."""
    found: dict[str, KeyInfo] = {}
    for section, section_field in config.model_fields.items():
        section_class = section_field.annotation
        if not (isinstance(section_class, type) and issubclass(section_class, Section)):
            raise TypeError(f"{config.__name__}.{section} is not a section")
        for name, field in section_class.model_fields.items():
            info = _info(section, name, field)
            found[info.dotted] = info
    return found


def _extra(field: FieldInfo) -> dict[str, Any]:
    if not isinstance(field.json_schema_extra, dict):
        raise TypeError("a key is declared with key(...)")
    return dict(field.json_schema_extra)


def _info(section: str, name: str, field: FieldInfo) -> KeyInfo:
    extra = _extra(field)
    flat = f"{section}.{name}" if extra["new"] else extra["flat"] or name
    commands: dict[str, frozenset[Command]] = {
        "": frozenset(),
        "train": frozenset({"train"}),
        "eval": frozenset({"eval"}),
        "both": frozenset({"train", "eval"}),
    }
    return KeyInfo(
        section=section,
        name=name,
        flat=flat,
        flag=(extra["flag"] or flat) if extra["on"] else "",
        commands=commands[extra["on"]],
        kind=kind_of(field.annotation),
        rules=rules_of(field),
        default=field.default,
        description=field.description or "",
        bounds=extra["bounds"],
        unbuilt=extra["unbuilt"],
        resume=extra["resume"],
    )
