"""Accessible SVG without style or script: shapes have classes, ``style.css`` gives them colours. Pure.

A chart is a ``figure`` with a title, a legend in HTML (so that it keeps its size on a small screen), and one ``svg``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9_-]+")
_LEAST_SPAN = 1e-10
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
Pair = tuple[float, float]
Entries = Sequence[tuple[str, str]]
"""The series of a legend: class and name."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a chart draws: ``width`` and ``height`` of the drawing, its margins, and the values at the ends of its axes
    (``x0`` to ``x1`` from left to right, ``y0`` to ``y1`` from the bottom to the top)."""

    width: float
    height: float
    x0: float
    x1: float
    y0: float
    y1: float
    left: float = 56
    right: float = 14
    top: float = 14
    bottom: float = 44

    def x(self, value: float) -> float:
        """Where a value stands on the x axis."""
        span = self.x1 - self.x0 or 1.0
        return self.left + (value - self.x0) / span * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        """Where a value stands on the y axis."""
        span = self.y1 - self.y0 or 1.0
        return self.height - self.bottom - (value - self.y0) / span * (self.height - self.top - self.bottom)

    def at(self, x: float, y: float) -> str:
        """Where a point stands, as a path says it."""
        return f"{coord(self.x(x))} {coord(self.y(y))}"


Drawing = tuple[Frame, str]
"""A frame and the shapes in it."""


def tidy(text: str) -> str:
    """Untrusted text without characters that turn the direction of what follows, or that no page may hold."""
    return _CONTROL.sub("\ufffd", text)


def coord(value: float) -> str:
    """A coordinate in as few characters as a tenth of a pixel needs."""
    return f"{value:.1f}".removesuffix(".0")


def identifier(*words: str) -> str:
    """An id for an element, of words that may be anything."""
    return _NOT_IN_ID.sub("-", "-".join(words)).strip("-") or "chart"


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round values from ``low`` to ``high``, at most ``most`` of them."""
    span = high - low
    if not (math.isfinite(span) and span > _LEAST_SPAN):
        return [low]
    raw = span / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(nice * power for nice in _STEPS if nice * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(index * step, 10) for index in range(first, last + 1)]


def whole_ticks(low: int, high: int, most: int = 9) -> list[int]:
    """Round whole numbers from ``low`` to ``high``, at most about ``most`` of them."""
    step = next(step for step in _whole_steps() if (high - low) / step <= most - 1)
    first = math.ceil(low / step) * step
    return list(range(first, high + 1, step))


