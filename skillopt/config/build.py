"""From merged entries to a ``Config``, with every problem said in one go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from skillopt.config.errors import UNKNOWN, ConfigError, Problem
from skillopt.config.layers import Entry, Layer
from skillopt.config.schema import Config, key_by_dotted
from skillopt.config.sections import DEFAULT_MIN_LEARNING_RATE
from skillopt.config.values import hide_userinfo, shown

_RATE = "optimizer.learning_rate"
_FLOOR = "optimizer.min_learning_rate"
_BOUNDS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be greater than {gt}",
    "less_than_equal": "must be at most {le}",
}


@dataclass(frozen=True, slots=True)
class Invalid:
    """A value that is wrong. ``dotted`` is the key ("" for a clash of several), ``meant`` the value that was probably
    meant; ``later`` = known but not built."""

    dotted: str
    message: str
    later: bool
    meant: str = ""


def merge(layers: Iterable[Layer]) -> dict[str, Entry]:
    """The entries that count, weakest layer first; each gets the rank of its layer."""
    merged: dict[str, Entry] = {}
    for rank, layer in enumerate(layers):
        merged.update({dotted: replace(entry, rank=rank) for dotted, entry in layer.entries.items()})
    return _relaxed(merged)


def _relaxed(entries: dict[str, Entry]) -> dict[str, Entry]:
    """Drops the default floor of the learning rate that a base repeats, so that it follows a smaller rate."""
    rate, floor = entries.get(_RATE), entries.get(_FLOOR)
    if rate is None or floor is None or floor.rank >= rate.rank:
        return entries
    if str(floor.value).strip() != str(DEFAULT_MIN_LEARNING_RATE):
        return entries
    return {dotted: entry for dotted, entry in entries.items() if dotted != _FLOOR}


def validate(entries: Mapping[str, Entry]) -> Config | list[Invalid]:
    """The configuration that the entries make, or what is wrong with them."""
    nested: dict[str, dict[str, Any]] = {}
    for dotted, entry in entries.items():
        section, _, name = dotted.partition(".")
        nested.setdefault(section, {})[name] = entry.value
    try:
        return Config.model_validate(nested)
    except ValidationError as error:
        return [_invalid(details) for details in error.errors(include_url=False)]


def build(entries: Mapping[str, Entry], problems: Sequence[Problem] = ()) -> Config:
    """The configuration. Raises ``ConfigError`` with ``problems`` and everything that is wrong with the entries."""
    result = validate(entries)
    if isinstance(result, Config):
        if problems:
            raise ConfigError(problems)
        return result
    raise ConfigError([*problems, *(_problem(invalid, entries) for invalid in result)])


def _invalid(details: ErrorDetails) -> Invalid:
    dotted = ".".join(str(part) for part in details["loc"][:2])
    kind = details["type"]
    if kind in _BOUNDS:
        bound = {name: f"{value:g}" for name, value in details.get("ctx", {}).items()}
        message = f"{_BOUNDS[kind].format(**bound)}, got {shown(details['input'])}"
    else:
        message = details["msg"]
    meant = str(details.get("ctx", {}).get("meant", ""))
    return Invalid(dotted if dotted in key_by_dotted() else "", message, kind == "not_built", meant)


def _problem(invalid: Invalid, entries: Mapping[str, Entry]) -> Problem:
    if not invalid.dotted:
        return Problem(invalid.message)
    entry = entries.get(invalid.dotted)
    source = entry.source if entry is not None else UNKNOWN
    # A file names its key in the source already, and a message should not say it twice.
    where = f" ({source.text})" if source.text else ""
    return Problem(hide_userinfo(f"{invalid.dotted} {invalid.message}{where}"), source, invalid.meant)
