"""Finding the text that an edit names: first as it is, then with whitespace collapsed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from skillopt.skill.document import Segment, with_line_ending

_CHUNK = re.compile(r"\s+|\S+")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a text: character offsets, ``end`` exclusive."""

    start: int
    end: int

    def overlaps(self, other: Span) -> bool:
        return self.start < other.end and other.start < self.end

    def within(self, other: Span) -> bool:
        return other.start <= self.start and self.end <= other.end


def occurrences(segments: Sequence[Segment], target: str, ending: str) -> Iterator[list[Span]]:
    """Where ``target`` stands in ``segments``, tier by tier: exactly, then with whitespace collapsed.

    An occurrence lies in one segment and begins and ends with what is no whitespace. An exact occurrence may have the
    text's line ends (``ending``) for those of the target. Collapsing makes any run of whitespace equal to any other,
    so indentation and line wrapping do not matter; letters, punctuation and list markers do.
    """
    exact = _exact(segments, target)
    yield exact or _exact(segments, with_line_ending(target, ending))
    yield _collapsed(segments, target)


def first_occurrence(segments: Sequence[Segment], target: str, ending: str) -> Span | None:
    """The first occurrence in the first tier that has one."""
    return next((found[0] for found in occurrences(segments, target, ending) if found), None)


def outside(spans: Iterable[Span], taken: Sequence[Span]) -> list[Span]:
    """The spans that overlap none of ``taken``."""
    return [span for span in spans if not any(span.overlaps(other) for other in taken)]


def _exact(segments: Sequence[Segment], target: str) -> list[Span]:
    lead = len(target) - len(target.lstrip())
    words = len(target.strip())
    spans = []
    for segment in segments:
        for offset in _find_all(segment.text, target):
            start = segment.start + offset + lead
            spans.append(Span(start, start + words))
    return spans


def _collapsed(segments: Sequence[Segment], target: str) -> list[Span]:
    wanted, _ = _collapse(target.strip())
    spans = []
    for segment in segments:
        text, offsets = _collapse(segment.text)
        for found in _find_all(text, wanted):
            last = offsets[found + len(wanted) - 1]
            spans.append(Span(segment.start + offsets[found], segment.start + last + 1))
    return spans


def _collapse(text: str) -> tuple[str, list[int]]:
    """``text`` with each run of whitespace as one space, and the offset in ``text`` of each of its characters."""
    parts: list[str] = []
    offsets: list[int] = []
    for chunk in _CHUNK.finditer(text):
        if chunk.group().isspace():
            parts.append(" ")
            offsets.append(chunk.start())
        else:
            parts.append(chunk.group())
            offsets.extend(range(chunk.start(), chunk.end()))
    return "".join(parts), offsets


def _find_all(text: str, wanted: str) -> Iterator[int]:
    """The offset of every occurrence, overlapping ones too: each of them makes an anchor ambiguous."""
    offset = text.find(wanted)
    while offset >= 0:
        yield offset
        offset = text.find(wanted, offset + 1)
