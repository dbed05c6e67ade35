"""What a run will send, told before it sends anything. Pure arithmetic over the plan and the items' prompts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pvariance

from skillopt.config import Config
from skillopt.engine.plan import EpochPlan, StepPlan, plan_epochs, slow_update_sample
from skillopt.envs.base import Env
from skillopt.harness.agent import prompt as agent_prompt
from skillopt.harness.agent import skill_file
from skillopt.harness.chat import compose
from skillopt.models.pricing import Price, cost, dollars, total
from skillopt.models.types import ReplyStyle, Usage
from skillopt.models.wire import IMAGE_CHARS
from skillopt.optimizer.minibatch import COMPACT_SIZE
from skillopt.types import Item, Role, Split

_REPLY_TOKENS: Mapping[Role, int] = {"target": 150, "optimizer": 700}
_INSTRUCTION_TOKENS = 700
_SELDOM_THE_SAME = 5


@dataclass(frozen=True, slots=True)
class RoleEstimate:
    """Calls of one role, fewest and most, and the tokens of the most. The probe is one of the calls.

    ``cost_usd`` is what these tokens cost (US dollars, nothing read from a cache), None where the price is not known.
    A call of an ``agent`` is a run of it; its tokens are those of one turn, and nobody knows how many turns it takes,
    so it has no cost.
    """

    role: Role
    low: int
    high: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None = None
    agent: bool = False

    def line(self) -> str:
        calls = f"{self.low}" if self.low == self.high else f"{self.low}-{self.high}"
        if self.agent:
            each = round(self.prompt_tokens / max(1, self.high - 1))
            return f"{self.role}: {calls} runs of an agent, each of about {each:,} prompt tokens times its turns"
        return (
            f"{self.role}: {calls} calls, at most about {self.prompt_tokens:,} prompt and {self.completion_tokens:,} "
            "completion tokens"
        )


def estimate(
    config: Config,
    env: Env,
    items: Mapping[Split, Sequence[Item]],
    skill: str,
    style: ReplyStyle,
    prices: Mapping[Role, Price | None] | None = None,
    *,
    agent: bool = False,
) -> tuple[RoleEstimate, ...]:
    """Calls, tokens and money of a whole training run, for each role. Tokens are estimated as characters / 4; a reply
    as 150 tokens from a target and 700 from an optimizer. ``agent``: the target is one."""
    train = config.train
    plan = plan_epochs(items["train"], train.batch_size, train.accumulation, train.num_epochs, train.seed)
    low, high = target_calls(config, items, plan)
    prompts = [_tokens(env, item, skill, agent) for rows in items.values() for item in rows]
    per_item = sum(prompts) / max(1, len(prompts))
    tokens = round(high * per_item), high * _REPLY_TOKENS["target"]
    target = RoleEstimate("target", 1 + low, 1 + high, *tokens, agent=agent)

    low, high = optimizer_calls(config, plan, style)
    trajectory = min(per_item + _REPLY_TOKENS["target"], config.gradient.max_trajectory_tokens)
    prompt = _INSTRUCTION_TOKENS + len(skill) / 4 + _Analysts.of(config, style).size * trajectory
    optimizer = RoleEstimate("optimizer", 1 + low, 1 + high, round(high * prompt), high * _REPLY_TOKENS["optimizer"])
    return tuple(_priced(each, (prices or {}).get(each.role)) for each in (target, optimizer))


def estimate_evaluation(
    env: Env,
    items: Mapping[Split, Sequence[Item]],
    skill: str,
    price: Price | None = None,
    *,
    agent: bool = False,
) -> RoleEstimate:
    """Calls, tokens and money of one evaluation of ``skill`` on all ``items``; reckoned as in ``estimate``."""
    prompts = [_tokens(env, item, skill, agent) for rows in items.values() for item in rows]
    calls = 1 + len(prompts)
    tokens = round(sum(prompts)), len(prompts) * _REPLY_TOKENS["target"]
    return _priced(RoleEstimate("target", calls, calls, *tokens, agent=agent), price)


def cost_line(parts: Sequence[RoleEstimate]) -> str:
    """The money of an estimate, by role and in all; what has no known price is said to have none."""
    sums = [f"{part.role} {'by its turns' if part.agent else _dollars(part.cost_usd)}" for part in parts]
    whole = total(part.cost_usd for part in parts)
    if whole is None:
        what = "not known beforehand" if any(part.agent for part in parts) else "price unknown"
        return f"cost: {what} ({', '.join(sums)})"
    return f"cost: at most about {_dollars(whole)}" + (f" ({', '.join(sums)})" if len(sums) > 1 else "")


def _priced(part: RoleEstimate, price: Price | None) -> RoleEstimate:
    if price is None or part.agent:
        return part
    return replace(part, cost_usd=cost(Usage(part.prompt_tokens, part.completion_tokens), price))


def _dollars(amount: float | None) -> str:
    return "price unknown" if amount is None else dollars(amount)


def target_calls(
    config: Config, items: Mapping[Split, Sequence[Item]], plan: Sequence[EpochPlan[Item]]
) -> tuple[int, int]:
    """Fewest and most rollouts of a training run. The fewest: nothing is ever proposed, so that every later epoch asks
    what the first one asked; the most: every step and every epoch's end changes the skill."""
    optimizer, evaluation = config.optimizer, config.evaluation
    val = min(evaluation.sel_env_num or len(items["val"]), len(items["val"]))
    test = min(evaluation.test_env_num or len(items["test"]), len(items["test"])) if evaluation.eval_test else 0
    later = max(0, len(plan) - 1)
    low = val + len(items["train"]) + test
    high = val + len(plan) * len(plan[0].steps) * val + 2 * test
    high += sum(len(_ids(step)) for epoch in plan for step in epoch.steps)
    if optimizer.use_slow_update or optimizer.use_meta_skill:
        high += sum(_pairs(config, items["train"], epoch) for epoch in plan[1:])
    if optimizer.use_slow_update:
        high += later * val  # guidance that meets no gate is measured with the next candidate, or at the end
    ungated = optimizer.use_slow_update and not optimizer.slow_update_gate_with_selection
    if ungated or not evaluation.use_gate:
        high += test  # the last skill may be another one than the best
        high += val if optimizer.use_slow_update and not later else 0  # its empty block is a text of its own
    return low, high


