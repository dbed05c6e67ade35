"""The training loop."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from skillopt.engine.ahead import Ahead, Itinerary
from skillopt.engine.commit import state_files
from skillopt.engine.context import Context, Priority
from skillopt.engine.epoch import close_epoch, start_pairs
from skillopt.engine.evaluate import item_scores, means
from skillopt.engine.finish import finish
from skillopt.engine.passes import Passes, pass_files
from skillopt.engine.plan import EpochPlan, StepPlan
from skillopt.engine.state import RunState
from skillopt.engine.step import judge, propose
from skillopt.skill import Skill
from skillopt.types import Item

BASELINE = "baseline"


class Trainer:
    """Trains a skill: one commit a step, and the same code again to resume.

    Finished steps come from their commits, finished calls of the running step from the journal; the run goes on at the
    first call that was never answered.
    """

    def __init__(self, context: Context, passes: Passes, plan: tuple[EpochPlan[Item], ...], skill: Skill) -> None:
        self.context = context
        self.passes = passes
        self.plan = plan
        self.skill = skill
        self.ahead = Ahead(context, passes, Itinerary(context, plan, skill))

    async def run(self) -> dict[str, Any]:
        """Trains to the end and returns the summary. Raises ``StopRequested`` or ``ModelError``, all work kept."""
        try:
            state = self.start()
            for epoch in self.plan:
                self.start_epoch(state, epoch)
                for step in epoch.steps:
                    state = await self.step(state, step)
                state = await self.end_epoch(state, epoch)
            return await self.finish(state)
        finally:
            await self.ahead.close()

    def start(self) -> RunState:
        """The state before step 1. The first skill's baseline and test begin in the background."""
        context = self.context
        if context.folder.journal.record(BASELINE) is None:
            context.events.emit("baseline_started", n=len(context.selection_items))
            self.passes.start(self.skill, context.selection_items, label=BASELINE, priority=Priority.BASELINE)
        if context.config.evaluation.eval_test and not context.capped:
            self.passes.start(self.skill, context.test_items, label="test initial", priority=Priority.TEST)
        return RunState.initial(self.skill)

    def start_epoch(self, state: RunState, epoch: EpochPlan[Item]) -> None:
        self.context.events.emit("epoch_started", epoch=epoch.epoch, epochs=len(self.plan))
        if self.context.folder.journal.record(f"epoch_{epoch.epoch:02d}") is None:
            start_pairs(self.context, self.passes, state, epoch.epoch)

    async def step(self, state: RunState, plan: StepPlan[Item]) -> RunState:
        """One step: rollout, reflect, aggregate, select, update; then the gate and the commit."""
        stored = self.context.folder.journal.record(f"step_{plan.step:04d}")
        if stored is not None:
            self.context.events.emit("step_replayed", row=stored["row"], steps=self.context.total_steps)
            return RunState.model_validate(stored["state"])
        self.context.events.emit("step_started", step=plan.step, steps=self.context.total_steps, epoch=plan.epoch)
        self.ahead.leave_off()
        proposal = await propose(self.context, state, plan)

        def certain(current: Skill) -> None:
            self.ahead.after_step(plan, state, current)

        return await judge(self.context, proposal, partial(self.baseline, state), certain)

    async def end_epoch(self, state: RunState, epoch: EpochPlan[Item]) -> RunState:
        """Slow update and meta skill."""
        stored = self.context.folder.journal.record(f"epoch_{epoch.epoch:02d}")
        if stored is not None:
            return RunState.model_validate(stored["state"])
        self.ahead.leave_off()

        def certain(current: Skill, advice: asyncio.Future[Any]) -> None:
            self.ahead.after_epoch(epoch, state, current, advice)

        return await close_epoch(self.context, self.passes, state, epoch, certain)

    async def finish(self, state: RunState) -> dict[str, Any]:
        """Tests and the summary. What is current now will be tested, whichever skill proves the best."""
        self.ahead.leave_off()
        return await finish(self.context, self.passes, self.skill, state, self.ahead.testing(state))

    async def baseline(self, state: RunState) -> RunState:
        """Before step 1, the state with the first skill's selection scores, measured and committed once."""
        if state.step > 0:
            return state
        context = self.context
        record = context.folder.journal.record(BASELINE)
        if record is None:
            done = await self.passes.get(
                self.skill, context.selection_items, label=BASELINE, priority=Priority.BASELINE
            )
            scores = item_scores(done.evaluation)
            record = {"scores": scores}
            files = pass_files(context, "selection_eval_baseline", done)
            files |= state_files(context.config, state.but(current_scores=scores, best_scores=scores))
            context.folder.commit(BASELINE, record, files, done.scope.keys, behind=True)
            hard, soft = means(scores)
            context.events.emit("baseline_done", hard=hard, soft=soft, errors=done.evaluation.errors, n=len(scores))
        scores = {"current_scores": record["scores"], "best_scores": record["scores"]}
        return RunState.model_validate({**state.model_dump(), **scores})
