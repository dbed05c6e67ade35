"""Names: of splits, and of the folder that belongs to an item."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from skillopt.data.errors import DataError
from skillopt.spelling import nearest
from skillopt.types import SPLIT_ALIASES, Split

MAX_NAME = 80
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)", re.IGNORECASE)


def known_names(name: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown ``name``: the nearest known one, and all of them."""
    options = list(known)
    match = nearest(name, options)
    hint = f"did you mean {match!r}? " if match else ""
    return f"{hint}Known: {', '.join(options)}"


def nearest_first(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known names, the one that looks most like ``name`` in front."""
    options = list(known)
    match = nearest(name, options)
    return tuple(sorted(options, key=lambda option: option != match))


def resolve_split(name: str) -> Split:
    """The split that ``name`` or an alias of it means. Raises ``DataError`` for any other name."""
    split = SPLIT_ALIASES.get(name.strip().lower())
    if split is None:
        raise DataError(f"unknown split {name!r}; {known_names(name, SPLIT_ALIASES)}")
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