def _ids(step: StepPlan[Item]) -> set[str]:
    return {item.id for batch in step.batches for item in batch.items}


def _pairs(config: Config, train: Sequence[Item], epoch: EpochPlan[Item]) -> int:
    """Rollouts of an epoch's comparison. Its first skill has answered the items of the first step already."""
    optimizer = config.optimizer
    count = len(train) if optimizer.longitudinal_pair_policy == "changed" else optimizer.slow_update_samples
    sample = {item.id for item in slow_update_sample(train, config.train.seed, epoch.epoch, count)}
    return len(sample) + len(sample - _ids(epoch.steps[0]))


def optimizer_calls(config: Config, plan: Sequence[EpochPlan[Item]], style: ReplyStyle) -> tuple[int, int]:
    """Fewest and most optimizer calls of a training run, re-asked replies not counted.

    Nobody knows how a batch will fall into failures and successes, and with it how many minibatches there are. The
    fewest is the best split; the most takes each step through all stages, two standard deviations above the mean over
    all splits (with failures alone, whose number says everything, the worst split).
    """
    optimizer, analysts = config.optimizer, _Analysts.of(config, style)
    epoch_ends = (int(optimizer.use_slow_update) + int(optimizer.use_meta_skill)) * max(0, len(plan) - 1)
    steps = [[len(batch.items) for batch in step.batches] for epoch in plan for step in epoch.steps]
    # The same few items may meet again, and then their analyst has answered already.
    asked_anew = steps if min(analysts.size, *map(max, steps)) >= _SELDOM_THE_SAME else steps[: len(plan[0].steps)]
    low = sum(min(sum(counts) for counts in analysts.splits(sizes)) for sizes in asked_anew)
    low += epoch_ends and int(optimizer.use_slow_update) + int(optimizer.use_meta_skill)
    costs = [[_step_calls(config, analysts, counts) for counts in analysts.splits(sizes)] for sizes in steps]
    most = sum(max(cost) for cost in costs)
    if not analysts.failures_only:
        spread = 2 * math.sqrt(sum(pvariance(cost) for cost in costs))
        most = min(most, math.ceil(sum(fmean(cost) for cost in costs) + spread))
    return low, most + epoch_ends


@dataclass(frozen=True, slots=True)
class _Analysts:
    """How trajectories go to analysts: ``size`` to a call, and whether the successes are read too."""

    size: int
    failures_only: bool
    compact: bool

    @classmethod
    def of(cls, config: Config, style: ReplyStyle) -> _Analysts:
        compact = style == "compact" and config.optimizer.skill_update_mode == "patch"
        size = config.gradient.minibatch_size
        return cls(min(size, COMPACT_SIZE) if compact else size, config.gradient.failure_only or compact, compact)

    def splits(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """Minibatches of failures and of successes of a step with micro-batches of these ``sizes``, for every number
        of failures."""
        total = sum(sizes)
        found = []
        for failed in range(total + 1):
            parts = [(round(failed * size / total), size) for size in sizes]
            failures = sum(math.ceil(part / self.size) for part, _ in parts)
            successes = sum(math.ceil((size - part) / self.size) for part, size in parts)
            found.append((failures, 0 if self.failures_only else successes))
        return found


def _step_calls(config: Config, analysts: _Analysts, counts: tuple[int, int]) -> int:
    """Calls of a step whose analysts, so many on failures and on successes, all propose something."""
    if analysts.compact or not any(counts):
        return sum(counts)
    mode = config.optimizer.skill_update_mode
    merges = sum(_merge_calls(count, config.gradient.merge_batch_size) for count in counts) + int(all(counts))
    choice = 0 if mode == "full_rewrite_minibatch" else 1
    if config.optimizer.lr_control_mode == "autonomous":
        choice += 1
    return sum(counts) + merges + choice + int(mode == "rewrite_from_suggestions")


def _merge_calls(patches: int, size: int) -> int:
    """Calls of the hierarchical merge of one side: one for each chunk of two or more, level by level."""
    calls = 0
    while patches > 1:
        calls += patches // size + int(patches % size > 1)
        patches = math.ceil(patches / size)
    return calls


def _tokens(env: Env, item: Item, skill: str, agent: bool) -> float:
    task = env.prompt(item)
    if agent:
        return sum(map(len, (agent_prompt(task), skill_file(task, skill), task.user))) / 4
    messages = compose(task, skill)
    return sum(len(message.content) + IMAGE_CHARS * len(message.images) for message in messages) / 4
