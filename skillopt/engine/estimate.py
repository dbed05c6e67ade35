"""What a run will send, told before it sends anything. Pure arithmetic over the plan and the items' prompts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from skillopt.config import Config
from skillopt.engine.plan import steps_per_epoch
from skillopt.envs.base import Env
from skillopt.harness.chat import compose
from skillopt.models.types import ReplyStyle
from skillopt.optimizer.minibatch import COMPACT_SIZE
from skillopt.types import Item, Role, Split

_REPLY_TOKENS: Mapping[Role, int] = {"target": 150, "optimizer": 700}
_INSTRUCTION_TOKENS = 700


@dataclass(frozen=True, slots=True)
class RoleEstimate:
    """Calls of one role, fewest and most, and the tokens of the most. The probe is one of the calls."""

    role: Role
    low: int
    high: int
    prompt_tokens: int
    completion_tokens: int

    def line(self) -> str:
        calls = f"{self.low}" if self.low == self.high else f"{self.low}-{self.high}"
        return (
            f"{self.role}: {calls} calls, at most about {self.prompt_tokens:,} prompt and {self.completion_tokens:,} "
            "completion tokens"
        )


def estimate(
    config: Config, env: Env, items: Mapping[Split, Sequence[Item]], skill: str, style: ReplyStyle
) -> tuple[RoleEstimate, ...]:
    """Calls and tokens of a whole training run, for each role. Tokens are estimated as characters / 4; a reply as
    150 tokens from a target and 700 from an optimizer."""
    low, high = target_calls(config, {split: len(rows) for split, rows in items.items()})
    prompts = [_tokens(env, item, skill) for rows in items.values() for item in rows]
    per_item = sum(prompts) / max(1, len(prompts))
    target = RoleEstimate("target", 1 + low, 1 + high, round(high * per_item), high * _REPLY_TOKENS["target"])

    minibatch = minibatch_size(config, style)
    low, high = optimizer_calls(config, len(items["train"]), style)
    trajectory = min(per_item + _REPLY_TOKENS["target"], config.gradient.max_trajectory_tokens)
    prompt = _INSTRUCTION_TOKENS + len(skill) / 4 + minibatch * trajectory
    optimizer = RoleEstimate("optimizer", 1 + low, 1 + high, round(high * prompt), high * _REPLY_TOKENS["optimizer"])
    return target, optimizer


def minibatch_size(config: Config, style: ReplyStyle) -> int:
    """Trajectories of one analyst call: small models get few at a time."""
    size = config.gradient.minibatch_size
    return min(size, COMPACT_SIZE) if style == "compact" else size


def target_calls(config: Config, sizes: Mapping[Split, int]) -> tuple[int, int]:
    """Fewest and most rollouts of a training run. The fewest: nothing is ever proposed, so that every later epoch asks
    what the first one asked; the most: every step changes the skill."""
    train, optimizer, evaluation = config.train, config.optimizer, config.evaluation
    epochs, steps = train.num_epochs, steps_per_epoch(sizes["train"], train.batch_size, train.accumulation)
    val = min(evaluation.sel_env_num or sizes["val"], sizes["val"])
    test = min(evaluation.test_env_num or sizes["test"], sizes["test"]) if evaluation.eval_test else 0
    later = max(0, epochs - 1) if optimizer.use_slow_update or optimizer.use_meta_skill else 0
    sample = min(optimizer.slow_update_samples, sizes["train"])
    low = val + sizes["train"] + test
    high = val + epochs * sizes["train"] + epochs * steps * val + 2 * test
    high += later * sample * (2 if steps > 1 else 1)
    if optimizer.use_slow_update:
        high += later * val
    if not (evaluation.use_gate and optimizer.slow_update_gate_with_selection):
        high += val + test  # the last skill may be another one than the best
    return low, high


def optimizer_calls(config: Config, train_size: int, style: ReplyStyle) -> tuple[int, int]:
    """Fewest and most optimizer calls of a training run, re-asked replies not counted."""
    train, optimizer = config.train, config.optimizer
    epochs = train.num_epochs
    steps = epochs * steps_per_epoch(train_size, train.batch_size, train.accumulation)
    size = minibatch_size(config, style)
    batch = min(train.batch_size * train.accumulation, train_size)
    chunks = math.ceil(batch / size)
    later = max(0, epochs - 1) * (int(optimizer.use_slow_update) + int(optimizer.use_meta_skill))
    if style == "compact":
        return later, steps * chunks + later
    both = chunks if config.gradient.failure_only else chunks + 1
    merges = _merge_calls(both, config.gradient.merge_batch_size) + 1
    ranking = 1 if optimizer.skill_update_mode != "full_rewrite_minibatch" else 0
    rewriting = 1 if optimizer.skill_update_mode == "rewrite_from_suggestions" else 0
    low = 0 if config.gradient.failure_only else steps * chunks
    return low + later, steps * (both + merges + ranking + rewriting) + later


def _merge_calls(patches: int, size: int) -> int:
    """Calls of a hierarchical merge, split in the worst way over the two sides."""
    calls = 0
    while patches > 1:
        chunks = math.ceil(patches / size)
        calls += chunks
        patches = chunks
    return calls + 1


def _tokens(env: Env, item: Item, skill: str) -> float:
    return sum(len(message.content) for message in compose(env.prompt(item), skill)) / 4
