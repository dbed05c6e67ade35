"""How templates write values: one table for the report and the dashboard. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skillopt.models.pricing import money
from skillopt.report.bounds import ChangedItems, cut
from skillopt.report.evolution import hunk_header
from skillopt.report.final import arm_title
from skillopt.report.numbers import compact, p_text, percent, points, seconds, tone


def count(value: int | None) -> str:
    """A whole number."""
    return "–" if value is None else f"{value:,}"


def words(name: str | None) -> str:
    """A name with underscores as words."""
    return (name or "").replace("_", " ")


def item_names(items: Sequence[str]) -> str:
    """The first of some item ids, and how many more there are."""
    more = f" and {len(items) - 4} more" if len(items) > 4 else ""
    return ", ".join(cut(item, 60) for item in items[:4]) + more


def flip_words(changed: ChangedItems) -> str:
    """How many items changed in which way, in a sentence."""
    counts = {group.kind: group.total for group in changed.groups}
    parts = [
        f"{counts.get('fixed', 0)} fixed",
        f"{counts.get('broken', 0)} broken",
        f"{counts.get('failing', 0)} still failing",
        f"{changed.passing} passing under both",
    ]
    if changed.unmeasured:
        parts.append(f"{changed.unmeasured} not measured under one of them")
    partial = f" Of those that still fail, {changed.raised} have a higher and {changed.lowered} a lower soft score."
    return ", ".join(parts) + "." + (partial if changed.raised or changed.lowered else "")


def _known(write: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "–" if value is None else write(value)


FILTERS: Mapping[str, Callable[..., str]] = {
    "arm_title": arm_title,
    "compact": _known(compact),
    "count": count,
    "cut": cut,
    "flip_words": flip_words,
    "hunk_header": hunk_header,
    "item_names": item_names,
    "money": money,
    "p_text": p_text,
    "percent": percent,
    "points": points,
    "seconds": _known(seconds),
    "tone": tone,
    "words": words,
}
"""The filters that ``templates/parts.html`` needs, by name."""
