"""Which entries of two lists are the same, in bounded time. Pure.

``difflib`` takes as long as the cube of what it compares, where most entries are equal or stand in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

Opcode = tuple[str, int, int, int, int]
"""``equal``, ``replace``, ``delete`` or ``insert``, and the range of each list."""
MOST_WORK = 10_000_000
"""The most comparisons for one pair of lists; a text of some 2,000 lines that was rewritten needs so many."""
_POPULAR = 200
"""Of how many entries on, ``difflib`` seeds no match with those that make up more than a hundredth."""


def opcodes(old: Sequence[str], new: Sequence[str], most_work: int = MOST_WORK) -> list[Opcode]:
    """What makes ``new`` of ``old``. What they begin and end with alike is told apart first; where the rest would take
    more than ``most_work``, it is replaced as a whole."""
    start, end = _alike(old, new)
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    inner: list[Opcode] = []
    if before and after and _work(before, after) <= most_work:
        inner = list(SequenceMatcher(None, before, after).get_opcodes())
    elif before or after:
        tag = "replace" if before and after else "delete" if before else "insert"
        inner = [(tag, 0, len(before), 0, len(after))]
    found: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
    found += [(tag, a + start, b + start, c + start, d + start) for tag, a, b, c, d in inner]
    if end:
        found.append(("equal", len(old) - end, len(old), len(new) - end, len(new)))
    return found


def grouped(found: Sequence[Opcode], context: int) -> list[list[Opcode]]:
    """The changes in groups, with at most ``context`` equal entries around each."""
    groups: list[list[Opcode]] = [[]]
    for place, (tag, a, b, c, d) in enumerate(found):
        if tag != "equal":
            groups[-1].append((tag, a, b, c, d))
            continue
        head = min(context, b - a) if place else 0
        tail = min(context, b - a) if place < len(found) - 1 else 0
        if head + tail >= b - a:
            groups[-1].append((tag, a, b, c, d))
            continue
        if head:
            groups[-1].append((tag, a, a + head, c, c + head))
        groups.append([(tag, b - tail, b, d - tail, d)] if tail else [])
    return [group for group in groups if any(tag != "equal" for tag, *_ in group)]


def _alike(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many entries both begin with, and how many of the others both end with."""
    most = min(len(old), len(new))
    start = next((place for place in range(most) if old[place] != new[place]), most)
    rest = range(1, most - start + 1)
    end = next((place - 1 for place in rest if old[-place] != new[-place]), most - start)
    return start, end


def _work(old: Sequence[str], new: Sequence[str]) -> int:
    """About how many comparisons ``difflib`` would need at most: for each entry that both have, a look at all pairs of
    equal entries."""
    counts = Counter(new)
    if len(new) >= _POPULAR:
        counts = Counter({entry: count for entry, count in counts.items() if count <= len(new) // 100 + 1})
    common = [entry for entry in old if entry in counts]
    return (len(old) + sum(counts[entry] for entry in common)) * len(common)
