"""The search for the name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like ``name`` (case does not count), or None when none does."""
    by_folded = {candidate.casefold(): candidate for candidate in known if candidate}
    # A name of thousands of characters is nobody's typing error, and comparing it would take long.
    matches = get_close_matches(name.strip()[:100].casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean X?``, or nothing when no known name is near."""
    match = nearest(name, known)
    return f"; did you mean {match}?" if match else ""
