"""Run folders from outside: which folders are runs, whether one is at work, and how it ended."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from skillopt.config.secrets import MASK, is_secret_name
from skillopt.report.files import inside, parse_row, tail_lines
from skillopt.run.folder import JOURNAL

MARKS = (JOURNAL, "runtime_state.json", "history.json")
"""Files of which a run has at least one."""
EVENTS = "events.jsonl"
LOCK = ".lock"
_ENDS = ("run_started", "run_finished", "run_stopped")
_END = b'"event": "run_'
_TAILS = (1 << 14, 1 << 20)
_USERINFO = re.compile(r"(://)[^/?#\s]+@")


def is_run(root: Path) -> bool:
    """Whether ``root`` is the folder of a training run or an evaluation."""
    return (root / "config.json").is_file() and any((root / name).is_file() for name in MARKS)


def find_runs(roots: Sequence[Path], depth: int = 3) -> list[Path]:
    """The run folders among ``roots`` and up to ``depth`` levels below them, by path. Links are not followed, hidden
    folders and what lies in a run are not looked at."""
    return sorted({found for root in roots for found in _runs_below(root.absolute(), depth)})


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
    """A path that a run stored, in the folder where the run lies now: the longest end of it that is there."""
    pure = PureWindowsPath(stored) if "\\" in str(stored) else PurePosixPath(str(stored or ""))
    parts = [part for part in pure.parts if part != pure.anchor and part != ".."]
    ends = (root.joinpath(*parts[start:]) for start in range(len(parts)))
    return next((end for end in ends if end.is_file()), root / default)


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
        return "stopped", str(event.get("reason")), str(event.get("detail") or "")
    if kind == "run_finished":
        return "finished", None, ""
    if kind is None and summary and reason in (None, "completed"):
        return "finished", None, ""
    if kind is None and reason:
        return "stopped", str(reason), ""
    if not has_journal:
        return "stopped", "unfinished", "it has no summary"
    return "stopped", "killed", "the process ended without a word; all finished calls are kept"


def in_use(root: Path) -> bool:
    """Whether a process holds the run's lock. It is asked for shared and for an instant, and never created."""
    lock = inside(root, LOCK)
    if lock is None or not lock.is_file():
        return False
    if sys.platform == "win32":
        from filelock import FileLock, Timeout

        try:
            with FileLock(lock, timeout=0):
                return False
        except Timeout:
            return True
    import fcntl

    try:
        handle = os.open(lock, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks
    finally:
        os.close(handle)
    return False


def without_secrets(value: Any) -> Any:
    """A JSON value with ``***`` for what stands under the name of a key, token or password, and for the user and
    password of a URL: the published implementation writes them to its files."""
    if isinstance(value, Mapping):
        return {key: _masked(str(key), entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [without_secrets(entry) for entry in value]
    return _USERINFO.sub(rf"\1{MASK}@", value) if isinstance(value, str) and "://" in value else value


def _masked(key: str, value: Any) -> Any:
    if isinstance(value, str) and value and is_secret_name(key.replace("-", "_").rpartition(".")[2]):
        return MASK
    return without_secrets(value)
