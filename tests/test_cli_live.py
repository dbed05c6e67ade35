"""The live view: how events move it, and what it looks like at 80 columns."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pytest
from rich.console import Console

from skillopt.cli.live import LiveView, duration
from skillopt.cli.progress import Progress, after, seconds_left

START = {
    "env": "searchqa",
    "target": "gpt-5.5-mini",
    "optimizer": "gpt-5.5",
    "train": 40,
    "val": 20,
    "test": 40,
    "epochs": 4,
    "steps": 4,
    "out_root": "/runs/outputs/skillopt_searchqa_gpt-5.5_20260101_120000",
    "notes": (),
}
ROW = {
    "step": 1,
    "epoch": 1,
    "action": "accept_new_best",
    "current_score": 0.45,
    "best_score": 0.45,
    "best_step": 1,
    "cost_usd": None,
    "timing": {"rollout_s": 1.0},
    "wall_time_s": 12.0,
}


def item(label: str, done: int, total: int, hard: float | None = 1.0, **more: Any) -> dict[str, Any]:
    measured = {"accuracy": 0.625, "hard": hard, "status": "ok", "error": None}
    return {"label": label, "done": done, "total": total, "id": f"q{done}", **measured, **more}


def told(*events: tuple[str, Mapping[str, Any]], progress: Progress | None = None) -> Progress:
    progress = progress or Progress()
    for kind, fields in events:
        progress = after(progress, kind, fields)
    return progress


def test_passes_come_and_go() -> None:
    begun = told(("run_started", START), ("pass_started", {"label": "baseline", "total": 2}))
    half = told(("item_done", item("baseline", 1, 2, hard=None, tokens=700)), progress=begun)
    assert [(each.label, each.done, each.lost) for each in half.running] == [("baseline", 1, 1)]
    assert half.tokens == 700
    assert told(("item_done", item("baseline", 2, 2)), progress=half).running == ()


def test_steps_are_counted_by_what_became_of_them() -> None:
    rows = [{**ROW, "step": n, "action": a} for n, a in enumerate(("accept", "reject", "skip_no_change"), 1)]
    progress = told(("run_started", START), *(("step_done", {"row": row}) for row in rows))
    assert (progress.step, progress.accepted, progress.rejected, progress.skipped) == (3, 1, 1, 1)


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


def test_time_left_follows_the_rate_of_answers() -> None:
    begun = told(("run_started", START), ("pass_started", {"label": "step 1 rollout", "total": 40}))
    assert seconds_left(begun, 10.0) is None
    progress = told(*(("item_done", item("step 1 rollout", n, 40)) for n in range(1, 41)), progress=begun)
    planned = 20 + 4 * (40 + 20) + 2 * 40
    assert seconds_left(progress, 20.0) == pytest.approx((planned - 40) * 20.0 / 40)


def test_replayed_steps_are_behind_us_and_say_nothing_about_the_rate() -> None:
    progress = told(("run_started", START), *(("step_replayed", {"row": {**ROW, "step": n}}) for n in (1, 2)))
    assert progress.covered == 20 + 2 * (40 + 20)
    assert seconds_left(progress, 10.0) is None


def test_an_evaluation_plans_what_its_pass_holds() -> None:
    begun = told(("pass_started", {"label": "test split", "total": 10}))
    progress = told(*(("item_done", item("test split", n, 10)) for n in range(1, 6)), progress=begun)
    assert seconds_left(progress, 5.0) == pytest.approx(5.0)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (754, "12:34"), (3723, "1:02:03")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def drawn(width: int, *events: tuple[str, Mapping[str, Any]], secret: str = "") -> tuple[str, list[str]]:
    """What stands above the view, and the view itself, on a screen of ``width`` columns."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, record=True)
    clock = iter([0.0, 0.0, 30.0, 30.0, 30.0])
    mask = (lambda text: text.replace(secret, "***")) if secret else str
    view = LiveView(console, mask, clock=lambda: next(clock, 30.0))
    for kind, fields in events:
        view(kind, fields)
    above = console.export_text()
    console.print(view.render())
    return above, console.export_text().splitlines()


MIDDLE = (
    ("run_started", START),
    ("baseline_done", {"hard": 0.05, "soft": 0.1, "errors": 0, "n": 20}),
    ("epoch_started", {"epoch": 1, "epochs": 4}),
    ("step_started", {"step": 1, "steps": 4, "epoch": 1}),
    ("step_done", {"row": ROW, "steps": 4}),
    ("step_started", {"step": 2, "steps": 4, "epoch": 2}),
    ("stage_started", {"step": 2, "stage": 1}),
    ("pass_started", {"label": "step 2 rollout", "total": 40}),
    ("pass_started", {"label": "a pass whose name is much longer than its column", "total": 20}),
    *(("item_done", item("step 2 rollout", n, 40, tokens=1234567)) for n in range(1, 25)),
)


def test_the_view_at_80_columns() -> None:
    above, view = drawn(80, *MIDDLE)
    assert "BASELINE — hard=0.0500 soft=0.1000 (n=20)" in above
    assert "[STEP 1 done] epoch=1 action=accept_new_best" in above
    assert "timing:" not in above
    assert len(view) == 5
    assert all(len(line.rstrip()) <= 80 for line in view)
    assert view[0].startswith("epoch 2/4  step 2/4  1/6 ROLLOUT")
    assert view[0].rstrip().endswith("left")
    assert "24/40  acc 0.625" in view[1]
    assert view[2].startswith("a pass whose name is")
    assert view[3].startswith("current 0.4500  best 0.4500 (step 1)   accept 1  reject 0  skip 0")
    assert view[4].strip() == "tokens 1,234,567   cost unknown"


@pytest.mark.parametrize("width", [40, 60, 120])
def test_the_view_fits_other_widths(width: int) -> None:
    _, view = drawn(width, *MIDDLE)
    assert all(len(line.rstrip()) <= width for line in view)


def test_no_secret_is_shown() -> None:
    above, _ = drawn(80, ("note", {"text": "key sk-123456 refused"}), secret="sk-123456")
    assert above.strip() == "key *** refused"


def test_an_evaluation_shows_no_steps() -> None:
    _, view = drawn(
        80, ("pass_started", {"label": "test split", "total": 10}), ("item_done", item("test split", 1, 10))
    )
    assert view[0].startswith("evaluating")
    assert len(view) == 3


def test_entering_and_leaving_draws_and_clears() -> None:
    stream = io.StringIO()
    with LiveView(Console(file=stream, width=80, force_terminal=True), str) as view:
        for kind, fields in MIDDLE:
            view(kind, fields)
    assert "STEP 1 done" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")


def test_colours_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    view = LiveView(console, str)
    for kind, fields in MIDDLE:
        view(kind, fields)
    console.print(view.render())
    assert "\x1b[3" not in console.file.getvalue()  # type: ignore[attr-defined]
