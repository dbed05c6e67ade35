"""Reading what lies in a run folder: confined to it, bounded in size, and whole or not at all.

A run folder may come from anyone, and its run may be at work. A file that is missing, torn, too large, or a link out of
the folder reads as nothing; none of these functions raises for what it finds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JSON_LIMIT = 64 << 20
"""The most bytes of a JSON document that is read."""
TEXT_LIMIT = 4 << 20
"""The most bytes of a text that is read."""
LINE_LIMIT = 16 << 20
"""The most bytes of a line of JSON that is read."""


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON document. ``problem`` says why ``value`` is None: '' when there is just no file."""

    value: Any
    problem: str = ""


def inside(root: Path, name: str) -> Path | None:
    """The file or folder ``name`` (``/`` between its parts) of ``root``; None when it is not there, or when it lies
    elsewhere, by ``..`` or by a link."""
    base = os.path.realpath(root)
    try:
        found = os.path.realpath(os.path.join(base, name))
    except (OSError, ValueError):  # a name that no file can have
        return None
    within = found == base or found.startswith(base.rstrip(os.sep) + os.sep)
    return Path(found) if within and os.path.exists(found) else None


def read_json(root: Path, name: str, limit: int = JSON_LIMIT) -> Json:
    """The JSON document ``name`` of ``root``."""
    path = inside(root, name)
    if path is None:
        return Json(None)
    try:
        size = path.stat().st_size
        if size > limit:
            return Json(None, f"{name} is too large to show ({size:,} bytes)")
        return Json(json.loads(path.read_text(encoding="utf-8-sig")))
    except FileNotFoundError:
        return Json(None)
    except (OSError, ValueError, RecursionError):
        return Json(None, f"{name} is torn")


def read_mapping(root: Path, name: str) -> dict[str, Any]:
    """The JSON object ``name`` of ``root``; empty when there is none."""
    value = read_json(root, name).value
    return value if isinstance(value, dict) else {}


def read_text(root: Path, name: str, limit: int = TEXT_LIMIT) -> str | None:
    """The text ``name`` of ``root`` with its own line ends, cut after ``limit`` bytes; None when there is none."""
    path = inside(root, name)
    try:
        if path is None or not path.is_file():
            return None
        with open(path, "rb") as handle:
            return handle.read(limit).decode("utf-8-sig", "replace")
    except OSError:
        return None


def read_rows(root: Path, name: str) -> Iterator[tuple[int, bytes]]:
    """The lines of ``name`` in ``root`` with their numbers from 0, blank ones left out, one in memory at a time. A line
    above ``LINE_LIMIT`` comes cut."""
    path = inside(root, name)
    if path is None or not path.is_file():
        return
    number = 0
    try:
        with open(path, "rb") as handle:
            while line := handle.readline(LINE_LIMIT):
                cut = not line.endswith(b"\n")
                if line.strip():
                    yield number, line
                    number += 1
                while cut and (rest := handle.readline(LINE_LIMIT)) and not rest.endswith(b"\n"):
                    pass
    except OSError:
        return


def parse_row(line: bytes) -> dict[str, Any] | None:
    """The JSON object of a line; None when it is torn or something else."""
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def tail_lines(root: Path, name: str, size: int) -> list[bytes]:
    """The lines in the last ``size`` bytes of ``name`` in ``root``; the first one may be cut."""
    path = inside(root, name)
    try:
        if path is None:
            return []
        with open(path, "rb") as handle:
            end = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, end - size))
            return handle.read(size).splitlines()
    except OSError:
        return []


def new_lines(root: Path, name: str, position: int, size: int) -> tuple[list[bytes], int]:
    """The whole lines of ``name`` behind byte ``position``, of at most ``size`` bytes, and the position behind them."""
    path = inside(root, name)
    try:
        if path is None:
            return [], position
        with open(path, "rb") as handle:
            end = handle.seek(0, os.SEEK_END)
            handle.seek(position if position <= end else 0)  # a shorter file is another file
            start, chunk = handle.tell(), handle.read(size)
    except OSError:
        return [], position
    whole = chunk.rfind(b"\n") + 1
    if whole == 0 and len(chunk) == size:
        return [], start + size  # no event is that long
    return chunk[:whole].splitlines(), start + whole
