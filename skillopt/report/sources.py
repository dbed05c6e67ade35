"""Which items an edit may have come from, where neither analysts nor merges name them: told by the words. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

Words = frozenset[str]
Proposal = tuple[str, Sequence[str], Sequence[Words]]
"""A reflection: its kind (``failure``, ``success``), its items, and the words of each edit that it proposed."""

_WORD = re.compile(r"\w+")
_ALIKE = 0.6
"""The share of common words (of all words of both) above which one edit is taken for another in other words."""
_CONTAINED = 0.8
"""The share of the words of a proposal above which an edit is taken to hold it, joined with others."""
_FEWEST = 3


def sources_of(
    words: Words, source_type: str, proposals: Sequence[Proposal], support: int | None = None
) -> tuple[str, ...]:
    """All items of the reflections that proposed an edit of these ``words``: it comes from some of them.

    The reflections are those that have the edit word for word and, unless their items are as many as the edit's
    ``support`` (the trajectories that its analysts and merges say), those that have it in other words or as a part.
    Where there are neither, they are all those of its kind that proposed anything.
    """
    side = [proposal for proposal in proposals if proposal[2] and source_type in ("", "mixed", proposal[0])]
    same = [proposal for proposal in side if words in proposal[2]]
    if same and (support is None or len(_items(same)) >= support):
        return _items(same)
    found = [proposal for proposal in side if any(_from(words, other) for other in proposal[2])]
    return _items(found or side)


def _items(proposals: Sequence[Proposal]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for _, items, _ in proposals for item in items))


def words_of(text: str) -> Words:
    """The words of an edit, whatever their order."""
    return frozenset(_WORD.findall(text.lower()))


def _from(words: Words, proposal: Words) -> bool:
    """Whether an edit of these words may have been made of a proposal of those."""
    common = len(words & proposal)
    if not common:
        return words == proposal
    contained = len(proposal) >= _FEWEST and common / len(proposal) >= _CONTAINED
    return contained or common / len(words | proposal) >= _ALIKE
