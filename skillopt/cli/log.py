"""``skillopt log``: the steps of a run, one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillopt.cli.console import money
from skillopt.cli.edge import Shell, guarded
from skillopt.cli.options import make_parser
from skillopt.cli.tables import (
    DIM,
    GREEN,
    RED,
    add_color,
    add_json,
    json_text,
    paint,
    shorten,
    table,
    terminal_width,
    wants_color,
)
from skillopt.report.run import RunView, read_run
from skillopt.report.steps import StepView
from skillopt.report.values import fraction, text, whole

_EDIT_WIDTH = 60


@dataclass(frozen=True)
class LoggedEdit:
    """An edit of a step: the operation, its words, and what became of it."""

    op: str
    content: str
    status: str


@dataclass(frozen=True)
class LogEntry:
    """A step, or the slow update of an epoch (``step`` is then the last step before it). ``score`` is the candidate's
    on the selection items, ``before`` that of the skill it would replace, ``change`` their difference; None where
    nothing was measured. ``wins`` and ``losses`` count the items that rose and fell among ``n``."""

    kind: str
    step: int
    epoch: int | None
    action: str
    before: float | None
    score: float | None
    change: float | None
    n: int | None
    wins: int | None
    losses: int | None
    edits: tuple[LoggedEdit, ...]
    tokens: int | None
    cost_usd: float | None


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the steps of a run."""
    return guarded(lambda shell: _log(shell, argv))


def _log(shell: Shell, argv: Sequence[str] | None) -> int:
    parser = make_parser(
        "skillopt log", "Prints one line a step, the newest first: action, score, edits. It only reads."
    )
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument("-n", "--number", type=int, metavar="N", help="only the last N lines")
    parser.add_argument("--reverse", action="store_true", help="the oldest first")
    add_color(parser)
    add_json(parser)
    args = parser.parse_args(argv)
    view = read_run(Path(args.run))
    entries = log_of(view)
    kept = entries[-args.number :] if args.number else entries
    if not args.reverse:
        kept.reverse()
    if args.json:
        shell.say(json_text(kept))
        return 0
    lines = log_lines(kept, color=wants_color(args.color), width=terminal_width())
    for line in lines or [f"{view.root} has no finished step yet"]:
        shell.say(line)
    return 0


def log_of(view: RunView) -> list[LogEntry]:
    """The steps of a run and the slow updates between them, the oldest first."""
    entries: list[LogEntry] = []
    seed = view.measured("seed", "val")
    current = _gate_score(view.config, seed.hard, seed.soft)
    steps = [step for step in (view.step(number) for number in view.steps) if step is not None and step.row]
    ends = {whole(step.row.get("epoch")): step.number for step in steps}
    for step in steps:
        entries.append(entry_of(step, current))
        current = fraction(step.row.get("current_score"))
        epoch = whole(step.row.get("epoch"))
        if ends[epoch] == step.number and (slow := _slow(view, epoch, step.number, current)) is not None:
            entries.append(slow)
            if "accept" in slow.action:
                current = slow.score
    return entries


def entry_of(step: StepView, before: float | None) -> LogEntry:
    """The entry of a step; ``before`` is the score of the skill that it began with, where the gate does not tell it."""
    row, gate = step.row, step.gate
    score, own = fraction(gate.get("candidate_score")), fraction(gate.get("current_score"))
    before = own if own is not None else before
    pairs = whole(gate.get("pairs")) or None
    return LogEntry(
        kind="step",
        step=step.number,
        epoch=whole(row.get("epoch")) or None,
        action=step.action,
        before=before if score is not None else None,
        score=score,
        change=score - before if score is not None and before is not None else None,
        n=pairs,
        wins=whole(gate.get("wins")) if pairs else None,
        losses=whole(gate.get("losses")) if pairs else None,
        edits=tuple(LoggedEdit(edit.op, edit.content, edit.status) for edit in step.edits),
        tokens=step.tokens,
        cost_usd=fraction(row.get("cost_usd")),
    )


def log_lines(entries: Sequence[LogEntry], *, color: bool = False, width: int | None = None) -> list[str]:
    """The entries for a person, one line of at most ``width`` characters each."""
    if not entries:
        return []
    head = ("step", "epoch", "action", "score", "change", "items", "tokens", "cost", "edits")
    lines = [line[:width] for line in table(head, [_cells(entry) for entry in entries], right=(0, 1, 6, 7))]
    shades = [_shade(entry) for entry in entries]
    return [lines[0], *(paint(line, shade, on=color) for line, shade in zip(lines[1:], shades, strict=True))]


def _cells(entry: LogEntry) -> tuple[str, ...]:
    scored = entry.score is not None
    before = "" if entry.before is None else f"{entry.before:.4f} -> "
    items = "" if entry.n is None else f"n={entry.n} +{entry.wins} -{entry.losses}"
    return (
        str(entry.step) if entry.kind == "step" else "",
        "" if entry.epoch is None else str(entry.epoch),
        shorten(entry.action, 24) if entry.kind == "step" else f"slow update: {shorten(entry.action, 20)}",
        f"{before}{entry.score:.4f}" if scored else "",
        "" if entry.change is None else f"{entry.change:+.4f}",
        items,
        "" if entry.tokens is None else f"{entry.tokens:,}",
        "" if entry.cost_usd is None else money(entry.cost_usd),
        _edits(entry.edits),
    )


def _edits(edits: Sequence[LoggedEdit]) -> str:
    if not edits:
        return ""
    applied = sum(edit.status.startswith("applied") for edit in edits)
    made = [edit for edit in edits if edit.status.startswith("applied") or edit.status == "suggested"]
    counted = f"{applied}/{len(edits)}" if any(edit.status != "suggested" for edit in edits) else str(len(edits))
    words = "; ".join(f"{shorten(edit.op, 16)}: {shorten(edit.content, _EDIT_WIDTH)}" for edit in made[:2])
    more = f"; {len(made) - 2} more" if len(made) > 2 else ""
    return f"{counted} {words}{more}".rstrip()


def _shade(entry: LogEntry) -> str:
    if "accept" in entry.action:
        return GREEN
    return RED if entry.action == "reject" else DIM


def _slow(view: RunView, epoch: int, step: int, current: float | None) -> LogEntry | None:
    """The slow update of an epoch, unless it only put an empty block in."""
    result = view.epoch(epoch).slow
    action = text(result.get("action"))
    if action in ("", "inject_placeholder"):
        return None
    score = _gate_score(view.config, fraction(result.get("selection_hard")), fraction(result.get("selection_soft")))
    change = score - current if score is not None and current is not None else None
    content = text(result.get("slow_update_content"))
    edits = (LoggedEdit("guidance", content, "applied"),) if content else ()
    return LogEntry(
        kind="slow_update",
        step=step,
        epoch=epoch,
        action=action,
        before=current if score is not None else None,
        score=score,
        change=change,
        n=None,
        wins=None,
        losses=None,
        edits=edits,
        tokens=None,
        cost_usd=None,
    )


def _gate_score(config: Mapping[str, Any], hard: float | None, soft: float | None) -> float | None:
    """Both scores as the run's gate sees them; None where it cannot."""
    metric, weight = config.get("gate_metric") or "hard", fraction(config.get("gate_mixed_weight"))
    if hard is None or metric == "hard":
        return hard
    weight = 0.5 if weight is None else weight
    if soft is None or not 0 <= weight <= 1:
        return None
    return soft if metric == "soft" else (1 - weight) * hard + weight * soft
