"""From what a person typed to a value of a key's type: the one place where values are read.

A value comes from a YAML file, an override, a command-line flag or a JSON file. Text that was typed without quotes
(``Plain``) has no type of its own: ``no`` is False for a switch and a folder named "no" for a path. So the type of
the key decides, not the look of the text.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic_core import PydanticCustomError

from skillopt.spelling import did_you_mean, nearest

Base = Literal["bool", "int", "float", "text", "list", "secret", "choice"]

NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_LARGEST = 2**53
_USERINFO = re.compile(r"(?<=://)[^/?#\s]+@")
_KEY_LIKE = re.compile(r"sk-[\w.-]{4,}|(?=\D*\d)(?:[\w.+=~-]{16,}|[\w+/=]{32,})")
_DOMAIN = re.compile(r"\.[A-Za-z]{2,}$")
_BASES: Mapping[type, Base] = {bool: "bool", int: "int", float: "float", str: "text", SecretStr: "secret"}


class Plain(str):
    """Text as it was typed, without quotes: what it means depends on the key that it is for."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """What values a key takes: a base type, whether null is one of them, and the choices of a choice."""

    base: Base
    nullable: bool
    choices: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """The type for a reader of help or documentation."""
        words = {
            "bool": "true or false",
            "int": "whole number",
            "float": "number",
            "text": "text",
            "list": "list",
            "secret": "secret",
            "choice": ", ".join(choice or '""' for choice in self.choices),
        }
        return words[self.base] + (" or null" if self.nullable else "")


@dataclass(frozen=True, slots=True)
class Rules:
    """What is special about one key's values.

    ``aliases`` maps other spellings to a choice, ``later`` a choice that is not built to what it needs. ``unbuilt``
    says what the whole key needs, when it is not built; ``only`` holds the values that are built, when not all are.
    ``null`` holds the one value that null stands for, and is empty where null has no meaning.
    """

    default: Any
    aliases: Mapping[str, str]
    later: Mapping[str, str]
    unbuilt: str
    only: tuple[Any, ...]
    null: tuple[Any, ...]


def kind_of(annotation: Any) -> Kind:
    """The kind that a field's annotation stands for."""
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    nullable = type(None) in members
    (base,) = (member for member in members if member is not type(None))
    if get_origin(base) is Literal:
        return Kind("choice", nullable, get_args(base))
    if get_origin(base) is tuple:
        return Kind("list", nullable)
    return Kind(_BASES[base], nullable)


def invalid(what: str, meant: str = "") -> PydanticCustomError:
    """An error that says what is wrong with a value, and the one that was probably meant."""
    return PydanticCustomError("invalid_value", "{what}", {"what": what, "meant": meant})


def not_built(what: str) -> PydanticCustomError:
    """An error that says that a value asks for something this version does not have."""
    return PydanticCustomError("not_built", "{what}", {"what": what})


def hide_userinfo(text: str, stand_in: str = "***@") -> str:
    """``text`` with the user and password of every URL in it, and the ``@`` behind them, replaced."""
    return _USERINFO.sub(stand_in, text)


def looks_like_a_key(text: str) -> bool:
    """Whether a text that stands where a URL should is rather a key: one long word with digits, and no host's name."""
    return _KEY_LIKE.fullmatch(text.strip()) is not None and _DOMAIN.search(text.strip()) is None


def shown(value: Any) -> str:
    """A value as an error message shows it: short, and without what a URL may hide."""
    if isinstance(value, SecretStr):
        return "***"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple, set, frozenset)):
        return "a list"
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "a very large number"  # Python refuses to print an integer of thousands of digits
    text = hide_userinfo(str(value) if isinstance(value, str) else repr(value))
    text = text if len(text) <= 60 else text[:57] + "..."
    return f'"{text}"' if isinstance(value, str) and (not text or not isinstance(value, Plain)) else text


