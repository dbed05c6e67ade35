"""What a tracker is: it is opened once a run, logs entries, and is closed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

Outcome = Literal["finished", "stopped", "failed"]
"""How a process ended: with its work, by a budget or a person (it can go on), or by an error."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is logged at once: finite numbers by name, at a training step (0: before the first), and texts by file name
    (``/`` between folders). Names begin with the prefix."""

    step: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Start:
    """What a tracker is opened with: the run folder, the name of the run, the prefix of all names, the configuration,
    and ``run``: the ``Tracker.run`` of an earlier process of this training ('' when there was none)."""

    root: Path
    name: str
    prefix: str
    parameters: Mapping[str, str]
    run: str = ""


class Tracker(Protocol):
    """An open tracker. It is used by one thread at a time and may raise anything at any time."""

    run: str
    """What the tracker calls the run that it logs to: the host's, or its own."""

    def log(self, entry: Entry) -> None:
        """Logs an entry. May block."""

    def close(self, outcome: Outcome) -> None:
        """Sends what is left, and ends the run if it is the tracker's own."""


Open = Callable[[Start], Tracker]


@dataclass(frozen=True, slots=True)
class Found:
    """A tracker that can be opened. ``open`` goes on in the run ``Start.run`` where it still can, and joins the host's
    run, if one was there when the tracker was found."""

    name: str
    open: Open
