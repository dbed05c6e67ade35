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


@dataclass(frozen=True)
class Pass:
    """An evaluation and the scope of the calls that it rests on."""

    evaluation: Evaluation
    scope: Scope


class Passes:
    """Runs each pass once; one that was started early is picked up by whoever asks for it in its turn."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._early: dict[str, asyncio.Task[Pass]] = {}

    def start(self, skill: Skill, items: Sequence[Item], *, label: str, priority: int) -> None:
        """Starts a pass in the background, to be picked up under the same label."""
        if items:
            self._early[label] = asyncio.ensure_future(self._run(skill, items, label, priority))

    async def get(self, skill: Skill, items: Sequence[Item], *, label: str, priority: int) -> Pass:
        """The pass, whether it was started early or not."""
        early = self._early.pop(label, None)
        if early is None:
            return await self._run(skill, items, label, priority)
        try:
            return await early
        finally:
            await cancel_all([early])

    async def close(self) -> None:
        """Cancels what was started and never asked for; its requests in flight are still paid and kept."""
        await cancel_all(self._early.values())
        for task in self._early.values():
            if not task.cancelled():
                task.exception()
        self._early.clear()

    async def _run(self, skill: Skill, items: Sequence[Item], label: str, priority: int) -> Pass:
        scope = self._context.scope()
        return Pass(await evaluate(scope, skill, items, label=label, priority=priority), scope)


def pass_files(context: Context, directory: str, done: Pass) -> dict[str, bytes]:
    """The files of a pass outside training: predictions only where all are asked for."""
    everything = context.config.logging.predictions == "all"
    return rollout_files(directory, done.evaluation.rollouts, predictions=everything)
