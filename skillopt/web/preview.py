"""The first items of each split of the data that a run would use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.data.errors import DataError
from skillopt.data.readers import SPLIT_FOLDERS, data_files, find_dataset, read_rows
from skillopt.report.answers import expected, question
from skillopt.resources import sample_file

_ITEMS = 5
_LARGEST = 256 << 20


@dataclass(frozen=True, slots=True)
class SplitPreview:
    """One split, or the whole of a file that is still to be cut: how many rows, and the first of them."""

    name: str
    total: int
    rows: tuple[Mapping[str, str], ...]


def preview(mode: str, path: str, folder: Path) -> list[SplitPreview]:
    """The data at ``path`` (relative to ``folder``, or shipped). Raises ``DataError``."""
    if not path.strip():
        raise DataError("no data is named: give env.split_dir or env.data_path")
    given = folder / Path(path).expanduser()
    root = given if given.exists() else sample_file(path) or given
    if not root.exists():
        raise DataError(f"{path}: no such file or folder")
    if mode == "split_dir":
        return [_split(name, root / name) for name in SPLIT_FOLDERS]
    return [_read("all items, still to be cut", find_dataset(root) if root.is_dir() else root, root)]


def _split(name: str, folder: Path) -> SplitPreview:
    files = data_files(folder) if folder.is_dir() else []
    return _read(name, files[0], folder) if files else SplitPreview(name, 0, ())


def _read(name: str, file: Path, root: Path) -> SplitPreview:
    real = file.resolve()
    if root.resolve() not in (real, *real.parents):
        raise DataError(f"{file} is a link out of its folder")
    size = file.stat().st_size
    if size > _LARGEST:
        raise DataError(f"{file} is too large for a preview ({size:,} bytes)")
    rows = read_rows(file, allow_object=True)
    return SplitPreview(name, len(rows), tuple(_shown(row.data) for row in rows[:_ITEMS]))


def _shown(row: Mapping[str, Any]) -> Mapping[str, str]:
    whole = json.dumps(row, ensure_ascii=False, default=str)
    return {
        "id": str(row.get("id", ""))[:100],
        "question": question(row)[:300],
        "expected": expected(row)[:200],
        "all": whole[:600],
    }
