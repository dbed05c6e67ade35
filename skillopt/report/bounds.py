"""What of a large run goes into one page: texts are shortened, lists end where their share of the page does. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape

from skillopt.report.comparison import Flip, Flips, Side
from skillopt.report.evolution import Diff, DiffLine, Hunk
from skillopt.report.words import plain

QUESTION, EXPECTED, ANSWER, REASON, LINE = 500, 300, 900, 300, 2_000
"""The most characters of a text."""
FLIP_BYTES = 1_300_000
"""The most bytes that all items that changed take in a page."""
DIFF_BYTES = 500_000
"""The most bytes that all diffs take in a page."""
_FRAME = 700
"""Bytes of markup around an item."""
_LINE_FRAME = 130


@dataclass(frozen=True, slots=True)
class FlipGroup:
    """Items that changed in one way: ``total`` of them, of which ``shown`` are in the page."""

    kind: str
    total: int
    shown: tuple[Flip, ...]


@dataclass(frozen=True, slots=True)
class ChangedItems:
    """The items of a split whose outcome changed from the skill ``before`` to the skill ``after``. ``passing`` many
    passed under both, ``unmeasured`` many lack a score; of those that fail under both, ``raised`` and ``lowered`` many
    have a higher or lower soft score."""

    split: str
    before: str
    after: str
    groups: tuple[FlipGroup, ...]
    passing: int
    unmeasured: int
    raised: int
    lowered: int


@dataclass(frozen=True, slots=True)
class BoundedDiff:
    """A diff of which ``left_out`` lines are not in the page."""

    diff: Diff
    left_out: int


def cut(text: str, most: int) -> str:
    """The start of a text, and how much there is more."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def changed_items(
    split: str, before: str, after: str, found: Flips, room: int = FLIP_BYTES, mask: Callable[[str], str] = str
) -> ChangedItems:
    """The items that changed, as many as ``room`` bytes hold: first those that broke, of which a reader must know, then
    those that were fixed, then those that still fail. ``mask`` hides secrets, before a cut could part one."""
    groups = []
    for kind, flips in (("broken", found.broken), ("fixed", found.fixed), ("failing", found.failing)):
        shown = []
        for flip in (_cut_flip(flip, mask) for flip in flips):
            room -= _FRAME + sum(len(escape(text).encode("utf-8", "replace")) for text in _texts(flip))
            if room < 0:
                break
            shown.append(flip)
        groups.append(FlipGroup(kind, len(flips), tuple(shown)))
    return ChangedItems(
        split, before, after, tuple(groups), found.passing, found.unmeasured, found.raised, found.lowered
    )


def bounded_diffs(diffs: Sequence[Diff], room: int = DIFF_BYTES) -> list[BoundedDiff]:
    """Diffs, each cut so that it takes no more than its share of what the ones before left."""
    found = []
    for index, each in enumerate(diffs):
        share = max(room, 0) // (len(diffs) - index)
        bounded, taken = _bounded(each, share)
        room -= taken
        found.append(bounded)
    return found


def _bounded(found: Diff, room: int) -> tuple[BoundedDiff, int]:
    hunks, taken, kept, total = [], 0, 0, 0
    for hunk in found.hunks:
        total += len(hunk.lines)
        lines = []
        for line in map(_cut_line, hunk.lines):
            size = sum(len(escape(word.text).encode("utf-8", "replace")) + 15 for word in line.words) + _LINE_FRAME
            if taken + size > room:
                break
            taken += size
            lines.append(line)
        kept += len(lines)
        if lines:
            hunks.append(Hunk(hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count, tuple(lines)))
        if len(lines) < len(hunk.lines):
            room = taken
    return BoundedDiff(replace(found, hunks=tuple(hunks)), total - kept), taken


def _cut_line(line: DiffLine) -> DiffLine:
    if len(line.text) <= LINE:
        return line
    return replace(line, words=plain(cut(line.text, LINE), changed=line.kind != "same"))


def _cut_flip(flip: Flip, mask: Callable[[str], str]) -> Flip:
    return Flip(
        cut(mask(flip.id), 200),
        cut(mask(flip.question), QUESTION),
        cut(mask(flip.expected), EXPECTED),
        _cut_side(flip.before, mask),
        _cut_side(flip.after, mask),
    )


def _cut_side(side: Side, mask: Callable[[str], str]) -> Side:
    return Side(cut(mask(side.answer), ANSWER), side.hard, side.soft, cut(mask(side.reason), REASON))


def _texts(flip: Flip) -> tuple[str, ...]:
    sides = (flip.before, flip.after)
    # The id and the start of the question stand twice: in the line that opens the item, too.
    return (
        flip.id,
        flip.question,
        flip.question[:120],
        flip.expected,
        *(side.answer for side in sides),
        *(side.reason for side in sides),
    )
