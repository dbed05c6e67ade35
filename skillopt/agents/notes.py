"""The one vocabulary that every program's output is translated to."""

from __future__ import annotations

from dataclasses import dataclass

from skillopt.models.types import Usage


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the agent."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """A summary of its reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """A command or another tool was started. ``shell``: it ends with an exit code."""

    id: str
    command: str
    shell: bool = False


@dataclass(frozen=True, slots=True)
class Edited:
    """A file was changed: ``kind`` is ``add``, ``update`` or ``delete``. With an ``id`` it is taken back when the call
    of that id fails."""

    path: str
    kind: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Returned:
    """A call has ended."""

    id: str
    output: str = ""
    exit_code: int | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens of one request to the model. A later word about the same ``id`` replaces the earlier."""

    id: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Total:
    """Tokens and cost of the whole run: it outweighs what was said of single requests."""

    usage: Usage | None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The program's last word: its ``answer`` (None: it is what it said last)."""

    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Wrong:
    """Something went wrong; ``fatal``: so that there is no answer. ``kind`` helps to tell what, in the program's own
    words."""

    message: str
    fatal: bool = False
    kind: str = ""


Note = Said | Thought | Called | Edited | Returned | Spent | Total | Ended | Wrong
