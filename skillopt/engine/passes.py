"""Passes that may start before their turn: the first skill's baseline and test, the earlier skill's pairs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from skillopt.concurrency import cancel_all
from skillopt.engine.context import Context, Priority, Scope
from skillopt.engine.evaluate import Evaluation, evaluate, rollout_files
from skillopt.skill import Skill
from skillopt.types import Item

T = TypeVar("T")

_HEAD_START = 0.02
"""Seconds that the critical path has to queue its calls before an early pass queues its own."""

_RESERVED = 8
"""Places, at most, that are kept for the critical path."""


@dataclass(frozen=True)
class Pass:
    """An evaluation and the scope of the calls that it rests on."""

    evaluation: Evaluation
    scope: Scope


class GetPass(Protocol):
    """Gives a pass that may have been started early under its label."""

    def __call__(self, skill: Skill, items: Sequence[Item], *, label: str, priority: int) -> Awaitable[Pass]: ...


class Passes:
    """Runs each pass once; one that was started early is picked up by whoever asks for it in its turn.

    Early passes fill the places that the critical path leaves free: they let it queue first, and those that are needed
    only much later leave some to it (half, eight at most), so that it seldom waits for a call of theirs to end.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._early: dict[str, tuple[asyncio.Task[Pass], asyncio.Semaphore]] = {}
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, skill: Skill, items: Sequence[Item], *, label: str, priority: int) -> None:
        """Starts a pass in the background, to be picked up under the same label."""
        workers = self._context.config.env.workers
        reserved = 0 if priority <= Priority.BASELINE else min(_RESERVED, workers // 2)
        slots = asyncio.Semaphore(workers - reserved)
        task = asyncio.ensure_future(self._run_early(skill, items, label, priority, slots))
        task.add_done_callback(self._ended)
        self._early[label] = task, slots

    async def get(self, skill: Skill, items: Sequence[Item], *, label: str, priority: int) -> Pass:
        """The pass, whether it was started early or not."""
        early = self.under_way(label)
        if early is None:
            return await self._run(skill, items, label, priority)
        del self._early[label]
        try:
            return await early
        finally:
            await cancel_all([early])

    def under_way(self, label: str) -> asyncio.Task[Pass] | None:
        """The pass that was started early and not picked up yet. It is not held back any more: its turn has come."""
        early, slots = self._early.get(label, (None, None))
        if slots is not None:
            for _ in range(self._context.config.env.workers):
                slots.release()
        return early

    async def beside(self, work: Coroutine[Any, Any, T]) -> T:
        """``work``, which an early pass that fails ends at once: what fails now would fail in its turn, after all that
        is paid until then."""
        task = asyncio.ensure_future(work)
        try:
            waiting: set[asyncio.Future[Any]] = {task, self._broken}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if self._broken.done() and not task.done():
                self._broken.result()
            return await task
        finally:
            await cancel_all([task])

    def _ended(self, early: asyncio.Task[Pass]) -> None:
        error = None if early.cancelled() else early.exception()
        if error is not None and not self._broken.done():
            self._broken.set_exception(error)

    async def __aenter__(self) -> Passes:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancels what was started and never asked for; its requests in flight are still paid and kept."""
        if not self._broken.cancel():
            self._broken.exception()  # whoever waited has seen it
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
