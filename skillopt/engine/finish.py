"""The end of a run: the last skill's selection score, the test of each distinct skill, the summary."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from skillopt.concurrency import gather_all
from skillopt.engine.commit import state_files
from skillopt.engine.context import Context, Priority
from skillopt.engine.evaluate import Evaluation, item_scores, mean, means
from skillopt.engine.gating import outcomes
from skillopt.engine.passes import Pass, Passes, pass_files
from skillopt.engine.state import RunState
from skillopt.engine.summary import Tests, summarise
from skillopt.gate.rules import Strict
from skillopt.run.folder import FINISH, TEST, dump_json
from skillopt.skill import Skill


async def finish(
    context: Context, passes: Passes, initial: Skill, state: RunState, meanwhile: AbstractContextManager[None]
) -> dict[str, Any]:
    """Promotes the last skill if it beats the best on the selection split, tests, commits; returns the summary.

    A trained skill meets the test split here for the first time, after the last optimizer call. Skills with the same
    content are tested once; an empty guidance block is no content. ``meanwhile`` surrounds the last selection pass.
    """
    testing = context.config.evaluation.eval_test
    current = Skill(state.current)
    final = None
    files: dict[str, bytes] = {}
    keys: set[str] = set()
    if testing and not current.same_content(Skill(state.best)):
        with meanwhile:
            final = await passes.get(current, context.selection_items, label="final selection", priority=Priority.GATE)
        files |= pass_files(context, "final_selection_eval", final)
        keys |= final.scope.keys
        state = promoted(context, state, final.evaluation)
    tests = None
    if testing and context.test_items:
        tests, test_files, test_keys = await run_tests(context, passes, initial, state)
        files |= test_files
        keys |= test_keys
    files |= state_files(context.config, state)
    final_scores = item_scores(final.evaluation) if final else state.current_scores
    # Two commits: the totals in the summary must hold what the first one is charged with.
    context.folder.commit(TEST, {"state": state.model_dump()}, files, keys)
    summary = summarise(context, state, tests, final_scores, stop_reason="completed")
    context.folder.commit(
        FINISH, {"state": state.model_dump(), "summary": summary}, {"summary.json": dump_json(summary)}
    )
    return summary


def promoted(context: Context, state: RunState, final: Evaluation) -> RunState:
    """The last skill becomes the best one when it is strictly better on the items that both have, or when there are no
    selection items to tell."""
    scores = item_scores(final)
    state = state.but(current_scores=scores)
    config = context.config.evaluation
    best = outcomes(state.best_scores)
    better = Strict(config.gate_metric, config.gate_mixed_weight).decide(final.outcomes, best, best).new_best
    if context.selection_items and not better:
        return state
    return state.but(best=state.current, best_scores=scores, best_step=state.step, best_origin=state.current_origin)


async def run_tests(
    context: Context, passes: Passes, initial: Skill, state: RunState
) -> tuple[Tests, dict[str, bytes], set[str]]:
    """The first, the best and the last skill on the test split, each distinct content once."""
    wanted = {"initial": initial, "best": Skill(state.best), "final": Skill(state.current)}
    distinct: dict[str, Skill] = {}
    for name, skill in wanted.items():
        if not any(skill.same_content(other) for other in distinct.values()):
            distinct[name] = skill

    async def test(name: str) -> Pass:
        priority = Priority.TEST if name == "initial" else Priority.GATE
        context.events.emit("test_started", name=name, n=len(context.test_items))
        return await passes.get(distinct[name], context.test_items, label=f"test {name}", priority=priority)

    done = dict(zip(distinct, await gather_all(test(name) for name in distinct), strict=True))
    found = {
        name: next(done[other] for other in distinct if distinct[other].same_content(skill))
        for name, skill in wanted.items()
    }
    files: dict[str, bytes] = {}
    for name, directory in (("initial", "test_eval_baseline"), ("best", "test_eval"), ("final", "test_eval_final")):
        files |= pass_files(context, directory, found[name])
        files[f"{directory}/summary.json"] = dump_json(by_task_type(found[name]))
    keys = set().union(*(each.scope.keys for each in done.values()))
    tests = Tests(*(item_scores(found[name].evaluation) for name in wanted))
    return tests, files, keys


def by_task_type(done: Pass) -> dict[str, Any]:
    """``{task type: {total, hard_acc}, overall: {…}}``; items that could not be measured are not counted."""
    groups: dict[str, list[float]] = {}
    for rollout in done.evaluation.rollouts:
        score = rollout.score
        if score is not None:
            kind = str(score.detail.get("task_type") or "")
            for group in filter(None, (kind, "overall")):
                groups.setdefault(group, []).append(score.hard)
    table: dict[str, Any] = {}
    for group in sorted(groups, key=lambda name: (name == "overall", name)):
        table[group] = {"total": len(groups[group]), "hard_acc": mean(groups[group])}
    overall = table.setdefault("overall", {"total": 0, "hard_acc": None})
    hard, soft = means(item_scores(done.evaluation))
    return table | {"overall": {**overall, "hard": hard, "soft": soft, "errors": done.evaluation.errors}}
