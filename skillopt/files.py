"""Atomic file writes: a reader sees the old bytes or the new ones, never half of them. And what lies in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def write_atomic(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replaces ``path`` by ``content``: temporary file, fsync, rename. ``durable=False`` leaves out the fsync, for bulk
    files that the journal can render again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as handle:
        handle.write(content)
        if durable:
            handle.flush()
            os.fsync(handle.fileno())
    os.replace(temporary, path)


def write_changed(path: Path, content: bytes, *, durable: bool = True) -> bool:
    """As ``write_atomic``, but leaves a file alone that already holds ``content``. Returns whether it wrote."""
    try:
        if path.stat().st_size == len(content) and path.read_bytes() == content:
            return False
    except OSError:
        pass
    write_atomic(path, content, durable=durable)
    return True


def remove_temporaries(root: Path, directories: Iterable[Path]) -> None:
    """Removes what a killed writer left in ``directories`` (relative to ``root``)."""
    for directory in directories:
        for leftover in (root / directory).glob(".*.tmp"):
            leftover.unlink(missing_ok=True)


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
