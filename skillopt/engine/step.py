"""One optimizer step: stages 1 to 5 propose a candidate, the gate judges it, one commit ends it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from skillopt.concurrency import cancel_all, gather_all
from skillopt.engine.commit import state_files
from skillopt.engine.context import Context, Priority, Scope
from skillopt.engine.evaluate import Evaluation, rollouts_in_order
from skillopt.engine.gating import GetState, judged, measure
from skillopt.engine.plan import BatchPlan, StepPlan
from skillopt.engine.proposal import BatchResult, Judgement, Proposal, Stopwatch
from skillopt.engine.settings import optimizer_settings
from skillopt.engine.sides import Sides
from skillopt.engine.state import RunState
from skillopt.engine.steprecord import buffer_entry, history_row, lr_history, score_fields, step_files, token_fields
from skillopt.models.errors import StopRequested
from skillopt.optimizer.aggregate import aggregate
from skillopt.optimizer.context import OptimizerContext, Settings
from skillopt.optimizer.minibatch import Minibatch, Minibatcher
from skillopt.optimizer.reflect import STAGE, Reflection, analyse, patches_of
from skillopt.optimizer.rejected import from_json, render, to_json
from skillopt.optimizer.schedule import make_schedule
from skillopt.optimizer.select import decide_learning_rate, select
from skillopt.optimizer.update import update
from skillopt.run.folder import dump_json
from skillopt.skill import Skill
from skillopt.types import Action, Item


async def propose(context: Context, state: RunState, plan: StepPlan[Item]) -> Proposal:
    """Stages 1 to 5: a candidate skill, or none."""
    scope = context.scope()
    settings = optimizer_settings(context.config, scope.optimizer.spec)
    skill = Skill(state.current)
    told = OptimizerContext(skill, state.memory, render(from_json(state.buffer)))
    watch = Stopwatch()
    batches = await roll_and_reflect(scope, settings, told, plan, watch)
    proposal = Proposal(scope, skill, plan, watch, batches)
    _check_analysts(scope, plan.step, proposal.reflections)
    failures, successes = (patches_of(proposal.reflections, kind) for kind in ("failure", "success"))
    if not failures and not successes:
        return proposal

    clock = time.monotonic()
    context.events.emit("stage_started", step=plan.step, stage=3)
    merged = await aggregate(scope.optimizer, told, settings, failures, successes)
    clock = watch.lap("aggregate", clock)
    context.events.emit(
        "stage_done",
        step=plan.step,
        stage=3,
        patches=len(failures) + len(successes),
        merged=len(merged.patch.items),
        errors=len(merged.fallbacks),
    )
    proposal = await _select(replace(proposal, merged=merged), settings, told)
    clock = watch.lap("select", clock)
    assert proposal.selection is not None
    updated = await update(scope.optimizer, told, settings, proposal.selection.patch, merged.patch)
    watch.lap("update", clock)
    after = len(updated.candidate.text) if updated.candidate else len(skill.text)
    context.events.emit("stage_done", step=plan.step, stage=5, before=len(skill.text), after=after)
    return replace(proposal, update=updated)


async def roll_and_reflect(
    scope: Scope, settings: Settings, told: OptimizerContext, plan: StepPlan[Item], watch: Stopwatch
) -> tuple[BatchResult, ...]:
    """Stages 1 and 2 of all micro-batches at once; a minibatch goes to its analyst as soon as it is closed."""
    events, started = scope.context.events, time.monotonic()
    evaluations: list[Evaluation] = []
    events.emit("stage_started", step=plan.step, stage=1)

    def rolled_out(evaluation: Evaluation) -> None:
        nonlocal started
        evaluations.append(evaluation)
        if len(evaluations) == len(plan.batches):
            started = watch.lap("rollout", started)
            whole = Evaluation(tuple(rollout for each in evaluations for rollout in each.rollouts))
            events.emit("stage_done", step=plan.step, stage=1, hard=whole.hard, soft=whole.soft, errors=whole.errors)
            events.emit("stage_started", step=plan.step, stage=2)

    sides = Sides(scope, told, settings, len(plan.batches))
    try:
        done = await gather_all(_batch(scope, settings, told, plan, batch, rolled_out, sides) for batch in plan.batches)
    finally:
        await sides.close()
    watch.lap("reflect", started)
    reflections = [reflection for batch in done for reflection in batch.reflections]
    events.emit(
        "stage_done",
        step=plan.step,
        stage=2,
        failure_patches=len(patches_of(reflections, "failure")),
        success_patches=len(patches_of(reflections, "success")),
        errors=sum(reflection.error is not None for reflection in reflections),
    )
    return tuple(done)


async def _batch(
    scope: Scope,
    settings: Settings,
    told: OptimizerContext,
    plan: StepPlan[Item],
    batch: BatchPlan[Item],
    rolled_out: Callable[[Evaluation], None],
    sides: Sides,
) -> BatchResult:
    minibatcher = Minibatcher(settings)
    rollouts = []
    analysts: list[asyncio.Future[Reflection]] = []

    def start(minibatch: Minibatch) -> None:
        work = analyse(scope.optimizer, told, settings, minibatch, batch_index=batch.index)
        analysts.append(asyncio.ensure_future(work))
        sides.started(minibatch.kind, analysts[-1])

    try:
        label = f"step {plan.step} rollout"
        async for rollout in rollouts_in_order(scope, told.skill, batch.items, label=label, priority=Priority.STEP):
            rollouts.append(rollout)
            for analyst in analysts:
                if analyst.done():
                    analyst.result()  # what ends a run (a refused key) ends it now, not when all items are done
            closed = minibatcher.add(rollout)
            if closed is not None:
                start(closed)
        evaluation = Evaluation(tuple(rollouts))
        rolled_out(evaluation)
        for rest in minibatcher.flush():
            start(rest)
        sides.complete()
        reflections = await asyncio.gather(*analysts)
    finally:
        await cancel_all(analysts)
    return BatchResult(batch, evaluation, tuple(reflections))


def _check_analysts(scope: Scope, step: int, reflections: tuple[Reflection, ...]) -> None:
    """Ends the run when the optimizer does not work: too many analysts had no answer, or none gave a usable one.

    One useless reply, where a step has one analyst, is a step lost; a second one in a row is not chance. Replies that
    could not be read are then forgotten, so that the next process asks again and not only reads them.
    """
    context = scope.context
    failed = [reflection.error for reflection in reflections if reflection.error is not None]
    if not failed:
        return
    unanswered = sum(error.kind not in ("invalid_output", "refused", "context_overflow") for error in failed)
    max_rate = context.config.runtime.max_error_rate
    none_usable = len(failed) == len(reflections) and (len(failed) > 1 or _lost_its_analysts(context, step - 1))
    too_many = unanswered > max_rate * len(reflections) and (unanswered > 1 or len(reflections) == 1)
    if none_usable or too_many:
        detail = (
            f"optimizer: {len(failed)} of {len(reflections)} analyst calls of one step failed "
            f"(runtime.max_error_rate={max_rate:g}); the last one: {failed[-1].message}"
        )
        context.folder.journal.forget(scope.keys, STAGE)
        raise context.stop(StopRequested("error_rate", detail))


def _lost_its_analysts(context: Context, step: int) -> bool:
    """Whether every analyst of an earlier step failed."""
    record = context.folder.journal.record(f"step_{step:04d}")
    return record is not None and record["row"]["n_patches"] == 0 and bool(record["row"]["errors"].get("analyst"))


async def _select(proposal: Proposal, settings: Settings, told: OptimizerContext) -> Proposal:
    """Stage 4: the edit budget of the step, and the items within it."""
    scope, merged = proposal.scope, proposal.merged
    assert merged is not None
    config, step = scope.context.config, proposal.plan.step
    scope.context.events.emit("stage_started", step=step, stage=4)
    decision, budget = None, None
    if config.optimizer.lr_control_mode == "autonomous":
        evaluation = proposal.evaluation
        decision = await decide_learning_rate(
            scope.optimizer,
            told,
            settings,
            merged.patch,
            rollout_n=len(evaluation.scores),
            rollout_hard=evaluation.hard or 0.0,
            rollout_soft=evaluation.soft or 0.0,
        )
        budget = decision.learning_rate
    elif settings.mode != "full_rewrite_minibatch":
        budget = step_budget(scope.context, step)
    selection = await select(scope.optimizer, told, settings, merged.patch, budget)
    scope.context.events.emit(
        "stage_done",
        step=step,
        stage=4,
        merged=len(merged.patch.items),
        ranked=len(selection.patch.items),
        budget=budget,
        lr_control=config.optimizer.lr_control_mode,
        errors=int(selection.fallback is not None),
    )
    return replace(proposal, lr_decision=decision, budget=budget, selection=selection)


def step_budget(context: Context, step: int) -> int:
    """The scheduled edit budget of a step."""
    optimizer = context.config.optimizer
    schedule = make_schedule(
        optimizer.lr_scheduler, optimizer.learning_rate, optimizer.min_learning_rate, context.total_steps
    )
    return schedule.budget(step)


async def judge(
    context: Context,
    proposal: Proposal,
    baseline: GetState,
    certain: Callable[[Skill], None],
) -> RunState:
    """Stage 6 and the commit. ``baseline`` gives the state, with the first skill's scores once they are measured.

    A candidate that changes nothing is not evaluated. ``certain`` is told which skill will be current, as soon as it is
    certain.
    """
    clock = time.monotonic()
    step = proposal.plan.step
    candidate = proposal.candidate
    evaluation = verdict = None
    action: Action = "skip_no_patches" if proposal.merged is None else "skip_no_rewrite"
    if candidate is None or candidate.text == proposal.skill.text:
        certain(proposal.skill)
        before = await baseline()
        state = before.but(step=step)
        action = "skip_no_change" if candidate is not None else action
    else:
        context.events.emit("stage_started", step=step, stage=6)
        evaluation, before = await measure(
            proposal.scope,
            candidate,
            baseline,
            f"step {step} selection",
            lambda accepted: certain(candidate if accepted else proposal.skill),
        )
        state, verdict = judged(context, before.but(step=step), candidate, evaluation, f"step_{step:04d}")
        action = verdict.action
    proposal.watch.lap("evaluate", clock)
    return commit_step(context, proposal, Judgement(before, state, evaluation, verdict, action))


def commit_step(context: Context, proposal: Proposal, judgement: Judgement) -> RunState:
    """One transaction: the row, the state, the files, the replies that the step is charged with."""
    config, journal = context.config, context.folder.journal
    name = f"step_{proposal.plan.step:04d}"
    entry = buffer_entry(config, proposal, judgement)
    state = judgement.state.but(buffer=(*judgement.state.buffer, *to_json([entry] if entry else [])))
    row = history_row(config, proposal, judgement)
    row |= score_fields(config, state)
    row |= token_fields(journal.charge(name, proposal.scope.keys))
    row |= {"timing": proposal.watch.stages, "wall_time_s": round(time.monotonic() - proposal.watch.started, 1)}
    rows = [*journal.fields("step_", "row"), row]
    files = step_files(config, proposal, judgement, entry)
    files[f"steps/{name}/step_record.json"] = dump_json(row)
    files |= state_files(config, state) | {"history.json": dump_json(rows)} | lr_history(rows)
    context.meter.save()
    record = {"row": row, "state": state.model_dump()}
    context.folder.commit(name, record, files, proposal.scope.keys, behind=True)
    if judgement.verdict is not None:
        emit_verdict(context, proposal.plan.step, judgement)
    spent = {"tokens": context.meter.tokens, "cost_usd": context.meter.cost_usd}
    context.events.emit("step_done", row=row, steps=context.total_steps, **spent)
    return state


def emit_verdict(context: Context, step: int, judgement: Judgement) -> None:
    verdict = judgement.verdict
    assert verdict is not None
    context.events.emit(
        "stage_done",
        step=step,
        stage=6,
        action=judgement.action,
        candidate=verdict.candidate_score,
        current=verdict.current_score,
        best=verdict.best_score,
        n=verdict.pairs,
        errors=judgement.evaluation.errors if judgement.evaluation else 0,
    )
