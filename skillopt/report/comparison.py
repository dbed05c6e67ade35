"""One skill beside another on the same items: differences with their intervals, and the items that changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from skillopt.gate.stats import Lift, paired_lift
from skillopt.report.values import fraction, mean, text

SEED = 42
"""Of the random sign flips of a p-value where a run does not tell its own."""

Rows = Iterable[Mapping[str, Any]]
"""Rows of a ``results.jsonl``."""
Metric = Literal["hard", "soft"]

# What an environment may call the same thing.
_QUESTIONS = ("question", "task_description", "task", "instruction", "prompt", "problem")
_EXPECTED = ("gold_answers", "gold_answer", "answers", "expected", "reference", "ground_truth", "target", "answer")


@dataclass(frozen=True, slots=True)
class Arm:
    """A skill under test: what it is called, and its rows."""

    name: str
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ArmResult:
    """How an arm did: mean scores over its ``n`` measured items (None when there are none), ``errors`` items that were
    not measured, and the paired ``lift`` over the first arm (None for the first one itself, and without items that
    both measured)."""

    name: str
    n: int
    errors: int
    hard: float | None
    soft: float | None
    lift: Lift | None


@dataclass(frozen=True, slots=True)
class Side:
    """One answer to an item: its text, its scores (None: not measured), and why it is not a pass ('' when it is)."""

    answer: str
    hard: float | None
    soft: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class Flip:
    """An item under two skills. ``question`` and ``expected`` are '' where the rows do not hold them."""

    id: str
    question: str
    expected: str
    before: Side
    after: Side


@dataclass(frozen=True, slots=True)
class Flips:
    """The items that both skills answered, by what changed: ``fixed`` (failed before, passed after), ``broken`` (the
    other way round), ``failing`` (failed by both); ``passing`` many passed under both, ``unmeasured`` many lack a score
    on a side. ``raised`` and ``lowered`` many of those that fail under both have a higher or lower partial credit."""

    fixed: tuple[Flip, ...]
    broken: tuple[Flip, ...]
    failing: tuple[Flip, ...]
    passing: int
    unmeasured: int
    raised: int
    lowered: int


def compare(arms: Sequence[Arm], seed: int = SEED, metric: Metric = "hard") -> tuple[ArmResult, ...]:
    """The arms side by side; the first one is what the others are compared with. ``lift`` is over the items that both
    measured, in ``metric``, with a 95 % interval and a two-sided p-value (see ``gate/stats.py``)."""
    measured = [scores(arm.rows, metric) for arm in arms]
    return tuple(
        _result(arm, paired_lift(measured[0], own, seed) if index else None)
        for index, (arm, own) in enumerate(zip(arms, measured, strict=True))
    )


def scores(rows: Rows, metric: Metric = "hard") -> dict[str, float]:
    """The scores by item of the rows that have one."""
    found = ((text(row.get("id")), fraction(row.get(metric))) for row in rows)
    return {id_: score for id_, score in found if id_ and score is not None}


def flips(before: Rows, after: Rows) -> Flips:
    """What changed from one skill's rows to another's, in the order of the second. An item passes with a hard score
    of 1."""
    earlier = {text(row.get("id")): row for row in before}
    pairs = [(earlier[id_], row) for row in after if (id_ := text(row.get("id"))) and id_ in earlier]
    groups: dict[str, list[Flip]] = {"fixed": [], "broken": [], "failing": [], "passing": [], "unmeasured": []}
    for old, new in pairs:
        groups[_change(_passed(old), _passed(new))].append(_flip(old, new))
    soft = [(flip.before.soft, flip.after.soft) for flip in groups["failing"]]
    known = [(old, new) for old, new in soft if old is not None and new is not None]
    return Flips(
        fixed=tuple(groups["fixed"]),
        broken=tuple(groups["broken"]),
        failing=tuple(groups["failing"]),
        passing=len(groups["passing"]),
        unmeasured=len(groups["unmeasured"]),
        raised=sum(new > old for old, new in known),
        lowered=sum(new < old for old, new in known),
    )


def question(row: Mapping[str, Any]) -> str:
    """What an item asks, where its row holds it."""
    return _first(row, _QUESTIONS)


def expected(row: Mapping[str, Any]) -> str:
    """What the answer to an item should be, where its row holds it."""
    return _first(row, _EXPECTED)


def _result(arm: Arm, lift: Lift | None) -> ArmResult:
    hard, soft = scores(arm.rows), scores(arm.rows, "soft")
    missing = sum(fraction(row.get("hard")) is None for row in arm.rows)
    return ArmResult(arm.name, len(hard), missing, mean([*hard.values()]), mean([*soft.values()]), lift)


def _passed(row: Mapping[str, Any]) -> bool | None:
    hard = fraction(row.get("hard"))
    return None if hard is None else hard >= 1


def _change(before: bool | None, after: bool | None) -> str:
    if before is None or after is None:
        return "unmeasured"
    return {(False, True): "fixed", (True, False): "broken", (False, False): "failing", (True, True): "passing"}[
        before, after
    ]


def _flip(old: Mapping[str, Any], new: Mapping[str, Any]) -> Flip:
    asked, wanted = question(new) or question(old), expected(new) or expected(old)
    return Flip(text(new.get("id")), asked, wanted, _side(old), _side(new))


def _side(row: Mapping[str, Any]) -> Side:
    answer = text(row.get("predicted_answer")) or text(row.get("response"))
    return Side(answer, fraction(row.get("hard")), fraction(row.get("soft")), text(row.get("fail_reason")))


def _first(row: Mapping[str, Any], keys: Sequence[str]) -> str:
    value = next((row[key] for key in keys if row.get(key) not in (None, "", [])), "")
    return "; ".join(map(text, value)) if isinstance(value, list) else text(value)
