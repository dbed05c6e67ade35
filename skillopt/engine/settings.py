"""The optimizer's settings, from the configuration and the optimizer's model."""

from __future__ import annotations

from skillopt.config import Config
from skillopt.engine.context import Priority
from skillopt.models.types import ModelSpec
from skillopt.optimizer.context import Settings


def optimizer_settings(config: Config, spec: ModelSpec) -> Settings:
    """What every optimizer call of a run is made with."""
    return Settings(
        mode=config.optimizer.skill_update_mode,
        style=spec.reply_style,
        learning_rate=config.optimizer.learning_rate,
        minibatch_size=config.gradient.minibatch_size,
        merge_batch_size=config.gradient.merge_batch_size,
        failure_only=config.gradient.failure_only,
        max_trajectory_tokens=config.gradient.max_trajectory_tokens,
        max_prompt_tokens=config.gradient.max_prompt_tokens,
        rewrite_max_completion_tokens=config.model.rewrite_max_completion_tokens,
        reasoning_effort=config.model.reasoning_effort or "",
        rewrite_reasoning_effort=config.model.rewrite_reasoning_effort or "",
        timeout=config.model.timeout_seconds,
        priority=Priority.STEP,
    )
