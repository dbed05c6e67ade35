"""The series of a run's charts, from its rows of history and its charges. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from skillopt.models.pricing import total
from skillopt.report.scores import HARD, GateMetric
from skillopt.report.spending import OPTIMIZER, TARGET, Charge
from skillopt.run.progress import STAGES
from skillopt.types import Fate, fate_of
from skillopt.values import fraction, label, mapping, whole

_NUMBER = re.compile("[0-9]{1,9}")
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
    kind: Fate
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

    All scores are in the gate's ``metric``: ``train`` is that of each step's rollouts, ``gate`` that of the candidates
    on the selection items, ``current`` and ``best`` those of the skills after each step, ``baseline`` the seed's.
    ``edit_budget`` is the learning rate in edits, ``edits_applied`` how many edits changed the skill. ``spend`` is
    cumulative, ``time`` seconds by stage (``rollout`` … ``evaluate``), ``epochs`` the last step of each epoch.
    """

    metric: GateMetric
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
    metric: GateMetric = HARD,
) -> Curves:
    """The series of the rows of ``history.json``. ``baseline`` is in the gate's ``metric``; ``selection_n`` is the
    number of selection items, for rows that do not tell it."""
    by_step = {whole(row.get("step")): row for row in reversed(rows)}  # the first row of a step counts
    known = [by_step[step] for step in dict.fromkeys(whole(row.get("step")) for row in rows) if step]
    epochs = {whole(row.get("epoch")): whole(row.get("step")) for row in known if whole(row.get("epoch"))}
    return Curves(
        metric=metric,
        steps=tuple(whole(row.get("step")) for row in known),
        train=tuple(point for row in known if (point := train_point(row, metric))),
        gate=tuple(point for row in known if (point := gate_point(row, metric, selection_n))),
        current=_series(known, "current_score"),
        best=_series(known, "best_score"),
        baseline=baseline,
        marks=tuple(_mark(row, metric) for row in known),
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


def thinned(curves: Curves, most: int) -> Curves:
    """The curves at no more than ``most`` steps: of neighbouring ones the last that was accepted, or else the last."""
    ordered = sorted({*curves.steps, *(point.step for point in curves.spend)})
    if max(len(ordered), len(curves.spend)) <= most:
        return curves
    accepted = {mark.step for mark in curves.marks if mark.kind == "accepted"}
    size = -(-len(ordered) // most)
    groups = (ordered[start : start + size] for start in range(0, len(ordered), size))
    kept = {max(group, key=lambda step: (step in accepted, step)) for group in groups} | {ordered[-1]}
    spent = {point.step: point for point in curves.spend if point.step in kept}
    return replace(
        curves,
        steps=tuple(step for step in curves.steps if step in kept),
        train=_at(curves.train, kept),
        gate=_at(curves.gate, kept),
        current=_at(curves.current, kept),
        best=_at(curves.best, kept),
        marks=tuple(mark for mark in curves.marks if mark.step in kept),
        edit_budget=_at(curves.edit_budget, kept),
        edits_applied=_at(curves.edits_applied, kept),
        spend=tuple(spent.values()),
        time={stage: _at(points, kept) for stage, points in curves.time.items()},
        epochs={epoch: step for epoch, step in curves.epochs.items() if step in kept},
    )


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a pass rate over ``n`` items; for partial credit it is, if anything, too wide."""
    z2 = _Z * _Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def train_point(row: Mapping[str, Any], metric: GateMetric) -> Point | None:
    """The score of a step's training rollouts; None where it is not known."""
    score = metric.of_rollouts(row)
    return None if score is None else _score(row, score, whole(row.get("rollout_n")))


def gate_point(row: Mapping[str, Any], metric: GateMetric, selection_n: int | None) -> Point | None:
    """The score of a step's candidate on the selection items; None where it is not known."""
    score = metric.of_candidate(row)
    if score is None:
        return None
    return _score(row, score, whole(mapping(row.get("gate")).get("pairs")) or selection_n or 0)


def _at(points: Sequence[Point], steps: Collection[int]) -> tuple[Point, ...]:
    return tuple(point for point in points if point.step in steps)


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


def _mark(row: Mapping[str, Any], metric: GateMetric) -> Mark:
    action = label(row.get("action"))
    return Mark(whole(row.get("step")), action, fate_of(action), metric.of_candidate(row))


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
            usd[charge.role] = total((usd.get(charge.role, 0.0), charge.usd))
        points.append(SpendPoint(step, part, dict(tokens), dict(usd)))
    return tuple(points)


def _place(part: str, epochs: Mapping[int, int], last: int) -> tuple[int, int]:
    """Where a part stands among the others: its step, and what comes first of the same step."""
    kind, _, digits = part.partition("_")
    number = int(digits) if _NUMBER.fullmatch(digits) else None
    if kind == "step" and number is not None:
        return number, 0
    if kind == "epoch" and number is not None:
        return epochs.get(number, last), 1
    return (0, 0) if part == "baseline" else (last, 2)
