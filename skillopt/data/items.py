"""From rows to items: ids, required fields, id manifests told apart from data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.data.errors import DataError
from skillopt.data.readers import Row
from skillopt.types import Item


@dataclass(frozen=True, slots=True)
class Schema:
    """What the rows of an environment hold beside ``id``.

    ``parse`` turns a row into the data of an item; it raises ``DataError`` with the reason alone, the place is added.
    ``materialize`` is the command that turns an id manifest into rows, with ``{manifest_dir}`` where its folder goes.
    """

    env: str
    required: tuple[str, ...] = ()
    parse: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    materialize: str = ""


@dataclass(frozen=True, slots=True)
class Placed:
    """An item and where it was read."""

    item: Item
    place: str


def to_items(rows: Sequence[Row], schema: Schema) -> list[Placed]:
    """The items of ``rows``, in order. Raises ``DataError`` with the place of the first row that is no item."""
    return [Placed(_item(row, schema), row.place) for row in rows]


def row_id(data: Mapping[str, Any]) -> str:
    """The id of a row as text. Raises ``DataError`` with the reason when there is none."""
    value = data.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and value.strip():
        return value
    if value is None and "key" in data:
        raise DataError("has a 'key' but no 'id'; name the column 'id'")
    if value is None or isinstance(value, str):
        raise DataError("has no 'id'; each row needs one, unique over all splits")
    raise DataError(f"has the id {value!r}; an id is a text or a whole number")


def check_ids(splits: Iterable[tuple[str, Sequence[Placed]]]) -> None:
    """Refuse an id that stands twice, in one split or in two, naming it and both places."""
    seen: dict[str, tuple[str, str]] = {}
    for split, placed in splits:
        for entry in placed:
            item_id = entry.item.id
            if item_id not in seen:
                seen[item_id] = (split, entry.place)
                continue
            first_split, first_place = seen[item_id]
            where = f"{first_place} and {entry.place}"
            if first_split == split:
                raise DataError(f"id {item_id!r} stands twice: {where}; ids are unique over all splits")
            raise DataError(
                f"id {item_id!r} is in two splits, {first_split} and {split}: {where}; remove it from one of them"
            )


def is_manifest(rows: Sequence[Row], schema: Schema) -> bool:
    """Whether ``rows`` only name items: an id and nothing else, or none of the fields that hold content."""
    if not rows or not all("id" in row.data for row in rows):
        return False
    return all(_only_names(row.data, schema.required) for row in rows)


def manifest_error(schema: Schema, file: Path, manifest_dir: Path) -> DataError:
    """The answer to an id manifest in place of rows: what to run."""
    command = schema.materialize.format(manifest_dir=manifest_dir)
    needs = f" ({', '.join(schema.required)})" if schema.required else ""
    todo = f"run\n  {command}\nand set env.split_dir to its output" if command else "fetch the rows of these ids first"
    said = f"{file}: this is an id manifest: it names the items but does not hold them{needs}; {todo}"
    return DataError(said, setting="env.split_dir", command=command)


def _only_names(data: Mapping[str, Any], content: Iterable[str]) -> bool:
    fields = tuple(content)
    return not any(name in data for name in fields) if fields else set(data) == {"id"}


def _item(row: Row, schema: Schema) -> Item:
    try:
        item_id = row_id(row.data)
        missing = [name for name in schema.required if row.data.get(name) is None]
        if missing:
            raise DataError(f"lacks {', '.join(missing)}; {schema.env} rows hold id, {', '.join(schema.required)}")
        return Item(item_id, {**schema.parse(row.data), "id": item_id})
    except DataError as error:
        raise DataError(f"{row.place}: {error}") from error
