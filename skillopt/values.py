"""Values of files that anyone may have written, as the kind that is needed, or as nothing. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

LARGEST = 10**15
"""The largest number that means anything in a run: with it, sums and axes stay finite and exact."""
MOST_PARTS = 300_000
"""The most lists and objects in a JSON document."""
DEEPEST = 64
"""The most lists and objects within each other: whoever walks through a value does so by recursion."""


class TooMuch(ValueError):
    """A JSON document that is whole, but more than a reader takes."""


def parse_json(content: bytes | str, most_parts: int = MOST_PARTS) -> Any:
    """The value of a JSON document. Raises ``ValueError`` when it is torn, and ``TooMuch`` when it is nested deeper
    than ``DEEPEST`` or of more than ``most_parts`` lists and objects, each of which takes twenty times the memory of
    its text."""
    written = (content if isinstance(content, str) else content.decode()).removeprefix("\ufeff")
    parts = written.count("[") + written.count("{")
    if parts > most_parts:
        raise TooMuch(f"has more than {most_parts:,} parts")
    try:
        value = json.loads(written)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if parts > DEEPEST and _deeper(value):
        raise TooMuch("is nested too deep")
    return value


def _deeper(value: Any) -> bool:
    """Whether a value is nested deeper than ``DEEPEST``."""
    level = [value]
    for _ in range(DEEPEST + 1):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [child for children in inner for child in children if isinstance(child, (dict, list))]
        if not level:
            return False
    return True


def mapping(value: Any) -> Mapping[str, Any]:
    """An object, or an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> tuple[Mapping[str, Any], ...]:
    """The objects of a list."""
    return tuple(entry for entry in value if isinstance(entry, dict)) if isinstance(value, list) else ()


def count(value: Any) -> int | None:
    """A whole number; None for what is none, and for one beyond ``LARGEST``, which counts nothing."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST else None


def whole(value: Any) -> int:
    """As ``count``, but 0 for what is none."""
    return count(value) or 0


def fraction(value: Any) -> float | None:
    """A number that is finite and not beyond ``LARGEST``; None for what is none."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) <= LARGEST:
        return None
    return float(value)


def text(value: Any) -> str:
    """A text; '' for null, and the words of anything else."""
    if value is None:
        return ""
    return value if isinstance(value, str) else str(value)


def label(value: Any, most: int = 300) -> str:
    """A text of a few words, cut between two of them before it has more than ``most`` characters: half a secret is not
    known as one."""
    words = text(value)
    return words if len(words) <= most else words[:most].rpartition(" ")[0] + "…"


def texts(value: Any) -> tuple[str, ...]:
    """The entries of a list as texts."""
    return tuple(map(text, value)) if isinstance(value, list) else ()


def mean(values: Sequence[float]) -> float | None:
    """The mean, summed exactly; None of nothing."""
    return math.fsum(values) / len(values) if values else None
