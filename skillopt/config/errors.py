"""The one error of the configuration, and the search for the name that was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class ConfigError(ValueError):
    """A configuration that cannot be used. ``problems`` holds one line for each thing that is wrong.

    No message holds a secret.
    """

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        if len(self.problems) == 1:
            super().__init__(self.problems[0])
        else:
            lines = "".join(f"\n  - {problem}" for problem in self.problems)
            super().__init__(f"{len(self.problems)} problems in the configuration:{lines}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like ``name`` (case does not count), or None when none does."""
    by_folded = {candidate.casefold(): candidate for candidate in known if candidate}
    # A name of thousands of characters is nobody's typing error, and comparing it would take long.
    matches = get_close_matches(name[:100].casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean X?``, or nothing when no known name is near."""
    match = nearest(name, known)
    return f"; did you mean {match}?" if match else ""
