"""The processes that a program has started, however they tried to leave it: by ``/proc``, or their group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MARK = "SKILLOPT_PROCESS"
"""The environment variable that all processes of one run inherit. Its value is random and tells nothing."""

_PROC = Path("/proc")
_DEAD = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class _Row:
    parent: int
    group: int
    session: int


def living(root: int, mark: str) -> set[int]:
    """Ids of all living processes of the run with the leader ``root``: its group, its session, its descendants, and
    whoever inherited ``mark``, also when its parent is gone and it made a session of its own."""
    if sys.platform != "linux":
        return {root} if _group_lives(root) else set()
    rows = _rows()
    found = {pid for pid, row in rows.items() if root in (pid, row.group, row.session)}
    marked = f"{MARK}={mark}".encode()
    found |= {pid for pid in rows if pid not in found and _has_mark(pid, marked)}
    while more := {pid for pid, row in rows.items() if row.parent in found and pid not in found}:
        found |= more
    return found - {os.getpid()}


def send(root: int, mark: str, *, kill: bool) -> set[int]:
    """Asks (or, with ``kill``, forces) every process of the run to end. Returns the ids that were alive."""
    if sys.platform == "win32":
        _taskkill(root)
        return set()
    found = living(root, mark)
    what = signal.SIGKILL if kill else signal.SIGTERM
    if sys.platform != "linux" and found:
        with contextlib.suppress(OSError):
            os.killpg(root, what)
        return found
    for pid in found:
        with contextlib.suppress(OSError):  # it was faster
            os.kill(pid, what)
    return found


def resident(root: int) -> int:
    """Bytes of memory that ``root`` and its descendants hold; 0 where it cannot be told. It looks at them alone."""
    if sys.platform != "linux":
        return 0
    pages, waiting = 0, [str(root)]
    while waiting:
        place = _PROC / waiting.pop()
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages += int((place / "statm").read_bytes().split()[1])
            for thread in os.listdir(place / "task"):
                waiting += (place / "task" / thread / "children").read_text().split()
    return pages * os.sysconf("SC_PAGE_SIZE")


def _rows() -> dict[int, _Row]:
    rows: dict[int, _Row] = {}
    for name in os.listdir(_PROC):
        if not name.isdecimal():
            continue
        try:
            text = (_PROC / name / "stat").read_bytes()
        except OSError:  # it has ended since
            continue
        fields = text[text.rindex(b")") + 2 :].split()  # the name before may hold spaces and brackets
        if fields[0].decode() not in _DEAD:
            rows[int(name)] = _Row(int(fields[1]), int(fields[2]), int(fields[3]))
    return rows


def _has_mark(pid: int, marked: bytes) -> bool:
    try:
        return marked in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # another user's, or gone
        return False


def _group_lives(root: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        os.killpg(root, 0)
    except OSError:
        return False
    return True


def _taskkill(root: int) -> None:
    subprocess.run(["taskkill", "/T", "/F", "/PID", str(root)], capture_output=True, check=False, timeout=10)
