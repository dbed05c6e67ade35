"""From the published SearchQA id manifest to the rows that a run needs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from skillopt.data.errors import DataError
from skillopt.data.files import json_text, write_if_changed
from skillopt.data.items import row_id
from skillopt.data.readers import MANIFEST_NAME, Row, data_files, read_rows
from skillopt.data.splits import ITEMS_NAME
from skillopt.extras import install_hint
from skillopt.types import SPLITS, Split

DATASET = "lucadiliello/searchqa"
FIELDS = ("question", "context", "answers")
# A question without snippets can be asked; one without words or gold answers cannot.
_EMPTY: dict[str, tuple[Any, ...]] = {"question": ("",), "context": (), "answers": ("", [])}

Sources = Iterable[tuple[str, Iterable[Mapping[str, Any]]]]
"""The splits of the source dataset: (name, its rows)."""

Manifest = dict[Split, list[str]]
"""The ids of each split, in the order of the manifest."""


def read_manifest(manifest_dir: Path) -> Manifest:
    """The ids of ``<manifest_dir>/{train,val,test}/``. Raises ``DataError`` when an id stands twice."""
    manifest: Manifest = {}
    seen: dict[str, str] = {}
    for split in SPLITS:
        manifest[split] = []
        for row in _manifest_rows(manifest_dir / split):
            try:
                item_id = row_id(row.data)
            except DataError as error:
                raise DataError(f"{row.place}: {error}") from error
            if item_id in seen:
                raise DataError(f"id {item_id!r} stands twice in the manifest: {seen[item_id]} and {row.place}")
            seen[item_id] = row.place
            manifest[split].append(item_id)
    return manifest


def pick_rows(manifest: Manifest, sources: Sources) -> dict[Split, list[dict[str, Any]]]:
    """The rows of the manifest's ids, in its order. Raises ``DataError`` for a missing, double or incomplete row."""
    wanted = {item_id for ids in manifest.values() for item_id in ids}
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for source, rows in sources:
        for row in rows:
            key = str(row.get("key"))
            if key not in wanted:
                continue
            if key in found:
                raise DataError(f"key {key!r} stands twice in the source dataset: in {found[key][0]} and in {source}")
            found[key] = (source, _complete(key, row, source))
    missing = [item_id for ids in manifest.values() for item_id in ids if item_id not in found]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(wanted)} ids are not in the source dataset, first {', '.join(missing[:5])}; "
            "is it the dataset that the manifest was made from?"
        )
    return {split: [found[item_id][1] for item_id in ids] for split, ids in manifest.items()}


def materialize(manifest_dir: Path, output_dir: Path, sources: Sources, *, dataset: str = DATASET) -> dict[Split, int]:
    """Write ``<output_dir>/{train,val,test}/items.json`` and a split manifest; returns the number of rows of each.

    Nothing is written unless all rows are there. Raises ``DataError``.
    """
    manifest = read_manifest(manifest_dir)
    for split in SPLITS:
        _refuse_hidden_output(output_dir / split)
    rows = pick_rows(manifest, sources)
    counts = {split: len(rows[split]) for split in SPLITS}
    for split in SPLITS:
        write_if_changed(output_dir / split / ITEMS_NAME, json_text(rows[split]))
    about = {
        "source_dataset": dataset,
        "source_id_field": "key",
        "split_mode": "manifest",
        "item_fields": ["id", *FIELDS],
        "counts": counts,
    }
    write_if_changed(output_dir / MANIFEST_NAME, json_text(about))
    return counts


def hub_sources(dataset: str) -> Iterator[tuple[str, Iterable[Mapping[str, Any]]]]:
    """Every split of a dataset of the Hugging Face hub. Raises ``DataError`` when it cannot be had."""
    try:
        import datasets
    except ImportError as error:
        raise DataError(f"the `datasets` library is needed here: {install_hint('searchqa')}") from error
    try:
        loaded = datasets.load_dataset(dataset)
    except (OSError, ValueError) as error:
        raise DataError(f"dataset {dataset!r} cannot be loaded: {error}") from error
    yield from loaded.items()


def main(argv: Sequence[str] | None = None) -> int:
    """The command: exit status 0, or 1 with the reason on standard error."""
    parser = argparse.ArgumentParser(description="Write the SearchQA rows that an id manifest names.")
    parser.add_argument("--manifest-dir", type=Path, required=True, help="folder with train/, val/ and test/ id lists")
    parser.add_argument("--output-dir", type=Path, required=True, help="folder to write the split to")
    parser.add_argument("--dataset", default=DATASET, help="dataset of the Hugging Face hub (default: %(default)s)")
    args = parser.parse_args(argv)
    try:
        counts = materialize(args.manifest_dir, args.output_dir, hub_sources(args.dataset), dataset=args.dataset)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    numbers = ", ".join(f"{split} {count}" for split, count in counts.items())
    print(f"{args.output_dir}: {numbers}; use it with env.split_mode=split_dir env.split_dir={args.output_dir}")
    return 0


def _manifest_rows(folder: Path) -> tuple[Row, ...]:
    files = data_files(folder) if folder.is_dir() else []
    if not files:
        raise DataError(f"{folder}: no id list here; the manifest folder needs train/, val/ and test/ with one each")
    return read_rows(files[0])


def _refuse_hidden_output(folder: Path) -> None:
    """A split folder is read from its first data file, so one that sorts before ours would hide it."""
    if not folder.is_dir():
        return
    first = next((file for file in data_files(folder) if file.name < ITEMS_NAME), None)
    if first is not None:
        raise DataError(
            f"{folder} holds {first.name}, which would be read in place of {ITEMS_NAME}; use an empty folder"
        )


def _complete(key: str, row: Mapping[str, Any], source: str) -> dict[str, Any]:
    lacking = [name for name in FIELDS if row.get(name) is None or row[name] in _EMPTY[name]]
    if lacking:
        raise DataError(f"key {key!r} of source split {source!r} lacks {', '.join(lacking)}")
    answers = row["answers"]
    return {
        "id": key,
        "question": row["question"],
        "context": row["context"],
        "answers": answers if isinstance(answers, str) else list(answers),
    }
