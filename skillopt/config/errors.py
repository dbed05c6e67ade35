"""The one error of the configuration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value was given: in a ``file`` (``name`` is its path), by an ``override`` or an ``option`` (``name`` is
    the key or the option as it was typed); ``key``: the key ``name`` is meant, wherever it was given. ``text`` says it
    to people."""

    kind: Literal["file", "override", "option", "key", "unknown"] = "unknown"
    name: str = ""
    text: str = ""

    @classmethod
    def file(cls, path: str | Path) -> Source:
        return cls("file", str(path), str(path))

    @classmethod
    def override(cls, name: str, dotted: str | None) -> Source:
        """An override ``name=value`` of the key ``dotted``."""
        return cls("override", name, "override" if dotted in (None, name) else f"override {name}")

    @classmethod
    def option(cls, name: str) -> Source:
        """An option, with its dashes."""
        return cls("option", name, name)

    @classmethod
    def key(cls, dotted: str) -> Source:
        """A key, wherever it was given."""
        return cls("key", dotted)


UNKNOWN = Source()


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a configuration: a line for people that holds no secret, where that was given, and
    what was probably ``meant``: another value or, for an unknown key (``misnamed``), another key. ``command`` is the
    command that mends it, where that is another than one of ours."""

    text: str
    source: Source = UNKNOWN
    meant: str = ""
    misnamed: bool = False
    command: str = ""

    def __str__(self) -> str:
        return self.text


class ConfigError(ValueError):
    """A configuration that cannot be used. ``problems`` holds one entry for each thing that is wrong.

    No message holds a secret.
    """

    def __init__(self, problems: str | Problem | Iterable[str | Problem]) -> None:
        given = (problems,) if isinstance(problems, (str, Problem)) else problems
        self.problems = tuple(Problem(each) if isinstance(each, str) else each for each in given)
        if len(self.problems) == 1:
            super().__init__(self.problems[0].text)
        else:
            lines = "".join(f"\n  - {problem}" for problem in self.problems)
            super().__init__(f"{len(self.problems)} problems in the configuration:{lines}")
