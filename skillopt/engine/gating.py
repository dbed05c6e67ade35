"""From an evaluated candidate to the next state, for steps and slow updates alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from skillopt.concurrency import gather_both
from skillopt.config import Config
from skillopt.engine.context import Context, Priority, Scope
from skillopt.engine.evaluate import Evaluation, evaluate, item_scores
from skillopt.engine.state import ItemScores, RunState
from skillopt.gate.rules import GateRule, Strict, Verdict
from skillopt.skill import Skill
from skillopt.types import Outcome, Rollout, Score

GetState = Callable[[], Awaitable[RunState]]
"""Gives the state in which a candidate is judged."""


async def measure(
    scope: Scope, candidate: Skill, before: GetState, label: str, settled: Callable[[bool], None]
) -> tuple[Evaluation, RunState]:
    """The candidate's selection pass beside ``before``, which gives the state that it is judged in: with the current
    skill's selection scores, which are measured now if they are not known.

    ``settled`` is told, as soon as that is certain, whether the candidate will be accepted.
    """
    items = scope.context.selection_items
    outlook = _Outlook(scope.context, settled)
    return await gather_both(
        evaluate(
            scope, candidate, items, label=label, priority=Priority.GATE, watch=partial(outlook.done, outlook.candidate)
        ),
        _current_measured(scope, before, label, outlook),
    )


async def _current_measured(scope: Scope, before: GetState, label: str, outlook: _Outlook) -> RunState:
    """Guidance that entered without a gate is never credited with the score of another text. (The empty block of epoch
    1 keeps the score: it says nothing.)"""
    state = await before()
    if state.current_scores is None:
        items, watch = scope.context.selection_items, partial(outlook.done, outlook.current)
        name = f"{label} (current)"
        done = await evaluate(scope, Skill(state.current), items, label=name, priority=Priority.GATE, watch=watch)
        state = state.but(current_scores=item_scores(done))
    outlook.current |= outcomes(state.current_scores)
    outlook.look()
    return state


class _Outlook:
    """Looks at the outcomes so far of both sides of a gate until its verdict is certain."""

    def __init__(self, context: Context, settled: Callable[[bool], None]) -> None:
        self.candidate: dict[str, Outcome | None] = {}
        self.current: dict[str, Outcome | None] = {}
        self._rule = rule_of(context.config)
        self._items = [item.id for item in context.selection_items]
        self._places = context.config.env.workers
        self._settled: Callable[[bool], None] | None = settled

    def done(self, side: dict[str, Outcome | None], rollout: Rollout) -> None:
        side[rollout.item.id] = rollout.outcome
        self.look()

    def look(self) -> None:
        """While all places have work of the gate's own there is nothing to gain from knowing."""
        missing = 2 * len(self._items) - len(self.candidate) - len(self.current)
        if self._settled is None or missing > self._places:
            return
        accepted = self._rule.settled(self.candidate, self.current, self._items)
        if accepted is not None:
            self._settled(accepted)
            self._settled = None


def judged(
    context: Context, state: RunState, candidate: Skill, evaluation: Evaluation, origin: str
) -> tuple[RunState, Verdict]:
    """The gate's verdict, and the state it leads to. Without selection items (and so without a gate) nothing tells one
    skill from another: the newest is the best. Pure."""
    verdict = rule_of(context.config).decide(
        evaluation.outcomes, outcomes(state.current_scores), outcomes(state.best_scores)
    )
    scores = item_scores(evaluation)
    if verdict.action != "reject":
        state = state.but(current=candidate.text, current_origin=origin, current_scores=scores)
    if verdict.new_best or not context.selection_items:
        state = state.but(best=candidate.text, best_origin=origin, best_scores=scores, best_step=state.step)
    return state, verdict


def rule_of(config: Config) -> GateRule:
    """The rule of the gate."""
    keys = config.evaluation
    return Strict(metric=keys.gate_metric, weight=keys.gate_mixed_weight, use_gate=keys.use_gate)


def outcomes(scores: ItemScores | None) -> dict[str, Outcome | None]:
    """Stored item scores in the form that a gate rule compares."""
    return {id_: Score(*pair) if pair is not None else None for id_, pair in (scores or {}).items()}
