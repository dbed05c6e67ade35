"""Names: of splits and their aliases, and of the folder that belongs to an item."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable
from typing import Final

from skillopt.data.errors import DataError
from skillopt.types import Split

SPLITS: Final[tuple[Split, ...]] = ("train", "val", "test")
ALIASES: Final[dict[str, Split]] = {
    "train": "train",
    "val": "val",
    "valid_seen": "val",
    "selection": "val",
    "test": "test",
    "valid_unseen": "test",
}
MAX_NAME = 80
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)", re.IGNORECASE)


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown ``name``: the nearest known one, and all of them."""
    options = list(known)
    close = difflib.get_close_matches(name.strip().lower(), options, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}Known: {', '.join(options)}"


def resolve_split(name: str) -> Split:
    """The split that ``name`` or an alias of it means. Raises ``DataError`` for any other name."""
    split = ALIASES.get(name.strip().lower())
    if split is None:
        raise DataError(f"unknown split {name!r}; {nearest(name, ALIASES)}")
    return split


def safe_name(item_id: str) -> str:
    """A folder name for an item, of at most 80 plain characters: equal ids, equal names; other ids, other names.

    An id that is such a name already stays as it is. Any other becomes its readable part, ``~`` and a hash of the
    whole id; ``~`` stands in no plain name, so the two kinds never meet.
    """
    plain = len(item_id) <= MAX_NAME and _PLAIN.fullmatch(item_id) is not None
    if plain and not item_id.endswith(".") and not _RESERVED.match(item_id):
        return item_id
    digest = hashlib.sha256(item_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    readable = re.sub(r"[^A-Za-z0-9-]+", "_", item_id)[: MAX_NAME - len(digest) - 1]
    return f"{readable.lstrip('-')}~{digest}"
