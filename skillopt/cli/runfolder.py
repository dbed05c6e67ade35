"""Reads run folders without writing in them: of this version or the published one, finished, stopped, or at work."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.config import Config, ConfigError, from_flat, iter_keys, load_config
from skillopt.models.pricing import DIGITS
from skillopt.report.folder import MARKS, anchored, in_use, is_run, last_event
from skillopt.run.folder import JOURNAL, peek, peek_meta

__all__ = ["RunFiles", "anchored", "config_of_run", "is_run", "read_run", "run_of_skill", "spent_in"]


@dataclass(frozen=True)
class RunFiles:
    """What a run folder says of itself. A file that is not there is empty; ``torn`` names those that do not parse.

    ``last_event`` is the newest start or end of a process that is written in ``events.jsonl`` ({} without one),
    ``spent`` the requests and tokens that the journal counts (None without a journal), ``cost`` what the known ones of
    the requests cost (US dollars) and how many are not known (None without a journal that books it), ``in_use``
    whether a process works in the folder now.
    """

    root: Path
    config: Mapping[str, Any]
    rows: tuple[Mapping[str, Any], ...]
    pointers: Mapping[str, Any]
    summary: Mapping[str, Any]
    evaluation: Mapping[str, Any]
    last_event: Mapping[str, Any]
    spent: tuple[int, int] | None
    cost: tuple[float, int] | None
    in_use: bool
    has_journal: bool
    torn: tuple[str, ...]


def run_of_skill(skill: Path) -> Path | None:
    """The run folder that a skill file lies in, at whatever depth; None when it lies in none."""
    return next((parent for parent in skill.absolute().parents if is_run(parent)), None)


def config_of_run(root: Path) -> Config:
    """The configuration that the run in ``root`` was made with. Raises ``ConfigError``."""
    path = root / "config.json"
    try:
        flat = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"{root} is not a run folder: it has no config.json") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    if not isinstance(flat, dict):
        raise ConfigError(f"{path} is not the configuration of a run")
    # The file holds what came of some keys (the size of the split, the providers); the journal what was asked for.
    known = {info.dotted for info in iter_keys()}
    asked = {key: value for key, value in _identity(root).get("config", {}).items() if key in known}
    return load_config(None, (), asked, base=from_flat(flat))


def read_run(root: Path) -> RunFiles:
    """Everything a folder says. Raises ``ConfigError`` when it is the folder of no run."""
    if not any((root / name).is_file() for name in ("config.json", *MARKS)):
        raise ConfigError(f"{root} is not a run folder: it has no config.json and no journal")
    torn: list[str] = []

    def mapping(name: str) -> Mapping[str, Any]:
        value = _json(root / name, torn)
        return value if isinstance(value, dict) else {}

    rows = _json(root / "history.json", torn)
    return RunFiles(
        root=root.absolute(),
        config=mapping("config.json"),
        rows=tuple(row for row in rows if isinstance(row, dict)) if isinstance(rows, list) else (),
        pointers=mapping("runtime_state.json"),
        summary=mapping("summary.json"),
        evaluation=mapping("eval_summary.json"),
        last_event=last_event(root),
        spent=spent_in(root),
        cost=_cost_in(root),
        in_use=in_use(root),
        has_journal=(root / JOURNAL).is_file(),
        torn=tuple(torn),
    )


def _json(path: Path, torn: list[str]) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        torn.append(path.name)
        return None


def spent_in(root: Path) -> tuple[int, int] | None:
    """Requests and tokens that the journal in ``root`` counts; None when it cannot be read."""
    row = peek(root, "SELECT COUNT(*), TOTAL(prompt_tokens + completion_tokens) FROM requests")
    return None if row is None else (int(row[0]), int(row[1]))


def _cost_in(root: Path) -> tuple[float, int] | None:
    row = peek(root, "SELECT TOTAL(cost_usd), COUNT(*) - COUNT(cost_usd) FROM requests")
    return None if row is None else (round(row[0], DIGITS), int(row[1]))


def _identity(root: Path) -> Mapping[str, Any]:
    text = peek_meta(root, "identity")
    value = json.loads(text) if text else {}
    return value if isinstance(value, dict) else {}
