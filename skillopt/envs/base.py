"""The one seam of a benchmark: what its items are, what is asked, how an answer is scored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from skillopt.data.errors import DataError
from skillopt.types import Answer, Item, Score, Split, Task

__all__ = ["DataError", "Env"]


@runtime_checkable
class Env(Protocol):
    """A set of tasks. ``name`` and ``version`` identify it in run folders.

    An environment whose tasks ask more of a target than text says so in an optional attribute ``needs``: a frozen set
    of ``tools``, ``images``, ``agent``. A provider that has none of it is refused before any call. One that has
    something to keep in a run folder (the splits that it cut) does so in an optional method ``write_splits(out_root)``,
    which is called once the folder is the run's.
    """

    name: str
    version: str

    def load(self, split: Split) -> Sequence[Item]:
        """All items of a split, in file order, ids unique over the three splits. Reads only. Raises ``DataError``."""

    def prompt(self, item: Item) -> Task:
        """What the target is asked for ``item``, without the skill. Pure."""

    def score(self, item: Item, answer: Answer) -> Score:
        """How good an answer is. Pure; a wrong answer is a score, never an exception."""
