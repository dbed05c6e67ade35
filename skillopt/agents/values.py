"""Reading JSON that may have any shape: what is not there, or is something else, is empty."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from skillopt.models import wire

_MOST_MONEY = 1e9


def mapping(value: Any, *names: str) -> Mapping[str, Any]:
    """The object at ``names`` inside ``value``; an empty one when there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """A text as it is, the texts of a list of parts one after another, anything else as JSON; '' for nothing."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(part, (str, dict)) for part in value):
        parts = [part if isinstance(part, str) else part.get("text") for part in value]
        if all(isinstance(part, str) for part in parts):
            return "\n".join(part for part in parts if isinstance(part, str))
    return compact(value)


def compact(value: Any) -> str:
    """``value`` as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def count(value: Any) -> int:
    """A number of tokens; 0 for anything else."""
    return wire.count(value) or 0


def number(value: Any) -> int | None:
    """An exit code; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def price(value: Any) -> float | None:
    """An amount of money; None for anything else."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= _MOST_MONEY:
        return None
    return float(value)


def switched_on(value: Any) -> bool:
    """Whether a setting (a boolean, or its text) is on."""
    return value is True or str(value).strip().lower() in ("1", "true", "yes", "on")
