"""What a run prints where no terminal is: one line an event, in the form that scripts match."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from skillopt.gate.stats import Lift
from skillopt.models.pricing import money
from skillopt.run.progress import STAGES

_GATE_WORDS = {
    "accept_new_best": "ACCEPT (new best)",
    "accept": "ACCEPT",
    "force_accept": "FORCE-ACCEPT",
    "reject": "REJECT",
}


class ConsoleLines:
    """Event listener that prints the lines of a training run."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def __call__(self, kind: str, fields: Mapping[str, Any]) -> None:
        for line in lines_of(kind, fields):
            self._write(line)


def lines_of(kind: str, fields: Mapping[str, Any]) -> list[str]:
    """The lines of an event; none for one that only a display needs."""
    render = _LINES.get(kind)
    return render(fields) if render is not None else []


def number(value: float | None) -> str:
    """A score with four decimals, ``n/a`` when it was not measured."""
    return "n/a" if value is None else f"{value:.4f}"


def cost_line(costs: Mapping[str, Any]) -> str:
    """What a run cost, from the ``cost_summary`` of its summary: in all, and by role."""
    whole = costs["_total"]
    parts = [f"{role} {money(each['cost_usd'])}" for role, each in costs.items() if role != "_total"]
    told = [f"total cost: {money(whole['cost_usd'], whole['known_usd'])}"]
    told += [", ".join(parts)] if len(parts) > 1 else []
    if whole["cost_usd"] is None and whole["known_usd"]:
        told.append(f"{whole['unknown_requests']:,} requests of unknown cost")
    return "; ".join(told)


def _run_started(f: Mapping[str, Any]) -> list[str]:
    return [
        f"target: {f['target']}   optimizer: {f['optimizer']}",
        f"env: {f['env']}   items: train={f['train']} val={f['val']} test={f['test']}   "
        f"epochs={f['epochs']} steps={f['steps']}",
        *f.get("notes", ()),
        f"run folder: {f['out_root']}",
    ]


def _item_done(f: Mapping[str, Any]) -> list[str]:
    accuracy = "n/a" if f["accuracy"] is None else f"{f['accuracy']:.3f}"
    head = f"[rollout] {f['done']}/{f['total']} (acc={accuracy}) id={f['id']}"
    of = f"  ({f['label']})"  # several passes go on at once
    if f["status"] == "timeout":
        return [f"{head} TIMEOUT{of}"]
    if f["hard"] is None:
        return [f"{head} NOT MEASURED{of}: {f['error']}"]
    return [f"{head} hard={f['hard']:g}{of}"]


def _stage_started(f: Mapping[str, Any]) -> list[str]:
    if f["stage"] == 5:  # the update is instantaneous: its one line comes when it is done
        return []
    name = STAGES[f["stage"] - 1]
    return [f"[{f['stage']}/6 {name.upper()}{' minibatch' if name == 'reflect' else ''}]"]


def _stage_done(f: Mapping[str, Any]) -> list[str]:
    stage = f["stage"]
    if stage == 1:
        line = f"[1/6 done] hard={number(f['hard'])} soft={number(f['soft'])}"
    elif stage == 2:
        line = f"[2/6 done] failure_patches={f['failure_patches']} success_patches={f['success_patches']}"
    elif stage == 3:
        line = f"[3/6 done] merged {f['patches']} patches into {f['merged']} items"
    elif stage == 4:
        line = f"[4/6 SELECT] {f['merged']} -> {f['ranked']} items (budget={f['budget']}, lr_control={f['lr_control']})"
    elif stage == 5:
        line = f"[5/6 UPDATE] skill_len {f['before']} -> {f['after']}"
    else:
        word = _GATE_WORDS.get(f["action"], f["action"].upper())
        line = (
            f"[6/6 EVALUATE] {word}  candidate={number(f['candidate'])} current={number(f['current'])} "
            f"best={number(f['best'])} (n={f['n']})"
        )
    lost = f.get("errors")
    return [line, *([f"  not measured or lost: {lost}"] if lost else [])]


