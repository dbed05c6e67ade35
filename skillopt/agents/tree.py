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
    born: int


@dataclass(frozen=True, slots=True)
class Run:
    """How the processes of a run are told from others: the id of the ``leader``, the ``mark`` that all inherit, and the
    clock tick at which the leader began (0: unknown): none of them is older."""

    leader: int
    mark: str
    born: int = 0

    @classmethod
    def of(cls, leader: int, mark: str) -> Run:
        """The run whose leader has just been started."""
        row = _row(str(leader)) if sys.platform == "linux" else None
        return cls(leader, mark, row.born if row else 0)


def living(run: Run) -> set[int]:
    """Ids of all living processes of a run: the group and the session of its leader, its descendants, and whoever
    inherited the mark, also when its parent is gone and it made a session of its own."""
    root = run.leader
    if sys.platform != "linux":
        return {root} if _group_lives(root) else set()
    rows = _rows()
    found = {pid for pid, row in rows.items() if root in (pid, row.group, row.session)}
    marked = f"{MARK}={run.mark}".encode()
    found |= {pid for pid, row in rows.items() if row.born >= run.born and pid not in found and _has_mark(pid, marked)}
    while more := {pid for pid, row in rows.items() if row.parent in found and pid not in found}:
        found |= more
    return found - {os.getpid()}


def send(run: Run, *, kill: bool) -> set[int]:
    """Asks (or, with ``kill``, forces) every process of the run to end. Returns the ids that were alive."""
    if sys.platform == "win32":
        _taskkill(run.leader)
        return set()
    found = living(run)
    what = signal.SIGKILL if kill else signal.SIGTERM
    if sys.platform != "linux" and found:
        with contextlib.suppress(OSError):
            os.killpg(run.leader, what)
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
    rows = {name: _row(name) for name in os.listdir(_PROC) if name.isdecimal()}
    return {int(name): row for name, row in rows.items() if row is not None}


def _row(name: str) -> _Row | None:
    """A process by its id, None when it has ended."""
    try:
        text = (_PROC / name / "stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # the name before may hold spaces and brackets
    if fields[0].decode() in _DEAD:
        return None
    return _Row(int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


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
