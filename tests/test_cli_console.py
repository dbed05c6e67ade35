"""The lines that other tools match, each against the form that the specification gives."""

from __future__ import annotations

import re
from typing import Any

import pytest

from skillopt.cli.console import ConsoleLines, lines_of, number, summary_lines

ROW: dict[str, Any] = {
    "step": 3,
    "epoch": 2,
    "action": "accept_new_best",
    "current_score": 0.5,
    "best_score": 0.625,
    "best_step": 3,
    "timing": {"rollout_s": 1.0, "reflect_s": 0.5},
    "wall_time_s": 2.25,
}
ITEM = {"label": "step 1", "done": 3, "total": 40, "id": "q7", "accuracy": 0.6667, "hard": 1.0, "error": None}

ANCHORS = [
    ("epoch_started", {"epoch": 2, "epochs": 4}, r"\[EPOCH 2/4\]"),
    ("step_started", {"step": 3, "steps": 16, "epoch": 2}, r"\[STEP 3/16\] "),
    ("step_replayed", {"row": ROW, "steps": 16}, r"\[STEP 3/16\] already done: accept_new_best"),
    ("stage_started", {"step": 3, "stage": 1}, r"\[1/6 ROLLOUT\]$"),
    ("stage_started", {"step": 3, "stage": 2}, r"\[2/6 REFLECT minibatch\]$"),
    ("stage_started", {"step": 3, "stage": 3}, r"\[3/6 AGGREGATE\]$"),
    ("stage_started", {"step": 3, "stage": 4}, r"\[4/6 SELECT\]$"),
    ("stage_started", {"step": 3, "stage": 6}, r"\[6/6 EVALUATE\]$"),
    ("stage_done", {"stage": 1, "hard": 0.5, "soft": 0.25, "errors": 0}, r"\[1/6 done\] hard=0\.5000 soft=0\.2500$"),
    (
        "stage_done",
        {"stage": 2, "failure_patches": 3, "success_patches": 2, "errors": 0},
        r"\[2/6 done\] failure_patches=3 success_patches=2$",
    ),
    ("stage_done", {"stage": 3, "patches": 5, "merged": 4, "errors": 0}, r"\[3/6 done\] merged 5 "),
    (
        "stage_done",
        {"stage": 4, "merged": 6, "ranked": 4, "budget": 4, "lr_control": "fixed", "errors": 0},
        r"\[4/6 SELECT\] 6 -> 4 .*\(budget=4, lr_control=fixed\)$",
    ),
    ("stage_done", {"stage": 5, "before": 120, "after": 180}, r"\[5/6 UPDATE\] skill_len 120 -> 180$"),
    ("item_done", {**ITEM, "status": "ok"}, r"\[rollout\] 3/40 \(acc=0\.667\) id=q7 hard=1  \(step 1\)$"),
    ("item_done", {**ITEM, "hard": 0.5, "status": "ok"}, r"\[rollout\] 3/40 \(.*\) id=q7 hard=0\.5  \(step 1\)$"),
    ("item_done", {**ITEM, "hard": None, "status": "timeout"}, r"\[rollout\] 3/40 .* id=q7 TIMEOUT  \(step 1\)$"),
    (
        "item_done",
        {**ITEM, "accuracy": None, "hard": None, "status": "infra_error", "error": "HTTP 500"},
        r"\[rollout\] 3/40 \(acc=n/a\) id=q7 NOT MEASURED  \(step 1\): HTTP 500$",
    ),
    (
        "step_done",
        {"row": ROW, "steps": 16},
        r"\[STEP 3 done\] epoch=2 action=accept_new_best current=0\.5000 best=0\.6250 dt=2\.2s\n"
        r"  timing: rollout_s=1\.0  reflect_s=0\.5$",
    ),
    ("step_done", {"row": {**ROW, "cost_usd": 0.0123}, "steps": 16}, r"(?s).*\n  cost: \$0\.0123$"),
    ("step_done", {"row": {**ROW, "cost_usd": None}, "steps": 16}, r"(?s).*\n  cost: unknown$"),
    ("slow_update_done", {"epoch": 2, "action": "reject"}, r"\[SLOW UPDATE epoch 2\]"),
    ("meta_skill_done", {"epoch": 2, "action": "write_meta_skill"}, r"\[META SKILL epoch 2\]"),
    ("baseline_started", {"n": 20}, r"BASELINE — evaluate "),
    ("note", {"text": "loading the model"}, r"loading the model$"),
]


@pytest.mark.parametrize(("kind", "fields", "pattern"), ANCHORS)
def test_anchor(kind: str, fields: dict[str, Any], pattern: str) -> None:
    assert re.match(pattern, "\n".join(lines_of(kind, fields)))


