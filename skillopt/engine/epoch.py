"""The end of an epoch: the slow update writes guidance for the target, the meta skill advice for the optimizer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from skillopt.concurrency import gather_both
from skillopt.config import Config
from skillopt.engine.commit import state_files
from skillopt.engine.context import Context, Priority, Scope
from skillopt.engine.evaluate import evaluate, rollout_files
from skillopt.engine.gating import judged, measure
from skillopt.engine.passes import GetPass, Passes
from skillopt.engine.plan import EpochPlan, slow_update_sample
from skillopt.engine.settings import optimizer_settings
from skillopt.engine.state import RunState
from skillopt.optimizer.meta_skill import MetaSkill, meta_skill
from skillopt.optimizer.pairs import Pairing, pair_up
from skillopt.optimizer.slow_update import SlowUpdate, slow_update
from skillopt.run.folder import dump_json
from skillopt.skill import Skill
from skillopt.types import Item, Rollout

Guided = tuple[RunState, dict[str, Any], dict[str, bytes]]
"""The state after the slow update, ``slow_result.json``, and further files."""

Certain = Callable[[Skill, asyncio.Future[Any]], None]
"""Is told the skill that the next epoch starts with, and the meta skill that may still be in the making."""


@dataclass(frozen=True)
class Comparison:
    """The same train items under the skill of the epoch's start and under today's; ``shown`` is what the pair policy
    lets the optimizer see of ``pairing``."""

    pairing: Pairing
    shown: Pairing
    prev: tuple[Rollout, ...]
    curr: tuple[Rollout, ...]


async def close_epoch(
    context: Context, passes: Passes, state: RunState, epoch: EpochPlan[Item], certain: Certain
) -> RunState:
    """Slow update and meta skill of an epoch, in one commit. Epoch 1 has no earlier skill to compare with: it gets the
    empty guidance block, unmeasured. ``certain`` is told which skill will be current, as soon as it is certain."""
    optimizer = context.config.optimizer
    scope = context.scope()
    files: dict[str, bytes] = {}
    started = time.monotonic()
    comparison: Comparison | None = None
    if compares(context.config, epoch.epoch):
        comparison = await compare(scope, passes.get, state, epoch.epoch)
        files |= comparison_files(context, epoch.epoch, comparison)
    guided, meta = await ask_optimizer(scope, state, epoch.epoch, comparison, certain)
    if guided is not None:
        state, result, more = guided
        files |= more
        if comparison is not None:
            prev, curr = comparison.shown.means()
            result |= {"prev_hard": prev, "curr_hard": curr, "time_s": round(time.monotonic() - started, 1)}
        files[f"slow_update/epoch_{epoch.epoch:02d}/slow_result.json"] = dump_json(result)
        context.events.emit("slow_update_done", epoch=epoch.epoch, action=result["action"])
    if optimizer.use_meta_skill:
        result = meta_result(epoch.epoch, meta)
        if meta:
            state = state.but(memory=meta.memory)
            result |= {"time_s": round(time.monotonic() - started, 1)}
        files[f"meta_skill/epoch_{epoch.epoch:02d}/meta_skill_result.json"] = dump_json(result)
        context.events.emit("meta_skill_done", epoch=epoch.epoch, action=result["action"])
    state = state.but(epoch_start=state.current, buffer=())
    files |= state_files(context.config, state)
    record = {"state": state.model_dump()}
    context.folder.commit(f"epoch_{epoch.epoch:02d}", record, files, scope.keys, behind=True)
    return state


def compares(config: Config, epoch: int) -> bool:
    """Whether the end of the epoch compares its first skill with its last."""
    return epoch > 1 and (config.optimizer.use_slow_update or config.optimizer.use_meta_skill)


def start_pairs(context: Context, passes: Passes, state: RunState, epoch: int) -> None:
    """Begins the rollouts of the epoch's first skill on the longitudinal sample: they depend on nothing else."""
    if compares(context.config, epoch) and not context.capped:
        sample = longitudinal_order(context, epoch)[: context.config.optimizer.slow_update_samples]
        passes.start(Skill(state.epoch_start), sample, label=_prev_label(epoch), priority=Priority.PAIRS)


def longitudinal_order(context: Context, epoch: int) -> Sequence[Item]:
    """The train items in the order in which the comparison takes them: the sample first."""
    items = context.items["train"]
    return slow_update_sample(items, context.config.train.seed, epoch, len(items))


def _prev_label(epoch: int) -> str:
    return f"epoch {epoch} pairs (before)"


async def compare(scope: Scope, earlier: GetPass, state: RunState, epoch: int) -> Comparison:
    """Both skills on the sample; ``earlier`` gives the passes of the first one. Policy ``changed`` looks further, a
    sample's worth of items at a time, until it has as many changed pairs as the sample has items or the train split
    ends."""
    context = scope.context
    optimizer = context.config.optimizer
    order = longitudinal_order(context, epoch)
    size = optimizer.slow_update_samples
    before, now = Skill(state.epoch_start), Skill(state.current)
    prev: tuple[Rollout, ...] = ()
    curr: tuple[Rollout, ...] = ()
    for start in range(0, len(order), max(1, size)):
        items = order[start : start + size]
        label = _prev_label(epoch) if start == 0 else f"{_prev_label(epoch)} from {start}"
        then, today = await gather_both(
            earlier(before, items, label=label, priority=Priority.PAIRS),
            evaluate(scope, now, items, label=f"epoch {epoch} pairs (now)", priority=Priority.STEP),
        )
        scope.keys.update(then.scope.keys)
        prev += then.evaluation.rollouts
        curr += today.rollouts
        pairing = pair_up(prev, curr)
        shown = pairing.chosen(optimizer.longitudinal_pair_policy)
        if optimizer.longitudinal_pair_policy != "changed" or len(shown.pairs) >= size:
            break
    return Comparison(pairing, Pairing(shown.pairs[:size], shown.excluded), prev, curr)


