"""What a run says while it works: one event at a time, to any number of listeners."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

EVENTS = "events.jsonl"
_ENCODE = json.JSONEncoder(ensure_ascii=False, default=str).encode
Listener = Callable[[str, Mapping[str, Any]], None]


class Events:
    """Passes each event (a kind and its fields) to the listeners, in order."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = list(listeners)

    def add(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def emit(self, kind: str, **fields: Any) -> None:
        for listener in self._listeners:
            listener(kind, fields)


class EventLog:
    """Listener that appends each event as a line of ``events.jsonl``: ``{"at": unix seconds, "event": kind, …}``.

    A line torn by a kill stays alone on its line, so that readers lose that one event only. ``mask`` is applied to
    every line, so that no secret reaches the file.
    """

    def __init__(self, path: Path, mask: Callable[[str], str]) -> None:
        torn = _torn(path)
        self._mask = mask
        # A half surrogate of an item or a message must not end the run here.
        self._handle: TextIO = open(  # noqa: SIM115
            path, "a", encoding="utf-8", errors="replace", newline="\n", buffering=1
        )
        if torn:
            self._handle.write("\n")

    def __call__(self, kind: str, fields: Mapping[str, Any]) -> None:
        line = _ENCODE({"at": round(time.time(), 3), "event": kind, **fields})
        self._handle.write(self._mask(line) + "\n")

    def close(self) -> None:
        self._handle.close()


def _torn(path: Path) -> bool:
    """Whether the file ends within a line."""
    if not path.exists() or path.stat().st_size == 0:
        return False
    with open(path, "rb") as handle:
        handle.seek(-1, os.SEEK_END)
        return handle.read() != b"\n"
