"""Values of files that anyone may have written, as the kind that is needed, or as nothing. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def mapping(value: Any) -> Mapping[str, Any]:
    """An object, or an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> tuple[Mapping[str, Any], ...]:
    """The objects of a list."""
    return tuple(entry for entry in value if isinstance(entry, dict)) if isinstance(value, list) else ()


def whole(value: Any) -> int:
    """A whole number; 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def fraction(value: Any) -> float | None:
    """A finite number; None for what is none."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) else None


def text(value: Any) -> str:
    """A text; '' for null, and the words of anything else."""
    if value is None:
        return ""
    return value if isinstance(value, str) else str(value)


def texts(value: Any) -> tuple[str, ...]:
    """The entries of a list as texts."""
    return tuple(map(text, value)) if isinstance(value, list) else ()


def mean(values: Sequence[float]) -> float | None:
    """The mean, summed exactly; None of nothing."""
    return math.fsum(values) / len(values) if values else None
