"""One skill beside another on the same items: differences with their intervals, and the items that changed. Pure, but
for the rows of the latter, which are read when they are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from skillopt.gate.stats import Lift, paired_lift
from skillopt.report.answers import Answers, expected, outcome, question
from skillopt.values import fraction, mean, text

SEED = 42
"""Of the random sign flips of a p-value where a run does not tell its own."""
_AT_ONCE = 200
"""Items of which the rows are read at once."""

Metric = Literal["hard", "soft"]


@dataclass(frozen=True, slots=True)
class Arm:
    """A skill under test: what it is called, and its answers."""

    name: str
    answers: Answers


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


class FlipList(Sequence[Flip]):
    """Items under two skills, ``pairs`` of their places in the answers of both, whose rows are read when they are
    looked at."""

    def __init__(self, before: Answers, after: Answers, pairs: Sequence[tuple[int, int]]) -> None:
        self._before, self._after, self._pairs = before, after, pairs

    def __len__(self) -> int:
        return len(self._pairs)

    @overload
    def __getitem__(self, key: int) -> Flip: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Flip]: ...
    def __getitem__(self, key: int | slice) -> Flip | Sequence[Flip]:
        return self._read(self._pairs[key]) if isinstance(key, slice) else self._read([self._pairs[key]])[0]

    def __iter__(self) -> Iterator[Flip]:
        for start in range(0, len(self._pairs), _AT_ONCE):
            yield from self._read(self._pairs[start : start + _AT_ONCE])

    def _read(self, pairs: Sequence[tuple[int, int]]) -> list[Flip]:
        old = self._before.read([place for place, _ in pairs])
        new = self._after.read([place for _, place in pairs])
        return [_flip(old[before], new[after]) for before, after in pairs]


@dataclass(frozen=True, slots=True)
class Flips:
    """The items that both skills answered, by what changed: ``fixed`` (failed before, passed after), ``broken`` (the
    other way round), ``failing`` (failed by both); ``passing`` many passed under both, ``unmeasured`` many lack a score
    on a side. ``raised`` and ``lowered`` many of those that fail under both have a higher or lower partial credit."""

    fixed: Sequence[Flip]
    broken: Sequence[Flip]
    failing: Sequence[Flip]
    passing: int
    unmeasured: int
    raised: int
    lowered: int


def compare(arms: Sequence[Arm], seed: int = SEED, metric: Metric = "hard") -> tuple[ArmResult, ...]:
    """The arms side by side; the first one is what the others are compared with. ``lift`` is over the items that both
    measured, in ``metric``, with a 95 % interval and a two-sided p-value (see ``gate/stats.py``)."""
    measured = [scores(arm.answers, metric) for arm in arms]
    return tuple(
        _result(arm, paired_lift(measured[0], own, seed) if index else None)
        for index, (arm, own) in enumerate(zip(arms, measured, strict=True))
    )


def scores(answers: Answers, metric: Metric = "hard") -> dict[str, float]:
    """The scores by item of the answers that have one."""
    told = answers.hard if metric == "hard" else answers.soft
    return {id_: score for id_, score in zip(answers.ids, told, strict=True) if id_ and score is not None}


def flips(before: Answers, after: Answers) -> Flips:
    """What changed from one skill's answers to another's, in the order of the second. An item passes with a hard score
    of 1."""
    earlier = before.last_places()
    groups: dict[str, list[tuple[int, int]]] = {
        "fixed": [],
        "broken": [],
        "failing": [],
        "passing": [],
        "unmeasured": [],
    }
    for new, id_ in enumerate(after.ids):
        old = earlier.get(id_) if id_ else None
        if old is not None:
            groups[_change(before.hard[old], after.hard[new])].append((old, new))
    soft = [(before.soft[old], after.soft[new]) for old, new in groups["failing"]]
    known = [(old, new) for old, new in soft if old is not None and new is not None]
    return Flips(
        fixed=FlipList(before, after, groups["fixed"]),
        broken=FlipList(before, after, groups["broken"]),
        failing=FlipList(before, after, groups["failing"]),
        passing=len(groups["passing"]),
        unmeasured=len(groups["unmeasured"]),
        raised=sum(new > old for old, new in known),
        lowered=sum(new < old for old, new in known),
    )


def _result(arm: Arm, lift: Lift | None) -> ArmResult:
    hard, soft = scores(arm.answers), scores(arm.answers, "soft")
    missing = sum(score is None for score in arm.answers.hard)
    return ArmResult(arm.name, len(hard), missing, mean([*hard.values()]), mean([*soft.values()]), lift)


def _change(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return "unmeasured"
    return _CHANGES[outcome(before), outcome(after)]


_CHANGES = {
    ("failed", "passed"): "fixed",
    ("passed", "failed"): "broken",
    ("failed", "failed"): "failing",
    ("passed", "passed"): "passing",
}


def _flip(old: Mapping[str, Any], new: Mapping[str, Any]) -> Flip:
    asked, wanted = question(new) or question(old), expected(new) or expected(old)
    return Flip(text(new.get("id")), asked, wanted, _side(old), _side(new))


def _side(row: Mapping[str, Any]) -> Side:
    answer = text(row.get("predicted_answer")) or text(row.get("response"))
    return Side(answer, fraction(row.get("hard")), fraction(row.get("soft")), text(row.get("fail_reason")))
