"""Learning-rate schedules: how many edits a step may make."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

SCHEDULES = ("constant", "linear", "cosine", "autonomous")
# The budget of a schedule that leaves the number of edits to the optimizer: more than any patch holds.
_UNLIMITED = 999


class Schedule(Protocol):
    """The edit budget of each step.

    ``step`` is the global step, 1, 2, … over all epochs. The budget is a function of it alone, so there is no counter
    to keep or to resume. (The published trainer counts calls of its scheduler instead, and a step without patches
    makes none; so its budgets lag behind after such a step, until the run is resumed.)
    """

    def budget(self, step: int) -> int:
        """The most edits that step ``step`` may make. Raises ``ValueError`` for a step below 1."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The same budget in every step."""

    hi: int

    def budget(self, step: int) -> int:
        _check(step)
        return self.hi


@dataclass(frozen=True, slots=True)
class Linear:
    """A straight line from ``hi``, one interval before the first step, to ``lo`` in the last of ``total_steps``."""

    hi: int
    lo: int
    total_steps: int

    def budget(self, step: int) -> int:
        _check(step)
        if self.total_steps <= 1:
            return self.hi
        done = min(step, self.total_steps) / self.total_steps
        return max(self.lo, round(self.hi + (self.lo - self.hi) * done))


@dataclass(frozen=True, slots=True)
class Cosine:
    """Half a cosine wave from ``hi``, one interval before the first step, to ``lo`` in the last of ``total_steps``."""

    hi: int
    lo: int
    total_steps: int

    def budget(self, step: int) -> int:
        _check(step)
        if self.total_steps <= 1:
            return self.hi
        done = min(step, self.total_steps) / self.total_steps
        return max(self.lo, round(self.lo + 0.5 * (self.hi - self.lo) * (1 + math.cos(math.pi * done))))


def make_schedule(name: str, hi: int, lo: int, total_steps: int) -> Schedule:
    """The schedule called ``name``, from ``hi`` (``optimizer.learning_rate``) down to ``lo``
    (``optimizer.min_learning_rate``) in ``total_steps`` steps; budgets are rounded half to even. ``autonomous`` sets no
    limit (999).

    Raises ``ValueError`` for an unknown name, a negative budget, and a decaying schedule with ``hi`` below ``lo``.
    """
    if name not in SCHEDULES:
        raise ValueError(f"optimizer.lr_scheduler={name!r}: use one of {', '.join(SCHEDULES)}")
    if name == "autonomous":
        return Constant(_UNLIMITED)
    if hi < 0:
        raise ValueError(f"optimizer.learning_rate={hi}: a number of edits, 0 or more")
    if name == "constant":
        return Constant(hi)
    if lo < 0:
        raise ValueError(f"optimizer.min_learning_rate={lo}: a number of edits, 0 or more")
    if hi < lo:
        raise ValueError(
            f"optimizer.learning_rate={hi} is below optimizer.min_learning_rate={lo}: a {name} schedule goes down from "
            "the first to the second; lower the second, or set optimizer.lr_scheduler=constant"
        )
    return Linear(hi, lo, total_steps) if name == "linear" else Cosine(hi, lo, total_steps)


def _check(step: int) -> None:
    if step < 1:
        raise ValueError(f"steps count from 1, not {step}")
