"""The series of a run's charts, from its rows of history and its charges. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

from skillopt.report.spending import OPTIMIZER, TARGET, Charge
from skillopt.report.values import fraction, mapping, text, whole

MarkKind = Literal["accepted", "rejected", "skipped"]
STAGES = ("rollout", "reflect", "aggregate", "select", "update", "evaluate")
_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a step (the seed is step 0). A score has the ``n`` items that it rests on and the ends of its 95 %
    interval, where ``n`` is known."""

    step: int
    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """What became of a step's candidate, at its gate score; ``value`` is None where nothing was measured."""

    step: int
    action: str
    kind: MarkKind
    value: float | None


@dataclass(frozen=True, slots=True)
class SpendPoint:
    """What the run had spent in all when a part was done, by role: tokens, and US dollars (None from where the cost of
    a call is not known). ``step`` is 0 for the baseline; the end of an epoch has that of its last step, the final
    evaluation that of the last step."""

    step: int
    part: str
    tokens: Mapping[str, int]
    usd: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Curves:
    """Series by step.

    ``train`` is the pass rate of each step's rollouts, ``gate`` the candidates' pass rate on the selection items,
    ``current`` and ``best`` the gate scores after each step, ``baseline`` the seed's pass rate on the selection items.
    ``edit_budget`` is the learning rate in edits, ``edits_applied`` how many edits changed the skill. ``spend`` is
    cumulative, ``time`` seconds by stage (``rollout`` … ``evaluate``), ``epochs`` the last step of each epoch.
    """

    steps: tuple[int, ...]
    train: tuple[Point, ...]
    gate: tuple[Point, ...]
    current: tuple[Point, ...]
    best: tuple[Point, ...]
    baseline: float | None
    marks: tuple[Mark, ...]
    edit_budget: tuple[Point, ...]
    edits_applied: tuple[Point, ...]
    spend: tuple[SpendPoint, ...]
    time: Mapping[str, tuple[Point, ...]]
    epochs: Mapping[int, int]


def curves(
    rows: Sequence[Mapping[str, Any]],
    baseline: float | None = None,
    charges: Sequence[Charge] = (),
    selection_n: int | None = None,
) -> Curves:
    """The series of the rows of ``history.json``. ``selection_n`` is the number of selection items, for rows that do
    not tell it."""
    known = [row for row in rows if whole(row.get("step"))]
    epochs = {whole(row.get("epoch")): whole(row.get("step")) for row in known if whole(row.get("epoch"))}
    return Curves(
        steps=tuple(whole(row.get("step")) for row in known),
        train=tuple(point for row in known if (point := _train(row))),
        gate=tuple(point for row in known if (point := _gate(row, selection_n))),
        current=_series(known, "current_score"),
        best=_series(known, "best_score"),
        baseline=baseline,
        marks=tuple(_mark(row) for row in known),
        edit_budget=_series(known, "edit_budget"),
        edits_applied=tuple(
            Point(whole(row.get("step")), value)
            for row in known
            if (value := fraction(mapping(row.get("edit_apply_summary")).get("applied"))) is not None
        ),
        spend=_spend(charges, epochs),
        time={stage: _times(known, stage) for stage in STAGES},
        epochs=epochs,
    )


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a pass rate over ``n`` items; for partial credit it is, if anything, too wide."""
    z2 = _Z * _Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def kind_of(action: str) -> MarkKind:
    """Whether a step's action took its candidate, refused it, or had none."""
    if "accept" in action:
        return "accepted"
    return "rejected" if action == "reject" else "skipped"


def _train(row: Mapping[str, Any]) -> Point | None:
    hard = fraction(row.get("train_hard", row.get("rollout_hard")))
    return None if hard is None else _score(row, hard, whole(row.get("rollout_n")))


def _gate(row: Mapping[str, Any], selection_n: int | None) -> Point | None:
    hard = fraction(row.get("val_hard", row.get("selection_hard")))
    if hard is None:
        return None
    return _score(row, hard, whole(mapping(row.get("gate")).get("pairs")) or selection_n or 0)


def _score(row: Mapping[str, Any], value: float, n: int) -> Point:
    step = whole(row.get("step"))
    if n <= 0 or not 0 <= value <= 1:
        return Point(step, value)
    low, high = wilson(value, n)
    return Point(step, value, low, high, n)


def _series(rows: Sequence[Mapping[str, Any]], key: str) -> tuple[Point, ...]:
    found = ((whole(row.get("step")), fraction(row.get(key))) for row in rows)
    return tuple(Point(step, value) for step, value in found if value is not None)


def _times(rows: Sequence[Mapping[str, Any]], stage: str) -> tuple[Point, ...]:
    found = ((whole(row.get("step")), fraction(mapping(row.get("timing")).get(f"{stage}_s"))) for row in rows)
    return tuple(Point(step, seconds) for step, seconds in found if seconds is not None)


def _mark(row: Mapping[str, Any]) -> Mark:
    action = text(row.get("action"))
    score = fraction(row.get("val_hard", row.get("selection_hard")))
    return Mark(whole(row.get("step")), action, kind_of(action), score)


def _spend(charges: Sequence[Charge], epochs: Mapping[int, int]) -> tuple[SpendPoint, ...]:
    last = max(epochs.values(), default=0)
    parts: dict[str, list[Charge]] = {}
    for charge in charges:
        parts.setdefault(charge.part, []).append(charge)
    tokens = {TARGET: 0, OPTIMIZER: 0}
    usd: dict[str, float | None] = {TARGET: 0.0, OPTIMIZER: 0.0}
    points = []
    for (step, _), part in sorted((_place(part, epochs, last), part) for part in parts):
        for charge in parts[part]:
            tokens[charge.role] = tokens.get(charge.role, 0) + charge.tokens
            before = usd.get(charge.role, 0.0)
            usd[charge.role] = None if before is None or charge.usd is None else before + charge.usd
        points.append(SpendPoint(step, part, dict(tokens), dict(usd)))
    return tuple(points)


def _place(part: str, epochs: Mapping[int, int], last: int) -> tuple[int, int]:
    """Where a part stands among the others: its step, and what comes first of the same step."""
    kind, _, number = part.partition("_")
    if kind == "step" and number.isdigit():
        return int(number), 0
    if kind == "epoch" and number.isdigit():
        return epochs.get(int(number), last), 1
    return (0, 0) if part == "baseline" else (last, 2)