def _step_done(f: Mapping[str, Any]) -> list[str]:
    row = f["row"]
    timing = "  ".join(f"{stage}={seconds:.1f}" for stage, seconds in row["timing"].items())
    return [
        f"[STEP {row['step']} done] epoch={row['epoch']} action={row['action']} "
        f"current={number(row['current_score'])} best={number(row['best_score'])} dt={row['wall_time_s']:.1f}s",
        f"  timing: {timing}",
        *([f"  cost: {money(row['cost_usd'])}"] if "cost_usd" in row else []),
    ]


def _replayed(f: Mapping[str, Any]) -> list[str]:
    row = f["row"]
    return [f"[STEP {row['step']}/{f['steps']}] already done: {row['action']} best={number(row['best_score'])}"]


def _epoch_part(name: str) -> Callable[[Mapping[str, Any]], list[str]]:
    return lambda f: [f"[{name} epoch {f['epoch']}] {f['action']}" + (f": {f['detail']}" if f.get("detail") else "")]


_LINES: Mapping[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "run_started": _run_started,
    "note": lambda f: [f["text"]],
    "baseline_started": lambda f: [f"BASELINE — evaluate the first skill on {f['n']} selection items"],
    "baseline_done": lambda f: [
        f"BASELINE — hard={number(f['hard'])} soft={number(f['soft'])} (n={f['n'] - f['errors']})"
    ],
    "epoch_started": lambda f: [f"[EPOCH {f['epoch']}/{f['epochs']}]"],
    "step_started": lambda f: [f"[STEP {f['step']}/{f['steps']}] epoch {f['epoch']}"],
    "step_replayed": _replayed,
    "item_done": _item_done,
    "stage_started": _stage_started,
    "stage_done": _stage_done,
    "step_done": _step_done,
    "slow_update_done": _epoch_part("SLOW UPDATE"),
    "meta_skill_done": _epoch_part("META SKILL"),
    "test_started": lambda f: [f"TEST — evaluate the {f['name']} skill on {f['n']} items"],
}


def summary_lines(summary: Mapping[str, Any], out_root: str) -> list[str]:
    """The closing block of a training run."""
    lines = [
        f"steps={summary['total_steps']} accept={summary['total_accepts']} reject={summary['total_rejects']} "
        f"skip={summary['total_skips']}",
        f"best_score={number(summary['best_selection_hard'])} (step {summary['best_step']})  "
        f"wall={summary['total_wall_time_s']:.1f}s",
    ]
    if summary["baseline_selection_hard"] is not None:
        lines.append(f"baseline on the selection items: {number(summary['baseline_selection_hard'])}")
    if summary["no_improvement_reason"]:
        lines.append(f"no improvement: {summary['no_improvement_reason']}")
    if summary["test_hard"] is not None:
        lines += [
            f"{name} test hard={number(summary[f'{key}_hard'])} soft={number(summary[f'{key}_soft'])}"
            for name, key in (
                ("[1] init/baseline ", "baseline_test"),
                ("[2] best-on-val   ", "test"),
                ("[3] final/last    ", "final_test"),
            )
        ]
        lines += lift_lines(summary["test_lift"])
    total = summary["token_summary"]["_total"]
    lines += [
        f"total tokens: {total['total_tokens']:,} ({total['prompt_tokens']:,} prompt, "
        f"{total['completion_tokens']:,} completion) in {total['calls']:,} calls",
        *([cost_line(summary["cost_summary"])] if "cost_summary" in summary else []),
        f"best skill: {out_root}/best_skill.md",
        f"Output saved to: {out_root}",
    ]
    if summary["test_hard"] is not None:
        lines.append(f"Final test: {number(summary['test_hard'])}")
    return lines


def lift_lines(lift: Mapping[str, Any] | None) -> list[str]:
    """The paired lift of a summary (``test_lift``), and what to mind of it."""
    if not lift:
        return []
    interval = f"[{lift['low']:+.4f}, {lift['high']:+.4f}]"
    return [
        f"paired lift on the held-out test: {lift['lift']:+.4f}  95% interval {interval}  "
        f"p={lift['p_value']:.2g}  (n={lift['n']}, fixed={lift['wins']}, broken={lift['losses']})",
        *(
            ["  the interval holds 0: this run has not shown that the skill helps"]
            if Lift(**lift).shown is None
            else []
        ),
    ]
