"""Run folders from outside: which folders are runs, and how one ended."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from skillopt.config.secrets import MASK, is_secret_name
from skillopt.files import inside
from skillopt.report.files import parse_row, tail_lines
from skillopt.run.events import EVENTS
from skillopt.run.folder import JOURNAL, peek_meta
from skillopt.values import label, mapping, parse_json, text

MARKS = (JOURNAL, "runtime_state.json", "history.json")
"""Files of which a run has at least one."""
_ENDS = ("run_started", "run_finished", "run_stopped")
_END = b'"event": "run_'
_LONGEST_PATH, _DEEPEST_PATH = 4096, 40
_DETAIL = 2000
_NAMED = 5
_TAILS = (1 << 14, 1 << 20)
# What hides in a value under another name: the user of a URL, a key in its query, an authorisation header.
_HIDDEN = re.compile(
    r"((?<=://)[^/?#\s]+(?=@))"
    r"|(?<=[?&])((?:api[_-]?key|key|access[_-]?token|token|sig|signature|secret|password)=)[^&#\s]+"
    r"|\b((?:Bearer|Basic)\s+)(?=\S*[0-9=])[A-Za-z0-9._~+/=-]{8,}",
    re.IGNORECASE,
)


def is_run(root: Path) -> bool:
    """Whether ``root`` is the folder of a training run or an evaluation."""
    if (root / "eval_summary.json").is_file():  # the published implementation leaves no configuration beside it
        return True
    return (root / "config.json").is_file() and any((root / name).is_file() for name in MARKS)


def run_of_skill(skill: Path) -> Path | None:
    """The run folder that a skill file lies in, at whatever depth; None when it lies in none."""
    return next((parent for parent in skill.absolute().parents if is_run(parent)), None)


def is_evaluation(root: Path) -> bool:
    """Whether the journal in ``root`` is that of an evaluation: one that is at work has no summary yet."""
    try:
        identity = parse_json(peek_meta(root, "identity") or "{}")
    except ValueError:
        return False
    return mapping(identity).get("kind") == "evaluation"


def find_runs(roots: Sequence[Path], depth: int = 3) -> list[Path]:
    """The run folders among ``roots`` and up to ``depth`` levels below them, by path. Links are not followed, hidden
    folders and what lies in a run are not looked at."""
    return sorted({found for root in roots for found in _runs_below(root.absolute(), depth)})


def not_a_run(root: Path, why: str) -> str:
    """That ``root`` is not a run folder, and which runs lie below it, where some do."""
    found = [os.path.relpath(run, root.absolute()) for run in find_runs([root], depth=2)] if root.is_dir() else []
    more = ", …" if len(found) > _NAMED else ""
    below = f". Runs below it: {', '.join(found[:_NAMED])}{more}" if found else ""
    return f"{root} is not a run folder: {why}{below}"


def _runs_below(folder: Path, depth: int) -> Iterator[Path]:
    if is_run(folder):
        yield folder
        return
    if depth == 0:
        return
    try:
        below = [entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for name in below:
        if not name.startswith("."):
            yield from _runs_below(folder / name, depth - 1)


def anchored(root: Path, stored: Any, default: str) -> Path:
    """A path that a run stored, in the folder where the run lies now: the longest end of it that is there. What no
    system takes for a path is none."""
    words = text(stored)
    words = words if len(words) <= _LONGEST_PATH else ""
    pure = PureWindowsPath(words) if "\\" in words else PurePosixPath(words)
    parts = [part for part in pure.parts if part != pure.anchor and part != ".."][-_DEEPEST_PATH:]
    ends = ("/".join(parts[start:]) for start in range(len(parts)))
    found = next((end for end in ends if (path := inside(root, end)) is not None and path.is_file()), default)
    return root / found


def last_event(root: Path) -> Mapping[str, Any]:
    """The newest start or end of a process in the folder's events; {} without one. A file of events is long only in
    number: its end is enough, unless a process stopped without a word."""
    for size in _TAILS:
        for line in reversed(tail_lines(root, EVENTS, size)):
            event = parse_row(line) if _END in line else None
            if event is not None and event.get("event") in _ENDS:
                return event
    return {}


def state(
    *,
    in_use: bool,
    event: Mapping[str, Any],
    summary: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    has_journal: bool,
) -> tuple[str, str | None, str]:
    """``running``, ``stopped`` or ``finished``, why it stopped, and the detail. The summary of an earlier stop does not
    count when a process started after it. Pure."""
    kind, reason = event.get("event"), summary.get("stop_reason")
    if in_use:
        return "running", None, ""
    if evaluation:
        return "finished", None, ""
    if kind == "run_stopped":
        return "stopped", label(str(event.get("reason"))), label(event.get("detail") or "", _DETAIL)
    if kind == "run_finished":
        return "finished", None, ""
    if kind is None and summary and reason in (None, "completed"):
        return "finished", None, ""
    if kind is None and reason:
        return "stopped", label(reason), ""
    if not has_journal:
        return "stopped", "unfinished", "it has no summary"
    return "stopped", "killed", "the process ended without a word; all finished calls are kept"


def without_secrets(value: Any) -> Any:
    """A JSON value with ``***`` for what stands under the name of a key, token or password, for the user and password
    of a URL, and for keys in its query and in headers: the published implementation writes them to its files."""
    if isinstance(value, Mapping):
        return {key: _masked(str(key), entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [without_secrets(entry) for entry in value]
    return _HIDDEN.sub(lambda found: f"{found[2] or found[3] or ''}{MASK}", value) if isinstance(value, str) else value


def _masked(key: str, value: Any) -> Any:
    if isinstance(value, str) and value and is_secret_name(key.replace("-", "_").rpartition(".")[2]):
        return MASK
    return without_secrets(value)
