"""What is read from a run, in small pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Measured:
    """Mean scores in [0, 1] over ``n`` measured items; None where nobody measured or wrote it down."""

    hard: float | None = None
    soft: float | None = None
    n: int | None = None


@dataclass(frozen=True, slots=True)
class ItemScore:
    """The score of one item in a pass; ``hard`` and ``soft`` are None when it could not be measured."""

    hard: float | None
    soft: float | None


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows of a longer list: ``total`` is how many there are, ``offset`` how many come before these, ``places``
    where each stands in its file, from 0. ``whole`` is False where the file has rows that were not read."""

    rows: tuple[Mapping[str, Any], ...]
    total: int
    offset: int
    places: tuple[int, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Conversation:
    """What passed between a target and its item: messages and events as they were stored. ``problem`` says in words
    why ``messages`` is empty ('' when there are none: no reply came, or the run does not say which call it was)."""

    messages: tuple[Mapping[str, Any], ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class EpochView:
    """The end of an epoch: ``slow_result.json``, ``meta_skill_result.json``, the pairs that were compared, and the
    candidate with new guidance. Empty or None where there is none."""

    number: int
    slow: Mapping[str, Any]
    meta: Mapping[str, Any]
    pairs: tuple[Mapping[str, Any], ...]
    candidate: str | None
