"""Processes by id and start time: an id alone may be another process's by now."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


def start_mark(pid: int) -> str:
    """When the process ``pid`` was started, in words that no later process of this id has; '' when there is none, or
    when it has ended and nobody has asked for its status yet."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        # The name of the program stands in brackets and may hold anything; the state and the 22nd field follow it.
        fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return "" if fields[0] in ("Z", "X") else f"{_boot_id()}:{fields[19]}"
    except (OSError, IndexError):
        pass
    return "" if Path("/proc/self/stat").exists() else _by_ps(pid)


def interrupt(pid: int) -> None:
    """What Ctrl-C does to a program in a terminal. Raises ``OSError``.

    Windows can send no Ctrl-C to one process, but Ctrl-Break to a group: the process must have been started as one, and
    share the console of this one, else it is not reached.
    """
    if sys.platform == "win32":
        os.kill(pid, signal.CTRL_BREAK_EVENT)
    else:
        os.kill(pid, signal.SIGINT)


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _by_ps(pid: int) -> str:
    if sys.platform == "win32":
        words = ["powershell", "-NoProfile", "-Command", f"(Get-Process -Id {pid}).StartTime.Ticks"]
    else:
        words = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    told = " ".join(done.stdout.split())
    if sys.platform == "win32":
        return told
    state, _, started = told.partition(" ")
    return "" if state.startswith("Z") else started
