"""The flat form of a configuration, as ``config.json`` holds it, and the part of it that a resume must find again."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from skillopt.config.build import build, validate
from skillopt.config.errors import Source
from skillopt.config.keys import KeyInfo
from skillopt.config.layers import Entry, layer_of_mapping
from skillopt.config.schema import SECTIONS, Config, iter_keys, key_by_dotted, key_by_flat
from skillopt.config.values import hide_userinfo

# Real keys whose stored value is not what was configured but what the data gave.
_DERIVED = frozenset({"train_size", "steps_per_epoch"})


def flatten(config: Config) -> dict[str, Any]:
    """The built keys by their flat names, as JSON values. It holds no secret: keys of providers are left out, and a
    URL's user part becomes ``***``."""
    return {info.flat: _plain(_value(config, info)) for info in iter_keys() if info.built and not info.secret}


def from_flat(flat: Mapping[str, Any]) -> Config:
    """The configuration that a ``config.json`` holds, of this version or of the published one.

    Derived values (``train_size`` too: it is what the split had), names that are no keys, and masked secrets are
    ignored. A value that asks for something this version does not have is left at its default, with one
    ``UserWarning`` that names such keys. Raises ``ConfigError`` when a value is wrong.
    """
    known = {name: value for name, value in flat.items() if name in _names() and name not in _DERIVED}
    layer = layer_of_mapping(known, Source(text="stored configuration"))
    entries = {
        dotted: replace(entry, value=_unmasked(entry.value))
        for dotted, entry in layer.entries.items()
        if not _not_given(key_by_dotted()[dotted], entry.value)
    }
    entries = _without_later(_floor_below_rate(entries))
    return build(entries, layer.problems)


def fingerprint(config: Config) -> dict[str, Any]:
    """What a resumed run must have in common with the run that began, by dotted key, as JSON values.

    Not in it: what a run may spend, how it behaves and logs, worker counts, time limits, secrets, and paths: what is
    in the data and in the first skill counts, wherever they lie.
    """
    return {
        info.dotted: _without_userinfo(_jsonable(_value(config, info)))
        for info in iter_keys()
        if info.built and not info.may_differ
    }


def explain_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Lines ``key: old -> new`` for what differs between two fingerprints, in the order of the schema.

    A key that only one of them has counts there as its default: it was added to the schema after the other was made.
    One that may differ was among them once, and counts no more.
    """
    known = {dotted: info for dotted, info in key_by_dotted().items() if not info.may_differ}
    order = [*known, *sorted({*old, *new} - set(key_by_dotted()))]
    lines = []
    for dotted in order:
        if dotted in old or dotted in new:
            before, after = (_jsonable(side.get(dotted, _default(dotted))) for side in (old, new))
            if before != after:
                lines.append(f"{dotted}: {_shown(before)} -> {_shown(after)}")
    return lines


def _names() -> set[str]:
    return {*key_by_flat(), *key_by_dotted(), *SECTIONS}


def _not_given(info: KeyInfo, value: Any) -> bool:
    """A secret, or a null where null is not a value: the published trainer stores None for what nobody set."""
    return info.secret or (value is None and not info.kind.nullable)


def _value(config: Config, info: KeyInfo) -> Any:
    return getattr(getattr(config, info.section), info.name)


def _default(dotted: str) -> Any:
    info = key_by_dotted().get(dotted)
    return None if info is None else info.default


def _jsonable(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _plain(value: Any) -> Any:
    value = _jsonable(value)
    return hide_userinfo(value) if isinstance(value, str) else value


def _without_userinfo(value: Any) -> Any:
    return hide_userinfo(value, "") if isinstance(value, str) else value


def _unmasked(value: Any) -> Any:
    return value.replace("://***@", "://") if isinstance(value, str) else value


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return '""' if value == "" else str(value)


def _floor_below_rate(entries: dict[str, Entry]) -> dict[str, Entry]:
    """The published trainer ran with a floor above the rate; what it stored must still load."""
    rate, floor = entries.get("optimizer.learning_rate"), entries.get("optimizer.min_learning_rate")
    if rate is None or floor is None or not (isinstance(rate.value, int) and isinstance(floor.value, int)):
        return entries
    if floor.value <= rate.value:
        return entries
    return {dotted: entry for dotted, entry in entries.items() if dotted != "optimizer.min_learning_rate"}


def _without_later(entries: dict[str, Entry]) -> dict[str, Entry]:
    result = validate(entries)
    later = set() if isinstance(result, Config) else {problem.dotted for problem in result if problem.later}
    if later:
        names = ", ".join(sorted(later))
        warnings.warn(
            f"the stored configuration uses what this version does not have; ignored: {names}",
            UserWarning,
            stacklevel=3,
        )
    return {dotted: entry for dotted, entry in entries.items() if dotted not in later}
