"""Passes that may start before their turn: the first skill's baseline and test, the earlier skill's pairs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from skillopt.concurrency import cancel_all
from skillopt.engine.context import Context, Scope
from skillopt.engine.evaluate import Evaluation, evaluate, rollout_files
from skillopt.skill import Skill
from skillopt.types import Item


_HEAD_START = 0.02
"""Seconds that the critical path has to queue its calls before an early pass queues its own."""


@dataclass(frozen=True)
class Pass:
    """An evaluation and the scope of the calls that it rests on."""

    evaluation: Evaluation
    scope: Scope


class Passes:
    """Runs each pass once; one that was started early is picked up by whoever asks for it in its turn.

    Early passes fill the places that the critical path leaves free: they let it queue first, and hold at most half of
    the places, so that it never waits for more than one call of theirs.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._early: dict[str, tuple[asyncio.Task[Pass], asyncio.Semaphore]] = {}

    def start(self, skill: Skill, items: Sequence[Item], *, label: str, priority: int) -> None:
        """Starts a pass in the background, to be picked up under the same label."""
        slots = asyncio.Semaphore(max(1, self._context.config.env.workers // 2))
        self._early[label] = asyncio.ensure_future(self._run_early(skill, items, label, priority, slots)), slots

    async def get(self, skill: Skill, items: Sequence[Item], *, label: str, priority: int) -> Pass:
        """The pass, whether it was started early or not."""
        early, slots = self._early.pop(label, (None, None))
        if early is None or slots is None:
            return await self._run(skill, items, label, priority)
        for _ in range(self._context.config.env.workers):
            slots.release()  # its turn has come: it is not held back any more
        try:
            return await early
        finally:
            await cancel_all([early])

    async def close(self) -> None:
        """Cancels what was started and never asked for; its requests in flight are still paid and kept."""
        tasks = [task for task, _ in self._early.values()]
        self._early.clear()
        await cancel_all(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()

    async def _run_early(
        self, skill: Skill, items: Sequence[Item], label: str, priority: int, slots: asyncio.Semaphore
    ) -> Pass:
        await asyncio.sleep(_HEAD_START)
        return await self._run(skill, items, label, priority, slots)

    async def _run(
        self, skill: Skill, items: Sequence[Item], label: str, priority: int, slots: asyncio.Semaphore | None = None
    ) -> Pass:
        scope = self._context.scope()
        done = await evaluate(scope, skill, items, label=label, priority=priority, slots=slots)
        return Pass(done, scope)


def pass_files(context: Context, directory: str, done: Pass) -> dict[str, bytes]:
    """The files of a pass outside training: predictions only where all are asked for."""
    everything = context.config.logging.predictions == "all"
    return rollout_files(directory, done.evaluation.rollouts, predictions=everything)