@pytest.mark.parametrize(
    ("action", "word"),
    [
        ("accept_new_best", "ACCEPT (new best)"),
        ("accept", "ACCEPT"),
        ("force_accept", "FORCE-ACCEPT"),
        ("reject", "REJECT"),
    ],
)
def test_the_gate_says_its_verdict(action: str, word: str) -> None:
    fields = {"stage": 6, "action": action, "candidate": 0.5, "current": 0.4, "best": 0.4, "n": 20, "errors": 0}
    (line,) = lines_of("stage_done", fields)
    assert line.startswith(f"[6/6 EVALUATE] {word}  candidate=0.5000 ")


def test_what_was_lost_is_said_below_the_stage() -> None:
    lines = lines_of("stage_done", {"stage": 1, "hard": None, "soft": None, "errors": 2})
    assert lines == ["[1/6 done] hard=n/a soft=n/a", "  not measured or lost: 2"]


def test_an_event_without_a_line_prints_nothing() -> None:
    written: list[str] = []
    ConsoleLines(written.append)("pass_started", {"label": "baseline", "total": 3})
    assert written == []


def summary(**changes: Any) -> dict[str, Any]:
    lift = {"before_mean": 0.4, "after_mean": 0.65, "lift": 0.25, "low": 0.1, "high": 0.4, "p_value": 0.012}
    lift |= {"n": 40, "wins": 12, "losses": 2}
    total = {"calls": 1200, "total_tokens": 34567, "prompt_tokens": 30000, "completion_tokens": 4567}
    return {
        "total_steps": 4,
        "total_accepts": 2,
        "total_rejects": 1,
        "total_skips": 1,
        "baseline_selection_hard": 0.25,
        "best_selection_hard": 0.75,
        "best_step": 3,
        "total_wall_time_s": 12.34,
        "no_improvement_reason": None,
        "baseline_test_hard": 0.4,
        "baseline_test_soft": 0.5,
        "test_hard": 0.65,
        "test_soft": 0.7,
        "final_test_hard": 0.6,
        "final_test_soft": 0.7,
        "test_lift": lift,
        "token_summary": {"_total": total},
        **changes,
    }


def test_the_closing_block() -> None:
    text = "\n".join(summary_lines(summary(), "/runs/x"))
    for line in (
        "steps=4 accept=2 reject=1 skip=1",
        "best_score=0.7500 (step 3)  wall=12.3s",
        "baseline on the selection items: 0.2500",
        "[1] init/baseline  test hard=0.4000 soft=0.5000",
        "[2] best-on-val    test hard=0.6500 soft=0.7000",
        "[3] final/last     test hard=0.6000 soft=0.7000",
        "paired lift on the held-out test: +0.2500  95% interval [+0.1000, +0.4000]  p=0.012  "
        "(n=40, fixed=12, broken=2)",
        "total tokens: 34,567 (30,000 prompt, 4,567 completion) in 1,200 calls",
        "Output saved to: /runs/x",
        "Final test: 0.6500",
    ):
        assert line in text.splitlines()


def costs(target: float | None, optimizer: float | None) -> dict[str, Any]:
    def part(usd: float | None, known: float = 0.0) -> dict[str, Any]:
        return {"requests": 9, "cost_usd": usd, "known_usd": known if usd is None else usd, "unknown_requests": 7}

    known = [usd for usd in (target, optimizer) if usd is not None]
    whole = sum(known) if len(known) == 2 else None
    return {"target": part(target), "optimizer": part(optimizer), "_total": part(whole, sum(known))}


@pytest.mark.parametrize(
    ("target", "optimizer", "line"),
    [
        (0.25, 1.5, "total cost: $1.75; target $0.2500, optimizer $1.50"),
        (
            0.25,
            None,
            "total cost: unknown (at least $0.2500); target $0.2500, optimizer unknown; 7 requests of unknown cost",
        ),
        (None, None, "total cost: unknown; target unknown, optimizer unknown"),
    ],
)
def test_the_closing_block_tells_the_cost(target: float | None, optimizer: float | None, line: str) -> None:
    assert line in summary_lines(summary(cost_summary=costs(target, optimizer)), "/runs/x")


def test_without_a_test_there_is_no_final_test_line() -> None:
    lines = summary_lines(summary(test_hard=None, test_lift=None, no_improvement_reason="all_rejected"), "/runs/x")
    assert lines[-1] == "Output saved to: /runs/x"
    assert "no improvement: all_rejected" in lines


def test_a_score_that_was_not_measured_has_no_digits() -> None:
    assert (number(None), number(0.0), number(1 / 3)) == ("n/a", "0.0000", "0.3333")
