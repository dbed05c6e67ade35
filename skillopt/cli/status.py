"""``skillopt status``: how far a run is, from its files alone."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from skillopt.cli.console import money, number
from skillopt.cli.edge import Shell, guarded
from skillopt.cli.endings import how_to_go_on
from skillopt.cli.options import make_parser
from skillopt.cli.runfolder import RunFiles, anchored, read_run
from skillopt.report.folder import state as state_of


@dataclass(frozen=True)
class Status:
    """A run at a glance. ``state`` is ``running``, ``finished`` or ``stopped``, ``reason`` why it stopped; scores are
    None where nothing was measured, ``go_on`` is None where nothing is left to do or it cannot be done. ``cost_usd`` is
    None where the cost of a request is not known; ``cost_known_usd`` is what the others cost."""

    root: str
    state: str
    reason: str | None
    detail: str
    steps_done: int
    steps_total: int | None
    baseline_score: float | None
    best_score: float | None
    best_step: int | None
    best_skill: str | None
    current_score: float | None
    current_origin: str | None
    actions: Mapping[str, int]
    requests: int | None
    tokens: int | None
    cost_usd: float | None
    cost_known_usd: float | None
    evaluation: Mapping[str, Any] | None
    go_on: str | None
    notes: tuple[str, ...]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the status of a run folder."""
    return guarded(lambda shell: _status(shell, argv))


def _status(shell: Shell, argv: Sequence[str] | None) -> int:
    parser = make_parser("skillopt status", "Says how far a run is. It only reads; the run may be going on.")
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    args = parser.parse_args(argv)
    status = status_of(read_run(Path(args.run)))
    lines = [json.dumps(asdict(status), ensure_ascii=False, indent=2)] if args.json else status_lines(status)
    for line in lines:
        shell.say(line)
    return 0


def status_of(files: RunFiles) -> Status:
    """What the files of a run say when they are read together."""
    state, reason, detail = state_of(
        in_use=files.in_use,
        event=files.last_event,
        summary=files.summary,
        evaluation=files.evaluation,
        has_journal=files.has_journal,
    )
    pointers, summary = files.pointers, files.summary
    last = files.rows[-1] if files.rows else {}
    best = anchored(files.root, pointers.get("best_skill_path"), "best_skill.md")
    open_end = state == "stopped" and files.has_journal and not files.evaluation
    requests, tokens = _spent(files)
    return Status(
        root=str(files.root),
        state=state,
        reason=reason,
        detail=detail,
        steps_done=max(_whole(pointers.get("last_completed_step")), _whole(last.get("step"))),
        steps_total=_total_steps(files),
        baseline_score=_number(summary.get("baseline_selection_hard")),
        best_score=_number(pointers.get("best_score", last.get("best_score"))),
        best_step=pointers.get("best_step", last.get("best_step")),
        best_skill=str(best) if best.is_file() else None,
        current_score=_number(pointers.get("current_score", last.get("current_score"))),
        current_origin=pointers.get("current_origin"),
        actions=dict(Counter(str(row.get("action")) for row in files.rows)),
        requests=requests,
        tokens=tokens,
        cost_usd=_cost(files),
        cost_known_usd=files.cost[0] if files.cost else None,
        evaluation=files.evaluation or None,
        go_on=how_to_go_on(str(files.root), detail) if open_end else None,
        notes=_notes(files),
    )


def status_lines(status: Status) -> list[str]:
    """The status for a person."""
    lines = [f"run: {status.root}", f"state: {status.state}" + (f" ({status.reason})" if status.reason else "")]
    if status.detail:
        lines.append(f"  {status.detail}")
    if status.evaluation is not None:
        found = status.evaluation
        scores = f"hard={number(_number(found.get('hard')))}  soft={number(_number(found.get('soft')))}"
        lines.append(f"evaluation of {found.get('skill')} on {found.get('split')}")
        lines.append(f"Results: {scores}  (n={found.get('n_items')})")
    else:
        lines += _training_lines(status)
    if status.tokens is not None:
        sent = "" if status.requests is None else f" in {status.requests:,} requests"
        lines += [f"tokens: {status.tokens:,}{sent}", _cost_line(status)]
    lines += [f"note: {note}" for note in status.notes]
    if status.go_on:
        lines.append(f"go on with: {status.go_on}")
    return lines


def _cost_line(status: Status) -> str:
    known = status.cost_known_usd if status.cost_usd is None else None
    return f"cost: {money(status.cost_usd)}" + (f" (at least {money(known)})" if known else "")


def _training_lines(status: Status) -> list[str]:
    total = "?" if status.steps_total is None else status.steps_total
    best = f"best: {number(status.best_score)}"
    if status.best_score is not None:
        best += f" (step {status.best_step})" + (f"  {status.best_skill}" if status.best_skill else "")
    origin = f" ({status.current_origin})" if status.current_origin else ""
    lines = [f"steps: {status.steps_done} of {total}", best, f"current: {number(status.current_score)}{origin}"]
    if status.baseline_score is not None:
        lines.insert(1, f"baseline: {number(status.baseline_score)}")
    if status.actions:
        width = max(map(len, status.actions))
        lines += ["actions:", *(f"  {action:<{width}}  {count}" for action, count in sorted(status.actions.items()))]
    return lines


def _total_steps(files: RunFiles) -> int | None:
    epochs, steps = files.config.get("num_epochs"), files.config.get("steps_per_epoch")
    return epochs * steps if isinstance(epochs, int) and isinstance(steps, int) and steps > 0 else None


def _spent(files: RunFiles) -> tuple[int | None, int | None]:
    """Requests and tokens: from the journal, else from the summary, else from the rows, whichever is there."""
    if files.spent is not None:
        return files.spent
    total = _mapping(_mapping(files.summary.get("token_summary")).get("_total"))
    if total:
        return None, _whole(total.get("total_tokens"))
    stages = [_mapping(stage) for row in files.rows for stage in _mapping(row.get("tokens")).values()]
    counted = [_whole(stage.get(key)) for stage in stages for key in ("prompt_tokens", "completion_tokens")]
    return None, sum(counted) if counted else None


def _cost(files: RunFiles) -> float | None:
    """From the journal, else from the summary; None where a part of it is not known."""
    if files.cost is not None:
        known, unknown = files.cost
        return None if unknown or not (files.spent and files.spent[0]) else known
    return _number(_mapping(_mapping(files.summary.get("cost_summary")).get("_total")).get("cost_usd"))


def _notes(files: RunFiles) -> tuple[str, ...]:
    repair = "; resuming writes it again" if files.has_journal else ""
    notes = [f"{name} is torn{repair}" for name in files.torn]
    if not files.has_journal:
        notes.append("made by another implementation or without its journal: it can be read, not continued")
    return tuple(notes)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _number(value: Any) -> float | None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) else None
