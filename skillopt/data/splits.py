"""The three splits of an environment: read from a split folder, or cut from one dataset."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from skillopt.data.errors import DataError
from skillopt.data.files import json_text, write_if_changed
from skillopt.data.items import Placed, Schema, check_ids, is_manifest, manifest_error, to_items
from skillopt.data.names import known_names, nearest_first, resolve_split, safe_name
from skillopt.data.ratio import parse_ratio, ratio_split
from skillopt.data.readers import MANIFEST_NAME, data_files, find_dataset, read_rows
from skillopt.resources import sample_file
from skillopt.types import SPLITS, Item, Split

__all__ = [
    "SplitOptions",
    "SplitSettings",
    "Splits",
    "generated_dir",
    "load_splits",
    "resolve_split",
    "safe_name",
    "to_splits",
]

DEFAULT_RATIO = "2:1:7"
DEFAULT_SEED = 42
ITEMS_NAME = "items.json"


class SplitOptions(Protocol):
    """The keys of the ``env`` section that say where the data is."""

    @property
    def split_mode(self) -> str: ...
    @property
    def split_dir(self) -> str | os.PathLike[str]: ...
    @property
    def data_path(self) -> str | os.PathLike[str]: ...
    @property
    def split_output_dir(self) -> str | os.PathLike[str]: ...
    @property
    def split_ratio(self) -> str | None: ...
    @property
    def split_seed(self) -> int | None: ...
    @property
    def limit(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """``SplitOptions`` as plain values, for use without a configuration."""

    split_mode: str = "ratio"
    split_dir: str | os.PathLike[str] = ""
    data_path: str | os.PathLike[str] = ""
    split_output_dir: str | os.PathLike[str] = ""
    split_ratio: str | None = DEFAULT_RATIO
    split_seed: int | None = DEFAULT_SEED
    limit: int | None = 0


@dataclass(frozen=True, slots=True)
class Cut:
    """What ratio mode cut for the environment ``env``, whatever ``limit`` keeps of it."""

    options: SplitOptions
    env: str
    parts: Mapping[Split, Sequence[Placed]] = field(repr=False)

    def write(self, out_root: Path) -> None:
        """Writes the splits where ``split_dir`` mode can read them: to ``split_output_dir``, or below ``out_root``.
        What stands there already stays untouched. Raises ``DataError``."""
        folder = generated_dir(self.options, self.env, out_root)
        for split, placed in self.parts.items():
            write_if_changed(folder / split / ITEMS_NAME, json_text(_rows(placed)))
        manifest = {
            "source_data_path": Path(self.options.data_path).as_posix(),
            "split_mode": "ratio",
            "split_ratio": ":".join(map(str, parse_ratio(self.options.split_ratio or DEFAULT_RATIO))),
            "split_seed": _seed(self.options),
            "counts": {split: len(placed) for split, placed in self.parts.items()},
        }
        write_if_changed(folder / MANIFEST_NAME, json_text(manifest))


@dataclass(frozen=True, slots=True)
class Splits:
    """The items of each split, in file order; ids are unique over all three. ``cut`` is None where a folder has them
    cut already."""

    train: tuple[Item, ...] = ()
    val: tuple[Item, ...] = ()
    test: tuple[Item, ...] = ()
    cut: Cut | None = None

    def of(self, split: Split) -> tuple[Item, ...]:
        """The items of one split."""
        return {"train": self.train, "val": self.val, "test": self.test}[split]


def load_splits(options: SplitOptions, schema: Schema) -> Splits:
    """The splits that ``options`` ask for. Reads only; see ``Cut.write``. Raises ``DataError``.

    ``split_dir`` mode reads ``<split_dir>/{train,val,test}/``; ``ratio`` mode cuts ``data_path``. ``limit`` keeps the
    first N items of each split (0: all).
    """
    limit = options.limit or 0
    if limit < 0:
        raise DataError(
            f"env.limit={limit}: needs 0 (all items) or the number of items to keep of each split",
            setting="env.limit",
            choices=("0",),
        )
    if options.split_mode == "split_dir":
        return to_splits(_read_split_dir(options.split_dir, schema), limit)
    if options.split_mode == "ratio":
        parts = _cut_dataset(options, schema)
        return replace(to_splits(parts, limit), cut=Cut(options, schema.env, parts))
    raise DataError(
        f"unknown env.split_mode {options.split_mode!r}; {known_names(options.split_mode, _MODES)}",
        setting="env.split_mode",
        choices=nearest_first(options.split_mode, _MODES),
    )


def to_splits(placed: dict[Split, list[Placed]], limit: int = 0) -> Splits:
    """Items by split as ``Splits``, after the check that every id is unique over all of them."""
    check_ids(placed.items())
    kept = {split: tuple(entry.item for entry in entries[: limit or len(entries)]) for split, entries in placed.items()}
    return Splits(kept.get("train", ()), kept.get("val", ()), kept.get("test", ()))


def generated_dir(options: SplitOptions, env: str, out_root: Path) -> Path:
    """The folder that the splits of ratio mode are written to."""
    if str(options.split_output_dir).strip():
        return Path(options.split_output_dir)
    weights = parse_ratio(options.split_ratio or DEFAULT_RATIO)
    name = f"{safe_name(env)}_{'-'.join(map(str, weights))}_seed{_seed(options)}"
    return out_root / "_generated_splits" / name


_MODES = ("ratio", "split_dir")


def _seed(options: SplitOptions) -> int:
    # Only a missing seed has a default: 0 is a seed.
    return DEFAULT_SEED if options.split_seed is None else options.split_seed


def _read_split_dir(split_dir: str | os.PathLike[str], schema: Schema) -> dict[Split, list[Placed]]:
    if not str(split_dir).strip():
        raise DataError(
            "env.split_dir is empty: split_dir mode needs a folder with train/, val/ and test/", setting="env.split_dir"
        )
    root = Path(split_dir)
    if not root.is_dir():
        root = sample_file(str(split_dir)) or root
    if not root.is_dir():
        command = schema.materialize.format(manifest_dir="MANIFEST_DIR")
        hint = f"; to make it from an id manifest, run\n  {command}" if command else ""
        raise DataError(f"env.split_dir={root}: no such folder{hint}", setting="env.split_dir", command=command)
    missing = [f"{split}/" for split in SPLITS if not (root / split).is_dir()]
    if missing:
        raise DataError(
            f"env.split_dir={root}: has no {', '.join(missing)}; it needs train/, val/ and test/",
            setting="env.split_dir",
        )
    return {split: _read_split(root / split, schema) for split in SPLITS}


def _read_split(folder: Path, schema: Schema) -> list[Placed]:
    files = data_files(folder)
    if not files:
        raise DataError(f"{folder}: holds no .json, .jsonl or .csv file", setting="env.split_dir")
    rows = read_rows(files[0])
    if is_manifest(rows, schema):
        raise manifest_error(schema, files[0], folder.parent)
    return to_items(rows, schema)


def _cut_dataset(options: SplitOptions, schema: Schema) -> dict[Split, list[Placed]]:
    weights = parse_ratio(options.split_ratio or DEFAULT_RATIO)
    file = find_dataset(options.data_path)
    rows = read_rows(file, allow_object=True)
    if is_manifest(rows, schema):
        raise manifest_error(schema, file, file.parent)
    placed = to_items(rows, schema)
    check_ids([("whole", placed)])
    return dict(zip(SPLITS, ratio_split(placed, weights, _seed(options)), strict=True))


def _rows(placed: Sequence[Placed]) -> list[dict[str, Any]]:
    return [{"id": entry.item.id, **{k: v for k, v in entry.item.data.items() if k != "id"}} for entry in placed]
