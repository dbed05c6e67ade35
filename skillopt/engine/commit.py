"""The files that follow from a state: what a user finds in the run folder after each commit."""

from __future__ import annotations

from skillopt.config import Config
from skillopt.engine.evaluate import means
from skillopt.engine.state import ItemScores, RunState
from skillopt.gate.rules import gate_score
from skillopt.run.folder import dump_json


def score_of(config: Config, scores: ItemScores | None) -> float | None:
    """The gate score of a skill's item scores: hard, soft or mixed as configured; None when not measured."""
    if scores is None:
        return None
    hard, soft = means(scores)
    if hard is None or soft is None:
        return None
    return gate_score(hard, soft, config.evaluation.gate_metric, config.evaluation.gate_mixed_weight)


def state_files(config: Config, state: RunState) -> dict[str, bytes]:
    """``best_skill.md`` and ``runtime_state.json`` (paths relative to the run folder)."""
    pointers = {
        "last_completed_step": state.step,
        "current_skill_path": f"skills/skill_v{state.step:04d}.md",
        "current_score": score_of(config, state.current_scores),
        "current_origin": state.current_origin,
        "best_skill_path": "best_skill.md",
        "best_score": score_of(config, state.best_scores),
        "best_step": state.best_step,
        "best_origin": state.best_origin,
    }
    return {
        "best_skill.md": state.best.encode(),
        f"skills/skill_v{state.step:04d}.md": state.current.encode(),
        "runtime_state.json": dump_json(pointers),
    }
