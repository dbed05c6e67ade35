"""``skillopt status``: how far a run is, from its files alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.cli.console import number
from skillopt.cli.edge import Shell, guarded
from skillopt.cli.endings import how_to_go_on
from skillopt.cli.options import make_parser
from skillopt.cli.tables import add_json, clean, json_text, shorten
from skillopt.models.pricing import money
from skillopt.report.run import RunView, read_run
from skillopt.run.progress import STAGES, Progress
from skillopt.values import fraction, text, whole
from skillopt.web.state import read_live

_WIDE = 300


@dataclass(frozen=True)
class Now:
    """What a run does at the moment. ``doing`` is the stage of the step, or what it does outside of the steps;
    ``passes`` are the sets of items that are being answered, each with how many of them are done. ``seconds_left`` is
    about how long the run still takes, None while nobody can tell."""

    epoch: int
    step: int
    steps: int
    doing: str
    passes: tuple[Mapping[str, Any], ...]
    seconds_left: float | None


@dataclass(frozen=True)
class Status:
    """A run at a glance. ``kind`` is ``training`` or ``evaluation``, ``state`` one of ``new``, ``running``,
    ``finished`` and ``stopped``, ``reason`` why it stopped. Scores are in the gate's metric, None where nothing was
    measured; ``now`` is None unless a training is running, ``go_on`` where nothing is left to do or it cannot be
    done. ``cost_usd`` is None where the cost of a request is not known; ``cost_known_usd`` is what the others cost."""

    root: str
    kind: str
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
    now: Now | None
    evaluation: Mapping[str, Any] | None
    go_on: str | None
    notes: tuple[str, ...]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the status of a run folder."""
    return guarded(lambda shell: _status(shell, argv))


def _status(shell: Shell, argv: Sequence[str] | None) -> int:
    parser = make_parser("skillopt status", "Says how far a run is. It only reads; the run may be going on.")
    parser.add_argument("run", metavar="RUN", help="run folder")
    add_json(parser)
    args = parser.parse_args(argv)
    view = read_run(Path(args.run))
    status = status_of(view, now_of(read_live(view.root).progress) if view.status == "running" else None)
    for line in [json_text(status)] if args.json else status_lines(status):
        shell.say(line)
    return 0


def now_of(progress: Progress) -> Now | None:
    """What a run does, by its events; None where they tell nothing."""
    stages = [stage.name for stage in progress.stages if stage.state == "now"]
    doing = progress.phase or "".join(stages[-1:])
    passes = tuple({"label": each.label, "done": each.done, "total": each.total} for each in progress.passes)
    if not (doing or passes):
        return None
    left = progress.seconds_left(progress.at)
    return Now(progress.epoch, progress.step, progress.steps, doing, passes, None if left is None else round(left, 1))


def status_of(view: RunView, now: Now | None = None) -> Status:
    """What a run says of itself at a glance."""
    last = view.rows[-1] if view.rows else {}
    told = {**last, **view.pointers}
    spent = view.spending()
    open_end = view.kind == "training" and view.has_journal and view.status in ("new", "stopped")
    return Status(
        root=str(view.root),
        kind=view.kind,
        state=view.status,
        reason=None if view.stop_reason == "completed" else view.stop_reason,
        detail=view.detail,
        steps_done=view.steps_done,
        steps_total=view.total_steps,
        baseline_score=view.seed_at_gate()[0],
        best_score=fraction(told.get("best_score")),
        best_step=whole(told["best_step"]) if "best_step" in told else None,
        best_skill=str(view.best_path) if view.best_path else None,
        current_score=fraction(told.get("current_score")),
        current_origin=text(told.get("current_origin")) or None,
        actions=dict(Counter(text(row.get("action")) for row in view.rows)),
        requests=spent.requests if spent else None,
        tokens=spent.tokens if spent else None,
        cost_usd=spent.usd if spent else None,
        cost_known_usd=spent.known_usd if spent else None,
        now=now,
        evaluation=view.evaluation or None,
        go_on=how_to_go_on(str(view.root), view.detail) if open_end else None,
        notes=_notes(view),
    )


def status_lines(status: Status) -> list[str]:
    """The status for a person."""
    reason = f" ({shorten(status.reason, _WIDE)})" if status.reason else ""
    lines = [f"run: {clean(status.root)}", f"state: {status.state}{reason}"]
    if status.now:
        lines.append(f"now: {_now(status.now)}")
    if status.detail:
        lines.append(f"  {shorten(status.detail, _WIDE)}")
    lines += _training_lines(status) if status.kind == "training" else _evaluation_lines(status.evaluation or {})
    if status.tokens is not None:
        sent = "" if status.requests is None else f" in {status.requests:,} requests"
        lines.append(f"tokens: {status.tokens:,}{sent}")
        lines.append(f"cost: {money(status.cost_usd, status.cost_known_usd or 0.0)}")
    lines += [f"note: {note}" for note in status.notes]
    if status.go_on:
        lines.append(f"go on with: {clean(status.go_on)}")
    return lines


def _now(now: Now) -> str:
    """``step 1 of 2, rollout 14/24, about 5 min left``."""
    in_step = now.doing in STAGES
    passes = [f"{clean(each['label'])} {each['done']}/{each['total']}" for each in now.passes]
    if in_step:
        passes = [name.removeprefix(f"step {now.step} ") for name in passes]
    where = [f"step {now.step} of {now.steps or '?'}"] if in_step else []
    doing = [clean(now.doing)] if now.doing and not any(name.startswith(now.doing) for name in passes) else []
    left = [] if now.seconds_left is None else [_left(now.seconds_left)]
    return ", ".join([*where, *doing, *passes, *left])


def _left(seconds: float) -> str:
    return "less than a minute left" if seconds < 60 else f"about {math.ceil(seconds / 60)} min left"


def _evaluation_lines(found: Mapping[str, Any]) -> list[str]:
    if not found:
        return ["evaluation without a result yet"]
    skill, split = (shorten(text(found.get(key)), _WIDE) for key in ("skill", "split"))
    scores = f"hard={number(fraction(found.get('hard')))}  soft={number(fraction(found.get('soft')))}"
    return [f"evaluation of {skill} on {split}", f"Results: {scores}  (n={whole(found.get('n_items'))})"]


def _training_lines(status: Status) -> list[str]:
    total = "?" if status.steps_total is None else status.steps_total
    best = f"best: {number(status.best_score)}"
    if status.best_score is not None:
        best += "" if status.best_step is None else f" (step {status.best_step})"
        best += f"  {clean(status.best_skill)}" if status.best_skill else ""
    origin = f" ({shorten(status.current_origin, _WIDE)})" if status.current_origin else ""
    lines = [f"steps: {status.steps_done} of {total}", best, f"current: {number(status.current_score)}{origin}"]
    if status.baseline_score is not None:
        lines.insert(1, f"baseline: {number(status.baseline_score)}")
    counts = [(shorten(action, 40) or "unknown", count) for action, count in sorted(status.actions.items())]
    if counts:
        width = max(len(action) for action, _ in counts)
        lines += ["actions:", *(f"  {action:<{width}}  {count}" for action, count in counts)]
    return lines


def _notes(view: RunView) -> tuple[str, ...]:
    torn = "; resuming writes it again" if view.has_journal else ""
    notes = [f"{problem}{torn if ' is torn' in problem else ''}" for problem in view.problems]
    if not view.has_journal:
        notes.append("made by another implementation or without its journal: it can be read, not continued")
    return tuple(notes)
