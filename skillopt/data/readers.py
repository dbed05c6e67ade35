"""Rows out of JSON, JSON Lines and CSV files, each row with its place for error messages."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skillopt.data.errors import DataError
from skillopt.data.files import read_text

SUFFIXES = (".json", ".jsonl", ".csv")
SPLIT_FOLDERS = ("train", "val", "test")
MANIFEST_NAME = "split_manifest.json"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a data file. ``place`` is "FILE row 3" or "FILE line 7", both counted from 1."""

    place: str
    data: dict[str, Any] = field(default_factory=dict)


def read_rows(path: str | Path, *, allow_object: bool = False) -> tuple[Row, ...]:
    """All rows of a ``.json`` (an array), ``.jsonl`` or ``.csv`` file, in file order.

    ``allow_object`` also takes a JSON object: its ``data`` list, or else its values. Raises ``DataError`` with the
    file and the row or line.
    """
    path = Path(path)
    text = read_text(path)
    suffix = path.suffix.lower()
    if suffix == ".json":
        rows = _json_rows(text, path, allow_object)
    elif suffix == ".jsonl":
        rows = _jsonl_rows(text, path)
    elif suffix == ".csv":
        rows = _csv_rows(text, path)
    else:
        raise DataError(f"{path}: unknown kind of data file; use {', '.join(SUFFIXES)}")
    return tuple(_checked(row) for row in rows)


def data_files(folder: Path) -> list[Path]:
    """The data files right in ``folder``, by name. Hidden files and a split manifest are none."""
    return sorted(
        (
            path
            for path in folder.iterdir()
            if path.suffix.lower() in SUFFIXES
            and not path.name.startswith(".")
            and path.name != MANIFEST_NAME
            and path.is_file()
        ),
        key=lambda path: path.name,
    )


def find_dataset(data_path: str | os.PathLike[str]) -> Path:
    """The raw data file that ``env.data_path`` means: the file itself, or the only data file of a folder."""
    if not str(data_path).strip():
        raise DataError(
            "env.data_path is empty: ratio mode needs the data file to split (or set env.split_mode)",
            setting="env.data_path",
        )
    path = Path(data_path)
    if not path.exists():
        raise DataError(f"env.data_path={path}: no such file or folder", setting="env.data_path")
    if not path.is_dir():
        return path
    if any((path / name).is_dir() for name in SPLIT_FOLDERS):
        raise DataError(
            f"env.data_path={path}: this folder is split already (it has train/, val/ or test/); "
            f"use env.split_mode=split_dir with env.split_dir={path}",
            setting="env.split_dir",
            choices=(str(path),),
        )
    files = data_files(path)
    if len(files) != 1:
        found = ", ".join(file.name for file in files) or "none"
        raise DataError(
            f"env.data_path={path}: needs exactly one .json, .jsonl or .csv file in this folder, has {found}",
            setting="env.data_path",
            choices=[str(file) for file in files],
        )
    return files[0]


def _loads(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        hint = "; several documents in one file: name it .jsonl" if error.msg == "Extra data" else ""
        # The place of a row of JSON Lines names its line already.
        where = f"line {error.lineno}, column {error.colno}" if "\n" in text else f"column {error.colno}"
        raise DataError(f"{place}: not valid JSON: {error.msg} ({where}){hint}") from error
    except (ValueError, RecursionError) as error:
        # Numbers of thousands of digits and thousands of nested brackets end here.
        raise DataError(f"{place}: not usable JSON: {error}") from error


def _json_rows(text: str, path: Path, allow_object: bool) -> Iterator[Row]:
    document = _loads(text, str(path))
    if isinstance(document, dict) and allow_object:
        listed = document.get("data")
        document = listed if isinstance(listed, list) else list(document.values())
    if not isinstance(document, list):
        raise DataError(f"{path}: holds {_kind(document)}, but an array of row objects is needed")
    for number, value in enumerate(document, 1):
        yield _object_row(value, f"{path} row {number}")


def _jsonl_rows(text: str, path: Path) -> Iterator[Row]:
    # Not splitlines(): JSON strings may hold U+2028 and its kin as they are.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"{path} line {number}"
            yield _object_row(_loads(line, place), place)


def _object_row(value: Any, place: str) -> Row:
    if not isinstance(value, dict):
        raise DataError(f"{place}: is {_kind(value)}, but a row is a JSON object")
    return Row(place, value)


def _csv_rows(text: str, path: Path) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    try:
        for cells in reader:
            place = f"{path} line {reader.line_num}"
            if not cells:
                continue
            if header is None:
                header = _header(cells, place)
                continue
            if len(cells) != len(header):
                raise DataError(f"{place}: has {len(cells)} columns, but the header has {len(header)}")
            row: dict[str, Any] = dict(zip(header, cells, strict=True))
            if "answers" in row:
                row["answers"] = _csv_answers(row["answers"], place)
            yield Row(place, row)
    except csv.Error as error:
        raise DataError(
            f"{path} line {reader.line_num}: not valid CSV: {error} (JSON Lines has no such limits)"
        ) from error


def _header(cells: list[str], place: str) -> list[str]:
    names = [cell.strip() for cell in cells]
    for name in names:
        if not name:
            raise DataError(f"{place}: a column of the header has no name")
        if names.count(name) > 1:
            raise DataError(f"{place}: the header names column {name!r} twice")
    return names


def _csv_answers(text: str, place: str) -> Any:
    stripped = text.strip()
    if not (stripped.startswith("[") and stripped.endswith("]")):
        return text
    try:
        return json.loads(stripped)
    except (ValueError, RecursionError) as error:
        # Taken as plain text, ['a', 'b'] would be a gold answer that nobody can give.
        raise DataError(
            f"{place}: answers is in brackets but is not a JSON list; write it as {json.dumps(['one', 'two'])}"
        ) from error


def _checked(row: Row) -> Row:
    """Refuse what cannot be written or sent later: numbers that are none, halves of surrogate pairs."""
    pending: list[Any] = [row.data]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending.extend(value)
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, float) and not math.isfinite(value):
            raise DataError(f"{row.place}: {value} is not a JSON number; write null")
        elif isinstance(value, str) and not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise DataError(f"{row.place}: a text holds half of a surrogate pair (\\ud800-\\udfff); mend or remove it")
    return row


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {dict: "an object", list: "an array", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return names[type(value)]
