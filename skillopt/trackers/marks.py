"""``trackers.json``: the run of each tracker that a training logs to, and its last step there, to log none twice."""

from __future__ import annotations

import threading
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

from skillopt.files import write_atomic

FILE = "trackers.json"


class Mark(BaseModel):
    """``run`` is what the tracker calls its run, ``step`` the last one that is logged there (-1: none)."""

    run: str = ""
    step: int = -1


_MARKS = TypeAdapter(dict[str, Mark])


class Marks:
    """The marks of a run folder, by tracker. Trackers work in threads of their own."""

    def __init__(self, root: Path) -> None:
        self._path = root / FILE
        self._lock = threading.Lock()
        self._marks = _read(self._path)

    def of(self, name: str) -> Mark:
        with self._lock:
            return self._marks.get(name, Mark())

    def set(self, name: str, mark: Mark) -> None:
        with self._lock:
            self._marks[name] = mark
            write_atomic(self._path, _MARKS.dump_json(self._marks, indent=2) + b"\n", durable=False)


def _read(path: Path) -> dict[str, Mark]:
    try:
        return _MARKS.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return {}  # without it a step may be logged twice, which harms nobody
