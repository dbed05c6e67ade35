"""From an evaluated candidate to the next state, for steps and slow updates alike."""

from __future__ import annotations

from skillopt.engine.context import Context, Priority, Scope
from skillopt.engine.evaluate import Evaluation, evaluate, item_scores
from skillopt.engine.state import ItemScores, RunState
from skillopt.gate.rules import Strict, Verdict
from skillopt.skill import Skill
from skillopt.types import Score


async def current_measured(scope: Scope, state: RunState, label: str) -> RunState:
    """The state with the current skill's selection scores, measured now if they are not known: guidance that entered
    without a gate is never credited with the score of another text. (The empty block of epoch 1 keeps the score: it
    says nothing.)"""
    if state.current_scores is not None:
        return state
    items = scope.context.selection_items
    skill = Skill(state.current)
    done = await evaluate(scope, skill, items, label=f"{label} (current)", priority=Priority.GATE)
    return state.but(current_scores=item_scores(done))


def judged(
    context: Context, state: RunState, candidate: Skill, evaluation: Evaluation, origin: str
) -> tuple[RunState, Verdict]:
    """The gate's verdict, and the state it leads to. Without selection items (and so without a gate) nothing tells one
    skill from another: the newest is the best. Pure."""
    config = context.config.evaluation
    rule = Strict(metric=config.gate_metric, weight=config.gate_mixed_weight, use_gate=config.use_gate)
    verdict = rule.decide(evaluation.outcomes, outcomes(state.current_scores), outcomes(state.best_scores))
    scores = item_scores(evaluation)
    if verdict.action != "reject":
        state = state.but(current=candidate.text, current_origin=origin, current_scores=scores)
    if verdict.new_best or not context.selection_items:
        state = state.but(best=candidate.text, best_origin=origin, best_scores=scores, best_step=state.step)
    return state, verdict


def outcomes(scores: ItemScores | None) -> dict[str, Score | None]:
    """Stored item scores in the form that a gate rule compares."""
    return {id_: Score(*pair) if pair is not None else None for id_, pair in (scores or {}).items()}
