"""How events move the progress of a run: steps, stages, passes, spending, the time that is left; any event may come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fakes.progress import ROW, START, item
from hypothesis import given
from hypothesis import strategies as st

from skillopt.run.progress import STAGES, PassProgress, Progress, after

Event = tuple[str, Mapping[str, Any]]


def told(*events: Event, progress: Progress | None = None, at: float | None = 0.0) -> Progress:
    progress = progress or Progress()
    for kind, fields in events:
        progress = after(progress, at, kind, fields)
    return progress


# passes


def test_passes_come_and_go() -> None:
    begun = told(("run_started", START), ("pass_started", {"label": "baseline", "total": 2}))
    half = told(("item_done", item("baseline", 1, 2, hard=None, tokens=700)), progress=begun)
    assert half.passes == (PassProgress("baseline", 2, 1, 0.625, 1),)
    assert half.tokens == 700
    assert told(("item_done", item("baseline", 2, 2)), progress=half).passes == ()


def test_lost_items_add_up() -> None:
    lost = [("item_done", item("a", n, 9, hard=None if n % 2 else 0.0)) for n in range(1, 6)]
    assert told(*lost).passes[0].lost == 3


def test_passes_keep_their_order_and_are_few() -> None:
    events = [("pass_started", {"label": f"pass {n}", "total": 3}) for n in range(20)]
    moved = told(*events, ("item_done", item("pass 13", 1, 3)))
    assert [each.label for each in moved.passes] == [f"pass {n}" for n in range(12, 20)]


# stages and phases


def test_stages_light_up_and_say_what_came_of_them() -> None:
    now = told(
        ("run_started", START),
        ("step_started", {"step": 2, "steps": 4, "epoch": 1}),
        ("stage_started", {"stage": 1, "step": 2}),
        ("stage_done", {"stage": 1, "hard": 0.5}),
        ("stage_started", {"stage": 2}),
    )
    assert (now.step, now.steps, now.epoch, now.phase) == (2, 4, 1, "")
    assert [stage.state for stage in now.stages] == ["done", "now", "", "", "", ""]
    assert now.stages[0].result == {"stage": 1, "hard": 0.5}
    assert tuple(stage.name for stage in now.stages) == STAGES
    next_step = told(("step_started", {"step": 3, "steps": 4, "epoch": 1}), progress=now)
    assert [stage.state for stage in next_step.stages] == [""] * 6


@pytest.mark.parametrize("number", [-1, 0, 7, 10**30, None, "1"])
def test_a_stage_that_there_is_not_changes_none(number: object) -> None:
    assert told(("stage_started", {"stage": number})).stages == Progress().stages


@pytest.mark.parametrize(
    ("events", "phase"),
    [
        ([("run_started", START)], "starting"),
        ([("run_started", START), ("baseline_started", {"n": 20})], "measuring the seed"),
        ([("baseline_started", {"n": 20}), ("step_started", {"step": 1})], ""),
        ([("step_done", {"row": ROW}), ("slow_update_done", {"epoch": 1})], "end of the epoch"),
        ([("test_started", {"name": "best", "n": 40})], "final test"),
        ([("test_started", {"name": "best", "n": 40}), ("run_finished", {})], ""),
    ],
)
def test_what_it_does_outside_of_the_steps(events: list[Event], phase: str) -> None:
    assert told(*events).phase == phase


@pytest.mark.parametrize("kind", ["run_finished", "run_stopped"])
def test_an_end_ends_passes_and_stages(kind: str) -> None:
    middle = told(
        ("run_started", START), ("stage_started", {"stage": 1}), ("pass_started", {"label": "rollout", "total": 6})
    )
    over = told((kind, {"reason": "x"}), progress=middle)
    assert (over.over, over.passes, over.stages[0].state) == (kind, (), "done")
    assert told(("run_started", START), progress=over).over == ""


# steps


def test_steps_are_counted_by_what_became_of_them() -> None:
    rows = [{**ROW, "step": n, "action": a} for n, a in enumerate(("accept", "reject", "skip_no_change"), 1)]
    progress = told(("run_started", START), *(("step_done", {"row": row}) for row in rows))
    assert (progress.step, progress.accepted, progress.rejected, progress.skipped) == (3, 1, 1, 1)
    again = told(("run_started", START), *(("step_replayed", {"row": row}) for row in rows), progress=progress)
    assert (again.step, again.accepted, again.rejected, again.skipped) == (3, 1, 1, 1)


# spending


def test_cost_is_unknown_until_an_event_tells_it_and_again_when_a_part_is_not_known() -> None:
    begun = told(("step_done", {"row": ROW}))
    assert begun.cost is None
    known = told(("item_done", item("baseline", 1, 2, cost_usd=0.25)), progress=begun)
    assert known.cost == 0.25
    assert told(("step_done", {"row": ROW, "tokens": 9, "cost_usd": 0.5}), progress=known).cost == 0.5
    assert told(("item_done", item("baseline", 2, 2, cost_usd=None)), progress=known).cost is None


def test_a_run_that_goes_on_begins_with_what_it_has_spent() -> None:
    start = {"epochs": 1, "steps": 1, "train": 3, "val": 2, "test": 2, "tokens": 70, "cost_usd": 1.25}
    progress = told(("run_started", start))
    assert (progress.tokens, progress.cost) == (70, 1.25)


# the time that is left


def test_time_left_follows_the_rate_of_answers() -> None:
    begun = told(("run_started", START), ("pass_started", {"label": "step 1 rollout", "total": 40}), at=100.0)
    assert begun.seconds_left(110.0) is None
    done = [("item_done", item("step 1 rollout", n, 40)) for n in range(1, 41)]
    progress = told(*done, progress=begun, at=115.0)
    planned = 20 + 4 * (40 + 20) + 2 * 40
    assert progress.seconds_left(120.0) == pytest.approx((planned - 40) * 20.0 / 40)
    assert progress.seconds_left(progress.at) == pytest.approx((planned - 40) * 15.0 / 40)


def test_the_time_of_an_earlier_process_does_not_count() -> None:
    earlier = told(("run_started", START), *(("item_done", item("baseline", n, 20)) for n in range(1, 11)), at=5.0)
    now = told(("run_started", START), progress=earlier, at=1000.0)
    assert (now.started, now.answered, now.seconds_left(1010.0)) == (1000.0, 0, None)


def test_replayed_steps_are_behind_us_and_say_nothing_about_the_rate() -> None:
    progress = told(("run_started", START), *(("step_replayed", {"row": {**ROW, "step": n}}) for n in (1, 2)))
    assert progress.covered == 20 + 2 * (40 + 20)
    assert progress.seconds_left(10.0) is None


def test_an_evaluation_plans_what_its_pass_holds() -> None:
    begun = told(("pass_started", {"label": "test split", "total": 10}))
    progress = told(*(("item_done", item("test split", n, 10)) for n in range(1, 6)), progress=begun)
    assert progress.seconds_left(5.0) == pytest.approx(5.0)


def test_without_the_start_or_the_time_nobody_knows() -> None:
    done = [("item_done", item("step 9 rollout", n, 40)) for n in range(1, 31)]
    begun = ("pass_started", {"label": "step 9 rollout", "total": 40})
    assert told(begun, *done, progress=Progress(planned=None)).seconds_left(9.0) is None
    assert told(begun, *done, at=None).seconds_left(9.0) is None
    assert told(begun, *done).seconds_left(None) is None


# any event

KINDS = (
    "run_started",
    "run_finished",
    "baseline_done",
    "step_started",
    "step_done",
    "step_replayed",
    "stage_started",
    "stage_done",
    "pass_started",
    "item_done",
    "note",
    "what is this",
)
NAMES = ("step", "steps", "epochs", "train", "stage", "label", "done", "total", "hard", "text", "accuracy", "cost_usd")
VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**400)
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.integers(), max_size=2)
)
ANY_FIELDS = st.dictionaries(st.sampled_from(NAMES), VALUES)
ROWS = st.dictionaries(st.sampled_from(("step", "epoch", "action", "best_score", "best_step")), VALUES) | VALUES


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), ANY_FIELDS, ROWS, st.none() | st.floats(allow_nan=False)), max_size=12)
)
def test_no_event_breaks_the_progress(events: list[tuple[str, dict[str, Any], Any, float | None]]) -> None:
    progress = Progress()
    for kind, fields, row, at in events:
        progress = after(progress, at, kind, {**fields, "row": row})
    assert len(progress.stages) == 6
    assert all(0 <= each.done < each.total or each.done == 0 for each in progress.passes)
    left = progress.seconds_left(progress.at)
    assert left is None or left >= 0