def _whole_steps() -> Iterable[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    """A straight line between two places of the drawing."""
    return f'<line class="{kind}" x1="{coord(x1)}" y1="{coord(y1)}" x2="{coord(x2)}" y2="{coord(y2)}"/>'


def words(kind: str, x: float, y: float, text: str, anchor: str = "middle") -> str:
    """A text; ``anchor`` says which part of it stands at ``x``."""
    return (
        f'<text class="{kind}" x="{coord(x)}" y="{coord(y)}" text-anchor="{anchor}">{escape(tidy(text))}</text>'
        if text
        else ""
    )


def path(kind: str, frame: Frame, points: Sequence[Pair]) -> str:
    """A line through points; nothing without two of them."""
    if len(points) < 2:
        return ""
    return f'<path class="{kind}" d="M{" L".join(frame.at(x, y) for x, y in points)}"/>'


def stairs(kind: str, frame: Frame, points: Sequence[Pair], end: float | None = None) -> str:
    """A line that keeps each value until the next point (the last one until ``end``)."""
    if not points or (len(points) < 2 and end is None):
        return ""
    parts = [f"M{frame.at(*points[0])}"]
    for x, y in points[1:]:
        parts.append(f"H{coord(frame.x(x))}V{coord(frame.y(y))}")
    if end is not None and end > points[-1][0]:
        parts.append(f"H{coord(frame.x(end))}")
    return f'<path class="{kind}" d="{"".join(parts)}"/>'


def bar(kind: str, frame: Frame, x: float, low: float, high: float, half: float) -> str:
    """A bar of ``half`` a width of pixels on each side of ``x``, between two values."""
    top, bottom = frame.y(high), frame.y(low)
    return (
        f'<rect class="{kind}" x="{coord(frame.x(x) - half)}" y="{coord(top)}" width="{coord(2 * half)}" '
        f'height="{coord(max(bottom - top, 0))}"/>'
    )


def dot(kind: str, frame: Frame, x: float, y: float) -> str:
    """A point of a series."""
    return f'<circle class="dot {kind}" cx="{coord(frame.x(x))}" cy="{coord(frame.y(y))}" r="2.5"/>'


def mark(kind: str, x: float, y: float, size: float = 5) -> str:
    """The sign of a candidate's fate: a disc (accepted), a cross (rejected), a ring (skipped)."""
    if kind == "rejected":
        a, b, c, d = coord(x - size), coord(x + size), coord(y - size), coord(y + size)
        return f'<path class="mark rejected" d="M{a} {c}L{b} {d}M{a} {d}L{b} {c}"/>'
    return f'<circle class="mark {kind}" cx="{coord(x)}" cy="{coord(y)}" r="{coord(size)}"/>'


def hits(frame: Frame, titles: Sequence[tuple[float, str]]) -> str:
    """Stripes over the whole height that say more when the pointer is on them: one a value of x."""
    places = [frame.x(x) for x, _ in titles]
    middles = [(a + b) / 2 for a, b in pairwise(places)]
    edges = [frame.left, *middles, frame.width - frame.right]
    height = coord(frame.height - frame.top - frame.bottom)
    found = []
    for (_, title), place, low, high in zip(titles, places, edges, edges[1:], strict=False):
        rect = f'x="{coord(low)}" y="{coord(frame.top)}" width="{coord(max(high - low, 1))}" height="{height}"'
        guide = line("guide", place, frame.top, place, frame.height - frame.bottom)
        found.append(f'<g class="hit"><title>{escape(tidy(title))}</title><rect {rect}/>{guide}</g>')
    return "".join(found)


def floor(frame: Frame) -> str:
    """The line of the x axis."""
    y = frame.height - frame.bottom
    return line("axis", frame.left, y, frame.width - frame.right, y)


def axes(
    frame: Frame, x_values: Sequence[tuple[float, str]], y_values: Sequence[tuple[float, str]], x_name: str
) -> str:
    """The two axes with their values and lines across; every other value has the class ``minor``, which a small screen
    leaves out."""
    right, bottom = frame.width - frame.right, frame.height - frame.bottom
    parts = []
    for value, label in y_values:
        y = frame.y(value)
        parts += [line("grid", frame.left, y, right, y), words("tick", frame.left - 8, y + 4, label, "end")]
    for index, (value, label) in enumerate(x_values):
        kind = "tick minor" if index % 2 else "tick"
        parts += [line("grid stub", frame.x(value), bottom, frame.x(value), bottom + 4)]
        parts += [words(kind, frame.x(value), bottom + 18, label)]
    parts += [floor(frame)]
    parts += [words("axis-name", (frame.left + right) / 2, frame.height - 6, x_name)]
    return "".join(parts)


def legend(entries: Entries) -> str:
    """The names of the series, each with a swatch of its class."""
    items = (
        f'<li><span class="swatch {kind}" aria-hidden="true"></span>{escape(tidy(name))}</li>' for kind, name in entries
    )
    return f'<ul class="legend">{"".join(items)}</ul>' if entries else ""


def figure(key: str, title: str, summary: str, drawings: Sequence[Drawing], entries: Entries = ()) -> str:
    """A whole chart; ``summary`` says in words what is to be seen, for those who do not see it. With two drawings the
    second one is for narrow places."""
    name = identifier(key)
    ids = f'aria-labelledby="{name}-title" aria-describedby="{name}-desc"'
    views = (
        f'<svg class="{kind}" viewBox="0 0 {coord(frame.width)} {coord(frame.height)}" role="img" {ids}>{shapes}</svg>'
        for kind, (frame, shapes) in zip(("wide", "narrow") if len(drawings) > 1 else ("only",), drawings, strict=True)
    )
    drawn = "".join(views)
    return (
        f'<figure class="chart" id="{name}"><figcaption id="{name}-title">{escape(tidy(title))}</figcaption>'
        f'{legend(entries)}<p class="visually-hidden" id="{name}-desc">{escape(tidy(summary))}</p>'
        f"{drawn}</figure>"
    )
