"""Which words of a line changed. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.report.matching import opcodes

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_ALIKE = 0.4
"""The least likeness (0 to 1) of two lines of which one is the other, changed."""
_MOST_PAIRS = 2_500
_LONGEST = 4_000
_MOST_WORK = 2_000_000


@dataclass(frozen=True, slots=True)
class Word:
    """A stretch of a line; ``changed`` says that the other side does not have it."""

    text: str
    changed: bool


Words = tuple[Word, ...]


def plain(line: str, *, changed: bool) -> Words:
    """A line as one stretch."""
    return (Word(line, changed),) if line else ()


def changed_lines(old: Sequence[str], new: Sequence[str]) -> tuple[list[Words], list[Words]]:
    """The lines ``old`` and the lines ``new`` that replaced them, each changed as a whole."""
    return [plain(line, changed=True) for line in old], [plain(line, changed=True) for line in new]


def changed_words(old: Sequence[str], new: Sequence[str]) -> tuple[list[Words], list[Words]]:
    """The stretches of the lines ``old`` that were replaced by the lines ``new``, and those of ``new``.

    Lines are paired in order, the most alike first; one that has become another line altogether is changed as a whole.
    """
    before, after = changed_lines(old, new)
    for i, j in _pairs([_tokens(line) for line in old], [_tokens(line) for line in new]):
        before[i], after[j] = _marked(_tokens(old[i]), _tokens(new[j]))
    return before, after


def _tokens(line: str) -> list[str]:
    # A line of thousands of characters would take a second to compare; it is shown as one.
    return _TOKEN.findall(line) if len(line) <= _LONGEST else []


def _pairs(old: Sequence[Sequence[str]], new: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """The pairs of lines with the largest likeness in all, none of them crossing another."""
    if len(old) * len(new) > _MOST_PAIRS:
        return []
    words_of_old, words_of_new = [_words(line) for line in old], [_words(line) for line in new]
    likeness = [[_likeness(before, after) for after in words_of_new] for before in words_of_old]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            joined = best[i + 1][j + 1] + likeness[i][j] if likeness[i][j] >= _ALIKE else 0.0
            best[i][j] = max(joined, best[i + 1][j], best[i][j + 1])
    i = j = 0
    found = []
    while i < len(old) and j < len(new):
        if best[i][j] == best[i + 1][j]:
            i += 1
        elif best[i][j] == best[i][j + 1]:
            j += 1
        else:
            found.append((i, j))
            i, j = i + 1, j + 1
    return found


def _words(tokens: Sequence[str]) -> Counter[str]:
    """The words of a line; spaces and signs, which all lines have, do not make two lines alike."""
    return Counter(token for token in tokens if token[0].isalnum())


def _likeness(old: Counter[str], new: Counter[str]) -> float:
    """The share of common words, in whatever order."""
    return 2 * (old & new).total() / (old.total() + new.total()) if old and new else 0.0


def _marked(old: Sequence[str], new: Sequence[str]) -> tuple[Words, Words]:
    before: list[Word] = []
    after: list[Word] = []
    found = opcodes(old, new, _MOST_WORK)
    for place, (tag, a, b, c, d) in enumerate(found):
        space = 0 < place < len(found) - 1 and not "".join(old[a:b]).strip()
        changed = tag != "equal" or space  # a space between two changed words is part of the change
        _add(before, "".join(old[a:b]), changed=changed)
        _add(after, "".join(new[c:d]), changed=changed)
    return tuple(before), tuple(after)


def _add(words: list[Word], text: str, *, changed: bool) -> None:
    if text and words and words[-1].changed == changed:
        words[-1] = Word(words[-1].text + text, changed)
    elif text:
        words.append(Word(text, changed))
