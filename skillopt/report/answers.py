"""The answers of a pass: the scores of all its items at hand, whole rows read again where they are shown."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from skillopt.report import files
from skillopt.report.files import mark, parse_row, read_rows
from skillopt.values import fraction, text

Row = Mapping[str, Any]
Outcome = Literal["all", "passed", "failed", "unmeasured"]

# What an environment may call the same thing.
_QUESTIONS = ("question", "task_description", "task", "instruction", "prompt", "problem")
_EXPECTED = ("gold_answers", "gold_answer", "answers", "expected", "reference", "ground_truth", "target", "answer")
_MOST_FILES = 8
_COMMON = {0.0: 0.0, 1.0: 1.0}  # most scores, kept once
TORN: Row = {
    "id": "",
    "hard": None,
    "soft": None,
    "status": "torn",
    "fail_reason": "the row is torn, or too large to show",
}
"""What stands for a row that cannot be read."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The rows of a ``results.jsonl`` by their place in it: ``ids`` ('' where there is none), ``hard`` and ``soft``
    scores (None: not measured), and ``asked``, a number for each question. ``read`` gives the whole rows at some
    places. ``whole`` is False where the file has more rows than are read."""

    ids: Sequence[str]
    hard: Sequence[float | None]
    soft: Sequence[float | None]
    asked: Sequence[int]
    read: Callable[[Collection[int]], Mapping[int, Row]]
    whole: bool = True

    def places(self, only: Outcome) -> Sequence[int]:
        """The places of the rows that passed (``hard`` is 1), failed (less than 1), or were not measured."""
        if only == "all":
            return range(len(self.ids))
        return [place for place, hard in enumerate(self.hard) if outcome(hard) == only]

    def last_places(self) -> dict[str, int]:
        """Where each item stands; the last place of one that stands twice."""
        return {id_: place for place, id_ in enumerate(self.ids) if id_}


class AnswersAtHand:
    """The answers in some files, kept until these change: ``_MOST_FILES`` at most, the last ones."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[tuple[int, int] | None, Answers]] = {}

    def read(self, root: Path, name: str) -> Answers:
        """As ``read_answers``."""
        seen, kept = mark(root, name), self._kept.get(name)
        if kept is not None and kept[0] == seen:
            return kept[1]
        found = read_answers(root, name)
        while len(self._kept) >= _MOST_FILES:
            self._kept.pop(next(iter(self._kept)), None)
        self._kept[name] = seen, found
        return found


def outcome(hard: float | None) -> Outcome:
    """What a hard score says."""
    if hard is None:
        return "unmeasured"
    return "passed" if hard >= 1 else "failed"


def question(row: Row) -> str:
    """What an item asks, where its row holds it."""
    return _first(row, _QUESTIONS)


def expected(row: Row) -> str:
    """What the answer to an item should be, where its row holds it."""
    return _first(row, _EXPECTED)


def answers_of(rows: Iterable[Row], read: Callable[[Collection[int]], Mapping[int, Row]] | None = None) -> Answers:
    """The answers in ``rows``; without a way to ``read`` them again, they are kept."""
    ids, asked, kept = list[str](), array("q"), list[Row]()
    hard, soft = list[float | None](), list[float | None]()
    for row in rows:
        ids.append(text(row.get("id")))
        hard.append(_score(row.get("hard")))
        soft.append(_score(row.get("soft")))
        asked.append(hash(question(row)))
        if read is None:
            kept.append(row)
    return Answers(ids, hard, soft, asked, read or (lambda places: {place: kept[place] for place in places}))


def read_answers(root: Path, name: str) -> Answers:
    """The answers in the file ``name`` of ``root``; none when it is not there."""
    found = answers_of((parse_row(line) or TORN for _, line in read_rows(root, name)), lambda p: _read(root, name, p))
    size, _ = mark(root, name) or (0, 0)
    whole = len(found.ids) < files.MOST_ROWS and size <= files.ROWS_LIMIT
    return Answers(found.ids, found.hard, found.soft, found.asked, found.read, whole)


def _read(root: Path, name: str, places: Collection[int]) -> dict[int, Row]:
    """The rows at some places, read again; ``TORN`` for one that is not there any more."""
    wanted, found = set(places), dict[int, Row]()
    last = max(wanted, default=-1)
    for place, line in read_rows(root, name) if wanted else ():
        if place in wanted:
            found[place] = parse_row(line) or TORN
        if place >= last:
            break
    return {place: found.get(place, TORN) for place in places}


def _score(value: Any) -> float | None:
    score = fraction(value)
    return _COMMON.get(score, score) if score is not None else None


def _first(row: Row, keys: Sequence[str]) -> str:
    for key in keys:
        value = row.get(key)
        if value not in (None, "", []):
            return "; ".join(map(text, value)) if isinstance(value, list) else text(value)
    return ""
