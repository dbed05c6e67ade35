"""What the commands ask of a run folder beyond ``RunView``: its configuration, and what it has spent so far."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skillopt.config import Config, ConfigError, from_flat, iter_keys, load_config
from skillopt.report.files import read_json
from skillopt.report.folder import not_a_run
from skillopt.report.spending import read_spending
from skillopt.run.folder import peek_meta
from skillopt.values import mapping, parse_json


def config_of_run(root: Path) -> Config:
    """The configuration that the run in ``root`` was made with. Raises ``ConfigError``."""
    found = read_json(root, "config.json")
    if found.problem:
        raise ConfigError(f"{root / 'config.json'} cannot be read: {found.problem}")
    if found.value is None:
        raise ConfigError(not_a_run(root, "it has no config.json"))
    if not isinstance(found.value, dict):
        raise ConfigError(f"{root / 'config.json'} is not the configuration of a run")
    # The file holds what came of some keys (the size of the split, the providers); the journal what was asked for.
    known = {info.dotted for info in iter_keys()}
    asked = {key: value for key, value in mapping(_identity(root).get("config")).items() if key in known}
    return load_config(None, (), asked, base=from_flat(found.value))


def spent_in(root: Path) -> tuple[int, int] | None:
    """Requests and tokens that the journal in ``root`` counts; None when there are none."""
    spending = read_spending(root, {}, ())
    return None if spending is None or spending.requests is None else (spending.requests, spending.tokens)


def _identity(root: Path) -> Mapping[str, Any]:
    try:
        return mapping(parse_json(peek_meta(root, "identity") or "{}"))
    except ValueError:
        return {}
