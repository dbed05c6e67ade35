"""Reading what lies in a run folder: confined to it, bounded in size, and whole or not at all.

A run folder may come from anyone, and its run may be at work. A file that is missing, torn, too large, no plain file,
or a link out of the folder reads as nothing; none of these functions raises for what it finds. All of them open files
by ``_opened``: there is no other place where a reader opens one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from skillopt.files import inside
from skillopt.values import TooMuch, parse_json

JSON_LIMIT = 4 << 20
"""The most bytes of a JSON document that is read, where nobody says more."""
TEXT_LIMIT = 4 << 20
"""The most bytes of a text that is read."""
LINE_LIMIT = 2 << 20
"""The most bytes of a line of JSON that is read: an answer with its trajectory is some hundred thousand."""
LINE_PARTS = 20_000
"""The most lists and objects in a line of JSON."""
MOST_ROWS = 50_000
ROWS_LIMIT = 1 << 30
"""The most lines, and bytes, of a file of lines that are read."""


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON document. ``problem`` says why ``value`` is None: '' when there is just no file."""

    value: Any
    problem: str = ""


def _opened(root: Path, name: str) -> BinaryIO | None:
    """The file ``name`` of ``root``, open for reading; None when it is not there, or lies elsewhere. Raises
    ``OSError``, also for what is no plain file: to read a pipe or a device may last for ever."""
    path = inside(root, name)
    if path is None:
        return None
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):  # of what was opened: a name can change hands
        os.close(handle)
        raise OSError(f"{name} is no plain file")
    return os.fdopen(handle, "rb")


def mark(root: Path, name: str) -> tuple[int, int] | None:
    """Size and time of a file: while they are the same, so is what it holds. None when it is not there."""
    path = inside(root, name)
    try:
        told = path.stat() if path is not None else None
    except OSError:
        told = None
    return (told.st_size, told.st_mtime_ns) if told else None


def read_json(root: Path, name: str, limit: int | None = None) -> Json:
    """The JSON document ``name`` of ``root``, of at most ``limit`` bytes (None: ``JSON_LIMIT``)."""
    most = JSON_LIMIT if limit is None else limit
    try:
        handle = _opened(root, name)
        if handle is None:
            return Json(None)
        with handle:
            content = handle.read(most + 1)
            size = os.fstat(handle.fileno()).st_size
        if len(content) > most:
            return Json(None, f"{name} is too large to show ({size:,} bytes)")
        return Json(parse_json(content))
    except TooMuch as error:
        return Json(None, f"{name} {error}")
    except (OSError, ValueError):
        return Json(None, f"{name} is torn")


def read_mapping(root: Path, name: str, limit: int | None = None) -> dict[str, Any]:
    """The JSON object ``name`` of ``root``; empty when there is none."""
    value = read_json(root, name, limit).value
    return value if isinstance(value, dict) else {}


def read_text(root: Path, name: str, limit: int = TEXT_LIMIT) -> str | None:
    """The text ``name`` of ``root`` with its own line ends, cut after ``limit`` bytes; None when there is none."""
    try:
        handle = _opened(root, name)
        if handle is None:
            return None
        with handle:
            return handle.read(limit).decode("utf-8-sig", "replace")
    except OSError:
        return None


def read_rows(root: Path, name: str) -> Iterator[tuple[int, bytes]]:
    """The lines of ``name`` in ``root`` with their numbers from 0, blank ones left out, one in memory at a time: the
    first ``MOST_ROWS``, or those in the first ``ROWS_LIMIT`` bytes. A line above ``LINE_LIMIT`` comes cut."""
    number = size = 0
    try:
        handle = _opened(root, name)
        if handle is None:
            return
        with handle:
            while number < MOST_ROWS and size < ROWS_LIMIT and (line := handle.readline(LINE_LIMIT)):
                size += len(line)
                cut = not line.endswith(b"\n")
                if not line.isspace():
                    yield number, line
                    number += 1
                while cut and size < ROWS_LIMIT and (rest := handle.readline(LINE_LIMIT)):
                    size += len(rest)
                    cut = not rest.endswith(b"\n")
    except OSError:
        return


def parse_row(line: bytes) -> dict[str, Any] | None:
    """The JSON object of a line; None when it is torn, too large, or something else."""
    try:
        value = parse_json(line, LINE_PARTS)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def tail_lines(root: Path, name: str, size: int) -> list[bytes]:
    """The lines in the last ``size`` bytes of ``name`` in ``root``; the first one may be cut."""
    try:
        handle = _opened(root, name)
        if handle is None:
            return []
        with handle:
            end = handle.seek(0, os.SEEK_END)
            handle.seek(max(0, end - size))
            return handle.read(size).splitlines()
    except OSError:
        return []


def new_lines(root: Path, name: str, position: int, size: int) -> tuple[list[bytes], int]:
    """The whole lines of ``name`` behind byte ``position``, of at most ``size`` bytes, and the position behind them."""
    try:
        handle = _opened(root, name)
        if handle is None:
            return [], position
        with handle:
            end = handle.seek(0, os.SEEK_END)
            handle.seek(position if position <= end else 0)  # a shorter file is another file
            start, chunk = handle.tell(), handle.read(size)
    except OSError:
        return [], position
    whole = chunk.rfind(b"\n") + 1
    if whole == 0 and len(chunk) == size:
        return [], start + size  # no event is that long
    return chunk[:whole].splitlines(), start + whole
