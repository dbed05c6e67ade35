"""Calls that are sent before their turn, because it is certain that they will be asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from skillopt.concurrency import cancel_all, gather_all
from skillopt.engine.context import Context, Priority
from skillopt.engine.epoch import ask_optimizer, compare, compares
from skillopt.engine.evaluate import evaluate, harness_of
from skillopt.engine.passes import Pass, Passes
from skillopt.engine.plan import EpochPlan, StepPlan
from skillopt.engine.state import RunState
from skillopt.skill import Skill
from skillopt.types import Item


@dataclass(frozen=True)
class Rollouts:
    """What the target is asked next. ``test``: items of the test split."""

    skill: Skill
    items: Sequence[Item]
    test: bool = False


Next = Rollouts | EpochPlan[Item] | None
"""What comes next: rollouts, the end of an epoch that compares two skills, or nothing that is certain."""


class Itinerary:
    """What comes after a step and after an epoch, once it is known which skill is current then. Pure."""

    def __init__(self, context: Context, plan: Sequence[EpochPlan[Item]], initial: Skill) -> None:
        self._context = context
        self._plan = plan
        self._initial = initial

    def after_step(self, step: StepPlan[Item], state: RunState, current: Skill) -> Next:
        """``state`` is the one before the verdict of ``step``, ``current`` the skill that is current after it."""
        config, epoch = self._context.config, self._plan[step.epoch - 1]
        if step.step_in_epoch + 1 < len(epoch.steps):
            return _of_step(epoch.steps[step.step_in_epoch + 1], current)
        if compares(config, epoch.epoch):
            return epoch
        measured = state.but(current=current.text)
        if config.optimizer.use_slow_update:
            current = current.with_empty_guidance()
        return self.after_epoch(epoch, measured, current)

    def after_epoch(self, epoch: EpochPlan[Item], state: RunState, current: Skill) -> Rollouts | None:
        """``state`` is the one before the guidance of ``epoch``."""
        if epoch.epoch < len(self._plan):
            return _of_step(self._plan[epoch.epoch].steps[0], current)
        return self.test(state, current)

    def test(self, state: RunState, current: Skill) -> Rollouts | None:
        """The last skill's test, which no optimizer call comes after. Of skills with the same content only one is
        tested, so it is not certain where the first skill or one that may be the best says the same."""
        may_be_best = [Skill(text) for text in (state.best, state.current) if text != current.text]
        if any(current.same_content(other) for other in (self._initial, *may_be_best)):
            return None
        if not self._context.config.evaluation.eval_test:
            return None
        return Rollouts(current, self._context.test_items, test=True)


def _of_step(step: StepPlan[Item], current: Skill) -> Rollouts:
    return Rollouts(current, tuple(item for batch in step.batches for item in batch.items))


class Ahead:
    """Asks what comes after a pass while its last calls leave places free.

    It runs in a context of its own and through the journal: who asks in his turn finds the calls answered, or shares
    what is in flight. Nothing is sent in a run that a budget bounds or that was told to stop. What fails here ends
    here, and who asks in his turn is told.
    """

    def __init__(self, context: Context, passes: Passes, itinerary: Itinerary) -> None:
        self._context = context
        self._passes = passes
        self._itinerary = itinerary
        self._known: list[Next] = []
        self._work: set[asyncio.Task[None]] = set()

    def after_step(self, step: StepPlan[Item], state: RunState, current: Skill) -> None:
        """It is certain that ``current`` is the current skill after ``step``, which began in ``state``."""
        coming = self._itinerary.after_step(step, state, current)
        if isinstance(coming, EpochPlan):
            # Its scores are not complete yet; they are only needed for a verdict, which nobody takes from here.
            state = state.but(current=current.text, current_scores={})
            self._start(coming, lambda context: self._close(context, coming, state))
        else:
            self._start(coming, lambda context: _send(context, coming))

    def after_epoch(
        self, epoch: EpochPlan[Item], state: RunState, current: Skill, advice: asyncio.Future[Any] | None = None
    ) -> None:
        """It is certain that ``current`` is the current skill after ``epoch``. ``advice`` is the optimizer's last call,
        which may still be on its way: a trained skill meets the test split after it."""
        coming = self._itinerary.after_epoch(epoch, state, current)
        self._start(coming, lambda context: _send(context, coming, advice))

    @contextmanager
    def testing(self, state: RunState) -> Iterator[None]:
        """Tests the last skill beside what is done within the context."""
        coming = self._itinerary.test(state, Skill(state.current))
        self._start(coming, lambda context: _send(context, coming))
        try:
            yield
        finally:
            self.leave_off()

    def leave_off(self) -> None:
        """The turn has come: who needs the calls asks for them now. What is in flight goes on."""
        self._known.clear()
        for task in self._work:
            task.cancel()

    async def close(self) -> None:
        await cancel_all(self._work)

    def _start(self, coming: Next, work: Callable[[Context], Coroutine[Any, Any, None]]) -> None:
        if coming is None or coming in self._known or self._context.capped or self._context.meter.stopped is not None:
            return
        self._known.append(coming)
        task = asyncio.ensure_future(work(self._context.ahead_of_turn()))
        self._work.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled():
            task.exception()  # seen: who asks in his turn is told

    async def _close(self, context: Context, epoch: EpochPlan[Item], state: RunState) -> None:
        """Asks what the end of an epoch asks."""
        scope = context.scope()

        async def earlier(skill: Skill, items: Sequence[Item], *, label: str, priority: int) -> Pass:
            early = self._passes.under_way(label)
            if early is not None:
                return await asyncio.shield(early)
            return Pass(await evaluate(scope, skill, items, label=label, priority=priority), scope)

        def certain(current: Skill, advice: asyncio.Future[Any]) -> None:
            self.after_epoch(epoch, state, current, advice)

        comparison = await compare(scope, earlier, state, epoch.epoch)
        await ask_optimizer(scope, state, epoch.epoch, comparison, certain)


async def _send(context: Context, rollouts: Rollouts | None, advice: asyncio.Future[Any] | None = None) -> None:
    """Sends rollouts, as many at once as the target has places. They are scored in their turn."""
    if rollouts is None:
        return
    if rollouts.test and advice is not None:
        await asyncio.shield(advice)
    target = context.scope().target
    harness = harness_of(context, target)
    places = asyncio.Semaphore(context.config.env.workers)

    async def ask(item: Item) -> None:
        async with places:
            await target.complete(harness.request(context.env, item, rollouts.skill, priority=Priority.AHEAD))

    await gather_all(ask(item) for item in rollouts.items)
