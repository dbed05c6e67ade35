"""The steps of a run, one line each: the table that log, report and dashboard show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from skillopt.report.curves import Point, gate_point, train_point
from skillopt.report.run import RunView
from skillopt.report.scores import GateMetric
from skillopt.report.steps import gate_of, tokens_of
from skillopt.types import Fate, fate_of
from skillopt.values import count, fraction, label, mapping, whole


@dataclass(frozen=True, slots=True)
class StepLine:
    """A step, or the slow update at the end of an epoch (``step`` is then the last step before it); None where nothing
    was measured or counted.

    All scores are in the gate's metric. ``train`` is that of the rollouts, ``gate`` the candidate's on all selection
    items. ``before`` is that of the skill which the candidate would replace, ``score`` the candidate's, ``change`` its
    difference from the former, on the ``n`` items that both have, of which ``wins`` rose and ``losses`` fell. ``best``
    is the best skill's when the step is over. ``budget``, ``proposed`` and ``applied`` count edits: allowed, ranked,
    and those that changed the skill.
    """

    kind: Literal["step", "slow_update"]
    step: int
    epoch: int | None
    action: str
    fate: Fate
    before: float | None
    score: float | None
    train: Point | None = None
    gate: Point | None = None
    best: float | None = None
    n: int | None = None
    wins: int | None = None
    losses: int | None = None
    budget: int | None = None
    proposed: int | None = None
    applied: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float | None = None

    @property
    def change(self) -> float | None:
        """By how much the candidate is better."""
        return None if self.score is None or self.before is None else self.score - self.before


def lines_of(view: RunView) -> tuple[StepLine, ...]:
    """The finished steps of a run and the slow updates between them, the oldest first."""
    current, n = view.seed_at_gate()
    rows = {number: row for number in view.steps if (row := view.row(number))}
    ends, ended = {whole(row.get("epoch")): number for number, row in rows.items()}, set(view.epochs)
    lines: list[StepLine] = []
    for number, row in rows.items():
        lines.append(step_line(number, row, current, view.gate_metric, n))
        current = fraction(row.get("current_score"))
        epoch = whole(row.get("epoch"))
        result = view.slow_update(epoch) if ends[epoch] == number and epoch in ended else {}
        slow = slow_line(number, epoch, result, current, view.gate_metric)
        if slow is not None:
            lines.append(slow)
            current = slow.score if slow.fate == "accepted" else current
    return tuple(lines)


def steps_of(view: RunView) -> tuple[StepLine, ...]:
    """The finished steps of a run alone, the oldest first."""
    return tuple(line for line in lines_of(view) if line.kind == "step")


def step_line(
    number: int, row: Mapping[str, Any], current: float | None, metric: GateMetric, selection_n: int | None
) -> StepLine:
    """The line of a step by its row of history; ``current`` is the score of the skill that it began with, where its
    gate does not tell it. Pure."""
    verdict = gate_of(row)
    score, before = fraction(verdict.get("candidate_score")), fraction(verdict.get("current_score"))
    pairs = whole(verdict.get("pairs")) or None
    action = label(row.get("action"))
    return StepLine(
        kind="step",
        step=number,
        epoch=whole(row.get("epoch")) or None,
        action=action,
        fate=fate_of(action),
        train=train_point(row, metric),
        gate=gate_point(row, metric, selection_n),
        before=None if score is None else current if before is None else before,
        score=score,
        best=fraction(row.get("best_score")),
        n=pairs,
        wins=whole(verdict.get("wins")) if pairs else None,
        losses=whole(verdict.get("losses")) if pairs else None,
        budget=whole(row.get("edit_budget")) or None,
        proposed=count(row.get("n_edits_ranked")),
        applied=count(mapping(row.get("edit_apply_summary")).get("applied")),
        tokens=tokens_of(row),
        cost_usd=fraction(row.get("cost_usd")),
        seconds=fraction(row.get("wall_time_s")),
    )


def slow_line(
    step: int, epoch: int, result: Mapping[str, Any], current: float | None, metric: GateMetric
) -> StepLine | None:
    """The line of the slow update of an epoch; None when there was none, or it only put an empty block in. Pure."""
    action = label(result.get("action"))
    if action in ("", "inject_placeholder"):
        return None
    score = metric.score(fraction(result.get("selection_hard")), fraction(result.get("selection_soft")))
    return StepLine(
        kind="slow_update",
        step=step,
        epoch=epoch,
        action=action,
        fate=fate_of(action),
        before=None if score is None else current,
        score=score,
    )