def read_value(value: Any, kind: Kind, rules: Rules) -> Any:
    """The value of a key. Raises ``PydanticCustomError`` (``invalid_value`` or ``not_built``)."""
    if _is_null(value, kind, rules):
        return _null(kind, rules)
    result = _choice(value, kind, rules) if kind.base == "choice" else _READERS[kind.base](value)
    if rules.unbuilt and result != rules.default:
        raise not_built(f"is not available in this version: {rules.unbuilt}")
    if rules.only and result not in rules.only:
        built = " or ".join(map(str, rules.only))
        raise not_built(f"can only be {built} in this version, got {shown(value)}")
    return result


def _is_null(value: Any, kind: Kind, rules: Rules) -> bool:
    if value is None:
        return True
    if not isinstance(value, str):
        return False
    if value.strip() == "":
        if rules.unbuilt:
            return True
        # A blank text is a value of its own, unless null says the same; a blank number or switch is none.
        return kind.nullable or kind.base not in ("text", "choice", "list", "secret")
    return isinstance(value, Plain) and value.strip() in NULLS


def _null(kind: Kind, rules: Rules) -> Any:
    if rules.unbuilt:
        return rules.default
    if kind.nullable:
        return None
    if rules.null:
        return rules.null[0]
    if kind.base == "text" or "" in kind.choices:
        return ""
    raise invalid("cannot be null; leave it out to get the default")


def read_bool(value: Any) -> bool:
    """True or False, from the words for them too. Raises ``PydanticCustomError``."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().casefold() in _WORDS:
        return _WORDS[value.strip().casefold()]
    if isinstance(value, int) and value in (0, 1):
        return value == 1
    raise invalid(f"must be true or false, got {shown(value)}")


def read_int(value: Any) -> int:
    """A whole number; ``1e3`` is one. Raises ``PydanticCustomError``."""
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        value = int(value.strip())
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > _LARGEST:
            raise invalid("is too large")
        return value
    number = _number(value)
    if number is None or not number.is_integer():
        raise invalid(f"must be a whole number, got {shown(value)}")
    if abs(number) > _LARGEST:
        raise invalid("is too large")
    return int(number)


def read_float(value: Any) -> float:
    """A finite number. Raises ``PydanticCustomError``."""
    number = _number(value)
    if number is None:
        raise invalid(f"must be a number, got {shown(value)}")
    return number


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        number = float(value.strip()) if _NUMBER.fullmatch(value.strip()) else math.nan
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value) if isinstance(value, float) or abs(value) <= _LARGEST else math.inf
    else:
        return None
    return number if math.isfinite(number) else None


def read_text(value: Any) -> str:
    """Text, stripped of surrounding white space. Raises ``PydanticCustomError``."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        return str(value).strip()
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _LARGEST:
        return str(value)
    raise invalid(f"must be text, got {shown(value)}")


def _list(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, Sequence):
        raise invalid(f"must be a list, got {shown(value)}")
    return tuple(text for text in map(read_text, parts) if text)


def _secret(value: Any) -> SecretStr:
    if isinstance(value, SecretStr):
        return value
    if not isinstance(value, str):
        raise invalid("must be text")
    return SecretStr(str(value).strip())


def _choice(value: Any, kind: Kind, rules: Rules) -> str:
    text = read_text(str(value) if isinstance(value, bool) else value).casefold()
    for spelling in (text, text.replace("-", "_")):
        meant = rules.aliases.get(spelling, spelling)
        if meant in kind.choices:
            return meant
    if text == "" and rules.null:
        return str(rules.null[0])
    if text in rules.later:
        raise not_built(f'"{text}" is not available in this version: {rules.later[text]}')
    known = (*kind.choices, *rules.aliases)
    what = f"must be one of {kind.in_words}; got {shown(value)}{did_you_mean(text, known)}"
    raise invalid(what, nearest(text, known) or "")


_READERS: Mapping[Base, Callable[[Any], Any]] = {
    "bool": read_bool,
    "int": read_int,
    "float": read_float,
    "text": read_text,
    "list": _list,
    "secret": _secret,
}
