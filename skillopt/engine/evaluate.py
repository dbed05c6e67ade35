"""A skill on a set of items: the one loop that every pass of a run goes through."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from skillopt.concurrency import cancel_all
from skillopt.data.splits import safe_name
from skillopt.engine.context import Context, Scope
from skillopt.harness.base import Harness
from skillopt.harness.choose import harness_for
from skillopt.harness.rows import result_row
from skillopt.models.errors import StopRequested
from skillopt.models.types import ChatModel
from skillopt.run.folder import dump_json
from skillopt.skill import Skill
from skillopt.types import Failure, Item, Outcome, Rollout, Score

Watch = Callable[[Rollout], None]
"""Is shown the rollouts of a pass in the order in which they end."""


@dataclass(frozen=True)
class Evaluation:
    """The rollouts of one skill on one list of items, in the order of the items."""

    rollouts: tuple[Rollout, ...]

    @property
    def outcomes(self) -> dict[str, Outcome]:
        return {rollout.item.id: rollout.outcome for rollout in self.rollouts}

    @property
    def scores(self) -> list[Score]:
        """The measured outcomes only."""
        return [rollout.outcome for rollout in self.rollouts if isinstance(rollout.outcome, Score)]

    @property
    def errors(self) -> int:
        """Items that could not be measured."""
        return len(self.rollouts) - len(self.scores)

    @property
    def hard(self) -> float | None:
        """Mean pass rate over the measured items; None when there are none."""
        return mean([score.hard for score in self.scores])

    @property
    def soft(self) -> float | None:
        return mean([score.soft for score in self.scores])


def mean(values: Sequence[float]) -> float | None:
    """Exact-rounded mean (``math.fsum``), so that the order of summation cannot change a digit."""
    return math.fsum(values) / len(values) if values else None


_LAUNCHED_AT_ONCE = 32
"""Items whose prompts are made before their requests are sent: with all of a large split, endpoints would wait."""


class ErrorGuard:
    """Ends a run once more than ``max_rate`` of a pass of ``size`` calls could not be measured."""

    def __init__(self, context: Context, role: str, size: int) -> None:
        self._context = context
        self._role = role
        self._size = size
        self._failed = 0

    def failed(self, failure: Failure) -> None:
        self._failed += 1
        max_rate = self._context.config.runtime.max_error_rate
        if self._failed > max_rate * self._size:
            detail = (
                f"{self._role}: {self._failed} of {self._size} calls of one pass failed (runtime.max_error_rate="
                f"{max_rate:g}); the last one: {failure.message}"
            )
            raise self._context.stop(StopRequested("error_rate", detail))


def harness_of(context: Context, target: ChatModel) -> Harness:
    """How the target of a run is asked."""
    env_keys = context.config.env
    return harness_for(target, max_tokens=env_keys.max_completion_tokens, timeout=env_keys.exec_timeout)


async def rollouts_in_order(
    scope: Scope,
    skill: Skill,
    items: Sequence[Item],
    *,
    label: str,
    priority: int,
    slots: AbstractAsyncContextManager[object] | None = None,
    watch: Watch | None = None,
) -> AsyncIterator[Rollout]:
    """Rolls out all items at once and yields them in item order, each as soon as it and those before it are done.

    ``slots`` bounds how many are under way, below the bound of the endpoint. ``watch`` is shown each rollout when it is
    done.
    """
    context = scope.context
    harness = harness_of(context, scope.target)
    guard = ErrorGuard(context, "target", len(items))
    progress = _Progress(context, label, len(items))

    async def roll(item: Item) -> Rollout:
        async with slots or nullcontext():
            rollout = await harness.run(context.env, item, skill, priority=priority, stage="rollout")
        progress.done(rollout)
        if watch is not None:
            watch(rollout)
        if isinstance(rollout.outcome, Failure):
            guard.failed(rollout.outcome)
        return rollout

    tasks: list[asyncio.Task[Rollout]] = []
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    try:
        for item in items:
            tasks.append(asyncio.ensure_future(roll(item)))
            tasks[-1].add_done_callback(lambda done: _pass_on_error(done, failed))
            if len(tasks) % _LAUNCHED_AT_ONCE == 0:
                await asyncio.sleep(0)
        for task in tasks:
            if not task.done():
                waiting: set[asyncio.Future[Any]] = {task, failed}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                failed.result()
            yield task.result()
    finally:
        await cancel_all(tasks)
        if not failed.cancel():
            failed.exception()  # seen by whoever waited for its task


def _pass_on_error(done: asyncio.Future[Rollout], failed: asyncio.Future[None]) -> None:
    """A failed task ends the pass at once, not when its turn comes."""
    if done.cancelled() or failed.done():
        return
    error = done.exception()
    if error is not None:
        failed.set_exception(error)


async def evaluate(
    scope: Scope,
    skill: Skill,
    items: Sequence[Item],
    *,
    label: str,
    priority: int,
    slots: AbstractAsyncContextManager[object] | None = None,
    watch: Watch | None = None,
) -> Evaluation:
    """``skill`` on ``items``. ``label`` names the pass in events. Raises ``StopRequested`` when too much fails."""
    done: list[Rollout] = []
    passing = rollouts_in_order(scope, skill, items, label=label, priority=priority, slots=slots, watch=watch)
    async for rollout in passing:
        done.append(rollout)
    return Evaluation(tuple(done))


def rollout_files(directory: str, rollouts: Sequence[Rollout], *, predictions: bool) -> dict[str, bytes]:
    """``results.jsonl`` of a pass, and each item's ``conversation.json`` where asked; paths below the run folder ('' is
    the run folder itself)."""
    below = f"{directory}/" if directory else ""
    lines = [json.dumps(result_row(rollout), ensure_ascii=False, allow_nan=False) + "\n" for rollout in rollouts]
    files = {f"{below}results.jsonl": "".join(lines).encode()}
    if predictions:
        for rollout in rollouts:
            if rollout.trajectory:
                path = f"{below}predictions/{safe_name(rollout.item.id)}/conversation.json"
                files[path] = dump_json(list(rollout.trajectory))
    return files


def item_scores(evaluation: Evaluation) -> dict[str, tuple[float, float] | None]:
    """``{item id: (hard, soft)}``, None for what could not be measured: the form that is kept in the journal."""
    return {
        id_: (outcome.hard, outcome.soft) if isinstance(outcome, Score) else None
        for id_, outcome in evaluation.outcomes.items()
    }


def means(scores: Mapping[str, tuple[float, float] | None]) -> tuple[float | None, float | None]:
    """Mean hard and soft over the measured items."""
    measured = [score for score in scores.values() if score is not None]
    return mean([hard for hard, _ in measured]), mean([soft for _, soft in measured])


class _Progress:
    """Tells the events how far a pass is, in order of completion."""

    def __init__(self, context: Context, label: str, total: int) -> None:
        self._context, self._label, self._total = context, label, total
        self._done = self._measured = 0
        self._hard = 0.0
        context.events.emit("pass_started", label=label, total=total)

    def done(self, rollout: Rollout) -> None:
        self._done += 1
        score = rollout.score
        if score is not None:
            self._measured += 1
            self._hard += score.hard
        self._context.events.emit(
            "item_done",
            label=self._label,
            done=self._done,
            total=self._total,
            id=rollout.item.id,
            accuracy=self._hard / self._measured if self._measured else None,
            hard=score.hard if score else None,
            status=rollout.outcome.status,
            error=rollout.outcome.message if isinstance(rollout.outcome, Failure) else None,
            tokens=self._context.meter.tokens,
            cost_usd=self._context.meter.cost_usd,
        )
