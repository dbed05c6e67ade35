"""How a training run ended, in words: what is printed where, and the exit status."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skillopt.cli.console import cost_line, number, summary_lines
from skillopt.cli.edge import status_of_stop
from skillopt.gate.stats import Lift

_UNCHANGED = {
    "no_edits_proposed": "the optimizer proposed no edit",
    "no_edit_applied": "none of the proposed edits could be applied",
    "all_rejected": "no candidate passed the gate",
    "budget_before_first_candidate": "the budget was spent before the first candidate",
}


@dataclass(frozen=True)
class Closing:
    """The last lines of a command: those for the standard output, those for the standard error, the exit status."""

    out: tuple[str, ...]
    err: tuple[str, ...]
    status: int


def closing(
    summary: Mapping[str, Any], root: str, reason: str, detail: str, spent: tuple[int, int] | None = None
) -> Closing:
    """The closing of a training run in ``root`` whose ``stop_reason`` is ``reason``; ``spent`` are its requests and
    tokens so far."""
    if reason == "completed":
        said = [f"{detail}: nothing was sent"] if detail else []
        return Closing((*said, *summary_lines(summary, root)), (), 0)
    status = status_of_stop(reason)
    lines = (*stopped_lines(summary, root, spent), f"Output saved to: {root}")
    cause = detail if reason == "interrupted" else f"stopped ({reason}): {detail}"
    last = (f"go on with: {how_to_go_on(root, detail)}", cause)
    return Closing((*lines, *last), (), status) if status == 0 else Closing(lines, last, status)


def stopped_lines(summary: Mapping[str, Any], root: str, spent: tuple[int, int] | None) -> list[str]:
    """How far a run came that has more to do."""
    return [
        f"steps={summary['total_steps']} accept={summary['total_accepts']} reject={summary['total_rejects']} "
        f"skip={summary['total_skips']}  wall={summary['total_wall_time_s']:.1f}s",
        *([f"total tokens: {spent[1]:,} in {spent[0]:,} requests"] if spent else []),
        *([cost_line(summary["cost_summary"])] if "cost_summary" in summary else []),
        best_line(summary["best_selection_hard"], summary["best_step"], os.path.join(root, "best_skill.md")),
    ]


def best_line(score: float | None, step: int | None, path: str) -> str:
    """The best skill so far; ``score`` is None before the first skill was measured."""
    if score is None:
        return "best so far: the first skill, not measured yet"
    return f"best so far: {number(score)} (step {step}) {path}"


def next_steps(summary: Mapping[str, Any], root: str) -> list[str]:
    """The last lines of a training that is complete, three at most: what is not shown, and what to type next."""
    seed = summary["no_improvement_reason"]
    doubt = doubt_of(summary)
    runs = os.path.dirname(os.path.abspath(root))
    ui = command("ui") if runs == os.path.abspath("outputs") else command("ui", "--root", runs)
    return [
        *([doubt] if doubt else []),
        f"look at it:  {command('report', root)}   or in the browser:  {ui}",
        *([] if seed else [f"use it:  {command('export', root, '--to', 'claude')}"]),
    ]


def doubt_of(summary: Mapping[str, Any]) -> str:
    """Why nobody should take the best skill for a better one; '' where the run has shown that it is."""
    seed, lift = summary["no_improvement_reason"], summary["test_lift"]
    if seed:
        return f"the best skill is the first one, unchanged: {_UNCHANGED.get(seed, seed)}"
    if not lift:
        return "no lift is shown: the best skill was not compared with the first one on test items"
    shown = Lift(**lift).shown
    if shown == "worse":
        return "on the test items the best skill is worse than the first one"
    return "" if shown else "no lift is shown: on the test items the difference may be chance"


def how_to_go_on(root: str, detail: str = "") -> str:
    """The command that goes on with a run; with a budget twice as large where ``detail`` says that it was spent."""
    cap = re.match(r"(budget\.\w+)=([\d.]+(?:e[+-]?\d+)?)", detail)
    if cap is None:
        return command("resume", root)
    larger = f"{2 * float(cap[2]):.12g}" if float(cap[2]) > 0 else "null"
    return command("resume", root, f"{cap[1]}={larger}")


def command(*words: str) -> str:
    """A ``skillopt`` command that can be pasted into this shell."""
    start = ["skillopt"] if shutil.which("skillopt") else [sys.executable, "-m", "skillopt"]
    return subprocess.list2cmdline([*start, *words]) if os.name == "nt" else shlex.join([*start, *words])