async def ask_optimizer(
    scope: Scope, state: RunState, epoch: int, comparison: Comparison | None, certain: Certain
) -> tuple[Guided | None, MetaSkill | None]:
    """Both calls at once, and the gate on the guidance beside a meta skill that is still being written: neither reads
    what the other writes."""
    optimizer = scope.context.config.optimizer
    settings = optimizer_settings(scope.context.config, scope.optimizer.spec)
    before, now = Skill(state.epoch_start), Skill(state.current)

    async def meta() -> MetaSkill | None:
        if not optimizer.use_meta_skill or comparison is None:
            return None
        return await meta_skill(scope.optimizer, settings, before, now, state.memory, comparison.shown)

    async def guided() -> Guided | None:
        if not optimizer.use_slow_update:
            certain(now, advice)
            return None
        slow = None
        if comparison is not None:
            slow = await slow_update(scope.optimizer, settings, before, now, comparison.shown)
        return await inject(scope, state, epoch, slow, lambda skill: certain(skill, advice))

    advice = asyncio.ensure_future(meta())
    return await gather_both(guided(), advice)


async def inject(
    scope: Scope, state: RunState, epoch: int, slow: SlowUpdate | None, certain: Callable[[Skill], None]
) -> Guided:
    """The guidance in the current skill.

    With ``slow_update_gate_with_selection`` the guidance passes the gate like any candidate; without, it enters the
    current skill at once, which then counts as unmeasured.
    """
    current = Skill(state.current)
    if slow is None:
        placeholder = current.with_empty_guidance()
        origin = f"slow_update_placeholder_epoch_{epoch:02d}"
        certain(placeholder)
        state = state.but(current=placeholder.text, current_origin=origin)
        return state, {"action": "inject_placeholder", "epoch": epoch}, {}
    if slow.content is None:
        error = {"error": slow.error.message} if slow.error else {}
        certain(current)
        return state, {"action": "no_content", **error}, {}
    candidate = current.with_guidance(slow.content)
    result = {
        "reasoning": slow.reasoning,
        "slow_update_content": slow.content,
        "candidate_hash": candidate.hash,
        "update_origin": "slow_update_momentum",
        "update_target": "current_skill",
    }
    files = {f"slow_update/epoch_{epoch:02d}/candidate_skill.md": candidate.to_bytes()}
    if candidate.text == current.text:
        certain(current)
        return state, result | {"action": "skip_no_change"}, files
    context = scope.context
    if not context.config.optimizer.slow_update_gate_with_selection or not context.selection_items:
        certain(candidate)
        state = state.but(current=candidate.text, current_origin=_origin(epoch), current_scores=None)
        return state, result | {"action": "force_accept"}, files
    state, scores, more = await _gated(
        scope, state, epoch, candidate, lambda accepted: certain(candidate if accepted else current)
    )
    return state, result | scores, files | more


def _origin(epoch: int) -> str:
    return f"slow_update_epoch_{epoch:02d}"


async def _gated(
    scope: Scope, state: RunState, epoch: int, candidate: Skill, settled: Callable[[bool], None]
) -> Guided:
    """The guidance before the gate. ``settled`` is told whether it will be accepted, as soon as that is certain."""

    async def before() -> RunState:
        return state

    context = scope.context
    evaluation, judged_in = await measure(scope, candidate, before, f"epoch {epoch} selection", settled)
    everything = context.config.logging.predictions == "all"
    directory = f"slow_update/epoch_{epoch:02d}/selection_eval"
    files = rollout_files(directory, evaluation.rollouts, predictions=everything)
    state, verdict = judged(context, judged_in, candidate, evaluation, _origin(epoch))
    scores = {"selection_hard": evaluation.hard, "selection_soft": evaluation.soft}
    return state, {**scores, "action": verdict.action}, files


def meta_result(epoch: int, meta: MetaSkill | None) -> dict[str, Any]:
    if meta is None:
        return {"action": "skip_first_epoch", "epoch": epoch}
    if meta.content is None:
        return {"action": "no_content", **({"error": meta.error.message} if meta.error else {})}
    return {"reasoning": meta.reasoning, "meta_skill_content": meta.content, "action": "write_meta_skill"}


def comparison_files(context: Context, epoch: int, comparison: Comparison) -> dict[str, bytes]:
    """``comparison_pairs.json`` and both passes, below the slow update (or the meta skill, when that is alone)."""
    optimizer = context.config.optimizer
    directory = f"{'slow_update' if optimizer.use_slow_update else 'meta_skill'}/epoch_{epoch:02d}"
    everything = context.config.logging.predictions == "all"
    files = {f"{directory}/comparison_pairs.json": dump_json(comparison.shown.rows())}
    if optimizer.longitudinal_pair_policy != "mixed":
        files[f"{directory}/comparison_pairs_all.json"] = dump_json(comparison.pairing.rows())
    for name, rollouts in (("rollout_prev", comparison.prev), ("rollout_curr", comparison.curr)):
        files |= rollout_files(f"{directory}/{name}", rollouts, predictions=everything)
    return files
